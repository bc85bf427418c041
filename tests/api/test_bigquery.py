"""BigQuery behind the seam: its SQL is in the published grammar, and its results become measurements.

BigQuery cannot be run here. The checker below reads the part of the grammar that is published under
https://cloud.google.com/bigquery/docs/reference/standard-sql/query-syntax (select, differential privacy clause) and
…/aggregate-dp-functions (COUNT), and refuses all else.
"""

import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from attributary import Measurements, Plan, Spec, api, denoise, make_plan, noise
from attributary.cli import main
from attributary.errors import InputError
from attributary.tables import read_table

TOKEN = re.compile(
    r"\s*(?:--[^\n]*\n\s*)*(?P<token>`[^`\\]+`|\d+\.?\d*(?:[eE][+-]?\d+)?|=>|[A-Za-z_][A-Za-z0-9_]*|[(),.*=;])"
)
RESERVED = {"SELECT", "WITH", "FROM", "GROUP", "BY", "AS", "WHERE", "AND", "OR", "ALL", "DISTINCT", "HAVING", "ORDER"}


class Grammar:
    """A recursive descent over one statement: query_statement of the reference, for what a plan needs of it."""

    def __init__(self, text: str) -> None:
        self.tokens, at = [], 0
        while text[at:].strip():
            found = TOKEN.match(text, at)
            assert found, f"not a token: {text[at : at + 20]!r}"
            self.tokens.append(found["token"])
            at = found.end()
        self.at = 0

    def next(self) -> str:
        self.at += 1
        return self.tokens[self.at - 1] if self.at <= len(self.tokens) else ""

    def sees(self, token: str) -> bool:
        return self.at < len(self.tokens) and self.tokens[self.at].upper() == token

    def take(self, *tokens: str) -> None:
        for token in tokens:
            found = self.next()
            assert found.upper() == token, f"{token} expected, got {found!r}"

    def identifier(self) -> str:
        found = self.next()
        plain = re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", found) and found.upper() not in RESERVED
        assert plain or found.startswith("`"), f"an identifier expected, got {found!r}"
        return found.strip("`")

    def path(self) -> str:  # path_expression; a table may be quoted as a whole
        parts = [self.identifier()]
        while self.sees("."):
            self.take(".")
            parts.append(self.identifier())
        return ".".join(parts)

    def literal(self) -> float:
        found = self.next()
        assert re.fullmatch(r"\d+\.?\d*(?:[eE][+-]?\d+)?", found), f"a literal expected, got {found!r}"
        return float(found)

    def statement(self) -> dict[str, object]:
        """SELECT WITH differential_privacy_clause select_list FROM table_name [GROUP BY groupable_items] ;"""
        self.take("SELECT", "WITH", "DIFFERENTIAL_PRIVACY", "OPTIONS", "(")
        options = self.privacy_parameters()
        columns: list[str] = []
        while not self.sees("COUNT"):
            columns.append(self.path())
            self.take(",")
        self.take("COUNT", "(", "*", ",", "CONTRIBUTION_BOUNDS_PER_GROUP", "=>", "(")
        low = self.literal()
        self.take(",")
        high = self.literal()
        self.take(")", ")", "AS")
        alias = self.identifier()
        self.take("FROM")
        table = self.path()
        groups: list[str] = []
        if self.sees("GROUP"):
            self.take("GROUP", "BY")
            groups.append(self.path())
            while self.sees(","):
                self.take(",")
                groups.append(self.path())
        self.take(";")
        assert columns == groups, "what is not aggregated is grouped by"
        return {**options, "columns": columns, "bounds": (low, high), "alias": alias, "table": table}

    def privacy_parameters(self) -> dict[str, object]:
        """epsilon = expression, delta = expression, [max_groups_contributed = expression], privacy_unit_column = …"""
        found: dict[str, object] = {}
        for name in ("epsilon", "delta", "max_groups_contributed", "privacy_unit_column"):
            self.take(name.upper(), "=")
            found[name] = self.path() if name == "privacy_unit_column" else self.literal()
            self.take(")" if name == "privacy_unit_column" else ",")
        assert float(found["max_groups_contributed"]).is_integer()  # type: ignore[arg-type]
        return found


def statements(text: str) -> list[dict[str, object]]:
    parser = Grammar(text)
    found = []
    while parser.at < len(parser.tokens):
        found.append(parser.statement())
    return found


@pytest.mark.parametrize(
    "wrong",
    [
        "SELECT COUNT(*) AS n FROM t;",
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = x, max_groups_contributed = 1,"
        " privacy_unit_column = u) COUNT(*, contribution_bounds_per_group => (0, 1)) AS n FROM t;",
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6, max_groups_contributed = 1,"
        " privacy_unit_column = u) a, COUNT(*, contribution_bounds_per_group => (0, 1)) AS n FROM t;",
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1, delta = 1e-6, max_groups_contributed = 1,"
        " privacy_unit_column = u) COUNT(*, contribution_bounds_per_group => (0, 1)) AS n FROM a-b;",
    ],
)
def test_the_checker_refuses_what_is_not_in_the_grammar(wrong: str) -> None:
    with pytest.raises(AssertionError):
        statements(wrong)


TOML = """
epsilon = 2
delta = 1e-6
[api]
kind = "bigquery"
table = "my-project.ads.conversions"
privacy_unit = "user_id"
[[attribute]]
name = "campaign"
[[attribute]]
name = "day"
unknown = true
domain = ["Sat", "Sun"]
"""
SHARE = {"campaign": 0.3}


def planned(text: str = TOML, **options: object) -> tuple[Spec, Plan]:
    spec = Spec.parse(text)
    tree = spec.tree({"campaign": ["a", "b"]})
    return spec, make_plan(spec, tree, **({"share": SHARE} | options))  # type: ignore[arg-type]


@pytest.mark.parametrize("total", [False, True], ids=["groups", "a total"])
def test_the_queries_are_in_the_grammar_and_have_the_planned_budget(total: bool) -> None:
    text = TOML.replace("epsilon = 2", "epsilon = 2\ntotal = true") if total else TOML
    spec, plan = planned(text, share={"total": 0.1, **SHARE} if total else SHARE)
    found = statements("\n".join(api.clients(plan).lines))
    assert [each["columns"] for each in found][int(total) :] == [["campaign"], ["campaign", "day"]]
    assert [each["epsilon"] for each in found] == list(plan.epsilon()) and sum(plan.epsilon()) <= spec.epsilon
    assert sum(float(each["delta"]) for each in found) == pytest.approx(1e-6)  # type: ignore[arg-type]
    for each in found:  # one row of a privacy unit: nothing is cut off at any level
        assert each["max_groups_contributed"] == 1 and each["bounds"] == (0, 1) and each["alias"] == "conversions"
        assert each["table"] == "my-project.ads.conversions" and each["privacy_unit_column"] == "user_id"


def test_the_noise_is_rounded_laplace_of_half_the_budget() -> None:
    model, budget = noise.model("bigquery", 1.0, delta=1e-6), np.array([0.5, 2.0, 8.0, 0.0])
    some = budget[:3]
    assert np.allclose(model.variance(some), 2 * (2 / some) ** 2 + 1 / 12) and model.variance(budget)[3] == np.inf
    assert np.allclose(model.precision(some) * model.variance(some), 1) and model.precision(budget)[3] == 0
    step = 1e-6
    assert np.allclose(model.slope(some), (model.precision(some + step) - model.precision(some - step)) / step / 2)
    rng = np.random.default_rng(1)
    for b in (0.5, 2.0):
        drawn = model.sample(np.full(40_000, b), rng)
        assert abs(drawn.var() / model.variance(np.array([b]))[0] - 1) < 0.06 and drawn.dtype == np.int64
        again = model.replay(np.full(40_000, b), *rng.exponential(size=(2, 40_000)))
        assert abs(again.var() / model.variance(np.array([b]))[0] - 1) < 0.06
    assert (model.sample(np.zeros(3), rng) == 0).all() and model.log_likelihood(np.zeros(1), np.ones(1)) < 0


def run(*arguments: str, code: int = 0) -> str:
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == code, result.output
    return result.output


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("spec.toml").write_text(TOML)
    Path("counts.csv").write_text("campaign,day,conversions\na,Sat,40\na,Sun,60\nb,Sat,5\nb,Sun,9\n")
    run("plan", "spec.toml", "--prior", "counts.csv", "--share", "campaign=0.3", "-o", "plan.json", "-q")
    return tmp_path


def test_from_the_plan_to_queries_to_counts(folder: Path) -> None:
    said = run("keys", "plan.json")
    assert len(statements(said[said.index("--") : said.rindex(";") + 1])) == 2
    assert "together have ε = 2 and δ = 1e-06" in said and "already" not in said
    assert "4 nodes" not in run("keys", "plan.json", "--impressions", "counts.csv", "-o", "query")
    assert len(statements(Path("query/queries.sql").read_text())) == 2

    Path("campaign.csv").write_text("campaign,conversions\na,103\nb,12\n")
    Path("day.csv").write_text("campaign,day,conversions\na,Sat,41\na,Sun,58\nb,Sun,10\nz,Sun,7\n,Sun,3\n")
    said = run("denoise", "plan.json", "campaign.csv", "day.csv", "--tree", "query/tree.parquet", "-o", "out.parquet")
    assert "1 nodes have no row and count as not measured" in said and "2 rows are of no node" in said
    plan, table = Plan.load("plan.json"), read_table("out.parquet")
    tree = plan.spec.tree({"campaign": ["a", "b"]})
    variance = np.where(np.arange(6) == 4, np.inf, plan.variance(tree))  # b, Saturday: dropped, which is not 0
    expected = denoise(tree, [103, 12, 41, 58, 0, 10], variance)
    np.testing.assert_allclose(table.column("estimate").to_numpy(), expected.count)
    assert table.column("noisy").null_count == 1 or np.isnan(table.column("noisy").to_numpy()[4])

    doubled = Measurements.from_summary(plan, ["day.csv", "campaign.csv"], tree)
    assert np.allclose(doubled.variance, variance) and doubled.shape == "laplace"
    given = ("--tree", "query/tree.parquet", "--noise", "bigquery:epsilon=4", "-o", "o.parquet")
    run("denoise", "plan.json", "day.csv", *given)
    assert read_table("o.parquet").column("noise_variance")[2].as_py() < variance[2] / 3


def test_what_does_not_fit_is_refused(folder: Path) -> None:
    plan = Plan.load("plan.json")
    tree = plan.spec.tree({"campaign": ["a", "b"]})

    def refused(match: str, text: str, chosen: Plan = plan, times: int = 1) -> None:
        Path("r.csv").write_text(text)
        with pytest.raises(InputError, match=match):
            api.answer(chosen, ["r.csv"] * times, tree)

    refused("has conversions and the attributes of a level", "campaign,count\na,3\n")
    refused("attributes of a level", "day,conversions\nSat,3\n")
    refused("measured twice", "campaign,conversions\na,3\na,4\n")
    refused("measured twice", "campaign,conversions\na,3\n", times=2)
    leaves = make_plan(plan.spec, tree, method="leaves")
    refused("no query for campaign", "campaign,conversions\na,3\n", leaves)
    assert (
        "no query for campaign" in api.clients(leaves).notes[0]
        and "`share` campaign=0.2" in api.clients(leaves).notes[0]
    )
    assert "need not be told" in run("keys", "plan.json", "--impression", "campaign=a", code=2)
    for wrong in ('"a`b"', '"x y"'):
        with pytest.raises(InputError, match="names in BigQuery are letters"):
            api.clients(planned(TOML.replace('"user_id"', wrong))[1])
    split = Spec.parse(TOML.replace("[api]", 'split_by = "campaign"\n[api]'))
    with pytest.raises(InputError, match="BigQuery has one ε for the counts of a level"):
        api.clients(make_plan(split, tree, prior=None, method="equal"))


def test_the_section_of_the_spec() -> None:
    with pytest.raises(InputError, match="delta: noise = .bigquery. needs delta"):
        Spec.parse(TOML.replace("delta = 1e-6\n", ""))
    with pytest.raises(InputError, match="api.table: is missing"):
        Spec.parse(TOML.replace('table = "my-project.ads.conversions"\n', ""))
    with pytest.raises(InputError, match="api.table: there is no such key"):
        Spec.parse(TOML.replace('"bigquery"', '"ara"'))
    with pytest.raises(InputError, match="delta: a chance above 0"):
        Spec.parse(TOML.replace("1e-6", "2"))
    with pytest.raises(InputError, match="clients of the BigQuery API report at most 1; got 3"):
        Spec.parse(TOML.replace("epsilon = 2", "epsilon = 2\nconversions_per_impression = 3"))
    spec = Spec.parse(TOML)
    assert spec.noise == "bigquery" and spec.at(1.0).api == spec.api
    again = Spec(epsilon=1, delta=1e-6, api=spec.api, attribute=[{"name": "campaign"}])
    assert again.api == spec.api
