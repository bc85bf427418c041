"""Privacy, by experiment: neighbouring batches give no answer more than exp(ε) times as often, and sums are unbiased.

A million answers to each of two neighbouring batches fall into bins and tails. If the frequency of one of these,
by its lower confidence bound, is more than exp(ε) times the other's, by its upper one, the noise is not what it should
be. The confidence is 99.9 % for all bins, tails and both directions together. Draws are seeded: the same each time.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from attributary.api.ara.service import aggregation
from attributary.api.ara.service.aggregation import KeySums
from attributary.api.ara.service.ledger import Stretched
from attributary.api.attribution_api import Tally
from attributary.noise import dlap_variance, sample_dlap
from attributary.noise.model import OnSums
from support.effort import first_of

DRAWS = 10**6
CONFIDENCE = 0.999
Ints = NDArray[np.int64]
Answers = Callable[[int, float, int, Any], Ints]  # of sums that are all one number


def excess(one: NDArray[Any], other: NDArray[Any], epsilon: float, edges: NDArray[np.float64]) -> float:
    """By how much the worst log-ratio of frequencies surely exceeds ε; 0 at most if the noise is what it should be."""
    inner = [np.histogram(draws, np.concatenate([[-np.inf], edges, [np.inf]]))[0] for draws in (one, other)]
    events = [np.concatenate([counts, counts.cumsum(), counts[::-1].cumsum()]) for counts in inner]
    level = (1 - CONFIDENCE) / (4 * len(events[0]))  # two bounds, two directions, all events
    worst = -np.inf
    for a, b in (events, events[::-1]):
        some = (a > 0) & (b < DRAWS)
        low = stats.beta.ppf(level, a[some], DRAWS - a[some] + 1)
        high = stats.beta.ppf(1 - level, b[some] + 1, DRAWS - b[some])
        worst = max(worst, float(np.log(low / high).max()))
    return worst - epsilon


def grid(epsilon: float, l1: int) -> NDArray[np.float64]:
    """Edges around both sums, every quarter of the noise's scale, on no whole number; chosen before any draw."""
    steps = np.arange(-48, 49) / 4 * l1 / epsilon
    return np.unique(np.floor(np.concatenate([steps, steps + l1])) + 0.5)


def bias(draws: NDArray[Any], a: float) -> float:
    """The mean of draws of noise, in standard errors of it."""
    return float(abs(np.mean(draws)) / np.sqrt(dlap_variance(a) / len(draws)))


def by_aggregation(total: int, epsilon: float, l1: int, rng: Any) -> Ints:
    keys = np.empty((DRAWS, 2), np.uint64)
    flags, sums = np.ones(DRAWS, bool), np.full(DRAWS, total)
    batch = KeySums(keys, sums, flags, keys[:0], sums[:0], Tally(), (), ())
    return aggregation.noisy(sums, aggregation.draw(batch, epsilon, l1, rng))


def by_simulation(total: int, epsilon: float, l1: int, rng: Any) -> Ints:
    counts = OnSums(epsilon, l1).measure(np.full(DRAWS, total / l1), np.full(DRAWS, float(epsilon)), rng)
    return np.rint(counts * l1).astype(np.int64)


def generators() -> list[Any]:
    return [np.random.default_rng(11), np.random.default_rng(12)]


@pytest.mark.parametrize("answers", first_of([by_aggregation, by_simulation]))
@pytest.mark.parametrize(("epsilon", "l1"), first_of([(0.5, 1), (1, 65536), (2, 7)]))
def test_one_conversion_more_changes_no_frequency_beyond_epsilon(answers: Answers, epsilon: float, l1: int) -> None:
    without, within = (answers(total, epsilon, l1, rng) for total, rng in zip((0, l1), generators(), strict=True))
    found = excess(without, within, epsilon, grid(epsilon, l1))
    assert -0.1 < found <= 0  # above -0.1: the test is near enough to see less noise
    assert max(bias(without, epsilon / l1), bias(within - l1, epsilon / l1)) < 4


def test_so_it_is_with_noise_stretched_from_a_secret() -> None:
    one, other = (by_aggregation(total, 1, 65536, Stretched(bytes([total % 251]) * 32)) for total in (0, 65536))
    assert -0.1 < excess(one, other, 1, grid(1, 65536)) <= 0


def test_three_keys_together_stay_within_epsilon() -> None:
    contribution = 21845  # to each of three levels
    without, within = (
        sample_dlap(1 / 65536, (DRAWS, 3), rng) + shift
        for rng, shift in zip(generators(), (0, contribution), strict=True)
    )
    loss = [np.abs(answer - contribution).sum(axis=1) - np.abs(answer).sum(axis=1) for answer in (without, within)]
    most = 3 * contribution  # of the loss, either way
    found = excess(loss[0], loss[1], most / 65536, np.linspace(-most - 0.5, most + 0.5, 50))
    assert -0.1 < found <= 0


Broken = Callable[[float, Any], NDArray[Any]]


def less_noise(a: float, rng: Any) -> NDArray[Any]:
    return sample_dlap(a / 0.9, DRAWS, rng)


def tail_cut_off(a: float, rng: Any) -> NDArray[Any]:
    draws = sample_dlap(a, 2 * DRAWS, rng)
    return draws[np.abs(draws) <= 6.9 / a][:DRAWS]


def tail_folded(a: float, rng: Any) -> NDArray[Any]:
    most = int(6.9 / a)
    return np.clip(sample_dlap(a, DRAWS, rng), -most, most)


@pytest.mark.parametrize("broken", first_of([less_noise, tail_cut_off, tail_folded]))
@pytest.mark.parametrize(("epsilon", "l1"), first_of([(0.5, 1), (1, 65536), (2, 7)]))
def test_a_broken_sampler_is_caught(broken: Broken, epsilon: float, l1: int) -> None:
    without, within = (broken(epsilon / l1, rng) + total for rng, total in zip(generators(), (0, l1), strict=True))
    assert excess(without, within, epsilon, grid(epsilon, l1)) > 0


def test_rounding_down_is_caught_as_bias_and_not_otherwise() -> None:
    without, within = (
        np.floor(rng.laplace(0, 1, DRAWS)) + total for rng, total in zip(generators(), (0, 1), strict=True)
    )
    assert bias(without, 1) > 100  # half a unit
    assert excess(without, within, 1, grid(1, 1)) <= 0
