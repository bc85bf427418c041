"""The page of Gaussian noise: its laws, and trees with noise of both kinds."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from attributary import Measurements, Tree, denoise, noise
from attributary.noise.gaussian import Gaussian
from support.effort import examples
from support.forests import NAMED, grown

DELTA = 1e-6
BUDGETS = st.lists(st.one_of(st.just(0.0), st.floats(1e-3, 4)), min_size=1, max_size=6)


@settings(max_examples=examples(20))
@given(BUDGETS, st.floats(0.1, 20), st.floats(1e-12, 0.1))
def test_precision_is_one_over_variance_and_sums_to_mu_squared(
    budgets: list[float], epsilon: float, delta: float
) -> None:
    model, part = Gaussian(epsilon, delta=delta), np.array(budgets)
    with np.errstate(divide="ignore"):
        np.testing.assert_allclose(1 / model.precision(part), model.variance(part), rtol=1e-12)
    np.testing.assert_allclose(model.slope(part) * part, model.precision(part), rtol=1e-12)
    shares = np.array([0.2, 0.5, 0.3]) * epsilon
    mu = np.sqrt(model.precision(shares).sum())
    assert mu == pytest.approx(model.mu) and model.account["rho"] == pytest.approx(mu**2 / 2)
    assert noise.gaussian_epsilon(mu, delta) == pytest.approx(epsilon, rel=1e-6)


@settings(max_examples=examples(20))
@given(st.floats(0.1, 20), st.floats(1e-9, 0.01), st.floats(0.01, 3))
def test_the_loss_of_a_part_is_that_of_its_part_of_mu_squared(epsilon: float, delta: float, share: float) -> None:
    model = Gaussian(epsilon, delta=delta)
    assert model.loss(share) == pytest.approx(noise.gaussian_epsilon(model.mu * share**0.5, delta), rel=1e-6)
    assert model.loss(0) == 0 and model.loss(1) == epsilon
    assert (model.loss(share) <= epsilon) == (share <= 1)


def test_what_is_drawn_has_the_variance_and_shape_that_the_page_says() -> None:
    model, part = Gaussian(2.0, delta=DELTA), np.repeat([0.0, 0.4, 1.6], 60_000)
    count, rng = np.full(len(part), 30.0), np.random.default_rng(1)
    plus, minus = rng.standard_exponential((2, len(part)))
    replayed = np.where(part > 0, count + model.replay(part, plus, minus) / model.steps(part), 0.0)
    for noisy in (model.measure(count, part, rng), replayed):
        assert (noisy[part == 0] == 0).all()
        for own in (0.4, 1.6):
            off = (noisy - count)[part == own]
            scaled = off / np.sqrt(model.variance(np.array([own])))
            assert stats.kstest(scaled, "norm").pvalue > 1e-4
            beyond = model.shape.beyond(np.ones(1), 0.01)[0]
            assert (np.abs(scaled) > beyond).mean() == pytest.approx(0.01, abs=0.002)


def test_noise_is_drawn_on_a_fine_grid_and_never_less_than_planned() -> None:
    model = Gaussian(1.0, delta=DELTA)
    budget = np.array([0.0, 1e-13, 1e-6, 0.3, 1.0])
    steps, squared = model.steps(budget), model._squared(budget)
    deviation = np.sqrt(squared[1:])
    assert (deviation >= 2**19).all() and (np.log2(steps) % 1 == 0).all() and squared[0] == np.inf
    assert (squared[1:] / steps[1:] ** 2 >= model.variance(budget[1:])).all()
    np.testing.assert_allclose(squared[1:] / steps[1:] ** 2, model.variance(budget[1:]), rtol=1e-11)


def test_chances_of_draws_are_those_of_the_shape() -> None:
    model, budget = Gaussian(4.0, delta=DELTA), np.full(4, 2.0)
    drawn = np.array([0.0, 10, -400_000, 3e6])
    shape = model.shape.log_likelihood(drawn / model.steps(budget), model.variance(budget)) - np.log(
        model.steps(budget)
    )
    np.testing.assert_allclose(model.log_likelihood(drawn, budget), shape, rtol=1e-9)
    assert model.log_likelihood(np.zeros(1), np.zeros(1)) == 0


def test_figures_that_are_not_whole_are_right_on_average() -> None:
    model = Gaussian(4.0, delta=DELTA)
    noisy = model.measure(np.full(100_000, 1.23), np.full(100_000, 4.0), np.random.default_rng(0))
    assert abs(noisy.mean() - 1.23) < 5 * noisy.std() / np.sqrt(len(noisy))


@pytest.mark.parametrize("delta", [0.0, 1.0, -1e-6, np.nan])
def test_a_delta_out_of_range_is_refused(delta: float) -> None:
    with pytest.raises(ValueError, match='"gaussian" needs a delta above 0 and below 1'):
        noise.model("gaussian", 1.0, delta=delta)


@pytest.mark.parametrize("name", ["api", "unit"])
def test_noise_that_is_pure_takes_no_delta(name: str) -> None:
    with pytest.raises(ValueError, match=f'"{name}" has no delta; got 1e-06'):
        noise.model(name, 1.0, delta=1e-6)


def test_a_census_states_rho() -> None:
    said = noise.parse("gaussian:rho=0.02")
    np.testing.assert_allclose(said.figures(lambda name, value: np.array([float(value)])), [[25.0], [1.0]])
    assert said.shape.name == "normal"


# Levels of different noise


def mixed(tree: Tree, seed: int = 0) -> tuple[Measurements, np.ndarray]:
    """Laplace noise on even levels and Gaussian noise on odd ones, of uneven variances, on counts that add up."""
    rng = np.random.default_rng(seed)
    count = tree.roll_up(rng.integers(0, 60, int(tree.is_leaf.sum())).astype(float))
    variance = np.exp(rng.normal(2, 1, tree.depth))[tree.level]
    code = (tree.level % 2).astype(np.uint8)
    drawn = np.where(code == 0, rng.laplace(0, 1 / np.sqrt(2), len(tree)), rng.normal(size=len(tree)))
    shapes = ("laplace", "normal")
    return Measurements.of(tree, count + np.sqrt(variance) * drawn, variance, shapes, code=code), count


@pytest.mark.parametrize("name", [name for name in NAMED if name != "empty"])
def test_denoising_goes_by_variances_whatever_the_noise(name: str) -> None:
    tree = Tree.from_parents(NAMED[name])
    figures, _ = mixed(tree)
    plain = denoise(tree, figures.noisy, figures.variance)
    est = denoise(tree, figures)
    np.testing.assert_allclose(est.count, plain.count)
    np.testing.assert_allclose(est.variance, plain.variance)
    np.testing.assert_array_equal(figures.excess(), np.where(figures.code == 0, 3.0, 0.0))


def test_intervals_and_fit_hold_where_levels_have_noise_of_both_kinds() -> None:
    tree = grown(4_000, 3)
    inside, z = [], []
    for seed in range(12):
        figures, count = mixed(tree, seed)
        est = denoise(tree, figures)
        low, high = est.interval(0.9)
        inside.append((low <= count + 1e-9) & (count <= high + 1e-9))
        z.append(est.fit.z)
    covered = np.mean(inside, axis=0)
    for i in range(tree.depth):
        here = covered[tree.level == i]
        assert abs(here.mean() - 0.9) < 0.02 + 4 * np.sqrt(0.09 / (here.size * len(inside)))
    assert abs(np.mean(z)) < 3 / np.sqrt(len(z)) and np.std(z) < 2


def test_a_table_states_noise_of_both_kinds_by_level() -> None:
    table = {
        "region": ["north", "north", "north", "south", "south"],
        "store": ["", "a", "b", "", "c"],
        "noisy": [100.0, 61, 45, 30, 28],
    }
    said = "region=laplace:scale=3; store=gaussian:rho=0.02"
    figures = Measurements.from_table(table, ["region", "store"], "noisy", noise=said)
    assert figures.variance.tolist() == [18.0, 25, 25, 18, 25]
    assert figures.excess().tolist() == [3, 0, 0, 3, 0]
    est = denoise(figures)
    assert est.tree.roll_up(est.count[est.tree.leaves]) == pytest.approx(est.count)
