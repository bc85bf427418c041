"""The seam of attribution APIs: a second API is registered here, and every command speaks it; nothing asks for ara."""

import ast
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import attributary
from attributary import Measurements, Plan, Spec, Tree, api, denoise
from attributary.api.attribution_api import Answer, AttributionApi, Clients, Message, Query
from attributary.cli import main
from attributary.errors import InputError
from attributary.spec.terms import TERMS, Terms
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
