"""Calendars: days, weeks, months, weekdays and hours are those of Python's zoneinfo, in any zone and on any engine."""

import datetime as dt
from pathlib import Path
from random import Random
from typing import Any, get_args
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest

from attributary.errors import InputError
from attributary.logs.count import count
from attributary.logs.duckdb import DuckDB
from attributary.logs.log_columns import day_of, offsets, on_clocks, place_sql
from attributary.logs.log_files import Engine
from attributary.logs.spark import Spark
from attributary.pipeline.run import run
from attributary.spec import Attribute, Spec
from attributary.spec.attribute import CALENDARS, Calendar
from attributary.tables import write_table

ZONES = (
    *("Europe/Berlin", "Europe/London", "Europe/Lisbon", "America/New_York", "America/St_Johns", "America/Sao_Paulo"),
    *("America/Santiago", "Australia/Lord_Howe", "Pacific/Auckland", "Pacific/Chatham", "Africa/Casablanca"),
    *("Asia/Tehran", "Pacific/Apia", "UTC"),
)
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
BEGINS = dt.date(2025, 12, 31)  # a Wednesday in the first week of 2026


def micros(moment: dt.datetime) -> int:
    return (moment - EPOCH) // dt.timedelta(microseconds=1)


def moments(zone: str) -> list[int]:
    """Instants around each change of the clocks in a decade, and around the turn of each day, week, month and year."""
    rng = Random(zone)
    changes = [second for second, _ in offsets(zone) if 1_500_000_000 < second < 1_900_000_000]
    turns = [dt.datetime(2025, 12, 20) + dt.timedelta(days=day) for day in range(80)]
    seconds = [*changes, *(micros(turn.replace(tzinfo=ZoneInfo(zone))) // 10**6 for turn in turns)]
    near = [10**6 * second + off for second in seconds for off in (-(10**6), -1, 0, 1, 3_600_000_000, -1_800_000_001)]
    return [*near, *(rng.randrange(0, 4_102_444_800 * 10**6) for _ in range(300))]


def place(calendar: str, local: dt.datetime) -> int:
    """The place by Python's own calendar."""
    iso, first = local.date().isocalendar(), BEGINS.isocalendar()
    mondays = [dt.date.fromisocalendar(each.year, each.week, 1) for each in (iso, first)]
    return {
        "hour": local.hour,
        "weekday": iso.weekday - 1,
        "day": (local.date() - BEGINS).days,
        "week": (mondays[0] - mondays[1]).days // 7,
        "month": (local.year - BEGINS.year) * 12 + local.month - BEGINS.month,
    }[calendar]


def check(engine: Engine, zone: str) -> None:
    at = moments(zone)
    columns = {name: place_sql(name, on_clocks("t", zone), BEGINS) for name in get_args(Calendar)}
    rows = ", ".join(f"({each})" for each in at)
    asked = ", ".join(f"{sql} AS {name}_" for name, sql in columns.items())
    found = engine.run(f"SELECT t, {asked} FROM (VALUES {rows}) AS moments(t)").to_pylist()
    assert len(found) == len(at)
    for row in found:
        local = (EPOCH + dt.timedelta(microseconds=row["t"])).astimezone(ZoneInfo(zone))
        for name in columns:
            assert row[f"{name}_"] == place(name, local), (zone, name, local)
        assert day_of(row["t"], zone) == local.date()


@pytest.mark.parametrize("zone", ZONES)
def test_places_are_those_of_python(zone: str, engine: DuckDB) -> None:
    assert zone == "UTC" or len(offsets(zone)) > 20
    check(engine, zone)


def test_spark_has_the_same_places(spark: Any) -> None:
    with Spark(spark) as engine:
        for zone in ("America/St_Johns", "Africa/Casablanca"):
            check(engine, zone)


@pytest.mark.parametrize("calendar", get_args(Calendar))
def test_labels_are_the_places(calendar: str) -> None:
    sized = {} if calendar in CALENDARS else {"buckets": 40}
    attribute = Attribute(name="x", unknown=True, calendar=calendar, timezone="Europe/Berlin", **sized)
    for day in range(39):
        moment = dt.datetime(2025, 12, 31, 23, 30, tzinfo=dt.UTC) + dt.timedelta(days=day)  # the next day in Berlin
        label = attribute.label_at(moment, BEGINS)
        assert attribute.labels.index(label) == place(calendar, moment.astimezone(ZoneInfo("Europe/Berlin")))
    assert attribute.size == len(attribute.labels) == len(set(attribute.labels))


TWO = """
epsilon = 4
[[attribute]]
name = "shown"
calendar = "day"
[[attribute]]
name = "weekday"
unknown = true
calendar = "weekday"
[[attribute]]
name = "hour"
unknown = true
calendar = "hour"
timezone = "America/New_York"
[logs]
impressions = "i.parquet"
conversions = "c.parquet"
user = "user"
time = "time"
timezone = "Europe/Berlin"
"""
BERLIN, NEW_YORK = ZoneInfo("Europe/Berlin"), ZoneInfo("America/New_York")
UTC_TYPE = pa.timestamp("us", "UTC")


def logs(folder: Path, begins: dt.datetime, days: int) -> list[tuple[dt.datetime, dt.datetime]]:
    """Impressions every five hours with a conversion some hours later, as files; and the pairs."""
    rng = Random(3)
    seen = [begins + dt.timedelta(hours=5 * i) for i in range(24 * days // 5)]
    pairs = [(at, at + dt.timedelta(hours=rng.randrange(1, 30), minutes=7)) for at in seen]
    users = [f"u{i}" for i in range(len(pairs))]
    for name, column in (("i", 0), ("c", 1)):
        times = pa.array([pair[column] for pair in pairs], UTC_TYPE)
        write_table(pa.table({"user": users, "time": times}), str(folder / f"{name}.parquet"))
    return pairs


def expected(pairs: list[tuple[dt.datetime, dt.datetime]], begins: dt.date) -> dict[tuple[str, str, str], int]:
    found: dict[tuple[str, str, str], int] = {}
    for seen, then in pairs:
        day = (seen.astimezone(BERLIN).date() - begins).days + 1
        if day >= 1:
            leaf = (str(day), f"{then.astimezone(BERLIN):%A}", f"{then.astimezone(NEW_YORK):%H}")
            found[leaf] = found.get(leaf, 0) + 1
    return found


def counted(table: Any) -> dict[tuple[str, str, str], int]:
    return {(r["shown"], r["weekday"], r["hour"]): r["conversions"] for r in table.to_pylist() if r["conversions"]}


def test_logs_are_counted_by_calendar_across_a_change_of_the_clocks(tmp_path: Path, engine: DuckDB) -> None:
    pairs = logs(tmp_path, dt.datetime(2026, 3, 27, 22, 30, tzinfo=dt.UTC), 12)
    spec = Spec.parse(TWO)
    counts = count(spec, str(tmp_path), engine=engine)  # days from that of the first impression
    assert counted(counts.table) == expected(pairs, dt.date(2026, 3, 27)) and counts.left_out == 0
    counts = count(spec, str(tmp_path), since="2026-03-29", engine=engine)  # the day with 23 hours
    assert counted(counts.table) == expected(pairs, dt.date(2026, 3, 29))
    assert list(dict.fromkeys(counts.table.column("shown").to_pylist())) == [str(day) for day in range(1, 12)]
    joined = Spec.parse(TWO.replace("i.parquet", "i.csv").replace("c.parquet", "c.csv").replace('"user"', '"id"'))
    for name, column in (("i", 0), ("c", 1)):  # epoch numbers, and text with offsets
        rows = [
            f"u{i},{[int(seen.timestamp()), then.astimezone(BERLIN).isoformat()][column]}"
            for i, (seen, then) in enumerate(pairs)
        ]
        (tmp_path / f"{name}.csv").write_text("\n".join(["id,time", *rows]))
    assert counted(count(joined, str(tmp_path), engine=engine).table) == expected(pairs, dt.date(2026, 3, 27))


def test_rows_with_their_conversions_have_calendars(tmp_path: Path, engine: DuckDB) -> None:
    pairs = logs(tmp_path, dt.datetime(2026, 10, 23, 22, 30, tzinfo=dt.UTC), 9)
    head = TWO.partition("[logs]")[0]
    columns = {"time": pa.array([seen for seen, _ in pairs], UTC_TYPE)}
    delays = {"lag": [int((then - seen).total_seconds()) for seen, then in pairs]}
    times = {"sold": pa.array([then for _, then in pairs], UTC_TYPE)}
    for key, more in (("delay = 'lag'", delays), ("conversion_time = 'sold'", times)):
        write_table(pa.table(columns | more), str(tmp_path / "rows.parquet"))
        text = f"{head}[logs]\nattributed = 'rows.parquet'\ntime = 'time'\ntimezone = 'Europe/Berlin'\n{key}\n"
        counts = count(Spec.parse(text), str(tmp_path), engine=engine)
        assert counted(counts.table) == expected(pairs, dt.date(2026, 10, 24))
    flagged = f"{head}[logs]\nattributed = 'rows.parquet'\ntime = 'time'\nconverted = 'sold'\n"
    with pytest.raises(InputError, match="the calendar of a conversion needs its time"):
        count(Spec.parse(flagged), str(tmp_path), engine=engine)


def test_times_without_a_zone_are_read_as_they_stand(tmp_path: Path, engine: DuckDB) -> None:
    (tmp_path / "i.csv").write_text("user,time\na,2026-03-29T23:59\nb,2026-03-30T00:00\n")
    (tmp_path / "c.csv").write_text("user,time\na,2026-03-30T00:00\nb,2026-03-30T05:00\n")
    spec = Spec.parse(TWO.replace("parquet", "csv"))
    assert counted(count(spec, str(tmp_path), engine=engine).table) == {
        ("1", "Monday", "00"): 1,
        ("2", "Monday", "05"): 1,
    }
    (tmp_path / "i.csv").write_text("user,time\na,10\n")
    (tmp_path / "c.csv").write_text("user,time\na,20\n")
    with pytest.raises(InputError, match="dates are for times that count from 1970"):
        count(spec, str(tmp_path), engine=engine)


DAYS = """
epsilon = 4
[[attribute]]
name = "campaign"
[[attribute]]
name = "day"
unknown = true
calendar = "day"
buckets = 31
[logs]
impressions = "i.csv"
conversions = "c.csv"
user = "user"
time = "time"
"""


def test_last_months_prior_fits_this_month(tmp_path: Path) -> None:
    """Days by their place in the period: the plan covers those to come, and the prior has the same labels."""
    lines = [f"u{i},2026-{1 + i // 31:02}-{1 + i % 31:02}T12:00" for i in range(31 + 10)]
    (tmp_path / "i.csv").write_text("\n".join(["user,time,campaign", *(f"{line},x" for line in lines)]))
    (tmp_path / "c.csv").write_text("\n".join(["user,time", *(line.replace("12:00", "13:00") for line in lines)]))
    done = run(Spec.parse(DAYS), str(tmp_path), since="2026-01-01", prior_until="2026-02-01")
    assert done.before is not None
    january, february = (table.column("conversions").to_pylist() for table in (done.before.table, done.counts.table))
    assert january == [1] * 31 and february == [1] * 10 + [0] * 21
    assert len(done.tree) == 32 and done.prior.mean.tolist() == [31, *[1] * 31]
    assert done.counts.table.column("day").to_pylist() == [str(day) for day in range(1, 32)]


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ('calendar = "weekday"\nunknown = true\nbuckets = 7', "has weekdays of its own; leave it out"),
        ('calendar = "day"\nunknown = true', "buckets: is missing; say how many days a period has"),
        ('calendar = "day"\nbuckets = 3', "takes the values that occur; leave it out"),
        ('calendar = "day"\nunknown = true\nrange = [1, 3]\nbuckets = 3', "a domain is given in one way"),
        ('timezone = "UTC"', "timezone: goes with calendar"),
        ('calendar = "hour"\ntimezone = "Europe/Atlantis"', "timezone: a time zone, as in"),
        ('calendar = "year"', 'calendar: a part of the time of its row: "day", "week"'),
    ],
)
def test_mistakes_about_calendars(keys: str, words: str) -> None:
    with pytest.raises(InputError) as refused:
        Spec.parse(f'epsilon = 1\n[[attribute]]\nname = "x"\n{keys}\n')
    assert words in str(refused.value)
