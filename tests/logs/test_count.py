"""Counting: any kind of file gives the same table, leaves fill the domains, and nothing is lost in silence."""

import datetime as dt
import gzip
import os
import uuid
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from threading import Event
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attributary.errors import InputError, TryAgain
from attributary.logs.count import bucket_sql, count
from attributary.logs.counts import Counts
from attributary.logs.duckdb import DuckDB
from attributary.logs.log_columns import clock_of, moment_micros
from attributary.logs.log_files import refuse_cut_gzip, refuse_cut_zstd
from attributary.spec import Attribute, Spec
from attributary.tables import write_table
from support.effort import examples

HEAD = """
epsilon = 1
[[attribute]]
name = "campaign"
"""
TWO = (
    HEAD
    + """
[[attribute]]
name = "day"
unknown = true
domain = ["mon", "tue", "other"]
[logs]
impressions = "i.csv"
conversions = "c.csv"
user = "user"
time = "time"
"""
)
ONE = (
    HEAD
    + """
[[attribute]]
name = "price"
unknown = true
bucket = 0.1
buckets = 4
[logs]
attributed = "rows.csv"
converted = "sale"
"""
)
IMPRESSIONS = "user,time,campaign\nu1,10,007\nu2,20,b\nu3,30,\n"
CONVERSIONS = "user,time,day\nu1,11,mon\nu2,25,tue\nu3,31,sun\nu9,1,mon\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "i.csv").write_text(IMPRESSIONS)
    (tmp_path / "c.csv").write_text(CONVERSIONS)
    return tmp_path


def rows(counts: Counts) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in counts.table.to_pylist()]


def some(counts: Counts) -> list[tuple[Any, ...]]:
    """The leaves that have conversions, without their impressions."""
    return [(*row[:-2], row[-1]) for row in rows(counts) if row[-1]]


# --- leaves ----------------------------------------------------------------------------------------------------------


def test_every_known_path_has_the_whole_domain(folder: Path, engine: DuckDB) -> None:
    counts = count(Spec.parse(TWO), str(folder), engine=engine)
    assert rows(counts) == [
        ("007", "mon", 1, 1),
        ("007", "tue", None, 0),
        ("007", "other", None, 0),
        ("b", "mon", 1, 0),
        ("b", "tue", None, 1),
        ("b", "other", None, 0),
        ("missing", "mon", 1, 0),
        ("missing", "tue", None, 0),
        ("missing", "other", None, 0),
    ]
    assert (counts.impressions, counts.conversions, counts.unattributed, counts.left_out) == (3, 2, 1, 1)
    (outside,) = counts.outside
    assert outside == ("day", 1, {"sun": 1}, False)


def test_the_leaves_of_the_tree_are_the_rows_of_the_table(folder: Path, engine: DuckDB) -> None:
    spec = Spec.parse(TWO)
    table = count(spec, str(folder), engine=engine).table
    tree = spec.tree(table)
    paths = [tuple(tree.path(int(v))) for v in np.flatnonzero(tree.is_leaf)]
    assert paths == [tuple(row.values())[:2] for row in table.to_pylist()]


def test_other_takes_what_is_outside_only_if_the_spec_says_so(folder: Path, engine: DuckDB) -> None:
    counts = count(Spec.parse(TWO + 'other = ["day"]'), str(folder), engine=engine)
    assert ("missing", "other", 1) in some(counts) and counts.left_out == 0
    assert counts.outside == (("day", 1, {"sun": 1}, True),)


def test_the_order_of_attributes_is_the_specs(folder: Path, engine: DuckDB) -> None:
    only_unknown = TWO.replace('[[attribute]]\nname = "campaign"\n', "")
    counts = count(Spec.parse(only_unknown), str(folder), engine=engine)
    assert rows(counts) == [("mon", 3, 1), ("tue", None, 1), ("other", None, 0)]


@pytest.mark.parametrize(
    ("cells", "value", "labels"),
    [
        ("7\n07\n7.0\n8.5\nx\n", "range = [6, 7]", {"7": 3}),
        ("true\nTrue\n", 'domain = ["true"]', {"true": 1}),
        ("-1\nNA\n\n5\n", 'domain = [5, "missing"]', {"5": 1, "missing": 3}),
    ],
)
def test_values_meet_their_domain_as_text(cells: str, value: str, labels: dict[str, int], folder: Path) -> None:
    lines = cells.split("\n")[:-1]
    (folder / "rows.csv").write_text("campaign,price,sale\n" + "".join(f"a,{cell},1\n" for cell in lines))
    spec = ONE.replace("bucket = 0.1\nbuckets = 4", value) + 'missing = [-1, "NA"]'
    counts = count(Spec.parse(spec), str(folder))
    assert {row[1]: row[2] for row in some(counts)} == labels
    assert counts.left_out == len(lines) - sum(labels.values())


def test_too_many_leaves_are_refused(folder: Path, engine: DuckDB) -> None:
    wide = TWO.replace('domain = ["mon", "tue", "other"]', "range = [1, 99_999]")
    wide = wide.replace("[logs]", '[[attribute]]\nname = "user"\nunknown = true\nrange = [1, 10_000]\n[logs]')
    with pytest.raises(InputError, match="fewer than 2\\*\\*31 leaves; 3 known paths"):
        count(Spec.parse(wide), str(folder), engine=engine)


# --- buckets ---------------------------------------------------------------------------------------------------------


@settings(max_examples=examples(60), deadline=None)
@given(
    place=st.integers(-3, 30),
    start=st.sampled_from([0, 0.1, -2.5, 7]),
    width=st.sampled_from([0.1, 0.3, 0.25, 1, 3, 1e-3]),
)
def test_decimal_edges_are_in_the_bucket_above(place: int, start: float, width: float, engine: DuckDB) -> None:
    attribute = Attribute(name="x", unknown=True, bucket=width, buckets=20, start=start)
    edge = float(Decimal(repr(start)) + place * Decimal(repr(width)))
    for value, expected in ((edge, place), (np.nextafter(edge, -9), place - 1), (np.nextafter(edge, 99), place)):
        sql = bucket_sql(f"CAST('{float(value)!r}' AS DOUBLE)", attribute)
        assert engine.run(f"SELECT {sql} AS x").column(0)[0].as_py() == max(-1, min(20, expected))


def test_what_is_in_no_bucket_is_told(folder: Path, engine: DuckDB) -> None:
    prices = ["0.1", "0.3", "-0.0001", "0.4", "inf", "nan", "", "1e-9"]
    (folder / "rows.csv").write_text("campaign,price,sale\n" + "".join(f"a,{p},1\n" for p in prices) + "a,9,0\n")
    counts = count(Spec.parse(ONE), str(folder), engine=engine)
    assert some(counts) == [("a", "0-0.1", 1), ("a", "0.1-0.2", 1), ("a", "0.3-0.4", 1)]
    (outside,) = counts.outside
    assert outside.values == {"above all buckets": 2, "missing": 2, "below all buckets": 1}
    assert counts.left_out == 5 and counts.impressions == 9


# --- conditions ---

ROWS = [
    ("de", 5.0, True, 1),
    ("at", 1.0, False, 2),
    ("ch", 9.5, True, 3),
    (None, None, None, None),
    ("a'; --", 2, True, 4),
]
CONDITIONS: dict[str, tuple[Any, Any]] = {
    "value": ({"country": "de"}, lambda c, p, f, n: c == "de"),
    "list": ({"country": ["de", "at", "a'; --"]}, lambda c, p, f, n: c in ("de", "at", "a'; --")),
    "not": ({"country": {"not": ["de", "x"]}}, lambda c, p, f, n: c != "de"),
    "range": ({"price": {"from": 2, "until": 9.5}}, lambda c, p, f, n: p is not None and 2 <= p < 9.5),
    "number": ({"price": [1, 9.5]}, lambda c, p, f, n: p in (1, 9.5)),
    "whole": ({"n": {"in": [1, 4], "not": [4]}}, lambda c, p, f, n: n == 1),
    "flag": ({"flag": True}, lambda c, p, f, n: f is True),
    "two": ({"country": {"not": "ch"}, "n": {"from": 2}}, lambda c, p, f, n: c != "ch" and (n or 0) >= 2),
}


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize("name", CONDITIONS)
def test_conditions_choose_the_rows_that_count(name: str, ending: str, tmp_path: Path, engine: DuckDB) -> None:
    where, holds = CONDITIONS[name]
    users = [f"u{i}" for i in range(len(ROWS))]
    country, price, flags, n = zip(*ROWS, strict=True)
    more = {"country": country, "price": pa.array(price, pa.float64()), "flag": flags, "n": n}
    seen = pa.table({"user": users, "time": [1] * len(ROWS), "campaign": ["x"] * len(ROWS), **more})
    done = pa.table({"user": users, "time": [2] * len(ROWS), "day": ["mon"] * len(ROWS), **more})
    write_table(seen, str(tmp_path / f"i.{ending}"))
    write_table(done, str(tmp_path / f"c.{ending}"))
    chosen = sum(bool(holds(*row)) for row in ROWS)
    assert 0 < chosen < len(ROWS)
    keys = Spec.parse(TWO.replace(".csv", f".{ending}")).model_dump(by_alias=True, exclude_none=True)
    for side, file in (("impressions", "i"), ("conversions", "c")):
        spec = Spec(**{**keys, "logs": {**keys["logs"], f"{side}_where": where}})
        assert Spec(**spec.model_dump(by_alias=True, exclude_none=True)) == spec
        counts = count(spec, str(tmp_path), engine=engine)
        path = str(tmp_path / f"{file}.{ending}")
        assert counts.conversions == chosen and counts.filtered == {path: len(ROWS) - chosen}
        assert counts.impressions == (chosen if side == "impressions" else len(ROWS))
        assert (
            counts.rows == 2 * len(ROWS)
            and counts.unattributed == (counts.impressions < len(ROWS)) * counts.filtered[path]
        )


@pytest.mark.parametrize(
    ("where", "words"),
    [
        ("{country = {like = 'd%'}}", "a table of columns, each with a value"),
        ("{country = []}", "a table of columns, each with a value"),
        ("{price = {from = 'x'}}", "a table of columns, each with a value"),
        ("{country = {from = 2}}", "numbers are needed"),
        ("{nothing = 1}", "has no column 'nothing'"),
    ],
)
def test_conditions_are_no_sql(where: str, words: str, folder: Path, engine: DuckDB) -> None:
    (folder / "i.csv").write_text("user,time,campaign,country,price\nu1,1,x,de,5\n")
    with pytest.raises(InputError, match=words):
        count(Spec.parse(TWO + f"impressions_where = {where}"), str(folder), engine=engine)


def test_rows_with_their_conversions_have_one_condition(folder: Path, engine: DuckDB) -> None:
    (folder / "rows.csv").write_text("campaign,price,sale\na,0.1,1\nb,0.1,1\n")
    spec = Spec.parse(ONE + 'impressions_where = {campaign = "a"}')
    assert some(count(spec, str(folder), engine=engine)) == [("a", "0.1-0.2", 1)]
    with pytest.raises(InputError, match="the rows of one log are chosen by impressions_where"):
        Spec.parse(ONE + 'conversions_where = {campaign = "a"}')


# --- one log ---------------------------------------------------------------------------------------------------------

DELAYED = ONE.replace(
    'name = "price"\nunknown = true\nbucket = 0.1\nbuckets = 4',
    'name = "wait"\nunknown = true\nbucket = "1m"\nbuckets = 2',
)


@pytest.mark.parametrize(
    ("keys", "table"),
    [
        ('converted = "sale"\ndelay = "lag"', "campaign,sale,lag\na,1,59\na,1,60\na,0,3\na,1,\na,1,120\na,1,-5\n"),
        ('delay = "lag"\nmissing = [-1]', "campaign,lag\na,59\na,60\na,-1\na,120\na,-5\n"),
        ('time = "t"\nconversion_time = "c"', "campaign,t,c\na,100,159\na,100,160\na,100,\na,100,220\na,100,95\n"),
        (
            'time = "t"\nconversion_time = "c"\ntime_unit = "ms"',
            "campaign,t,c\na,0,59000\na,0,60000\na,0,\na,0,120000\na,9,4\n",
        ),
    ],
    ids=["delay and flag", "delay", "time", "milliseconds"],
)
def test_rows_with_their_conversions(keys: str, table: str, folder: Path, engine: DuckDB) -> None:
    (folder / "rows.csv").write_text(table)
    spec = DELAYED.replace('converted = "sale"', keys) + '\nwindow = "2m"'
    counts = count(Spec.parse(spec), str(folder), engine=engine)
    assert some(counts) == [("a", "0-1m", 1), ("a", "1-2m", 1)]
    assert counts.late == 2 and counts.impressions == table.count("\na,")
    assert counts.left_out == int("sale" in keys)  # a sale whose delay is not known


@pytest.mark.parametrize("flags", [["1", "0", ""], ["true", "false", ""], ["T", "f", "F"], ["2", "0.0", "nan"]])
def test_a_flag_is_a_number_or_a_truth(flags: list[str], folder: Path, engine: DuckDB) -> None:
    (folder / "rows.csv").write_text("campaign,price,sale\n" + "".join(f"a,0.1,{flag}\n" for flag in flags))
    assert count(Spec.parse(ONE), str(folder), engine=engine).conversions == 1


def test_a_log_without_a_header(folder: Path, engine: DuckDB) -> None:
    (folder / "rows.csv").write_text("a,0.1,1\na,0.2,0\n")
    spec = ONE + 'header = ["campaign", "price", "sale"]'
    assert count(Spec.parse(spec), str(folder), engine=engine).impressions == 2


# --- columns and files -----------------------------------------------------------------------------------------------

AWKWARD = ['"', "'", "a b", "select", "x; drop table y", "{0}", "%", "\\", "--", "é\u202e", "key_0", "time", "``"]


@pytest.mark.parametrize("name", AWKWARD)
def test_names_and_values_may_be_anything(name: str, tmp_path: Path, engine: DuckDB) -> None:
    write_table(
        pa.table({name: [name, "other", None], "when": [1, 1, 1], "what": [name] * 3}), str(tmp_path / "i.parquet")
    )
    write_table(
        pa.table({f"{name}2": [name, "x"], "at": [2, 2], f"{name}3": [name, name]}), str(tmp_path / "c.parquet")
    )
    spec = Spec(
        epsilon=1,
        attributes=[
            {"name": "what"},
            {"name": f"{name}u", "unknown": True, "domain": [name]},
        ],
        logs={
            "impressions": "i.parquet",
            "conversions": "c.parquet",
            "user": name + " ",
            "time": "t",
            "missing": ["x"],
            "impression_columns": {name + " ": name, "t": "when"},
            "conversion_columns": {name + " ": f"{name}2", "t": "at", f"{name}u": f"{name}3"},
        },
    )
    counts = count(spec, str(tmp_path), engine=engine)
    assert rows(counts) == [(name, name, 3, 1)] and counts.incomplete == 1


def test_a_file_that_was_replaced_is_read_anew(tmp_path: Path, engine: DuckDB) -> None:
    write_table(pa.table({"user": ["u1"], "time": [11], "day": ["mon"]}), str(tmp_path / "c.parquet"))
    for name in "abcdefgh":  # several within a second
        (tmp_path / "i.parquet").unlink(missing_ok=True)
        pq.write_table(pa.table({"user": ["u1"], "time": [10], name: ["x"]}), tmp_path / "i.parquet")
        text = TWO.replace(".csv", ".parquet") + f'impression_columns = {{ campaign = "{name}" }}'
        assert some(count(Spec.parse(text), str(tmp_path), engine=engine)) == [("x", "mon", 1)]


@pytest.mark.parametrize("ending", ["csv", "tsv", "csv.gz", "tsv.zst", "parquet"])
def test_any_kind_of_file_gives_the_same(ending: str, folder: Path, engine: DuckDB) -> None:
    expected = count(Spec.parse(TWO), str(folder), engine=engine)
    from attributary.tables import read_table

    for name in "ic":
        write_table(read_table(str(folder / f"{name}.csv")), str(folder / f"{name}.{ending}"))
    found = count(Spec.parse(TWO.replace(".csv", f".{ending}")), str(folder), engine=engine)
    assert found.table.equals(expected.table) and found.outside == expected.outside


def test_several_files_patterns_and_folders(tmp_path: Path, engine: DuckDB) -> None:
    lines = IMPRESSIONS.splitlines(keepends=True)
    (tmp_path / "logs [1]").mkdir()
    for i, line in enumerate(lines[1:]):
        (tmp_path / "logs [1]" / f"part-{i}*.csv").write_text(lines[0] + line)
    (tmp_path / "logs [1]" / "_SUCCESS").write_text("")
    (tmp_path / "c.csv").write_text(CONVERSIONS)
    (tmp_path / "i.csv").write_text(IMPRESSIONS)
    whole = count(Spec.parse(TWO), str(tmp_path), engine=engine)
    for given_ in (
        '"logs [1]"',
        '"logs ?1?/part*.csv"',
        '["logs [1]/part-0*.csv", "logs [1]/part-1*.csv", "logs [1]/part-2*.csv"]',
    ):
        spec = TWO.replace('"i.csv"', given_)
        assert count(Spec.parse(spec), str(tmp_path), engine=engine).table.equals(whole.table), given_


def test_quotes_line_breaks_and_a_byte_order_mark(folder: Path, engine: DuckDB) -> None:
    text = '\ufeffuser,time,campaign\r\nu1,10,"a ""b"", c\nd"\r\nu2,20,""\r\n'
    (folder / "i.csv").write_text(text, newline="")
    assert [row[0] for row in rows(count(Spec.parse(TWO), str(folder), engine=engine))][::3] == [
        'a "b", c\nd',
        "missing",
    ]


def test_keys_of_other_types_are_compared_as_text(folder: Path, engine: DuckDB) -> None:
    ids = [uuid.UUID(int=i) for i in range(3)]
    uuids = pa.array([i.bytes for i in ids], pa.binary(16)).cast(pa.uuid()) if hasattr(pa, "uuid") else None
    cases = [(pa.array([1, 2, 3], pa.int32()), ["1", "2", "3"]), (pa.array([1, 2, 3], pa.uint64()), ["1", "2", "3"])]
    cases += [(uuids, list(map(str, ids)))] if uuids is not None else []
    for column, text in cases:
        write_table(pa.table({"user": column, "time": [1, 1, 1], "campaign": ["a"] * 3}), str(folder / "i.parquet"))
        (folder / "c.csv").write_text("user,time,day\n" + "".join(f"{user},2,mon\n" for user in text))
        spec = Spec.parse(TWO.replace("i.csv", "i.parquet"))
        assert count(spec, str(folder), engine=engine).conversions == 3


# --- clocks ----------------------------------------------------------------------------------------------------------

NOON = dt.datetime(2026, 3, 1, 12)
CLOCKS: dict[str, tuple[pa.DataType, Any, Any]] = {
    "seconds": (pa.int64(), lambda minutes: 60 * minutes, 60),
    "floats": (pa.float64(), lambda minutes: 60.0 * minutes, 60.0),
    "timestamps": (pa.timestamp("us"), lambda m: NOON + dt.timedelta(minutes=m), NOON + dt.timedelta(minutes=1)),
    "nanoseconds": (pa.timestamp("ns"), lambda m: NOON + dt.timedelta(minutes=m), "2026-03-01T12:01"),
    "zoned": (pa.timestamp("us", "Europe/Paris"), lambda m: NOON + dt.timedelta(minutes=m), "2026-03-01T13:01+01:00"),
    "text": (pa.string(), lambda m: f"2026-03-01 12:{m:02}:00", "2026-03-01 12:01"),
    "zoned text": (pa.string(), lambda m: f"2026-03-01T12:{m:02}:00Z", "2026-03-01T13:01+01:00"),
    "text with offsets": (pa.string(), lambda m: f"2026-03-01T{12 + m}:{m:02}:00+{m:02}:00", "2026-03-01T12:01Z"),
    "dates": (pa.date32(), lambda m: dt.date(2026, 3, 1 + m), "2026-03-02"),
    "text dates": (pa.string(), lambda m: f"2026-03-{1 + m:02}", dt.date(2026, 3, 2)),
    "text numbers": (pa.string(), lambda m: f"{60.0 * m}", "1m"),
}


@pytest.mark.parametrize("clock", CLOCKS)
def test_every_clock_goes_right(clock: str, tmp_path: Path, engine: DuckDB) -> None:
    kind, at, first = CLOCKS[clock]
    times = pa.array([at(0), at(2)], kind), pa.array([at(1), at(2), at(1)], kind)
    write_table(pa.table({"user": ["a", "b"], "time": times[0], "campaign": ["x", "y"]}), str(tmp_path / "i.parquet"))
    write_table(pa.table({"user": ["a", "b", "b"], "time": times[1], "day": ["mon"] * 3}), str(tmp_path / "c.parquet"))
    spec = Spec.parse(TWO.replace(".csv", ".parquet"))
    counts = count(spec, str(tmp_path), engine=engine)
    assert some(counts) == [("x", "mon", 1), ("y", "mon", 1)] and counts.unattributed == 1
    assert some(count(spec, str(tmp_path), since=first, engine=engine)) == [("y", "mon", 1)]
    assert some(count(spec, str(tmp_path), until=first, engine=engine)) == [("x", "mon", 1)]


@given(moment=st.datetimes(dt.datetime(1900, 1, 1), dt.datetime(2200, 1, 1)))
def test_moments_are_exact(moment: dt.datetime) -> None:
    assert dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=moment_micros(moment, "time", "s", "x")) == moment
    assert moment_micros(moment.isoformat(), "time", "s", "x") == moment_micros(moment, "time", "s", "x")
    assert clock_of([moment.isoformat(" "), moment.isoformat()]) == "time"
    assert clock_of([moment.isoformat(), f"{moment.isoformat()}Z"]) is None


@pytest.mark.parametrize(
    ("clock", "wrong"),
    [
        ("number", "2026-02-30"),
        ("number", float("nan")),
        ("number", "soon"),
        ("date", "3"),
        ("time", "2026-03-01T12:00Z"),
        ("time", 5),
        ("zoned", "noon"),
        ("zoned", 5),
        ("date", "2026-02-30"),
    ],
)
def test_a_moment_of_another_clock_is_refused(clock: Any, wrong: Any) -> None:
    with pytest.raises(InputError, match="since the log's times are"):
        moment_micros(wrong, clock, "s", "--from")


@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin", "America/St_Johns", "Australia/Lord_Howe"])
@given(moment=st.datetimes(dt.datetime(1980, 1, 1), dt.datetime(2100, 1, 1)))
def test_a_moment_without_a_zone_is_in_the_logs(zone: str | None, moment: dt.datetime) -> None:
    instant = moment.replace(tzinfo=ZoneInfo(zone or "UTC"))
    right = (instant - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(microseconds=1)
    for said in (moment, moment.isoformat(), instant):
        assert moment_micros(said, "zoned", "s", "x", zone) == right
    whole = moment.replace(hour=0, minute=0, second=0, microsecond=0)
    assert moment_micros(whole.date(), "zoned", "s", "x", zone) == moment_micros(whole, "number", "s", "x", zone)
    if zone is not None:  # a log without zones is on the clocks of the one that the spec names
        there = instant.astimezone(dt.UTC).astimezone(ZoneInfo(zone)).replace(tzinfo=None)
        assert moment_micros(instant.astimezone(dt.UTC), "time", "s", "x", zone) == moment_micros(
            there, "time", "s", "x"
        )


def test_dates_choose_a_period_in_the_zone_of_the_logs(folder: Path, engine: DuckDB) -> None:
    (folder / "i.csv").write_text("user,time,campaign\na,2026-03-28T22:59:59Z,x\nb,2026-03-28T23:00:00Z,y\n")
    (folder / "c.csv").write_text("user,time,day\na,2026-03-29T12:00:00Z,mon\nb,2026-03-29T12:00:00Z,mon\n")
    berlin = TWO + 'timezone = "Europe/Berlin"'
    counts = count(Spec.parse(berlin), str(folder), since="2026-03-29", engine=engine)
    assert some(counts) == [("y", "mon", 1)] and counts.clock == "2026-03-29: read in Europe/Berlin"
    counts = count(Spec.parse(TWO), str(folder), until="2026-03-29T00:00", engine=engine)
    assert counts.conversions == 2 and counts.clock == "2026-03-29T00:00: read in UTC"
    assert not count(Spec.parse(TWO), str(folder), until="2026-03-29T00:00Z", engine=engine).clock
    assert not count(Spec.parse(TWO), str(folder), engine=engine).clock


@pytest.mark.parametrize("swapped", [False, True])
def test_epoch_numbers_and_zoned_times_are_both_instants(swapped: bool, folder: Path, engine: DuckDB) -> None:
    at = int(dt.datetime(2026, 3, 1, 12, tzinfo=dt.UTC).timestamp())
    epoch = [str(1000 * (at + minutes * 60)) for minutes in (0, 1, 2)]
    zoned = [f"2026-03-01T{hour}:{minutes:02}:00+01:00" for hour, minutes in ((13, 0), (13, 1), (13, 2))]
    seen, done = (zoned, epoch) if swapped else (epoch, zoned)
    (folder / "i.csv").write_text(f"user,time,campaign\na,{seen[0]},x\nb,{seen[2]},y\n")
    (folder / "c.csv").write_text(f"user,time,day\na,{done[1]},mon\nb,{done[1]},mon\nb,{done[2]},tue\n")
    spec = Spec.parse(TWO + 'time_unit = "ms"')
    counts = count(spec, str(folder), engine=engine)
    assert some(counts) == [("x", "mon", 1), ("y", "tue", 1)] and counts.unattributed == 1
    assert some(count(spec, str(folder), since="2026-03-01T12:01", engine=engine)) == [("y", "tue", 1)]
    small = (folder / ("c.csv" if swapped else "i.csv")).read_text().replace("1772366", "")
    (folder / ("c.csv" if swapped else "i.csv")).write_text(small)
    with pytest.raises(InputError, match="dates are for times that count from 1970"):
        count(spec, str(folder), engine=engine)


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@given(moment=st.datetimes(dt.datetime(1980, 1, 1), dt.datetime(2100, 1, 1)))
def test_dates_are_moments_of_numbers_that_count_from_1970(unit: Any, moment: dt.datetime) -> None:
    here = moment.replace(microsecond=0)
    number = (here - dt.datetime(1970, 1, 1)) // dt.timedelta(seconds=1)
    right = moment_micros(number * {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit], "number", unit, "x")
    east = here.replace(tzinfo=dt.UTC).astimezone(dt.timezone(dt.timedelta(hours=2)))
    for said in (here, here.isoformat(), f" {here.isoformat()} ", f"{here.isoformat()}Z", east, east.isoformat()):
        assert moment_micros(said, "number", unit, "x") == right
    day = here.date()
    assert moment_micros(day, "number", unit, "x") == moment_micros(day, "date", unit, "x")
    assert moment_micros(day.isoformat(), "number", unit, "x") == moment_micros(day, "date", unit, "x")


def test_dates_choose_a_period_of_epoch_times(folder: Path, engine: DuckDB) -> None:
    with pytest.raises(InputError, match="dates are for times that count from 1970; those of .* are numbers near"):
        count(Spec.parse(TWO), str(folder), until="2026-03-01", engine=engine)
    day = int(dt.datetime(2026, 3, 1, tzinfo=dt.UTC).timestamp())
    (folder / "i.csv").write_text(f"user,time,campaign\na,{day - 1},x\nb,{day},y\n")
    (folder / "c.csv").write_text(f"user,time,day\na,{day + 5},mon\nb,{day + 6},mon\n")
    for until in ("2026-03-01", dt.date(2026, 3, 1), "2026-03-01T00:00", "2026-03-01T01:00+01:00", str(day)):
        assert some(count(Spec.parse(TWO), str(folder), until=until, engine=engine)) == [("x", "mon", 1)]
        assert some(count(Spec.parse(TWO), str(folder), since=until, engine=engine)) == [("y", "mon", 1)]


def test_undated_impressions_are_in_no_period(folder: Path, engine: DuckDB) -> None:
    (folder / "i.csv").write_text(IMPRESSIONS + "u4,,c\n")
    counts = count(Spec.parse(TWO), str(folder), engine=engine)
    assert (counts.undated, counts.impressions, rows(counts)[-6][0]) == (1, 4, "c")
    counts = count(Spec.parse(TWO), str(folder), since=0, engine=engine)
    assert (counts.undated, counts.impressions) == (1, 3)


# --- mistakes --------------------------------------------------------------------------------------------------------

MISTAKES: dict[str, tuple[dict[str, str], str, str]] = {
    "no file": ({}, TWO.replace("i.csv", "none.csv"), "there is no file .*none.csv; give the log's files"),
    "no match": ({}, TWO.replace("i.csv", "*.tsv"), r"no file matches .*\*.tsv"),
    "no logs": ({}, TWO[: TWO.index("[logs]")], r"no section \[logs\]"),
    "no impressions": ({}, TWO.replace('impressions = "i.csv"', ""), "logs.impressions is missing"),
    "no user": ({}, TWO.replace('user = "user"', ""), "logs.user is missing"),
    "no time": ({}, TWO.replace('time = "time"', ""), "logs.time is missing"),
    "empty file": ({"i.csv": ""}, TWO, "i.csv is empty"),
    "no rows": ({"i.csv": "user,time,campaign\n"}, TWO, "there is no impression to count"),
    "column": (
        {"i.csv": IMPRESSIONS.replace("campaign", "campagne")},
        TWO,
        "no column 'campaign'; did you mean 'campagne'?",
    ),
    "separator": ({"i.csv": IMPRESSIONS.replace(",", ";")}, TWO, "i.csv has one column.*it looks separated by ';'"),
    "tabs": ({"i.csv": IMPRESSIONS.replace(",", "\t")}, TWO, r"it looks separated by '\\t'"),
    "ragged": ({"i.csv": IMPRESSIONS + "u1\n"}, TWO, "i.csv: line 5 has 1 cells, but the header has 3"),
    "too long": ({"i.csv": IMPRESSIONS + "u1,1,a,b,c\n"}, TWO, "i.csv: line 5 has . cells, but the header has 3"),
    "open quotes": ({"i.csv": IMPRESSIONS + 'u1,1,"a\n'}, TWO, "i.csv: line 5 has quotes that do not close"),
    "text in times": ({"i.csv": IMPRESSIONS.replace("20", "2o")}, TWO, "i.csv.*'2o'.*times are numbers, or as in"),
    "late text in times": (
        {"i.csv": IMPRESSIONS + "u1,5,a\n" * 2000 + "u1,?,a\n"},
        TWO,
        r"i.csv: row 2,004: '\?' in column 'time'; numbers",
    ),
    "late zone": (
        {
            "i.csv": "user,time,campaign\n" + "a,2026-01-01T00:00,x\n" * 2000 + "a,2026-01-01T00:00Z,x\n",
            "c.csv": "user,time,day\na,2026-01-01T00:00,mon\n",
        },
        TWO,
        "i.csv: row 2,001: '2026-01-01T00:00Z' in column 'time'; times without a time zone are needed",
    ),
    "zones": (
        {"i.csv": "user,time,campaign\na,2026-01-01T00:00,x\n", "c.csv": "user,time,day\na,2026-01-01T00:00Z,mon\n"},
        TWO,
        "i.csv has times without a time zone, and .*c.csv has times with a time zone",
    ),
    "no such day": (
        {"i.csv": "user,time,campaign\na,2026-02-30,x\n"},
        TWO.replace("c.csv", "i.csv") + 'conversion_columns = {day = "campaign"}',
        "i.csv: row 1: '2026-02-30'",
    ),
    "clocks": ({"c.csv": "user,time,day\na,2026-01-01,mon\n"}, TWO, "i.csv has numbers, and .*c.csv has dates"),
    "text in prices": (
        {"rows.csv": "campaign,price,sale\na,0.1,1\na,1O,1\n"},
        ONE,
        "rows.csv: row 2: '1O' in column 'price'; numbers",
    ),
    "text in flags": (
        {"rows.csv": "campaign,price,sale\na,0.1,1\na,1,yes\n"},
        ONE,
        "rows.csv: row 2: 'yes' in column 'sale'",
    ),
    "times out of range": ({"i.csv": IMPRESSIONS.replace("20", "9" * 17)}, TWO, "out of range .*is time_unit right"),
    "headers": (
        {"a1.csv": IMPRESSIONS, "a2.csv": "time,user,campaign\n1,u,x\n"},
        TWO.replace("i.csv", "a?.csv"),
        "the same columns in the same order; .*a2.csv begins with time, user",
    ),
    "kinds of files": (
        {"a1.csv": IMPRESSIONS, "a2.tsv": IMPRESSIONS.replace(",", "\t")},
        TWO.replace("i.csv", "a*"),
        "must have one format; .*a2.tsv",
    ),
    "twice": ({"i.csv": "user,time,time,campaign\n"}, TWO, "two columns called 'time'"),
    "not UTF-8": ({"i.csv": "user,time,campaign\nu,1,\udcff\n"}, TWO, "UTF-8"),
    "star": ({"i.csv": IMPRESSIONS.replace("007", "*")}, TWO, r"has the value '\*', which means all"),
    "missing twice": (
        {"i.csv": IMPRESSIONS.replace("007", "missing")},
        TWO,
        "has empty cells, labelled 'missing', and cells that say 'missing'",
    ),
    "a name for nothing": (
        {},
        TWO + 'impression_columns = {campagne = "x"}',
        "a column for 'campagne', which is not needed",
    ),
    "no other": (
        {},
        TWO.replace(', "other"', "") + 'other = ["day"]',
        "whose domain has the value 'other'; 'day' is not one",
    ),
    "no delay": ({"rows.csv": "campaign,sale\na,1\n"}, DELAYED, "'wait' is the delay from impression to conversion"),
    "no flag": (
        {"rows.csv": "campaign,price\na,1\n"},
        ONE.replace('converted = "sale"', ""),
        "which rows have a conversion",
    ),
    "no delay for a window": (
        {"rows.csv": "campaign,price,sale\na,1,1\n"},
        ONE + 'window = "1d"',
        "a window needs the delay",
    ),
    "parquet by name only": ({"i.parquet": IMPRESSIONS}, TWO.replace("i.csv", "i.parquet"), "i.parquet"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_an_error_that_says_where(name: str, folder: Path) -> None:
    files, spec, message = MISTAKES[name]
    for file, text in files.items():
        (folder / file).write_bytes(text.encode("utf-8", "surrogateescape"))
    before = sorted(os.listdir(folder))
    with pytest.raises(InputError, match=message):
        count(Spec.parse(spec), str(folder))
    assert sorted(os.listdir(folder)) == before


def test_a_period_without_impressions(folder: Path, engine: DuckDB) -> None:
    with pytest.raises(InputError, match="no impression to count in the period"):
        count(Spec.parse(TWO), str(folder), since=1000, engine=engine)
    with pytest.raises(InputError, match="a period must begin before it ends; got 5 as the beginning, 5"):
        count(Spec.parse(TWO), str(folder), since=5, until=5, engine=engine)
    with pytest.raises(InputError, match="an engine is duckdb or spark; got 'polars'"):
        count(Spec.parse(TWO), str(folder), engine="polars")


@pytest.mark.parametrize(
    ("column", "cells", "message"),
    [
        ("campaign", pa.array([[1], [2]]), "column 'campaign' is .*; labels are text, numbers or dates"),
        (
            "user",
            pa.array([1.5, 2.5]),
            "'user' is DOUBLE; the columns that join two logs are text or whole numbers",
        ),
        ("user", pa.array([True, False]), "the same type in 'user'; it is bool in .* and text in"),
        ("time", pa.array([True, False]), "column 'time' is BOOLEAN; times are numbers, dates or timestamps"),
        ("time", pa.array([NOON, NOON]), "has times without a time zone, and .*c.csv has numbers"),
    ],
)
def test_columns_of_a_wrong_type(column: str, cells: pa.Array, message: str, folder: Path, engine: DuckDB) -> None:
    columns = {"user": ["a", "b"], "time": [1, 2], "campaign": ["x", "y"]} | {column: cells}
    write_table(pa.table(columns), str(folder / "i.parquet"))
    with pytest.raises(InputError, match=message):
        count(Spec.parse(TWO.replace("i.csv", "i.parquet")), str(folder), engine=engine)


def test_zones_mixed_within_one_log(folder: Path, engine: DuckDB) -> None:
    for name, kind in (("i1", pa.timestamp("us")), ("i2", pa.timestamp("us", "UTC"))):
        columns = {"user": ["a"], "time": pa.array([NOON], kind), "campaign": ["x"]}
        write_table(pa.table(columns), str(folder / f"{name}.parquet"))
    with pytest.raises(InputError, match="'time' is TIMESTAMP in .*i1.parquet and TIMESTAMP WITH TIME ZONE in .*i2"):
        count(Spec.parse(TWO.replace("i.csv", "i?.parquet")), str(folder), engine=engine)


# --- damaged files ---------------------------------------------------------------------------------------------------

LONG = "user,time,campaign\n" + "".join(f"u{i},{i},{i % 7}\n" for i in range(20_000))
PACKED = {"gz": gzip.compress(LONG.encode()), "zst": pa.compress(LONG.encode(), "zstd", asbytes=True)}


@pytest.mark.parametrize("packing", PACKED)
@pytest.mark.parametrize("part", [0.1, 0.5, 0.9, 1.0])
def test_a_file_that_ends_too_early_is_refused(packing: str, part: float, folder: Path) -> None:
    data = PACKED[packing]
    (folder / f"i.csv.{packing}").write_bytes(data[: min(int(len(data) * part), len(data) - 3)])
    with pytest.raises(InputError, match=f"i.csv.{packing}"):
        count(Spec.parse(TWO.replace("i.csv", f"i.csv.{packing}")), str(folder))


def test_no_cut_goes_unseen(tmp_path: Path) -> None:
    small = "a,b\n1,2\n" * 50
    for packing, check in (("gz", lambda p: refuse_cut_gzip(p, Event())), ("zst", refuse_cut_zstd)):
        pack = gzip.compress if packing == "gz" else lambda data: pa.compress(data, "zstd", asbytes=True)
        whole = pack(small.encode()) + pack(small.encode())
        path = tmp_path / f"x.{packing}"
        ends = [len(pack(small.encode())), len(whole)]
        for end in range(1, len(whole) + 1):
            path.write_bytes(whole[:end])
            if end in ends:
                check(str(path))
            else:
                with pytest.raises(InputError, match="is cut off|damaged"):
                    check(str(path))


def test_no_room_is_told_with_its_remedy(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    n = 2_000_000
    write_table(
        pa.table(
            {"user": rng.integers(0, 10**12, n), "time": rng.integers(0, 99, n), "campaign": rng.integers(0, 10**9, n)}
        ),
        str(tmp_path / "i.parquet"),
    )
    (tmp_path / "c.csv").write_text(CONVERSIONS)
    spec = Spec.parse(
        TWO.replace("i.csv", "i.parquet").replace("c.csv", "i.parquet") + 'conversion_columns = {day = "campaign"}'
    )
    with DuckDB(memory="30MB", threads=1) as small:
        small._connection.execute("SET max_temp_directory_size = '1MB'")
        with pytest.raises(TryAgain, match=r"`memory`|`temp`"):
            count(spec, str(tmp_path), engine=small)
    with pytest.raises(InputError, match="cannot hold temporary files"):
        DuckDB(temp=str(tmp_path / "none"))
    with pytest.raises(InputError, match="DuckDB does not accept 'much' as memory_limit"):
        DuckDB(memory="much")


def test_nothing_is_left_in_the_temporary_folder(folder: Path) -> None:
    temp = folder / "temp"
    temp.mkdir()
    with DuckDB(temp=str(temp)) as running:
        count(Spec.parse(TWO), str(folder), engine=running)
        assert len(os.listdir(temp)) == 1
    assert os.listdir(temp) == []


def test_epoch_milliseconds_are_refused_until_the_unit_is_said(folder: Path, engine: DuckDB) -> None:
    def moments(text: str, add: int, times: int) -> str:
        head, *lines = text.splitlines()
        cells = [line.split(",") for line in lines]
        return "\n".join([head, *(f"{c[0]},{(int(c[1]) + add) * times},{c[2]}" for c in cells)]) + "\n"

    right = count(Spec.parse(TWO), str(folder), engine=engine)
    for unit, times in (("s", 1), ("ms", 10**3), ("us", 10**6), ("ns", 10**9)):
        (folder / "i.csv").write_text(moments(IMPRESSIONS, 1_790_000_000, times))
        (folder / "c.csv").write_text(moments(CONVERSIONS, 1_790_000_000, times))
        pq.write_table(
            pa.Table.from_pylist(
                [
                    {"user": c[0], "time": int(c[1]), "campaign": c[2]}
                    for c in (line.split(",") for line in (folder / "i.csv").read_text().splitlines()[1:])
                ]
            ),
            folder / "i.parquet",
        )
        for files in ("i.csv", "i.parquet"):
            spec = TWO.replace("i.csv", files)
            if unit != "s":
                message = r"row 1: .* in column 'time'; .* past 2100: is time_unit right. say time_unit = \"ms\""
                with pytest.raises(InputError, match=message):
                    count(Spec.parse(spec), str(folder), engine=engine)
            said = count(Spec.parse(f'{spec}time_unit = "{unit}"\n'), str(folder), engine=engine)
            assert said.table.column("conversions") == right.table.column("conversions")


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_folders_named_after_a_value_are_a_column(ending: str, tmp_path: Path, engine: DuckDB) -> None:
    plain = pa.table({"user": ["u1", "u2", "u3", "u4"], "time": ["10", "20", "30", "40"]})
    campaigns = ["007", "a b", None, "é"]
    write_table(plain.append_column("campaign", pa.array(campaigns)), str(tmp_path / "i.csv"))
    (tmp_path / "c.csv").write_text(CONVERSIONS)
    expected = count(Spec.parse(TWO), str(tmp_path), engine=engine).table
    for i, campaign in enumerate(campaigns):
        value = "__HIVE_DEFAULT_PARTITION__" if campaign is None else campaign.replace(" ", "%20")
        inside = tmp_path / "hive" / f"campaign={value}" / "day=2026-03-01"
        inside.mkdir(parents=True)
        write_table(plain.slice(i, 1), str(inside / f"part-0.{ending}"))
        (inside / "_SUCCESS").touch()
    for files in ("hive", "hive/campaign=*", "hive/*/*", f"hive/**/*.{ending}", f"file://{tmp_path}/hive"):
        spec = Spec.parse(TWO.replace('"i.csv"', f'"{files}"'))
        assert count(spec, str(tmp_path), engine=engine).table.equals(expected), files


def test_addresses_are_left_to_the_engine(folder: Path, engine: DuckDB) -> None:
    for address, message in {
        "s3://bucket/day=*/x.parquet": "extension httpfs, which is not installed",
        "hdfs://name/x.csv": "DuckDB cannot read hdfs://; check the address, or use `engine=spark`",
        "s3://bucket/folder/": r"as in s3://bucket/folder/\*.parquet",
    }.items():
        with pytest.raises(InputError, match=message):
            count(Spec.parse(TWO.replace("i.csv", address)), str(folder), engine=engine)


def test_the_rows_that_were_read_are_told_exactly(folder: Path, engine: DuckDB) -> None:
    (folder / "c.csv").write_text(CONVERSIONS + ",5,mon\nu1,,mon\nu1,12,tue\nu1,9999999,tue\n")
    (folder / "i.csv").write_text(IMPRESSIONS + "u1,,x\nu7,5,\n")
    for text in (TWO + 'window = "1h"\n', "conversions_per_impression = 3\n" + TWO + 'window = "1h"\n'):
        assert count(Spec.parse(text), str(folder), engine=engine).rows == 5 + 8
        assert count(Spec.parse(text), str(folder), until=25, engine=engine).rows is None
    (folder / "rows.csv").write_text("campaign,price,sale\na,0.1,1\na,,0\nb,9,1\n")
    assert count(Spec.parse(ONE), str(folder), engine=engine).rows == 3


def test_a_log_that_is_only_a_header_has_no_conversions(folder: Path, engine: DuckDB) -> None:
    dated = IMPRESSIONS.replace(",10,", ",2026-03-01,").replace(",20,", ",2026-03-02,").replace(",30,", ",2026-03-03,")
    (folder / "i.csv").write_text(dated)
    (folder / "c.csv").write_text("user,time,day\n")
    counts = count(Spec.parse(TWO), str(folder), engine=engine)
    assert (counts.impressions, counts.conversions) == (3, 0)
    (folder / "i.csv").write_text("user,time,campaign\n")
    (folder / "c.csv").write_text("user,time,day\nu1,2026-03-01,mon\n")
    with pytest.raises(InputError, match="i.csv has no rows: there is no impression to count"):
        count(Spec.parse(TWO), str(folder), engine=engine)


def test_values_in_thousands_are_refused(folder: Path, engine: DuckDB) -> None:
    (folder / "rows.csv").write_text("campaign,price,sale\na,1.250,1\na,23.048,1\nb,9.999,1\n")
    with pytest.raises(InputError, match="'1.250' may be 1250 or 1.250"):
        count(Spec.parse(ONE), str(folder), engine=engine)


def test_the_engine_prints_nothing(folder: Path) -> None:
    """DuckDB's own progress bar is off, also where nobody asks for progress: it would print to standard output."""
    for report in (None, lambda stage, share: None):
        with DuckDB(report=report) as running:
            printed = "SELECT current_setting('enable_progress_bar') AND current_setting('enable_progress_bar_print')"
            assert running.run(f"{printed} AS p").column("p").to_pylist() == [False]


def test_a_parquet_log_with_any_flipped_bit_is_read_or_refused(tmp_path: Path, engine: DuckDB) -> None:
    path = tmp_path / "rows.parquet"
    rows = {"campaign": ["a", "b", "a"], "day": ["mon", None, "tue"], "sale": [1, 0, 1]}
    write_table(pa.table(rows), str(path))
    asked = Spec.parse(TWO.split("[logs]")[0] + '[logs]\nattributed = "rows.parquet"\nconverted = "sale"\n')
    good, rng, read = path.read_bytes(), np.random.default_rng(5), 0
    flips = zip(rng.integers(len(good), size=150), rng.integers(8, size=150), strict=True)
    for number, (at, bit) in enumerate(flips):
        content = bytearray(good)
        content[at] ^= 1 << bit
        folder = tmp_path / str(number)  # a new one: DuckDB 1 caches files by name and time
        folder.mkdir()
        (folder / "rows.parquet").write_bytes(content)
        with suppress(InputError):
            count(asked, str(folder), engine=engine)
            read += 1
    assert 20 < read < 130


def test_columns_without_names_may_stand_in_a_log(folder: Path, engine: DuckDB) -> None:
    right = count(Spec.parse(TWO), str(folder), engine=engine).table
    for name in ("i.csv", "c.csv"):
        head, *lines = (folder / name).read_text().splitlines()
        (folder / name).write_text("\n".join([f",{head},", *(f"{i},{line}," for i, line in enumerate(lines)), ""]))
    assert count(Spec.parse(TWO), str(folder), engine=engine).table.equals(right)
