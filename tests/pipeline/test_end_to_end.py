"""The whole way through the API: registrations, browsers, encrypted reports, aggregation, denoising.

Without noise it gives exactly the counts that SQL gives on the same logs.
"""

import json
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from attributary.api.ara.registration import Registrations, registrations
from attributary.api.ara.wire.avro import write_reports
from attributary.api.ara.wire.encryption import public_key
from attributary.browsers import Attribution, Client, report
from attributary.logs.count import count
from attributary.plan import Plan, make_plan
from attributary.prior import from_counts
from attributary.spec import Spec
from support.command import attributary as run
from support.effort import first_of

pytestmark = pytest.mark.usefixtures("undrawn")

ROWS = 6_000
PRIVATE_KEY = bytes(range(32))
SHOP, NEWS, ADS = "https://shop.example", "https://news.example", "https://ads.example"
DELAY = """
[[attribute]]
name = "delay"
unknown = true
bucket = "6d"
buckets = 5
"""


@pytest.fixture(scope="module")
def shop(shop_of: Callable[[int], Path]) -> Path:
    return shop_of(ROWS)


def reports(ready: Registrations, folder: Path) -> list[Attribution]:
    """What the browsers send: one for each user, who meets impressions before conversions at one instant.

    Of impressions at one instant the browser takes the one that came last, of conversions the one that came first;
    here both come in the order of their attributes, as in SQL.
    """
    events: dict[Any, list[tuple[Any, ...]]] = defaultdict(list)
    for kind, name, columns in ((0, "impressions", ["campaign", "location"]), (1, "conversions", list(ready.asks))):
        for row in pq.read_table(folder / f"{name}.parquet").to_pylist():
            labels = [row[column] for column in columns]
            order = [ready.plan.spec.attributes[-1].labels.index(label) for label in labels] if kind else labels
            moment = int(row["time"].timestamp() * 1000) if hasattr(row["time"], "timestamp") else row["time"]
            events[row["user"]].append((moment, kind, order, dict(zip(columns, labels, strict=True))))
    found: list[Attribution] = []
    for number, mine in enumerate(events.values()):
        browser = Client(rng=Random(number))
        for moment, kind, _, values in sorted(mine, key=lambda event: event[:3]):
            if kind == 0:
                made = browser.source(json.dumps(ready.source(values, SHOP)), page=NEWS, reporter=ADS, time=moment)
                assert made.outcome == "source-success" and not made.parsed.warnings, made
            else:
                browser.trigger(json.dumps(ready.trigger(values)), page=SHOP, reporter=ADS, time=moment)
        found += browser.sent()
    return found


def by_delay(text: str) -> str:
    """The spec with the time to conversion in place of the day."""
    head, rest = text.split('[[attribute]]\nname = "day"')
    return head + DELAY + "\n[logs]" + rest.split("[logs]")[1]


@pytest.mark.parametrize(
    ("method", "asked"),
    first_of([("equal", str), ("optimal", str), ("per-node", str), ("equal", by_delay), ("optimal", by_delay)]),
)
def test_without_noise_the_api_gives_the_counts_of_sql(
    method: str, asked: Callable[[str], str], shop: Path, tmp_path: Path
) -> None:
    spec = Spec.parse(asked((shop / "spec.toml").read_text()))
    counts = count(spec, str(shop)).table
    tree = spec.tree(counts)
    make_plan(spec, tree, from_counts(tree, counts), method).save(str(tmp_path / "plan.json"))
    run("keys", tmp_path / "plan.json", "--impressions", shop / "impressions.parquet", "-o", tmp_path / "keys", "-q")
    ready = registrations(Plan.load(str(tmp_path / "plan.json")))
    sent = reports(ready, shop)
    write_reports(str(tmp_path / "reports.avro"), [report(each, public_key(PRIVATE_KEY), "1") for each in sent])
    (tmp_path / "private.key").write_bytes(PRIVATE_KEY)
    query = ["--domain", tmp_path / "keys" / "domain.avro", "--key", tmp_path / "private.key"]
    summary = tmp_path / "keys" / "summary.avro"
    run("aggregate", tmp_path / "plan.json", tmp_path / "reports.avro", *query, "--no-noise", "-o", summary)
    done = run("denoise", tmp_path / "plan.json", summary, "-o", tmp_path / "estimates.parquet")
    assert "NOT PRIVATE" in done.stderr

    found = pq.read_table(tmp_path / "estimates.parquet")
    expected = from_counts(spec.tree(found), counts).mean
    assert int(counts.column("conversions").to_numpy().sum()) > 100
    assert np.array_equal(found.column("estimate").to_numpy().round(6), expected)
    measured = found.column("noisy").is_valid().to_numpy()
    assert np.array_equal(found.column("noisy").to_numpy()[measured], expected[measured])
