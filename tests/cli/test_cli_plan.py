"""attributary plan: from a spec and a table to a plan, in an empty folder; what it prints, and what it refuses."""

import json
import os
import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from attributary import denoise, noise, prior, rmsre
from attributary.budget import METHODS
from attributary.cli import main
from attributary.cli.printing import plain
from attributary.facts.numerals import percent
from attributary.plan import Plan, make_plan
from attributary.spec import Spec
from attributary.tables import read_table, write_table

SPEC = """
epsilon = 2
[[attribute]]
name = "campaign"
[[attribute]]
name = "location"
[[attribute]]
name = "day"
unknown = true
domain = ["mon", "tue", "wed"]
"""
SPLIT = 'split_by = "campaign"\n' + SPEC


def counts(campaigns: int = 5, seed: int = 1) -> str:
    rng = np.random.default_rng(seed)
    rows = ["campaign,location,day,impressions,conversions"]
    for i in range(campaigns):
        for place in ["Paris", "Lima", "Pune", "Oslo"][: 1 + i % 4]:
            rows += [
                f"{100 + i},{place},{day},99,{rng.poisson(rng.lognormal(2, 1.5))}" for day in ("mon", "tue", "wed")
            ]
    return "\n".join(rows) + "\n"


@pytest.fixture(autouse=True)
def _empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")
    Path("spec.toml").write_text(SPEC, encoding="utf-8")
    Path("split.toml").write_text(SPLIT, encoding="utf-8")
    Path("counts.csv").write_text(counts(), encoding="utf-8")


def plan(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["plan", *arguments])


def done(*arguments: str) -> str:
    """What a command that succeeds says."""
    result = plan(*arguments)
    assert result.exit_code == 0, result.output
    assert result.stdout == ""
    return result.stderr


def row(text: str, name: str) -> list[str]:
    """The cells of the row of that name, of whichever tables have one."""
    return [
        cell for line in re.findall(rf"^{name}  +(.*)$", text, re.MULTILINE) for cell in re.split(r"  +", line.strip())
    ]


def test_the_plan_is_the_librarys() -> None:
    said = done("split.toml", "--prior", "counts.csv", "-o", "plan.json")
    spec, table = Spec.load("split.toml"), read_table("counts.csv")
    numbers = table.set_column(4, "conversions", [[int(cell) for cell in table["conversions"].to_pylist()]])
    tree = spec.tree(table)
    wanted = make_plan(spec, tree, prior.from_counts(tree, numbers, known=["campaign", "location"]))
    assert Plan.load("plan.json") == wanted.to_hand_on
    assert said.endswith("plan written to plan.json\n")
    assert sorted(os.listdir()) == ["counts.csv", "plan.json", "spec.toml", "split.toml"]


def shown(part: float) -> str:
    return plain(percent(part))


def test_the_table_is_that_of_the_plan() -> None:
    said = done("spec.toml", "--prior", "counts.csv", "-o", "plan.json")
    made = Plan.load("plan.json")
    for i, level in enumerate(made.expected.levels):
        nodes, share, contribution, error, equal, *_ = row(said, level.level)
        assert nodes == str(level.nodes) and share == shown(made.default[i] / 65536)
        assert contribution == (f"{made.default[i]:,}" if made.default[i] else "not measured")
        assert (error, equal) == (shown(level.error.plan), shown(level.error.equal))
    better = made.expected.tree.plan / made.expected.tree.equal - 1
    assert row(said, "all")[1:6] == [
        *("100.0%", "65,536", shown(made.expected.tree.plan), shown(made.expected.tree.equal), shown(better))
    ]
    assert "relative to the count, or to tau = 10" in said and "as in a summary report" in said
    assert "privacy: ε = 2: whether an impression has its counted conversion\n" in said
    assert all(line in " ".join(said.split()) for line in made.privacy_words.all_lines)
    unmeasured = [e for e in made.expected.levels if not made.default[made.levels.index(e.level)]]
    for level in unmeasured:
        error = shown(level.error.plan)
        assert f"{level.level}: not measured: summed from the levels below; expected error {error}" in said
    assert "NOT protected" in said


def test_narrow_terminals_get_two_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    wide = done("split.toml", "--prior", "counts.csv")
    monkeypatch.setenv("COLUMNS", "80")
    narrow = done("split.toml", "--prior", "counts.csv")
    assert row(wide, "location") == row(narrow, "location")
    assert max(len(line) for line in narrow.splitlines() if re.match("(level|campaign|all) ", line)) <= 80


def test_splits_of_roots_and_roots_without_history() -> None:
    lines = counts().splitlines()
    Path("tree.csv").write_text("\n".join(["campaign,location", "100,Paris", "101,Lima", "999,Rome"]), encoding="utf-8")
    Path("old.csv").write_text("\n".join([*lines, "100,Paris,thu,1,50"]), encoding="utf-8")
    refused = plan("split.toml", "--prior", "old.csv", "--tree", "tree.csv", "-o", "plan.json")
    assert refused.exit_code == 2 and "'day' has a domain, and 50 of 604 conversions" in refused.stderr
    assert "outside it, such as 'thu'" in refused.stderr and refused.stderr.count("\n") == 1
    Path("old.csv").write_text("\n".join([*lines, "100,Paris,Mon ,1,50"]), encoding="utf-8")
    assert (
        "; write it 'mon'" in plan("split.toml", "--prior", "old.csv", "--tree", "tree.csv", "-o", "plan.json").stderr
    )
    Path("old.csv").write_text("\n".join([*lines, "100,Paris,thu,1,0"]), encoding="utf-8")
    assert plan("split.toml", "--prior", "old.csv", "--tree", "tree.csv", "-o", "plan.json").exit_code == 0
    said = done("split.toml", "--prior", "counts.csv", "--tree", "tree.csv", "-o", "plan.json")
    made = Plan.load("plan.json")
    assert list(made.roots) == ["100", "101"]
    assert "first of 3" in said and "conversions" not in next(x for x in said.splitlines() if x.startswith("first of"))
    named = done("split.toml", "--prior", "counts.csv", "--protected", "--tree", "tree.csv")
    assert "largest of 3" in named and row(named, "999")[0] == "0"
    assert "5 rows are new since then; 1 of them are values of campaign and take the default split" in said
    assert "27 of its leaves, with many conversions, are not in the tree" in said
    assert "27 of its leaves, with" in named and "left out; the first is campaign=101, location=Paris, day=mon" in named
    assert "median error within a campaign" in said


def test_a_prior_of_which_less_than_half_is_in_the_tree_is_told_first() -> None:
    Path("tree.csv").write_text("campaign,location\n100,Paris\n999,Rome\n", encoding="utf-8")
    said = done("spec.toml", "--prior", "counts.csv", "--tree", "tree.csv")
    assert re.match(r"warning: the prior hardly fits: \d+% of the prior's conversions are not in this tree", said)
    assert "hardly fits" not in done("spec.toml", "--prior", "counts.csv")


def test_json_on_standard_output_and_nothing_else() -> None:
    result = plan("spec.toml", "--prior", "counts.csv", "-o", "-")
    assert Plan.from_json(result.stdout).levels == ("campaign", "location", "day") and "expected error" in result.stderr
    quiet = plan("spec.toml", "--prior", "counts.csv", "-o", "-", "--quiet")
    assert (quiet.stdout, quiet.stderr) == (result.stdout, "")
    assert "nothing written; -o plan.json keeps a plan" in done("spec.toml", "--prior", "counts.csv")


def test_all_methods_side_by_side() -> None:
    said = done("split.toml", "--prior", "counts.csv", "--method", "all")
    error = {name: [float(cell.rstrip("%")) for cell in row(said, name) if cell != "yes"] for name in METHODS}
    assert all(len(figures) == 5 for figures in error.values())
    assert error["optimal"][4] <= min(error["equal"][4], error["leaves"][4], error["greedy"][4])


@pytest.mark.parametrize("kind", ["api", "unit"])
def test_what_if(kind: str) -> None:
    Path("spec.toml").write_text(f'noise = "{kind}"\n{SPEC}', encoding="utf-8")
    said = done("spec.toml", "--prior", "counts.csv", "--what-if", "epsilon=1,2,4")
    errors = [row(said, f"epsilon={epsilon}") for epsilon in (1, 2, 4)]
    assert all(len(figures) == 6 for figures in errors)
    assert errors[1] == row(said, "as planned") and errors[1][4] == row(said, "all")[3]
    assert [float(figures[4].rstrip("%")) for figures in errors] == sorted(
        (float(figures[4].rstrip("%")) for figures in errors), reverse=True
    )


def test_what_if_of_periods_and_levels_is_the_librarys() -> None:
    """One table: levels that a variant does not have are –, and what is joined by ; is changed together."""
    Path("map.csv").write_text("location,land\nParis,FR\nLima,PE\nPune,IN\nOslo,NO\nBonn,DE\n", encoding="utf-8")
    asks = ["--what-if", "period=7d,4w", "--what-if", "location=map.csv:land", "--what-if", "period=28d; location="]
    said = done("spec.toml", "--prior", "counts.csv", "--prior-period", "14d", *asks, "--summary", "s.json")
    assert row(said, "what if") == ["nodes", "campaign", "location", "land", "day", "all", "all, equal split"]
    assert row(said, "location=map.csv:land")[2] == "–" and row(said, "period=28d; no location")[2:4] == ["–", "–"]
    assert "periods: counts in proportion to the time" in said
    spec, table = Spec.load("spec.toml"), read_table("counts.csv")
    twice = {name: table[name].to_pylist() for name in ("campaign", "day")}
    twice["conversions"] = [2 * int(cell) for cell in table["conversions"].to_pylist()]
    less = Spec(
        **{**spec.model_dump(by_alias=True, exclude_none=True), "attribute": [spec.attributes[0], spec.attributes[2]]}
    )
    tree = less.tree(twice)
    wanted = make_plan(less, tree, prior.from_counts(tree, twice, known=["campaign"]), compare=False)
    variants = json.loads(Path("s.json").read_text(encoding="utf-8"))["what_if"]
    assert [variant["change"] for variant in variants] == [
        "period=7d",
        "period=4w",
        "location=map.csv:land",
        "period=28d; no location",
    ]
    assert variants[-1]["expected"]["tree"]["plan"] == pytest.approx(wanted.expected.tree.plan, rel=1e-9)


def test_levels_are_told_by_their_nodes_too() -> None:
    said = done("spec.toml", "--prior", "counts.csv", "--protected", "-o", "plan.json")
    for level in Plan.load("plan.json").expected.levels:
        assert level.worst is not None and level.median is not None
        named = f"worst: {level.worst.name}, {level.worst.count:,.4g} conversions, {level.worst.error:.1%}"
        assert re.search(rf"^{level.level}: .*median {level.median:.1%}; .*{re.escape(named)}$", said, re.MULTILINE)
    assert "typical" not in said
    alone = done("spec.toml", "--tree", "counts.csv")
    assert re.search(r"^day: median \d+\.\d%; worst \d+\.\d%$", alone, re.MULTILINE)  # no prior, no node to name


def test_period_by_period() -> None:
    """Structure first; then each period's own estimates, protected, with what they gain over the last plan."""
    done("spec.toml", "--tree", "counts.csv", "-o", "first.json")
    first = Plan.load("first.json")
    assert not first.prior.history

    tree = first.spec.tree(read_table("counts.csv"))
    truth, contribution = np.zeros(len(tree)), first.contribution(tree)
    truth[tree.is_leaf] = np.random.default_rng(3).poisson(30, int(tree.is_leaf.sum()))
    for v in reversed(range(len(tree))):
        if tree.parent[v] >= 0:
            truth[tree.parent[v]] += truth[v]
    drawn = noise.sample_dlap(first.spec.epsilon / first.spec.l1, len(tree), np.random.default_rng(4))
    rows = tree.table().drop_columns(["node", "parent", "level"])
    noisy = truth + drawn / np.maximum(contribution, 1)  # where there is no key, the variance says so
    table = rows.append_column("noisy", [noisy]).append_column("var", [first.variance(tree)])
    write_table(table, "noisy.csv")
    levels = ["--levels", "campaign,location,day", "--value", "noisy", "--variance", "var"]
    denoised = CliRunner().invoke(main, ["denoise", "--table", "noisy.csv", *levels, "-o", "estimates.csv"])
    assert denoised.exit_code == 0, denoised.output

    said = done("spec.toml", "--prior", "estimates.csv", "--last", "first.json", "-o", "second.json")
    second = Plan.load("second.json")
    assert second.prior.history and second.prior.protected and "protected" in said and "NOT" not in said
    assert second.expected.tree.plan < first.under(second.spec).expected.tree.plan
    last, gained = row(said, "all")[-2:]
    assert float(last.rstrip("%")) >= float(row(said, "all")[3].rstrip("%")) and (gained == "–" or gained.endswith("%"))
    assert row(done("spec.toml", "--prior", "estimates.csv", "--last", "first.json", "--method", "all"), "last plan")


def test_what_a_new_plan_changes_for_each_campaign_is_told() -> None:
    """Old and new contributions, as in the plans' files, and errors as of each campaign's tree alone."""
    hours = [f"h{i}" for i in range(24)]
    spec_text = SPLIT.replace('["mon", "tue", "wed"]', json.dumps(hours))
    Path("split.toml").write_text(spec_text, encoding="utf-8")
    for name, seed, last in (("first", 1, "104"), ("second", 2, "new")):
        rng, rows = np.random.default_rng(seed), ["campaign,location,day,impressions,conversions"]
        for i, campaign in enumerate(["100", "101", "102", "103", "105", "106", last]):
            for place in ["Paris", "Lima", "Pune", "Oslo", "Rome"][: 2 + i % 4]:
                mean = rng.lognormal(i / 2, 1)
                rows += [f"{campaign},{place},{hour},99,{rng.poisson(mean)}" for hour in hours]
        Path(f"{name}.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    done("split.toml", "--prior", "first.csv", "-o", "first.json")
    options = ["--last", "first.json", "--summary", "said.json"]
    said = done("split.toml", "--prior", "second.csv", "-o", "second.json", *options)
    first, second = Plan.load("first.json"), Plan.load("second.json")
    changes = {each["root"]: each for each in json.loads(Path("said.json").read_text())["last_plan"]}
    assert changes.keys() == {None, *first.roots, *second.roots} and len(changes) == 9
    assert next(iter(changes)) is None  # then the largest change comes first
    moved = [max(abs(b - a) for a, b in change["contributions"]) for change in [*changes.values()][1:]]
    assert moved == sorted(moved, reverse=True) and moved[0] > 0
    largest = [root for root, by in zip([*changes][1:], moved, strict=True) if by or changes[root]["state"]][:5]
    table = read_table("second.csv")
    spec = second.spec
    for root, change in changes.items():
        before, now = (plan.roots.get(root, plan.default) for plan in (first, second))
        assert change["contributions"] == [list(pair) for pair in zip(before, now, strict=True)]
        assert change["state"] == {"new": "new", "104": "gone"}.get(root, "")
        here = table.filter([cell == root for cell in table["campaign"].to_pylist()])
        if not here.num_rows:
            assert change["error"] == [None, None]
            continue
        tree = spec.tree(here)
        leaf = {tuple(map(str, row[:3])): float(row[4]) for row in zip(*here.to_pydict().values(), strict=True)}
        truth = np.array(
            [
                sum(x for path, x in leaf.items() if path[: len(tree.path(v))] == tuple(tree.path(v)))
                for v in range(len(tree))
            ]
        )
        for plan_, error in zip((first, second), change["error"], strict=True):
            variance = denoise(tree, truth, plan_.variance(tree)).variance
            assert error == pytest.approx(rmsre.tree(tree, truth, variance, spec.tau))
        printed = " → ".join(shown(x) for x in change["error"]) in row(said, f"{root}(?: .new.)?")
        assert printed == (root in largest)
    assert "last plan: 1 new, with a split of their own: new\n" in said
    assert "1 gone, with the split of new ones: 104\n" in said
    again = done("split.toml", "--prior", "second.csv", "--last", "second.json")
    assert "last plan → this one" not in again and "with a split of their own" not in again


def test_plans_by_node_have_two_files() -> None:
    said = done("spec.toml", "--prior", "counts.csv", "--method", "per-node", "-o", "plan.json")
    assert os.path.exists("plan.nodes.parquet") and Plan.load("plan.json").nodes.num_rows == 5 + 11 + 33
    assert "note: contributions by row" in said


def test_wishes_and_protected_counts() -> None:
    said = done(
        "spec.toml",
        "--prior",
        "counts.csv",
        "--protected",
        "--share",
        "location=0",
        "--keep",
        "campaign",
        "-o",
        "p.json",
    )
    made = Plan.load("p.json")
    assert made.default[1] == 0 and made.default[0] >= 1 and made.prior.protected and "NOT" not in said
    done("spec.toml", "--prior", "counts.csv", "--method", "equal", "--rounding", "floor", "-o", "p.json")
    assert Plan.load("p.json").default == (21845, 21845, 21845)


def test_a_spec_of_unknown_attributes_alone_needs_no_table() -> None:
    Path("spec.toml").write_text(
        'epsilon = 1\n[[attribute]]\nname = "day"\nunknown = true\nrange = [1, 7]', encoding="utf-8"
    )
    assert row(done("spec.toml"), "day")[:3] == ["7", "100.0%", "65,536"]


def test_definition_1_is_said_to_hold() -> None:
    Path("spec.toml").write_text('neighbours = "definition-1"\n' + SPEC, encoding="utf-8")
    assert "(Definition 1 of the paper)" in done("spec.toml", "--prior", "counts.csv")


BAD: dict[str, tuple[list[str], str]] = {
    "no spec": (["none.toml"], "there is no file none.toml; give the spec's path, a TOML file"),
    "not toml": (["counts.csv"], "counts.csv: line 1, column 9 is not TOML: "),
    "one mistake": (["wrong.toml"], 'wrong.toml: epsilon: a number above 0, as in epsilon = 4, or "auto", the least'),
    "nothing to query": (
        ["spec.toml"],
        "a plan needs the values of campaign, location that will be queried",
    ),
    "no prior": (["spec.toml", "--prior", "none.csv"], "there is no file none.csv"),
    "not a prior": (["spec.toml", "--prior", "tree.csv"], "tree.csv has no column 'location'"),
    "no figures": (["spec.toml", "--prior", "bare.csv"], "bare.csv is not a prior: it has neither conversions"),
    "another tree": (
        ["spec.toml", "--prior", "other.csv"],
        "other.csv: 'day' has a domain, and 3 of 3 conversions have a value outside it, such as 'Monday'",
    ),
    "words": (
        ["spec.toml", "--prior", "words.csv"],
        "words.csv: row 1 (line 2): 'many' in column 'conversions'",
    ),
    "negative": (["spec.toml", "--prior", "less.csv"], "less.csv: row 1 (line 2): a count is a number, 0 or more"),
    "missing value": (["spec.toml", "--prior", "hole.csv"], "hole.csv: campaign=1 has no 'location' in any row"),
    "hole": (["spec.toml", "--prior", "gap.csv"], "gap.csv: row 1 (line 2): 'campaign' is empty but 'location' below"),
    "no such level": (
        ["spec.toml", "--prior", "counts.csv", "--keep", "hour"],
        "there is no level 'hour'",
    ),
    "no share": (
        ["spec.toml", "--prior", "counts.csv", "--share", "day"],
        "--share takes a level and its part",
    ),
    "too much": (["spec.toml", "--prior", "counts.csv", "--share", "day=2"], "shares are parts of ε, 0 or more"),
    "what if": (
        ["spec.toml", "--prior", "counts.csv", "--what-if", "tau=3"],
        "--what-if takes budgets (epsilon=1,2,4), guards (guard=1.1,2,none), periods",
    ),
    "what if words": (
        ["spec.toml", "--prior", "counts.csv", "--what-if", "epsilon=few"],
        "--what-if takes budgets as numbers, as in epsilon=1,2,4,8; got few",
    ),
    "what if of no period": (
        ["spec.toml", "--prior", "counts.csv", "--what-if", "period=7d"],
        "--what-if period=… needs to know how long the prior's period was; state it, as in --prior-period 14d",
    ),
    "what if of no time": (
        ["spec.toml", "--prior", "counts.csv", "--prior-period", "14d", "--what-if", "period=0d"],
        "--what-if period=0d: a whole number of seconds",
    ),
    "what if of no column": (
        ["spec.toml", "--prior", "counts.csv", "--what-if", "location=country"],
        "counts.csv has no column 'country'",
    ),
    "what if of no prior": (
        ["spec.toml", "--tree", "counts.csv", "--what-if", "location=country"],
        "--what-if location=country names a column of the prior; give one, or a table: location=FILE:country",
    ),
    "what if of an old period": (
        ["spec.toml", "--tree", "counts.csv", "--prior-period", "14d", "--what-if", "period=7d"],
        "another period needs counts of an earlier one",
    ),
    "what if of two lands": (
        ["spec.toml", "--prior", "counts.csv", "--what-if", "location=two.csv:land"],
        "two.csv: a location is in one land; 'Paris' is in 'FR' and in 'US': tell them apart by their labels",
    ),
    "what if of a part": (
        ["spec.toml", "--prior", "counts.csv", "--what-if", "location=part.csv:land"],
        "location 'Lima' has no land; give the table a row for it, or leave it out",
    ),
    "what if of a level twice": (
        ["spec.toml", "--prior", "counts.csv", "--what-if", "location=two.csv:campaign"],
        "'campaign' is a level already: leave 'location' out instead, as in location=",
    ),
    "what if 0": (
        ["spec.toml", "--prior", "counts.csv", "--what-if", "epsilon=1,0"],
        "--what-if epsilon: a number",
    ),
    "no last plan": (
        ["spec.toml", "--prior", "counts.csv", "--last", "x.json"],
        "there is no file x.json",
    ),
    "last plan": (["spec.toml", "--prior", "counts.csv", "--last", "spec.toml"], "spec.toml is not JSON"),
    "all to a file": (
        ["spec.toml", "--prior", "counts.csv", "--method", "all"],
        "a plan has one method",
    ),
    "counts without any": (["heavy.toml", "--tree", "counts.csv"], 'weights = "counts" needs a prior with conversions'),
}
FILES = {
    "two.csv": "location,land,campaign\nParis,FR,1\nParis,US,1\n",
    "part.csv": "location,land\nParis,FR\n",
    "wrong.toml": SPEC.replace("2", "-1", 1),
    "heavy.toml": 'weights = "counts"\n' + SPEC,
    "tree.csv": "campaign\n1\n",
    "bare.csv": "campaign,location,day\n1,a,mon\n",
    "other.csv": "campaign,location,day,conversions\n1,a,Monday,3\n",
    "words.csv": "campaign,location,day,conversions\n1,a,mon,many\n",
    "less.csv": "campaign,location,day,conversions\n1,a,mon,-3\n",
    "hole.csv": "campaign,location,day,conversions\n1,,,3\n",
    "gap.csv": "campaign,location,day,conversions\n,a,mon,3\n",
}


@pytest.mark.parametrize("name", BAD)
def test_mistakes_are_one_line_and_the_old_plan_stays(name: str) -> None:
    arguments, message = BAD[name]
    for file, text in FILES.items():
        Path(file).write_text(text, encoding="utf-8")
    Path("plan.json").write_text("old", encoding="utf-8")
    before = sorted(os.listdir())
    result = plan(*arguments, "-o", "plan.json")
    assert result.exit_code == 2 and result.stdout == ""
    assert result.stderr.startswith(f"error: {message}") and result.stderr.count("\n") == 1, result.stderr
    assert Path("plan.json").read_text(encoding="utf-8") == "old" and sorted(os.listdir()) == before


def test_all_mistakes_of_a_spec_each_on_its_line() -> None:
    Path("spec.toml").write_text("epsilon = 0\ntau = -1\n", encoding="utf-8")
    result = plan("spec.toml", "-o", "plan.json")
    first, *lines = result.stderr.splitlines()
    assert result.exit_code == 2 and first == "error: spec.toml has 3 mistakes:" and not os.path.exists("plan.json")
    assert [line.split(":")[0] for line in lines] == ["  epsilon", "  tau", "  attribute"]


def test_places_that_cannot_be_written_to_are_found_first() -> None:
    for target, message in (("nowhere/plan.json", "there is no folder"), (".", "is a folder")):
        result = plan("none.toml", "-o", target)  # before the spec is even read
        assert result.exit_code == 2 and message in result.stderr
    assert "give -o a name" in plan("spec.toml", "--method", "per-node", "-o", "-").stderr


def test_the_tree_is_read_as_keys_reads_impressions(monkeypatch: pytest.MonkeyPatch) -> None:
    called = SPEC + '[logs]\nimpression_columns = {campaign = "cmp", location = "loc"}\nmissing = ["NA"]\n'
    Path("called.toml").write_text(called, encoding="utf-8")
    os.mkdir("clicks")
    for i in range(3):
        text = f"cmp,loc,user\n{i},Paris,u\n{i},NA,v\n{i},Paris,w\n"
        Path(f"clicks/{i}.csv").write_text(text, encoding="utf-8")
    plan_of = {}
    for given in ("clicks/*.csv", "clicks", "clicks/0.csv"):
        done("called.toml", "--tree", given, "-o", "plan.json")
        keys = CliRunner().invoke(main, ["keys", "plan.json", "--impressions", given, "-o", "q"])
        assert keys.exit_code == 0, keys.output
        plan_of[given] = read_table("q/tree.parquet").num_rows
    words = plan("called.toml", "--tree", "clicks/*.csv").stderr
    assert plan_of == {"clicks/*.csv": 27, "clicks": 27, "clicks/0.csv": 9} and "27 rows" in words, words
    words = plan("called.toml", "--tree", "s3://bucket/clicks.csv").stderr
    assert words == (
        "error: s3://bucket/clicks.csv is an address, which only counting reads; copy the file, or give counts of it\n"
    )


def test_counts_with_total_rows_are_refused() -> None:
    rows = [line.split(",") for line in counts().splitlines()[1:]]
    total: dict[tuple[str, str], int] = {}
    for campaign, _, day, _, conversions in rows:
        total[campaign, day] = total.get((campaign, day), 0) + int(conversions)
    lines = [f"{campaign},ALL,{day},99,{n}\n" for (campaign, day), n in total.items()]
    Path("counts.csv").write_text(counts() + "".join(lines), encoding="utf-8")
    result = plan("spec.toml", "--prior", "counts.csv")
    assert result.exit_code == 2 and "'ALL' in column 'location' is the sum of the rows beside it" in result.stderr
