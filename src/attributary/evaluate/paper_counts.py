"""A published dataset, or a look-alike, counted once for all of its trees and both of its periods."""

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from attributary.datasets import load
from attributary.errors import InputError
from attributary.evaluate.paper_trees import DELAY_DAYS, PaperDataset, PaperTree
from attributary.logs.duckdb_errors import text_file_errors

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

    before: Any
    after: Any
    left: Any


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
    return Periods(before, after, _left(table, why))


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


def _left(table: Any, why: NDArray[Any]) -> Any:
    import pyarrow as pa

    number, converted = (table.column(name).to_numpy() for name in ("number", "conversion"))
    rows = {reason: int(number[why == reason].sum()) for reason in REASONS}
    sales = {reason: int(number[(why == reason) & (converted == 1)].sum()) for reason in REASONS}
    return pa.table({"why": list(REASONS.values()), "rows": list(rows.values()), "conversions": list(sales.values())})


def leaf_counts(period: Any, tree: PaperTree) -> Any:
    """The counts of a period for a tree: its attributes, with the delay's label, and conversions.

    A known path without conversions has a row of 0, so that it is a part of the tree.
    """
    import pyarrow as pa

    step = period.column("step").to_numpy().astype(np.int64)
    number = period.column("number").to_numpy()
    labels = pa.array(tree.spec.attributes[-1].labels)
    bucket = np.maximum(step, 0) // (tree.days // STEP)
    columns = {name: period.column(name) for name in tree.attributes}
    columns["delay"] = pa.DictionaryArray.from_arrays(pa.array(bucket.astype(np.int32)), labels).cast(pa.string())
    columns["conversions"] = pa.array(np.where(step >= 0, number, 0))
    keys = [*tree.attributes, "delay"]
    summed = pa.table(columns).group_by(keys, use_threads=False).aggregate([("conversions", "sum")])
    return summed.select([*keys, "conversions_sum"]).rename_columns([*keys, "conversions"])
