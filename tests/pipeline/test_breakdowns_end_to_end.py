"""Several breakdowns through the API: one registration for all, browsers, aggregation, and estimates that agree."""

import json
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from attributary import Spec, api
from attributary.api.ara.service.summary_report import read_summary, write_summary
from attributary.api.ara.wire.avro import write_reports
from attributary.browsers import Client, report
from attributary.logs.count import count
from attributary.plan import Plan
from support.command import attributary as command

TOML = """
epsilon = 4
conversions_per_impression = {most}

[[attribute]]
name = "campaign"

[[attribute]]
name = "device"

[[attribute]]
name = "product"
unknown = true
domain = ["shoes", "hats"]

[[attribute]]
name = "day"
unknown = true
domain = ["1", "2", "3"]
{measures}
[[breakdown]]
attributes = ["campaign", "day"]

[[breakdown]]
attributes = ["device"]

[[breakdown]]
attributes = ["device", "product"]
name = "what they bought"

[logs]
impressions = "impressions.parquet"
conversions = "conversions.parquet"
user = "user"
time = "time"
"""
REVENUE = """
[[measure]]
name = "count"

[[measure]]
name = "revenue"
clip = 50
"""
NEWS, ADS, SHOP = "https://news.example", "https://ads.example", "https://shop.example"


@pytest.mark.parametrize(("most", "measures"), [(1, ""), (2, ""), (1, REVENUE)])
def test_without_noise_all_breakdowns_are_the_counts_of_sql(most: int, measures: str, tmp_path: Path) -> None:
    """Values are rounded to whole contributions by chance."""
    rng, users = np.random.default_rng(3), 900
    seen = {
        "user": np.arange(users),
        "time": np.full(users, 1_700_000_000),
        "campaign": rng.choice(["a", "b"], users),
        "device": rng.choice(["phone", "desk", "tv"], users),
    }
    rows = np.repeat(np.flatnonzero(rng.random(users) < 0.6), 2)  # two conversions each
    done = {
        "user": rows,
        "time": 1_700_000_000 + np.tile([3_600, 7_200], len(rows) // 2),
        "product": rng.choice(["shoes", "hats"], len(rows)),
        "day": rng.choice(["1", "2", "3"], len(rows)),
        "revenue": rng.choice([10.0, 50.0], len(rows)),
    }
    for name, columns in (("impressions", seen), ("conversions", done)):
        pq.write_table(pa.table(columns), tmp_path / f"{name}.parquet")
    (tmp_path / "spec.toml").write_text(TOML.format(most=most, measures=measures))
    spec = Spec.load(str(tmp_path / "spec.toml"))
    counts = count(spec, str(tmp_path))
    pq.write_table(counts.table, tmp_path / "counts.parquet")

    plan = tmp_path / "plan.json"
    command("plan", tmp_path / "spec.toml", "--prior", tmp_path / "counts.parquet", "-o", plan)
    command("keys", plan, "--impressions", tmp_path / "impressions.parquet", "-o", tmp_path / "keys", "-q")
    command("keys", plan, "--impressions", tmp_path / "counts.parquet", "-o", tmp_path / "same", "-q")
    ready = api.clients(Plan.load(str(plan)))
    assert not ready.changed
    sent: list[Any] = []
    for u in range(users):
        browser = Client(rng=Random(u))
        source = ready.impression({n: str(seen[n][u]) for n in ("campaign", "device")}, destination=SHOP).lines[0]
        made = browser.source(source.split(": ", 1)[1], page=NEWS, reporter=ADS, time=1_700_000_000_000)
        assert made.outcome == "source-success" and not made.parsed.warnings, made
        assert len(json.loads(source.split(": ", 1)[1])["aggregation_keys"]) <= 20
        for row in np.flatnonzero(rows == u):
            values = {n: done[n][row] if n == "revenue" else str(done[n][row]) for n in ready.asks}
            header = ready.conversion(values).lines[0].split(": ", 1)[1]
            browser.trigger(header, page=SHOP, reporter=ADS, time=int(done["time"][row]) * 1000)
        sent += browser.sent()
    write_reports(str(tmp_path / "reports.avro"), [report(each, None, "1") for each in sent])
    summary = tmp_path / "keys" / "summary.avro"
    domain = ["--domain", tmp_path / "keys" / "domain.avro"]
    command("aggregate", plan, tmp_path / "reports.avro", *domain, "--no-noise", "-o", summary)
    told = command("denoise", plan, summary, "-o", tmp_path / "estimates.parquet")
    assert "what they bought" in told.stderr and "keys that belong to no node" not in told.stderr
    assert "keys are those of no breakdown" not in told.stderr
    read = read_summary(str(summary))
    strange = np.concatenate([read.keys, np.array([[1, 2], [3, 4]], np.uint64)])
    more = tmp_path / "keys" / "more.avro"
    write_summary(str(more), strange, np.append(read.metric, [5, 6]), stated=read.stated)
    told = command("denoise", plan, more, "-o", tmp_path / "more.parquet", "--tree", tmp_path / "keys" / "tree.parquet")
    assert "2 keys are those of no breakdown and are left out" in told.stderr

    found = pq.read_table(tmp_path / "estimates.parquet")
    for name, run in zip(spec.called, counts.breakdowns, strict=True):
        for measure in ("conversions", "revenue") if measures else ("conversions",):
            rows_of = found.filter(pc.equal(found.column("breakdown").cast("string"), name))
            if measures:
                wanted = "count" if measure == "conversions" else measure
                rows_of = rows_of.filter(pc.equal(rows_of.column("measure").cast("string"), wanted))
            leaves = rows_of.filter(pc.equal(rows_of.column("level"), pc.max(rows_of.column("level"))))
            names = [a for a in run.table.column_names if a in leaves.column_names and a != "impressions"]
            by = {tuple(r[a] for a in names): r["estimate"] for r in leaves.to_pylist()}
            expected = {tuple(r[a] for a in names): r[measure] for r in run.table.to_pylist()}
            assert by == pytest.approx(expected, rel=1e-4 if measure == "revenue" else 1e-9, abs=1e-6)
            assert sum(by.values()) > 100

    if most == 1 and not measures:  # reports of several days add up, and agree wherever breakdowns meet
        days = [tmp_path / f"day{i}.avro" for i in (1, 2)]
        for i, day in enumerate(days):
            command("aggregate", plan, tmp_path / "reports.avro", *domain, "--seed", str(i), "-o", day)
        tree = ["--tree", tmp_path / "keys" / "tree.parquet"]
        command("denoise", plan, *days, *tree, "-o", tmp_path / "both.parquet")
        both, totals = pq.read_table(tmp_path / "both.parquet"), []
        for name in spec.called:
            here = pc.and_(pc.equal(both.column("breakdown").cast("string"), name), pc.equal(both.column("level"), 0))
            rows_of = both.filter(here).to_pylist()
            totals.append(sum(row["estimate"] for row in rows_of))
            assert abs(totals[-1] - 2 * counts.conversions) < 6 * sum(row["variance"] for row in rows_of) ** 0.5
        assert totals == pytest.approx([totals[0]] * 3)


def test_too_many_keys_and_other_options_are_refused(tmp_path: Path) -> None:
    attributes = "".join(f'[[attribute]]\nname = "a{i}"\n' for i in range(21))
    asked = "".join(f'[[breakdown]]\nattributes = ["a{i}"]\n' for i in range(21))
    (tmp_path / "spec.toml").write_text(f"epsilon = 1\n{attributes}{asked}")
    pq.write_table(pa.table({f"a{i}": ["x", "y"] for i in range(21)}), tmp_path / "tree.parquet")
    plan = tmp_path / "plan.json"
    told = command("plan", tmp_path / "spec.toml", "--tree", tmp_path / "tree.parquet", "-o", plan).output
    assert "a source has at most 20" in told
    assert "at most 20 keys" in command("keys", plan, code=2).output
    assert "one tree" in command("plan", tmp_path / "spec.toml", "--share", "a1=0.5", code=2).output


def test_warnings_are_those_of_all_breakdowns_together(tmp_path: Path) -> None:
    """Room for a second conversion is what they leave of the browser's budget together; both forget after 30 days."""
    path = tmp_path / "spec.toml"
    pq.write_table(pa.table({"campaign": ["a", "b"], "device": ["tv", "desk"]}), tmp_path / "tree.parquet")
    seen, done = "campaign=a,device=tv", "product=shoes,day=1"
    for l1, room in ((65_536, False), (32_769, False), (32_768, True), (20_000, True)):
        path.write_text(f"l1 = {l1}\n{TOML.format(most=1, measures='')}window = '60d'\n")
        plan = tmp_path / f"{l1}.json"
        command("plan", path, "--tree", tmp_path / "tree.parquet", "-o", plan, "-q")
        ready = api.clients(Plan.load(str(plan)))
        values = {"product": "shoes", "day": "1"}
        notes = "; ".join(ready.conversion(values, deduplication_key=5).notes)
        assert ("room for a second one of the same impression" in notes) == room, (l1, notes)
        assert not any("room for" in note for note in ready.conversion(values).notes)
        told = command("keys", plan, "--impression", seen, "--conversion", done, "--deduplication-key", 5).output
        assert ("room for a second one of the same impression" in told) == room
        assert "browsers forget an impression after 30 days; the spec's window is 60 days" in told


def test_a_table_without_rows_of_a_breakdown_is_refused_by_its_name(tmp_path: Path) -> None:
    path, made = tmp_path / "spec.toml", tmp_path / "counts.parquet"
    path.write_text(TOML.format(most=1, measures=""))
    columns = {"campaign": ["a", None], "device": [None, "tv"], "breakdown": ["campaign, day", "device"]}
    pq.write_table(pa.table(columns), made)
    told = command("plan", path, "--tree", made, code=2).output
    assert "counts.parquet has no rows of the breakdown" in told, told
