"""Laws of privacy accounts: closed forms, slow sums and integrals, and functions that invert each other."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad

from attributary.errors import InputError
from attributary.noise import PrivacyAccount, gaussian_delta, gaussian_epsilon, gaussian_mu
from support.effort import examples

EPSILONS, MUS = st.floats(0.01, 40), st.floats(0.01, 8)
DELTAS = st.floats(-30, -0.5).map(lambda exponent: 10.0**exponent)


def slow_delta(mu: float, epsilon: float, losses: list[tuple[float, float]] = [(0.0, 1.0)]) -> float:  # noqa: B006
    """δ = E[(1 − exp(ε − loss))₊] by integration over the Gaussian loss, N(μ²/2, μ²), for each of the other losses."""
    total = 0.0
    for loss, chance in losses:
        start = (epsilon - loss) / mu - mu / 2
        low = max(start, -40.0)
        scale = max(low, 0.0)  # keeps what is integrated of one size

        def part(x: float, start: float = start, scale: float = scale) -> float:
            return float(-np.expm1(mu * (start - x)) * np.exp(-(x * x - scale * scale) / 2))

        total += chance * np.exp(-scale * scale / 2) * quad(part, low, low + 12, epsabs=0, epsrel=1e-11, limit=300)[0]
    return total / np.sqrt(2 * np.pi)


@pytest.mark.parametrize(("epsilon", "mu"), [(0.5, 0.124), (1, 0.237), (4, 0.838), (16, 2.71)])
def test_published_pairs(epsilon: float, mu: float) -> None:
    assert gaussian_mu(epsilon, 1e-6) == pytest.approx(mu, rel=4e-3)


@given(MUS, st.floats(0, 40))
def test_delta_is_the_integral_also_where_it_is_tiny(mu: float, epsilon: float) -> None:
    if epsilon / mu - mu / 2 < 35:
        assert float(gaussian_delta(mu, epsilon)) == pytest.approx(slow_delta(mu, epsilon), rel=1e-8)


@pytest.mark.parametrize("epsilon", [1e-6, 64.0, 1000.0, 1e6])
def test_budgets_of_any_size_have_a_mu(epsilon: float) -> None:
    mu = gaussian_mu(epsilon, 1e-6)
    assert 0 < mu < np.sqrt(2 * epsilon) + 1e-5 and gaussian_delta(mu, epsilon) <= 1e-6
    assert gaussian_epsilon(mu, 1e-6) == pytest.approx(epsilon, rel=1e-5)


@settings(max_examples=examples(25))
@given(EPSILONS, DELTAS)
def test_mu_and_epsilon_invert_each_other_and_never_understate(epsilon: float, delta: float) -> None:
    mu = gaussian_mu(epsilon, delta)
    assert gaussian_delta(mu, epsilon) <= delta
    assert gaussian_epsilon(mu, delta) == pytest.approx(epsilon, rel=1e-9)
    assert gaussian_delta(mu * (1 + 1e-6), epsilon) > delta


def randomised(account: PrivacyAccount) -> list[tuple[float, float]]:
    """All losses of discrete Laplace noise, one by one."""
    levels = []
    for epsilon, steps in account.laplace:  # type: ignore[misc]
        a, k = epsilon / steps, np.arange(-20_000, 20_001)
        chance = np.exp(-a * np.abs(k))
        loss, place = np.unique(np.abs(k - steps) - np.abs(k), return_inverse=True)
        levels.append(list(zip((a * loss).tolist(), (np.bincount(place, chance) / chance.sum()).tolist(), strict=True)))
    return [(sum(x for x, _ in pair), float(np.prod([p for _, p in pair]))) for pair in product(*levels)]


@pytest.mark.parametrize(
    "account",
    [
        PrivacyAccount(0.4, ((0.7, 1),)),
        PrivacyAccount(1.5, ((2.0, 1), (0.3, 1), (0.05, 1))),
        PrivacyAccount(0.2, ((0.9, 3), (0.4, 2))),
    ],
)
def test_both_noises_together_are_just_above_a_slow_sum_of_integrals(account: PrivacyAccount) -> None:
    losses = randomised(account)
    for epsilon in (0.0, 0.5, 2.0, 4.0):
        exact = slow_delta(account.mu, epsilon, losses)
        assert exact * (1 - 1e-6) <= account.delta(epsilon) <= exact * (1 + 1e-3)


@settings(max_examples=examples(25))
@given(st.lists(st.tuples(st.floats(0.01, 3), st.integers(1, 4)), min_size=1, max_size=3), st.floats(0, 4))
def test_laplace_noise_alone_is_just_above_the_slow_sum(levels: list[tuple[float, int]], epsilon: float) -> None:
    account = PrivacyAccount(laplace=tuple(levels))
    exact = sum(p * max(0.0, -np.expm1(epsilon - x)) for x, p in randomised(account))
    assert exact - 1e-12 <= account.delta(epsilon) <= exact + 1e-3 * sum(e for e, _ in levels)  # a chord for a curve
    assert account.epsilon(0) == pytest.approx(sum(e for e, _ in levels))
    assert account.delta(account.epsilon(0)) == 0
    assert account.epsilon(1e-9) <= account.epsilon(0) * (1 + 1e-9)


@settings(max_examples=examples(8))
@given(MUS, st.lists(st.floats(0.01, 2), max_size=3), st.lists(st.floats(0.01, 2), max_size=3), DELTAS)
def test_accounts_add_up_and_more_noise_never_loses_more(
    mu: float, some: list[float], more: list[float], delta: float
) -> None:
    one, other = PrivacyAccount(mu, tuple(some)), PrivacyAccount(0.5 * mu, tuple(more))
    both = one.plus(other).epsilon(delta)
    assert both == pytest.approx(other.plus(one).epsilon(delta), rel=1e-6)
    assert max(one.epsilon(delta), other.epsilon(delta)) <= both * (1 + 1e-6)
    assert both <= sum(some) + sum(more) + gaussian_epsilon(np.hypot(mu, 0.5 * mu), delta) + 1e-3
    assert one.rho == pytest.approx((mu**2 + sum(e * e for e in some)) / 2)
    coarse = PrivacyAccount(mu, tuple((e, 1) for e in some))  # noise on whole counts loses no less than continuous
    assert one.delta(1.0) <= coarse.delta(1.0) * (1 + 1e-9)


def discrete_delta(sigma: float, steps: int, epsilon: float) -> float:
    """Of the discrete Gaussian with this σ, where a conversion is so many steps: E[(1 − exp(ε − loss))₊], summed."""
    k = np.arange(-int(14 * sigma), int(14 * sigma) + steps + 1)
    loss = (k * steps + steps**2 / 2) / sigma**2
    weight = np.exp(-(k.astype(float) ** 2) / (2 * sigma**2))
    return float((np.maximum(0.0, -np.expm1(epsilon - loss)) * weight).sum() / weight.sum())


@pytest.mark.parametrize("steps", [8, 32, 128])
@pytest.mark.parametrize("mu", [0.2, 1.0])
def test_on_a_fine_grid_discrete_noise_has_the_continuous_curve(steps: int, mu: float) -> None:
    sigma = steps / mu
    epsilons = mu * np.linspace(0.0, 4.7, 43)
    above = [discrete_delta(sigma, steps, e) / float(gaussian_delta(mu, e)) - 1 for e in epsilons]
    assert np.abs(above).max() < 4 / sigma**2  # so below 1e-10 at the 2¹⁹ steps or more that are drawn on


def test_on_whole_counts_discrete_noise_may_lose_more_than_the_curve() -> None:
    epsilons = np.linspace(0.5, 6, 100)
    assert max(discrete_delta(1.2, 1, e) / float(gaussian_delta(1 / 1.2, e)) for e in epsilons) > 1.05


@pytest.mark.parametrize(("epsilon", "delta"), [(0, 1e-6), (1, 0), (1, 1), (np.nan, 1e-6), (1, np.nan), (np.inf, 0.1)])
def test_what_is_out_of_range_is_refused(epsilon: float, delta: float) -> None:
    with pytest.raises(InputError, match="delta above 0 and below 1"):
        gaussian_mu(epsilon, delta)


@pytest.mark.parametrize("bad", [{"mu": -1}, {"mu": np.nan}, {"laplace": (0.0,)}, {"laplace": ((1.0, 0),)}])
def test_accounts_of_no_noise_are_refused(bad: dict[str, float]) -> None:
    with pytest.raises(InputError, match="an account has mu"):
        PrivacyAccount(**bad)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="epsilon is 0 or more; got -1"):
        PrivacyAccount(1.0).delta(-1)
    with pytest.raises(InputError, match="delta above 0"):
        PrivacyAccount(1.0).epsilon(0)
