"""Several breakdowns of the same conversions: from the spec to estimates that agree wherever two of them meet."""

from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import attributary
from attributary import Spec, rmsre
from attributary.errors import InputError
from attributary.estimators import Estimator
from attributary.evaluate import Case, Evaluation, evaluate
from attributary.evaluate.simulation import joint_plan
from attributary.evaluate.user_cases import joint_cases
from attributary.explore import open_session
from attributary.logs.count import count
from attributary.pipeline.run import Run
from attributary.plan import Plan, make_plan
from attributary.plan.make import each_asked, solve
from attributary.plan.proposals import Wishes
from attributary.plan.together import plan_together
from attributary.prior import from_counts
from support.browser import Tabs
from support.command import attributary as command

TOML = """
epsilon = 4
{keys}
[[attribute]]
name = "campaign"

[[attribute]]
name = "location"

[[attribute]]
name = "device"

[[attribute]]
name = "product"
unknown = true
domain = ["shoes", "shirts", "hats"]

[[attribute]]
name = "day"
unknown = true
domain = ["1", "2", "3", "4"]

[[breakdown]]
attributes = ["campaign", "location", "day"]

[[breakdown]]
attributes = ["location", "device"]

[[breakdown]]
attributes = ["product", "day"]
weight = 2
name = "products"

[logs]
attributed = "log.parquet"
converted = "converted"
"""
BREAKDOWNS = ["campaign > location > day", "location > device", "products"]


def spec_of(keys: str = "") -> Spec:
    return Spec.parse(TOML.format(keys=keys))


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A generated log; some conversions have a product that is not in the domain."""
    folder, rng, n = tmp_path_factory.mktemp("shop"), np.random.default_rng(1), 4_000
    drawn = {
        "campaign": rng.choice(["a", "b", "c"], n, p=[0.7, 0.2, 0.1]),
        "location": rng.choice(["de", "fr"], n),
        "device": rng.choice(["phone", "desk", "tv"], n, p=[0.6, 0.3, 0.1]),
        "converted": rng.random(n) < 0.2,
        "product": rng.choice(["shoes", "shirts", "hats", "gift"], n),
        "day": rng.choice(["1", "2", "3", "4"], n),
    }
    pq.write_table(pa.table(drawn), folder / "log.parquet")
    (folder / "spec.toml").write_text(TOML.format(keys=""))
    return folder


@pytest.fixture(scope="module")
def done(shop: Path) -> Run:
    made = attributary.run(str(shop / "spec.toml"), rng=np.random.default_rng(5))
    assert len(made.breakdowns) == 3
    return made


def planned(spec: Spec, shop: Path, join: bool = True) -> Plan:
    counts = count(spec, str(shop)).breakdowns
    trees = [part.tree(each.table) for part, each in zip(spec.parts, counts, strict=True)]
    priors = [
        from_counts(tree, each.table, known=[a.name for a in part.known], spec=part)
        for part, tree, each in zip(spec.parts, trees, counts, strict=True)
    ]
    if join:
        return make_plan(spec, trees, priors)
    return plan_together(spec, each_asked(spec, trees, priors), Wishes("optimal"), solve, join=False)


def test_one_breakdown_is_a_spec_with_its_attributes_in_that_order() -> None:
    attributes = [{"name": "a"}, {"name": "b"}]
    alone = Spec(epsilon=1, attribute=attributes, breakdown=[{"attributes": ["b", "a"]}])
    assert alone == Spec(epsilon=1, attribute=attributes[::-1]) and alone.parts == (alone,)


@pytest.mark.parametrize(
    ("breakdowns", "keys", "words"),
    [
        ([["a", "c"], ["b"]], {}, "no [[attribute]] 'c'"),
        ([["a", "a"], ["b"]], {}, "'a' is there twice"),
        ([["u", "a"], ["b"]], {}, "known to the impression but stands below 'u'"),
        ([["a", "u"], ["a", "u"], ["b"]], {}, "is the name of breakdown[1] too"),
        ([["a", "u"], ["u"]], {}, "is in no breakdown: add 'b'"),
        ([["a", "u"], []], {}, "a list of names of attributes"),
        ([["a", "u"], ["b"]], {"split_by": "u"}, "the first attribute of a breakdown"),
        ([["a", "u"], ["b"]], {"conversions_per_impression": "auto"}, 'is a number, not "auto"'),
        ([["a", "u"], ["b"]], {"measure": [{"name": "revenue"}]}, "clip of measure 'revenue' is a number"),
        ([["a", "u"], ["b"]], {"api": {"kind": "w3c"}}, "keep one breakdown, or make a spec for each"),
    ],
)
def test_a_spec_says_what_is_wrong_with_its_breakdowns(breakdowns: Any, keys: dict[str, Any], words: str) -> None:
    attributes = [{"name": "a"}, {"name": "b"}, {"name": "u", "unknown": True, "domain": ["x", "y"]}]
    with pytest.raises(InputError, match="(?s)" + words.replace("[", r"\[").replace("]", r"\]").replace("(", r"\(")):
        Spec(**{"epsilon": 1, **keys}, attribute=attributes, breakdown=[{"attributes": b} for b in breakdowns])


def test_a_spec_of_several_has_no_one_tree() -> None:
    with pytest.raises(InputError, match="several breakdowns"):
        spec_of().tree(None)


def test_each_breakdown_counts_as_a_spec_of_its_own_would_do_without_what_no_domain_has(
    shop: Path, tmp_path: Path
) -> None:
    log = pq.read_table(shop / "log.parquet")
    gift = pc.and_(log.column("converted"), pc.equal(log.column("product"), "gift"))
    pq.write_table(log.set_column(3, "converted", pc.and_not(log.column("converted"), gift)), tmp_path / "log.parquet")
    spec, counts = spec_of(), count(spec_of(), str(shop))
    assert counts.left_out == pc.sum(gift).as_py()
    for part, each in zip(spec.parts, counts.breakdowns, strict=True):
        alone = count(part, str(tmp_path))
        assert each.table.equals(alone.table) and each.conversions == alone.conversions
    table = counts.table
    assert table.column_names[0] == "breakdown" and table.column("breakdown").unique().to_pylist() == BREAKDOWNS
    assert sum(each.table.num_rows for each in counts.breakdowns) == table.num_rows


@pytest.mark.parametrize("keys", ["", 'noise = "gaussian"\ndelta = 1e-6', 'noise = "unit"', 'split_by = "campaign"'])
@pytest.mark.parametrize("neighbours", ["conversion", "definition-1"])
def test_all_breakdowns_keep_to_one_budget(shop: Path, keys: str, neighbours: str) -> None:
    spec = spec_of(f'{keys}\nneighbours = "{neighbours}"\nconversions_per_impression = 2')
    plan = planned(spec, shop)
    assert plan.largest_row <= spec.budget
    assert plan.privacy_loss.conversion <= 4 + 1e-9
    assert plan.privacy_loss.under(neighbours) <= 4 + 1e-9
    assert all(one.privacy_loss == pytest.approx(plan.privacy_loss) for one in plan.breakdowns)
    for one, part in zip(plan.breakdowns, spec.parts, strict=True):
        assert one.spec == part and one.levels == part.levels
    if neighbours == "conversion":  # else a breakdown of unknown attributes alone can have half of its part
        assert plan.largest_row / spec.budget == pytest.approx(1, abs=1e-3)


def test_planning_together_beats_planning_apart_and_equal_parts(shop: Path) -> None:
    plan = planned(spec_of(), shop)
    sharing = plan.sharing
    assert sharing is not None and sharing.joined and plan.error < sharing.apart < sharing.equal
    assert all(one.error >= alone for one, alone in zip(plan.breakdowns, sharing.alone, strict=True))
    apart = planned(spec_of(), shop, join=False)
    assert apart.sharing is not None and not apart.sharing.joined
    assert apart.error == pytest.approx(apart.sharing.apart)


def test_a_larger_weight_gets_a_smaller_error(shop: Path) -> None:
    spec = spec_of()
    more = Spec(
        **{
            **spec.model_dump(by_alias=True, exclude_none=True),
            "breakdown": [
                {"attributes": list(each.attributes), "weight": 50 if i == 1 else 1}
                for i, each in enumerate(spec.breakdowns or ())
            ],
        }
    )
    one, other = (planned(s, shop).breakdowns[1].expected.tree.plan for s in (spec, more))
    assert other < 0.8 * one


def test_a_plan_is_what_its_file_says(shop: Path, tmp_path: Path) -> None:
    plan, path = planned(spec_of(), shop), str(tmp_path / "plan.json")
    plan.save(path)
    assert Plan.load(path) == plan
    with pytest.raises(InputError, match=r"several breakdowns \('campaign > location > day', .* take one of them"):
        plan.contribution(plan.parts[0].spec.parts[0].tree({"campaign": ["a"], "location": ["de"]}))
    text = Path(path).read_text()
    row = ", ".join(map(str, plan.breakdowns[1].default))
    more = ", ".join(str(n + 100 * (n > 0)) for n in plan.breakdowns[1].default)
    Path(path).write_text(text.replace(f"[{row}]", f"[{more}]"))
    with pytest.raises(InputError, match="budget|sum to"):
        Plan.load(path)


def test_sums_agree_wherever_two_breakdowns_meet(done: Run) -> None:
    def by(run: Run, names: list[str]) -> dict[Any, float]:
        rows = run.estimates["count"].table().to_pylist()
        sums: dict[Any, float] = {}
        for row in rows:
            if row["level"] == len(run.plan.levels) - 1:
                key = tuple(row[name] for name in names)
                sums[key] = sums.get(key, 0) + row["estimate"]
        return sums

    first, second, third = done.breakdowns
    for one, other, names in [(first, second, ["location"]), (first, third, ["day"]), (second, third, [])]:
        assert by(one, names) == pytest.approx(by(other, names), abs=1e-6)
    totals = [run.shown.quantities(None)[0].total for run in done.breakdowns]
    for total in totals[1:]:
        assert (total.estimate, total.low, total.high) == pytest.approx(
            (totals[0].estimate, totals[0].low, totals[0].high), abs=1e-6
        )


def test_a_node_of_two_breakdowns_has_one_estimate_and_one_interval(shop: Path) -> None:
    toml = TOML.format(keys="").replace('["location", "device"]', '["location", "campaign", "device"]')
    run = attributary.run(Spec.parse(toml), str(shop), rng=np.random.default_rng(6))
    assert len(run.breakdowns) == 3
    found = []
    for one in run.breakdowns[:2]:
        rows = one.estimates["count"].table().to_pylist()
        figures = ("estimate", "variance", "low", "high")
        found.append({(r["campaign"], r["location"]): [r[f] for f in figures] for r in rows if r["level"] == 1})
    assert found[0].keys() == found[1].keys() and len(found[0]) == 6
    for path, figures in found[0].items():
        assert found[1][path] == pytest.approx(figures, rel=1e-9, abs=1e-6)


def test_errors_are_those_that_the_plan_expects(shop: Path) -> None:
    spec, squares = spec_of(), np.zeros(3)
    plan = planned(spec, shop)
    for seed in range(60):
        run = attributary.run(spec, str(shop), plan=plan, rng=np.random.default_rng(seed))
        assert len(run.breakdowns) == 3
        squares += np.square(list(run.errors.values())) / 60
    expected = [one.expected.tree.plan for one in plan.breakdowns]
    assert np.sqrt(squares) == pytest.approx(expected, rel=0.15)


def test_tables_have_a_column_for_the_breakdown(done: Run, tmp_path: Path) -> None:
    done.save(str(tmp_path / "run"))
    table = pq.read_table(tmp_path / "run" / "estimates.parquet")
    assert table.column_names[:9] == [
        *("breakdown", "node", "parent", "level", "campaign", "location", "device", "product", "day"),
    ]
    for name, run in zip(BREAKDOWNS, done.breakdowns, strict=True):
        rows = table.filter(pc.equal(table.column("breakdown").cast("string"), name))
        assert rows.column("estimate").to_pylist() == run.tables["estimates"].column("estimate").to_pylist()
    assert Plan.load(str(tmp_path / "run" / "plan.json")) == done.plan


def test_an_earlier_run_is_a_prior(shop: Path, done: Run, tmp_path: Path) -> None:
    done.save(str(tmp_path / "run"))
    for name in ("counts", "estimates"):
        run = attributary.run(str(shop / "spec.toml"), prior=str(tmp_path / "run" / f"{name}.parquet"))
        assert all(part.prior.history for part in run.breakdowns)
    pq.write_table(done.breakdowns[0].tables["counts"], tmp_path / "alone.parquet")
    with pytest.raises(InputError, match="no column 'breakdown'"):
        attributary.run(str(shop / "spec.toml"), prior=str(tmp_path / "alone.parquet"))


def test_the_page_has_a_switch(shop: Path, tmp_path: Path, tabs: Tabs) -> None:
    told = command("run", shop / "spec.toml", "-o", tmp_path / "run").output
    assert "costs the others" in told and all(name in told for name in BREAKDOWNS)
    page = tabs()
    page.goto(f"file://{tmp_path / 'run' / 'report.html'}")
    totals = []
    for i, name in enumerate(BREAKDOWNS):
        page.get_by_role("button", name=name, exact=True).click()
        assert page.locator("iframe:visible").count() == 1
        frame = page.frame_locator(f"iframe[data-breakdown='{i}']")
        frame.get_by_role("heading", level=1).wait_for()
        totals.append(frame.locator("body").inner_text().split("All conversions")[1].split()[:4])
    assert totals[0] == totals[1] == totals[2]


@pytest.mark.parametrize("files", [["run"], ["run/estimates.parquet"], ["run/plan.json"], ["csv/estimates.csv"]])
def test_a_report_of_its_files_has_all_breakdowns(done: Run, tmp_path: Path, files: list[str]) -> None:
    done.save(str(tmp_path / "run"))
    done.save(str(tmp_path / "csv"), format="csv")
    page = tmp_path / "page.html"
    command("report", *(tmp_path / file for file in files), "-o", page)
    text = page.read_text()
    assert all(f'title="{escape(name)}"' in text for name in BREAKDOWNS) and text.count("<iframe") == 3
    if "plan.json" not in files[0]:
        total = done.breakdowns[0].shown.quantities(None)[0].total.estimate
        assert text.count("All conversions") >= 3 and text.count(f"{total:,.0f}") >= 3


def test_the_explorer_looks_at_one_of_them(done: Run, tmp_path: Path) -> None:
    done.save(str(tmp_path / "run"))
    for name, run in zip(BREAKDOWNS, done.breakdowns, strict=True):
        for path in (tmp_path / "run", tmp_path / "run" / "estimates.parquet"):
            session = open_session(str(path), breakdown=name)
            table = session.about({})["table"]
            assert table["nodes"] == len(run.tree) and [e["name"] for e in table["levels"]] == list(run.plan.levels)
            rows = session.queries({}).page({})["rows"]
            largest = max(run.estimates["count"].count[run.tree.roots])
            assert rows[0]["estimate"] == pytest.approx(largest) and name in session.recognised[0]
            session.close()
    with pytest.raises(InputError, match="has no breakdown 'x'; it has"):
        open_session(str(tmp_path / "run"), breakdown="x")
    open_session(str(tmp_path / "run" / "plan.json"), breakdown=BREAKDOWNS[1]).close()
    done.breakdowns[0].save(str(tmp_path / "one"))
    with pytest.raises(InputError, match="goes with files of several breakdowns"):
        open_session(str(tmp_path / "one"), breakdown="x")


def evaluated(shop: Path, **options: Any) -> tuple[Case, Evaluation]:
    spec = spec_of()
    (made,) = joint_cases(spec, count(spec, str(shop)).table, seed=1)
    return made, evaluate([made], ["optimal-unbiased"], **{"epsilons": [4], "taus": [10], "draws": 4, **options})


def test_what_is_evaluated_is_what_runs(shop: Path) -> None:
    """The errors of a draw are those of `run` by the same plan and with the same noise, level by level."""
    made, evaluation = evaluated(shop, seed=7)
    plan = joint_plan(made.at(10, 4), "optimal")
    drawn = {(p.tree, p.level): evaluation.squared(p) for p in evaluation.points if p.method == "optimal-unbiased"}
    for i in range(4):
        run = attributary.run(spec_of(), str(shop), plan=plan, rng=np.random.default_rng([7, i]))
        assert len(run.breakdowns) == 3
        for name, one in zip(BREAKDOWNS, run.breakdowns, strict=True):
            off = np.square(one.estimates["count"].count - one.truth["count"])
            levels = np.square(rmsre.levels(one.tree, one.truth["count"], off, 10))
            for level, error in zip(one.plan.levels, levels, strict=True):
                assert drawn[name, level][i] == pytest.approx(error, rel=1e-9)
            assert drawn[name, None][i] == pytest.approx(one.errors["count"] ** 2, rel=1e-9)


def test_closed_forms_of_several_are_what_draws_have(shop: Path) -> None:
    made, evaluation = evaluated(shop, draws=100)
    rows = evaluation.to_pylist()
    methods = ["optimal-unbiased", "apart-unbiased", "equal-parts-unbiased"]
    for method in methods:
        own = [row for row in rows if row["method"] == method]
        exact, drawn = ([row for row in own if row["kind"] == kind] for kind in ("exact", "simulated"))
        assert len(exact) == len(drawn) == 3 + 2 + 2 + 3 + 1
        for one, other in zip(exact, drawn, strict=True):
            assert abs(one["rmsre"] - other["rmsre"]) < 4 * other["standard_error"]
        trees = {row["breakdown"]: row["rmsre"] for row in exact if row["level"] is None}
        weighed = trees[BREAKDOWNS[0]] ** 2 + trees[BREAKDOWNS[1]] ** 2 + 2 * trees["products"] ** 2
        assert trees[None] == pytest.approx((weighed / 4) ** 0.5)
    whole = {row["method"]: row["rmsre"] for row in rows if row["breakdown"] is None and row["kind"] == "exact"}
    assert whole[methods[0]] < whole[methods[1]] and whole[methods[0]] < whole[methods[2]]
    assert evaluated(shop, draws=100, workers=2)[1].equals(evaluation)
    assert made.key == evaluated(shop, draws=0)[0].key


def test_the_command_evaluates_several_breakdowns(shop: Path, tmp_path: Path) -> None:
    pq.write_table(count(spec_of(), str(shop)).table, tmp_path / "counts.parquet")
    where = ["evaluate", shop / "spec.toml", "--counts", tmp_path / "counts.parquet", "--draws", "2", "-o"]
    told = command(*where, tmp_path / "errors.parquet", "--figure", tmp_path / "errors.svg")
    assert "all breakdowns" in told.output and (tmp_path / "errors.svg").exists()
    table = pq.read_table(tmp_path / "errors.parquet")
    assert table.column("breakdown").unique().to_pylist() == [*BREAKDOWNS, None]
    prior = command(
        *where, tmp_path / "errors.csv", "--prior", tmp_path / "counts.parquet", "--method", "optimal-unbiased"
    )
    assert "equal-parts-unbiased" in prior.output
    for more, words in {
        ("--coverage",): "coverage is of one tree",
        ("--method", "greedy-unbiased"): "greedy-unbiased is for one tree",
    }.items():
        assert words in command(*where, tmp_path / "errors.csv", *more, code=2).output
    for keys in ("conversions_per_impression = 2", 'measure = [{name = "count"}, {name = "value", clip = 5}]'):
        (tmp_path / "spec.toml").write_text(TOML.format(keys=keys))
        refused = command("evaluate", tmp_path / "spec.toml", *where[2:], tmp_path / "errors.csv", code=2)
        assert "one conversion per impression" in refused.output


def test_the_fit_is_never_negative_and_agrees(shop: Path) -> None:
    run = attributary.run(
        spec_of().model_copy(update={"epsilon_or_auto": 0.3}),
        str(shop),
        estimator=Estimator("nonnegative", joint=True),
        rng=np.random.default_rng(1),
    )
    assert len(run.breakdowns) == 3
    estimates = [one.estimates["count"] for one in run.breakdowns]
    assert all((est.count >= 0).all() for est in estimates) and any((est.blue < 0).any() for est in estimates)
    totals = [est.count[est.tree.roots].sum() for est in estimates]
    assert totals == pytest.approx([totals[0]] * 3, abs=1e-6)
    assert all((est.interval().low <= est.count + 1e-9).all() for est in estimates)


def test_other_estimators_are_refused(shop: Path) -> None:
    with pytest.raises(InputError, match="one tree alone"):
        attributary.run(str(shop / "spec.toml"), estimator="posterior")
