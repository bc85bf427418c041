"""Posterior means as users have them: denoise(posterior=True), --estimator posterior."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from attributary import Measurements, Prior, Tree, denoise
from attributary.denoising.posterior import Posterior
from attributary.estimates import Estimates, estimates_table
from attributary.estimators import Estimator
from attributary.prior.whole_counts import bases, learn_weights
from attributary.read_estimates import read_estimates
from attributary.types import Floats
from support.effort import examples
from support.forests import NAMED, Case, cases


class Forest:
    """Roots that are shared out alike by labels, as Dirichlet-multinomial families."""

    fans = (30, 6, 5)

    def __init__(self, seed: int, kappa: float = 30.0) -> None:
        self.rng = np.random.default_rng(seed)
        labels = np.indices(self.fans).reshape(len(self.fans), -1).astype(str)
        self.tree = Tree.from_paths(dict(zip("abc", labels.tolist(), strict=True)), ["a", "b", "c"], fill=True)
        below = self.rng.negative_binomial(1, 1 / 150, self.fans[0])
        counts = [below]
        for fan in self.fans[1:]:
            share = self.rng.dirichlet(kappa * self.rng.dirichlet(np.ones(fan)) + 1e-3, len(below))
            below = self.rng.multinomial(below, share).ravel()
            counts.append(below)
        self.truth = self.tree.from_level_order(np.concatenate(counts).astype(float))

    def measured(self, scale: float) -> Measurements:
        noise = self.rng.laplace(0, scale, len(self.tree))
        return Measurements.of(self.tree, self.truth + noise, 2 * scale**2)


def error(count: Floats, forest: Forest) -> float:
    off = (count - forest.truth) / np.maximum(forest.truth, 5)
    return float(np.sqrt(np.mean(off**2)))


@pytest.mark.parametrize("scale", [0.3, 3.0, 12.0])
def test_posterior_means_are_closer_than_non_negative_and_learned_estimates(scale: float) -> None:
    forest = Forest(1)
    measured = forest.measured(scale)
    est = denoise(measured, posterior=True)
    assert isinstance(est, Posterior) and est.shown.all()
    near, learned = denoise(measured, nonnegative=True), Estimator("learned").denoise(forest.tree, measured)
    assert error(est.count, forest) < 0.9 * error(near.count, forest)
    assert error(est.count, forest) < 0.97 * error(learned.count, forest)
    low, high = est.interval()
    assert 0.94 < np.mean((low <= forest.truth) & (forest.truth <= high)) < 0.995


def test_an_earlier_period_helps_and_a_shuffled_one_does_no_harm() -> None:
    forest = Forest(2)
    measured, leaf = forest.measured(6.0), forest.tree.is_leaf
    leaves = forest.truth[leaf]
    none, right, wrong = (
        error(denoise(measured, posterior=True, prior=prior).count, forest)
        for prior in (None, *(earlier(forest.tree, past) for past in (leaves, forest.rng.permutation(leaves))))
    )
    assert right < 0.7 * none
    assert wrong < 1.05 * none


def earlier(tree: Tree, leaves: Floats) -> Prior:
    return Prior(tree.roll_up(leaves), new=np.zeros(len(tree), bool))


def test_weights_are_those_that_counts_were_drawn_with() -> None:
    from attributary.denoising.posterior import whole_figures

    found = []
    for kappa in (3.0, 100.0):
        forest = Forest(3, kappa)
        tree, share = forest.tree, np.zeros(len(forest.tree))
        order, labels = tree.to_level_order, [tree.labels[i].indices.to_numpy() for i in range(3)]
        truth = order(forest.truth)
        for level in (1, 2):
            sums = np.bincount(labels[level], truth[tree.slice(level)])
            share[tree.slice(level)] = (sums / sums.sum())[labels[level]]
        weights = learn_weights(tree, whole_figures(tree, forest.measured(1.0)), bases(tree, share, None))
        found.append(float(np.median(weights.total[tree.slice(1)])))
    assert 1.5 < found[0] < 8 and 40 < found[1] < 300


@settings(max_examples=examples(40), deadline=None)
@given(cases(spread=2.0, special=(np.inf, 0.0)), st.floats(0.5, 0.99))
def test_laws_on_awkward_forests(case: Case, level: float) -> None:
    tree, variance = case.tree, np.array(case.variance)
    noisy = np.where(variance < np.inf, np.round(case.noisy), 0.0)
    try:
        near = denoise(tree, noisy, variance, nonnegative=True)
    except ValueError:  # exact figures at odds with each other
        reject()
    est = denoise(tree, noisy, variance, posterior=True)
    scale = max(1.0, float(np.abs(est.count).max()))
    assert tree.roll_up(np.asarray(est.count)[tree.is_leaf]) == pytest.approx(est.count, abs=1e-6 * scale)
    assert (est.count >= 0).all() and (est.variance >= 0).all()
    low, high = est.interval(level)
    assert (low <= est.count).all() and (est.count <= high).all()
    assert isinstance(est, Posterior)
    assert ((est.zero >= 0) & (est.zero <= 1) | ~est.shown).all()
    assert np.where(est.shown, 0.0, est.count - near.count) == pytest.approx(0.0)
    exact = variance == 0
    assert np.asarray(est.count)[exact] == pytest.approx(noisy[exact], abs=1e-6)
    for node in range(len(tree)):
        assert est.total([node]).variance == pytest.approx(est.variance[node], rel=1e-6, abs=1e-6)


def test_totals_have_the_posterior_s_variance() -> None:
    """Children sum to their parent: so do their counts, and the variance of their sum is the parent's."""
    est = denoise(Forest(4).measured(5.0), posterior=True)
    for parent in est.tree.roots[:5].tolist():
        total = est.total(est.tree.parent == parent)
        assert total.count == pytest.approx(est.count[parent])
        assert total.variance == pytest.approx(est.variance[parent], rel=1e-6)
        low, high = total.interval()
        assert low <= total.count <= high


@pytest.mark.parametrize("name", NAMED)
def test_whole_posterior_counts_add_up(name: str) -> None:
    tree = Tree.from_parents(NAMED[name])
    est = denoise(tree, np.arange(len(tree)) * 1.7, 4.0, posterior=True, whole=True)
    assert est.count.dtype == np.int64
    assert (tree.roll_up(est.count[tree.is_leaf]) == est.count).all()


def test_the_table_has_the_probability_of_zero() -> None:
    est = denoise(Forest(5).measured(5.0), posterior=True)
    table = estimates_table(est)
    assert table.column_names[-2:] == ["from_prior", "zero_probability"]
    read, made = read_estimates(table, "t.parquet"), Estimates.of(est)
    for again in (read, made):
        assert again.zero_probability == pytest.approx(est.tree.to_level_order(est.zero))
        assert again.fit is not None and again.fit.z == pytest.approx(est.fit.z)


def test_what_is_shown_is_said() -> None:
    forest = Forest(6)
    measured = forest.measured(5.0)
    assert denoise(measured, posterior=True).remark == "posterior means of whole counts"
    rng, tree = np.random.default_rng(0), Tree.from_parents([-1] * 61)
    noisy = rng.poisson(2, 61) + rng.laplace(0, 3, 61)
    some = denoise(tree, noisy, [18.0] * 60 + [np.inf], posterior=True)
    assert some.remark == "posterior means for 60 of 61 roots, and non-negative estimates where noise is too large"
    assert isinstance(some, Posterior) and np.isnan(some.zero).tolist() == [False] * 60 + [True]
    assert "posterior means of whole counts" in denoise(measured, posterior=True)._repr_html_()
    few = denoise(
        tree, np.where(np.arange(61) < 1, 5.0, 0.0), [1.0] + [np.inf] * 60, posterior=True
    )  # none to learn by
    assert few.remark == "non-negative estimates, not posterior means: they seem to be closer, judging by these figures"


def test_top_down_estimates_are_shown_where_they_seem_closer(monkeypatch: pytest.MonkeyPatch) -> None:
    measured = Forest(7).measured(5.0)
    monkeypatch.setattr("attributary.prior.whole_counts.worse", lambda *_: True)
    est, near = denoise(measured, posterior=True), denoise(measured, nonnegative=True)
    assert (est.count == near.count).all() and (est.variance == near.variance).all()
    assert (np.stack(est.interval()) == np.stack(near.interval())).all()
    assert est.remark.startswith("non-negative estimates, not posterior means")
    assert est.from_prior.max() == 0 and est.total([0, 1]) == near.total([0, 1])


def test_what_does_not_go_together_is_refused() -> None:
    measured = Forest(8).measured(5.0)
    tree = measured.tree
    assert tree is not None
    with pytest.raises(ValueError, match="never negative; leave out"):
        denoise(measured, posterior=True, nonnegative="joint")
    share = Prior(np.zeros(len(tree)), share=np.ones(len(tree)), spread=np.ones(len(tree)))
    with pytest.raises(ValueError, match="shares are learned here"):
        denoise(measured, posterior=True, prior=share)
    with pytest.raises(ValueError, match="one column"):
        denoise(tree, np.zeros((len(tree), 2)), np.ones((len(tree), 2)), posterior=True)


def test_values_are_estimated_by_another_estimator() -> None:
    assert Estimator("posterior", whole=True).for_values == Estimator("learned")
    assert Estimator("nonnegative", joint=True, whole=True).for_values == Estimator("nonnegative", joint=True)


def test_what_an_earlier_period_gives_away_is_marked() -> None:
    forest = Forest(9)
    past = Prior(forest.truth, new=np.zeros(len(forest.tree), bool), not_private="exact counts")
    assert denoise(forest.measured(5.0), posterior=True, prior=past).not_private == "exact counts"


def test_how_far_it_has_come_is_told() -> None:
    said: list[str] = []
    Estimator("posterior").denoise(Forest(1).tree, Forest(1).measured(3.0), stage=said.append)
    assert said[0] == "learning how families share" and said[-1] == "weighing whole counts, 100% of the nodes"
    shares = [int(words.split(", ")[1].split("%")[0]) for words in said[1:]]
    assert shares == sorted(shares) and len(shares) > 3


@pytest.mark.parametrize("shape", ["laplace", "normal"])
@pytest.mark.parametrize(("roots", "fan", "mean"), [(1, 2000, 0.3), (30, 300, 0.3), (30, 100, 2.0)])
def test_posterior_means_are_shown_where_they_are_closer_in_large_sparse_families(
    shape: str, roots: int, fan: int, mean: float
) -> None:
    rng = np.random.default_rng(5)
    parent = np.repeat(np.arange(roots), fan)
    tree = Tree.from_parents([*[-1] * roots, *parent.tolist()])
    leaves = rng.poisson(rng.gamma(0.3, mean / 0.3, len(parent))).astype(float)
    truth = np.append(np.bincount(parent, leaves), leaves)
    noise = rng.laplace(0, 3, len(tree)) if shape == "laplace" else rng.normal(0, np.sqrt(18), len(tree))
    est = denoise(tree, truth + noise, 18.0, shape=shape, posterior=True)
    near = denoise(tree, truth + noise, 18.0, shape=shape, nonnegative=True)
    assert est.remark == "posterior means of whole counts"
    assert np.square(est.count - truth).mean() < 0.9 * np.square(near.count - truth).mean()


def test_means_that_are_far_from_the_figures_are_seen_to_be_worse() -> None:
    from attributary.prior.gain import Today, worse

    forest = Forest(3)
    est = denoise(forest.measured(3.0), posterior=True)
    assert isinstance(est, Posterior)
    figures = est.figures
    today = Today(forest.tree, figures.x, np.full(len(forest.tree), 18.0), figures.blue, figures.wide)
    wrong = np.array(est.told.mean)
    leaves = forest.tree.slice(2)
    wrong[leaves] = forest.rng.permutation(wrong[leaves])
    for count, expected in ((est.told.mean, False), (wrong, True)):
        assert worse(today, count, est.told.variance, 5.0, figures.linear) == expected


def test_intervals_cover_where_families_share_otherwise_than_learned() -> None:
    """Half of the roots are concentrated in a few leaves, the others spread evenly; the roots' figures say little."""
    inside: dict[int, list[Floats]] = {0: [], 1: [], 2: []}
    for seed in range(3):
        rng, fans = np.random.default_rng(seed), (150, 5, 8)
        labels = np.indices(fans).reshape(3, -1).astype(str)
        tree = Tree.from_paths(dict(zip("abc", labels.tolist(), strict=True)), ["a", "b", "c"], fill=True)
        share = [rng.dirichlet(np.full(40, 0.05 if root % 2 else 5.0)) for root in range(150)]
        truth = tree.roll_up(rng.poisson(rng.lognormal(3.5, 1.5, (150, 1)) * share).ravel().astype(float))
        scale = np.array([40.0, 15.0, 6.0])[tree.level]
        low, high = denoise(tree, truth + rng.laplace(0, scale), 2 * scale**2, posterior=True).interval()
        held = (low <= truth) & (truth <= high)
        for level, found in inside.items():
            found.append(held[tree.level == level])
    cover = [np.mean(found) for found in inside.values()]
    assert min(cover) > 0.93 and max(cover) < 0.97, cover


def test_the_largest_root_is_among_those_that_weights_are_learned_from(monkeypatch: pytest.MonkeyPatch) -> None:
    from attributary.prior import whole_counts

    learned_from: list[list[int]] = []
    plain = whole_counts.marginals

    def recorded(*given: Any, **options: Any) -> Any:
        if "roots" in options:  # else it is all of them, once the weights are learned
            learned_from.append(options["roots"].tolist())
        return plain(*given, **options)

    monkeypatch.setattr(whole_counts, "marginals", recorded)
    monkeypatch.setattr(whole_counts, "ENOUGH", 100)
    for largest in (0, 17, 39):
        parent = np.repeat(np.arange(40), np.where(np.arange(40) == largest, 60, 5))
        tree = Tree.from_parents([*[-1] * 40, *parent.tolist()])
        denoise(tree, np.random.default_rng(largest).poisson(4, len(tree)).astype(float), 8.0, posterior=True)
        assert all(largest in roots and len(roots) < 12 for roots in learned_from) and learned_from
        learned_from.clear()
