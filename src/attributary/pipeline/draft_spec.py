"""draft_spec: a spec for logs that nobody has described yet, by what is in their columns; what is guessed says so.

>>> draft = draft_spec("impressions.csv", "conversions.csv")
>>> print(draft.text)                            # TOML with comments, to edit
>>> draft.guesses                                # what to look at first
"""

import json
import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from attributary.errors import InputError, first_few, one_line
from attributary.logs.duckdb import DuckDB
from attributary.logs.log_columns import (
    CLOCK_WORDS,
    EARLIEST,
    LATEST,
    PER_SECOND,
    Clock,
    LogTable,
    Unit,
    clock_of,
    duration_of,
    sample_cells,
    time_of,
)
from attributary.logs.log_files import CastError, Engine, Report, files
from attributary.spec import Spec
from attributary.spec.attribute import TAKEN
from attributary.spec.measure import ADDED

MISSING = ", ".join(f"'{word}'" for word in ("NA", "N/A", "NULL", "null", "None", "NaN", "nan", "\\N"))
MOST_COLUMNS = 500
TIMES = {"time", "timestamp", "ts", "date", "datetime", "at", "when", "epoch"}  # words in a column's name
DELAYS = {"delay", "lag", "since", "duration"}
CONVERTED = {"conversion", "conversions", "converted", "conv", "sale", "sales", "sold", "purchase", "purchased"}
USERS = ("user", "uid", "userid", "visitor", "cookie", "customer", "person", "member", "email", "click", "gclid", "id")
MUST_AGREE = {"advertiser", "merchant", "shop", "store", "site", "destination"}
FIRST = ("advertiser", "partner", "merchant", "brand", "campaign", "cmp")  # attributes at the top
FLAGS = {"0", "1", "true", "false", "t", "f"}
CLOCKS: dict[str, Clock] = {"date": "date", "time": "time", "zoned": "zoned", "whole": "number", "number": "number"}
IN_ORDER = ("mon tue wed thu fri sat sun", "jan feb mar apr may jun jul aug sep oct nov dec")
WINDOWS = (1, 7, 14, 30, 60, 90)  # days
COVERED = 0.95  # of the delays are within the window, where one is long enough
DAY = 86_400 * 10**6  # microseconds
BUCKETS = 15  # of the delay
WHOLE = re.compile(r"0|-?[1-9][0-9]{0,14}")  # as a range writes it
MOST_KNOWN, MOST_LISTED, KNOWN_LEVELS = 1000, 100, 3
HEAD = """\
# A draft by `attributary init`, from what is in the logs. Check what is marked "guessed", edit, and run:
#     attributary run {name}
epsilon = 4                    # guessed: the privacy budget; less is more private, and noisier
tau = 10                       # guessed: below this count, errors stop being relative to the count

# The levels of the tree, top to bottom:"""

TARGET = '# error = 0.05               # a target: its error at most 5 %; epsilon = "auto": the least that meets it'


class SpecDraft(NamedTuple):
    """A spec to edit, as TOML with comments, and what was recognised and guessed in it."""

    text: str
    recognised: tuple[str, ...]
    guesses: tuple[str, ...]

    @property
    def spec(self) -> Spec:
        return Spec.parse(self.text, "the draft")


def draft_spec(
    impressions: str, conversions: str | None = None, output: str = "spec.toml", *, report: Report | None = None
) -> SpecDraft:
    """A commented spec for two logs, or for one whose rows have their conversions; names may be patterns or folders.

    It is to be written to `output`, and names the files relative to that. What is in the columns tells keys, times,
    attributes and domains. InputError where no column joins the logs, or none says which rows have a conversion.
    """
    two = {"impressions": impressions, "conversions": conversions or ""}
    names, made = {"attributed": impressions} if conversions is None else two, _Draft()
    try:
        with DuckDB(report=report) as engine:
            logs = [profile_log(engine, name) for name in names.values()]
            columns = [column for log in logs for column in log.columns.values()]
            missing = tuple(dict.fromkeys(cell for column in columns for cell in column.missing))
            logs = [profile_log(engine, name, missing) for name in names.values()] if missing else logs
            roles = _one_log(made, *logs) if conversions is None else _two_logs(made, *logs)
    except CastError as error:
        raise InputError(f"not all times are in the form of the first ones, or in range ({error!s:.80})") from None
    folder = os.path.dirname(os.path.abspath(output))
    paths = {side: name if "://" in name else os.path.relpath(name, folder) for side, name in names.items()}
    section = ["", "[logs]", *(f"{side} = {_toml(path)}" for side, path in paths.items()), *roles]
    if missing:
        cells = [int(cell) if cell == "-1" else cell for cell in missing]
        section.append(made.line(f"missing = {_toml(cells)}", "cells that seem to stand for a missing value"))
    order = "which attributes, and their order: first what is read first"
    levels = made.line(f"# {' > '.join(map(one_line, made.names))}", order)
    after = [""] * bool(made.after) + made.after
    lines = [HEAD.format(name=one_line(os.path.basename(output))), levels, *made.attributes, *section, *after]
    draft = SpecDraft("\n".join(lines) + "\n", tuple(made.recognised), tuple(made.guesses))
    assert draft.spec
    return draft


@dataclass
class _Draft:
    """The parts of a draft as they are found."""

    attributes: list[str] = field(default_factory=list)
    after: list[str] = field(default_factory=list)  # comments at the end
    recognised: list[str] = field(default_factory=list)
    guesses: list[str] = field(default_factory=list)
    names: list[str] = field(default_factory=list)  # of the attributes
    renamed: dict[str, str] = field(default_factory=dict)  # what a file calls an attribute, if its name is taken

    def line(self, line: str, guess: str) -> str:
        """The line, marked if it is a guess, which is also noted."""
        if not guess:
            return line
        plain = line.removeprefix("# ")
        self.guesses.append(f"{plain[:60]}{'…' * (len(plain) > 60)} ({guess})")
        mark = f"# guessed: {guess}"
        return f"{line:<30} {mark}" if len(line) + len(mark) < 110 else f"{mark}\n{line}"

    def attribute(self, column: str, *lines: str, unknown: bool = False) -> None:
        name = column
        while name in TAKEN | ADDED | {*self.names}:
            name += "_label"
        self.names.append(name)
        self.renamed |= {} if name == column else {name: column}
        late, early = "unknown = true                 # known only at conversion time", "# known: an impression has it"
        target = [] if self.attributes else [TARGET]
        self.attributes += ["", "[[attribute]]", f"name = {_toml(name)}", late if unknown else early, *lines, *target]


# What is in the columns of a log that nobody has described yet.

FIGURES = (
    "COUNT({0})",
    "APPROX_COUNT_DISTINCT({0})",
    "COUNT({1})",
    "COUNT(*) FILTER (REGEXP_FULL_MATCH({0}, '[-+]?[0-9]+'))",
    "MIN({1}) FILTER (ISFINITE({1}))",
    "MAX({1}) FILTER (ISFINITE({1}))",
    "COUNT(*) FILTER ({0} = '-1') > 0 AND MIN({1}) FILTER ({0} <> '-1') >= 0",
    f"ARRAY_AGG(DISTINCT {{0}}) FILTER ({{0}} IN ({MISSING}))",
)  # of a column: {0} is a cell as text, {1} as a number


class LogColumn(NamedTuple):
    """A column and what is in it; missing cells are left out."""

    name: str
    clock: Clock | None  # of its cells, were they times
    labels: bool  # whether its type is one that labels and keys have
    present: int
    distinct: int  # about
    numbers: int  # cells that are
    whole: int
    least: float
    most: float
    missing: tuple[str, ...]  # cells that look as if they meant a missing value

    @property
    def words(self) -> list[str]:
        """The words of its name in lower case: campaignId is campaign, id."""
        return [word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+", self.name)]

    @property
    def is_amount(self) -> bool:
        """Whether it holds amounts, such as prices, rather than labels."""
        return 0 < self.numbers == self.present and self.whole < self.present

    @property
    def unit(self) -> Unit:
        """The unit of its cells, were they times that count from 1970."""
        return next((unit for unit, per in PER_SECOND.items() if self.most < LATEST * per), "ns")

    @property
    def counts_from_1970(self) -> bool:
        return self.least >= EARLIEST * PER_SECOND[self.unit]

    @property
    def time_likeness(self) -> int:
        """How much it looks like a time, by its cells and its name; 0 where it does not."""
        if self.clock is None or not self.present or DELAYS.intersection(self.words):
            return 0
        named = 2 * bool(TIMES.intersection(self.words))
        if self.clock != "number":
            return 3 + named
        return 0 if self.least < 0 else named + (self.counts_from_1970 and self.whole == self.present)


class LogProfile(NamedTuple):
    """A log, its rows and its columns by name."""

    table: LogTable
    rows: int
    columns: dict[str, LogColumn]

    @property
    def name(self) -> str:
        return self.table.relation.name

    @property
    def sql(self) -> str:
        """What stands after FROM."""
        return self.table.relation.sql

    def run(self, sql: str) -> list[Any]:
        """The cells of the one row that a query gives."""
        columns = self.table.engine.run(sql, "looking at the rows").columns
        return [column[0].as_py() for column in columns]

    def text(self, name: str) -> str:
        """SQL for a column as text, null where it is missing."""
        here = f"CAST({self.table.engine.column(name)} AS VARCHAR)"
        cells = ", ".join(self.table.engine.text(cell) for cell in ("", *self.table.missing))
        return f"CASE WHEN {here} NOT IN ({cells}) THEN {here} END"


def profile_log(engine: Engine, names: str, missing: tuple[str, ...] = ()) -> LogProfile:
    """What is in the columns of a log: a file, a pattern or a folder. Cells in `missing` mean a missing value."""
    relation = engine.open(files([names]))
    log, columns = LogProfile(LogTable(engine, relation, {}, missing, "s"), 0, {}), list(relation.kinds)
    odd = next((name for name in columns if clock_of([name]) is not None), None)
    if odd is not None:
        raise InputError(f"{relation.name} begins with values ({odd!r:.40}); give its first line the columns' names")
    if len(columns) > MOST_COLUMNS:
        raise InputError(f"{relation.name} has {len(columns):,} columns; at most {MOST_COLUMNS} are looked at")
    cells = [log.text(name) for name in columns]
    figures = [figure.format(cell, f"TRY_CAST({cell} AS DOUBLE)") for cell in cells for figure in FIGURES]
    rows, *each = log.run(f"SELECT COUNT(*), {', '.join(figures)} FROM {relation.sql}")
    if not rows:
        raise InputError(f"{relation.name} has no rows; a log with some tells what its columns are")
    profiles = {}
    for i, name in enumerate(columns):
        present, distinct, numbers, whole, least, most, minus_one, words = each[i * len(FIGURES) :][: len(FIGURES)]
        kind = relation.kinds[name]
        clock = clock_of(sample_cells(log.table, name)) if kind == "text" and present else CLOCKS.get(kind)
        absent = (*["-1"] * bool(minus_one and kind in ("text", "whole")), *(words or ()))
        labels, low, high = kind in ("text", "whole", "bool"), float(least or 0), float(most or 0)
        profiles[name] = LogColumn(name, clock, labels, present, distinct, numbers, whole, low, high, absent)
    return log._replace(rows=rows, columns=profiles)


# The draft of two logs, and of one.


def _two_logs(made: _Draft, seen: LogProfile, done: LogProfile) -> list[str]:
    """Writes the attributes, and gives the lines of [logs] that say what joins the two."""
    when, then = _time(seen, done), _time(done, seen)
    numbers = [time for time in (when, then) if time.clock == "number"]
    instants = {when.clock, then.clock} == {"number", "zoned"} and numbers[0].counts_from_1970
    alike = when.clock == then.clock and (not numbers or when.unit == then.unit)
    if not (alike or instants):
        ours, theirs = (CLOCK_WORDS[t.clock or "date"] + f" in {t.unit}" * (t.clock == "number") for t in (when, then))
        raise InputError(
            f"both logs must give times in the same form; {seen.name} has {ours} ({when.name!r}), and {done.name} "
            f"has {theirs} ({then.name!r}): convert one of them"
        )
    key, its, why = _join_key(seen, done, {when.name, then.name})
    roles = [made.line(f"user = {_toml(key)}", why)]
    shared = [name for name in done.columns if name in seen.columns and name not in (key, its, when.name, then.name)]
    agree = [name for name in shared if MUST_AGREE.intersection(done.columns[name].words)]
    if agree:
        roles.append(made.line(f"keys = {_toml(agree)}", "both logs have it, and a conversion goes with its own"))
    elif shared:
        roles.append(f"# keys = {_toml(shared)}   # both logs have them: uncomment those that must agree")
    roles += _time_lines(made, [(when, seen), (then, done)])
    ours, theirs = (
        f"(SELECT {log.text(name)} AS k, {_micros(log, time)} AS t FROM {log.sql})"
        for log, name, time in ((seen, key, when), (done, its, then))
    )
    joined = f"SELECT c.t - i.t AS d FROM {theirs} AS c ASOF LEFT JOIN {ours} AS i ON c.k = i.k AND c.t >= i.t"
    window, share = _window(done, joined)
    if not share:
        rule = f"no conversion in {done.name} has an impression of the same {key!r} before it in {seen.name}"
        raise InputError(f"{rule}: are the two files swapped? give impressions first")
    made.recognised.append(f"joined by {key}: {share:.1%} of the conversions have an impression before them")
    roles.append(made.line(f'window = "{window}d"', "how long after its impression a conversion counts"))
    used = {key, its, when.name, then.name}
    _known(made, seen, [c for c in seen.columns.values() if c.name not in used])
    known = list(made.renamed)
    _unknown(made, done, [c for c in done.columns.values() if c.name not in used | {*seen.columns}], "TRUE", window)
    called = {ours: theirs for ours, theirs in {key: its, when.name: then.name}.items() if ours != theirs}
    called |= {name: column for name, column in made.renamed.items() if name not in known}
    return roles + _names(impression_columns={name: made.renamed[name] for name in known}, conversion_columns=called)


def _one_log(made: _Draft, log: LogProfile) -> list[str]:
    """Writes the attributes, and gives the lines of [logs] that say which rows have a conversion."""
    flag = next((c for c in log.columns.values() if CONVERTED.intersection(c.words) and _is_flag(log, c)), None)
    delay = next((c for c in log.columns.values() if DELAYS.intersection(c.words) and c.clock == "number"), None)
    later = [c for c in log.columns.values() if CONVERTED.intersection(c.words) and c.time_likeness > 1 and c != flag]
    then = later[0] if later and delay is None else None
    if flag is None and delay is None and then is None:
        raise InputError(
            f"{log.name} has no column that says which rows have a conversion, as converted, conversion_time or delay "
            f"would; its columns are {_list(log.columns)}. If it has impressions alone, give the conversions' file too"
        )
    when = _time(log) if then is not None or any(c.time_likeness > 1 for c in _not_later(log)) else None
    marks = {"converted": flag, "conversion_time": then, "delay": delay}
    roles = [made.line(f"{key} = {_toml(c.name)}", "by its name and its values") for key, c in marks.items() if c]
    roles += [] if when is None else _time_lines(made, [(when, log)])
    is_one = f"LOWER({log.text(flag.name)}) IN ('1', 'true', 't')" if flag else ""
    mark = delay or then
    converted = is_one or f"{log.text(mark.name if mark else '')} IS NOT NULL"
    window = WINDOWS[3]
    if mark is not None:
        spent = duration_of(log.table, mark.name) if delay else f"{_micros(log, mark)} - {_micros(log, when or mark)}"
        window, _ = _window(log, f"SELECT {spent} AS d FROM {log.sql} WHERE {converted}")
        roles.append(made.line(f'window = "{window}d"', "how long after its impression a conversion counts"))
    used = [c.name for c in (flag, delay, then, when, *later) if c]
    rest = [c for c in log.columns.values() if c.name not in used]
    counts = [f"COUNT({log.text(c.name)}) FILTER (NOT ({converted}))" for c in rest]
    _, *before = log.run(f"SELECT {', '.join(['COUNT(*)', *counts])} FROM {log.sql}")
    known = [c for c, number in zip(rest, before, strict=True) if number]
    _known(made, log, known)
    _unknown(made, log, [c for c in rest if c not in known], converted, window if mark else None)
    return roles + _names(impression_columns=made.renamed)


def _time(log: LogProfile, other: LogProfile | None = None) -> LogColumn:
    """The column that says when; one that the other log has too is preferred."""
    columns = _not_later(log) if other is None else list(log.columns.values())
    best = max(columns, key=lambda c: (c.time_likeness, other is not None and c.name in other.columns), default=None)
    if best is None or best.time_likeness < 1:
        raise InputError(
            f"{log.name} has no column of times: numbers, or as in 2026-03-01, 2026-03-01T12:00:00 or "
            f"2026-03-01T12:00:00Z, all in one form; its columns are {_list(log.columns)}"
        )
    return best


def _not_later(log: LogProfile) -> list[LogColumn]:
    """The columns that are not of the conversion, by their names."""
    return [c for c in log.columns.values() if not CONVERTED.intersection(c.words)]


def _time_lines(made: _Draft, times: list[tuple[LogColumn, LogProfile]]) -> list[str]:
    """The keys time and time_unit; a guess where another column would do, or where numbers do not count from 1970."""
    doubts = []
    for time, log in times:
        all_ = _not_later(log) if len(times) == 1 else log.columns.values()
        others = [c.name for c in all_ if c != time and c.time_likeness >= time.time_likeness]
        doubts += [f"{log.name} has {_list(others)} too"] if others else []
    doubts += [f"{time.name!r} is a number" for time, _ in times if time.time_likeness == 1]
    lines = [made.line(f"time = {_toml(times[0][0].name)}", "; ".join(doubts))]
    numbers = [time for time, _ in times if time.clock == "number"]
    if numbers and (numbers[0].unit != "s" or not numbers[0].counts_from_1970):
        why = "" if numbers[0].counts_from_1970 else "these numbers do not count from 1970"
        lines.append(made.line(f'time_unit = "{numbers[0].unit}"', why))
    return lines


def _join_key(seen: LogProfile, done: LogProfile, times: set[str]) -> tuple[str, str, str]:
    """The columns that join the two, of one name or else of the same values; and why that is a guess, if it is."""

    def may_join(log: LogProfile) -> list[LogColumn]:
        return [c for c in log.columns.values() if c.labels and not c.is_amount and c.present and c.name not in times]

    keys = []
    for ours in may_join(seen):
        for theirs in may_join(done):
            same, named = ours.name.lower() == theirs.name.lower(), [w for w in USERS if w in ours.words]
            selective = ours.distinct >= (0.01 if same and named else 0.2) * seen.rows
            if not selective or ours.distinct < 2 or not (same or theirs.distinct >= 0.2 * done.rows):
                continue
            cells = f"SELECT DISTINCT {done.text(theirs.name)} AS v FROM {done.sql}"
            known = f"SELECT {seen.text(ours.name)} FROM {seen.sql}"
            number, both = done.run(f"SELECT COUNT(v), COUNT(*) FILTER (v IN ({known})) FROM ({cells}) AS cells")
            if both > (0 if same else 0.5 * number):
                rank = (not same, USERS.index(named[0]) if named else len(USERS), -ours.distinct)
                keys.append((rank, ours.name, theirs.name))
    if not keys:
        rule = f"no column joins {done.name} to {seen.name}; a user or a click id must be in both"
        raise InputError(f"{rule}. Their columns are {_list(done.columns)}, and {_list(seen.columns)}")
    (differ, by_name, _), ours_, theirs_ = min(keys)
    others = [name for _, name, _ in sorted(keys)[1:]]
    why = f"{theirs_!r} has the same values" if differ else f"{_list(others)} would join them too" if others else ""
    return ours_, theirs_, why or ("by its values" if by_name == len(USERS) else "")


def _window(log: LogProfile, delays: str) -> tuple[int, float]:
    """The days that most delays are within, and the share of conversions that have one."""
    rows, having, most = log.run(f"SELECT COUNT(*), COUNT(d), QUANTILE_DISC(d, {COVERED}) FROM ({delays}) AS x")
    return next((days for days in WINDOWS if (most or 0) < days * DAY), WINDOWS[-1]), having / max(1, rows)


def _micros(log: LogProfile, time: LogColumn) -> str:
    return time_of(replace(log.table, unit=time.unit if time.clock == "number" else "s"), time.name)[0]


def _known(made: _Draft, log: LogProfile, columns: list[LogColumn]) -> None:
    """Writes the attributes that impressions have, those that others determine above them."""

    def rank(column: LogColumn) -> int:
        return next((i for i, word in enumerate(FIRST) if word in column.words), len(FIRST))

    def fits(column: LogColumn) -> bool:
        most = min(MOST_KNOWN, max(50, log.rows // (5 if rank(column) == len(FIRST) else 2)))
        return column.labels and not column.is_amount and column.time_likeness < 2 <= column.distinct <= most

    fit = sorted(filter(fits, columns), key=lambda c: (rank(c), _is_flag(log, c)))
    chosen: list[LogColumn] = []
    for column in fit[:KNOWN_LEVELS]:
        below = (i for i, other in enumerate(chosen) if _determines(log, other.name, column.name))
        chosen.insert(next(below, len(chosen)), column)
    for column in chosen:
        made.attribute(column.name)
    others = [c.name for c in columns if c not in chosen and c.present]
    made.after += [f"# Not used, but known to an impression: {_list(others)}"] if others else []


def _determines(log: LogProfile, one: str, other: str) -> bool:
    a, b = (f"COALESCE({log.text(name)}, '')" for name in (one, other))
    of_one, of_both = log.run(f"SELECT COUNT(DISTINCT {a}), COUNT(DISTINCT CONCAT({a}, CHR(31), {b})) FROM {log.sql}")
    return bool(of_one == of_both)


def _is_flag(log: LogProfile, column: LogColumn) -> bool:
    return column.distinct <= 3 and set(_values(log, column.name, "TRUE", 4)) <= FLAGS


def _values(log: LogProfile, name: str, condition: str, most: int) -> list[str]:
    """The values of a column as they occur, at most so many, in the order that people have them in."""
    sql = f"SELECT DISTINCT {log.text(name)} AS v FROM {log.sql} WHERE {condition} ORDER BY v LIMIT {most}"
    cells = log.table.engine.run(sql).column("v").to_pylist()
    values = [v for v in cells if v is not None and v.strip() not in ("", "*")]
    for order in IN_ORDER:
        if all(v.lower()[:3] in order.split() for v in values):
            return sorted(values, key=lambda v: order.split().index(v.lower()[:3]))
    return sorted(values, key=int) if all(WHOLE.fullmatch(v) for v in values) else values


def _unknown(made: _Draft, log: LogProfile, columns: list[LogColumn], converted: str, window: int | None) -> None:
    """Writes the attributes that conversions alone have, with their domains; without any, the delay."""
    (rows,) = log.run(f"SELECT COUNT(*) FROM {log.sql} WHERE {converted}")
    nodes, others, why = 1, [], "the values that occur; add those that may still come"
    for column in columns:
        amounts = column.is_amount or not column.labels or column.time_likeness > 1
        values = [] if amounts else _values(log, column.name, converted, MOST_LISTED + 1)
        if not 2 <= len(values) <= min(MOST_LISTED // nodes, max(12, rows // 3)):
            others += [column] if column.present else []
            continue
        nodes *= len(values)
        values += ["missing"] if column.present < rows and "missing" not in values else []
        domain = f"domain = {_toml(values)}"
        if all(map(WHOLE.fullmatch, values)) and int(values[-1]) - int(values[0]) < 2 * len(values):
            domain = f"range = [{values[0]}, {values[-1]}]"
        made.attribute(column.name, made.line(domain, why), unknown=True)
    if nodes == 1 and window is not None:
        width = -(-window // BUCKETS)
        why = "the time from impression to conversion; leave this attribute out if nobody asks for it"
        bucket = [made.line(f'bucket = "{width}d"', why), f"buckets = {-(-window // width)}"]
        made.attribute("delay", *bucket, unknown=True)
    if not made.attributes:
        rule = f"no column of {log.name} looks like an attribute, with 2 to {MOST_KNOWN:,} values"
        raise InputError(f"{rule}; give logs that have one")
    if others:
        made.after.append(f"# Not used, but known at conversion time: {_list(c.name for c in others)}")
    amount = next((c.name for c in others if c.is_amount or (not c.labels and c.clock == "number")), None)
    if amount is not None and amount not in TAKEN | ADDED:
        made.after += ["", "# To measure sums besides counts:", "# [[measure]]", '# name = "count"', "# [[measure]]"]
        made.after += [f"# name = {_toml(amount)}", '# clip = "auto"                # the most of one conversion']


def _names(**tables: dict[str, str]) -> list[str]:
    """Lines that say what the files call a column, where the spec calls it otherwise."""
    each = {key: ", ".join(f"{_toml(a)} = {_toml(b)}" for a, b in names.items()) for key, names in tables.items()}
    return [f"{key} = {{{pairs}}}" for key, pairs in each.items() if pairs]


def _list(names: Iterable[str]) -> str:
    return first_few(one_line(name)[:40] for name in names)


def _toml(value: str | Sequence[object]) -> str:
    """A text, or a list of texts and numbers, in TOML, which writes them as JSON does."""
    return json.dumps(value, ensure_ascii=False)
