"""attributary denoise PLAN SUMMARY: reports are matched to the nodes by key, and what does not match is told."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from attributary import Tree, noise
from attributary.ara.keys.layout import layout
from attributary.ara.keys.nodes import Keys, tree_keys
from attributary.ara.wire.avro import write_results
from attributary.cli import main
from attributary.plan import Plan, make_plan
from attributary.spec import Spec

SPEC = """
epsilon = 2
[[attribute]]
name = "campaign"
[[attribute]]
name = "day"
unknown = true
domain = ["Mon", "Tue"]
"""
COUNT = np.array([7, 5, 3, 4, 5, 0])  # two campaigns, then their days


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Plan, Tree, Keys]:
    monkeypatch.chdir(tmp_path)
    spec = Spec.parse(SPEC)
    tree = spec.tree({"campaign": ["a", "b"]})
    plan = make_plan(spec, tree, method="equal")
    plan.save("plan.json")
    pq.write_table(tree.table(), "tree.parquet")
    return plan, tree, tree_keys(layout(plan), tree)


def run(*args: str) -> Result:
    return CliRunner().invoke(main, ["denoise", *args, "-o", "out.parquet"])


def sums(made: tuple[Plan, Tree, Keys], count: np.ndarray = COUNT) -> np.ndarray:
    plan, tree, _ = made
    return plan.contribution(tree) * count


def rows(result: Result) -> pa.Table:
    assert result.exit_code == 0, result.output
    return pq.read_table("out.parquet")


def test_a_row_for_each_node_in_the_contracts_columns(made: tuple[Plan, Tree, Keys]) -> None:
    write_results("s.avro", made[2], sums(made))
    result = run("plan.json", "s.avro")
    table = rows(result)
    columns = ["noisy", "noise_variance", "estimate", "variance", "low", "high", "correction"]
    assert table.column_names == ["node", "parent", "level", "campaign", "day", *columns]
    assert np.allclose(table.column("estimate"), COUNT)
    assert np.allclose(table.column("noise_variance"), made[0].variance(made[1]))
    assert "6 rows written to out.parquet\n" in result.stderr


def test_shards_are_one_report_and_batches_add(made: tuple[Plan, Tree, Keys]) -> None:
    keys, all_sums = made[2], sums(made)
    write_results("s-1-of-2.avro", keys[:2], all_sums[:2])
    write_results("s-2-of-2.avro", keys[2:], all_sums[2:])
    Path("folder").mkdir()
    write_results("folder/x.avro", keys[1:], 2 * all_sums[1:])
    write_results("folder/y.avro", keys[:1], 2 * all_sums[:1])
    shards = rows(run("plan.json", "s-1-of-2.avro", "s-2-of-2.avro"))
    assert np.allclose(shards.column("noisy"), COUNT) and np.allclose(
        shards.column("noise_variance"), made[0].variance(made[1])
    )
    result = run("plan.json", "s-*.avro", "folder")
    both = rows(result)
    assert np.allclose(both.column("noisy"), 3 * COUNT) and "2 summary reports added up" in result.stderr
    each = noise.dlap_variance(2 / 65536) / made[0].contribution(made[1]) ** 2
    assert np.allclose(both.column("noise_variance"), 2 * each)


def test_the_services_json(made: tuple[Plan, Tree, Keys]) -> None:
    found = [
        {"bucket": ((int(high) << 64) | int(low)).to_bytes(16, "big").decode("latin-1"), "metric": int(metric)}
        for (high, low), metric in zip(made[2], sums(made), strict=True)
    ]
    Path("s.json").write_text(json.dumps(found), encoding="utf-8")
    assert np.allclose(rows(run("plan.json", "s.json")).column("estimate"), COUNT)


def test_what_does_not_match_is_told(made: tuple[Plan, Tree, Keys]) -> None:
    keys, metric = made[2].copy(), sums(made)
    strange = np.array([[1, 2], [3, 4]], np.uint64)
    twice = np.concatenate([keys[1:], keys[5:], strange])  # node 0 is missing, node 5 has two sums
    write_results("s.avro", twice, np.concatenate([metric[1:], metric[5:] + 1, [8, 9]]))
    result = run("plan.json", "s.avro")
    table = rows(result)
    for words in ("2 nodes have no sum", "2 keys that no node has", "1 keys have several different sums"):
        assert words in result.stderr, words
    assert table.column("noise_variance").to_numpy()[[0, 5]].tolist() == [np.inf, np.inf]
    assert table.column("noisy").to_pylist()[0] is None
    assert np.allclose(table.column("estimate"), COUNT)  # node 0 follows from its days, and node 5 from node 1 and 4


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["plan.json"], "a plan goes with its summary report"),
        ([], "give a plan and its summary report, or --table"),
        (["plan.json", "s.avro", "--levels", "a"], "--levels belongs to --table"),
        (["plan.json", "s.avro", "--fill"], "--fill belongs to --table"),
        (["--tree", "t", "--table", "x"], "--tree belongs to a plan"),
        (["plan.json", "none.avro"], "none.avro"),
        (["plan.json", "other.avro"], "no node of the tree is measured: other.avro has 1 other keys"),
        (["plan.json", "plan.json"], "plan.json is no summary report"),
        (["plan.json", "tree.parquet"], "tree.parquet is neither Avro nor JSON"),
        (["plan.json", "s.avro", "--tree", "none"], "none"),
        (["s.avro", "s.avro"], "s.avro"),
    ],
)
def test_a_mistake_is_one_line(made: tuple[Plan, Tree, Keys], args: list[str], message: str) -> None:
    write_results("s.avro", made[2], sums(made))
    write_results("other.avro", np.array([[1, 2]], np.uint64), np.array([5]))
    result = run(*args)
    assert result.exit_code == 2 and message in result.stderr, result.output
    assert not Path("out.parquet").exists()


def test_without_a_tree_the_remedy_is_named(made: tuple[Plan, Tree, Keys]) -> None:
    write_results("s.avro", made[2], sums(made))
    Path("tree.parquet").rename("nodes.parquet")
    assert "give --tree a file that `attributary keys --impressions` wrote" in run("plan.json", "s.avro").stderr
    assert np.allclose(rows(run("plan.json", "s.avro", "--tree", "nodes.parquet")).column("estimate"), COUNT)
