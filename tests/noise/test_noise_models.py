"""Pages of noise: each keeps its laws, and one that nobody here knows of goes the whole way."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from attributary import Measurements, Plan, Spec, Tree, budget, denoise, make_plan, noise, prior, rmsre
from attributary.errors import InputError
from attributary.noise import MODELS, SHAPES, Entropy, NoiseModel, NoiseShape
from attributary.noise.privacy_account import gaussian_mu
from attributary.paper import generate
from attributary.tables import read_table
from support.command import attributary as invoke

TABLE = {"campaign": ["a", "a", "b", "b", "c"], "day": ["1", "2", "1", "2", "1"], "conversions": [90, 40, 7, 0, 3]}
AGGREGATORS = ["one-aggregator", "two-aggregators", "one-aggregator-counts", "two-aggregators-counts"]
BUDGETS = st.lists(st.one_of(st.just(0.0), st.floats(1e-3, 4)), min_size=1, max_size=6)


@pytest.mark.parametrize("name", ["api", "unit", *AGGREGATORS])
@given(budgets=BUDGETS, epsilon=st.floats(4, 20), l1=st.sampled_from([65536, 1000, 20]))
def test_precision_is_one_over_variance_and_slope_is_how_it_grows(
    name: str, budgets: list[float], epsilon: float, l1: int
) -> None:
    model, part = noise.model(name, epsilon, l1), np.array(budgets)
    with np.errstate(divide="ignore"):
        np.testing.assert_allclose(1 / model.precision(part), model.variance(part), rtol=1e-9)
    step = 1e-6 * np.maximum(part, 1e-3)
    grown = (model.precision(part + step) - model.precision(np.maximum(part - step, 0))) / (
        part + step - np.maximum(part - step, 0)
    )
    np.testing.assert_allclose(model.slope(part)[part > 0], grown[part > 0], rtol=1e-5)


@pytest.mark.parametrize("name", ["api", "unit", *AGGREGATORS])
def test_what_is_drawn_has_the_variance_and_shape_that_the_page_says(name: str) -> None:
    model, part = noise.model(name, 2.0, 200), np.repeat([0.0, 0.4, 1.6], 60_000)
    count = np.full(len(part), 30.0)
    rng = np.random.default_rng(1)
    plus, minus = rng.standard_exponential((2, len(part)))
    replayed = np.where(part > 0, count + model.replay(part, plus, minus) / model.steps(part), 0.0)
    for noisy in (model.measure(count, part, rng), replayed):
        assert (noisy[part == 0] == 0).all()
        for own in (0.4, 1.6):
            off, variance = (noisy - count)[part == own], model.variance(np.array([own]))
            kurtosis = 3 + model.shape.excess(variance)[0]
            error = variance[0] * np.sqrt((kurtosis - 1) / len(off))
            assert abs(off.var() - variance[0]) < 5 * error
            assert abs(off.mean()) < 5 * np.sqrt(variance[0] / len(off))
            assert abs(stats.kurtosis(off) - (kurtosis - 3)) < 0.8
            beyond = model.shape.beyond(variance, 0.01)[0] * np.sqrt(variance[0])
            assert (np.abs(off) > beyond + 1e-9).mean() < 0.013


def test_figures_that_are_not_whole_are_right_on_average() -> None:
    model = noise.model("api", 4.0, 10)
    count = np.full(200_000, 1.23)
    noisy = model.measure(count, np.full(len(count), 4.0), np.random.default_rng(0))
    assert abs(noisy.mean() - 1.23) < 5 * noisy.std() / np.sqrt(len(noisy))
    np.testing.assert_allclose(noisy * 10, np.rint(noisy * 10), atol=1e-9)


@pytest.mark.parametrize("name", ["laplace", "dlap", "normal", "laplace-twice", "dlap-twice"])
@pytest.mark.parametrize("variance", [0.3, 2.0, 50.0])
def test_likelihoods_add_up_to_one_and_have_the_variance(name: str, variance: float) -> None:
    width = 0.002 * np.sqrt(variance) if not name.startswith("dlap") else 1.0
    x = np.arange(-np.ceil(40 * np.sqrt(variance) / width), np.ceil(40 * np.sqrt(variance) / width) + 1) * width
    chance = np.exp(noise.shape_of(name).log_likelihood(x, np.full(len(x), variance))) * width
    assert chance.sum() == pytest.approx(1, rel=1e-5)
    assert (chance * x**2).sum() == pytest.approx(variance, rel=1e-4)


@pytest.mark.parametrize("name", ["api", "unit", *AGGREGATORS])
def test_chances_of_draws_add_up_to_one_and_have_the_variance(name: str) -> None:
    model = noise.model(name, 3.0, 12)
    for part in (0.5, 1.5, 3.0):
        k, budget = np.arange(-500.0, 501), np.full(1001, part)
        exact = np.exp(model.log_likelihood(k, budget))
        assert exact.sum() == pytest.approx(1)
        variance = (exact * (k / model.steps(budget)) ** 2).sum()
        assert variance == pytest.approx(model.variance(budget)[0])
    assert model.log_likelihood(np.zeros(1), np.zeros(1)) == 0


@pytest.mark.parametrize("a", [0.04, 0.5, 2.5])
def test_two_draws_are_the_convolution_of_one_with_itself(a: float) -> None:
    k = np.arange(-2000.0, 2001)
    one = np.exp(noise.model("one-aggregator-counts", 2 * a).log_likelihood(k, np.full(len(k), 2 * a)))
    two = np.exp(noise.model("two-aggregators-counts", 2 * a).log_likelihood(k, np.full(len(k), 2 * a)))
    near = slice(1900, 2101)
    np.testing.assert_allclose(two[near], np.convolve(one, one, "same")[near], rtol=1e-9, atol=1e-15)
    variance, shape = np.array([(two * k**2).sum()]), noise.shape_of("dlap-twice")
    assert shape.excess(variance)[0] == pytest.approx((two * k**4).sum() / variance[0] ** 2 - 3, rel=1e-6)
    for chance in (0.3, 0.05, 1e-3):
        beyond = shape.beyond(variance, chance)[0] * np.sqrt(variance[0])
        assert two[np.abs(k) > beyond + 1e-9].sum() <= chance
        assert two[np.abs(k) > beyond - 3].sum() > chance


def test_chances_of_draws_are_those_of_the_shape_where_steps_are_fine() -> None:
    model, budget = noise.model("api", 4.0), np.full(5, 2.0)
    drawn = np.array([0.0, 10, -4000, 70_000, -200_000])
    np.testing.assert_allclose(
        NoiseModel.log_likelihood(model, drawn, budget), model.log_likelihood(drawn, budget), rtol=1e-6
    )


@pytest.mark.parametrize(
    ("text", "shape", "variance", "divisor"),
    [
        ("laplace:scale=3", "laplace", 18.0, 1.0),
        ("normal:std=3", "normal", 9.0, 1.0),
        ("dlap:rate=1.5", "dlap", noise.dlap_variance(np.array(1.5)), 1.0),
        ("laplace-twice:scale=3", "laplace-twice", 36.0, 1.0),
        ("dlap-twice:rate=1.5", "dlap-twice", 2 * noise.dlap_variance(np.array(1.5)), 1.0),
        ("api:epsilon=4,contribution=32768", "laplace", noise.model("api", 4).variance(np.array([2.0]))[0], 1.0),
        ("api: contribution = 10 , epsilon=4,l1=20", "laplace", noise.dlap_variance(0.2) / 100, 1.0),
        ("api:epsilon=4,contribution=32768,sums=1", "laplace", noise.dlap_variance(4 / 65536) / 2**30, 32768.0),
        ("api:epsilon=4,contribution=0", "laplace", np.inf, 1.0),
        ("laplace:epsilon=1,levels=3,sensitivity=2", "laplace", 72.0, 1.0),
        ("laplace:epsilon=0.5", "laplace", 8.0, 1.0),
        ("dlap:epsilon=3,levels=2", "dlap", noise.dlap_variance(np.array(1.5)), 1.0),
        ("normal:epsilon=1,delta=1e-6", "normal", 1 / gaussian_mu(1, 1e-6) ** 2, 1.0),
        ("normal:epsilon=1,delta=1e-6,levels=3,sensitivity=2", "normal", 12 / gaussian_mu(1, 1e-6) ** 2, 1.0),
        ("laplace:scale=3,rounded", "laplace", 18.0 + 1 / 12, 1.0),
        ("normal:std=3,rounded=10", "normal", 9.0 + 100 / 12, 1.0),
        ("api:epsilon=4,contribution=10,l1=20,sums,rounded=10", "laplace", noise.dlap_variance(0.2) / 100 + 1 / 12, 10),
    ],
)
def test_noise_is_stated_of_figures(text: str, shape: str, variance: float, divisor: float) -> None:
    said = noise.parse(text)
    assert said.shape.name == shape
    figures = said.figures(lambda name, value: np.array([float(value)]))
    np.testing.assert_allclose(figures, [[variance], [divisor]])


@pytest.mark.parametrize("name", ["laplace", "normal"])
@pytest.mark.parametrize(("sides", "chance"), [("two-sided", 0.05), ("one-sided", 0.1)])
def test_an_interval_states_the_noise_whose_quantile_it_is(name: str, sides: str, chance: float) -> None:
    law = {"laplace": stats.laplace(scale=3 / 2**0.5), "normal": stats.norm(scale=3)}[name]
    half = law.isf(chance / 2)
    said = noise.parse(f"{name}:interval=low,high@0.95,{sides}")
    noisy = np.array([100.0, -5.0, 1.0])
    bounds = {"low": noisy - half, "high": noisy + half}
    bounds["low"][2] = 0.0  # cut, so that half of its width says too little
    np.testing.assert_allclose(said.figures(lambda which, _: bounds[which], noisy)[0], 9.0)
    with pytest.raises(ValueError, match="^row 1: an interval goes from low to high"):
        said.figures(lambda which, _: bounds["high" if which == "low" else "low"], noisy)


def test_a_figure_is_within_its_own_bounds() -> None:
    said = noise.parse("laplace:interval=low,high@0.95,two-sided")
    bounds = {"low": np.array([5.5, 0.0, 8.0]), "high": np.array([9.5, 4.0, 20.0])}
    half = said.figures(lambda which, _: bounds[which], np.array([7.0, -2.0, 14.0]))[0] ** 0.5
    np.testing.assert_allclose(half / half[0], [1, 3, 3])  # a lower bound that was cut at 0 says nothing
    for x, row in (([7.0, 1.0, 21.0], 3), ([5.0, 1.0, 9.0], 1), ([7.0, 4.1, 9.0], 2)):
        with pytest.raises(ValueError, match=f"^row {row}: the figure {x[row - 1]:g} is outside its own bounds"):
            said.figures(lambda which, _: bounds[which], np.array(x))
    whole = {name: np.rint(each) for name, each in bounds.items()}  # rounded, as Snowflake's are
    assert said.figures(lambda which, _: whole[which], np.array([5.4, 1.0, 9.0]))[0][0] > 0


@pytest.mark.parametrize(
    "text",
    [
        *(
            "gaussian:rho=0",
            "gaussian:rho=inf",
            "gaussian:rho=1e-320",
            "dlap:rate=0",
            "dlap:rate=inf",
            "dlap-twice:rate=0",
        ),
        *("laplace:epsilon=0", "laplace:epsilon=inf", "laplace:epsilon=1e-300", "dlap:epsilon=1e-200"),
        *("laplace:epsilon=1,levels=0", "laplace:epsilon=1,levels=inf", "laplace:epsilon=1,sensitivity=inf"),
        *("normal:epsilon=inf,delta=1e-6", "normal:epsilon=1,delta=0", "normal:epsilon=1,delta=1", "normal:std=1e200"),
        *("api:epsilon=0,contribution=5", "api:epsilon=inf,contribution=5", "api:epsilon=4,contribution=inf"),
        *("api:epsilon=4,contribution=5,l1=0", "api:epsilon=4,contribution=5,l1=inf", "laplace:scale=3,rounded=1e300"),
    ],
)
def test_noise_without_a_finite_variance_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is a positive number; got|too large for a number|and below 1; got"):
        noise.parse(text).figures(lambda name, value: np.array([float(value)]))


def test_noise_may_differ_by_level() -> None:
    said = noise.parse_levels("region = laplace:scale=3; store=normal:std=2,4;")
    assert {level: each.given for level, each in said.items()} == {"region": {"scale": "3"}, "store": {"std": "2,4"}}
    assert noise.parse_levels("api:epsilon=4,contribution=1")[None].name == "api"
    for text in ("laplace:scale=3; store=normal:std=2", "a=laplace:scale=3;a=laplace:scale=3", "store=gauss:std=1"):
        with pytest.raises(InputError, match="stated"):
            noise.parse_levels(text)


def test_a_parameter_may_hold_commas() -> None:
    said = noise.parse("api:contribution=4,2,1,epsilon=4")
    assert said.given == {"contribution": "4,2,1", "epsilon": "4"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("gauss:std=3", r"one of laplace:scale=… or epsilon.*; dlap:rate=….*; got 'gauss:std=3'"),
        ("laplace", r"stated as laplace:scale=… or epsilon=…\[,levels=1\].*; in 'laplace', 'scale' is missing"),
        ("laplace:3", "noise is stated as laplace:scale=… or .*; got 'laplace:3'"),
        ("laplace:levels=3", "'epsilon' is missing"),
        ("normal:epsilon=1", "'delta' is missing"),
        ("laplace:scale=3,levels=3", "noise is stated as laplace"),
        ("laplace:scale=3,rounded=x", "rounded is a number"),
        ("laplace:interval=low,high@0.95", "say two-sided .* or one-sided .* 1.7-fold"),
        ("laplace:interval=low,high@0.95,one-sided,two-sided", "say two-sided"),
        ("laplace:interval=low@0.95,two-sided", "interval=LOW,HIGH@0.95, with two columns"),
        ("laplace:interval=low,high,two-sided", "interval=LOW,HIGH@0.95, with two columns"),
        ("laplace:interval=low,high@95,two-sided", "confidence of an interval is between 0 and 1; got 95"),
        ("laplace:interval=low,high@0.4,one-sided", "confidence of an interval is between 0.5 and 1; got 0.4"),
        ("laplace:interval=low,high@0.9,two-sided,scale=3", "an interval says all of the noise"),
        ("laplace:scale=3,two-sided", "sides belong to it"),
        ("dlap:interval=low,high@0.9,two-sided", "does not tell its variance"),
        (
            "api:epsilon=4,budget=2,contribution=1",
            r"api:contribution=…,epsilon=…\[,l1=65536\]\[,sums=0\]; .*'budget' is not",
        ),
        ("api:epsilon=4,epsilon=2,contribution=1", "epsilon is stated once"),
    ],
)
def test_noise_that_is_stated_otherwise_is_refused(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        noise.parse(text)


@dataclass(frozen=True)
class Coins(NoiseModel):
    """Fair coins: a node with budget b gets the sum of coins of ±1, 8/b of them on average (a model for tests)."""

    name = "coins"
    shape = NoiseShape(
        "coins",
        "fair coins",
        lambda variance: -2.0 / np.maximum(variance, 1.0),
        lambda variance, chance: np.full_like(variance, float(stats.norm.isf(chance / 2))),
        lambda x, variance: -0.5 * (x**2 / variance + np.log(2 * np.pi * variance)),
    )
    short = "fair coins"
    on_sums: ClassVar[bool] = False
    proportional: ClassVar[bool] = False

    def variance(self, budget: Any) -> Any:
        with np.errstate(divide="ignore"):
            return 8 / np.asarray(budget, np.float64)

    def precision(self, budget: Any) -> Any:
        return np.asarray(budget) / 8

    def slope(self, budget: Any) -> Any:
        return np.full(np.shape(budget), 1 / 8)

    def steps(self, budget: Any) -> Any:
        return np.ones(np.shape(budget))

    def sample(self, budget: Any, rng: Entropy | None = None) -> Any:
        return np.array([_heads(8 / b, rng) if b > 0 else 0 for b in budget.tolist()])

    def replay(self, budget: Any, plus: Any, minus: Any) -> Any:
        return np.rint((plus - minus) * np.sqrt(self.variance(np.where(budget > 0, budget, 1.0)) / 2))

    @property
    def words(self) -> tuple[str, str]:
        return "fair coins", "Every count gets a sum of fair coins."


def _heads(mean: float, rng: Entropy | None) -> int:
    read = os.urandom if rng is None else rng.bytes
    coins = int(mean) + (int.from_bytes(read(4), "little") / 2**32 < mean % 1)
    bits = np.unpackbits(np.frombuffer(read(-(-coins // 8)), np.uint8))[:coins]
    return int(2 * bits.sum()) - coins


@pytest.fixture
def coins() -> Iterator[None]:
    noise.register(Coins)
    yield
    del MODELS["coins"], SHAPES["coins"]


def test_a_model_of_ones_own_is_planned_with_measured_and_denoised(coins: None) -> None:
    spec = Spec(epsilon=4, noise="coins", attribute=[{"name": "campaign"}, {"name": "day"}])
    tree = spec.tree(TABLE)
    before = prior.from_counts(tree, TABLE)
    plan = make_plan(spec, tree, before)
    assert plan.variance(tree).tolist() == Coins(4.0).variance(plan.budget(tree)).tolist()
    noisy = spec.noise_model.measure(before.mean, plan.budget(tree), np.random.default_rng(3))
    est = denoise(tree, Measurements.of(tree, noisy, plan.variance(tree), "coins"))
    assert est.fit.df > 0 and np.isfinite(est.interval().low).all()
    split = budget.optimal(tree, before.mean, epsilon=4, tau=10, noise="coins")
    equal = budget.equal(tree, before.mean, epsilon=4, tau=10, noise="coins")
    errors = [rmsre.tree(tree, before.mean, denoise(tree, noisy, s.variance()).variance, 10) for s in (split, equal)]
    assert errors[0] <= errors[1] * (1 + 1e-9)


def test_a_model_of_ones_own_goes_through_the_commands(coins: None, tmp_path: Any) -> None:
    generate("shop", f"{tmp_path}/", 3_000, 0)
    spec = tmp_path / "spec.toml"
    spec.write_text('noise = "coins"\n' + spec.read_text())
    made = invoke("run", spec, "-o", tmp_path / "made", "--seed", 2)
    assert "noise: fair coins" in made.stderr
    plan = Plan.load(str(tmp_path / "made" / "plan.json"))
    rows = read_table(str(tmp_path / "made" / "estimates.parquet"))
    tree = Tree.from_paths(rows, ["campaign", "location", "day"], totals=None)
    np.testing.assert_array_equal(
        rows["noise_variance"].to_numpy(), Coins(plan.spec.epsilon).variance(plan.budget(tree))
    )
    assert set(rows["noisy"].to_numpy() % 1) == {0.0}  # coins are whole
    assert "Every count gets a sum of fair coins." in (tmp_path / "made" / "report.html").read_text()

    invoke(
        "report", tmp_path / "made" / "plan.json", tmp_path / "made" / "estimates.parquet", "-o", tmp_path / "page.html"
    )
    assert "Every count gets a sum of fair coins." in (tmp_path / "page.html").read_text()


def test_a_model_that_is_not_there_is_refused_by_name(coins: None) -> None:
    with pytest.raises(ValueError, match="\"coins\" \\(fair coins\\); got 'coin'"):
        noise.model("coin", 1.0)
    with pytest.raises(ValueError, match="laplace, dlap, normal, coins; got 'coin'|shape is one of"):
        Measurements(np.zeros(2), np.ones(2), "coin")


def test_nodes_with_noise_of_different_shapes_have_intervals_of_their_own() -> None:
    tree = Tree.from_parents([-1, -1, -1])
    mixed = Measurements.of(tree, [5.0, 5, 5], 4.0, ("laplace", "normal"), code=np.array([0, 1, 0], np.uint8))
    each = [Measurements.of(tree, [5.0, 5, 5], 4.0, shape) for shape in ("laplace", "normal")]
    low = denoise(tree, mixed).interval().low
    apart = [denoise(tree, one).interval().low for one in each]
    assert low.tolist() == [apart[0][0], apart[1][1], apart[0][2]] and apart[0][0] != apart[1][0]
    np.testing.assert_array_equal(mixed.excess(), [3, 0, 3])


@pytest.mark.parametrize("code", [None, np.array([0, 2], np.uint8), np.array([0], np.uint8)])
def test_several_shapes_need_a_code_for_each_node(code: Any) -> None:
    with pytest.raises(ValueError, match="code"):
        Measurements(np.zeros(2), np.ones(2), ("laplace", "normal"), code=code)
