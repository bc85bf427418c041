"""Which plan was that? Files, keys and impressions of another plan are refused, or read by their own."""

import json
from fractions import Fraction
from math import exp
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from attributary import Measurements, Plan, Spec, Tree, api, make_plan
from attributary.api.ara.keys.key_layout import bits, domain, layout, tree_keys, with_mark
from attributary.api.ara.registration import registrations
from attributary.api.ara.service.aggregation import aggregate
from attributary.api.ara.service.summary_report import read_summary, write_summary
from attributary.api.ara.wire import avro
from attributary.api.ara.wire.payload import Contribution
from attributary.browsers import Client
from attributary.errors import InputError
from attributary.pipeline.denoise_summary import QueriedReports, denoise_batches
from attributary.types import Keys
from support.command import attributary
from support.exact import HUGE, least_squares
from support.plans import asked, counts, spec
from support.w3c_devices import ready as w3c_ready
from support.w3c_devices import spec as w3c_spec

WEEK = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
SITE, ADS = "https://shop.example", "https://ads.example"


def keyed(days: list[str] = WEEK, method: str = "equal", **options: Any) -> tuple[Plan, Tree]:
    given = Spec(
        epsilon=4, attributes=[{"name": "campaign"}, {"name": "day", "unknown": True, "domain": days}], **options
    )
    tree = given.tree({"campaign": ["a", "b"]})
    return api.clients(make_plan(given, tree, method=method)).plan, tree


def test_the_fingerprint_is_of_how_reports_are_read() -> None:
    plan, tree = keyed()
    same = [
        plan.at(1.0),
        plan.model_copy(update={"prior": plan.prior.model_copy(update={"conversions": 9.0})}),
        Plan.from_json(plan.to_json()),
        make_plan(plan.spec.model_copy(update={"tau": 3.0}), tree, method="equal"),
    ]
    assert {each.fingerprint for each in same} == {plan.fingerprint}
    assert json.loads(plan.to_json())["fingerprint"] == plan.fingerprint
    others = [keyed(["sun", *WEEK[:6]])[0], keyed(method="leaves")[0], keyed(l1=1000)[0], keyed(WEEK[:6])[0]]
    revenue = [{"name": "count"}, {"name": "revenue", "clip": 100}]
    others += [keyed(measures=revenue)[0], keyed(measures=[revenue[0], {**revenue[1], "clip": 50}])[0]]
    assert len({each.fingerprint for each in [plan, *others]}) == 1 + len(others)
    assert len({layout(each).plan for each in [plan, *others]}) == 1 + len(others)


def test_the_fingerprint_of_a_plan_by_node_has_its_nodes(tmp_path: Path) -> None:
    given = spec(known="a")
    tree, prior = asked(given)
    plan = make_plan(given, tree, prior, "per-node")
    plan.save(str(tmp_path / "plan.json"))
    assert Plan.load(str(tmp_path / "plan.json")).fingerprint == plan.fingerprint
    other = make_plan(given, tree, prior, "greedy")
    assert other.fingerprint != plan.fingerprint


def test_keys_begin_with_the_mark_and_other_bits_have_another() -> None:
    plan, tree = keyed()
    keys = tree_keys(layout(plan), tree)
    assert {f"{high >> 48:04x}" for high in keys[:, 0].tolist()} == {plan.mark}
    assert layout(plan).of_plan(keys).all() and not layout(keyed(method="leaves")[0]).of_plan(keys).any()
    wide = with_mark(plan.model_copy(update={"keys": bits(plan, {"campaign": 60}), "mark": None}))
    assert wide.fingerprint == plan.fingerprint and wide.mark != plan.mark


def test_a_plan_that_was_changed_after_its_keys_is_refused(tmp_path: Path) -> None:
    plan, _ = keyed()
    data = json.loads(plan.to_json())
    data["default"] = [10, 20]
    with pytest.raises(InputError, match=f"changed after it got its keys: they begin with {plan.mark}"):
        Plan.from_json(json.dumps(data))


@pytest.mark.parametrize(("lacking", "there"), [("mark", "keys"), ("keys", "a mark")])
def test_keys_and_their_mark_belong_together(lacking: str, there: str) -> None:
    data = json.loads(keyed()[0].to_json())
    del data[lacking]
    with pytest.raises(InputError, match=f"keys and their mark belong together; got {there} alone"):
        Plan.from_json(json.dumps(data))


def sent(source: dict[str, Any], trigger: dict[str, Any]) -> tuple[Client, dict[int, int]]:
    """The browser after an impression and its conversion, and what it contributed."""
    client = Client(rng=Random(1))
    client.source(json.dumps(source), page=ADS, reporter=ADS, time=0)
    client.trigger(json.dumps(trigger), page=SITE, reporter=ADS, time=3_600_000)
    made = [each for report in client.sent() for each in report.contributions]
    assert all(isinstance(each, Contribution) for each in made)
    return client, {each.key: each.value for each in made if each.value}


OTHERS = {
    "contributions": keyed(method="leaves")[0],
    "domain": keyed(["sun", *WEEK[:6]])[0],
    "shorter domain": keyed(WEEK[:3])[0],
}


@pytest.mark.parametrize("case", OTHERS)
def test_an_impression_of_another_plan_gets_its_values_or_nothing_and_is_counted(case: str) -> None:
    old, (new, _) = OTHERS[case], keyed()
    impression = registrations(old).source({"campaign": "a"}, SITE)
    client, nothing = sent(impression, registrations(new).trigger({"day": "fri"}))
    assert nothing == {} and client.outcomes == {"trigger-aggregate-no-contributions": 1}
    both = registrations(new, old)
    client, made = sent(impression, both.trigger({"day": "fri"}))
    if "fri" not in old.spec.unknown[0].labels:
        assert made == {} and client.outcomes == {"trigger-aggregate-no-contributions": 1}
    else:
        path, row = ["a", "fri"], old.default
        assert made == {layout(old).key(level, path): row[level] for level in range(2) if row[level]}
    mine = sent(both.source({"campaign": "a"}, SITE), both.trigger({"day": "fri"}))[1]
    assert mine == {layout(new).key(level, ["a", "fri"]): 32768 for level in range(2)}


def test_plans_with_other_windows_and_classes_share_a_trigger() -> None:
    delay = {"name": "delay", "unknown": True, "bucket": "1d", "buckets": 2}
    given = [spec(unknown=(delay,), known="a"), spec(unknown=({**delay, "buckets": 4},), known="a", split_by="a")]
    old, new = (make_plan(each, each.tree(counts())) for each in given)
    both = registrations(new, old)
    trigger = both.trigger({})
    assert "filters" not in trigger, "each has buckets of its own"
    for plan in (old, new):
        source = registrations(plan).source({"a": "r1"}, SITE)
        assert sent(source, trigger)[1] == sent(source, registrations(plan).trigger({}))[1] != {}


def test_an_impression_that_something_else_registered_is_no_node_of_the_plan() -> None:
    new, tree = keyed()
    source = registrations(new).source({"campaign": "a"}, SITE)
    del source["filter_data"]
    source["aggregation_keys"] = {
        name: hex(int(key, 16) & ~(1 << 111)) for name, key in source["aggregation_keys"].items()
    }
    made = sent(source, registrations(new).trigger({"day": "fri"}))[1]
    queried = {high << 64 | low for high, low in domain(new, tree).tolist()}
    assert made and not queried & made.keys()


def test_plans_that_cannot_be_told_apart_share_no_trigger() -> None:
    new, _ = keyed()
    with pytest.raises(InputError, match="plans are told apart by the mark of their keys; got .*: leave out"):
        registrations(new, new)
    with pytest.raises(InputError, match="asks for day, and the new one does not"):
        registrations(make_plan(given := spec(unknown=(), known="ab"), given.tree(counts())), new)


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Plan, Tree, Keys]:
    """p1.json and p2.json with other domains, each with a query in its folder, and summaries of the first."""
    monkeypatch.chdir(tmp_path)
    Path("clicks.csv").write_text("campaign\na\nb\n")
    for name, days in (("p1", WEEK), ("p2", ["sun", *WEEK[:6]])):
        keyed(days)[0].save(f"{name}.json")
        assert attributary("keys", f"{name}.json", "--impressions", "clicks.csv", "-o", name, "-q").exit_code == 0
    plan, tree = Plan.load("p1.json"), keyed()[1]
    keys = domain(plan, tree)
    sums = np.arange(len(keys)) * 32768
    write_summary("s.avro", keys, sums, stated=avro.StatedNoise(4, 65536, plan=plan.fingerprint))
    write_summary("s.json", keys, sums, stated=avro.StatedNoise(4, 65536, plan=plan.fingerprint))
    write_summary("service.avro", keys, sums)
    return plan, tree, keys


def test_what_does_not_belong_together_is_refused_by_name(files: tuple[Plan, Tree, Keys]) -> None:
    plan, other = files[0], Plan.load("p2.json")
    both = f"is of plan {plan.fingerprint}, and p2.json is plan {other.fingerprint}"
    marks = f"keys of another plan (mark {plan.mark}), and those of p2.json have mark {other.mark}"
    for summary, words in (("s.avro", both), ("s.json", both), ("service.avro", marks)):
        result = attributary("denoise", "p2.json", summary, "--tree", "p2/tree.parquet", "-o", "out.csv", code=2)
        assert result.exit_code == 2 and f"{summary} " in result.stderr and words in result.stderr
    result = attributary("denoise", "p2.json", "s.avro", "--tree", "p1/tree.parquet", "-o", "out.csv", code=2)
    assert result.exit_code == 2 and f"p1/tree.parquet {both}" in result.stderr
    assert not Path("out.csv").exists()
    with pytest.raises(InputError, match=f"s.avro is of plan {plan.fingerprint}"):
        Measurements.from_summary(other, "s.avro", files[1])
    assert attributary("denoise", "p1.json", "s.avro", "--tree", "p1/tree.parquet", "-o", "e.parquet").exit_code == 0
    assert attributary("report", "p1.json", "e.parquet", "-o", "r.html").exit_code == 0
    result = attributary("report", "p2.json", "e.parquet", "-o", "r.html", code=2)
    assert result.exit_code == 2 and f"e.parquet {both}" in result.stderr


def test_a_domain_of_another_plan_spends_nothing(files: tuple[Plan, Tree, Keys]) -> None:
    plan, other = files[0], Plan.load("p2.json")
    avro.write_domain("bare.avro", files[2])
    for given, words in (
        ("p1/domain.avro", "p1/domain.avro is of plan"),
        ("bare.avro", "bare.avro has keys of another"),
    ):
        with pytest.raises(InputError, match=words):
            aggregate(other, "none/", given, "ledger.sqlite", output="o.avro", seed=1)
    with pytest.raises(InputError, match="there is no file none/"):
        aggregate(plan, "none/", "p1/domain.avro", "ledger.sqlite", output="o.avro", seed=1)
    assert not Path("ledger.sqlite").exists()


def test_a_summary_states_the_plans_of_its_domain(files: tuple[Plan, Tree, Keys], tmp_path: Path) -> None:
    both = [Plan.load(name) for name in ("p1.json", "p2.json")]
    assert avro.plans_of_domain(["p1/domain.avro", "p2/domain.avro"]) == {
        f"p{i}/domain.avro": plan.fingerprint for i, plan in enumerate(both, 1)
    }
    assert pq.read_schema("p1/tree.parquet").metadata[b"plan"].decode() == both[0].fingerprint
    keys = np.concatenate([domain(plan, files[1]) for plan in both])
    stated = avro.StatedNoise(4, 65536, plan=",".join(plan.fingerprint for plan in both))
    write_summary("both.json", keys, np.arange(len(keys)) * 32768, stated=stated)
    assert read_summary("both.json").stated == stated
    alone = [Measurements.from_summary(plan, "both.json", files[1]) for plan in both]
    done = attributary(
        *("denoise", "p1.json", "both.json", "p2.json", "both.json", "-o", "out.parquet"),
        *("--tree", "p1/tree.parquet", "--tree", "p2/tree.parquet"),
    )
    assert done.exit_code == 0, done.stderr
    assert pq.read_table("out.parquet").column("noisy").to_pylist() == alone[0].plus(alone[1]).noisy.tolist()


def two_days(covers: bool) -> tuple[list[QueriedReports], list[Tree]]:
    plan, _ = keyed(WEEK[:2])
    trees = [plan.spec.tree({"campaign": names}) for names in (["a", "b"], ["a", "b", "new"])]
    batches = []
    for day, tree in enumerate(trees):
        write_summary(f"day{day}.avro", domain(plan, tree), np.arange(day, len(tree) + day) * 40000)
        batches.append(QueriedReports(plan, [f"day{day}.avro"], tree, covers))
    return batches, trees


def test_a_campaign_that_is_new_on_the_second_day(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    batches, trees = two_days(covers=True)
    alone = denoise_batches(batches[1:]).estimates["count"]
    both, unknown = denoise_batches(batches), denoise_batches([each._replace(covers=False) for each in batches])
    node = [i for i in range(len(trees[1])) if trees[1].path(i)[0] == "new"]
    sum_, lost = both.estimates["count"], unknown.estimates["count"]
    new = [[i for i in range(len(e.tree)) if e.tree.path(i)[0] == "new"] for e in (sum_, lost)]
    np.testing.assert_allclose(sum_.count[new[0]], alone.count[node], rtol=1e-12)
    np.testing.assert_allclose(sum_.variance[new[0]], alone.variance[node], rtol=1e-12)
    assert np.isinf(lost.variance[new[1]]).all() and "which has all impressions: they are 0 there" in "".join(
        both.notes
    )
    assert "which may lack some: they count as not measured" in "".join(unknown.notes)
    old = [i for i in range(len(sum_.tree)) if sum_.tree.path(i)[0] == "a"]
    np.testing.assert_allclose(sum_.variance[old], 2 * alone.variance[[trees[1].path(i)[0] == "a" for i in range(9)]])
    with pytest.raises(InputError, match=r"day0.avro holds the same figures as day0.avro; each is counted once"):
        denoise_batches([batches[0], batches[0]._replace(tree=trees[0])])


def test_a_report_with_sums_outside_its_own_tree_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tree of another day: its nodes would count as 0, although the report has sums of them."""
    monkeypatch.chdir(tmp_path)
    batches, trees = two_days(covers=True)
    wrong = [batches[0]._replace(summaries=batches[1].summaries), batches[1]._replace(summaries=batches[0].summaries)]
    with pytest.raises(InputError, match=r"day1.avro has sums of 3 nodes that its tree does not have, such as new"):
        denoise_batches(wrong)
    denoise_batches([each._replace(covers=False) for each in wrong])
    assert len(trees[0]) < len(trees[1])


def test_sums_of_two_days_and_plans_are_covered_as_stated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two plans, a campaign that is new on day 2: errors are as large as their variances say, at every node."""
    monkeypatch.chdir(tmp_path)
    plans = [keyed(WEEK[:2])[0], keyed(WEEK[1::-1], method="leaves")[0]]
    trees = [plans[i].spec.tree({"campaign": names}) for i, names in enumerate((["a", "b"], ["b", "new", "a"]))]
    rng, errors, variance = np.random.default_rng(3), [], np.zeros(0)
    for _ in range(400):
        truth: dict[tuple[str, ...], float] = {}
        batches = []
        for day, (plan, tree) in enumerate(zip(plans, trees, strict=True)):
            leaf = np.where(tree.is_leaf, rng.poisson(30, len(tree)), 0)
            count = tree.from_level_order(tree.in_level_order.sum_up(tree.to_level_order(leaf).astype(float)))
            for i in range(len(tree)):
                truth[tuple(tree.path(i))] = truth.get(tuple(tree.path(i)), 0) + count[i]
            has = plan.contribution(tree) > 0
            noise = rng.laplace(0, 65536 / 4, int(has.sum())).round().astype(int)
            sums = (count * plan.contribution(tree))[has].astype(int) + noise
            write_summary(f"{day}.avro", domain(plan, tree), sums)
            batches.append(QueriedReports(plan, [f"{day}.avro"], tree, True))
        est = denoise_batches(batches).estimates["count"]
        errors.append([est.count[i] - truth[tuple(est.tree.path(i))] for i in range(len(est.tree))])
        variance = est.variance
    z = np.sqrt(np.square(errors).mean(axis=0) / variance)
    assert np.isfinite(variance).all() and (abs(z - 1) < 0.15).all(), z


def test_weeks_of_two_plans_are_one_sum_with_exact_variances(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder for each day, two plans, a tree for each: least squares in fractions of sums in plain Python."""
    monkeypatch.chdir(tmp_path)
    rng, args = np.random.default_rng(5), list[str]()
    total: dict[tuple[str, ...], list[Fraction]] = {}
    weeks = [("p1", keyed(WEEK[:2])[0], ["a", "b"], 3), ("p2", keyed(WEEK[1::-1], "leaves")[0], ["b", "new", "a"], 2)]
    trees = []
    for name, plan, campaigns, days in weeks:
        plan.save(f"{name}.json")
        Path(f"{name}.csv").write_text("\n".join(["campaign", *campaigns, ""]))
        attributary("keys", f"{name}.json", "--impressions", f"{name}.csv", "-o", f"{name}.keys", "-q")
        plan, tree = Plan.load(f"{name}.json"), plan.spec.tree({"campaign": campaigns})
        contribution = plan.contribution(tree)
        for day in range(days):
            sums = rng.integers(0, 3_000_000, len(tree))
            epsilon = float(day + 1)
            stated = avro.StatedNoise(epsilon, 65536, plan=plan.fingerprint)
            measured = contribution > 0
            Path(name, str(day)).mkdir(parents=True)
            write_summary(f"{name}/{day}/part.avro", domain(plan, tree), sums[measured], stated=stated)
            decay = Fraction(exp(-epsilon / 65536))
            for i in range(len(tree)):
                value, variance = total.setdefault(tuple(tree.path(i)), [Fraction(0), Fraction(0)])
                if measured[i]:
                    share = int(contribution[i])
                    value += Fraction(int(sums[i]), share)
                    variance += 2 * decay / (1 - decay) ** 2 / share**2
                else:
                    variance = HUGE
                total[tuple(tree.path(i))] = [value, variance]
        args += [f"{name}.json", *(f"{name}/{day}" for day in range(days))]
        trees += ["--tree", f"{name}.keys/tree.parquet"] * days
    attributary("denoise", *args, *trees, "-o", "out.parquet", "-q")
    nodes = list(total)
    parent = [nodes.index(node[:-1]) if len(node) > 1 else -1 for node in nodes]
    noisy, variance = ([float(total[node][k]) for node in nodes] for k in (0, 1))
    count, exact = least_squares(parent, noisy, [np.inf if v > 1e50 else v for v in variance])
    rows = {tuple(filter(None, (row["campaign"], row["day"]))): row for row in pq.read_table("out.parquet").to_pylist()}
    assert rows.keys() == total.keys() and len(rows) == 9
    for node, expected, spread in zip(nodes, count, exact, strict=True):
        assert rows[node]["estimate"] == pytest.approx(float(expected), rel=1e-9)
        assert rows[node]["variance"] == pytest.approx(float(spread), rel=1e-9)


def test_trees_say_what_they_cover(files: tuple[Plan, Tree, Keys]) -> None:
    Path("more.csv").write_text("campaign\na\nb\nc\n")
    plan = files[0]
    for name, clicks, more in (("d1", "clicks.csv", ()), ("d2", "more.csv", ()), ("d3", "clicks.csv", ("--partial",))):
        assert attributary("keys", "p1.json", "--impressions", clicks, "-o", name, "-q", *more).exit_code == 0
        keys = avro.read_domain(f"{name}/domain.avro")
        write_summary(f"{name}/s.avro", keys, np.arange(len(keys)) * 32768 + int(name[1]))
    done = attributary("denoise", "p1.json", "d1/s.avro", "d2/s.avro", "-o", "out.parquet")
    assert done.exit_code == 0 and "8 nodes are not in the tree of d1/s.avro, which has all impressions" in done.stderr
    new = [row for row in pq.read_table("out.parquet").to_pylist() if row["campaign"] == "c"]
    one = Measurements.from_summary(plan, "d2/s.avro", plan.spec.tree({"campaign": ["a", "b", "c"]}))
    assert {row["noise_variance"] for row in new} == set(one.variance.tolist())
    done = attributary("denoise", "p1.json", "d2/s.avro", "d3/s.avro", "-o", "out.parquet")
    assert done.exit_code == 0 and "the tree of d3/s.avro, which may lack some" in done.stderr
    for trees, words in (("p1", "got 2 for 3"), ("p2", "is of plan")):
        given = ["--tree", f"{trees}/tree.parquet"] * (2 if trees == "p1" else 1)
        done = attributary(
            "denoise", "p1.json", "d1/s.avro", "d2/s.avro", "d3/s.avro", *given, "-o", "out.parquet", code=2
        )
        assert done.exit_code == 2 and words in done.stderr
    other = keyed(WEEK[:3])[0]
    other.save("p3.json")
    done = attributary(
        "denoise", "p1.json", "d1/s.avro", "p3.json", "d1/s.avro", "--tree", "clicks.csv", "-o", "o.csv", code=2
    )
    assert done.exit_code == 2 and "p1.json and p3.json do not: denoise each of them alone" in done.stderr


def test_pages_of_another_w3c_plan_match_no_impression_of_this_one() -> None:
    one, two = (w3c_ready(w3c_spec("B"), {"campaign": share})[0] for share in (0.2, 0.4))
    values = {"campaign": "campaign1", "location": "location1"}
    saved = {each.match_value for each in one.saved_impressions(values, 1_790_000_000)}
    wanted = {value for call in two.report_calls({}) for value in call.options.match_values}
    assert one.plan.fingerprint != two.plan.fingerprint and not saved & wanted
