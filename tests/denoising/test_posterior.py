"""The posterior over whole counts: against enumeration, and its laws."""

from collections.abc import Callable
from math import lgamma
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from attributary import Measurements, Tree
from attributary.denoising.posterior import family_weights, marginals, moments, whole_figures
from attributary.errors import InputError
from attributary.noise import model, shape_of
from attributary.types import Floats
from support.effort import examples
from support.forests import NAMED, grown, parents

SHAPES = ("laplace", "dlap", "normal")
FREE = -0.05  # logarithm of the roots' tilt
MOST = 18  # conversions of a leaf


class Enumerated(NamedTuple):
    """All counts of a forest that are possible, in the tree's order, and how probable they are."""

    counts: Floats
    chance: Floats

    def mean(self, values: Floats) -> Floats:
        found: Floats = self.chance @ values
        return found


Law = Callable[[int, Floats], Floats]


def by_shape(measured: Measurements) -> Law:
    """The log-likelihood of noise at a node, by the page of its shape."""
    code = np.zeros(len(measured.noisy), int) if measured.code is None else measured.code
    return lambda u, noise: measured.shapes[code[u]].log_likelihood(noise, np.full(len(noise), measured.variance[u]))


def enumerated(measured: Measurements, alpha: Floats, most: int, law: Law) -> Enumerated:
    """The posterior by its definition: every combination of counts of leaves up to `most`."""
    tree = measured.tree
    assert tree is not None
    leaves = tree.leaves
    grid = np.indices((most + 1,) * len(leaves)).reshape(len(leaves), -1).T
    each = np.zeros((len(grid), len(tree)))
    each[:, leaves] = grid
    counts = tree.sum_up(each.T).T
    log = np.zeros(len(grid))
    for u in range(len(tree)):
        children = np.flatnonzero(tree.parent == u)
        log += _weight(counts[:, u], alpha[u])
        if tree.parent[u] < 0:
            log += FREE * counts[:, u]
        if len(children):
            log -= _weight(counts[:, u], alpha[children].sum())
        noise, variance = measured.noisy[u] - counts[:, u], measured.variance[u]
        if variance == 0:
            log[noise != 0] = -np.inf
        elif variance < np.inf:
            log += law(u, noise)
    chance = np.exp(log - log.max())
    return Enumerated(counts, chance / chance.sum())


def _weight(c: Floats, alpha: float) -> Floats:
    table = [lgamma(k + alpha) - lgamma(alpha) - lgamma(k + 1) for k in range(int(c.max()) + 1)]
    found: Floats = np.array(table)[c.astype(int)]
    return found


@st.composite
def tiny(draw: st.DrawFn) -> tuple[Measurements, Floats]:
    """A forest of few leaves with figures near small counts, some exact and some not measured, and α of each node.

    Each node has noise of a shape of its own.
    """
    tree = Tree.from_parents(draw(parents(7).filter(lambda p: len(p) - len(set(p) - {-1}) <= 3)))
    code = np.array([draw(st.integers(0, len(SHAPES) - 1)) for _ in range(len(tree))], np.uint8)
    leaf = {v: draw(st.integers(0, 3)) for v in tree.leaves.tolist()}
    truth = tree.roll_up(np.array([float(leaf[v]) for v in sorted(leaf)]))
    variance = np.array([draw(st.sampled_from([0.05, 0.3, 0.6, np.inf, 0.0])) for _ in range(len(tree))])
    variance[tree.roots] = np.where(np.isinf(variance[tree.roots]), 0.6, variance[tree.roots])
    noise = np.array([draw(st.integers(-2, 2) if SHAPES[i] == "dlap" else st.floats(-2, 2)) for i in code])
    noisy = truth + np.where((variance > 0) & (variance < np.inf), noise, 0.0)
    alpha = np.array([10 ** draw(st.floats(-2, 0.6)) for _ in range(len(tree))])
    return Measurements.of(tree, noisy, variance, SHAPES, code=code), alpha


@settings(max_examples=examples(60), deadline=None)
@given(tiny(), st.data())
def test_the_posterior_is_that_of_enumeration(case: tuple[Measurements, Floats], data: st.DataObject) -> None:
    measured, alpha = case
    tree = measured.tree
    assert tree is not None
    order = tree.to_level_order
    figures, weights = whole_figures(tree, measured, reach=25), family_weights(tree, order(alpha), FREE)
    told = marginals(tree, figures, weights, 0.8)
    truth = enumerated(measured, alpha, MOST, by_shape(measured))
    close = 1e-5  # what lies beyond MOST, and beyond 25 standard deviations
    mean = truth.mean(truth.counts)
    assert told.mean == pytest.approx(order(mean), abs=close)
    assert told.variance == pytest.approx(order(truth.mean((truth.counts - mean) ** 2)), abs=10 * close)
    assert told.zero == pytest.approx(order(truth.mean(truth.counts == 0)), abs=close)
    assert (order(truth.mean(truth.counts < tree.from_level_order(told.low))) <= 0.1 + close).all()
    assert (order(truth.mean(truth.counts <= tree.from_level_order(told.low))) > 0.1 - close).all()
    left = 0.2 - truth.mean(truth.counts < tree.from_level_order(told.low))
    high = tree.from_level_order(told.high)
    assert (truth.mean(truth.counts > high) <= left + close).all()
    assert ((truth.mean(truth.counts >= high) > left - close) | (high == tree.from_level_order(told.low))).all()

    factors = np.array([data.draw(st.sampled_from([0.0, 0.0, 1.0, -2.5])) for _ in range(len(tree))])
    centre, total = np.array([data.draw(st.floats(0, 3)) for _ in range(len(tree))]), truth.counts @ factors
    first, second = moments(tree, figures, weights, order(factors), order(centre))
    assert first.sum() == pytest.approx(truth.mean(total) - centre @ factors, abs=30 * close)
    assert second.sum() == pytest.approx(truth.mean((total - truth.mean(total)) ** 2), abs=300 * close)


@settings(max_examples=examples(30), deadline=None)
@given(tiny(), st.data())
def test_noise_of_the_api_on_uneven_contributions_is_that_of_enumeration(
    case: tuple[Measurements, Floats], data: st.DataObject
) -> None:
    """Whole noise on scaled sums by its exact law; some nodes have no budget, and some are known exactly."""
    measured, alpha = case
    tree, page = measured.tree, model("api", 16.0, 65536)
    assert tree is not None
    budget = np.array([data.draw(st.sampled_from([2.0, 3.5, 9.0, 0.0])) for _ in range(len(tree))])
    budget[tree.roots] = np.maximum(budget[tree.roots], 2.0)
    exact = measured.variance == 0
    steps, variance = page.steps(budget), np.where(exact, 0.0, page.variance(budget))
    some = np.where(exact | (budget == 0), 0, [data.draw(st.integers(-20_000, 20_000)) for _ in budget])
    noisy = np.rint(measured.noisy) + some / np.where(steps > 0, steps, 1.0)
    try:
        figures = whole_figures(tree, Measurements.of(tree, noisy, variance, page.shape.name), reach=25)
    except ValueError:  # exact figures at odds with each other
        reject()

    def law(u: int, noise: Floats) -> Floats:
        return page.log_likelihood(np.rint(noise * steps[u]), np.full(len(noise), budget[u]))

    truth = enumerated(Measurements.of(tree, noisy, variance), alpha, MOST, law)
    told = marginals(tree, figures, family_weights(tree, tree.to_level_order(alpha), FREE))
    mean = truth.mean(truth.counts)
    assert told.mean == pytest.approx(tree.to_level_order(mean), abs=1e-4)
    assert told.variance == pytest.approx(tree.to_level_order(truth.mean((truth.counts - mean) ** 2)), abs=1e-3)


@pytest.mark.parametrize("kappa", [0.01, 1.0, 1e3, 1e6])
@pytest.mark.parametrize("size", [0, 30, 10_000_000])
@pytest.mark.parametrize("noise", [0.3, 5.0, 60.0])
def test_nothing_overflows_and_means_add_up(kappa: float, size: int, noise: float) -> None:
    tree, rng = grown(60, 1), np.random.default_rng(3)
    share = rng.dirichlet(np.ones(len(tree.leaves)))
    truth = tree.roll_up(rng.multinomial(size, share).astype(float))
    measured = Measurements.of(tree, truth + rng.laplace(0, noise, len(tree)), 2 * noise**2)
    expected = tree.roll_up(share)
    alpha = np.maximum(kappa * expected / np.append(1.0, expected[tree.parent[1:]]), 1e-9)
    told = marginals(tree, whole_figures(tree, measured), family_weights(tree, alpha, -1e-7))
    assert np.isfinite(np.stack(told)[:5]).all()
    assert tree.roll_up(told.mean[tree.is_leaf]) == pytest.approx(told.mean, rel=1e-9, abs=1e-6)
    assert ((told.low <= told.high) & (told.low >= 0) & (told.variance >= 0)).all()
    assert ((told.zero >= 0) & (told.zero <= 1)).all()


def test_figures_that_the_prior_rules_out_leave_a_root_out() -> None:
    tree, rng = grown(60, 1), np.random.default_rng(3)
    truth = tree.roll_up(rng.multinomial(10**7, rng.dirichlet(np.ones(len(tree.leaves)))).astype(float))
    measured = Measurements.of(tree, truth + rng.laplace(0, 60, len(tree)), 7200)
    alpha = 1e6 * rng.uniform(0.01, 1, len(tree))
    assert np.isnan(marginals(tree, whole_figures(tree, measured), family_weights(tree, alpha, -1e-7)).mean).all()


@pytest.mark.parametrize("name", NAMED)
def test_roots_of_which_nothing_is_known_are_left_out(name: str) -> None:
    tree = Tree.from_parents([*NAMED[name], -1])
    known = np.append(np.ones(len(tree) - 1), np.inf)
    figures = whole_figures(tree, Measurements.of(tree, np.full(len(tree), 3.0), known))
    count = tree.from_level_order(marginals(tree, figures, family_weights(tree, np.ones(len(tree)), FREE)).mean)
    assert np.isnan(count[-1]) and np.isfinite(count[:-1]).all()


def test_a_draw_from_the_prior_is_where_the_posterior_says() -> None:
    """Counts drawn from the model itself, by another way than convolutions: errors are as large as stated."""
    tree, rng, z, inside, brier = grown(400, 5), np.random.default_rng(7), [], [], []
    roots, alpha = int(tree.first[0]), np.random.default_rng(1).uniform(0.05, 3, len(tree))
    for _ in range(30):
        truth = np.zeros(len(tree))
        truth[:roots] = rng.poisson(rng.gamma(alpha[:roots]) * 40)
        for p in range(int(tree.offsets[-2])):
            children = slice(int(tree.first[p]), int(tree.first[p + 1]))
            if children.stop > children.start:
                share = rng.gamma(alpha[children]) + 1e-300
                truth[children] = rng.multinomial(int(truth[p]), share / share.sum())
        variance = rng.choice([0.5, 4.0, 30.0], len(tree))
        measured = Measurements.of(tree, truth + rng.laplace(0, np.sqrt(variance / 2)), variance)
        weights = family_weights(tree, alpha, float(np.log(40 / 41)))
        told = marginals(tree, whole_figures(tree, measured), weights)
        z.append(((told.mean - truth) ** 2).sum() - told.variance.sum())
        brier.append((told.zero - (truth == 0)).sum())
        inside.append(((told.low <= truth) & (truth <= told.high)).mean())
    for sums in (z, brier):
        assert abs(np.mean(sums)) < 3.5 * np.std(sums) / np.sqrt(len(sums))
    assert np.mean(inside) > 0.945


def test_exact_figures_are_whole() -> None:
    tree = Tree.from_parents([-1, 0, 0])
    with pytest.raises(InputError, match=r"whole counts; node 2 is exactly 2\.5"):
        whole_figures(tree, Measurements.of(tree, [5.0, 2.5, 2.5], [1.0, 1.0, 0.0]))


def test_noise_of_another_law_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from dataclasses import replace

    from attributary import noise

    cubic = replace(shape_of("normal"), name="cubic", log_likelihood=lambda x, v: -(np.abs(x / np.sqrt(v)) ** 3))
    monkeypatch.setitem(noise.SHAPES, "cubic", cubic)
    tree = Tree.from_parents([-1])
    with pytest.raises(InputError, match="got cubic: choose another estimator"):
        whole_figures(tree, Measurements.of(tree, [5.0], [1.0], "cubic"))
