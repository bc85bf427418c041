"""Counting values, and several conversions to an impression: SQL agrees with plain Python; what is cut off is told."""

import json
from collections import Counter, defaultdict
from math import floor, log10
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, example, given, reject, settings
from hypothesis import strategies as st
from pyarrow import parquet
from tests.logs.test_attribution import (
    DAY,
    IMPRESSIONS,
    KEYS,
    PERIODS,
    SPEC,
    TIMES,
    USERS,
    WINDOW,
    Impression,
    leaves,
    table,
)

from attributary.errors import InputError
from attributary.logs.count import count
from attributary.logs.counts import PER_TEN, Counts, bin_start
from attributary.logs.duckdb import DuckDB
from attributary.prior import from_counts
from attributary.prior.earlier import profile
from attributary.spec import Measure, Spec
from support.effort import examples

TYPES = {"user": pa.string(), "advertiser": pa.int64(), "time": pa.int64(), "day": pa.string(), "value": pa.float64()}
REVENUE = '\n[[measure]]\nname = "count"\n[[measure]]\nname = "revenue"\ncolumn = "value"\nclip = '
VALUES = st.sampled_from([None, float("nan"), -5.0, 0.0, 0.01, 1.0, 7.25, 9.999999, 10.0, 10.000001, 1234.5])


class Sale(NamedTuple):
    user: str | None
    advertiser: int | None
    time: int | None
    day: str | None
    value: float | None


SALES = st.builds(Sale, USERS, KEYS, TIMES, st.sampled_from(["mon", "tue", None, "sun"]), VALUES)


def spec(most: int | str = 1, clip: float | str | None = None) -> Spec:
    measures = "" if clip is None else REVENUE + json.dumps(clip)
    return Spec.parse(f"conversions_per_impression = {json.dumps(most)}\n{SPEC}{measures}")


def counted(folder: Path, asked: Spec, impressions: list[Any], sales: list[Any], **more: Any) -> Counts:
    folder = Path(mkdtemp(dir=folder))  # a new one: DuckDB 1 caches files by name and time
    parquet.write_table(table(impressions, Impression), folder / "impressions.parquet")
    columns = {name: pa.array([row[i] for row in sales], TYPES[name]) for i, name in enumerate(Sale._fields)}
    parquet.write_table(pa.table(columns), folder / "conversions.parquet")
    return count(asked, str(folder), **more)


class Plain(NamedTuple):
    counted: Counter[Any]  # by leaf
    beyond: Counter[Any]
    value: dict[Any, int]  # in millionths, under the limits
    full: dict[Any, int]  # without
    fates: Counter[str]


def plain(
    impressions: list[Impression], sales: list[Sale], most: int, clip: float, since: float, until: float
) -> Plain:
    """One conversion after the other: it goes to the last impression before it, if that has fewer than `most`."""
    number, beyond, fates, taken = Counter[Any](), Counter[Any](), Counter[str](), Counter[int]()
    value, full = defaultdict[Any, int](int), defaultdict[Any, int](int)
    micro = {sale: None if sale.value is None or np.isnan(sale.value) else round(sale.value * 10**6) for sale in sales}
    order = sorted(sales, key=lambda s: (s.time or 0, s.day or "", micro[s] is not None, micro[s] or 0))
    for sale in order:
        if None in sale[:3]:
            fates["incomplete"] += 1
            continue
        before = [
            (i.time, i.campaign or "", n)
            for n, i in enumerate(impressions)
            if i[:2] == sale[:2] and i.time is not None and i.time <= sale.time
        ]
        if not before:
            fates["unattributed"] += 1
            continue
        time, campaign, n = max(before)
        if not since <= time < until:
            continue
        if sale.time - time >= WINDOW:
            fates["late"] += 1
            continue
        taken[n] += 1
        leaf = (campaign or "missing", sale.day or "missing", (sale.time - time) // (2 * DAY))
        fates["exceeded"] += taken[n] > most
        if leaf[1] not in ("mon", "tue"):
            continue
        (number if taken[n] <= most else beyond)[leaf] += 1
        mine = max(micro[sale] or 0, 0)
        full[leaf] += mine
        value[leaf] += min(mine, round(clip * 10**6)) if taken[n] <= most else 0
    return Plain(number, beyond, value, full, fates)


OPEN = ["both", "clip", "most"]  # limits that the plan chooses
LAW = {
    "impressions": st.lists(IMPRESSIONS, min_size=1, max_size=8),
    "sales": st.lists(SALES, max_size=12),
    "most": st.sampled_from([1, 2, 3, 20]),
    "clip": st.sampled_from([10, 0.5, 1e6]),
    "period": PERIODS,
}
TIES = {
    "impressions": [Impression("a", 1, 0, c) for c in "xyx"],
    "sales": [Sale("a", 1, 0, "mon", 3.0)] * 3,
    "most": 2,
    "clip": 10,
    "period": {},
}


@settings(max_examples=examples(100))
@given(**LAW, chosen=st.sampled_from(OPEN))
@example(**TIES, chosen="both")
def test_the_sql_agrees_with_plain_python(chosen: str, engine: DuckDB, tmp_path_factory: Any, **drawn: Any) -> None:
    check_sql(tmp_path_factory.getbasetemp(), engine, [chosen], **drawn)


@pytest.mark.sweep
@settings(max_examples=examples(200))
@given(**LAW)
@example(**TIES)
def test_so_it_does_whatever_the_plan_chooses(engine: DuckDB, tmp_path_factory: Any, **drawn: Any) -> None:
    check_sql(tmp_path_factory.getbasetemp(), engine, OPEN, **drawn)


def check_sql(
    folder: Path,
    engine: DuckDB,
    open_limits: list[str],
    impressions: list[Any],
    sales: list[Any],
    most: int,
    clip: float,
    period: Any,
) -> None:
    ours = [i._replace(user=i.user or None) for i in impressions]
    theirs = [s._replace(user=s.user or None) for s in sales]
    since, until = period.get("since", -1e99), period.get("until", 1e99)
    if not any(not period or (i.time is not None and since <= i.time < until) for i in ours):
        return
    expected = plain(ours, theirs, most, clip, since, until)
    counts = counted(folder, spec(most, clip), impressions, sales, engine=engine, **period)
    assert leaves(counts)[1] == expected.counted
    for fate in ("unattributed", "late", "exceeded", "incomplete"):
        assert getattr(counts, fate) == expected.fates[fate], fate
    for row in counts.table.to_pylist():
        leaf = (row["campaign"], row["day"], int(row["delay"][0]) // 2)
        assert row["conversions_beyond"] == expected.beyond[leaf]
        assert round(row["revenue"] * 10**6) == expected.value[leaf]
        assert round((row["revenue"] + row["revenue_beyond"]) * 10**6) == expected.full[leaf]
    tree = spec().tree(counts.table)
    first = spec(most, clip).asked[1]
    for chosen in open_limits:  # where the plan chooses one limit or both, rows by rank and value bin say the same
        open_ = spec(most if chosen == "clip" else "auto", clip if chosen == "most" else "auto")
        rows = counted(folder, open_, impressions, sales, engine=engine, **period).table
        assert rows.column("impressions").drop_null().to_pylist().count(0) == 0
        assert sum(rows.column("impressions").drop_null().to_pylist()) == counts.impressions
        by_bin, same = profile(tree, open_, rows), profile(tree, spec(most, clip), counts.table)
        assert np.allclose(by_bin.full(first), same.full(first))
        assert np.array_equal(by_bin.limited(open_.asked[0], most, 1), from_counts(tree, counts.table).mean)
        if open_.asked[1].limit is not None:
            assert np.allclose(by_bin.limited(first, most, clip), same.limited(first, most, clip))


@settings(max_examples=examples(30), deadline=None)
@given(impressions=st.lists(IMPRESSIONS, min_size=1), sales=st.lists(SALES), seed=st.randoms())
def test_the_order_of_rows_does_not_matter(
    impressions: list[Any], sales: list[Any], seed: Any, engine: DuckDB, tmp_path_factory: Any
) -> None:
    folder = tmp_path_factory.getbasetemp()
    first = counted(folder, spec(2, "auto"), impressions, sales, engine=engine)
    seed.shuffle(impressions)
    seed.shuffle(sales)
    assert counted(folder, spec(2, "auto"), impressions, sales, engine=engine).table.equals(first.table)


@settings(max_examples=examples(40), deadline=None)
@given(impressions=st.lists(IMPRESSIONS, min_size=1, max_size=9), sales=st.lists(SALES, max_size=9), period=PERIODS)
def test_one_conversion_and_no_values_is_what_it_was(
    impressions: list[Any], sales: list[Any], period: Any, engine: DuckDB, tmp_path_factory: Any
) -> None:
    """The way for many, with a limit of one, has the counts of the way for one, which is not touched."""
    folder = tmp_path_factory.getbasetemp()
    assume(not period or any(i.time is not None for i in impressions))
    try:
        one = counted(folder, spec(), impressions, sales, engine=engine, **period)
    except InputError:  # no impression in the period
        reject()
    many = counted(folder, spec(1, 10), impressions, sales, engine=engine, **period)
    assert many.table.select(one.table.column_names).equals(one.table)
    for name in ("impressions", "conversions", "unattributed", "late", "incomplete", "undated", "left_out", "outside"):
        assert getattr(one, name) == getattr(many, name), name


@given(micro=st.integers(1, 10**16))
def test_a_bin_begins_where_it_says(micro: int) -> None:
    auto = Measure(name="revenue", clip="auto")
    bin_ = floor(PER_TEN * log10(micro))
    assert bin_start(auto, bin_) <= micro * (1 + 1e-9) and micro <= bin_start(auto, bin_ + 1) * (1 + 1e-9)


REFUNDS = '\n[[measure]]\nname = "refunds"\ncolumn = "value"\nrefunds = true\nclip = '


@settings(max_examples=examples(40), deadline=None)
@given(
    impressions=st.lists(IMPRESSIONS, min_size=1, max_size=9),
    sales=st.lists(SALES, max_size=9),
    clip=st.sampled_from(["10", "0.5", '"auto"']),
)
def test_refunds_are_the_values_of_a_log_with_all_signs_turned(
    impressions: list[Any], sales: list[Any], clip: str, engine: DuckDB, tmp_path_factory: Any
) -> None:
    folder = tmp_path_factory.getbasetemp()
    text = f"conversions_per_impression = 2\n{SPEC}{REFUNDS}{clip}"
    turned = [sale._replace(value=sale.value if sale.value is None else -sale.value) for sale in sales]
    found = counted(folder, Spec.parse(text), impressions, sales, engine=engine)
    expected = counted(
        folder, Spec.parse(text.replace("refunds = true", "refunds = false")), impressions, turned, engine=engine
    )
    assert found.table.equals(expected.table)
    assert found.values[0].total == expected.values[0].total and found.values[0].cut == expected.values[0].cut


def test_refunds_stand_beside_their_sales(tmp_path: Path) -> None:
    sales = [Sale("a", 1, i, "mon", value) for i, value in enumerate([7.5, -20.0, 0.0, None, -3.0, 300.0])]
    asked = Spec.parse(f"conversions_per_impression = 20\n{SPEC}{REVENUE}100{REFUNDS}10")
    counts = counted(tmp_path, asked, [Impression("a", 1, 0, "x")], sales)
    row = max(counts.table.to_pylist(), key=lambda row: row["conversions"])
    assert (row["conversions"], row["revenue"], row["refunds"], row["refunds_beyond"]) == (6, 107.5, 13.0, 10.0)
    revenue, refunds = counts.values
    assert (revenue.not_positive, revenue.refunded) == (3, -23.0)
    assert (refunds.total, refunds.not_positive, refunds.refunded, refunds.clipped) == (23.0, 0, 0.0, 1)


def test_what_values_lack_is_told(tmp_path: Path) -> None:
    values = [None, float("nan"), -20.0, 0.0, 5.0, 1000.0]
    sales = [Sale("a", 1, i, "mon", value) for i, value in enumerate(values)]
    counts = counted(tmp_path, spec(20, 100), [Impression("a", 1, 0, "x")], sales)
    (told,) = counts.values
    assert (told.missing, told.not_positive, told.refunded) == (2, 2, -20.0)
    assert (told.total, told.clipped, told.cut) == (1005.0, 1, 900.0)
    assert counts.conversions == 6  # a conversion without a value is one still


def test_rows_with_their_conversions_have_values_too(tmp_path: Path) -> None:
    rows = {"campaign": list("xxxy"), "sold": [1, 1, 0, 1], "amount": [5.0, 300.0, 99.0, None]}
    parquet.write_table(pa.table(rows), tmp_path / "rows.parquet")
    text = 'epsilon = 1\n[[attribute]]\nname = "campaign"\n[logs]\nattributed = "rows.parquet"\nconverted = "sold"\n'
    asked = Spec.parse(text + '[[measure]]\nname = "amount"\nclip = 100\n')
    counts = count(asked, str(tmp_path))
    assert counts.table.select(["conversions", "amount", "amount_beyond"]).to_pylist() == [
        {"conversions": 2, "amount": 105.0, "amount_beyond": 200.0},
        {"conversions": 1, "amount": 0.0, "amount_beyond": 0.0},
    ]


@pytest.mark.parametrize(
    ("measures", "rule"),
    [
        ('[[measure]]\nname = "count"\nclip = 3', "measure[1].clip: is of a value; 'count' is the number"),
        ('[[measure]]\nname = "count"\nrefunds = true', "measure[1].refunds: is of a value; 'count' is the number"),
        ('[[measure]]\nname = "x"\nclip = 0', "measure[1].clip: the most that one conversion counts"),
        ('[[measure]]\nname = "x"\nclip = 1e10', "measure[1].clip: the most that one conversion counts"),
        ('[[measure]]\nname = "x"\nclip = nan', "measure[1].clip: the most that one conversion counts"),
        ('[[measure]]\nname = "x"\nweight = 0', "measure[1].weight: how much its errors weigh"),
        ('[[measure]]\nname = "x"\ntau = 0', "measure[1].tau: the sum below which"),
        ('[[measure]]\nname = " x"', 'measure[1].name: "count", or a name for a value'),
        ('[[measure]]\nname = "x"\n[[measure]]\nname = "x"', "measure[2].name: measures are named once each"),
        ('[[measure]]\nname = "day"', "measure[1].name: 'day' is the name of an attribute"),
        ('[[measure]]\nname = "estimate"', "measure[1].name: 'estimate' is the name of a column that our tables add"),
        ('[[measure]]\nname = "rank"', "measure[1].name: 'rank' is the name of a column that our tables add"),
        ('[[measure]]\nname = "x"\nclips = 3', "measure[1].clips: there is no such key; did you mean clip?"),
    ],
)
def test_a_wrong_measure_is_refused(measures: str, rule: str) -> None:
    with pytest.raises(InputError) as refused:
        Spec.parse(f"{SPEC}\n{measures}\n")
    assert rule in str(refused.value)


@pytest.mark.parametrize(
    ("head", "rule"),
    [
        ('noise = "unit"', "noise: values are scaled, as in the API"),
        ("l1 = 5", "l1: every level needs a contribution of at least 1; got 5 for 3 levels, 2 measures"),
    ],
)
def test_values_need_room_and_scale(head: str, rule: str) -> None:
    with pytest.raises(InputError, match=rule.split(":")[1].strip()[:30]):
        Spec.parse(f"{head}\n{SPEC}{REVENUE}10\n")


def test_an_attribute_may_not_be_called_as_a_column_that_values_add() -> None:
    plain_spec = SPEC.replace('"campaign"', '"rank"')
    assert Spec.parse(plain_spec).levels[0] == "rank"  # as long as nothing but conversions is counted
    with pytest.raises(InputError, match="'rank' is the name of a column that our tables add"):
        Spec.parse(f"conversions_per_impression = 2\n{plain_spec}")


def test_a_column_of_values_that_is_not_there_is_named(tmp_path: Path) -> None:
    asked = Spec.parse(f'{SPEC}\n[[measure]]\nname = "amount"\nclip = 5\n')
    with pytest.raises(InputError, match="has no column 'amount'"):
        counted(tmp_path, asked, [Impression("a", 1, 0, "x")], [Sale("a", 1, 0, "mon", 1.0)])
