"""Chances of a change are those of slow methods; false-discovery rates are the published ones."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from attributary.changes.what_changed import TESTS, Difference, PeriodFigures, adjusted, chance_of, sum_excess, tails
from attributary.denoising.quantile import level_of
from support.effort import first_of

SIZES = np.array([0.0, 0.3, 1.0, 2.0, 4.0, 7.0, 11.0])


def figures(count: Any, variance: Any, excess: float = 3.0, impressions: Any = np.nan) -> PeriodFigures:
    given = np.atleast_1d(np.asarray(count, float))
    return PeriodFigures(
        given, *(np.broadcast_to(np.asarray(x, float), given.shape) for x in (variance, excess, impressions))
    )


@given(st.floats(0.05, 50), st.floats(0.01, 100))
def test_laplace_and_normal_together_have_the_tail_of_both_exponentials(noise: float, normal: float) -> None:
    size = SIZES * np.sqrt(noise + normal)
    rate, spread = np.sqrt(noise / 2), np.sqrt(normal)
    up = stats.exponnorm(rate / spread, scale=spread)
    slow = up.sf(size) + up.cdf(-size)  # a Laplace figure is an exponential one, up or down
    fast = tails(size, np.full(7, noise), np.full(7, 3.0), np.full(7, normal))
    assert np.allclose(fast, slow, rtol=2e-3, atol=1e-12)


@given(st.floats(0.05, 8), st.floats(0.01, 100))
def test_noise_alone_has_the_tail_that_intervals_go_by(excess: float, noise: float) -> None:
    fast = tails(SIZES[1:] * np.sqrt(noise), *(np.full(6, x) for x in (noise, excess, 0.0)))
    slow = [1 - level_of(x, excess) for x in SIZES[1:]]
    assert np.allclose(fast, slow, rtol=0.02, atol=1e-9)


def test_what_varies_by_nothing_differs_by_nothing() -> None:
    zero, inf = np.zeros(3), np.full(3, np.inf)
    assert tails(np.array([0.0, 1e-9, 5.0]), zero, zero, zero).tolist() == [1, 0, 0]
    assert tails(np.array([0.0, 1e-9, 5.0]), inf, zero, zero).tolist() == [1, 1, 1]
    assert np.isnan(tails(np.full(3, np.nan), zero + 1, zero, zero)).all()


@given(st.lists(st.floats(0.1, 100), min_size=1, max_size=6), st.integers(0, 99))
def test_the_kurtosis_of_a_sum_is_that_of_its_cumulants(variances: list[float], seed: int) -> None:
    excess = np.random.default_rng(seed).uniform(0, 6, len(variances))
    found = sum_excess([(np.array([v]), np.array([e])) for v, e in zip(variances, excess, strict=True)])
    assert found[0] == pytest.approx(np.sum(excess * np.square(variances)) / np.sum(variances) ** 2)


@pytest.mark.parametrize("proven", [False, True])
@given(st.lists(st.floats(0, 1) | st.just(np.nan), max_size=30))
def test_false_discovery_rates_are_the_published_ones(proven: bool, chances: list[float]) -> None:
    chance = np.array(chances, float)
    rate, tested = adjusted(chance, proven), ~np.isnan(chance)
    assert np.isnan(rate[~tested]).all()
    if tested.any():
        slow = stats.false_discovery_control(chance[tested], method="by" if proven else "bh")
        assert np.allclose(rate[tested], slow)


@pytest.mark.parametrize(
    ("test", "change", "variance"),
    [("counts", 30.0, 13.0), ("rates", 30.0, 13.0 + 170.0), ("per-impression", 0.05, 4e-4 + 9e-6 + 0.17 / 1.1e3 * 11)],
)
def test_a_test_says_what_may_explain_a_change(test: str, change: float, variance: float) -> None:
    now, before = figures(100, 4, impressions=100), figures(70, 9, impressions=1000)
    found = TESTS[test].difference(now, before)
    if test == "per-impression":
        rate = 170 / 1100
        change, variance = 1.0 - 0.07, 4e-4 + 9e-6 + rate / 100 + rate / 1000
    assert found.change[0] == pytest.approx(change)
    assert (found.noise + found.sampling)[0] == pytest.approx(variance)


def test_a_negative_estimate_takes_nothing_from_what_chance_may_do() -> None:
    found = TESTS["rates"].difference(figures(20, 4), figures(-15, 4))
    assert found.sampling.tolist() == [20]


def test_where_the_shape_is_not_known_the_chance_is_the_larger_one() -> None:
    size = np.array([0.5, 1.0, 2.0, 3.0, 5.0])
    one, zero = np.ones(5), np.zeros(5)
    unknown = chance_of(Difference(size, one, one * np.nan, zero))
    assert np.allclose(
        unknown, np.maximum(2 * stats.norm.sf(size), 2 * stats.laplace.sf(size, scale=0.5**0.5)), rtol=1e-3
    )


@pytest.mark.parametrize("mean", first_of([0.5, 3.0, 40.0]))
@pytest.mark.parametrize("scale", first_of([0.5, 3.0]))
def test_without_a_change_chances_are_no_smaller_than_they_claim(mean: float, scale: float) -> None:
    rng, size = np.random.default_rng(5), 40_000
    now, before = (figures(rng.poisson(mean, size) + rng.laplace(0, scale, size), 2 * scale**2) for _ in range(2))
    chance = chance_of(TESTS["rates"].difference(now, before))
    for limit in (0.05, 0.01, 0.001):
        assert (chance <= limit).mean() <= limit + 3 * np.sqrt(limit / size)
