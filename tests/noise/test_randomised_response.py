"""Randomised response: unbiased, variances as simulated, and joined with other figures as in dense least squares."""

from itertools import combinations_with_replacement
from math import comb, exp, inf, log

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attributary import Measurements, Tree, denoise
from attributary.api.ara import parse
from attributary.browsers import event_level_measurements, randomised
from attributary.denoising.posterior import whole_figures
from attributary.errors import InputError
from attributary.noise import RandomisedResponse
from support.effort import examples

RATES = [1e-6, 0.0024, 0.05, 0.5]


def responses(response: RandomisedResponse, true: np.ndarray, times: int, rng: np.random.Generator) -> np.ndarray:
    """Of people in these states, the numbers of their responses, in so many repetitions."""
    away = rng.binomial(true, response.rate, (times, len(true)))
    return true - away + rng.multinomial(away.sum(1), np.full(response.states, 1 / response.states))


def true_covariance(response: RandomisedResponse, true: np.ndarray) -> np.ndarray:
    """Cov(N̂) of all states, state by state: a person's response has one multinomial draw."""
    k, p, n = response.states, response.rate, true.sum()
    b, one = p / k, np.ones(k)
    rank_2 = (1 - p) * b * (np.outer(true, one) + np.outer(one, true)) + n * b**2 * np.outer(one, one)
    return (np.diag(p * (1 - p) * true + n * b) - rank_2) / (1 - p) ** 2


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("states", [3, 8, 2925])
def test_figures_are_unbiased_and_vary_as_stated(states: int, rate: float) -> None:
    rng = np.random.default_rng(states)
    response, times = RandomisedResponse(states, rate), 2000 if states < 100 else 400
    true = np.zeros(states, np.int64)
    true[:6] = [2_000_000, 300_000, 9_000, 40, 0, 7][: min(states, 6)]
    observed = responses(response, true, times, rng).astype(float)
    people = np.full(times, float(true.sum()))
    value, stated = response.state_figures(people, observed, np.tile(true, (times, 1)), states < 100)
    if states < 100:
        np.testing.assert_allclose(stated[0], true_covariance(response, true), rtol=1e-9, atol=1e-9)
        stated = np.diagonal(stated, axis1=1, axis2=2)
    some = min(states, 8)
    off = value[:, :some] - true[:some]
    variance = stated[0, :some]
    assert (np.abs(off.mean(0)) <= 4 * np.sqrt(variance / times)).all()
    error = np.sqrt((2 * variance**2 + variance) / times)  # of the variance that is seen: flips are rare, as Poisson's
    assert (np.abs((off**2).mean(0) - variance) <= 3 * error).all()
    _, plugged = response.state_figures(people, observed, None, states < 100)
    seen = plugged if states >= 100 else np.diagonal(plugged, axis1=1, axis2=2)
    assert np.allclose(seen.mean(0)[:3], variance[:3], rtol=0.02)  # plugged in, it is right on average


@given(st.integers(2, 7), st.floats(1e-6, 0.9), st.integers(0, 2**32))
@settings(max_examples=examples(60), deadline=None)
def test_covariance_of_any_weighted_sum(states: int, rate: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    response, true = RandomisedResponse(states, rate), rng.integers(0, 1000, states) + 1.0
    _, covariance = response.state_figures(np.array([true.sum()]), true[None], true[None])
    weight = rng.normal(size=states)
    mean, spread = weight.mean(), weight.var()
    exact = rate / (1 - rate) ** 2 * np.sum(true * ((1 - rate) * (weight - mean) ** 2 + spread))
    assert np.isclose(weight @ covariance[0] @ weight, exact, rtol=1e-8)
    assert np.isclose(RandomisedResponse.at(states, response.epsilon).rate, rate)


def test_rate_and_epsilon() -> None:
    assert RandomisedResponse.at(3, log(2)).rate == pytest.approx(3 / 4)
    assert RandomisedResponse.at(2925, 14).rate == pytest.approx(2925 / (2924 + exp(14)))
    assert RandomisedResponse(4, 0.0).epsilon == inf
    for states, rate in ((0, 0.1), (2.5, 0.1), (3, 1.0), (3, -0.1), (3, float("nan"))):
        with pytest.raises(InputError):
            RandomisedResponse(states, rate)
    with pytest.raises(InputError, match="epsilon is a positive number"):
        RandomisedResponse.at(3, 0)
    true = np.repeat([0, 1, 2], [600, 300, 100])
    drawn = RandomisedResponse(3, 0.3).respond(true, np.random.default_rng(1))
    assert abs((drawn != true).mean() - 0.2) < 0.04


# Joined with other figures: a root over groups over states, in an awkward order.

GROUPS = Tree.from_parents([8, 8, 9, 8, 9, 10, 9, 10, 11, 11, 11, -1])


def dense(tree: Tree, given: list[tuple[np.ndarray, np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    """Generalised least squares over the leaves: (nodes, figures, covariance) of each independent block."""
    leaves = tree.leaves
    rows = np.array([tree.roll_up(np.eye(len(leaves))[j]) for j in range(len(leaves))]).T
    precision, right = 0.0, 0.0
    for nodes, figures, covariance in given:
        weighted = rows[nodes].T @ np.linalg.inv(covariance)
        precision, right = precision + weighted @ rows[nodes], right + weighted @ figures
    spread = rows @ np.linalg.inv(precision) @ rows.T
    return rows @ np.linalg.solve(precision, right), spread


@st.composite
def joins(draw: st.DrawFn) -> tuple[Measurements, Measurements, Measurements]:
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    response = RandomisedResponse(draw(st.integers(4, 9)), draw(st.floats(0.01, 0.8)))
    states = rng.integers(1, 400, len(GROUPS)).astype(float)
    asked = states[:8].sum() + rng.integers(0, 5000, len(GROUPS))
    told = Measurements.from_responses(GROUPS, states, response, people=asked)
    variance = 10 ** rng.uniform(-1, 4, len(GROUPS))
    variance[rng.random(len(GROUPS)) < 0.3] = np.inf
    other = Measurements.of(GROUPS, rng.normal(300, 100, len(GROUPS)), variance)
    return told, other, told.again(other) if draw(st.booleans()) else other.again(told)


@given(joins())
@settings(max_examples=examples(150), deadline=None)
def test_joined_figures_are_dense_least_squares(case: tuple[Measurements, Measurements, Measurements]) -> None:
    told, other, both = case
    blocks = [(f.nodes[g], told.noisy[f.nodes[g]], f.covariance[g]) for f in told.families for g in range(len(f.nodes))]
    use = np.flatnonzero(other.variance < np.inf)
    count, spread = dense(GROUPS, [*blocks, (use, other.noisy[use], np.diag(other.variance[use]))])
    est = denoise(GROUPS, both)
    np.testing.assert_allclose(est.count, count, rtol=1e-7, atol=1e-6)
    np.testing.assert_allclose(est.variance, np.diag(spread), rtol=1e-7)
    weights = np.random.default_rng(1).normal(size=len(GROUPS))
    sums = est.total(weights)
    assert np.isclose(sums.variance, weights @ spread @ weights, rtol=1e-6) and sums.excess >= 0
    for alone in (told, other):  # never worse than either
        assert (est.variance <= denoise(GROUPS, alone).variance * (1 + 1e-9)).all()
    assert np.isfinite(est.fit.z) and np.isfinite(est.interval(0.95).high).all()
    floor = denoise(GROUPS, both, nonnegative=True).count
    assert (floor >= 0).all() and np.isclose(floor[11], max(est.count[11], 0))
    np.testing.assert_allclose(GROUPS.from_level_order(whole_figures(GROUPS, both).blue), est.count, atol=1e-6)


def test_everyone_in_one_of_the_states_makes_the_sum_exact() -> None:
    tree = Tree.from_parents([3, 3, 3, -1, 7, 7, 7, -1])
    truth = np.array([50.0, 3, 0, 0, 900, 80, 20, 0])
    rng, response = np.random.default_rng(3), RandomisedResponse.at(3, 1.0)
    states = np.array([0, 1, 2, -1, 0, 1, 2, -1])
    seen = np.zeros(8)
    for group in (slice(0, 3), slice(4, 7)):
        people = np.repeat(states[group], truth[group].astype(int))
        seen[group] = np.bincount(response.respond(people, rng), minlength=3)
    told = Measurements.from_responses(tree, seen, response)
    est = denoise(told)
    assert est.count[3] == pytest.approx(53) and est.count[7] == pytest.approx(1000)
    assert est.variance[3] == 0 and est.total([0, 1, 2]).variance == pytest.approx(0, abs=1e-9)
    np.testing.assert_allclose(est.variance[[0, 1, 2]], told.variance[[0, 1, 2]])
    counts = denoise(told, nonnegative=True).count
    assert (counts >= 0).all() and counts[3] == pytest.approx(53)
    exact = Measurements.of(tree, truth, np.where(np.arange(8) == 0, 0.0, np.inf))
    assert denoise(tree, told.again(exact)).count[0] == 50 and denoise(tree, told.again(exact)).variance[0] == 0
    again = Measurements.from_responses(tree, seen, response, expected=truth)
    assert np.allclose(again.noisy, told.noisy) and not np.allclose(again.variance[:3], told.variance[:3])


def test_different_people_add_up() -> None:
    response = RandomisedResponse(9, 0.3)
    states = np.arange(12.0) * 10
    told = Measurements.from_responses(GROUPS, states, response, people=states + 5000)
    twice = told.plus(told)
    assert all(np.allclose(a.covariance, 2 * b.covariance) for a, b in zip(twice.families, told.families, strict=True))
    more = told.plus(Measurements.of(GROUPS, states, np.where(GROUPS.is_leaf, 4.0, np.inf)))
    assert np.allclose(more.variance[:8], told.variance[:8] + 4)
    assert np.allclose(more.families[0].variance, more.variance[more.families[0].nodes])
    assert np.allclose(denoise(GROUPS, more).count, denoise(GROUPS, told).count + GROUPS.roll_up(states[:8]))
    with pytest.raises(ValueError, match="all measured; some are not"):
        told.plus(Measurements.of(GROUPS, states, np.inf))
    with pytest.raises(ValueError, match="one alone may have families"):
        told.again(told)


def test_many_states_are_taken_as_independent() -> None:
    tree = Tree.from_parents([-1, *[0] * 100])
    told = Measurements.from_responses(tree, np.ones(101), RandomisedResponse(101, 0.2), people=np.full(101, 500.0))
    assert not told.families and told.variance[0] == inf and (told.variance[1:] > 0).all()


def test_what_is_refused() -> None:
    response, zeros = RandomisedResponse(4, 0.3), np.zeros(12)
    with pytest.raises(ValueError, match="has 2 leaves, and there are 4 states"):
        Measurements.from_responses(GROUPS, zeros, response)
    with pytest.raises(ValueError, match="has 3 leaves, and there are 2 states"):
        Measurements.from_responses(GROUPS, zeros, RandomisedResponse(2, 0.3), people=zeros)
    with pytest.raises(ValueError, match="responses are finite numbers, one for each of the 12 nodes"):
        Measurements.from_responses(GROUPS, zeros[1:], response)
    with pytest.raises(ValueError, match="node 0 has both"):
        Measurements.from_responses(Tree.from_parents([-1, 0, 0, 1]), np.zeros(4), response)
    with pytest.raises(ValueError, match="node 0 is a leaf without a group"):
        Measurements.from_responses(Tree.from_parents([-1, -1]), np.zeros(2), response)
    told = Measurements.from_responses(GROUPS, zeros, response, people=np.full(12, 100.0))
    from attributary import Prior

    with pytest.raises(ValueError, match="a prior goes with figures whose noise is independent"):
        denoise(GROUPS, told, prior=Prior(zeros, variance=np.ones(12)))


def test_a_family_that_the_passes_cannot_take_is_bounded() -> None:
    from attributary.measurements import FamilyCovariance

    covariance = np.array([[[1.0, -1.5, 0.2], [-1.5, 4.0, 0.1], [0.2, 0.1, 1.0]]])
    made = FamilyCovariance.of(np.array([0]), np.array([[1, 2, 3]]), covariance)
    assert np.linalg.eigvalsh(made.covariance[0] - covariance[0]).min() > -1e-12 and (made.rows > 0).all()


# Event-level reports


def header(**fields: object) -> str:
    import json

    return json.dumps({"destination": "https://shop.example", **fields})


@pytest.mark.parametrize(("data", "windows", "reports"), [(2, 1, 1), (8, 3, 3), (3, 2, 2), (2, 2, 4)])
def test_event_level_states_have_the_moments_of_their_enumeration(data: int, windows: int, reports: int) -> None:
    ends = [3600 * (i + 1) for i in range(windows)]
    text = header(
        trigger_data=list(range(data)), event_report_windows={"end_times": ends}, max_event_level_reports=reports
    )
    registered = parse.source(text, "navigation").value
    assert registered is not None
    response, weights = randomised(registered, data)
    cells = [d for d in range(data) for _ in range(windows)] + [None]
    drawn = list(combinations_with_replacement(range(len(cells)), reports))
    states = np.array([[sum(cells[c] == d for c in each) for d in range(data)] for each in drawn], float)
    assert response.states == len(states) == comb(data * windows + reports, reports)
    np.testing.assert_allclose(weights.mean, states.mean(0))
    np.testing.assert_allclose(weights.moment, states.T @ states / len(states))
    # and the covariance of counts by trigger data is that of the states, weighted
    rng = np.random.default_rng(2)
    true = rng.integers(0, 9, len(states)) + np.where(np.arange(len(states)) == len(states) - 1, 5000.0, 0)
    _, covariance = response.figures(
        np.array([true.sum()]),
        (true @ states)[None] * (1 - response.rate) + true.sum() * response.rate * weights.mean,
        (states.T * true @ states)[None] * (1 - response.rate) + true.sum() * response.rate * weights.moment,
        weights,
    )
    np.testing.assert_allclose(covariance[0], states.T @ true_covariance(response, true) @ states, rtol=1e-7)


DAYS = {"Sat": 0, "Sun": 1}


def browsers(rng: np.random.Generator, clicks: int, epsilon: float) -> tuple[Tree, dict, dict, np.ndarray]:
    """Clicks, their event-level reports as browsers would send them, and the true counts of a tree."""
    campaign = rng.choice(["a", "b"], clicks, p=[0.8, 0.2])
    tree = Tree.from_paths({"campaign": list("aabb"), "day": ["Sat", "Sun"] * 2}, ["campaign", "day"])
    truth = [[int(d) for d in rng.integers(0, 2, rng.integers(0, 4))] if rng.random() < 0.05 else [] for _ in campaign]
    cells = [0, 0, 0, 1, 1, 1, None]
    states = list(combinations_with_replacement(range(7), 3))
    rate = RandomisedResponse.at(len(states), epsilon).rate
    ids, data, counts = [], [], np.zeros(6)
    for number, (name, days) in enumerate(zip(campaign, truth, strict=True)):
        fake = rng.random() < rate
        seen = [cells[c] for c in states[rng.integers(len(states))] if cells[c] is not None] if fake else days
        ids += [str(number)] * len(seen)
        data += [str(d) for d in seen]
        for day in days:
            counts[2 * (name == "b") + day] += 1
    counts[4:] = [counts[:2].sum(), counts[2:4].sum()]
    sources = {"source_event_id": np.arange(clicks), "campaign": campaign}
    return tree, sources, {"source_event_id": ids, "trigger_data": data}, counts


def test_event_level_reports_are_measurements() -> None:
    text = header(trigger_data=[0, 1], event_level_epsilon=3.0)
    scores = []
    for seed in range(8):
        tree, sources, reports, counts = browsers(np.random.default_rng(seed), 3000, 3.0)
        told = event_level_measurements(tree, text, sources, reports, DAYS)
        est = denoise(told)
        scores += list((est.count - counts)[:4] / est.std[:4])
        total = est.total([0, 1])
        scores.append((total.count - counts[4]) / total.std)
        assert total.variance < 0.8 * (est.variance[0] + est.variance[1])  # reports of a source at random share its 3
    assert 0.6 < np.std(scores) < 1.4 and abs(np.mean(scores)) < 0.5
    aggregates = Measurements.of(tree, counts + 3, tree.by_level([200.0, 100.0]))
    joined = denoise(tree, aggregates.again(told))
    assert (joined.variance < np.minimum(denoise(tree, aggregates).variance, est.variance)).all()
    assert joined.measurements.shape == ("laplace", "normal")
    plugged = event_level_measurements(tree, text, sources, reports, DAYS, expected=joined.count)
    assert np.allclose(plugged.noisy, told.noisy) and not np.allclose(plugged.variance[:4], told.variance[:4])


def test_event_level_reports_that_do_not_fit_are_refused() -> None:
    tree, sources, reports, _ = browsers(np.random.default_rng(1), 200, 3.0)
    text = header(trigger_data=[0, 1], event_level_epsilon=3.0)

    def refused(match: str, **changes: object) -> None:
        given = {"tree": tree, "header": text, "sources": sources, "reports": reports, "trigger_data": DAYS} | changes
        with pytest.raises(InputError, match=match):
            event_level_measurements(**given)  # type: ignore[arg-type]

    refused("browsers refuse this source: destination", header="{}")
    refused("have no event-level reports", header=header(max_event_level_reports=0))
    refused("in groups of leaves.* row 1 is in campaign=zz", sources={**sources, "campaign": ["zz"] * 200})
    refused("own; some are repeated", sources={**sources, "source_event_id": [7] * 200})
    refused("2 of 2 reports are of sources", reports={"source_event_id": ["x", "y"], "trigger_data": [0, 1]})
    refused("a report has 9", reports={"source_event_id": [1], "trigger_data": [9]})
    refused("'Sun' has None", trigger_data={"Sat": 0})
    refused("of its own, one of", trigger_data={"Sat": 0, "Sun": 0})
    short = Tree.from_paths({"campaign": ["a", "b"], "day": ["Sat", None]}, ["campaign", "day"])
    refused("all at the last level", tree=short, trigger_data={"Sat": 0})
