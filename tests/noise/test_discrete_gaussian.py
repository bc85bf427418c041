"""Laws of discrete Gaussian noise: the exact distribution, and never less noise than asked for."""

from fractions import Fraction
from typing import Any

import numpy as np
import opendp.prelude as dp
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import chi2_contingency, chisquare

from attributary.errors import InputError
from attributary.noise import gaussian
from attributary.noise.discrete_laplace import digits_of_exp, drawn_for_each
from attributary.noise.gaussian import (
    dgauss_variance,
    sample_dgauss,
    sigma2_terms,
)
from support.effort import first_of

MILLION = 10**6
SCALES = [0.2, Fraction(9, 4), 30.0, 1234.5, 3e10]


def seeded(seed: int = 3) -> np.random.Generator:
    return np.random.default_rng(seed)


def cells(sigma2: Any) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The last number of each cell, and the exact chance of each; cells of about a 40th of σ, and both tails."""
    sigma = float(sigma2) ** 0.5
    width = max(1, int(sigma / 8))
    ends = np.arange(-int(5 * sigma / width) - 2, int(5 * sigma / width) + 3) * width
    if sigma < 1000:
        k = np.arange(ends[0] - int(9 * sigma) - 9, ends[-1] + int(9 * sigma) + 10)
        each = np.exp(-(k.astype(float) ** 2) / (2 * float(sigma2)))
        upto = np.cumsum(each)[np.searchsorted(k, ends)] / each.sum()
    else:  # sums are integrals, with half a step of correction
        from scipy.stats import norm

        upto = norm.cdf((ends + 0.5) / sigma)
    return ends, np.diff(upto, prepend=0, append=1)


def seen(draws: NDArray[np.int64], ends: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.bincount(np.searchsorted(ends, draws), minlength=len(ends) + 1)


def p_value(draws: NDArray[np.int64], sigma2: Any) -> float:
    ends, chance = cells(sigma2)
    found, expected = seen(draws, ends), chance * len(draws)
    enough = expected >= 5
    pairs = [np.append(each[enough], each[~enough].sum()) for each in (found, expected)]
    keep = pairs[1] > 1e-9
    return float(chisquare(pairs[0][keep], pairs[1][keep]).pvalue)


@pytest.mark.parametrize("sigma2", first_of(SCALES))
def test_a_million_draws_follow_the_exact_distribution(sigma2: Any) -> None:
    draws = sample_dgauss(sigma2, MILLION, seeded())
    assert p_value(draws, sigma2) > 1e-4
    assert p_value(sample_dgauss(float(sigma2) * 0.95, MILLION, seeded()), sigma2) < 1e-9  # less noise would be seen


def test_so_do_draws_from_the_operating_system() -> None:
    assert p_value(sample_dgauss(2.5, MILLION // 4), 2.5) > 1e-9


@pytest.mark.parametrize("sigma2", [0.25, 2.25, 900.0])
def test_opendp_draws_the_same_noise(sigma2: float) -> None:
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.l2_distance(T=float)
    theirs = np.array(dp.m.make_gaussian(*space, scale=sigma2**0.5)([0] * 5_000))
    ends, _ = cells(sigma2)
    table = np.array([seen(sample_dgauss(sigma2, MILLION // 4, seeded()), ends), seen(theirs, ends)])
    assert chi2_contingency(table[:, table.sum(0) >= 50]).pvalue > 1e-9


def test_a_small_draw_is_not_biased_by_what_it_leaves() -> None:
    rng = seeded()
    assert p_value(np.concatenate([sample_dgauss(2.25, 3, rng) for _ in range(5_000)]), 2.25) > 1e-4


def test_each_scale_has_its_own_noise() -> None:
    sigma2 = np.tile([np.inf, 0.5, 40.0], 50_000)
    drawn = drawn_for_each(sigma2, sample_dgauss, seeded())
    assert (drawn[sigma2 == np.inf] == 0).all()
    for one in (0.5, 40.0):
        assert p_value(drawn[sigma2 == one], one) > 1e-4


@given(st.one_of(st.floats(1e-8, 1e15), st.fractions(Fraction(1, 999), 999, max_denominator=999)), st.data())
def test_acceptance_is_exact_to_the_last_digit(sigma2: Any, data: Any) -> None:
    p, q = sigma2_terms(sigma2)
    t = gaussian.isqrt(p // q) + 1
    y = data.draw(st.integers(0, min(12 * t, int(9 * float(sigma2) ** 0.5))))
    n, d = (y * t * q - p) ** 2, 2 * p * q * t * t
    digits = digits_of_exp(n, d, 16) if n else 2**16
    for word in {digits - 1, digits, digits + 1, 0, 2**16 - 1} & set(range(2**16)):
        for more in (0, 2**64 - 1):  # the digits that follow: the least and the largest number with these 16
            found = gaussian._accept(
                np.array([-y]), np.array([word], np.uint16), p, q, t, lambda n, more=more: more.to_bytes(n, "little")
            )
            assert found[0] == (word * 2**64 + more < (digits_of_exp(n, d, 80) if n else 2**80))


@given(st.floats(1e-8, 1e15))
def test_what_is_drawn_is_never_less_noise(sigma2: float) -> None:
    p, q = sigma2_terms(sigma2)
    assert Fraction(sigma2) <= Fraction(p, q) <= Fraction(sigma2) * (1 + Fraction(1, 2**20))
    assert 2**53 <= max(p, q) <= 2**54
    small = Fraction(sigma2).limit_denominator(1000)
    if small >= gaussian.LEAST:
        assert Fraction(*sigma2_terms(small)) == small


@pytest.mark.parametrize("sigma2", [1e-3, 0.05, 0.3, 1.0, 3.9, 4.1, 70.0])
def test_the_variance_is_that_of_the_exact_law(sigma2: float) -> None:
    k = np.arange(-200, 201)
    weight = np.exp(-(k**2) / (2 * sigma2))
    chance = weight / weight.sum()
    assert dgauss_variance(sigma2) == pytest.approx((chance * k**2).sum(), rel=1e-12)
    assert dgauss_variance(np.array([sigma2]))[0] <= sigma2 * (1 + 1e-15)


@pytest.mark.parametrize("sigma2", [0, -1, float("nan"), float("inf"), 1e-12, 1e300])
def test_scales_that_cannot_be_drawn_are_refused(sigma2: float) -> None:
    with pytest.raises(InputError, match="σ² of noise must be"):
        sample_dgauss(sigma2, 3)
    if not 0 < sigma2 < np.inf:
        with pytest.raises(InputError, match="positive and finite"):
            dgauss_variance(sigma2)


def test_entropy_must_be_entropy() -> None:
    with pytest.raises(InputError, match="bytes"):
        sample_dgauss(1.0, 3, rng=7)  # type: ignore[arg-type]


def test_what_is_next_to_impossible_is_refused_without_working_out_its_chance() -> None:
    p, q = sigma2_terms(1e-8)  # a candidate of 5 has a chance of exp(-10⁹)
    assert not gaussian._accept(np.array([5]), np.zeros(1, np.uint16), p, q, 1, lambda n: b"\1" * n)[0]
