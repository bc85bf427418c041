"""What-if under W3C Attribution: what budgets lose is bias beside the variance of noise, under other settings."""

from dataclasses import replace

import numpy as np
import pytest

from attributary import Spec, make_plan, what_if
from attributary.errors import InputError
from attributary.pipeline.read_changes import read_changes
from attributary.plan import expected
from attributary.prior import from_counts
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
