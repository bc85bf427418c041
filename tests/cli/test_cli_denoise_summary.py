"""attributary denoise PLAN SUMMARY: reports are matched to the nodes by key, and what does not match is told."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from attributary import Tree, noise
from attributary.api.ara.keys.key_layout import layout, tree_keys
from attributary.api.ara.service.summary_report import read_summary, write_summary
from attributary.api.ara.wire.avro import StatedNoise, write_results
from attributary.cli import main
from attributary.plan import Plan, make_plan
from attributary.spec import Spec
from attributary.tables.table_columns import words_of
from attributary.types import Keys
from support.effort import first_of

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
    assert "6 rows written to out.parquet; ε = 2, L1 = 65,536 (from plan.json; not stated by s.avro)\n" in result.stderr


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


def noisy_summary(made: tuple[Plan, Tree, Keys], path: str, epsilon: float, seed: int, stated: bool = True) -> None:
    """A summary report of COUNT with the noise of that ε, which it states or not."""
    metric = sums(made) + noise.sample_dlap(epsilon / 65536, len(COUNT), np.random.default_rng(seed))
    write_summary(path, made[2], metric, stated=StatedNoise(epsilon, 65536) if stated else StatedNoise())


def covered(table: pa.Table, count: np.ndarray) -> float:
    low, high = (table.column(name).to_numpy() for name in ("low", "high"))
    return float(((low <= count) & (count <= high)).mean())


@pytest.mark.parametrize(("ending", "stated"), first_of([("avro", True), ("json", True), ("avro", False)]))
def test_intervals_hold_what_they_say_under_the_summarys_own_noise(
    made: tuple[Plan, Tree, Keys], ending: str, stated: bool
) -> None:
    """The plan is of ε = 2, the summary report of 0.5: with the variances of the plan they would hold far less."""
    options = [] if stated else ["--noise", "api:epsilon=0.5"]
    held = []
    for seed in range(60):
        noisy_summary(made, f"s.{ending}", 0.5, seed, stated)
        held.append(covered(rows(run("plan.json", f"s.{ending}", *options)), COUNT))
    assert 0.92 < np.mean(held) < 0.98, np.mean(held)


def test_rates_of_several_summary_reports_add_as_variances(made: tuple[Plan, Tree, Keys]) -> None:
    for name, epsilon, stated in (("a.avro", 0.5, True), ("b.json", 1.0, True), ("c.avro", 2.0, False)):
        noisy_summary(made, name, epsilon, int(10 * epsilon), stated)
    result = run("plan.json", "a.avro", "b.json", "c.avro", "--noise", "api:epsilon=4,l1=1000")
    each = sum(noise.dlap_variance(rate) for rate in (0.5 / 65536, 1 / 65536, 4 / 1000))
    wanted = each / made[0].contribution(made[1]).astype(float) ** 2
    assert np.allclose(rows(result).column("noise_variance"), wanted)
    said = ["ε = 0.5, L1 = 65,536 (stated by a.avro)", "ε = 1, L1 = 65,536 (stated by b.json)"]
    for words in (*said, "ε = 4, L1 = 1,000 (from --noise; not stated by c.avro)"):
        assert words in result.stderr, result.stderr
    plain = run("plan.json", "c.avro")
    assert "ε = 2, L1 = 65,536 (from plan.json; not stated by c.avro)" in plain.stderr


@pytest.mark.parametrize("words", ["noise DLap(0.5/65536)", "NOT PRIVATE: exact sums"])
def test_noise_that_is_stated_in_words_alone_is_refused(words: str, made: tuple[Plan, Tree, Keys]) -> None:
    """Else the plan's noise would be taken for the report's, or its exact sums for private ones."""
    write_results("s.avro", made[2], sums(made), words)
    result = run("plan.json", "s.avro")
    assert result.exit_code == 2 and "s.avro: a summary report of `attributary aggregate` states" in result.stderr
    assert words in result.stderr and "give the file as it was written" in result.stderr


@pytest.mark.parametrize(
    ("name", "how"), [("t.avro", "copy"), ("t.avro", "turned"), ("t.json", "copy"), ("t-1-of-2", "")]
)
def test_the_same_summary_report_again_is_refused_whatever_it_is_called(
    made: tuple[Plan, Tree, Keys], name: str, how: str
) -> None:
    keys, metric = made[2], sums(made) + np.arange(6)
    write_results("s.avro", keys, metric)
    given = [name]
    if how != "shards":
        order = slice(None, None, -1 if how == "turned" else 1)
        write_summary(name, keys[order], metric[order], stated=StatedNoise(1, 65536))
    else:
        given = ["t-1-of-2.avro", "t-2-of-2.avro"]
        write_results(given[0], keys[3:], metric[3:])
        write_results(given[1], keys[:3], metric[:3])
    result = run("plan.json", "s.avro", *given)
    assert result.exit_code == 2 and "holds the same sums as s.avro" in result.stderr and result.stderr.count("\n") == 1
    metric[2:4] += [1, -1]  # the sum of all is as it was, and four of six noises
    write_results("s.avro", keys, metric)
    assert "on 4 of the 6 nodes that both have" in run("plan.json", "s.avro", *given).stderr
    metric += [1, 1, 1, 0, 1, 0]  # one is equal, by chance
    write_results("s.avro", keys, metric)
    assert run("plan.json", "s.avro", *given).exit_code == 0


def test_a_copy_that_lacks_rows_or_has_more_is_refused(made: tuple[Plan, Tree, Keys]) -> None:
    noisy_summary(made, "s.avro", 1, 7)
    whole = read_summary("s.avro")
    more = np.append(whole.keys, [[1, 2]], axis=0).astype(np.uint64), np.append(whole.metric, 5)
    for keys, metric in ((whole.keys[1:], whole.metric[1:]), (whole.keys[:2], whole.metric[:2]), more):
        write_summary("t.json", keys, metric)
        result = run("plan.json", "s.avro", "t.json")
        assert result.exit_code == 2 and "t.json holds the same sums as s.avro" in result.stderr, result.stderr
    noisy_summary(made, "other.avro", 1, 8)
    assert run("plan.json", "s.avro", "other.avro").exit_code == 0


def test_equal_sums_of_reports_whose_noise_may_repeat_are_no_copies(made: tuple[Plan, Tree, Keys]) -> None:
    """Without noise, most nodes of two days may be 0; a copy has all of its sums in the other."""
    for words in ("NOT PRIVATE: no noise", "NOT PRIVATE: seeded"):
        write_summary("a.avro", made[2], np.array([5, 0, 0, 0, 0, 5]), stated=StatedNoise(not_private=words))
        write_summary("b.avro", made[2], np.array([7, 0, 0, 0, 0, 7]), stated=StatedNoise(not_private=words))
        assert run("plan.json", "a.avro", "b.avro").exit_code == 0
        write_summary("b.avro", made[2][:4], np.array([5, 0, 0, 0]), stated=StatedNoise(not_private=words))
        assert run("plan.json", "a.avro", "b.avro").exit_code == 2


def test_words_of_a_report_that_is_not_private_come_along(made: tuple[Plan, Tree, Keys]) -> None:
    write_summary("a.avro", made[2], sums(made), stated=StatedNoise(not_private="NOT PRIVATE: a"))
    write_summary("b.json", made[2], 2 * sums(made), stated=StatedNoise(1, 65536, "NOT PRIVATE: b"))
    result = run("plan.json", "a.avro", "b.json")
    assert words_of(rows(result)) == "NOT PRIVATE: a | NOT PRIVATE: b" and "NOT PRIVATE: a | NOT" in result.stderr
    assert "ε = 2, L1 = 65,536 (as if there were noise in a.avro)" in result.stderr


def test_two_halves_of_a_report_are_not_called_empty(made: tuple[Plan, Tree, Keys]) -> None:
    half = len(made[2]) // 2
    write_summary("a.avro", made[2][:half], sums(made)[:half])
    write_summary("b.avro", made[2][half:], sums(made)[half:])
    result = run("plan.json", "a.avro", "b.avro")
    assert "no node of the tree is measured: none has a sum in each of the summary reports" in result.stderr


def test_the_same_path_twice_is_refused(made: tuple[Plan, Tree, Keys]) -> None:
    write_results("s.avro", made[2], sums(made))
    for names in (("s.avro", "s.avro"), ("s*.avro", "s.avro"), ("./s.avro", "s.avro")):
        result = run("plan.json", *names)
        assert result.exit_code == 2 and "counted once: leave one out" in result.stderr, result.output


def test_what_does_not_match_is_told(made: tuple[Plan, Tree, Keys]) -> None:
    keys, metric = made[2].copy(), sums(made)
    strange = np.array([[1, 2], [3, 4]], np.uint64)
    twice = np.concatenate([keys[1:], keys[5:], strange])  # node 0 is missing, node 5 has two sums
    write_results("s.avro", twice, np.concatenate([metric[1:], metric[5:] + 1, [8, 9]]))
    result = run("plan.json", "s.avro")
    table = rows(result)
    for words in ("2 nodes have no sum", "2 keys that belong to no node", "1 keys have several different sums"):
        assert words in result.stderr, words
    assert table.column("noise_variance").to_numpy()[[0, 5]].tolist() == [np.inf, np.inf]
    assert table.column("noisy").to_pylist()[0] is None
    assert np.allclose(table.column("estimate"), COUNT)  # node 0 follows from its days, and node 5 from node 1 and 4


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["plan.json"], "denoise a plan with its summary report"),
        (["clean.csv"], "clean.csv is a table: use --table clean.csv"),
        ([], "give a plan and its summary report, or --table"),
        (["plan.json", "s.avro", "--levels", "a"], "--levels belongs to --table"),
        (["plan.json", "s.avro", "--fill"], "--fill belongs to --table"),
        (["--tree", "t", "--table", "x"], "--tree belongs to a plan"),
        (["plan.json", "none.avro"], "none.avro"),
        (["plan.json", "other.avro"], "no node of the tree is measured: other.avro has 1 other keys"),
        (["plan.json", "plan.json"], "denoise a plan with its summary report"),
        (["plan.json", "tree.parquet"], "tree.parquet is neither Avro nor JSON"),
        (["plan.json", "s.avro", "--tree", "none"], "none"),
        (["s.avro", "s.avro"], "s.avro"),
        (["plan.json", "s.avro", "--noise", "api:epsilon=nan"], "above 0; got nan"),
        (["plan.json", "s.avro", "--noise", "api:epsilon=0"], "above 0; got 0"),
        (["plan.json", "s.avro", "--noise", "api:epsilon=1,l1=0"], "above 0; got 1 and 0"),
        (["plan.json", "s.avro", "--noise", "api:l1=9"], "is stated as api:epsilon=…[,l1=65536]"),
        (
            ["plan.json", "stated.avro", "--noise", "api:epsilon=1"],
            "stated.avro states ε = 3 with L1 = 65536: leave it out",
        ),
        (["plan.json", "nan.avro"], "are numbers above 0; got nan and 65536"),
        (["plan.json", "nan.json"], "are numbers above 0; got [] and 5"),
        (["plan.json", "x-1-of-2.avro", "x-2-of-2.avro"], "have one rate of noise; they state none, 3/65536"),
    ],
)
def test_a_mistake_is_one_line(made: tuple[Plan, Tree, Keys], args: list[str], message: str) -> None:
    write_results("s.avro", made[2], sums(made))
    write_results("other.avro", np.array([[1, 2]], np.uint64), np.array([5]))
    write_results("stated.avro", made[2], sums(made), "", StatedNoise(3, 65536))
    write_results("nan.avro", made[2], sums(made), "", StatedNoise(float("nan"), 65536))
    Path("nan.json").write_text('[{"bucket": "a", "metric": 1, "epsilon": "[]", "l1": 5}]')
    write_results("x-1-of-2.avro", made[2][:3], sums(made)[:3])
    write_results("x-2-of-2.avro", made[2][3:], sums(made)[3:], "", StatedNoise(3, 65536))
    result = run(*args)
    assert result.exit_code == 2 and message in result.stderr, result.output
    assert not Path("out.parquet").exists()


def test_without_a_tree_the_remedy_is_named(made: tuple[Plan, Tree, Keys]) -> None:
    write_results("s.avro", made[2], sums(made))
    Path("tree.parquet").rename("nodes.parquet")
    assert "give --tree a file that `attributary keys --impressions` wrote" in run("plan.json", "s.avro").stderr
    assert np.allclose(rows(run("plan.json", "s.avro", "--tree", "nodes.parquet")).column("estimate"), COUNT)
