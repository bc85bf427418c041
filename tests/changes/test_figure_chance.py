"""Sums of values vary by more than counts: what is known of chance is used, and said."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attributary import Tree, compare, denoise, periods
from attributary.errors import InputError
from attributary.estimates import Estimates, noted
from attributary.report import series_page
from attributary.tables import write_table
from attributary.types import Floats

STORES, CLIP, SCALE = 60, 400.0, 50.0
TREE = Tree.from_paths(
    {"country": ["x"] * (STORES + 1), "store": [None, *(f"s{i}" for i in range(STORES))]}, ["country", "store"]
)


def weeks(number: int, seed: int, last: Floats | float = 1.0, spread: float = 0.0) -> dict[str, Estimates]:
    """Weeks of unchanged Poisson purchases with lognormal baskets, but for so many times as many in the last."""
    rng = np.random.default_rng(seed)
    rate, basket = rng.gamma(2, 100, STORES) + 5, 40 * np.exp(rng.normal(0, spread, STORES))
    made = {}
    for i in range(1, number + 1):
        counts = rng.poisson(rate * (last if i == number else 1.0))
        sums = [np.minimum(b * rng.lognormal(0, 1, n), CLIP).sum() for b, n in zip(basket, counts, strict=True)]
        noisy = TREE.roll_up(np.array(sums)) + rng.laplace(0, SCALE, len(TREE))
        made[f"W{i}"] = replace(Estimates.of(denoise(TREE, noisy, 2 * SCALE**2)), figure="revenue")
    return made


def calls(made: dict[str, Estimates], **options: Any) -> int:
    return int(periods(made, **options).steps[-1].changed.sum())


def test_where_nothing_changed_few_sums_of_values_are_called() -> None:
    as_counts = [calls(weeks(2, seed), largest=1) for seed in range(4)]
    assert np.mean(as_counts) > 30  # each euro as a visit
    assert sum(calls(weeks(2, seed), largest=CLIP) > 0 for seed in range(20)) <= 2
    for spread in (0.0, 0.5):
        assert sum(calls(weeks(6, seed, spread=spread)) > 0 for seed in range(20)) <= 3


@pytest.mark.parametrize(("number", "options"), [(2, {"largest": CLIP}), (6, {})], ids=str)
def test_large_changes_of_values_are_found(number: int, options: dict[str, Any]) -> None:
    last = np.where(np.arange(STORES) < 6, 3.0, 1.0)
    found = [periods(weeks(number, seed, last), **options).steps[-1].changed[1:] for seed in range(5)]
    assert np.mean([each[:6].mean() for each in found]) > 0.6
    assert np.mean([each[6:].sum() / max(each.sum(), 1) for each in found]) < 0.1


def test_what_is_not_known_of_chance_is_said() -> None:
    two = weeks(2, 1)
    lead = " ".join(series_page(periods(two)).lead)
    assert "more than noise and chance" not in lead and "which noise and chance" not in lead
    assert "Chance is not included: how far revenue varies by itself is not known; state the most" in lead
    assert "noise and chance" not in series_page(periods(two)).html
    changes = compare(*reversed(two.values()))
    assert changes.test == "counts" and b"not included" in changes.table().schema.metadata[b"chance"]
    with pytest.raises(InputError, match="sums of revenue are tested for noise alone"):
        periods(two, test="rates")
    assert "estimated from the courses of 6 periods" in " ".join(series_page(periods(weeks(6, 1))).lead)
    with pytest.raises(InputError, match="a number above 0"):
        periods(two, largest=-1.0)


@pytest.mark.parametrize(
    ("figure", "test", "words"),
    [
        ("visits", "rates", "Chance is that of counts."),
        ("Anzahl Besuche", "rates", "Chance is that of counts."),
        ("", "rates", "assuming that each event adds 1"),
        ("orders_value", "counts", "not included"),
        ("umsatz", "counts", "not included"),
        ("visits_2026", "rates", "Chance is that of counts."),
        ("number of orders", "rates", "Chance is that of counts."),
        ("2026", "counts", "not included"),
        *((name, "counts", "not included") for name in ("clicks_cost", "orders_total", "n_gross", "views_ms", "value")),
    ],
)
def test_names_tell_counts_from_values(figure: str, test: str, words: str) -> None:
    series = periods({name: replace(est, figure=figure) for name, est in weeks(2, 1).items()})
    assert series.test == test and words in series.chance


def test_the_limit_of_a_plan_is_that_of_its_figures(tmp_path: Path) -> None:
    for name, est in weeks(2, 1).items():
        assert est.plain is not None
        table = noted(est.plain.table(), largest=json.dumps({"revenue": CLIP}))
        write_table(table, str(tmp_path / f"{name}.parquet"))
    series = periods(tmp_path)
    assert (series.measure, series.test) == ("revenue", "rates")
    assert series.chance == "Chance is at most that of events that add 400 each."
    assert not series.steps[0].changed.any() and not series.total.steps[0].changed.any()
    assert series.total.steps[0].difference.sampling == pytest.approx(series.steps[0].difference.sampling[:1])
