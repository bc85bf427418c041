"""attributary evaluate with values and several conversions: from log rows to bias, from files, and its mistakes."""

import csv
import io
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from click.testing import CliRunner, Result

from attributary.cli import main
from attributary.tables import read_table, write_table

FEW = ["--draws", "4", "--workers", "1"]
DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
SPEC = f"""
epsilon = 8
tau = 10
split_by = "campaign"
conversions_per_impression = MOST
[[measure]]
name = "count"
[[measure]]
name = "revenue"
column = "value"
clip = CLIP
unit = "EUR"
[[attribute]]
name = "campaign"
[[attribute]]
name = "day"
unknown = true
domain = {DAYS}
[logs]
impressions = "IMPRESSIONS"
conversions = "CONVERSIONS"
user = "user"
time = "time"
window = "30d"
"""


def write_spec(folder: Path, name: str, most: Any = '"auto"', clip: Any = '"auto"', ending: str = "parquet") -> Path:
    said = {"MOST": most, "CLIP": clip, "IMPRESSIONS": f"impressions.{ending}", "CONVERSIONS": f"conversions.{ending}"}
    text = SPEC
    for word, value in said.items():
        text = text.replace(word, str(value))
    path = folder / name
    path.write_text(text)
    return path


@pytest.fixture(scope="module")
def shop(shop_of: Callable[[int], Path]) -> Path:
    folder = shop_of(20_000)
    write_spec(folder, "auto.toml")
    write_spec(folder, "fixed.toml", 2, 60)
    for name in ("auto", "fixed"):
        made = CliRunner().invoke(main, ["count", f"{folder}/{name}.toml", "-o", f"{folder}/{name}.parquet", "-q"])
        assert made.exit_code == 0, made.output
    return folder


def run(*args: object) -> Result:
    return CliRunner().invoke(main, ["evaluate", *map(str, args)])


def table(text: str) -> list[dict[str, Any]]:
    return list(csv.DictReader(io.StringIO(text)))


def logs(folder: Path) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Impressions and conversions of a few users, some of whom convert often; no two events are at one moment."""
    rng, start = np.random.default_rng(5), datetime(2026, 1, 5)
    minutes = rng.permutation(40 * 24 * 60)[:900]
    events = [
        {"user": f"u{rng.integers(60)}", "time": (start + timedelta(minutes=int(m))).isoformat(" ")} for m in minutes
    ]
    impressions = [event | {"campaign": f"c{rng.integers(3)}"} for event in events[:200]]
    conversions = [
        event | {"day": DAYS[int(rng.integers(7))], "value": float(np.round(np.exp(rng.normal(3.5, 1.2)), 2))}
        for event in events[200:]
    ]
    for name, rows in (("impressions", impressions), ("conversions", conversions)):
        write_table(pa.Table.from_pylist(rows), str(folder / f"{name}.csv"))
    return impressions, conversions


def sums(
    impressions: list[dict[str, Any]], conversions: list[dict[str, Any]], most: int, clip: float
) -> dict[str, Any]:
    """By last touch, one conversion after the other: (full, left) of each node, by measure."""
    month, times = timedelta(days=30), {}
    nodes = [(c,) for c in ("c0", "c1", "c2")] + [(c, day) for c in ("c0", "c1", "c2") for day in DAYS]
    found: dict[str, Any] = {name: {node: [0.0, 0.0] for node in nodes} for name in ("count", "revenue")}
    for one in sorted(conversions, key=lambda row: row["time"]):
        before = [i for i in impressions if i["user"] == one["user"] and i["time"] < one["time"]]
        if not before:
            continue
        last = max(before, key=lambda row: row["time"])
        if datetime.fromisoformat(one["time"]) - datetime.fromisoformat(last["time"]) > month:
            continue
        times[id(last)] = rank = times.get(id(last), 0) + 1
        for node in ((last["campaign"],), (last["campaign"], one["day"])):
            for name, value, most_of_it in (("count", 1.0, 1.0), ("revenue", one["value"], min(one["value"], clip))):
                found[name][node][0] += value
                found[name][node][1] += most_of_it if rank <= most else 0.0
    return found


def test_bias_is_what_a_loop_over_the_logs_rows_finds(tmp_path: Path) -> None:
    most, clip = 2, 60.0
    found = sums(*logs(tmp_path), most, clip)
    path = write_spec(tmp_path, "spec.toml", most, clip, "csv")
    done = run(path, "--draws", "0", "--method", "equal-raw", "-q")
    assert done.exit_code == 0, done.output
    rows = {(row["measure"], row["level"]): row for row in table(done.stdout)}
    for name in ("count", "revenue"):
        tau = float(rows[name, ""]["measure_tau"])
        both = np.array(list(found[name].values()))
        squares = ((both[:, 0] - both[:, 1]) / np.maximum(both[:, 0], tau)) ** 2
        levels = [squares[:3].mean(), squares[3:].mean()]
        assert min(levels) > 0.001
        for level, square in zip(("campaign", "day", ""), [*levels, np.mean(levels)], strict=True):
            assert float(rows[name, level]["bias"]) == pytest.approx(np.sqrt(square), rel=1e-9)
    mean = sum(v[0] for v in found["revenue"].values()) / sum(v[0] for v in found["count"].values())
    assert float(rows["revenue", ""]["measure_tau"]) == pytest.approx(10 * mean)


def test_on_logs_with_an_earlier_period(shop: Path, tmp_path: Path) -> None:
    out = tmp_path / "errors.parquet"
    methods = ["--method", "equal-unbiased", "--method", "optimal-nonnegative"]
    asked = [shop / "auto.toml", "--prior-until", "2026-02-02", *FEW, "--epsilon", "2,8", *methods]
    done = run(*asked, "-o", out)
    assert done.exit_code == 0 and done.stdout == "", done.output
    found = read_table(str(out))
    limits = ["chosen", *(f"m = {m}, C at {p} %" for p in (95, 99) for m in (1, 2, 5, 15))]
    assert list(dict.fromkeys(found.column("limits").to_pylist())) == limits
    assert set(found.column("measure").to_pylist()) == {"count", "revenue", None}
    said = (
        "tree error under api noise, τ = 10, ε = 8",
        "together",
        "cut off",
        "logs were generated",
    )
    for words in (*said, *limits, "before 2026-02-02, without noise, NOT protected"):
        assert words in done.stderr, words
    again = run(*asked, "-o", out, "-q")  # from what is finished
    assert again.exit_code == 0 and read_table(str(out)).equals(found)
    two = run(*asked, "-o", tmp_path / "two.parquet", "--workers", "2", "-q")
    assert two.exit_code == 0 and read_table(str(tmp_path / "two.parquet")).equals(found)


def test_chosen_limits_expect_less_than_others_where_the_prior_is_right(shop: Path) -> None:
    """What is chosen is best for counts as in the prior; here they are the prior."""
    done = run(shop / "auto.toml", "--method", "optimal-unbiased", "--draws", "0", "--pool", "roots", "-q")
    assert done.exit_code == 0, done.output
    rows = [row for row in table(done.stdout) if row["level"] == "" and row["measure"] == ""]
    errors = {row["limits"]: float(row["rmsre"]) for row in rows if row["method"] != "zeros"}
    assert len(errors) == 9 and errors.pop("chosen") < min(errors.values())


def test_on_counts_and_with_reports_as_the_prior(shop: Path, tmp_path: Path) -> None:
    of_logs, of_counts = (
        run(shop / "auto.toml", *FEW, "-q", "--method", "equal-unbiased", *more)
        for more in ([], ["--counts", shop / "auto.parquet"])
    )
    assert of_counts.exit_code == 0, of_counts.output
    assert [row["bias"] for row in table(of_counts.stdout)] == [row["bias"] for row in table(of_logs.stdout)]
    other = run(shop / "auto.toml", *FEW, "--prior", shop / "auto.parquet", "-q", "--method", "equal-unbiased")
    assert [row["rmsre"] for row in table(other.stdout)] == [row["rmsre"] for row in table(of_logs.stdout)]
    made = CliRunner().invoke(main, ["run", f"{shop}/fixed.toml", "-o", str(tmp_path / "run"), "--seed", "1", "-q"])
    assert made.exit_code == 0, made.output
    report = tmp_path / "run" / "estimates.parquet"
    for counts in ([], ["--counts", shop / "fixed.parquet"]):
        done = run(shop / "fixed.toml", *FEW, "--prior", report, *counts, "--method", "optimal-unbiased")
        assert done.exit_code == 0, done.output
        rows = table(done.stdout)
        assert {row["limits"] for row in rows} == {"given"} and f"the prior is {report}" in done.stderr
        assert float(rows[0]["bias"]) >= 0 and {row["clip"] for row in rows} == {"1", "60", ""}


def test_a_limit_alone_has_its_bias(shop: Path, tmp_path: Path) -> None:
    """conversions_per_impression without measures: one table, of counts."""
    text = (shop / "fixed.toml").read_text()
    begin, end = text.index("[[measure]]"), text.index("[[attribute]]")
    path = shop / "alone.toml"
    path.write_text(text[:begin] + text[end:])
    done = run(path, *FEW, "--method", "optimal-unbiased")
    assert done.exit_code == 0, done.output
    rows = table(done.stdout)
    assert {row["measure"] for row in rows} == {"count"} and {row["limits"] for row in rows} == {"given"}
    assert {row["conversions_per_impression"] for row in rows} == {"2"}
    assert "together" not in done.stderr and "clip" not in done.stderr
    unit = run(path, *FEW, "--method", "optimal-unbiased", "--noise", "api,unit", "-q")
    assert {row["noise"] for row in table(unit.stdout)} == {"api", "unit"}


def test_an_earlier_period_of_other_campaigns_is_refused(tmp_path: Path) -> None:
    impressions, _ = logs(tmp_path)
    for row in impressions:
        row["campaign"] += " new" if row["time"] >= "2026-01-25" else ""
    write_table(pa.Table.from_pylist(impressions), str(tmp_path / "impressions.csv"))
    path = write_spec(tmp_path, "spec.toml", 2, 60, "csv")
    done = run(path, "--prior-until", "2026-01-25", *FEW, "-q")
    assert done.exit_code == 2 and done.stderr.startswith("error: ") and "spec.toml: none of its" in done.stderr, (
        done.output
    )


def test_mistakes_are_told_in_a_line(shop: Path, tmp_path: Path) -> None:
    auto, fixed = shop / "auto.toml", shop / "fixed.toml"
    made = CliRunner().invoke(main, ["run", f"{fixed}", "-o", str(tmp_path / "run"), "--seed", "1", "-q"])
    assert made.exit_code == 0, made.output
    report, counts = tmp_path / "run" / "estimates.parquet", tmp_path / "counts.csv"
    write_table(read_table(str(shop / "fixed.parquet")).drop_columns(["revenue_beyond"]), str(counts))
    plain = tmp_path / "plain.csv"
    write_table(read_table(str(shop / "fixed.parquet")).select(["campaign", "day", "conversions"]), str(plain))
    for arguments, words in (
        ([auto, "--prior-epsilon", "1"], "--prior-epsilon is for counts of one conversion per impression"),
        ([auto, "--noise", "api,unit"], "sums of values need noise"),
        ([auto, "--method", "per-node-unbiased"], "per-node-unbiased is for counts of one conversion"),
        ([auto, "--method", "optimal-learned"], "optimal-learned is for counts of one conversion"),
        ([auto, "--prior", report], "needs a prior with ranks"),
        ([fixed, "--counts", report], "is a report, which does not show what limits cut off"),
        ([fixed, "--counts", counts], "the counts do not show how much of 'revenue' limits cut off"),
        ([fixed, "--counts", plain], "has no column 'revenue'"),
        ([auto, "--counts", shop / "fixed.parquet"], "the counts do not show how much of 'conversions' limits cut off"),
        ([fixed, "--prior", plain], "has no column 'revenue'"),
    ):
        done = run(*arguments, *FEW)
        assert done.exit_code == 2, (arguments, done.output)
        last = done.stderr.strip().splitlines()[-1]
        assert words in last and last.startswith("error: "), (arguments, done.stderr)
        assert last.count(".parquet") + last.count(".csv") <= 1, last
