"""attributary keys: a plan's layout, registrations and the domain to query, in an empty folder."""

import json
import os
import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from attributary import prior
from attributary.api.ara import parse
from attributary.api.ara.keys.key_layout import layout, tree_keys
from attributary.api.ara.registration import registrations
from attributary.api.ara.wire.avro import read_domain
from attributary.cli import main
from attributary.plan import Plan, make_plan
from attributary.spec import Spec
from attributary.tables import read_table, write_table

DAYS = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]
ATTRIBUTES = [{"name": "campaign"}, {"name": "location"}, {"name": "day", "unknown": True, "domain": DAYS}]
SPEC = Spec(epsilon=4, attributes=ATTRIBUTES)
TABLE = "campaign,location\n123,Paris\n456,Chicago\n789,London\n123,New York\n123,Paris\n"


@pytest.fixture(autouse=True)
def _empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")
    Path("impressions.csv").write_text(TABLE, encoding="utf-8")
    tree = SPEC.tree(read_table("impressions.csv"))
    make_plan(SPEC, tree, method="equal", rounding="floor").save("plan.json")


def keys(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["keys", *arguments])


def done(*arguments: str) -> Result:
    result = keys(*arguments)
    assert result.exit_code == 0, result.output
    return result


def test_the_layout_is_shown_and_stored_once() -> None:
    before = Plan.load("plan.json")
    first = done("plan.json", "--bits", "campaign=40")
    assert first.stdout == "" and "plan.json: a key has 109 of 128 bits" in first.stderr
    assert re.search(r"campaign +40 +89 +50 +any, hashed +impression", first.stderr)
    assert "keys written to plan.json" in first.stderr
    plan, text = Plan.load("plan.json"), Path("plan.json").read_text(encoding="utf-8")
    assert before.keys is None and plan.keys is not None and plan.keys[0].bits == 40
    again = done("plan.json")
    assert "plan.json has these keys already; they stay as they are" in again.stderr
    assert Path("plan.json").read_text(encoding="utf-8") == text
    quiet = done("plan.json", "-q")
    assert quiet.output == ""


EVENT = ("--impression", "campaign=123,location=New York", "--conversion", "day=Friday")


def test_headers_on_standard_output() -> None:
    result = done("plan.json", *EVENT, "--destination", "https://shop.example", "--source-event-id", "77")
    source, trigger = result.stdout.splitlines()
    plan = Plan.load("plan.json")
    ready = registrations(plan)
    name, _, value = source.partition(": ")
    assert name == "Attribution-Reporting-Register-Source"
    assert json.loads(value) == ready.source(
        {"campaign": "123", "location": "New York"}, "https://shop.example", event_id=77
    )
    name, _, value = trigger.partition(": ")
    assert name == "Attribution-Reporting-Register-Trigger"
    assert json.loads(value) == ready.trigger({"day": "Friday"}) and '"day":21845' in value
    assert parse.trigger(value).value is not None
    assert "keys written to plan.json" in result.stderr and "placeholder" not in result.stderr
    again = done("plan.json", *EVENT)
    assert again.stdout.splitlines()[1] == trigger
    assert again.stderr == "note: the destination is a placeholder; give yours with --destination\n"


def test_either_side_alone_and_values_with_commas() -> None:
    done("plan.json")
    assert len(done("plan.json", "--impression", "campaign=a,b,location=", "-q").stdout.splitlines()) == 1
    value = done("plan.json", "--impression", "campaign=a,b,location=", "-q").stdout.partition(": ")[2]
    expected = registrations(Plan.load("plan.json")).source({"campaign": "a,b", "location": "missing"}, "https://x")
    assert json.loads(value)["aggregation_keys"] == expected["aggregation_keys"]
    only = done("plan.json", "--conversion", "day=Friday", "--deduplication-key", "5", "-q").stdout
    assert only.startswith("Attribution-Reporting-Register-Trigger") and '"deduplication_key":"5"' in only


def test_both_headers_where_a_conversion_has_nothing_to_tell() -> None:
    spec = Spec(epsilon=4, attributes=[{"name": "a"}, {"name": "d", "unknown": True, "bucket": "1h", "buckets": 400}])
    make_plan(spec, spec.tree({"a": ["x"]}), method="equal").save("plan.json")
    result = done("plan.json", "--impression", "a=x")
    assert len(result.stdout.splitlines()) == 2
    assert re.search(r"note: the trigger header has [\d,]+ bytes", result.stderr)


def test_notes_on_what_a_plan_cannot_keep() -> None:
    logs = {"impressions": "i.csv", "conversions": "c.csv", "user": "u", "time": "t", "window": "40d"}
    spec = Spec(epsilon=4, l1=1000, attributes=ATTRIBUTES, logs=logs)
    make_plan(spec, spec.tree(read_table("impressions.csv"))).save("plan.json")
    said = done("plan.json", *EVENT, "--deduplication-key", "9").stderr
    assert "browsers forget an impression after 30 days; the spec's window is 40 days" in said
    assert "leaves room for a second one of the same impression" in said


@pytest.mark.parametrize("name", ["impressions.csv", "counts.parquet", "*.csv"])
def test_the_tree_and_the_domain_to_query(name: str) -> None:
    write_table(read_table("impressions.csv"), "counts.parquet")
    result = done("plan.json", "--impressions", name, "-o", "query")
    plan, table = Plan.load("plan.json"), read_table("query/tree.parquet")
    tree = SPEC.tree(read_table("impressions.csv"))
    assert table.to_pylist() == tree.table().to_pylist() and table.column_names == tree.table().column_names
    assert np.array_equal(read_domain("query/domain.avro"), tree_keys(layout(plan), tree))
    assert "35 nodes written to query/tree.parquet, 35 keys to query/domain.avro" in result.stderr
    assert sorted(os.listdir("query")) == ["domain.avro", "tree.parquet"]
    assert done("plan.json", "--impressions", name, "-o", "query", "-q").output == ""


def test_nodes_without_a_key_are_not_queried() -> None:
    tree = SPEC.tree(read_table("impressions.csv"))
    make_plan(SPEC, tree, method="leaves").save("plan.json")
    said = done("plan.json", "--impressions", "impressions.csv", "-o", "query").stderr
    assert "28 keys to query/domain.avro; 7 nodes have none" in said


def test_classes_are_made_and_their_loss_shown() -> None:
    spec = Spec(epsilon=4, split_by="campaign", attributes=ATTRIBUTES)
    rng = np.random.default_rng(1)
    campaigns = [str(i) for i in range(80)]
    tree = spec.tree({"campaign": campaigns, "location": ["x"] * 80})
    plan = make_plan(spec, tree, method="equal")
    rows = {
        name: (n, n, 65_536 - 2 * n) for name, n in zip(campaigns, rng.integers(1, 30_000, 80).tolist(), strict=True)
    }
    share = plan.measures[0].model_copy(update={"roots": rows})
    plan.model_copy(update={"measures": (share,)}).save("plan.json")
    said = done("plan.json", "--classes", "10").stderr
    assert "81 different contributions made 10 classes; noise variance by level" in said
    made = Plan.load("plan.json")
    assert len({*made.roots.values(), made.default}) == 10 and len(made.roots) == 80
    values = json.loads(done("plan.json", *EVENT, "-q").stdout.splitlines()[1].partition(": ")[2])[
        "aggregatable_values"
    ]
    assert len(values) == 10 and values[0]["filters"] == {"split": ["0"], "plan": [Plan.load("plan.json").mark]}
    assert "in terms of what it was" not in done("plan.json").stderr


def test_a_plan_by_node() -> None:
    spec = Spec(epsilon=4, attributes=ATTRIBUTES)
    rng = np.random.default_rng(2)
    table = {"campaign": [str(i // 9) for i in range(90)], "location": [f"l{i}" for i in range(90)]}
    leaves = {name: np.repeat(column, 7).tolist() for name, column in table.items()} | {"day": DAYS * 90}
    leaves["conversions"] = rng.poisson(rng.lognormal(1, 2, 630)).tolist()
    tree = spec.tree(leaves)
    make_plan(spec, tree, prior.from_counts(tree, leaves), "per-node").save("plan.json")
    done("plan.json")
    made = Plan.load("plan.json")
    assert made.nodes is not None and len(registrations(made).classes) <= 50


BAD: dict[str, tuple[list[str], str]] = {
    "no plan": (["none.json"], "there is no file none.json"),
    "not a plan": (["impressions.csv"], "impressions.csv is not JSON"),
    "unit noise": (
        ["unit.json"],
        'unit.json: a plan for the Attribution Reporting API has noise = "api"; this one has "unit"',
    ),
    "no such attribute": (["plan.json", "--impression", "camp=1"], "there is no attribute 'camp' to register"),
    "lacking": (
        ["plan.json", "--impression", "campaign=1"],
        "'location' is missing; an impression has",
    ),
    "outside": (["plan.json", "--conversion", "day=Fri"], "'day' has no value 'Fri' in its domain"),
    "no name": (["plan.json", "--conversion", "Friday"], "--conversion takes values by name, as in campaign=123"),
    "twice": (["plan.json", "--conversion", "day=Friday,day=Friday"], "--conversion has 'day' twice"),
    "no site": (
        ["plan.json", "--impression", "campaign=1,location=x", "--destination", "shop"],
        "a destination is the site of a shop, with https; got 'shop': write the address of a page, as in https://shop.e",
    ),
    "no https": (
        ["plan.json", "--impression", "campaign=1,location=x", "--destination", "www.shop.co.uk"],
        "a destination is the site of a shop, with https; got 'www.shop.co.uk': write https://shop.co.uk",
    ),
    "http": (
        ["plan.json", "--impression", "campaign=1,location=x", "--destination", "http://shop.example"],
        "a destination is the site of a shop, with https; got 'http://shop.example': write https://shop.example",
    ),
    "long site": (
        ["plan.json", "--impression", "campaign=1,location=x", "--destination", "x." * 9999],
        "a destination is the site of a shop, with https; got 'x.x.x.",
    ),
    "four sites": (
        ["plan.json", "--impression", "campaign=1,location=x", *(f"--destination=https://{c}.test" for c in "abcd")],
        "a source has 1 to 3 destinations; got 4: leave some out",
    ),
    "bits": (["plan.json", "--bits", "campaign=many"], "--bits takes a whole number, as in"),
    "bits of what": (["plan.json", "--bits", "9"], "--bits takes an attribute and its value"),
    "too many bits": (
        ["plan.json", "--bits", "campaign=64", "--bits", "location=62"],
        "plan.json: a key has 128 bits; plan and level 19",
    ),
    "keys are there": (
        ["keyed.json", "--bits", "campaign=9"],
        "keyed.json: the plan has keys already, and keys that were",
    ),
    "classes are there": (["keyed.json", "--classes", "9"], "keyed.json: the plan has keys already"),
    "no file": (["plan.json", "--impressions", "x.csv"], "there is no file x.csv"),
    "no column": (["plan.json", "--impressions", "bare.csv"], "bare.csv has no column 'location'"),
    "not listed": (
        ["plan.json", "--values", "campaign=1,2", "--impressions", "impressions.csv"],
        "'campaign' has no value '123'; the list has 1, 2",
    ),
    "collision": (
        ["plan.json", "--bits", "campaign=1", "--impressions", "impressions.csv"],
        "the values '123' and '456' of 'campaign' have the same code of 1 bits",
    ),
    "not a folder": (
        ["plan.json", "--impressions", "impressions.csv", "-o", "bare.csv"],
        "bare.csv is not a writable",
    ),
    "not in a folder": (
        ["plan.json", "--impressions", "impressions.csv", "-o", "bare.csv/x"],
        "bare.csv/x cannot be made: Not a directory",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_mistakes_are_one_line_and_the_plan_stays(name: str) -> None:
    done("plan.json", "-q")
    Path("plan.json").rename("keyed.json")
    tree = SPEC.tree(read_table("impressions.csv"))
    make_plan(SPEC, tree, method="equal").save("plan.json")
    unit = Spec(epsilon=4, noise="unit", attributes=ATTRIBUTES)
    make_plan(unit, tree).save("unit.json")
    Path("bare.csv").write_text("campaign\n1\n", encoding="utf-8")
    before = {path: path.read_bytes() for path in Path().iterdir()}
    arguments, message = BAD[name]
    result = keys(*arguments)
    assert result.exit_code == 2 and result.stdout == ""
    assert result.stderr.startswith(f"error: {message}") and result.stderr.count("\n") == 1, result.stderr
    assert {path: path.read_bytes() for path in Path().iterdir()} == before
