"""The linear estimate: equal to exact least squares, on both engines."""

from collections.abc import Callable
from fractions import Fraction
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given, settings

from attributary import Measurements, Tree, denoise
from attributary.denoising import compiled, linear, threads
from attributary.denoising import denoise as package_denoise
from support.effort import examples
from support.exact import least_squares
from support.forests import NAMED, Case, cases, grown

ENGINES = pytest.mark.parametrize("engine", [linear, compiled], ids=["numpy", "compiled"])


def blue(engine: ModuleType, case: Case) -> tuple[np.ndarray, np.ndarray]:
    tree = case.tree
    x, var = (tree.to_level_order(np.array(a)) for a in (case.noisy, case.variance))
    count, variance = engine.blue(tree, x, var)
    return tree.from_level_order(count), tree.from_level_order(variance)


def largest_figure(parent: list[int], values: np.ndarray) -> np.ndarray:
    """For each node, the largest figure of its families and of those above, whose rounding it inherits."""
    size = np.abs(values)
    out = size.copy()
    for v in range(len(parent)):
        u = v
        while u >= 0:
            kin = [w for w, p in enumerate(parent) if p == u or (p == parent[u] and p >= 0)]
            out[v] = max([out[v], size[u], *(size[w] for w in kin)])
            u = parent[u]
    return out


@ENGINES
@settings(max_examples=examples(300), deadline=None)
@given(case=cases())
def test_equals_least_squares_in_exact_fractions(engine: ModuleType, case: Case) -> None:
    count, variance = blue(engine, case)
    exact, exact_variance = least_squares(*case)
    assert np.allclose(variance, [float(v) for v in exact_variance], rtol=1e-12, atol=0)
    figures = np.maximum(np.abs([float(c) for c in exact]), np.abs(case.noisy))
    tolerance = 1e-9 * np.sqrt(variance) + 8 * np.spacing(largest_figure(case.parent, figures))
    error = [abs(float(Fraction(float(c)) - e)) for c, e in zip(count, exact, strict=True)]
    assert (np.array(error) <= tolerance).all()


@ENGINES
@settings(max_examples=examples(200), deadline=None)
@given(case=cases(most=9, spread=3.0, special=(np.inf, np.inf)))
def test_unmeasured_nodes_take_what_is_left(engine: ModuleType, case: Case) -> None:
    count, variance = blue(engine, case)
    exact, exact_variance = least_squares(*case)
    known = np.array([v < Fraction(10) ** 40 for v in exact_variance])
    assert (np.isfinite(variance) == known).all()
    scale = 1 + np.abs(np.nan_to_num(case.noisy)).max()
    assert np.allclose(variance[known], [float(v) for v in np.array(exact_variance)[known]], rtol=1e-9)
    assert np.allclose(count[known], [float(c) for c in np.array(exact)[known]], rtol=0, atol=1e-9 * scale)
    assert np.isfinite(count).all()
    check_sums(case.parent, count, scale)


@ENGINES
@settings(max_examples=examples(200), deadline=None)
@given(case=cases(most=9, spread=3.0, special=(0.0, np.inf)))
def test_exact_nodes_are_honoured(engine: ModuleType, case: Case) -> None:
    # Exact figures that agree: those of a consistent truth.
    tree = case.tree
    truth = denoise(tree, np.arange(len(tree)), np.ones(len(tree)), whole=True).count
    noisy = [float(t) if v == 0 else x for t, x, v in zip(truth, case.noisy, case.variance, strict=True)]
    case = case._replace(noisy=noisy)
    count, variance = blue(engine, case)
    pinned = np.array(case.variance) == 0
    assert (count[pinned] == truth[pinned]).all()
    assert (variance[pinned] == 0).all()
    exact, exact_variance = least_squares(*case)
    known = np.array([v < Fraction(10) ** 40 for v in exact_variance])
    scale = 1 + np.abs(np.nan_to_num(noisy)).max()
    assert np.allclose(count[known], [float(c) for c in np.array(exact)[known]], rtol=0, atol=1e-8 * scale)
    assert np.allclose(variance[known], [float(v) for v in np.array(exact_variance)[known]], rtol=1e-9, atol=1e-30)


@ENGINES
@settings(max_examples=examples(200), deadline=None)
@given(case=cases(most=30, spread=4.0))
def test_both_laws_of_the_papers_lemma(engine: ModuleType, case: Case) -> None:
    count, _ = blue(engine, case)
    check_sums(case.parent, count, np.abs(case.noisy).max() + np.abs(count).max())
    residual = (np.array(case.noisy) - count) / np.array(case.variance)
    size = (np.abs(case.noisy) + np.abs(count)) / np.array(case.variance)
    inner = {p for p in case.parent if p >= 0}
    for leaf in set(range(len(case.parent))) - inner:
        path = [leaf]
        while case.parent[path[-1]] >= 0:
            path.append(case.parent[path[-1]])
        assert abs(residual[path].sum()) <= 1e-9 * size[path].sum() + 1e-12 * residual[path].max()


def check_sums(parent: list[int], count: np.ndarray, scale: float) -> None:
    sums = np.zeros(len(parent))
    for v, p in enumerate(parent):
        if p >= 0:
            sums[p] += count[v]
    inner = sorted({p for p in parent if p >= 0})
    assert np.allclose(sums[inner], count[inner], rtol=0, atol=1e-12 * scale * len(parent))


@pytest.mark.parametrize(
    "make", [lambda: grown(200_000, 1), lambda: Tree.from_parents((np.arange(2**18 - 1) - 1) // 2)]
)
def test_engines_agree_on_large_trees_and_threads_change_nothing(
    make: Callable[[], Tree], monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = make()
    rng = np.random.default_rng(2)
    x, var = rng.normal(50, 20, len(tree)), 10 ** rng.uniform(-2, 2, len(tree))
    var[rng.random(len(tree)) < 0.01] = np.inf
    a, b = linear.blue(tree, x, var), compiled.blue(tree, x, var)
    assert np.allclose(a[0], b[0], rtol=1e-10, atol=1e-10) and np.allclose(a[1], b[1], rtol=1e-12)
    monkeypatch.setattr(threads, "THREADED", 100)
    again = compiled.blue(tree, x, var)
    assert (again[0] == b[0]).all() and (again[1] == b[1]).all()


@pytest.mark.parametrize("name", NAMED)
def test_any_order_gives_the_same_answer(name: str) -> None:
    parent = np.array(NAMED[name])
    n = len(parent)
    rng = np.random.default_rng(n)
    x, var = rng.normal(0, 5, n), rng.uniform(1, 9, n)
    place = rng.permutation(n)
    moved = np.empty(n, int)
    moved[place] = np.where(parent < 0, -1, place[parent])
    there = denoise(Tree.from_parents(moved), x[np.argsort(place)], var[np.argsort(place)])
    here = denoise(Tree.from_parents(parent), x, var)
    assert np.allclose(there.count[place], here.count, rtol=1e-14, atol=1e-13)
    assert np.allclose(there.variance[place], here.variance, rtol=1e-14)


def test_the_readme_example_by_hand() -> None:
    # 100 ± 1 above 40 ± 1 and 50 ± 1: the 10 that are missing are split over three equal uncertainties.
    est = denoise(Tree.from_parents([-1, 0, 0]), [100, 40, 50], 1.0)
    assert np.allclose(est.count, [100 - 10 / 3, 40 + 10 / 3, 50 + 10 / 3])
    assert np.allclose(est.variance, [2 / 3, 2 / 3, 2 / 3])


@ENGINES
def test_two_unmeasured_siblings_share_the_remainder(engine: ModuleType) -> None:
    case = Case([-1, 0, 0, 0], [10.0, 4.0, np.nan, np.nan], [1.0, 1.0, np.inf, np.inf])
    count, variance = blue(engine, case)
    assert count.tolist() == [10.0, 4.0, 3.0, 3.0] and variance.tolist() == [1.0, 1.0, np.inf, np.inf]


@ENGINES
def test_a_tree_that_was_not_measured_knows_nothing(engine: ModuleType) -> None:
    count, variance = blue(engine, Case([-1, 0, 0], [np.nan] * 3, [np.inf] * 3))
    assert count.tolist() == [0.0] * 3 and (variance == np.inf).all()


BAD = {
    "nan": ([1.0, np.nan, 2.0], [1.0, 1.0, 1.0], "node 1 has nan"),
    "infinite": ([1.0, 1.0, np.inf], [1.0, 1.0, 1.0], "node 2 has inf"),
    "negative variance": ([1.0, 1.0, 1.0], [1.0, -2.0, 1.0], "node 1 has -2.0"),
    "minus infinite variance": ([1.0, 1.0, 1.0], [-np.inf, 1.0, 1.0], "node 0 has -inf"),
    "nan variance": ([1.0, 1.0, 1.0], [1.0, 1.0, np.nan], "node 2 has nan"),
    "contradiction": ([5.0, 1.0, 3.0], [0.0, 0.0, 0.0], "node 0 is 5, but below it are exactly 1 .node 1. . 3 .node 2"),
}


@ENGINES
@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("deep", [False, True], ids=["leaf level", "above it"])
def test_bad_figures_are_refused_by_name(engine: ModuleType, name: str, deep: bool) -> None:
    noisy, variance, message = BAD[name]
    parent = [-1, 0, 0]
    if deep:  # the same family once more, over a chain that reaches further down
        parent, noisy, variance = [*parent, -1, 3, 4], [*noisy, 1.0, 1.0, 1.0], [*variance, 1.0, 1.0, 1.0]
    with pytest.raises(ValueError, match=message):
        blue(engine, Case(parent, noisy, variance))


def test_a_contradiction_names_an_inner_node_too() -> None:
    with pytest.raises(ValueError, match="node 0 is 9, but below it are exactly 4"):
        denoise(Tree.from_parents([-1, 0, 1, 1]), [9, 7, 1, 3], [0, 1, 0, 0])


def test_exact_figures_that_agree_up_to_rounding_are_fine() -> None:
    assert denoise(Tree.from_parents([-1, 0, 0]), [0.3, 0.1, 0.2], [0, 0, 0]).count.tolist() == [0.3, 0.1, 0.2]


WRONG_CALLS = {
    "too few values": (([1.0], 1.0), "one noisy value for each of the 3 nodes"),
    "too many variances": (([1.0, 2.0, 3.0], [1.0] * 4), "one variance for each of the 3 nodes"),
    "text": ((["a", "b", "c"], 1.0), "noisy values are numbers"),
    "no variance": (([1.0, 2.0, 3.0], None), "needs the noise's variance"),
}


@pytest.mark.parametrize("name", WRONG_CALLS)
def test_wrong_calls(name: str) -> None:
    arguments, message = WRONG_CALLS[name]
    with pytest.raises(ValueError, match=message):
        denoise(Tree.from_parents([-1, 0, 0]), *arguments)


def test_unknown_options_are_refused() -> None:
    tree = Tree.from_parents([-1])
    with pytest.raises(ValueError, match='"top-down" or "joint"; got \'both\''):
        denoise(tree, [1], 1, nonnegative="both")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="shape is one of laplace, dlap, normal"):
        denoise(tree, [1], 1, shape="cauchy")  # type: ignore[arg-type]
    for more in ({"variance": 1}, {"shape": "normal"}):
        with pytest.raises(ValueError, match="measurements hold variance and shape"):
            denoise(tree, Measurements(np.ones(1), np.ones(1)), **more)  # type: ignore[arg-type]


def test_measurements_of_the_same_conversions_are_combined() -> None:
    tree = Tree.from_parents([-1, 0])
    first = Measurements(np.array([10.0, 7.0]), np.array([1.0, np.inf]))
    second = Measurements(np.array([16.0, 8.0]), np.array([2.0, 3.0]))
    both = first.again(second)
    assert np.allclose(both.noisy, [12.0, 8.0]) and np.allclose(both.variance, [2 / 3, 3.0])
    assert np.allclose(denoise(tree, both).count, (12 * 1.5 + 8 / 3) / (1.5 + 1 / 3))


def test_batches_of_different_conversions_add() -> None:
    batch = Measurements(np.array([10.0]), np.array([2.0]))
    assert batch.plus(batch).noisy == 20 and batch.plus(batch).variance == 4


def test_exact_measurements_that_differ_are_refused() -> None:
    with pytest.raises(ValueError, match="node 0 is both 1.0 and 2.0"):
        Measurements(np.array([1.0]), np.zeros(1)).again(Measurements(np.array([2.0]), np.zeros(1)))
    with pytest.raises(ValueError, match="go in pairs"):
        Measurements(np.zeros(2), np.zeros(3))


def test_the_package_calls_the_function() -> None:
    assert package_denoise is denoise


@ENGINES
@settings(max_examples=examples(100), deadline=None)
@given(case=cases(most=20, spread=4.0))
def test_leaves_alone_stay_as_they_are_to_the_last_digit(engine: ModuleType, case: Case) -> None:
    inner = {p for p in case.parent if p >= 0}
    leaf = np.array([v not in inner for v in range(len(case.parent))])
    variance = np.where(leaf, case.variance, np.inf)
    count, found = blue(engine, case._replace(variance=variance.tolist()))
    assert (count[leaf] == np.array(case.noisy)[leaf]).all()
    assert np.allclose(found[leaf], variance[leaf], rtol=1e-15)
