"""Values under W3C Attribution: what a report is charged, what is chosen as maxValue, and what the sums say."""

import json
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from attributary import Plan, Spec, api, make_plan
from attributary.api.w3c.attribution_options import DAY
from attributary.api.w3c.histogram_results import answer
from attributary.api.w3c.ledgers import values_of, walked
from attributary.api.w3c.page_calls import W3cClients
from attributary.api.w3c.schemes import STEPS, ReportKind
from attributary.browsers import UserAgent, UserAgentSettings
from attributary.errors import InputError
from attributary.logs.count import count
from attributary.logs.devices import Devices
from attributary.pipeline.run import run
from attributary.plan.variants import Change, what_if
from attributary.prior import from_counts

BEGIN = 1_790_000_000
DAY_OF_SALE = {"name": "day", "unknown": True, "domain": ["mon", "tue"]}


def spec(
    clip: float | None = 80.0, scheme: str | None = "B", measures: Sequence[str] = ("revenue",), **api: Any
) -> Spec:
    section = {"kind": "w3c", "site_epsilon": 2.0, "conversions_per_epoch": 2, "scheme": scheme, **api}
    each = [{"name": name} | ({"clip": clip} if clip and name != "count" else {}) for name in measures]
    logs = {"impressions": "i.csv", "conversions": "c.csv", "user": "user", "time": "time", "window": "30d"}
    attributes = [{"name": "campaign"}, {"name": "place"}]
    section = {key: value for key, value in section.items() if value is not None}
    return Spec(api=section, attribute=attributes, measure=each, logs=logs, tau=10)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"scheme": "A"}, r'api.scheme: .*values are measured by scheme "B"; got \'A\': add scheme = "B"'),
        ({"scheme": None}, r'api.scheme: .*got None: add scheme = "B"'),
        ({"measures": ("revenue", "count")}, r"one measure at a time; got revenue, count: make a spec for each"),
        ({"site": "campaign"}, r"api.site: .*got 'campaign': leave it out"),
    ],
)
def test_what_is_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        spec(**given)


@pytest.mark.parametrize("worth", [80.0, 48.0, 16.0])
def test_a_budget_pays_for_whole_values(worth: float) -> None:
    """An epoch that pays for two conversions of the clip pays for 3 of three fifths of it, or for 10 of a fifth."""
    number = 12
    start = np.array([0, number + 1])
    moment = 2 * 10**6 * (BEGIN + np.arange(number + 1)) + (np.arange(number + 1) > 0)
    views = pa.table({"code": [0], "known_0": ["a"], "known_1": ["b"]})
    kinds = pa.table({"code": [0], "unknown_0": [None], "value_0": [round(worth * 10**6)], "number": [number]})
    devices = Devices(start, moment, np.zeros(number + 1, np.int64), views, kinds, True, (-(2**62), 2**62), 0)
    kind = ReportKind("place", (0, 1), (55, 200), 10**6, STEPS, 0)
    done = walked(spec(), devices, [[kind]], 2, 0, 80.0)
    paid = int(2 * 80.0 / worth)
    assert (done.given[0] >= 0).tolist() == [True] * paid + [False] * (number - paid)
    assert values_of(devices).tolist() == [worth * 10**6]
    parts = [done.amounts([kind], level) for level in (0, 1)]
    assert (sum(parts) == done.units[0]).all()
    assert np.abs(parts[0] - done.units[0] * 55 / STEPS).max() < 1


def logs(folder: Path, devices: int = 400, seed: int = 3) -> float:
    """Logs of devices with one view and some sales each; the sum of what is sold."""
    rng, views, sales = Random(seed), ["user,time,campaign,place"], ["user,time,revenue"]
    total = 0.0
    for device in range(devices):
        at = BEGIN + rng.randrange(20 * DAY)
        views.append(f"{device},{at},{rng.choice('ab')},{rng.choice('xyz')}")
        for _ in range(rng.choice([1, 1, 2, 4])):
            at, worth = at + rng.randrange(1, 5000), round(rng.lognormvariate(3, 1), 2)
            sales.append(f"{device},{at},{worth}")
            total += worth
    (folder / "i.csv").write_text("\n".join(views) + "\n")
    (folder / "c.csv").write_text("\n".join(sales) + "\n")
    return total


def test_the_clip_that_is_chosen_has_the_least_error(tmp_path: Path) -> None:
    total = logs(tmp_path)
    counts = count(spec(None), str(tmp_path))
    table, reported = counts.table, counts.reported
    assert reported is not None
    assert reported.whole == pytest.approx(total)
    sums = {name: sum(table.column(name).to_pylist()) for name in table.column_names if name.startswith("revenue")}
    assert sums["revenue"] + sums["revenue_beyond"] == pytest.approx(total)
    for clip, here in reported.by_clip.items():  # each as if the spec had given it
        one = count(spec(clip), str(tmp_path))
        assert sum(one.table.column("revenue").to_pylist()) == pytest.approx(here) == sums[f"revenue_at_{clip:g}"]
    tree = spec(None).tree(table)
    prior = from_counts(tree, table, spec=spec(None))
    plan = make_plan(spec(None), tree, prior, profile=prior.profile)
    errors = {}
    for clip in reported.by_clip:
        fixed = count(spec(clip), str(tmp_path)).table
        known = from_counts(tree, fixed, spec=spec(clip))
        errors[clip] = make_plan(spec(clip), tree, known, profile=known.profile).expected.tree.plan
    assert errors[plan.measures[0].clip] == pytest.approx(min(errors.values()), rel=0.02)
    assert min(errors.values()) < 0.9 * errors[max(errors)]  # the largest values are not worth their noise
    with pytest.raises(InputError, match="known for conversions_per_epoch = 2; got 4: count with it in the spec"):
        list(what_if(plan, tree, prior, [Change("4", api={"conversions_per_epoch": 4})], profile=prior.profile))


@pytest.mark.parametrize("clip", [0.000125, 1234567.25, 1e9])
def test_a_clip_is_the_same_number_in_counts_and_plan(clip: float, tmp_path: Path) -> None:
    logs(tmp_path, devices=40)
    table = count(spec(clip), str(tmp_path)).table
    tree = spec(clip).tree(table)
    prior = from_counts(tree, table, spec=spec(clip))
    assert make_plan(spec(clip), tree, prior, profile=prior.profile).measures[0].clip == clip


@pytest.mark.parametrize("site_epsilon", [1.000013, 2.0, 3.3])
def test_a_plan_with_batches_is_read_as_it_was_written(site_epsilon: float, tmp_path: Path) -> None:
    asks = spec(80.0, site_epsilon=site_epsilon)
    asks = asks.with_keys(attribute=[{"name": "campaign"}, {"name": "place"}, DAY_OF_SALE])
    tree = asks.tree({"campaign": ["a", "a", "b"], "place": ["x", "y", "x"]})
    plan = make_plan(asks, tree, share={"campaign": 0.2, "place": 0.3})
    assert sum(plan.default) == STEPS and all(plan.default)
    plan.save(tmp_path / "plan.json")
    again = Plan.load(str(tmp_path / "plan.json"))
    assert again == plan
    calls = api.clients(again)
    assert isinstance(calls, W3cClients)
    calls = calls.with_tree(tree, start=BEGIN)
    each = [call.options for call in calls.report_calls({"day": "mon", "revenue": 16.0}, conversion_id=1)]
    spend = sum(options.epsilon for options in each)
    assert site_epsilon / 2 - STEPS / 1e6 <= spend <= site_epsilon / 2
    assert [options.value for options in each] == pytest.approx([options.max_value / 5 for options in each], abs=1)


def test_sums_of_browsers_are_the_values(tmp_path: Path) -> None:
    """Without noise, and with budgets that last, the answer is the clipped sum but for rounding; run says so, too."""
    asks = spec(site_epsilon=200.0, conversions_per_epoch=100)
    rng = Random(1)
    paths = [(c, p) for c in "ab" for p in "xyz"]
    tree = asks.tree({"campaign": [c for c, _ in paths], "place": [p for _, p in paths]})
    clients = api.clients(make_plan(asks, tree, share={"campaign": 0.35}))
    assert isinstance(clients, W3cClients)
    clients = clients.with_tree(tree, start=BEGIN)
    sums, truth, reports = None, dict.fromkeys(paths, 0.0), 0
    settings = UserAgentSettings(
        site_budget=200_000_000, global_budget=10**10, impression_site_quota=10**10, histogram_size=100,
        activation_seconds=None,
    )  # fmt: skip
    for device in range(300):
        agent, path, at = UserAgent(settings, Random(device)), rng.choice(paths), BEGIN + device
        for options in clients.saved_impressions({"campaign": path[0], "place": path[1]}, at):
            agent.save_impression(options, "news.example", at)
        for i in range(4):
            worth = rng.choice([0, None, 3.33, 79.99, 200, rng.expovariate(1 / 40)])
            truth[path] += min(worth or 0, 80.0)
            calls = clients.report_calls({"revenue": worth}, conversion_id=4 * device + i)
            assert bool(calls) <= bool(worth)
            for call in calls:
                histogram = np.array(agent.measure_conversion(call.options, "shop.example", at + 1 + i))
                assert histogram.sum() == call.options.value
                sums, reports = histogram if sums is None else sums + histogram, reports + 1
    assert sums is not None
    results = tmp_path / "results.json"
    results.write_text(json.dumps([{"task": call.task, "report_count": reports, "vector": sums.tolist()}]))
    measured = answer(clients.plan, [str(results)], tree).measures
    assert list(measured) == ["revenue"]
    exact = np.zeros(len(tree))
    for i, row in enumerate(tree.table().to_pylist()):
        exact[i] = sum(w for (c, p), w in truth.items() if row["campaign"] in (c, None) and row["place"] in (p, None))
    assert measured["revenue"].noisy == pytest.approx(exact, rel=0.02)
    assert measured["revenue"].variance == pytest.approx(clients.plan.variance(tree))
    with pytest.raises(InputError, match="'revenue' is missing; measure 'revenue' needs it"):
        clients.report_calls({})


def test_run_measures_what_budgets_leave(tmp_path: Path) -> None:
    total = logs(tmp_path)
    done = run(spec(conversions_per_epoch=1), str(tmp_path), rng=np.random.default_rng(0))
    tree, est = done.tree, done.estimates["revenue"]
    heads = tree.level == 0
    assert done.truth["revenue"][heads].sum() == pytest.approx(total)
    assert isinstance(done.plan, Plan)
    (lost,) = {sum(loss.lost.values()) / loss.conversions for loss in done.losses}
    assert 0.02 < lost < 0.5
    reported = sum(done.counts.table.column("revenue").to_pylist())
    assert reported < 0.95 * total
    deviation = np.sqrt(est.variance[heads].sum())
    assert abs(np.asarray(est.count)[heads].sum() - reported) < 5 * deviation < total
    assert "Lost to budgets" in done.page()
