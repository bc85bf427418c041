"""Noise that nobody states: estimated from how far figures miss adding up, and carried into the intervals."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from scipy import linalg, stats

from attributary import Measurements, Tree, denoise, estimate_noise
from attributary.denoising.noise_level import LEAST
from attributary.denoising.quantile import quantile
from attributary.errors import InputError
from support.effort import examples


def forest(roots: int, depth: int, seed: int, low: int = 1, high: int = 9) -> Tree:
    """Families of many sizes, their nodes in any order."""
    rng = np.random.default_rng(seed)
    levels, start, size = [np.full(roots, -1)], 0, roots
    for _ in range(depth - 1):
        counts = rng.integers(low, high, size, endpoint=True)
        levels.append(np.repeat(np.arange(start, start + size), counts))
        start, size = start + size, len(levels[-1])
    parent, place = np.concatenate(levels), rng.permutation(start + size)
    shuffled = np.empty(len(parent), int)
    shuffled[place] = np.where(parent < 0, -1, place[parent])
    return Tree.from_parents(shuffled)


def figures(tree: Tree, std: np.ndarray, shape: str, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    truth = tree.roll_up(rng.integers(0, 100, len(tree.leaves))).astype(float)
    noise = rng.normal(0, 1, len(tree)) if shape == "normal" else rng.laplace(0, 0.5**0.5, len(tree))
    return truth, truth + tree.by_level(std) * noise


def contrasts(tree: Tree) -> np.ndarray:
    """An orthonormal base of what does not depend on the true counts."""
    leaf = np.flatnonzero(tree.is_leaf)
    sums = np.zeros((len(tree), len(leaf)))
    for column, v in enumerate(leaf):
        u = int(v)
        while u >= 0:
            sums[u, column] = 1.0
            u = int(tree.parent[u])
    return linalg.null_space(sums.T)


@settings(max_examples=examples(20), deadline=None)
@given(seed=st.integers(0, 10**6), extra=st.sampled_from([0.0, 2.0]), holes=st.booleans())
def test_it_is_residual_maximum_likelihood(seed: int, extra: float, holes: bool) -> None:
    tree, rng = forest(70, 3, seed, high=2), np.random.default_rng(seed)
    _, x = figures(tree, np.array([3.0, 3.0, 3.0]), "normal", rng)
    if holes:
        x[tree.leaves[:3]] = np.nan
    try:
        level = estimate_noise(tree, x, shape="normal", per="1,2,2", extra=extra)
    except ValueError as error:  # chance made one level's noise hard to see
        assert "cannot be separated" in str(error)  # noqa: PT017
        reject()
    known = np.isfinite(x)
    base = contrasts(tree)
    base = base @ linalg.null_space(base[~known]) if holes else base  # those that need no figure not measured
    base, x, upper = base[known], x[known], tree.level[known] == 0

    def dense(theta: np.ndarray) -> tuple[float, np.ndarray]:
        inner = base.T @ (np.where(upper, *theta)[:, None] * base + extra * base)
        whitened = base @ np.linalg.inv(inner) @ base.T  # P
        score = -np.linalg.slogdet(inner)[1] / 2 - x @ whitened @ x / 2
        parts = [np.diag(np.where(upper == first, 1.0, 0.0)) for first in (True, False)]
        return score, np.array([[np.trace(whitened @ a @ whitened @ b) / 2 for b in parts] for a in parts])

    best, information = dense(level.variance)
    for move in ([1.01, 1], [0.99, 1], [1, 1.01], [1, 0.99]):
        assert dense(level.variance * move)[0] < best
    np.testing.assert_allclose(level.error, np.sqrt(np.diag(np.linalg.inv(information))), rtol=1e-3)


@pytest.mark.parametrize("shape", ["normal", "laplace", "dlap"])
def test_one_level_for_all_is_the_residual_mean_square(shape: str) -> None:
    tree, rng = forest(20, 3, 1), np.random.default_rng(1)
    _, x = figures(tree, np.full(3, 4.0), "laplace", rng)
    level, fit = estimate_noise(tree, x, shape=shape), denoise(tree, x, 1.0).fit
    assert level.variance == pytest.approx([fit.q / fit.df])
    stated = denoise(tree, x, level.variance[0], shape=shape)
    # How certain it is: z of a fit with the variance that was estimated knows the tails, too.
    q, df, _ = stated.fit
    assert q == pytest.approx(df) and level.checks == pytest.approx(df)
    spare = 1 - stated.variance / level.variance[0]
    tails = np.sum(stated.measurements.excess() * spare**2)
    assert level.error[0] / level.variance[0] == pytest.approx(np.sqrt(2 * df + tails) / df, rel=1e-4)
    low, high = (denoise(level.measurements).interval(0.95)[i] for i in (0, 1))
    assert (high - low > np.subtract(*stated.interval(0.95)[::-1])).all()


def trial(shape: str, per: str, std: list[float], roots: int, trees: int) -> tuple[np.ndarray, np.ndarray]:
    """The error of estimated scales in standard errors, and the coverage of the intervals, by tree."""
    off, covered = [], []
    for seed in range(trees):
        tree, rng = forest(roots, len(std), seed), np.random.default_rng(seed)
        truth, x = figures(tree, np.array(std), shape, rng)
        level = estimate_noise(tree, x, shape=shape, per=per)
        true = np.array([s**2 for s in dict.fromkeys(std)])
        off.append((level.variance - true) / (true * level.error / level.variance))
        low, high = denoise(level.measurements).interval(0.95)
        covered.append(np.mean((low <= truth) & (truth <= high)))
    return np.array(off), np.array(covered)


CASES = [("all", [3.0, 3.0, 3.0], 3), ("all", [3.0, 3.0, 3.0], 30), ("level", [6.0, 3.0, 1.5], 300)]


@pytest.mark.parametrize("shape", ["normal", "laplace"])
@pytest.mark.parametrize(("per", "std", "roots"), CASES[1:])
def test_scales_and_coverage_on_a_few_trees(shape: str, per: str, std: list[float], roots: int) -> None:
    off, covered = trial(shape, per, std, roots, 12 if per == "all" else 3)
    assert np.abs(off).max() < 4 and 0.93 < covered.mean() < 0.97


@pytest.mark.sweep
@pytest.mark.parametrize("shape", ["normal", "laplace"])
@pytest.mark.parametrize(("per", "std", "roots"), CASES)
def test_scales_and_coverage_on_200_trees(shape: str, per: str, std: list[float], roots: int) -> None:
    off, covered = trial(shape, per, std, max(roots, 8), 200)
    assert (np.abs(off.mean(axis=0)) < 3 / np.sqrt(200)).all()
    assert (np.abs(off) < 3).mean() > 0.98 and (0.8 < off.std(axis=0)).all() and (off.std(axis=0) < 1.25).all()
    assert 0.93 < covered.mean() < 0.97


@pytest.mark.parametrize("level", [0.8, 0.95, 0.99])
@pytest.mark.parametrize("freedom", [LEAST, 12, 40, 1e9])
def test_wider_quantiles_are_about_students(level: float, freedom: float) -> None:
    student = stats.t.ppf(0.5 + level / 2, freedom)
    assert quantile(level, np.array([0.0]), freedom)[0] == pytest.approx(student, rel=0.03 if level < 0.99 else 0.06)


def test_a_table_carries_it_into_intervals_totals_and_frames() -> None:
    tree, rng = forest(20, 3, 5), np.random.default_rng(5)
    _, x = figures(tree, np.full(3, 4.0), "laplace", rng)
    labels = {f"l{i}": [path[i] if i < len(path) else None for path in _paths(tree)] for i in range(3)}
    frame: dict[str, Any] = labels | {"x": x, "y": 2 * x}
    est = denoise(Measurements.from_table(frame, ["l0", "l1", "l2"], ["x", "y"], noise="estimated:shape=laplace"))
    level = estimate_noise(tree, x)
    for j, times in ((0, 1.0), (1, 2.0)):
        np.testing.assert_allclose(est.column(j).measurements.variance, times**2 * level.variance[0], rtol=1e-9)
        np.testing.assert_allclose(est.interval().low[:, j], times * denoise(level.measurements).interval().low)
    one, again = denoise(level.measurements), level.measurements.again(level.measurements)
    total, stated = one.total([0, 1]), denoise(tree, x, level.variance[0]).total([0, 1])
    assert total.interval()[0] < stated.interval()[0] and total.variance == pytest.approx(stated.variance)
    assert again.freedom is not None and (again.freedom == level.measurements.freedom).all()
    assert level.words[0].startswith("noise of all levels: standard deviation 4.0")


def _paths(tree: Tree) -> list[list[str]]:
    paths = []
    for v in range(len(tree)):
        path, u = [], v
        while u >= 0:
            path.append(f"n{u}")
            u = int(tree.parent[u])
        paths.append(path[::-1])
    return paths


@pytest.mark.parametrize(("stores", "shape"), [(7, "laplace"), (9, "laplace"), (8, "normal")])
def test_intervals_hold_with_few_checks(stores: int, shape: str) -> None:
    """A ROLLUP of a few stores by 14 days, the total left out."""
    tree = Tree.from_parents([-1] * stores + [store for store in range(stores) for _ in range(14)])
    held = []
    for seed in range(200):
        rng = np.random.default_rng([seed, stores])
        leaves = rng.poisson(50, 14 * stores)
        truth = np.append(leaves.reshape(stores, 14).sum(1), leaves)
        noise = rng.laplace(0, 4, len(truth)) if shape == "laplace" else rng.normal(0, 5.6, len(truth))
        low, high = denoise(estimate_noise(tree, truth + noise, shape=shape).measurements).interval()
        held.append(np.mean((low <= truth) & (truth <= high)))
    assert 0.93 <= np.mean(held) <= 0.975


def test_what_cannot_be_estimated_is_refused_with_its_reason() -> None:
    star, x = Tree.from_parents([-1, 0, 0]), np.array([9.0, 4.0, 4.0])
    with pytest.raises(ValueError, match=r"from 1 figures measured twice; .* about 6 are needed: add rows of totals"):
        estimate_noise(star, x, shape="normal")
    with pytest.raises(ValueError, match="about [89] are needed"):
        estimate_noise(star, x)
    with pytest.raises(ValueError, match="no figure is measured twice"):
        estimate_noise(star, [np.nan, 4, 4])
    with pytest.raises(ValueError, match="add up exactly"):
        estimate_noise(star, [8, 4, 4])
    with pytest.raises(ValueError, match=r"figures up to 1e\+100; got 1e\+308"):
        estimate_noise(star, [1e308, 4, 4])
    with pytest.raises(ValueError, match="got shape"):
        estimate_noise(star, [8, 4])
    with pytest.raises(ValueError, match=r"a name for each of the 2 levels .* got 'weekly'"):
        estimate_noise(star, x, per="weekly")
    same = forest(400, 2, 1, low=5, high=5)  # only σ₀² + 5·σ₁² is seen, however many families there are
    _, x = figures(same, np.array([5.0, 2.0]), "normal", np.random.default_rng(1))
    with pytest.raises(ValueError, match="the noise of level 0 and of level 1 cannot be separated"):
        estimate_noise(same, x, per="level")
    with pytest.raises(InputError, match=r"estimated:\[per=all\]\[,shape=laplace\]; .* 'scale' is not one"):
        Measurements.from_table({"a": ["x"], "v": [1.0]}, ["a"], "v", noise="estimated:scale=3")


def test_how_it_is_asked_for() -> None:
    frame = {"a": ["x"], "v": [1.0]}
    with pytest.raises(InputError, match="estimated:per=level gives each level its own"):
        Measurements.from_table(frame, ["a"], "v", noise="a=estimated; b=laplace:scale=3")
    with pytest.raises(InputError, match="an interval says all of the noise"):
        Measurements.from_table(frame, ["a"], "v", noise="estimated:interval=l,h@0.9,two-sided")
    with pytest.raises(InputError, match="one of laplace, dlap, normal, laplace-twice, dlap-twice; got 'round'"):
        Measurements.from_table(frame, ["a"], "v", noise="estimated:shape=round")


def unlike(std: list[float], shape: str, draws: int) -> float:
    """How often levels are taken to differ in their noise."""
    tree, rng = forest(6, 4, 1, low=4, high=7), np.random.default_rng(4)
    levels = [estimate_noise(tree, figures(tree, np.array(std), shape, rng)[1], shape=shape) for _ in range(draws)]
    assert all(f"{level.unlike}: the intervals do not" in level.words[-1] for level in levels if level.unlike)
    assert all("noise of level 0" in level.words[-1] for level in levels if not level.unlike)  # 6 checks are too few
    return float(np.mean([level.unlike != "" for level in levels]))


@pytest.mark.parametrize("shape", ["normal", "laplace"])
def test_levels_whose_noise_differs_are_told_and_others_are_not(shape: str) -> None:
    assert unlike([8.0] * 4, shape, 40) <= 0.05
    assert min(unlike([30.0, 8.0, 8.0, 3.0], shape, 10), unlike([3.0, 8.0, 8.0, 30.0], shape, 10)) >= 0.9


def test_tables_whose_levels_differ_in_their_noise_are_refused_unless_they_are_said_to_be_alike() -> None:
    tree, rng = forest(6, 4, 1, low=4, high=7), np.random.default_rng(4)
    _, x = figures(tree, np.array([30.0, 8.0, 8.0, 3.0]), "laplace", rng)
    frame = {f"l{i}": [path[i] if i < len(path) else None for path in _paths(tree)] for i in range(4)} | {"x": x}
    with pytest.raises(InputError, match="figures of l0 miss their sums .* times as far .*estimated:per=level"):
        Measurements.from_table(frame, None, "x", noise="estimated")
    assert len(Measurements.from_table(frame, None, "x", noise="estimated:per=all").noisy) == len(tree)


def test_too_few_checks_to_compare_levels_are_said() -> None:
    tree, rng = forest(20, 2, 1), np.random.default_rng(1)
    level = estimate_noise(tree, figures(tree, np.array([30.0, 8.0]), "normal", rng)[1], shape="normal")
    assert level.unlike == "" and "too few checks to compare the noise of level 0 with that" in level.words[-1]


def test_a_mangled_figure_does_not_make_the_noise_look_larger() -> None:
    tree, rng = forest(30, 3, 8), np.random.default_rng(8)
    _, x = figures(tree, np.full(3, 4.0), "laplace", rng)
    plain = estimate_noise(tree, x)
    x[tree.leaves[5]] += 700
    level = estimate_noise(tree, x)
    assert 0 < level.left_out < 0.1 * len(tree) and "implausible" in level.words[0]
    assert level.variance == pytest.approx(plain.variance, rel=0.2)
    assert np.nanargmax(np.abs(denoise(level.measurements).correction)) in {
        tree.leaves[5],
        *np.flatnonzero(tree.parent == tree.parent[tree.leaves[5]]),
        tree.parent[tree.leaves[5]],
    }
