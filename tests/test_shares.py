"""Prediction by shares: equal to exact least squares with one more figure for each share, compiled and not."""

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attributary import Prior, Tree, denoise
from attributary.denoising import denoise as package_denoise
from exact import HUGE, incidence, invert
from forests import NAMED, Case, cases, grown


@pytest.fixture(params=["lists", "compiled"])
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "compiled":
        monkeypatch.setattr("attributary.denoising.denoise.COMPILED_FROM", 0)
    return str(request.param)


@st.composite
def priors(draw: st.DrawFn, case: Case, special: tuple[float, ...] = ()) -> Prior:
    """Shares of every family, eighths and the like so that they sum to 1 exactly, and spreads of many sizes."""
    n = len(case.parent)
    share, spread = np.ones(n), np.full(n, np.inf)
    for p in set(case.parent) - {-1}:
        children = [v for v in range(n) if case.parent[v] == p]
        parts = [draw(st.integers(0, 8)) for _ in children]
        parts[0] += max(1, 2 ** int(np.ceil(np.log2(sum(parts) + 1))) - sum(parts))
        for v, part in zip(children, parts, strict=True):
            share[v] = part / sum(parts)
            spread[v] = draw(st.sampled_from([10 ** draw(st.floats(-3, 3)), *special]))
    return Prior(np.zeros(n), share=share, spread=spread)


def least_squares(case: Case, prior: Prior) -> tuple[np.ndarray, np.ndarray]:
    """The counts that minimise Σ (noisy − x)² / variance + Σ (x − share · parent's)² / spread, and their variances."""
    n = len(case.parent)
    leaves = [v for v in range(n) if v not in case.parent]
    rows = incidence(case.parent, leaves)
    figures = [[Fraction(0 if v == np.inf else x), v] for x, v in zip(case.noisy, case.variance, strict=True)]
    lines = [[Fraction(a) for a in row] for row in rows]
    for v, p in enumerate(case.parent):
        if p >= 0:
            s = Fraction(float(prior.share[v]))
            lines.append([a - s * b for a, b in zip(rows[v], rows[p], strict=True)])
            figures.append([Fraction(0), prior.spread[v]])
    weight = [1 / HUGE if v == np.inf else HUGE if v == 0 else 1 / Fraction(v) for _, v in figures]
    m = range(len(leaves))
    normal = [[sum(w * a[i] * a[j] for a, w in zip(lines, weight, strict=True)) for j in m] for i in m]
    inverse = invert(normal)
    right = [sum(w * a[i] * f for a, w, (f, _) in zip(lines, weight, figures, strict=True)) for i in m]
    theta = [sum(inverse[i][j] * right[j] for j in m) for i in m]
    count = [sum(r[i] * theta[i] for i in m) for r in rows]
    variance = [sum(r[i] * inverse[i][j] * r[j] for i in m for j in m) for r in rows]
    return np.array([float(c) for c in count]), np.array([float(v) for v in variance])


def check(case: Case, prior: Prior) -> None:
    est = denoise(case.tree, case.noisy, case.variance, prior=prior)
    count, variance = least_squares(case, prior)
    known = variance < 1e30
    scale = 1 + np.abs(np.nan_to_num(case.noisy)).max()
    assert (np.isfinite(est.variance) == known).all()
    assert np.allclose(est.variance[known], variance[known], rtol=1e-7, atol=1e-12)
    assert np.allclose(est.count[known], count[known], rtol=0, atol=1e-8 * scale)
    sums = np.bincount([p for p in case.parent if p >= 0], est.count[np.array(case.parent) >= 0], len(case.parent))
    inner = np.isin(np.arange(len(case.parent)), case.parent)
    assert np.allclose(sums[inner], est.count[inner], rtol=1e-9, atol=1e-9 * scale)


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_equals_least_squares_in_exact_fractions(data: st.DataObject) -> None:
    case = data.draw(cases(most=9, spread=3.0))
    check(case, data.draw(priors(case)))


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_figures_not_measured_and_shares_not_known(data: st.DataObject) -> None:
    case = data.draw(cases(most=9, spread=3.0, special=(np.inf, np.inf)))
    check(case, data.draw(priors(case, special=(np.inf,))))
