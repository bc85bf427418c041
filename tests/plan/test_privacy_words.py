"""What ε is of: one figure for each neighbour, and the same sentences wherever a plan is shown."""

import json
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attributary import Plan, make_plan
from attributary.api.ara import ARA
from attributary.explore import plan_tab
from attributary.facts.privacy import facts, plan_headline
from attributary.noise import MODELS
from attributary.plan.sections import PerImpression
from attributary.spec import Spec
from attributary.spec.privacy_unit import UNITS
from attributary.spec.terms import TERMS
from support.command import attributary
from support.plans import asked, spec

MEASURES = ({"name": "count"}, {"name": "revenue", "clip": 10})
BIGQUERY = {"kind": "bigquery", "table": "p.d.t", "privacy_unit": "user_id"}


def planned(method: str = "leaves", **options: Any) -> Plan:
    given = spec(**options)
    return make_plan(given, *asked(given), method)


@pytest.mark.parametrize("method", ["leaves", "equal", "optimal"])
@pytest.mark.parametrize("kind", ["api", "gaussian"])
@pytest.mark.parametrize("most", [1, 2])
def test_a_purchase_that_gives_way_to_another_moves_what_its_loss_says(method: str, kind: str, most: int) -> None:
    noise = {"noise": kind} | ({"delta": 1e-6} if kind == "gaussian" else {})
    plan = planned(method, conversions_per_impression=most, measures=MEASURES, **noise)
    count, revenue = (np.array(part.plan.default) / plan.spec.l1 for part in plan.by_measure)
    power = 2 if kind == "gaussian" else 1  # what adds up are squares of moves, each times its key's part of the budget
    largest = count.sum() + revenue.sum()
    for one, other in product((0, 0.5, 1), repeat=2):
        known = abs(one - other) ** power * revenue[:2].sum()
        unknown = 2 * count[2:].sum() + (one**power + other**power) * revenue[2:].sum()
        largest = max(largest, known + unknown)
    assert plan.privacy_loss.purchase == pytest.approx(plan.spec.noise_model.loss(largest), rel=1e-9)


def test_the_worst_root_counts_with_its_own_number_of_conversions() -> None:
    plan = planned("equal")
    rows = {"r0": (10922, 10923, 10923), "r1": (0, 0, 65536)}
    share = plan.measures[0].model_copy(update={"roots": rows})
    often = PerImpression(default=1, roots={"r0": 2, "r1": 1})
    given = plan.spec.model_copy(update={"split_by": "a", "conversions_per_impression": "auto"})
    update = {"spec": given, "per_impression": often, "measures": (share,)}
    assert plan.model_copy(update=update).privacy_loss == pytest.approx((4, 8, 8))
    r0 = share.model_copy(update={"default": rows["r0"], "roots": {"r0": rows["r0"]}})
    alone = plan.model_copy(update={**update, "measures": (r0,)})
    assert (alone.privacy_loss.purchase or 9) < alone.privacy_loss.conversion  # one of two


@pytest.mark.parametrize(
    ("options", "first", "purchase"),
    [
        ({}, "ε = 4: whether an impression has its counted conversion", "ε = 8: one logged purchase more or less, if"),
        (
            {"conversions_per_impression": 2},
            "ε = 4: whether an impression has its counted conversions, all of them together",
            "ε = 4: one logged purchase more or less, if all impressions have the same priority, window and dest",
        ),
        (
            {"measures": MEASURES},
            "ε = 4: whether an impression has its counted conversion",
            "ε = 8: one logged purchase more or less, or with another value, if all impressions",
        ),
        (
            {"noise": "gaussian", "delta": 1e-6, "neighbours": "definition-1", "known": "a"},
            "ε = 4: whether an impression has its counted conversion",
            "ε = 4: one logged purchase",
        ),
    ],
)
def test_terminal_page_notebook_explorer_and_files_say_the_same(
    options: dict[str, Any], first: str, purchase: str, tmp_path: Path
) -> None:
    plan = planned(**options)
    words = plan.privacy_words
    assert words.lines[0] == first and words.lines[1].startswith(purchase)
    fact = next(fact for fact in facts(plan, None) if fact.name == "Privacy budget")
    shown = " ".join((*fact.more, fact.warning)).replace("\u00a0", " ")
    assert all(sentence in shown for sentence in words.sentences)
    assert f"Privacy budget: ε = 4 ({words.unit})." in plan_headline(plan)[-1].replace("\u00a0", " ")
    notebook = plan._repr_html_().replace("&#x27;", "'").replace("&#39;", "'").replace("&quot;", '"')
    assert all(line in notebook for line in words.all_lines)
    assert json.loads(plan.to_json())["privacy"]["unit"] == words.unit
    assert json.loads(plan.to_json())["privacy"]["cost"]["purchase"] == plan.privacy_loss.purchase
    tree, before = asked(plan.spec)
    if not plan.spec.values:
        start = plan_tab.start_of_prior(plan.spec, tree, before, "x")
        share = ",".join(str(part) for part in plan.default)
        assert plan_tab.answer(start, {"share": share})["privacy"] == words.sentences


def test_the_command_and_its_summary_say_it(tmp_path: Path) -> None:
    text = 'epsilon = 4\n[[attribute]]\nname = "a"\n[[attribute]]\nname = "day"\nunknown = true\ndomain = ["x", "y"]\n'
    (tmp_path / "spec.toml").write_text(text)
    (tmp_path / "prior.csv").write_text("a,day,conversions\nr,x,5\nr,y,7\n")
    given = ("--prior", tmp_path / "prior.csv", "--method", "leaves", "--summary", tmp_path / "s.json")
    said = attributary("plan", tmp_path / "spec.toml", *given, "-o", tmp_path / "plan.json").output
    lines = Plan.load(str(tmp_path / "plan.json")).privacy_words.all_lines
    assert all(line in " ".join(said.split()) for line in lines) and len(lines) == 3
    assert json.loads((tmp_path / "s.json").read_text())["plan"]["privacy"] == lines


def test_an_api_with_a_unit_of_its_own_says_that_and_nothing_of_purchases() -> None:
    given = Spec(epsilon=2, delta=1e-6, api=BIGQUERY, attribute=[{"name": "a"}, {"name": "b"}])
    tree = given.tree({"a": ["x", "y"], "b": ["1", "2"]})
    plan = make_plan(given, tree, method="equal")
    assert plan.privacy_loss.purchase is None
    assert plan.privacy_words.lines == ("ε = 2: whether the table has the rows of one user_id",)
    assert "with them as without them, but for a chance of 1e-06" in facts(plan, None)[1].more[0]
    assert json.loads(plan.to_json())["privacy"]["cost"]["purchase"] is None


def test_of_an_api_that_does_not_say_how_it_attributes_no_bound_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TERMS, ARA.kind, replace(ARA, one_impression=""))
    plan = planned(api={"kind": ARA.kind})
    assert plan.privacy_words.lines[1] == "no bound is known for one logged purchase more or less"
    assert json.loads(plan.to_json())["privacy"]["cost"]["purchase"] is None


def test_the_explorer_offers_what_the_registries_have() -> None:
    offered = plan_tab.answer(plan_tab.made_up_start((3, 2)), {})
    assert offered["relations"] == [(name, unit.protects) for name, unit in UNITS.items()]
    assert {"api", "unit", "gaussian"} <= {name for name, _ in offered["noises"]} <= set(MODELS)
    assert all(words == MODELS[name].short for name, words in offered["noises"])
