"""The paper's experiment, on a published file or on a look-alike that is generated for it."""

import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args
from zlib import crc32

import numpy as np
import pyarrow as pa

from attributary.errors import InputError
from attributary.evaluate.case import Case
from attributary.evaluate.user_cases import EPSILON, Tables, cached, identity, private_prior
from attributary.generated import VERSION
from attributary.logs.duckdb import print_no_progress, text_file_errors
from attributary.logs.log_files import is_generated
from attributary.paper import generate, load
from attributary.plan.make import DELTA
from attributary.prior import from_counts
from attributary.spec import Spec
from attributary.types import Arrow, Record


class PaperTree(NamedTuple):
    name: str
    attributes: tuple[str, ...]  # known ones, top to bottom; the delay stands below them
    days: int  # of a bucket of the delay

    def at(self, noise: str = "api") -> Spec:
        """What is asked: a split for each root, under a noise model."""
        known: list[Record] = [{"name": name} for name in self.attributes]
        delay = {"name": "delay", "unknown": True, "bucket": f"{self.days}d", "buckets": DELAY_DAYS // self.days}
        asks = Spec(epsilon=1.0, split_by=self.attributes[0], guard="none", attribute=[*known, delay])
        return asks.with_noise(noise, DELTA)


class StatedFigure(NamedTuple):
    """A figure of the paper's text, of greedy-unbiased at ε = 4."""

    tree: str
    tau: float
    rmsre: float


class PaperDataset(NamedTuple):
    name: str
    prior_days: int  # whose impressions make the prior
    days: int  # that the log is said to have
    trees: tuple[PaperTree, ...]
    stated: tuple[StatedFigure, ...]

    @property
    def attributes(self) -> tuple[str, ...]:
        return self.trees[0].attributes


DELAY_DAYS = 30
STATED_EPSILON = 4.0
CSSCL = ("partner", "country", "device", "age_group")
CAMB = ("campaign", "cat1", "cat8")
PAPER = {
    "csscl": PaperDataset(
        *("csscl", 45, 90),
        (PaperTree("depth 5", CSSCL, 2), PaperTree("depth 4", CSSCL[:3], 6)),
        (StatedFigure("depth 5", 10, 0.10), StatedFigure("depth 4", 5, 0.17)),
    ),
    "camb": PaperDataset(
        *("camb", 15, 30),
        (PaperTree("depth 4", CAMB, 2), PaperTree("depth 3", CAMB[:2], 6)),
        (StatedFigure("depth 4", 10, 0.19), StatedFigure("depth 3", 5, 0.20), StatedFigure("depth 3", 10, 0.12)),
    ),
}


DAY = 86_400
STEP = 2  # days: buckets that all others are made of
Missing = Literal["value", "drop"]
UnknownDelay = Literal["drop", "first"]
Boundary = Literal["keep", "drop"]


@dataclass(frozen=True)
class Choices:
    """What the paper leaves open. Every choice is a part of the cached counts' name."""

    missing: Missing = "value"  # a missing country is a value of its own; or its rows are left out
    unknown_delay: UnknownDelay = "drop"  # a sale without a delay is left out; or it is of the first bucket
    boundary: Boundary = "keep"  # rows after the last whole day of the log belong to the later period; or are left out

    def __post_init__(self) -> None:
        for name, kind in (("missing", Missing), ("unknown_delay", UnknownDelay), ("boundary", Boundary)):
            if getattr(self, name) not in get_args(kind):
                raise InputError(f"{name} is {' or '.join(get_args(kind))}; got {getattr(self, name)!r}")


class Periods(NamedTuple):
    """Tables of rows by the deepest known path and 2-day bucket of the delay: the attributes, step, number.

    Step is -1 for a row without a conversion, or whose conversion is left out. `left` tells why rows or conversions are
    in no count: why, rows, conversions.
    """

    before: Arrow
    after: Arrow
    left: Arrow


REASONS = {  # in the order in which they are looked for; the first two are about rows, the others about conversions
    "timeless": "rows without a time",
    "boundary": "rows after the last whole day",
    "missing": "rows with a missing attribute",
    "undelayed": "conversions without a delay",
    "late": f"conversions after more than {DELAY_DAYS} days",
}


def paper_counts(connection: Any, path: str, of: PaperDataset, choices: Choices, expect: Any = "published") -> Periods:
    """The counts of both periods, by one query after the file was checked.

    A row's period is that of its impression, with days counted from the first one's time.
    """
    keep = "first" if choices.unknown_delay == "first" else "keep"
    log = load(connection, path, of.name, expect, keep)  # type: ignore[arg-type]
    with text_file_errors(path):
        start = connection.sql(f"SELECT MIN(time) FROM ({log.sql}) AS impressions").fetchall()[0][0]
        if start is None:
            raise InputError(f"{path} has no row with a time; give the whole file, or generate more rows")
        table = connection.sql(_sql(log.sql, of, choices, start)).to_arrow_table()
    why, later = (table.column(name).to_numpy(zero_copy_only=False) for name in ("why", "later"))
    kept = ~np.isin(why, ["timeless", "boundary", "missing"])
    parts = (kept & (later == which) for which in (False, True))
    before, after = (table.filter(part).select([*of.attributes, "step", "number"]) for part in parts)
    for period, words in ((before, f"first {of.prior_days} days"), (after, f"days after day {of.prior_days}")):
        if period.num_rows == 0:
            raise InputError(f"{path} has no rows of the {words}; give the whole file, or generate more rows")
    number, converted = (table.column(name).to_numpy() for name in ("number", "conversion"))
    rows = [int(number[why == reason].sum()) for reason in REASONS]
    sales = [int(number[(why == reason) & (converted == 1)].sum()) for reason in REASONS]
    left = pa.table({"why": list(REASONS.values()), "rows": rows, "conversions": sales})
    return Periods(before, after, left)


def _sql(log: str, of: PaperDataset, choices: Choices, start: int) -> str:
    missing = " OR ".join(f"{name} = 'missing'" for name in of.attributes)
    dropped = {
        "timeless": "time IS NULL",
        "boundary": f"time >= {start + of.days * DAY}" if choices.boundary == "drop" else "FALSE",
        "missing": missing if choices.missing == "drop" else "FALSE",
    }
    lost = {
        "undelayed": "conversion = 1 AND delay IS NULL",
        "late": f"conversion = 1 AND NOT (delay >= 0 AND delay < {DELAY_DAYS * DAY})",
    }
    whens = " ".join(f"WHEN {condition} THEN '{reason}'" for reason, condition in (dropped | lost).items())
    names = ", ".join(of.attributes)
    return f"""
        SELECT why, later, {names}, conversion,
            CASE WHEN conversion = 1 AND why = '' THEN CAST(FLOOR(delay / {STEP * DAY}) AS TINYINT) ELSE -1 END AS step,
            COUNT(*) AS number
        FROM (
            SELECT *, time >= {start + of.prior_days * DAY} AS later, CASE {whens} ELSE '' END AS why
            FROM ({log}) AS impressions
        ) AS sorted_out
        GROUP BY ALL ORDER BY ALL
    """


def leaf_counts(period: Any, tree: PaperTree) -> Arrow:
    """The counts of a period for a tree: its attributes, with the delay's label, and conversions.

    A known path without conversions has a row of 0, so that it is a part of the tree.
    """
    step = period.column("step").to_numpy().astype(np.int64)
    number = period.column("number").to_numpy()
    labels = pa.array(tree.at().attributes[-1].labels)
    bucket = np.maximum(step, 0) // (tree.days // STEP)
    columns = {name: period.column(name) for name in tree.attributes}
    columns["delay"] = pa.DictionaryArray.from_arrays(pa.array(bucket.astype(np.int32)), labels).cast(pa.string())
    columns["conversions"] = pa.array(np.where(step >= 0, number, 0))
    keys = [*tree.attributes, "delay"]
    summed = pa.table(columns).group_by(keys, use_threads=False).aggregate([("conversions", "sum")])
    return summed.select([*keys, "conversions_sum"]).rename_columns([*keys, "conversions"])


def paper_cases(
    of: PaperDataset,
    periods: Periods,
    noises: Sequence[str] = ("api",),
    *,
    prior_epsilon: float = EPSILON,
    seed: int = 0,
    generated: bool = False,
) -> list[Case]:
    """A case for each tree and noise model: later days are measured, and the prior is a private one of the first."""
    cases = []
    for tree in of.trees:
        before, after = (leaf_counts(period, tree) for period in (periods.before, periods.after))
        queried = tree.at().tree(after)
        count = from_counts(queried, after).mean
        for noise in noises:
            spec = tree.at(noise)
            key = (crc32(f"{of.name}/{tree.name}/prior".encode()),)
            rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))
            try:
                prior = private_prior(spec, queried, before, rng, prior_epsilon)
            except ValueError as error:  # nothing of the first days is there later
                rule = f"{of.name}: the first days cannot be a prior for the later ones"
                raise InputError(f"{rule} ({error}); take more rows") from error
            cases.append(Case.of(of.name, tree.name, spec, queried, count, prior, generated))
    return cases


NOISES = ("api", "unit")  # on sums of contributions, and on counts


class PaperLog(NamedTuple):
    """The rows of the experiment: a file, or so many rows to be generated."""

    path: str | None = None
    rows: int | None = None  # None: as many as published
    seed: int = 0
    expect: str = "published"  # or "any": a part of the file, or a file like it


class LeftOut(NamedTuple):
    """Rows that are in no count, or whose conversions are not."""

    why: str
    rows: int
    conversions: int


class Experiment(NamedTuple):
    cases: list[Case]
    left_out: list[LeftOut]
    generated: bool


def paper(
    dataset: str,
    log: PaperLog,
    noises: Sequence[str] = NOISES,
    choices: Choices | None = None,
    *,
    prior_epsilon: float = EPSILON,
    seed: int = 0,
    cache: str | None = None,
    threads: int | None = None,
) -> Experiment:
    """The paper's experiment: both trees of a dataset, under each noise model.

    The rows are counted once, with so many threads (by default all cores); with a folder as `cache`, once for all.
    """
    if dataset not in PAPER:
        raise InputError(f"the paper's datasets are {' and '.join(PAPER)}; got {dataset!r}")
    if not prior_epsilon > 0:
        raise InputError(f"the prior's epsilon is a positive number; got {prior_epsilon}")
    of, chosen = PAPER[dataset], choices or Choices()
    if log.path is None:
        key = identity((), dataset, "generated", VERSION, log.rows, log.seed, chosen)
    else:
        key = identity([log.path], dataset, log.expect, chosen)
    generated = log.path is None or is_generated(log.path)
    periods = Periods(**cached(cache, key, Periods._fields, lambda: _count(of, log, chosen, cache, threads)))
    cases = paper_cases(of, periods, noises, prior_epsilon=prior_epsilon, seed=seed, generated=generated)
    return Experiment(cases, [LeftOut(**row) for row in periods.left.to_pylist() if row["rows"]], generated)


def _count(of: PaperDataset, log: PaperLog, choices: Choices, cache: str | None, threads: int | None) -> Tables:
    import duckdb

    with duckdb.connect() as connection:
        print_no_progress(connection)
        if threads is not None:
            connection.execute(f"SET threads = {int(threads)}")
        if log.path is not None:
            expect: Any = "any" if is_generated(log.path) else log.expect
            return paper_counts(connection, log.path, of, choices, expect)._asdict()
        with tempfile.TemporaryDirectory(prefix="attributary-", dir=cache) as folder:
            path = os.path.join(folder, f"{of.name}.parquet")
            generate(of.name, path, log.rows, log.seed)
            return paper_counts(connection, path, of, choices, "any")._asdict()
