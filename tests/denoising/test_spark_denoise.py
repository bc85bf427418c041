"""On Spark, forests come out as on one machine; the laws themselves are tested in test_tree_cut.py, without Spark."""

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from attributary import Tree, denoise
from attributary.denoising.cluster import spark_denoise as module
from attributary.denoising.cluster.spark_denoise import denoise_spark
from attributary.errors import InputError
from attributary.estimators import Estimator
from attributary.measurements import Measurements
from attributary.tables.table_columns import plain
from support.effort import first_of

LEVELS = ["a", "b", "c", "d"]
ADDED = ["estimate", "variance", "low", "high", "correction"]


def forest(seed: int, roots: int = 4, total: bool = False) -> pa.Table:
    """A row for each node: leaves at all depths, figures exact or not measured among them, and a note on each."""
    rng = np.random.default_rng(seed)
    paths: list[list[str]] = [[]]
    level = paths
    for depth in range(4):
        fan = roots if depth == 0 else 7
        level = [[*p, f"{'abcd'[depth]}{i}"] for p in level for i in range(fan if depth == 0 else rng.integers(0, fan))]
        paths = paths + level
    paths = paths if total else paths[1:]
    rng.shuffle(paths)
    labels = {name: pa.array([p[i] if i < len(p) else None for p in paths]) for i, name in enumerate(LEVELS)}
    n = len(paths)
    variance = rng.choice([1.0, 4.0, 50.0, np.inf], n) * rng.uniform(0.5, 2, n)
    return pa.table(
        {**labels, "note": [f"#{i}" for i in range(n)], "noisy": rng.normal(20, 30, n), "variance": variance}
    )


def on_one_machine(table: pa.Table, **options: Any) -> pa.Table:
    tree = Tree.from_paths(table, LEVELS)
    est = denoise(tree, table.column("noisy").to_numpy(), table.column("variance").to_numpy(), **options)
    est = replace(est, measurements=replace(est.measurements, part=True))  # in parts, nothing has bounds
    table = table.rename_columns([*LEVELS, "note", "noisy", "noise_variance"])
    for name, values in zip(ADDED, (est.count, est.variance, *est.interval(), est.correction), strict=True):
        table = table.append_column(name, pa.array(values, mask=np.isnan(values)))
    return table


def by_note(table: pa.Table) -> pa.Table:
    return table.sort_by([("note", "ascending")])


def check_same(found: pa.Table, expected: pa.Table) -> None:
    found, expected = by_note(found), by_note(expected)
    assert found.column_names == expected.column_names
    kept = [name for name in expected.column_names if name not in ADDED]
    assert found.select(kept).to_pylist() == expected.select(kept).to_pylist()
    for name in ADDED:
        a, b = (np.array(t.column(name).to_pylist(), float) for t in (found, expected))
        assert np.allclose(a, b, rtol=1e-9, atol=1e-9, equal_nan=True), name


OPTIONS: list[dict[str, Any]] = [{}, {"nonnegative": "top-down", "shape": "dlap"}, {"nonnegative": "joint"}]


@pytest.mark.parametrize("options", first_of(OPTIONS), ids=str)
def test_tree_by_tree(spark: Any, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "NODES", 100)  # several parts
    table = forest(1)
    found = denoise_spark(spark.createDataFrame(table), LEVELS, "noisy", "variance", **options)
    check_same(found.toArrow(), on_one_machine(table, **options))


@pytest.mark.parametrize("cut", first_of(["b", "c", "d"]))
def test_one_giant_cut_below_a_level(spark: Any, cut: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "NODES", 100)
    table = forest(2, roots=1)
    options: Any = {"nonnegative": "top-down"} if cut == "c" else {}
    found = denoise_spark(spark.createDataFrame(table), LEVELS, "noisy", "variance", cut=cut, **options)
    check_same(found.toArrow(), on_one_machine(table, **options))


def test_a_total_above_all_trees(spark: Any) -> None:
    table = forest(3, total=True)
    found = denoise_spark(spark.createDataFrame(table), LEVELS, "noisy", "variance", whole=True).toArrow()
    assert found.schema.field("estimate").type == pa.int64()
    check_same(found, on_one_machine(table, whole=True))


def test_a_tree_that_is_too_large_is_cut_without_a_word(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LARGEST", 20)
    table, cuts = forest(2, roots=1), []
    monkeypatch.setattr(module, "_cut", lambda *given, made=module._cut: cuts.append(made(*given)) or cuts[-1])
    found = denoise_spark(spark.createDataFrame(table), LEVELS, "noisy", "variance")
    assert cuts[0] > 0
    check_same(found.toArrow(), on_one_machine(table))


def test_shares_may_be_learned(spark: Any) -> None:
    """Of one part, as on one machine."""
    table, levels = labelled_counts(12), ["a", "b", "c"]
    found = by_note(denoise_spark(spark.createDataFrame(table), levels, "noisy", 18.0, estimator="learned").toArrow())
    table = pa.table({name: plain(table.column(name)) for name in table.column_names})
    table = table.sort_by([(name, "ascending") for name in levels])  # as parts are
    tree = Tree.from_paths(table, levels)
    measured = Measurements(table.column("noisy").to_numpy(), np.full(len(tree), 18.0), tree=tree)
    expected = by_note(table.append_column("made", [Estimator("learned").denoise(tree, measured).count]))
    assert found.column_names[-1] == "from_prior"
    assert np.allclose(found.column("estimate").to_numpy(), expected.column("made").to_numpy(), rtol=1e-9, atol=1e-9)


def test_leaves_alone_get_the_nodes_above_them(spark: Any) -> None:
    leaves = pa.table({"a": ["x", "x", "y"], "b": ["p", "q", "p"], "noisy": [1.0, 2.0, 4.0]})
    frame = spark.createDataFrame(leaves)
    assert denoise_spark(frame, ["a", "b"], "noisy", 3).count() == 3
    for cut in ("a", "b"):
        found = denoise_spark(frame, ["a", "b"], "noisy", 3.0, cut=cut, fill=True, prefix="new_").toArrow()
        rows = {(r["a"], r["b"]): (r["noisy"], r["new_estimate"], r["new_variance"]) for r in found.to_pylist()}
        assert rows[("x", None)] == pytest.approx((None, 3.0, 6.0)) and rows[("y", "p")] == pytest.approx(
            (4.0, 4.0, 3.0)
        )
        assert len(rows) == 5


def test_labels_of_any_type_and_columns_of_any_name(spark: Any) -> None:
    from datetime import date

    rows = pa.table(
        {
            "the day": [None, date(2026, 3, 1), date(2026, 3, 2)],
            "a.b": pa.array([7, 7, 7], pa.int32()),
            "x": [10, 4, 4],
            "tags": [["one"], [], None],
        }
    )
    frame = spark.createDataFrame(rows).withColumnRenamed("the day", "the `day`")
    found = denoise_spark(frame, ["a.b", "the `day`"], "x", 1.0, cut="the `day`").toArrow()
    assert sorted(r["estimate"] for r in found.to_pylist()) == pytest.approx([14 / 3, 14 / 3, 28 / 3])
    assert found.column_names[:4] == frame.columns


def test_the_variance_may_be_an_expression(spark: Any) -> None:
    from pyspark.sql import functions as sf

    table = forest(5, roots=1)
    frame = spark.createDataFrame(table).drop("variance")
    by_level = sf.when(sf.col("c").isNull(), 2.0).otherwise(9.0)
    found = by_note(denoise_spark(frame, LEVELS, "noisy", by_level).toArrow())
    var = np.where(table.column("c").is_null().to_numpy(), 2.0, 9.0)
    expected = by_note(on_one_machine(table.set_column(6, "variance", pa.array(var))))
    assert np.allclose(found.column("estimate").to_numpy(), expected.column("estimate").to_numpy(), atol=1e-9)


def labelled_counts(roots: int = 60) -> pa.Table:
    """Whole counts that trees share alike by label, with noise: a row for each node."""
    rng = np.random.default_rng(6)
    labels = np.indices((roots, 4, 5)).reshape(3, -1).astype(str)
    tree = Tree.from_paths(dict(zip("abc", labels.tolist(), strict=True)), ["a", "b", "c"], fill=True)
    truth = tree.roll_up(rng.poisson(np.tile(rng.gamma(0.7, 4, 20), roots)).astype(float))
    table = tree.table().select(["a", "b", "c"])
    noisy, note = truth + rng.laplace(0, 3, len(tree)), [f"#{i}" for i in range(len(tree))]
    return table.append_column("note", [note]).append_column("noisy", [noisy])


def test_posterior_means_root_by_root(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "NODES", 300)
    monkeypatch.setattr(module, "SAMPLE", 500)
    table, levels, learned = labelled_counts(), ["a", "b", "c"], []
    learn = module.learn_families
    monkeypatch.setattr(module, "learn_families", lambda *given: learned.append(learn(*given)) or learned[-1])
    found = by_note(denoise_spark(spark.createDataFrame(table), levels, "noisy", 18.0, posterior=True).toArrow())
    tree = Tree.from_paths(table, levels)
    est = denoise(tree, table.column("noisy").to_numpy(), 18.0, posterior=learned[0])
    assert est.remark == "posterior means of whole counts"
    assert found.column_names[-2:] == ["from_prior", "zero_probability"]
    low, high = est.interval()
    values = (est.count, est.variance, low, high, est.correction, est.from_prior, est.zero)
    columns = dict(zip([*ADDED, *found.column_names[-2:]], values, strict=True))
    expected = by_note(table)
    row = {note: i for i, note in enumerate(table.column("note").to_pylist())}
    place = [row[note] for note in expected.column("note").to_pylist()]
    for name, values in columns.items():
        assert np.allclose(found.column(name).to_numpy(), np.asarray(values)[place], rtol=1e-9, atol=1e-9), name
    noisy, how = table.column("noisy").to_numpy(), ({"nonnegative": True}, {"posterior": True})
    near, whole = (denoise(tree, noisy, 18.0, **each).count for each in how)  # type: ignore[arg-type]
    assert np.square(est.count - whole).mean() < 0.1 * np.square(near - whole).mean()


def test_exact_fractions_are_refused_at_once(spark: Any) -> None:
    frame = spark.createDataFrame(labelled_counts(3).append_column("variance", [np.full(75, 0.0)]))
    with pytest.raises(InputError, match="whole counts|exactly"):
        denoise_spark(frame, ["a", "b", "c"], "noisy", "variance", posterior=True)


@pytest.mark.parametrize("how", [{"cut": "b"}, {"nonnegative": "joint"}])
def test_posterior_means_need_whole_trees(spark: Any, how: dict[str, Any]) -> None:
    frame = spark.createDataFrame(labelled_counts(2))
    with pytest.raises(InputError, match="posterior means need whole trees on one worker"):
        denoise_spark(frame, ["a", "b", "c"], "noisy", 18.0, posterior=True, **how)


ROWS = {"a": ["x", "x", "x"], "b": [None, "p", "q"], "noisy": [5.0, 1.0, 3.0], "variance": [1.0, 1.0, 1.0]}
MISTAKES: dict[str, tuple[dict[str, Any], str]] = {
    "a figure that is none": ({"noisy": [5.0, None, 3.0]}, "a=x, b=p has nan"),
    "a negative variance": ({"variance": [1.0, 1.0, -2.0]}, "a variance is 0 or more.*a=x, b=q has -2.0"),
    "a contradiction": ({"variance": [0.0, 0.0, 0.0]}, "a=x is 5, but below it are exactly 1 .a=x, b=p. . 3 .a=x, b=q"),
    "a path twice": ({"b": [None, "p", "p"]}, "a path has one row; a=x, b=p has 2: combine them"),
    "a gap in a path": ({"a": ["x", "x", None]}, "b=q.*: 'a' is empty but 'b' below it is not"),
    "no row for a parent": (
        {"a": ["x", "y", "x"], "b": [None, "p", "q"]},
        "a=y, b=p has no row for its parent, though other inner nodes have theirs; add the row, or let fill",
    ),
}


@pytest.mark.parametrize("cut", first_of([None, "b"]))
@pytest.mark.parametrize("name", first_of(MISTAKES))
def test_mistakes_in_the_figures_are_told_by_their_path(spark: Any, name: str, cut: str | None) -> None:
    changed, message = MISTAKES[name]
    frame = spark.createDataFrame(pa.table({**ROWS, **changed}))
    with pytest.raises(InputError, match=message):
        denoise_spark(frame, ["a", "b"], "noisy", "variance", cut=cut)


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no level": ({"levels": []}, "levels are one column or more, named once each; got none"),
    "a level twice": ({"levels": ["a", "a"]}, "named once each; got a, a"),
    "an unknown level": (
        {"levels": ["a", "c"]},
        "there is no column 'c'; .*the columns are a, b, noisy, variance, list",
    ),
    "a level of lists": (
        {"levels": ["a", "list"]},
        "labels are text, numbers or dates; column 'list' is array<bigint>",
    ),
    "an unknown cut": ({"cut": "c"}, "a cut is one of the levels a, b; got 'c'"),
    "an unknown value": ({"value": "noise"}, "there is no column 'noise'; did you mean 'noisy'"),
    "text for a value": ({"value": "a"}, "figures and variances are numbers; column 'a' is string: cast it first"),
    "text for a variance": ({"variance": "b"}, "column 'b' is string: cast it"),
    "a variance below 0": ({"variance": -1.0}, "a variance is 0 or more.*got -1.0"),
    "a variance that is none": ({"variance": float("nan")}, "got nan"),
    "an unknown way": ({"nonnegative": "both"}, '"top-down" or "joint"; got'),
    "an unknown shape": ({"shape": "cauchy"}, "the noise's shape is one of"),
    "a confidence of 1": ({"confidence": 1.0}, "the confidence is between 0 and 1; got 1.0"),
    "joint on a cut tree": (
        {"cut": "b", "nonnegative": "joint"},
        "joint least squares needs whole trees on one worker",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_makes_no_sense_is_refused(spark: Any, name: str) -> None:
    changed, message = REFUSED[name]
    frame = spark.createDataFrame(pa.table({**ROWS, "list": [[1], [2], [3]]}))
    asked = {"levels": ["a", "b"], "value": "noisy", "variance": "variance", "prefix": "new_", **changed}
    with pytest.raises(InputError, match=message):
        denoise_spark(frame, **asked)


def test_names_that_are_taken_are_refused(spark: Any) -> None:
    frame = spark.createDataFrame(pa.table(ROWS))
    for taken in (frame.withColumnRenamed("a", "LOW"), frame.withColumnRenamed("a", "estimate")):
        with pytest.raises(InputError, match="already has a column .*; rename it, or put something before"):
            denoise_spark(taken, taken.columns[:2], "noisy", "variance")
    with pytest.raises(InputError, match="already has a column 'variance'"):
        denoise_spark(frame, ["a", "b"], "noisy", 2.0)


def test_an_empty_frame_is_refused(spark: Any) -> None:
    with pytest.raises(InputError, match="a tree needs at least one row; the frame is empty"):
        denoise_spark(spark.createDataFrame(pa.table(ROWS)).where("FALSE"), ["a", "b"], "noisy", "variance")
