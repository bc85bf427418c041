"""Attribution: the SQL agrees with what one would write down, slow and plain; edges and ties are where the docs say."""

from collections import Counter
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from attributary.logs.count import count
from attributary.logs.counts import Counts
from attributary.logs.duckdb import DuckDB
from attributary.spec import Spec
from support.effort import examples

DAY = 86_400
WINDOW = 6 * DAY
SPEC = """
epsilon = 1

[[attribute]]
name = "campaign"

[[attribute]]
name = "day"
unknown = true
domain = ["mon", "tue"]

[[attribute]]
name = "delay"
unknown = true
bucket = "2d"
buckets = 3

[logs]
impressions = "impressions.parquet"
conversions = "conversions.parquet"
user = "user"
keys = ["advertiser"]
time = "time"
window = "6d"
"""
TYPES = {"user": pa.string(), "advertiser": pa.int64(), "time": pa.int64(), "campaign": pa.string(), "day": pa.string()}


class Impression(NamedTuple):
    user: str | None
    advertiser: int | None
    time: int | None
    campaign: str | None


class Conversion(NamedTuple):
    user: str | None
    advertiser: int | None
    time: int | None
    day: str | None


class Plain(NamedTuple):
    impressions: Counter[Any]  # by campaign
    conversions: Counter[Any]  # by campaign, day and bucket of the delay
    fates: Counter[str]


def plain(
    impressions: list[Impression], conversions: list[Conversion], since: float = -1e99, until: float = 1e99
) -> Plain:
    """One conversion after the other: it goes to the last impression before it, if that has none yet."""
    counted, fates, taken = Counter[Any](), Counter[str](), set()
    for conversion in sorted(conversions, key=lambda c: (c.time or 0, c.day or "")):
        if None in conversion[:3]:
            fates["incomplete"] += 1
            continue
        before = [
            (i.time, i.campaign or "", n)
            for n, i in enumerate(impressions)
            if i[:2] == conversion[:2] and i.time is not None and i.time <= conversion.time
        ]
        if not before:
            fates["unattributed"] += 1
            continue
        time, campaign, n = max(before)
        delay = conversion.time - time
        fate = "late" if delay >= WINDOW else "exceeded" if n in taken else "counted"
        taken |= {n} if fate == "counted" else set()
        if since <= time < until:
            fates[fate] += 1
            if fate == "counted":
                counted[campaign or "missing", conversion.day or "missing", delay // (2 * DAY)] += 1
    all_time = since == -1e99 and until == 1e99
    seen = [i for i in impressions if all_time or (i.time is not None and since <= i.time < until)]
    return Plain(Counter(i.campaign or "missing" for i in seen), counted, fates)


def table(rows: list[Any], kind: type) -> pa.Table:
    return pa.table({name: pa.array([row[i] for row in rows], TYPES[name]) for i, name in enumerate(kind._fields)})


def counted(folder: Path, impressions: list[Any], conversions: list[Any], **more: Any) -> Counts:
    folder = Path(mkdtemp(dir=folder))  # a new one: DuckDB 1 caches files by name and time
    parquet.write_table(table(impressions, Impression), folder / "impressions.parquet")
    parquet.write_table(table(conversions, Conversion), folder / "conversions.parquet")
    return count(Spec.parse(SPEC), str(folder), **more)


def leaves(counts: Counts) -> tuple[Counter[Any], Counter[Any]]:
    """Impressions by campaign and conversions by leaf, as they stand in the table."""
    impressions, conversions = Counter[Any](), Counter[Any]()
    for row in counts.table.to_pylist():
        impressions[row["campaign"]] += row["impressions"] or 0
        conversions[row["campaign"], row["day"], int(row["delay"][0]) // 2] += row["conversions"]
    return +impressions, +conversions


USERS = st.sampled_from(["a", "a", "a", "a", "b", "", None])  # few, so that they meet
KEYS = st.sampled_from([1, 1, 1, 1, 2, None])
TIMES = st.sampled_from(
    [None, -WINDOW, -1, 0, 0, 1, 2 * DAY - 1, 2 * DAY, 2 * DAY, WINDOW - 1, WINDOW, WINDOW, 2 * WINDOW]
)
IMPRESSIONS = st.builds(Impression, USERS, KEYS, TIMES, st.sampled_from(["x", "y", None]))
CONVERSIONS = st.builds(Conversion, USERS, KEYS, TIMES, st.sampled_from(["mon", "tue", None, "sun"]))
PERIODS = st.sampled_from([{}, {"since": 1}, {"until": 2 * DAY}, {"since": 0, "until": WINDOW}])


@settings(max_examples=examples(120), deadline=None)
@given(impressions=st.lists(IMPRESSIONS, max_size=12), conversions=st.lists(CONVERSIONS, max_size=8), period=PERIODS)
@example(impressions=[Impression("a", 1, 0, "x")], conversions=[], period={})
@example(
    impressions=[Impression("a", 1, 0, c) for c in "xyx"], conversions=[Conversion("a", 1, 0, "mon")] * 2, period={}
)
def test_the_sql_agrees_with_plain_python(
    impressions: list[Any], conversions: list[Any], period: Any, engine: DuckDB, tmp_path_factory: Any
) -> None:
    folder = tmp_path_factory.getbasetemp()
    blank = (
        [i._replace(user=i.user or None) for i in impressions],
        [c._replace(user=c.user or None) for c in conversions],
    )
    expected = plain(*blank, **period)
    if not expected.impressions:
        with pytest.raises(ValueError, match="there is no impression to count"):
            counted(folder, impressions, conversions, engine=engine, **period)
        return
    counts = counted(folder, impressions, conversions, engine=engine, **period)
    seen, by_leaf = leaves(counts)
    assert seen == expected.impressions and counts.impressions == seen.total()
    assert by_leaf == Counter({leaf: n for leaf, n in expected.conversions.items() if leaf[1] in ("mon", "tue")})
    assert counts.conversions == by_leaf.total()
    assert counts.left_out == expected.conversions.total() - by_leaf.total()
    for fate in ("unattributed", "late", "exceeded", "incomplete"):
        assert getattr(counts, fate) == expected.fates[fate], fate


@settings(max_examples=examples(25), deadline=None)
@given(impressions=st.lists(IMPRESSIONS, min_size=1), conversions=st.lists(CONVERSIONS), seed=st.randoms())
def test_the_order_of_rows_does_not_matter(
    impressions: list[Any], conversions: list[Any], seed: Any, engine: DuckDB, tmp_path_factory: Any
) -> None:
    folder = tmp_path_factory.getbasetemp()
    first = counted(folder, impressions, conversions, engine=engine)
    seed.shuffle(impressions)
    seed.shuffle(conversions)
    assert counted(folder, impressions, conversions, engine=engine).table.equals(first.table)


@settings(max_examples=examples(25), deadline=None)
@given(impressions=st.lists(IMPRESSIONS, min_size=1), conversions=st.lists(CONVERSIONS), cut=st.integers(0, WINDOW))
def test_periods_add_up(
    impressions: list[Any], conversions: list[Any], cut: int, engine: DuckDB, tmp_path_factory: Any
) -> None:
    """Every conversion is in the period of its impression, and in no other."""
    folder = tmp_path_factory.getbasetemp()
    dated = [*(i for i in impressions if i.time is not None), *(Impression("z", 1, t, "x") for t in (cut - 1, cut))]
    parts = [counted(folder, dated, conversions, engine=engine, **p) for p in ({"until": cut}, {"since": cut}, {})]
    (a, b), (c, d), (both, all_leaves) = map(leaves, parts)
    assert a + c == both and b + d == all_leaves
    for fate in ("late", "exceeded", "left_out"):
        assert getattr(parts[0], fate) + getattr(parts[1], fate) == getattr(parts[2], fate)


def one(delay: int, folder: Path) -> Counts:
    return counted(folder, [Impression("a", 1, 0, "x")], [Conversion("a", 1, delay, "mon")])


@pytest.mark.parametrize(
    ("delay", "fate"),
    [(-1, "unattributed"), (0, "conversions"), (WINDOW - 1, "conversions"), (WINDOW, "late"), (WINDOW + 1, "late")],
)
def test_the_window_begins_with_the_impression_and_ends_before_its_end(delay: int, fate: str, tmp_path: Path) -> None:
    counts = one(delay, tmp_path)
    names = ("conversions", "unattributed", "late", "exceeded", "incomplete", "left_out")
    fates = {name: getattr(counts, name) for name in names}
    assert fates == {**dict.fromkeys(fates, 0), fate: 1}


@pytest.mark.parametrize(
    ("delay", "bucket"), [(0, "0-2d"), (2 * DAY - 1, "0-2d"), (2 * DAY, "2-4d"), (WINDOW - 1, "4-6d")]
)
def test_a_bucket_has_its_lower_end_and_not_its_upper(delay: int, bucket: str, tmp_path: Path) -> None:
    rows = [row for row in one(delay, tmp_path).table.to_pylist() if row["conversions"]]
    assert [(row["delay"], row["conversions"]) for row in rows] == [(bucket, 1)]


@pytest.mark.parametrize(("time", "inside"), [(9, 0), (10, 1), (19, 1), (20, 0)])
def test_a_period_has_its_beginning_and_not_its_end(time: int, inside: int, tmp_path: Path) -> None:
    two = [Impression("a", 1, time, "x"), Impression("b", 1, 15, "y")]
    counts = counted(tmp_path, two, [Conversion("a", 1, 30, "mon")], since=10, until=20)
    assert (counts.impressions, counts.conversions, counts.unattributed) == (1 + inside, inside, 0)


def test_ties_go_by_the_attributes(tmp_path: Path) -> None:
    same_time = [Impression("a", 1, 0, "x"), Impression("a", 1, 0, "y"), Impression("a", 1, 0, None)]
    counts = counted(tmp_path, same_time, [Conversion("a", 1, 5, "tue"), Conversion("a", 1, 5, "mon")])
    assert leaves(counts)[1] == {("y", "mon", 0): 1} and counts.exceeded == 1


def test_a_conversion_that_exceeds_the_limit_does_not_fall_back(tmp_path: Path) -> None:
    two = [Impression("a", 1, 0, "x"), Impression("a", 1, 1, "y")]
    counts = counted(tmp_path, two, [Conversion("a", 1, 2, "mon"), Conversion("a", 1, 3, "mon")])
    assert leaves(counts)[1] == {("y", "mon", 0): 1} and counts.exceeded == 1


def test_advertisers_are_kept_apart(tmp_path: Path) -> None:
    two = [Impression("a", 1, 0, "x"), Impression("a", 2, 1, "y")]
    counts = counted(tmp_path, two, [Conversion("a", 1, 2, "mon"), Conversion("a", 3, 2, "mon")])
    assert leaves(counts)[1] == {("x", "mon", 0): 1} and counts.unattributed == 1
