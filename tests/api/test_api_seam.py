"""The seam of attribution APIs: a second API is registered here, and every command speaks it; nothing asks for ara."""

import ast
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from pydantic import Field

import attributary
from attributary import Measurements, Plan, Spec, Tree, api, denoise
from attributary.api.attribution_api import Answer, AttributionApi, Clients, Message, Query
from attributary.cli import main
from attributary.errors import InputError
from attributary.plan.proposals import Asked, Proposals, Solve, Wishes
from attributary.spec.terms import TERMS, ApiSection, Keys, Terms
from attributary.tables import read_table

SOURCE = Path(attributary.__file__).parent


class BoothClients(Clients):
    """Clients of a booth: an impression is told its campaign, a conversion its day and what it adds."""

    @property
    def asks(self) -> tuple[str, ...]:
        return tuple(attribute.name for attribute in self.plan.spec.unknown)

    def impression(self, values: Mapping[str, Any], **options: Any) -> Message:
        return Message((f"remember {json.dumps(dict(values))}",), ("paper is cheap",))

    def conversion(self, values: Mapping[str, Any], **options: Any) -> Message:
        return Message((f"drop {list(self.plan.default)} for {json.dumps(dict(values))}",))

    def query(self, tree: Tree) -> Query:
        asked = int((self.plan.contribution(tree) > 0).sum())

        def write(path: str) -> None:
            Path(path).write_text(str(asked))

        return Query(asked, write)


class Booth(AttributionApi):
    """An API whose answer is a JSON list of noisy counts, in the tree's order."""

    terms = Terms(
        kind="booth", title="Booth API", l1=1000, noise="unit", largest_epsilon=9, conversions=2, answer="a tally sheet"
    )
    query_file = "boxes.txt"

    def clients(self, plan: Plan, **wishes: Any) -> BoothClients:
        return BoothClients(plan, table=[["box", "for"], ["1", "all"]], heading="boxes")

    def answer(
        self, plan: Plan, files: Sequence[str], tree: Tree, rate: tuple[float, int] | None = None, name: str = ""
    ) -> Answer:
        noisy = json.loads(Path(files[0]).read_text())
        shape = plan.spec.noise_model.shape.name
        return Answer({"count": Measurements.of(tree, noisy, plan.variance(tree), shape)}, ("from a tally sheet",))


@pytest.fixture(autouse=True)
def _booth(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    api.register(Booth())
    yield
    del api.APIS["booth"], TERMS["booth"]


TOML = """
epsilon = 4
[api]
kind = "booth"
[[attribute]]
name = "campaign"
[[attribute]]
name = "day"
unknown = true
domain = ["Sat", "Sun"]
"""
COUNTS = "campaign,day,impressions,conversions\na,Sat,90,40\na,Sun,90,60\nb,Sat,50,5\nb,Sun,50,9\n"


def run(*arguments: str) -> str:
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    return result.output


def test_a_second_api_is_planned_told_queried_measured_and_denoised() -> None:
    Path("spec.toml").write_text(TOML)
    Path("counts.csv").write_text(COUNTS)
    run("plan", "spec.toml", "--prior", "counts.csv", "-o", "plan.json")
    plan = Plan.load("plan.json")
    assert plan.spec.l1 == 1000 and plan.spec.noise == "unit" and 0 < sum(plan.default) <= 1000

    told = run("keys", "plan.json", "--impression", "campaign=a", "--conversion", "day=Sun")
    assert 'remember {"campaign": "a"}' in told and f"drop {list(plan.default)}" in told and "paper is cheap" in told
    told = run("keys", "plan.json", "--impressions", "counts.csv", "-o", "query")
    keys = 2 * (plan.default[0] > 0) + 4 * (plan.default[1] > 0)
    assert f"{keys} keys to query/boxes.txt" in told and Path("query/boxes.txt").read_text() == str(keys)

    tree = plan.spec.tree(read_table("counts.csv"))
    count = tree.roll_up(np.array([40.0, 60, 5, 9]))
    noisy = plan.spec.noise_model.measure(count, plan.budget(tree), np.random.default_rng(1))
    Path("sheet.json").write_text(json.dumps(noisy.tolist()))
    said = run("denoise", "plan.json", "sheet.json", "--tree", "query/tree.parquet", "-o", "estimates.parquet")
    assert "from a tally sheet" in said
    table = read_table("estimates.parquet")
    expected = denoise(tree, noisy, plan.variance(tree))
    np.testing.assert_allclose(table.column("estimate").to_numpy(), expected.count)


def test_its_terms_are_the_spec_s_rules() -> None:
    wrong = TOML.replace("epsilon = 4", "epsilon = 4\nconversions_per_impression = 3")
    with pytest.raises(InputError, match="clients of the Booth API report at most 2; got 3"):
        Spec.parse(wrong)
    assert "epsilon = 10 is more than the 9 that a tally sheet takes" in Spec.parse(TOML.replace("= 4", "= 10")).notes
    with pytest.raises(
        InputError, match=r'api.kind: the attribution API is "ara" \(Attribution Reporting API\) or .* or "bo'
    ):
        Spec.parse(TOML.replace('"booth"', '"bureau"'))
    with pytest.raises(InputError, match="api.kind: the name of an attribution API"):
        Spec.parse(TOML.replace('"booth"', "7"))
    with pytest.raises(InputError, match="api.box"):
        Spec.parse(TOML.replace('"booth"', '"booth"\nbox = 1'))
    spec = Spec.parse(TOML)
    assert Spec.parse(TOML.replace("[api]", 'l1 = 20\nnoise = "api"\n[api]')).l1 == 20
    assert spec.at(2.0).terms == spec.terms == Booth.terms and Spec(epsilon=1, attributes=[{"name": "a"}]).api is None


def test_what_the_api_cannot_carry_is_refused() -> None:
    spec = Spec.parse(TOML.replace("[api]", 'noise = "api"\n[api]'))
    plan = attributary.make_plan(spec, spec.tree({"campaign": ["a"]}))
    with pytest.raises(InputError, match='a plan for the Booth API has noise = "unit"; this one has "api"'):
        api.clients(plan)
    delay = TOML.replace('domain = ["Sat", "Sun"]', 'bucket = "1d"\nbuckets = 3')
    plan = attributary.make_plan(Spec.parse(delay), Spec.parse(delay).tree({"campaign": ["a"]}))
    with pytest.raises(InputError, match="time from impression to conversion, which no client of the Booth API can"):
        api.clients(plan)
    with pytest.raises(InputError, match="no local aggregation service for the Booth API"):
        attributary.aggregate(plan, "reports.avro", "domain.avro", output="out.avro")
    plan.save("plan.json")
    result = CliRunner().invoke(main, ["keys", "plan.json", "--bits", "campaign=9"])
    assert result.exit_code == 2 and "--bits is not an option of the Booth API" in result.stderr


def test_only_the_seam_knows_the_adapters() -> None:
    """No module of the product outside of api/ imports one of the APIs."""
    for file in SOURCE.rglob("*.py"):
        if file.relative_to(SOURCE).parts[0] in ("api", "browsers"):
            continue
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [f"{names[0]}.{alias.name}" for alias in node.names] if isinstance(node, ast.ImportFrom) else []
            assert not any(name.startswith(("attributary.api.ara", "attributary.api.bigquery")) for name in names), (
                f"{file} imports {names}"
            )


class StallSection(ApiSection):
    """A stall is paid for some days at once."""

    coins: float = Field(gt=0, description="ε of all days together, above 0")
    days: int = Field(default=2, ge=1, description="how many days share the coins, 1 or more")
    tray: str | None = Field(default=None, description="the tray that slips go to")

    @classmethod
    def derived(cls, section: Keys) -> dict[str, Any]:
        coins, days = section.get("coins"), section.get("days")
        fine = isinstance(coins, int | float) and isinstance(days, int) and days > 0
        return {"epsilon": coins / days} if fine else {}

    @classmethod
    def at(cls, section: Keys, epsilon: float) -> dict[str, Any]:
        return {**section, "coins": epsilon * section["days"]}


class Trays(Proposals):
    """Slips are told apart by ten or by a thousand parts of ε; the plan takes what has the smaller error."""

    def decided(self, spec: Spec) -> bool:
        return isinstance(spec.api, StallSection) and spec.api.tray is not None

    def choose(self, asked: Asked, wishes: Wishes, solve: Solve) -> Plan:
        plans = []
        for l1, tray in ((10, "coarse"), (1000, "fine")):
            section = asked.spec.api and asked.spec.api.model_copy(update={"tray": tray})
            spec = asked.spec.model_copy(update={"l1": l1, "api": section})
            plans.append(solve(asked._replace(spec=spec), wishes))
        return min(plans, key=lambda plan: plan.expected.tree.plan)


STALL = """
[api]
kind = "stall"
coins = 6.0
[[attribute]]
name = "campaign"
[[attribute]]
name = "day"
unknown = true
domain = ["Sat", "Sun"]
"""


@pytest.fixture
def _stall() -> Iterator[None]:
    TERMS["stall"] = Terms(
        kind="stall",
        title="Stall API",
        l1=1000,
        noise="api",
        largest_epsilon=9,
        conversions=1,
        section=StallSection,
        proposals=Trays,
    )
    yield
    del TERMS["stall"]


@pytest.mark.usefixtures("_stall")
def test_an_api_brings_its_settings_and_its_ways_to_measure() -> None:
    spec = Spec.parse(STALL)
    assert isinstance(spec.api, StallSection) and (spec.epsilon, spec.l1, spec.api.days) == (3.0, 1000, 2)
    cheaper = spec.at(1.5)
    assert isinstance(cheaper.api, StallSection) and (cheaper.epsilon, cheaper.api.coins) == (1.5, 3.0)
    tree = spec.tree({"campaign": ["a", "b", "c"]})
    plan = attributary.make_plan(spec, tree)
    assert plan.spec.l1 in (10, 1000) and isinstance(plan.spec.api, StallSection) and plan.spec.api.tray is not None
    for l1, tray in ((10, "coarse"), (1000, "fine")):
        one = Spec.parse(
            STALL.replace("coins = 6.0", f'coins = 6.0\ntray = "{tray}"').replace("[api]", f"l1 = {l1}\n[api]")
        )
        only = attributary.make_plan(one, tree, compare=False)
        assert only.expected.tree.plan >= plan.expected.tree.plan
        assert only.spec.l1 != plan.spec.l1 or only.measures == plan.measures
    again = Plan.from_json(plan.to_json())
    assert again.to_json() == plan.to_json() and again.spec == plan.spec


@pytest.mark.usefixtures("_stall")
@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("coins = 6.0", "", "api.coins: is missing; ε of all days together"),
        ("coins = 6.0", "coins = 0", "api.coins: ε of all days together, above 0; got 0"),
        ("coins = 6.0", "coins = 6.0\ncoin = 1", "api.coin: there is no such key; did you mean coins"),
        ("coins = 6.0", "coins = 60.0", "epsilon: an answer takes at most 9; got 30"),
        ('"stall"', '"ara"', "api.coins: there is no such key; the keys are kind"),
    ],
)
def test_mistakes_in_its_settings_are_told_in_its_words(old: str, new: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        Spec.parse(STALL.replace(old, new))


def test_proposals_that_are_none_are_refused() -> None:
    TERMS["stall"] = Terms("stall", "Stall API", 10, "api", 9, 1, proposals=lambda: "tray")
    try:
        spec = Spec.parse(STALL.replace("coins = 6.0", "").replace("[api]", "epsilon = 1\n[api]"))
        with pytest.raises(InputError, match="give proposals as plan.Proposals; got 'tray'"):
            attributary.make_plan(spec, spec.tree({"campaign": ["a"]}))
    finally:
        del TERMS["stall"]
