"""What-if under W3C Attribution: what budgets lose is bias beside the variance of noise, under other settings."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from attributary import Plan, Spec, make_plan, what_if
from attributary.errors import InputError
from attributary.evaluate import Method, evaluate
from attributary.evaluate.user_cases import user_cases
from attributary.facts.plan import batch_lines, prior_lines
from attributary.pipeline.read_changes import read_changes
from attributary.plan import expected
from attributary.prior import from_counts
from attributary.spec.measure import MICRO
from attributary.spec.mistakes import Mistakes

RNG = np.random.default_rng(3)
FULL = RNG.poisson(300, 12)
AT = {times: RNG.binomial(FULL, kept) for times, kept in ((1, 0.6), (2, 0.9), (3, 1.0))}
TABLE = {
    "campaign": [f"c{i // 4}" for i in range(12)],
    "place": [f"p{i}" for i in range(12)],
    "conversions": AT[1].tolist(),
    **{f"conversions_at_{times}": each.tolist() for times, each in AT.items()},
    "conversions_beyond": (FULL - AT[1]).tolist(),
}


def asked(**api: object) -> Spec:
    section = {"kind": "w3c", "site_epsilon": 3.0, **api}
    return Spec(api=section, attribute=[{"name": "campaign"}, {"name": "place"}], tau=10)


def test_each_number_of_conversions_has_its_loss_and_its_noise() -> None:
    spec = asked()
    tree = spec.tree(TABLE)
    prior = from_counts(tree, TABLE, known=["campaign", "place"], spec=spec)
    plan = make_plan(spec, tree, prior, profile=prior.profile)
    changes = read_changes(["conversions_per_epoch=1,2,3,9", "aggregators=1"], spec, None)
    found = {v.change.words: v for v in what_if(plan, tree, prior, changes, profile=prior.profile)}
    full = replace(prior, mean=tree.roll_up(FULL))
    for times in (1, 2, 3, 9):
        variant = found[f"conversions_per_epoch={times}"]
        assert variant.plan.spec.epsilon == pytest.approx(3 / times, abs=1e-6)
        lost = 1 - AT[min(times, 3)].sum() / FULL.sum()
        assert (variant.plan.measures[0].cut_off or 0) == pytest.approx(lost, abs=0.01)  # two digits, not protected
        bias = tree.roll_up(FULL - AT[min(times, 3)])
        variance = expected(variant.plan, tree, full).variance
        squared = (variance + bias**2) / np.maximum(full.mean, 10) ** 2
        levels = [squared[tree.level == level].mean() for level in range(2)]
        assert [e.error.plan for e in variant.plan.expected.levels] == pytest.approx(np.sqrt(levels), rel=1e-9)
        noise = variance / np.maximum(full.mean, 10) ** 2
        assert variant.noise == pytest.approx(
            np.sqrt(np.mean([noise[tree.level == level].mean() for level in range(2)])), rel=1e-9
        )
    assert found["aggregators=1"].noise < found["conversions_per_epoch=1"].noise  # type: ignore[operator]


def test_a_prior_counted_under_one_setting_serves_another() -> None:
    """Counts of a spec that lets one conversion pay tell what is left where two do."""
    two = asked(conversions_per_epoch=2)
    tree = two.tree(TABLE)
    prior = from_counts(tree, TABLE, known=["campaign", "place"], spec=two)
    plan = make_plan(two, tree, prior, profile=prior.profile)
    assert plan.measures[0].cut_off == pytest.approx(1 - AT[2].sum() / FULL.sum(), abs=0.01)
    partly = {name: column for name, column in TABLE.items() if name != "conversions_at_2"}
    with pytest.raises(InputError, match="where budgets pay for 1, 3 conversions; got 2"):
        from_counts(tree, partly, known=["campaign", "place"], spec=two)


def test_another_api_has_what_the_unit_is_granted_as_its_epsilon() -> None:
    spec = asked(conversions_per_epoch=2)
    tree = spec.tree(TABLE)
    prior = from_counts(tree, TABLE, known=["campaign", "place"], spec=spec)
    plan = make_plan(spec, tree, prior, profile=prior.profile)
    (other,) = what_if(plan, tree, prior, read_changes(["api=ara"], spec, None), profile=prior.profile)
    ara = Spec(epsilon=3.0, attribute=[{"name": "campaign"}, {"name": "place"}], tau=10)
    same = make_plan(ara, tree, replace(prior, mean=tree.roll_up(FULL), profile=None))
    assert other.plan.spec.epsilon == 3.0
    assert other.plan.spec.terms.kind == "ara"
    assert other.plan.default == same.default
    assert other.plan.expected.tree == same.expected.tree
    assert other.noise is None


def test_what_a_setting_cannot_be_is_refused() -> None:
    spec = asked()
    for text, rule in (
        ("conversions_per_epoch=0", "1 or more; got 0"),
        ("scheme=D", '"A", "B" or "C"'),
        ("aggregators=3", "1 or 2"),
        ("api=none", "the attribution API is"),
        ("epsilons=1", "conversions_per_epoch"),
    ):
        with pytest.raises(InputError, match=rule):
            read_changes([text], spec, None)
    with pytest.raises(InputError, match="none here"):
        read_changes(["scheme=A"], Spec(epsilon=1, attribute=[{"name": "campaign"}]), None)
    assert issubclass(Mistakes, InputError)


@pytest.mark.parametrize("scheme", [None, "A", "B", "C"])
def test_evaluate_has_the_errors_of_the_plan(scheme: str | None) -> None:
    """The same scheme, whole credits and losses: exact errors of the optimal split are those that the plan expects."""
    spec = asked(site_epsilon=0.3, conversions_per_epoch=2, **({"scheme": scheme} if scheme else {}))
    tree = spec.tree(TABLE)
    prior = from_counts(tree, TABLE, known=["campaign", "place"], spec=spec)
    plan = make_plan(spec, tree, prior, profile=prior.profile)
    (case,) = user_cases(spec, TABLE)
    table = evaluate([case], [Method.of("optimal", "unbiased")], epsilons=[spec.epsilon], taus=[10], draws=2)
    exact = {row["level"]: row["rmsre"] for row in table.to_pylist() if row["kind"] == "exact"}
    assert exact == pytest.approx(
        {**{e.level: e.error.plan for e in plan.expected.levels}, None: plan.expected.tree.plan}, rel=1e-6
    )
    assert case.spec.noise == plan.spec.noise


def test_batches_that_are_too_small_are_told_before_and_after() -> None:
    """By the prior's conversions when planning, and by those that were measured after a run."""
    day = {"name": "day", "unknown": True, "domain": ["mon", "tue", "wed"]}
    spec = Spec(api={"kind": "w3c", "site_epsilon": 9.0}, attribute=[{"name": "campaign"}, day], tau=10)
    table = {"campaign": ["a"] * 3 + ["b"] * 3, "day": ["mon", "tue", "wed"] * 2, "conversions": [15, 9, 19, 5, 0, 0]}
    tree = spec.tree(table)
    prior = from_counts(tree, table, known=["campaign"], spec=spec)
    plan = make_plan(spec, tree, prior, profile=prior.profile)
    (line,) = batch_lines(plan, tree, prior.mean, "by the prior")
    assert line.warning
    assert "2 of 3 by day have fewer than 20 reports by the prior, with 58.3" in line.text  # 9 and 19 of 48
    assert line in prior_lines(plan, tree, prior, "earlier.csv")
    assert not batch_lines(plan, tree, 3 * prior.mean, "by the prior")
    assert not batch_lines(plan, tree, 0 * prior.mean, "by the prior")  # where nothing is known
    five = spec.with_api({"minimum_batch": 5})
    assert not batch_lines(make_plan(five, tree, prior, profile=prior.profile), tree, prior.mean, "by the prior")
    ara = Spec(epsilon=9, attribute=[{"name": "campaign"}, day], tau=10)
    assert not batch_lines(make_plan(ara, tree, prior), tree, prior.mean, "by the prior")


@pytest.mark.parametrize("first", ["day", "campaign"])
def test_a_plan_of_values_by_batches_is_read_as_it_was_written(first: str) -> None:
    """Its ε is of whole µε for each of 255 credits, which may be 254 µε less than the section grants."""
    attributes = [{"name": "day", "unknown": True, "domain": ["mon", "tue"]}, {"name": "campaign"}]
    attributes = attributes if first == "day" else attributes[::-1]
    api = {"kind": "w3c", "site_epsilon": 4.0, "conversions_per_epoch": 2, "scheme": "B"}
    measure = {"name": "revenue", "column": "value", "clip": 100.0}
    spec = Spec(api=api, attribute=attributes, measure=[measure], tau=10)
    plan = make_plan(spec, spec.tree(TABLE))
    assert plan.spec.epsilon == pytest.approx(2.0 - 35 / MICRO, abs=1e-12)
    assert Plan.from_json(plan.to_json()).to_json() == plan.to_json()


def test_batches_above_indexes_are_told_once() -> None:
    """Day and campaign are in the same batches, by day; and the tree has the same figures in whatever order."""
    day = {"name": "day", "unknown": True}
    rows = {"campaign": ["a"] * 3 + ["b"] * 3, "day": ["mon", "tue", "wed"] * 2, "conversions": [15, 9, 19, 5, 0, 0]}
    lines, sums = [], []
    for attributes in ([day, {"name": "campaign"}], [{"name": "campaign"}, day]):
        spec = Spec(api={"kind": "w3c", "site_epsilon": 9.0, "scheme": "A"}, attribute=attributes, tau=10)
        tree = spec.tree(rows)
        prior = from_counts(tree, rows, known=["campaign"], spec=spec)
        plan = make_plan(spec, tree, prior, profile=prior.profile, method="equal")
        lines += batch_lines(plan, tree, prior.mean, "by the prior")
        sums.append({frozenset(tree.path(leaf)): prior.mean[leaf] for leaf in tree.leaves})
        (case,) = user_cases(spec, pa.table(rows))
        np.testing.assert_array_equal(case.tree.offsets, tree.offsets)
    assert sums[0] == sums[1] and lines[0].text == lines[1].text and len(lines) == 2
    assert "2 of 3 by day have fewer than 20 reports by the prior, with 58.3" in lines[0].text
    new = from_counts(tree, {"campaign": ["a"], "day": ["tue"], "conversions": [3]}, known=["campaign"])
    assert {tree.path(node)[0] for node in np.flatnonzero(new.new)} == {"b"}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"scheme": "C"}, "C has no batches above attributes of the impression: use A or B"),
        ({"site": "day"}, "got 'day', which is unknown to them: use conversion_site"),
    ],
)
def test_what_cannot_stand_below_batches_is_refused(changes: dict[str, str], words: str) -> None:
    attributes = [{"name": "day", "unknown": True, "domain": ["mon", "tue"]}, {"name": "campaign"}]
    with pytest.raises(InputError, match=words):
        Spec(api={"kind": "w3c", "site_epsilon": 3.0, **changes}, attribute=attributes)
    plan = make_plan(fine := Spec(api={"kind": "w3c", "site_epsilon": 3.0}, attribute=attributes), fine.tree(TABLE))
    assert plan.schemes is not None and plan.schemes[2].refused == "saves no impressions for batches above indexes"
    with pytest.raises(InputError, match=r"attribute\[2\]: known attributes come before unknown ones"):
        Spec(epsilon=1, attribute=attributes)


def test_batches_are_the_values_that_occur() -> None:
    """Without a domain, tree and plan are those of the domain that has what occurs; impressions have no value."""
    table = {"campaign": ["a", "a", "b", "b", "b"], "day": ["tue", "mon", None, "mon", "sun"], "conversions": [9] * 5}

    def of(**domain: object) -> Spec:
        attributes = [{"name": "campaign"}, {"name": "day", "unknown": True, **domain}]
        return Spec(api={"kind": "w3c", "site_epsilon": 3.0, "scheme": "A"}, attribute=attributes, tau=10)

    free, given = of(), of(domain=["mon", "sun", "tue"])
    trees = [spec.tree(table) for spec in (free, given)]
    assert trees[0].table().equals(trees[1].table())
    plans = [make_plan(spec, tree) for spec, tree in zip((free, given), trees, strict=True)]
    assert plans[0].fingerprint == plans[1].fingerprint
    assert plans[0].spec.unknown[0].labels == ("mon", "sun", "tue")
    for wrong in ({"campaign": ["a"]}, {"campaign": ["a"], "day": [None]}):
        with pytest.raises(InputError, match="takes the values that occur"):
            free.tree(wrong)
    with pytest.raises(InputError, match="needs a domain"):
        Spec(epsilon=1, attribute=[{"name": "campaign"}, {"name": "day", "unknown": True}])
