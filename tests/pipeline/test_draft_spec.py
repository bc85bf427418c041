"""draft_spec: what logs of many shapes say of themselves; right, or marked as a guess, or refused with the reason."""

import csv
import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from attributary.errors import InputError
from attributary.logs.count import count
from attributary.paper import generate
from attributary.pipeline.draft_spec import draft_spec
from attributary.spec import Spec
from support.command import attributary as command

Row = dict[str, Any]
BEGIN = datetime(2026, 3, 2, 9)
DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday"]
CITIES = {"autumn": ["Oslo", "Rome"], "brand": ["Oslo", "Rome", "Lima"], "outlet": ["Lima"]}


def logs() -> tuple[list[Row], list[Row]]:
    """Impressions and conversions of a few days, their times as seconds from the first."""
    rng = Random(7)
    impressions, conversions = [], []
    for i in range(400):
        campaign, time = rng.choice(list(CITIES)), 600 * i + rng.randrange(600)
        user = f"u{rng.randrange(150):03d}"
        impressions.append({"user": user, "time": time, "campaign": campaign, "city": rng.choice(CITIES[campaign])})
        if rng.random() < 0.3:
            bought = {"user": user, "time": time + rng.randrange(200_000), "day": rng.choice(DAYS)}
            conversions.append(bought | {"value": round(rng.lognormvariate(3, 1), 2)})
    return impressions, [*conversions, {"user": "nobody", "time": 500, "day": "Monday", "value": 1.25}]


def times(rows: list[Row], form: Callable[[datetime], Any]) -> list[Row]:
    return [row | {"time": form(BEGIN + timedelta(seconds=row["time"]))} for row in rows]


def renamed(rows: list[Row], **names: str) -> list[Row]:
    return [{names.get(key, key): value for key, value in row.items()} for row in rows]


def without(rows: list[Row], *names: str) -> list[Row]:
    return [{key: value for key, value in row.items() if key not in names} for row in rows]


def write(path: Path, rows: list[Row]) -> None:
    path.parent.mkdir(exist_ok=True, parents=True)
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
        return
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), delimiter="\t" if path.suffix == ".tsv" else ",")
        writer.writeheader()
        writer.writerows(rows)


def iso(moment: datetime) -> str:
    return moment.isoformat()


def zoned(moment: datetime) -> str:
    return moment.replace(tzinfo=UTC).isoformat()


def epoch(per: int) -> Callable[[datetime], int]:
    return lambda moment: int(moment.replace(tzinfo=UTC).timestamp()) * per


@dataclass(frozen=True)
class Shape:
    """Logs as a folder has them, and what their draft must say; `guessed` are words of marks that must be there."""

    name: str
    make: Callable[[Path], tuple[str, ...]]  # writes the files, and gives what names them
    roles: dict[str, Any]
    known: tuple[str, ...] = ("campaign", "city")
    unknown: tuple[str, ...] = ("day",)
    guessed: tuple[str, ...] = ('window = "7d"',)


def pair(
    form: Callable[[datetime], Any] = iso, end: str = "csv", change: Any = None
) -> Callable[[Path], tuple[str, ...]]:
    def make(folder: Path) -> tuple[str, ...]:
        seen, done = (times(rows, form) for rows in logs())
        seen, done = (seen, done) if change is None else change(seen, done)
        write(folder / f"impressions.{end}", seen)
        write(folder / f"conversions.{end}", done)
        return str(folder / f"impressions.{end}"), str(folder / f"conversions.{end}")

    return make


def in_parts(folder: Path) -> tuple[str, ...]:
    seen, done = (times(rows, iso) for rows in logs())
    for part in range(4):
        write(folder / "seen" / f"part-{part}.csv", seen[part::4])
        write(folder / "done" / f"part-{part}.csv", done[part::4])
    return str(folder / "seen" / "*.csv"), str(folder / "done")


def attributed(mark: Callable[[Row, Row | None], Row], end: str = "csv") -> Callable[[Path], tuple[str, ...]]:
    """One log, in which some impressions of the first 200 have a conversion."""

    def make(folder: Path) -> tuple[str, ...]:
        seen, done = (times(rows, epoch(1)) for rows in logs())
        rows = [mark(row, done[i // 4] if i % 4 == 0 and i // 4 < len(done) else None) for i, row in enumerate(seen)]
        write(folder / f"rows.{end}", rows)
        return (str(folder / f"rows.{end}"),)

    return make


def with_flag(row: Row, bought: Row | None) -> Row:
    return row | {"converted": int(bought is not None), "day": bought["day"] if bought else ""}


def with_time(row: Row, bought: Row | None) -> Row:
    return row | {"purchase_ts": row["time"] + 3600 * 30 if bought else -1, "price": bought["value"] if bought else -1}


def with_delay(row: Row, bought: Row | None) -> Row:
    return without([row], "time")[0] | {"Sale": bought is not None, "delay": 90_000 if bought else None}


def generated(kind: str, name: str) -> Callable[[Path], tuple[str, ...]]:
    def make(folder: Path) -> tuple[str, ...]:
        generate(kind, str(folder / name) if name else str(folder), 2000)
        return (
            (str(folder / name),)
            if name
            else (str(folder / "impressions.parquet"), str(folder / "conversions.parquet"))
        )

    return make


def ids(seen: list[Row], done: list[Row]) -> tuple[list[Row], list[Row]]:
    return renamed(seen, user="uid", time="shown_at"), renamed(done, user="customer_ref", time="ordered_at")


def sites(seen: list[Row], done: list[Row]) -> tuple[list[Row], list[Row]]:
    def site(row: Row) -> Row:
        return row | {"advertiser": "a1" if int(row["user"][-1], 36) % 2 else "a2"}

    return [*map(site, seen)], [*map(site, done)]


def nested(seen: list[Row], done: list[Row]) -> tuple[list[Row], list[Row]]:
    """A creative belongs to an ad group, and that to a campaign; the file has the finest first."""
    rng = Random(3)
    rows = []
    for row in without(seen, "city"):
        group = f"{row['campaign']} {rng.randrange(3)}"
        rows.append({"creative": f"{group}.{rng.randrange(3)}", "ad_group": group, "bid": f"{rng.random():.3f}"} | row)
    return [row | {"impression_id": f"i{i}"} for i, row in enumerate(rows)], done


def months(seen: list[Row], done: list[Row]) -> tuple[list[Row], list[Row]]:
    """Numbers as labels, names that our tables use, cells that stand for a missing value."""
    rows = [row | {"level": "NA" if i % 9 == 0 else f"00{i % 3}"} for i, row in enumerate(without(seen, "city"))]
    return rows, [without([row], "day", "value")[0] | {"hour": i % 24} for i, row in enumerate(done)]


SHAPES = [
    Shape("ISO times", pair(), {"user": "user", "time": "time", "time_unit": "s"}),
    Shape("times with a zone", pair(zoned), {"user": "user", "time": "time"}),
    Shape("dates", pair(lambda t: t.date().isoformat()), {"user": "user", "time": "time"}),
    Shape("epoch seconds", pair(epoch(1)), {"time": "time", "time_unit": "s"}),
    Shape("epoch milliseconds", pair(epoch(1000), "tsv"), {"time": "time", "time_unit": "ms"}),
    Shape("epoch microseconds, Parquet", pair(epoch(10**6), "parquet"), {"time": "time", "time_unit": "us"}),
    Shape("timestamps, Parquet", pair(lambda t: t, "parquet"), {"user": "user", "time": "time"}),
    Shape("patterns and folders", in_parts, {"user": "user", "time": "time"}),
    Shape(
        "other names in each",
        pair(change=ids),
        {"user": "uid", "time": "shown_at", "conversion_columns": {"uid": "customer_ref", "shown_at": "ordered_at"}},
        guessed=("'customer_ref' has the same values",),
    ),
    Shape(
        "a column that must agree",
        pair(change=sites),
        {"user": "user", "keys": ("advertiser",)},
        known=("advertiser", "campaign", "city"),
        guessed=('keys = ["advertiser"]',),
    ),
    Shape("nested attributes", pair(change=nested), {"user": "user"}, known=("campaign", "ad_group", "creative")),
    Shape(
        "names that are taken, numbers, NA",
        pair(change=months),
        {"user": "user", "missing": ("NA",), "impression_columns": {"level_label": "level"}},
        known=("campaign", "level_label"),
        unknown=("hour",),
        guessed=("range = [0, 23]", 'missing = ["NA"]'),
    ),
    Shape(
        "one log with a flag",
        attributed(with_flag),
        {"converted": "converted", "time": "time", "window": None},
        guessed=('converted = "converted"', "domain = "),
    ),
    Shape(
        "one log with the conversion's time",
        attributed(with_time),
        {"conversion_time": "purchase_ts", "time": "time", "missing": (-1,), "window": "7d"},
        unknown=("delay",),
        guessed=("missing = [-1]", 'conversion_time = "purchase_ts"'),
    ),
    Shape(
        "one log with the delay, Parquet",
        attributed(with_delay, "parquet"),
        {"converted": "Sale", "delay": "delay", "time": None},
        unknown=("delay",),
        guessed=('delay = "delay"',),
    ),
    Shape(
        "the shop",
        generated("shop", ""),
        {"user": "user", "window": "30d"},
        known=("campaign", "location"),
        guessed=("30d",),
    ),
    Shape(
        "csscl",
        generated("csscl", "csscl.parquet"),
        {"converted": "conversion", "delay": "delay", "time": "time", "time_unit": "s"},
        known=("partner", "country", "device"),
        unknown=("delay",),
        guessed=('bucket = "2d"', 'converted = "conversion"'),
    ),
    Shape(
        "camb as published",
        generated("camb", "camb.tsv.gz"),
        {"converted": "conversion", "conversion_time": "conversion_timestamp", "missing": (-1,)},
        known=("campaign", "cat1", "cat8"),
        unknown=("click_pos",),
        guessed=("time_unit = ", "missing = [-1]", "range = [0, "),
    ),
]


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_a_draft_is_right_or_says_that_it_guesses(shape: Shape, tmp_path: Path) -> None:
    draft = draft_spec(*shape.make(tmp_path), output=str(tmp_path / "spec.toml"))
    spec = draft.spec
    assert tuple(a.name for a in spec.known) == shape.known
    assert tuple(a.name for a in spec.unknown) == shape.unknown
    for key, value in shape.roles.items():
        assert getattr(spec.logs, key) == value, key
    for words in shape.guessed:
        assert any(words in line for line in draft.guesses), (words, draft.guesses)
    assert draft.text.count("# guessed:") == len(draft.guesses) + 2  # epsilon and tau
    counts = count(spec, str(tmp_path))  # the draft runs as it is
    assert counts.conversions > 0 and not counts.outside


def test_a_draft_counts_as_a_spec_by_hand_does(tmp_path: Path) -> None:
    names = pair()(tmp_path)
    draft = draft_spec(*names, output=str(tmp_path / "spec.toml"))
    by_hand = Spec.parse(
        f"""epsilon = 4
        attribute = [{{name = "campaign"}}, {{name = "city"}}, {{name = "day", unknown = true, domain = {DAYS}}}]
        tau = 10
        [logs]
        impressions = "impressions.csv"
        conversions = "conversions.csv"
        user = "user"
        time = "time"
        window = "7d"
        """
    )
    assert draft.spec == by_hand
    assert count(draft.spec, str(tmp_path)).table.equals(count(by_hand, str(tmp_path)).table)
    assert any('# name = "value"' in line for line in draft.text.splitlines()), "sums are offered"
    assert draft.recognised == ("joined by user: 99.2% of the conversions have an impression before them",)


def missing_days(seen: list[Row], done: list[Row]) -> tuple[list[Row], list[Row]]:
    return seen, [row | ({"day": ""} if i % 5 == 0 else {}) for i, row in enumerate(done)]


def test_missing_values_are_in_the_domain(tmp_path: Path) -> None:
    draft = draft_spec(*pair(change=missing_days)(tmp_path), output=str(tmp_path / "spec.toml"))
    assert draft.spec.unknown[0].labels == (*DAYS, "missing")
    assert not count(draft.spec, str(tmp_path)).outside


def refusal(folder: Path, seen: list[Row], done: list[Row] | None) -> str:
    write(folder / "i.csv", seen)
    if done is not None:
        write(folder / "c.csv", done)
    with pytest.raises(InputError) as refused:
        draft_spec(str(folder / "i.csv"), None if done is None else str(folder / "c.csv"))
    return str(refused.value)


def test_epoch_numbers_and_zoned_times_go_together(tmp_path: Path) -> None:
    seen, done = logs()
    write(tmp_path / "i.csv", times(seen, epoch(1000)))
    write(tmp_path / "c.csv", times(done, zoned))
    draft = draft_spec(str(tmp_path / "i.csv"), str(tmp_path / "c.csv"), str(tmp_path / "spec.toml"))
    assert draft.spec.logs is not None and draft.spec.logs.time_unit == "ms"
    mixed = count(draft.spec, str(tmp_path))
    write(tmp_path / "c.csv", times(done, epoch(1000)))
    alike = draft_spec(str(tmp_path / "i.csv"), str(tmp_path / "c.csv"), str(tmp_path / "spec.toml"))
    assert draft.text == alike.text and mixed.table.equals(count(alike.spec, str(tmp_path)).table)


def test_what_a_log_does_not_say_is_refused(tmp_path: Path) -> None:
    seen, done = (times(rows, iso) for rows in logs())
    shared = [row | {"campaign": "brand"} for row in without(done, "user")]
    for words, impressions, conversions in (
        ("no column joins", without(seen, "user"), done),
        ("no column joins", seen, shared),
        ("has no column of times", without(seen, "time"), done),
        ("must give times in the same form", seen, times(logs()[1], zoned)),
        ("must give times in the same form", times(logs()[0], epoch(1)), times(logs()[1], epoch(1000))),
        ("are the two files swapped?", times(logs()[0], lambda t: iso(t + timedelta(days=99))), done),
        ("says which rows have a conversion", seen, None),
        ("looks like an attribute", without(seen, "campaign", "city"), None),
        ("begins with values", renamed(seen, campaign="17"), done),
        ("not all times are in the form", [*seen * 4, seen[0] | {"time": "soon"}], done),
    ):
        flagged = words == "looks like an attribute"
        rows = [row | {"converted": 0} for row in impressions] if flagged else impressions
        assert words in refusal(tmp_path, rows, conversions), words
    (tmp_path / "i.csv").write_text("user,time\n")
    with pytest.raises(InputError, match="has no rows"):
        draft_spec(str(tmp_path / "i.csv"))
    (tmp_path / "i.csv").write_text(",".join(f"c{i}" for i in range(501)) + "\n")
    with pytest.raises(InputError, match="has 501 columns"):
        draft_spec(str(tmp_path / "i.csv"))


def test_awkward_names_and_values_are_quoted(tmp_path: Path) -> None:
    odd, seen, done = 'a "b" \\ é #', *(times(rows, iso) for rows in logs())
    unused = [row | {"x\ny": f"{row['user']} {i}"} for i, row in enumerate(renamed(seen, campaign=odd))]
    write(tmp_path / "i.parquet", unused)
    write(tmp_path / "c.csv", [row | {"day": row["day"] + ' "\\ #'} for row in done])
    draft = draft_spec(str(tmp_path / "i.parquet"), str(tmp_path / "c.csv"), str(tmp_path / "spec.toml"))
    assert draft.spec.known[0].name == odd and draft.spec.unknown[0].labels[0] == 'Monday "\\ #'
    assert "# Not used, but known to an impression: x\\ny" in draft.text
    write(tmp_path / "c.csv", [row | {"day": row["day"] + "\x07"} for row in done])
    with pytest.raises(InputError, match="no control characters"):
        draft_spec(str(tmp_path / "i.parquet"), str(tmp_path / "c.csv"))


def test_the_command_writes_the_draft_and_never_overwrites(tmp_path: Path) -> None:
    names, output = pair()(tmp_path), tmp_path / "spec.toml"
    said = command("init", *names, "-o", output, "--summary", tmp_path / "s.json").stderr
    draft = draft_spec(*names, output=str(output))
    assert output.read_text() == draft.text and f"attributary run {output}" in said
    assert all(f"guessed: {line}" in said for line in draft.guesses)
    assert json.loads((tmp_path / "s.json").read_text())["guessed"] == list(draft.guesses)
    output.write_text("mine")
    refused = command("init", *names, "-o", output, code=2)
    assert "never overwritten" in refused.stderr and output.read_text() == "mine"
    quiet = command("init", *names, "-o", "-", "-q")
    assert Spec.parse(quiet.stdout).levels == ("campaign", "city", "day") and quiet.stderr == ""
    assert "there is no folder" in command("init", *names, "-o", tmp_path / "no" / "spec.toml", code=2).stderr
