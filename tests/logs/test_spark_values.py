"""Spark adds up the values that DuckDB adds up, to the last millionth, and ranks conversions alike."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from attributary.logs.count import count
from attributary.logs.spark import Spark
from attributary.spec import Spec
from support.effort import first_of

SPEC = """
epsilon = 4
conversions_per_impression = {most}

[[attribute]]
name = "campaign"

[[attribute]]
name = "day"
unknown = true
domain = ["Mon", "Tue"]

[[measure]]
name = "count"

[[measure]]
name = "revenue"
column = "value"
clip = {clip}

[[measure]]
name = "refunds"
column = "value"
refunds = true
clip = {clip}

[logs]
"""
TWO = 'impressions = "i.parquet"\nconversions = "c.parquet"\nuser = "user"\ntime = "time"\nwindow = "30m"\n'
ONE = 'attributed = "rows.parquet"\nconverted = "sold"\n'


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Few users and instants, so that many conversions meet; values of all kinds."""
    folder, rng, n = tmp_path_factory.mktemp("logs"), np.random.default_rng(0), 20_000
    value = np.round(np.exp(rng.normal(3, 2, n)), 3)
    value[rng.random(n) < 0.05] *= -1
    value[rng.random(n) < 0.02] = np.nan
    day = pa.array(np.array(["Mon", "Tue", "Sun"])[rng.integers(0, 3, n)])
    value = pa.array(value, mask=rng.random(n) < 0.05)
    campaign = pa.array(np.array(["autumn", "brand"])[rng.integers(0, 2, n)])
    user, time = pa.array(rng.integers(0, 3_000, n)), pa.array(rng.integers(0, 3_000, n))
    pq.write_table(pa.table({"user": user, "time": time, "campaign": campaign}), folder / "i.parquet")
    mine = {"user": pa.array(rng.integers(0, 3_000, n)), "time": pa.array(rng.integers(0, 4_000, n))}
    pq.write_table(pa.table({**mine, "day": day, "value": value}), folder / "c.parquet")
    sold = pa.array(rng.integers(0, 2, n))
    pq.write_table(pa.table({"campaign": campaign, "day": day, "value": value, "sold": sold}), folder / "rows.parquet")
    return folder


@pytest.mark.parametrize("form", [ONE, TWO], ids=["one log", "two logs"])
@pytest.mark.parametrize(("most", "clip"), first_of([(2, 40), ("auto", "auto")]))
def test_both_engines_agree(form: str, most: Any, clip: Any, logs: Path, spark: Any) -> None:
    spec = Spec.parse(SPEC.format(most=json.dumps(most), clip=json.dumps(clip)) + form)
    expected = count(spec, str(logs))
    with Spark(spark) as engine:
        found = count(spec, str(logs), engine=engine)
    assert found.table.equals(expected.table)
    assert {**vars(found), "table": None} == {**vars(expected), "table": None}
    told, back = found.values
    assert back.total == -told.refunded and back.not_positive == 0
    assert min(told.missing, told.not_positive) > 20 and told.refunded < 0
    assert (found.exceeded > 0) == (form == TWO and most == 2)
