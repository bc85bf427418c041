"""Plans for estimates that use the prior, too: what they expect, what they keep to, and what they refuse."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from tests.cli.test_cli_plan import SPEC, SPLIT, counts

from attributary import prior
from attributary.budget.methods import LIMIT
from attributary.cli import main
from attributary.errors import InputError
from attributary.evaluate import methods
from attributary.paper import generate
from attributary.plan import Plan, expected, make_plan
from attributary.spec import Spec
from support.command import attributary
from support.effort import examples, first_of
from support.plans import UNKNOWN, asked, spec, specs

OPTIONS: list[dict[str, Any]] = [{}, {"split_by": "a"}, {"total": True}, {"split_by": "a", "total": True}]
OPTIONS += [
    {"noise": "unit"},
    {"noise": "gaussian", "delta": 1e-6},
    {"weights": "counts"},
    {"neighbours": "definition-1", "split_by": "a"},
]


@pytest.mark.parametrize("options", first_of(OPTIONS), ids=str)
def test_the_errors_are_those_of_estimates_that_use_the_prior(options: dict[str, Any]) -> None:
    given = spec(**options)
    tree, then = asked(given, seed=3, campaigns=30, seen=28)
    plain, plan = (make_plan(given, tree, then, learn=learn) for learn in (False, True))
    known = prior.foreseen(tree, then, tau=given.tau)
    assert plan.expected.tree.plan == expected(plan, tree, then, known).tree
    assert plan.expected.tree.plan <= expected(plain, tree, then, known).tree * 1.01
    assert plan.expected.tree.plan < expected(plan, tree, then).tree
    assert plan.learn and plain.learn is None


@settings(max_examples=examples(25), deadline=None)
@given(given=specs())
def test_a_plan_of_any_kind_keeps_its_promises(given: Spec) -> None:
    tree, then = asked(given, seed=5, campaigns=12, seen=10)
    plan = make_plan(given, tree, then, learn=True)
    assert given.neighbours in plan.guarantees or given.neighbours == "conversion"
    assert plan.privacy_loss.conversion <= given.epsilon * (1 + 1e-9)
    again = Plan.from_json(plan.to_json())
    assert again == plan.to_hand_on and again.learn


@pytest.mark.parametrize("options", first_of([{"split_by": "a"}, {}]), ids=str)
def test_without_the_prior_it_is_a_quarter_above_the_best_at_most(options: dict[str, Any]) -> None:
    for seed in range(4):
        given = spec(epsilon=1, **options)
        tree, then = asked(given, seed=seed, campaigns=30, seen=30)
        plain, plan = (make_plan(given, tree, then, learn=learn) for learn in (False, True))
        least, errors = (expected(p, tree, then) for p in (plain, plan))
        rounding = 1.001  # to whole contributions
        if options:
            assert (errors.roots <= LIMIT * least.roots * rounding).all()
        else:
            assert errors.tree <= LIMIT * least.tree * rounding


def test_a_plan_says_what_it_is_for() -> None:
    given = spec()
    tree, then = asked(given, campaigns=30)
    plan = make_plan(given, tree, then, learn=True)
    assert json.loads(plan.to_json())["learn"] is True
    assert "learn" not in json.loads(make_plan(given, tree, then).to_json())
    assert "assume `denoise --prior`" in plan._repr_html_()
    with pytest.raises(ValueError, match="another epsilon: make another plan"):
        plan.at(2.0)


def test_what_does_not_go_with_it_is_refused() -> None:
    given = spec()
    tree, then = asked(given)
    for method in ("greedy", "equal", "leaves", "per-node"):
        with pytest.raises(InputError, match="made by the method optimal"):
            make_plan(given, tree, then, method, learn=True)
    with pytest.raises(InputError, match="needs a prior"):
        make_plan(given, tree, learn=True)
    valued = Spec(
        epsilon=4,
        attributes=[{"name": "a"}, {"name": "b"}, UNKNOWN],
        measures=[{"name": "revenue", "column": "value", "clip": 5}],
    )
    with pytest.raises(InputError, match="needs a prior: .* revenue"):
        make_plan(valued, tree, then, learn=True)
    several = valued.model_copy(update={"measures": (*spec().asked, *valued.asked)})
    with pytest.raises(InputError, match="is for one measure, with limits that the spec gives"):
        make_plan(several, tree, then, learn=True)


def test_the_method_can_be_evaluated() -> None:
    method = methods()["planned-learned"]
    assert method.slow and not method.scales


# The command


@pytest.fixture(autouse=True)
def _empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")
    Path("spec.toml").write_text(SPEC, encoding="utf-8")
    Path("split.toml").write_text(SPLIT, encoding="utf-8")
    Path("counts.csv").write_text(counts(60), encoding="utf-8")


run = partial(attributary, "plan", code=None)


def test_plan_learn_prints_and_writes_what_it_is_for() -> None:
    result = run("split.toml", "--prior", "counts.csv", "--estimator", "learned", "-o", "plan.json")
    assert result.exit_code == 0, result.output
    assert "for estimates that use the prior" in result.stderr and "denoise --prior" in result.stderr
    given, table = Spec.load("split.toml"), Plan.load("plan.json")
    assert table.learn and table.spec == given
    assert "use the prior" not in run("split.toml", "--prior", "counts.csv").stderr


def test_what_if_and_last_go_with_it() -> None:
    assert run("spec.toml", "--prior", "counts.csv", "-o", "last.json").exit_code == 0
    result = run(
        "spec.toml",
        "--prior",
        "counts.csv",
        "--estimator",
        "learned",
        "--what-if",
        "epsilon=0.01,0.04",
        "--last",
        "last.json",
    )
    assert result.exit_code == 0, result.output
    rows = [line.split() for line in result.stderr.splitlines() if line.startswith("epsilon=0.0")]
    errors = [float(row[-2].rstrip("%")) for row in rows]
    assert len(errors) == 2 and 1 < errors[0] / errors[1] < 3.9  # noise alone would be 4 times as much


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--prior", "counts.csv", "--method", "greedy"], "--estimator learned goes with --method optimal"),
        (["--prior", "counts.csv", "--method", "all"], "--estimator learned goes with --method optimal"),
    ],
)
def test_the_command_refuses_what_does_not_go_with_it(arguments: list[str], words: str) -> None:
    result = run("spec.toml", "--estimator", "learned", *arguments)
    assert result.exit_code != 0 and words in result.stderr


@pytest.mark.parametrize("estimator", ["learned", "posterior"])
def test_without_a_prior_the_plan_is_that_of_unbiased_estimates(estimator: str) -> None:
    plans = []
    for arguments in (["--estimator", estimator], []):
        result = run("spec.toml", "--tree", "counts.csv", "-o", "plan.json", *arguments)
        assert result.exit_code == 0, result.output
        assert ("planned as for unbiased estimates" in result.stderr) == bool(arguments)
        plans.append(Plan.load("plan.json"))
    assert plans[0] == plans[1]


def test_non_negative_estimates_have_the_same_split_and_errors_of_unbiased_ones() -> None:
    given = spec(epsilon=1, split_by="a")
    tree, then = asked(given, seed=3, campaigns=30, seen=28)
    plain, learned, split = (make_plan(given, tree, then, learn=learn) for learn in (False, True, "split"))  # type: ignore[arg-type]
    assert (split.default, split.roots) == (learned.default, learned.roots) != (plain.default, plain.roots)
    assert split.expected.tree.plan == expected(split, tree, then).tree
    assert plain.expected.tree.plan < split.expected.tree.plan <= LIMIT * plain.expected.tree.plan
    assert split.learn == "split" and Plan.from_json(split.to_json()) == split.to_hand_on
    assert "another epsilon" in split.fixed_epsilon


def test_the_command_plans_for_the_estimator() -> None:
    for estimator, learn in (("posterior", True), ("nonnegative", "split"), ("unbiased", None)):
        result = run("split.toml", "--prior", "counts.csv", "--estimator", estimator, "-o", "plan.json")
        assert result.exit_code == 0, result.output
        assert Plan.load("plan.json").learn == learn
        assert ("for non-negative estimates" in result.stderr) == (learn == "split")
        assert ("denoise --prior" in result.stderr) == (learn is True)
    result = run("split.toml", "--prior", "counts.csv", "--estimator", "nonnegative", "--method", "all")
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize(
    ("arguments", "learned"),
    first_of(
        [
            (["--estimator", "posterior", "--prior-until", "2026-02-02"], True),
            (["--estimator", "nonnegative", "--prior-until", "2026-02-02"], "split"),
            (["--estimator", "nonnegative"], None),
            (["--estimator", "learned", "--prior-until", "2026-02-02"], True),
            (["--estimator", "learned"], None),  # no earlier period to plan by
            (["--estimator", "learned", "--prior-until", "2026-02-02", "--method", "greedy"], None),
            (["--prior-until", "2026-02-02"], None),
        ]
    ),
)
def test_a_run_that_learns_plans_for_it(arguments: list[str], learned: bool | str | None) -> None:
    generate("shop", "shop/", 20_000, 0)
    result = CliRunner().invoke(main, ["run", "shop/spec.toml", "-o", "out", "-q", *arguments])
    assert result.exit_code == 0, result.output
    assert Plan.load("out/plan.json").learn == learned
