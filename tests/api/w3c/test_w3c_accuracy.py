"""From impressions on devices to estimates: means, variances and ranks are as planned, under every scheme.

Devices and their ledgers are the user agent's; noise is drawn as aggregators draw it, not by the plan's noise model.
"""

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from attributary import Tree, api, denoise, make_plan, prior, rmsre
from attributary.api.w3c.page_calls import W3cClients
from support.effort import first_of
from support.w3c_devices import START, Measured, browse, ready, spec

SHARES = {"campaign": 0.3, "location": 0.3}
TIMES = 200
CASES = [(scheme, number) for scheme in "ABC" for number in (1, 2)]


@cache
def estimates(scheme: str, aggregators: int) -> tuple[Tree, Any, Any, Any, Any]:
    """The tree, the true counts, and TIMES times the figures' errors, the estimates' errors and all variances."""
    clients, tree = ready(spec(scheme, day=True, api={"aggregators": aggregators}), SHARES)
    measured = browse(clients, tree, devices=150)
    truth, rng = tree.roll_up(measured.leaves), np.random.default_rng(ord(scheme) + aggregators)
    figures = [answered(clients, tree, measured, rng, aggregators) for _ in range(TIMES)]
    noisy, variance = np.stack([each.noisy for each in figures], 1), figures[0].variance
    est = denoise(tree, noisy, variance)
    return tree, truth, noisy - truth[:, None], est.count - truth[:, None], (variance, est.variance)


def answered(clients: W3cClients, tree: Tree, measured: Measured, rng: np.random.Generator, aggregators: int) -> Any:
    path = RESULTS[0]
    path.write_text(json.dumps(measured.results(rng, aggregators)))
    return api.answer(clients.plan, [str(path)], tree).measures["count"]


RESULTS: list[Path] = []


@pytest.fixture(autouse=True, scope="module")
def results_file(tmp_path_factory: pytest.TempPathFactory) -> None:
    RESULTS[:] = [tmp_path_factory.mktemp("w3c") / "results.json"]


@pytest.mark.parametrize(("scheme", "aggregators"), first_of(CASES))
def test_means_and_variances_are_those_of_the_formulae(scheme: str, aggregators: int) -> None:
    tree, truth, raw, errors, variances = estimates(scheme, aggregators)
    assert truth.sum() > 300
    for off, variance in ((raw, variances[0]), (errors, variances[1])):
        for level in range(tree.depth):
            here = tree.slice(level)
            z = off[here] / np.sqrt(variance[here])[:, None]
            mean, square = z.mean(axis=0), (z**2).mean(axis=0)  # of each repetition, which are independent
            assert abs(mean.mean()) < 3 * mean.std() / np.sqrt(TIMES)
            assert abs(square.mean() - 1) < 3 * square.std() / np.sqrt(TIMES)


@pytest.mark.parametrize("scheme", first_of("ABC"))
def test_variances_are_eight_or_sixteen_by_the_square_of_epsilon(scheme: str) -> None:
    _, tree = ready(spec(scheme, day=True), SHARES)
    share = np.array([0.3, 0.3, 0.4])[tree.level]
    for aggregators in (1, 2):
        variance = estimates(scheme, aggregators)[-1][0]
        np.testing.assert_allclose(variance, 8 * aggregators / share**2, rtol=0.01)


@pytest.mark.parametrize("pair", first_of(["AB", "AC", "BC"]))
@pytest.mark.parametrize("aggregators", first_of([1, 2]))
def test_estimates_of_different_schemes_differ_by_their_noise_alone(pair: str, aggregators: int) -> None:
    (tree, truth, _, first, (_, one)), (_, same, _, second, (_, two)) = (estimates(s, aggregators) for s in pair)
    np.testing.assert_array_equal(truth, same)
    for node in (0, int(tree.offsets[1]) + 3):  # a campaign, and a location; leaves have tails of their own
        z = (first - second)[node] / np.sqrt(one[node] + two[node])
        assert stats.kstest(z, "norm").pvalue > 0.01


def test_schemes_rank_as_planned() -> None:
    """Roots that want splits of their own: by root (C) beats one split for all (A, B), as the plan says."""
    rows = [(f"c{i}", f"l{j}") for i in range(6) for j in range(10 if i < 4 else 100)]
    counts = np.array([3.0 if c < "c4" else 0.0 for c, _ in rows])
    table = {"campaign": [row[0] for row in rows], "location": [row[1] for row in rows], "conversions": counts}
    planned, simulated, fine = {}, {}, {}
    for scheme in "ABC":
        asks = spec(scheme, split_by="campaign", api={"site_epsilon": 1.0, "conversions_per_epoch": 1})
        tree = asks.tree(table)
        plan = make_plan(asks, tree, prior.from_counts(tree, table, known=["campaign", "location"]))
        clients = api.clients(plan)
        assert isinstance(clients, W3cClients)
        clients = clients.with_tree(tree, start=START)
        measured = exactly(clients, rows, counts)
        truth, rng = tree.roll_up(counts), np.random.default_rng(3)
        figures = [answered(clients, tree, measured, rng, 2) for _ in range(100)]
        est = denoise(tree, np.stack([each.noisy for each in figures], 1), figures[0].variance)
        squared = ((est.count - truth[:, None]) ** 2).mean(axis=1)
        planned[scheme] = plan.expected.roots.plan
        simulated[scheme] = float(np.median(rmsre.roots(tree, truth, squared, asks.tau)))
        fine[scheme] = simulated[scheme] == pytest.approx(planned[scheme], rel=0.1)
    assert all(fine.values())
    assert planned["C"] < 0.95 * min(planned["A"], planned["B"])
    assert simulated["C"] < 0.95 * min(simulated["A"], simulated["B"])
    assert (planned["A"] < planned["B"]) == (simulated["A"] < simulated["B"]) or abs(
        planned["A"] / planned["B"] - 1
    ) < 0.02


def exactly(clients: W3cClients, rows: list[tuple[str, str]], counts: Any) -> Measured:
    """Reports of these counts, each of a device of its own."""
    from random import Random

    from attributary.browsers import UserAgent, UserAgentSettings
    from support.w3c_devices import Batch

    settings = UserAgentSettings(activation_seconds=None, histogram_size=1000)
    batches: dict[tuple[str, str], Batch] = {}
    for (campaign, location), count in zip(rows, counts, strict=True):
        for _ in range(int(count)):
            agent = UserAgent(settings, Random(1))
            for options in clients.saved_impressions({"campaign": campaign, "location": location}, START):
                agent.save_impression(options, "news.example", START)
            for call in clients.report_calls({}):
                histogram = agent.measure_conversion(call.options, "shop.example", START + 5)
                empty = Batch(call.options, np.zeros(len(histogram), np.int64))
                batch = batches.setdefault((call.task, json.dumps(call.batch)), empty)
                batch.sums += histogram
                batch.reports += 1
    return Measured(batches, counts)
