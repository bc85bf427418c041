"""period_files: which tables of estimates are those of periods, and which is before which, by the dates in their names.

All names have to be of one form: 2026-01-05, 05.01.2026, 1/5/2026, Jan 2026, 2026-W05, KW 52, Q4 2025, Phase 2 or the
like. Whether 5/6/2026 is in May or in June is decided by all names together; where they fit both, and that makes a
difference, dates tell no order.
"""

import os
import re
from collections.abc import Sequence
from itertools import combinations, pairwise
from typing import NamedTuple
from unicodedata import combining, normalize

from attributary.errors import InputError
from attributary.file_kind import file_kind, files_in
from attributary.tables.table_source import shards

LANGUAGES = """january february march april may june july august september october november december
januar februar marz april mai juni juli august september oktober november dezember
janvier fevrier mars avril mai juin juillet aout septembre octobre novembre decembre
enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre
gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre
januari februari maart april mei juni juli augustus september oktober november december
janeiro fevereiro marco abril maio junho julho agosto setembro outubro novembro dezembro""".splitlines()  # no accents
ALSO = {"mrz": "marz", "maerz": "marz", "mrt": "maart"}
MONTHS = {full[:n] for line in LANGUAGES for full in line.split() for n in range(3, len(full) + 1)} | set(ALSO)
MONTH, NUMBER = "month", "0"
UNITS = {53: "w kw cw wk week weeks woche semaine semana settimana", 12: f"m {MONTH} monat mois mes mese maand"}
UNITS |= {4: "q qtr quarter quartal trimestre", 2: "h"}  # by how many there are in a turn
TURNS = {word: length for length, words in UNITS.items() for word in words.split()}
YEARS = range(1900, 2200)
DATE, TURN, NUMBERS = "by date", "by date, as one turn of the year", "by the numbers in their names"

Key = tuple[int, ...]


class PeriodOrder(NamedTuple):
    """The names, oldest first, and what says so."""

    names: list[str]
    by: str

    @property
    def dated(self) -> bool:
        """Whether they are dates."""
        return self.by.startswith(DATE)

    @property
    def known(self) -> bool:
        """Whether the names tell it."""
        return self.dated or self.by == NUMBERS


def in_order(names: Sequence[str], otherwise: str, level: str = "", arranged: bool = True) -> PeriodOrder:
    """The names by date, or else by number; where they tell neither, as they come, which `otherwise` says in words.

    `level` is what the names are labels of, such as week; `arranged` says whether the order they come in means
    something, which decides where they have no year. Two names of one period are refused.
    """
    as_they_come = PeriodOrder(list(names), otherwise)
    for language in LANGUAGES:
        shapes, numbers = zip(*(_read(name, language.split()) for name in names), strict=True)
        if len(set(shapes)) == 1:
            break
    else:
        return as_they_come
    units = [word for word in shapes[0] if word in TURNS] or [w for w in _tokens(level) if w in TURNS and len(w) > 1]
    dots = all(re.match(r"\D*(\d+\.\d+\.|\d{4}(?!\d))", name) for name in names)
    readings, dated = _readings(shapes[0], numbers, units, dots)
    orders = {_order(keys, length, arranged, list(names) == sorted(names)) for keys, length in readings}
    if len(orders) != 1:
        in_two = otherwise.partition(":")[0] + ": their dates can be read in two ways"
        return PeriodOrder(list(names), in_two if orders else otherwise)
    order, (keys, length) = orders.pop(), readings[0]
    same = next(((names[i], names[j]) for i, j in combinations(range(len(keys)), 2) if keys[i] == keys[j]), None)
    if same and dated:
        raise InputError(f"a period occurs once; {same[0]} and {same[1]} are the same one: leave out one of them")
    by = NUMBERS if not dated else TURN if keys[order[-1]] < keys[order[0]] else DATE
    by += ", not as they come" if length and arranged and order != tuple(range(len(names))) else ""
    return as_they_come if same else PeriodOrder([names[i] for i in order], by)


def without_accents(name: str) -> str:
    """A name in small letters without accents, as months are listed here."""
    return "".join(sign for sign in normalize("NFKD", name.casefold()) if not combining(sign))


def _tokens(name: str) -> list[str]:
    """The numbers and words of a name without ordinals; 05012026 is three numbers, since no month is 19 to 21."""
    plain = re.sub(r"(?<!\d)(\d\d)(\d\d)((19|2[01])\d\d)(?!\d)", r"\1 \2 \3", without_accents(name))
    return re.findall(r"\d+|[^\W\d_]+", re.sub(r"(?<=\d)(st|nd|rd|th)\b", "", plain))


def _read(name: str, months: list[str]) -> tuple[tuple[str, ...], Key]:
    """The form of a name in a language, and the numbers in it, those of months among them."""
    shape, numbers = list[str](), list[int]()
    for token in _tokens(name):
        month = [i for i, full in enumerate(months, 1) if full.startswith(ALSO.get(token, token)) and len(token) > 2]
        value = [int(token)] if token.isdecimal() else month if len(month) == 1 else []
        numbers += value
        shape.append((NUMBER if token.isdecimal() else MONTH) if value else token)
    if re.match(r"(\D*\s)?[-−]\d", name):  # week -2
        numbers[0] *= -1
    return tuple(shape), tuple(numbers)


def _readings(
    shape: tuple[str, ...], numbers: Sequence[Key], units: list[str], dots: bool
) -> tuple[list[tuple[list[Key], int]], bool]:
    """What to sort by, and the length of a turn, 0 with a year, for each way to read numbers; and if it is dates."""
    kinds = [word for word in shape if word in (NUMBER, MONTH)]
    part = _of_range(kinds, numbers)
    kinds, numbers = kinds[part], [key[part] for key in numbers]
    numbers = [key[::-1] if kinds == [NUMBER] * 3 and key[0] in YEARS else key for key in numbers]
    columns, places = list(zip(*numbers, strict=True)), range(len(kinds))
    year = next((j for j in places if all(cell in YEARS for cell in columns[j])), None)
    rest, turn = tuple(j for j in places if j != year), TURNS[units[0]] if units else 0
    ways: list[tuple[Key, int]] = [((year, *rest), 0)] if year is not None else []  # nothing says what four numbers are

    def valid(way: Key) -> bool:
        return all(1 <= key[way[-2]] <= 12 and 1 <= key[way[-1]] <= 31 for key in numbers)

    if MONTH in kinds:
        month = kinds.index(MONTH)
        days = tuple(j for j in rest if j != month)
        ways = [((month, *days), 372 if days else 12) if year is None else ((year, month, *days), 0)]
        if year is None and days and days[-1] > month and max(columns[days[-1]]) - min(columns[days[-1]]) < 20:
            ways = [*(ways if len(days) == 1 else []), ((days[-1], month, *days[:-1]), 0)]  # Jan 26: a day, or a year
    elif year is None and len(rest) == 1:
        ways = [(rest, turn if all(1 <= cell <= turn for cell in columns[0]) else 0)]
    elif year is None and len(rest) == 2 and units:  # Q4/25, 25Q4 or 4Q25, and W51-52
        unit = next((shape[:k].count(NUMBER) for k, word in enumerate(shape) if word in units), 0)
        unit = unit if unit < 2 and max(columns[unit]) <= turn else 1 - unit % 2
        to = len(set(columns[1])) == len(numbers) and all(a < b <= turn for a, b in numbers)
        ways = [((0,), turn) if to else ((1 - unit, unit), 0)]
    elif year is None and len(rest) == 2:  # 5/6
        ways = [(way, 372) for way in [(1, 0), (0, 1)][: 1 if dots else 2] if valid(way)]
    elif len(rest) > 1 and (year == 2 or (year is None and len(rest) == 3)):
        some = [(2, 1, 0), *([] if dots else [(2, 0, 1), (0, 1, 2)][: 2 if year is None else 1])]
        ways = [((*way, *places[3:]), 0) for way in some if valid(way)]
    dated = len(kinds) > 1 or MONTH in kinds or year is not None or any(length for _, length in ways)
    return [([tuple(key[j] for j in way) for key in numbers], length) for way, length in ways], dated


def _of_range(kinds: list[str], numbers: Sequence[Key]) -> slice:
    """The part of a range's numbers that it goes by: its first date, or the last one where only that has the year."""
    half, has_year = len(kinds) // 2, [all(key[j] in YEARS for key in numbers) for j in range(len(kinds))]
    if len(kinds) == 5 and has_year == [False] * 4 + [True]:
        return slice(2, None)
    two = len(kinds) in (4, 6) and kinds[:half] == kinds[half:] and sum(has_year) == 2 * (half == 3)
    return slice(half if two and len({key[:half] for key in numbers}) == len(numbers) else None)


def _order(keys: list[Key], length: int, arranged: bool, by_text: bool) -> tuple[int, ...]:
    """The places of keys, oldest first; without a year as they come if that is one turn.

    A turn skips half a year at most. Else, and if three or more are sorted as text only, it is at the largest gap.
    """
    places = tuple(range(len(keys)))
    order = tuple(sorted(places, key=keys.__getitem__))
    if not length or (arranged and order == places):
        return order
    numbers = [key[0] if len(key) == 1 else 31 * key[0] + key[1] for key in keys]
    length = 52 if length == 53 and max(numbers) < 53 else length
    falls = [b - a for a, b in pairwise([*numbers, numbers[0]]) if b < a]
    if arranged and len(falls) == 1 and 2 * (falls[0] % length) <= length and not (by_text and len(keys) > 2):
        return places
    gaps = [(numbers[order[(j + 1) % len(order)]] - numbers[order[j]]) % length for j in places]
    first = gaps.index(max(gaps)) + 1 if gaps.count(max(gaps)) == 1 else 0
    return order[first:] + order[:first]


ASSUMED = "assumed: their names tell no dates"


def period_tables(paths: list[str]) -> dict[str, str]:
    """The tables of periods by name, oldest first: of a folder of them, or of two; none of one period.

    Where their names tell no dates, the first of two is the newer one.
    """
    if len(paths) == 1:
        return period_files(paths[0]) if os.path.isdir(paths[0]) else {}
    tables = [table_of_period(path) for path in paths[::-1]]
    if len(paths) != 2 or None in tables:
        return {}
    by_period = dict(zip(pair_names(*paths[::-1]), map(str, tables), strict=True))
    order = in_order(list(by_period)[::-1], ASSUMED)
    order = order if order.by == DATE else in_order(list(by_period), ASSUMED, arranged=False)
    return {name: by_period[name] for name in order.names}


def pair_names(*paths: str) -> list[str]:
    """The periods that two files or folders are named after; refuses two of one period."""
    if os.path.realpath(paths[0]) == os.path.realpath(paths[1]):
        raise InputError(f"two periods are compared; got {paths[0]} twice")
    names = [_period_name(path.rstrip("/")) for path in paths]
    if names[0] == names[1] and not in_order(paths, ASSUMED).known:
        in_order(names, ASSUMED)  # refuses the same date twice
    return names if names[0] != names[1] else list(paths)


def period_files(folder: str) -> dict[str, str]:
    """The tables of estimates in a folder, or in the folders in it, by period in order; none where that is one only."""
    by_period: dict[str, str] = {}
    for path in estimate_files(folder):
        if (other := by_period.setdefault(_period_name(path), path)) != path:
            raise InputError(f"a period has one table of estimates; {other} and {path} are of one")
    if len(by_period) == 1:
        return {}  # what `run` writes
    for name in [] if by_period else os.listdir(folder):
        below = os.path.join(folder, name)
        tables = estimate_files(below) if os.path.isdir(below) else []
        if len(tables) > 1:
            raise InputError(f"a period has one table of estimates; {below} has {len(tables)}")
        if tables:
            by_period[name] = tables[0]
    names = in_order(sorted(by_period, key=_with_numbers), ASSUMED, arranged=False).names if len(by_period) > 1 else []
    return {name: by_period[name] for name in names}


def table_of_period(path: str) -> str | None:
    """The table of estimates that a path names, or that is the only one in a folder."""
    tables = estimate_files(path) if os.path.isdir(path) else [path] if _has_estimates(path) else []
    return tables[0] if len(tables) == 1 else None


def estimate_files(folder: str) -> list[str]:
    """The tables of estimates in a folder."""
    return [path for path in ([folder] if shards(folder) else files_in(folder)) if _has_estimates(path)]


def _has_estimates(path: str) -> bool:
    """Whether a file is a table of estimates; one that cannot be read is none."""
    try:
        return file_kind(path).kind == "estimates"
    except InputError:
        return False


def _period_name(path: str) -> str:
    """The period that a file is named after: estimates-2026-07.csv is of 2026-07."""
    stem = re.sub(r"(\.[a-z]+)+$", "", os.path.basename(path))
    return stem.removeprefix("estimates").strip("-_ ") or stem


def _with_numbers(name: str) -> list[tuple[int, str]]:
    """What names are sorted by: week 2 is before week 10."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"([0-9]+)", name)]
