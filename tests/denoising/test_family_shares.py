"""Prediction by shares: equal to exact least squares with one more figure for each share, compiled and not."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attributary import Measurements, Prior, Tree, denoise
from support.effort import examples, first_of
from support.exact import HUGE, incidence, invert
from support.forests import NAMED, Case, cases, grown
from support.runners import running


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


@settings(max_examples=examples(200), deadline=None)
@given(data=st.data())
def test_equals_least_squares_in_exact_fractions(data: st.DataObject) -> None:
    case = data.draw(cases(most=9, spread=3.0))
    check(case, data.draw(priors(case)))


@settings(max_examples=examples(200), deadline=None)
@given(data=st.data())
def test_figures_not_measured_and_shares_not_known(data: st.DataObject) -> None:
    case = data.draw(cases(most=9, spread=3.0, special=(np.inf, np.inf)))
    check(case, data.draw(priors(case, special=(np.inf,))))


@settings(max_examples=examples(150), deadline=None)
@given(data=st.data())
def test_shares_known_exactly(data: st.DataObject) -> None:
    case = data.draw(cases(most=9, spread=3.0))
    check(case, data.draw(priors(case, special=(0.0, np.inf))))


@pytest.mark.parametrize("name", first_of(NAMED))
def test_compiled_equals_lists(name: str) -> None:
    tree = grown(400, 3) if name == "twins" else Tree.from_parents(NAMED[name])
    rng = np.random.default_rng(1)
    noisy, variance = rng.normal(20, 9, len(tree)), 10 ** rng.uniform(-3, 3, len(tree))
    variance[rng.random(len(tree)) < 0.2] = np.inf
    prior = Prior(noisy, share=_even(tree), spread=np.where(rng.random(len(tree)) < 0.2, np.inf, variance[::-1]))
    for how in (None, "top-down"):
        with running("plain"):
            lists = denoise(tree, noisy, variance, prior=prior, nonnegative=how)
        with running("compiled"):
            compiled = denoise(tree, noisy, variance, prior=prior, nonnegative=how)
        assert np.allclose(lists.count, compiled.count, rtol=1e-9, atol=1e-9)
        assert np.allclose(lists.variance, compiled.variance, rtol=1e-9)


def test_exact_figures_are_honoured_whatever_is_expected() -> None:
    tree = Tree.from_parents([-1, 0, 0, 0])
    prior = Prior(np.zeros(4), share=np.array([1, 0.5, 0.25, 0.25]), spread=np.array([0.0, 1.0, 0.0, 1.0]))
    est = denoise(tree, [100, 10, 3, 5], [0, 0, 1, 1], prior=prior)
    assert est.count[:2].tolist() == [100, 10] and est.variance[:2].tolist() == [0, 0]
    assert est.count[2] == pytest.approx(25) and est.count[3] == pytest.approx(65)


def test_where_nothing_is_expected_it_is_as_without_a_prior() -> None:
    tree, rng = grown(300, 5), np.random.default_rng(2)
    noisy, variance, none = rng.normal(9, 9, len(tree)), rng.random(len(tree)) + 0.1, np.full(len(tree), np.inf)
    plain = denoise(tree, noisy, variance, nonnegative=True)
    for prior in (Prior(noisy, none), Prior(noisy, share=none, spread=none)):
        est = denoise(tree, noisy, variance, nonnegative=True, prior=prior)
        assert (est.count == plain.count).all() and (est.variance == plain.variance).all()
        assert not est.from_prior.any()


def test_a_mean_is_one_more_measurement() -> None:
    tree, rng = grown(60, 7), np.random.default_rng(3)
    noisy, variance, mean, wide = (rng.random(len(tree)) + 0.1 for _ in range(4))
    wide[::3] = np.inf
    both = Measurements(noisy, variance).again(Measurements(mean, wide))
    est, again = denoise(tree, noisy, variance, prior=Prior(mean, wide)), denoise(tree, both)
    assert (est.count == again.count).all() and (est.variance == again.variance).all()
    lone = denoise(Tree.from_parents([-1]), [4.0], [3.0], prior=Prior(np.array([0.0]), np.array([1.0])))
    assert lone.count[0] == pytest.approx(1) and lone.from_prior[0] == pytest.approx(0.75)


def test_from_prior_correction_and_fit() -> None:
    tree = Tree.from_parents([-1, 0, 0, 0])
    share, spread = np.array([1, 0.5, 0.25, 0.25]), np.full(4, 2.0)
    prior = Prior(np.zeros(4), share=share, spread=spread)
    est = denoise(tree, [100, 44, 29, 30], [1, 9, 9, np.inf], prior=prior)
    plain = denoise(tree, [100, 44, 29, 30], [1, 9, 9, np.inf])
    assert ((est.from_prior >= 0) & (est.from_prior <= 1)).all() and est.from_prior[3] > 0.5
    assert np.array_equal(est.correction, plain.correction, equal_nan=True)
    assert est.fit == plain.fit


@settings(max_examples=examples(60), deadline=None)
@given(data=st.data())
def test_totals_have_the_variance_of_their_sum(data: st.DataObject) -> None:
    case = data.draw(cases(most=9, spread=3.0))
    prior = data.draw(priors(case))
    est = denoise(case.tree, case.noisy, case.variance, prior=prior)
    for v in range(len(case.parent)):
        assert est.total([v]).variance == pytest.approx(est.variance[v], rel=1e-7)
    weights = np.array([float(data.draw(st.integers(-2, 2))) for _ in case.parent])
    # The variance of any sum follows from those of the nodes and of all pairs.
    pairs = {(u, v): est.total([u, v]).variance for u in range(len(weights)) for v in range(u)}
    expected = sum(w * w * s for w, s in zip(weights, est.variance, strict=True))
    for (u, v), both in pairs.items():
        expected += weights[u] * weights[v] * (both - est.variance[u] - est.variance[v])
    assert est.total(weights).variance == pytest.approx(expected, rel=1e-6, abs=1e-6 * est.variance.max())


@settings(max_examples=examples(100), deadline=None)
@given(data=st.data())
def test_nonnegative_counts_add_up_and_keep_what_is_not_negative(data: st.DataObject) -> None:
    case = data.draw(cases(most=9, spread=2.0))
    prior = data.draw(priors(case))
    est = denoise(case.tree, case.noisy, case.variance, prior=prior, nonnegative=True)
    assert (est.count >= 0).all()
    inner = [p for p in set(case.parent) if p >= 0]
    for p in inner:
        below = est.count[[v for v, q in enumerate(case.parent) if q == p]].sum()
        assert below == pytest.approx(est.count[p], rel=1e-9, abs=1e-9)
    if (est.blue >= 0).all():
        assert np.allclose(est.count, est.blue, rtol=1e-6, atol=1e-6)
    low, high = est.interval()
    assert (low <= est.count).all() and (est.count <= high).all()
    whole = denoise(case.tree, case.noisy, case.variance, prior=prior, nonnegative=True, whole=True)
    assert whole.count.dtype == np.int64 and np.abs(whole.count - est.count).max() <= 1 + 1e-9


def _even(tree: Tree) -> np.ndarray:
    size = np.bincount(tree.parent[tree.parent >= 0], minlength=len(tree))
    return 1 / np.where(tree.parent >= 0, size[tree.parent], 1)


GOOD = {"share": np.array([1.0, 0.5, 0.5]), "spread": np.ones(3)}


@pytest.mark.parametrize(
    ("prior", "said"),
    [
        (Prior(np.zeros(3)), "how far to trust it"),
        (Prior(np.zeros(3), share=GOOD["share"]), "go together"),
        (Prior(np.zeros(3), share=GOOD["share"], spread=np.ones(2)), "for each of the 3 nodes"),
        (Prior(np.zeros(3), share=GOOD["share"], spread=np.array([1, -1, 1.0])), "0 or more"),
        (Prior(np.zeros(3), share=GOOD["share"], spread=np.array([1, np.nan, 1])), "negative or nan"),
        (Prior(np.zeros(3), share=np.array([1, 0.5, 0.4]), spread=np.ones(3)), "sums to 0.9"),
        (Prior(np.zeros(3), share=np.array([1, 1.5, -0.5]), spread=np.ones(3)), "0 or more"),
        (Prior(np.zeros(3), share=np.array([1, np.nan, 0.5]), spread=np.ones(3)), "sums to nan"),
        (Prior(np.zeros(2), np.ones(2)), "for each of the 3 nodes"),
        (Prior(np.zeros(3), np.array([1, 1, -1.0])), "0 or more"),
        (Prior(np.array([0, np.nan, 0]), np.ones(3)), "finite"),
    ],
)
def test_priors_that_make_no_sense_are_refused(prior: Prior, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        denoise(Tree.from_parents([-1, 0, 0]), [3, 1, 2], 1.0, prior=prior)


def test_joint_takes_no_shares() -> None:
    with pytest.raises(ValueError, match="top-down"):
        denoise(Tree.from_parents([-1, 0, 0]), [3, 1, 2], 1.0, prior=Prior(np.zeros(3), **GOOD), nonnegative="joint")


def test_exact_shares_and_exact_figures_that_contradict_each_other() -> None:
    tree = Tree.from_parents([-1, 0, 0])
    prior = Prior(np.zeros(3), share=np.array([1.0, 0.0, 1.0]), spread=np.zeros(3))
    with pytest.raises(ValueError, match="some spread"):
        denoise(tree, [9, 4, 5], [1, 0, 1], prior=prior)
    with pytest.raises(ValueError, match="must agree"):
        denoise(tree, [9, 4, 6], [0, 0, 0], prior=Prior(np.zeros(3), **GOOD))


def test_means_join_in_one_sweep_as_they_do_in_numpy() -> None:
    tree, rng = grown(500, 1), np.random.default_rng(4)
    noisy, mean = rng.normal(9, 9, len(tree)), rng.normal(9, 9, len(tree))
    variance, wide = (np.where(rng.random(len(tree)) < 0.2, np.inf, rng.random(len(tree)) + 0.1) for _ in range(2))
    noisy[variance == np.inf] = np.nan
    with running("plain"):
        lists = denoise(tree, noisy, variance, prior=Prior(mean, wide))
    with running("compiled"):
        compiled = denoise(tree, noisy, variance, prior=Prior(mean, wide))
    assert np.allclose(lists.count, compiled.count) and np.allclose(lists.variance, compiled.variance)
    with running("compiled"), pytest.raises(ValueError, match="0 or more"):
        denoise(tree, noisy, variance, prior=Prior(mean, -wide))


def test_figures_that_may_not_be_written_to_are_read() -> None:
    """Arrays from Arrow are read-only."""
    tree = Tree.from_parents([-1, 0, 0])
    known = Prior(np.zeros(3), share=np.array([1, 0.5, 0.5]), spread=np.array([np.inf, 4.0, 4.0]))
    noisy, variance = np.array([9.0, 5, 3]), np.array([1.0, 2, 4])
    wanted = denoise(tree, noisy, variance, prior=known).count
    for array in (noisy, variance):
        array.flags.writeable = False
    assert np.array_equal(denoise(tree, noisy, variance, prior=known).count, wanted)
