"""A forest in pieces gives the same answer as in one piece; here without Spark, which only carries the tables."""

from dataclasses import replace
from types import ModuleType
from typing import Any
from zlib import crc32

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attributary import Tree, denoise
from attributary.denoising import compiled, linear
from attributary.denoising.cluster.pieces import (
    NOISY,
    PART,
    VARIANCE,
    ClusterTask,
    check,
    finish,
    hand_up_roots,
    refuse_gaps,
    solve_top,
)
from attributary.errors import InputError
from attributary.estimators import Estimator
from support.effort import examples
from support.forests import Case, cases
from support.runners import RUNNERS, running

ADDED = ["estimate", "variance", "low", "high", "correction"]


def in_paths(case: Case) -> tuple[list[str], pa.Table]:
    """A forest as rows with a label for each level; a node's label is its number."""
    paths = []
    for v in range(len(case.parent)):
        path, u = [], v
        while u >= 0:
            path, u = [f"n{u}", *path], case.parent[u]
        paths.append(path)
    levels = [f"l{i}" for i in range(max(map(len, paths)))]
    labels = {name: [p[i] if i < len(p) else None for p in paths] for i, name in enumerate(levels)}
    columns = {name: pa.array(values, pa.string()) for name, values in labels.items()}
    return levels, pa.table({**columns, NOISY: case.noisy, VARIANCE: case.variance})


def in_pieces(task: ClusterTask, table: pa.Table, parts: int) -> pa.Table:
    """What Spark does, with the rows below the cut dealt to so many parts by their root."""
    cut = task.levels[task.cut]
    at_cut = table.column(cut).to_pylist()
    part = [0 if label is None else crc32(label.encode()) % parts for label in at_cut]
    rows = table.append_column(PART, pa.array(part, pa.int32()))
    below = rows.filter(pa.array([label is not None for label in at_cut]))
    above = rows.filter(pa.array([label is None for label in at_cut]))
    dealt = [d for i in range(parts) if len(d := below.filter(pa.compute.equal(below.column(PART), i)))]
    if task.cut == 0 and not len(above):
        told = pa.concat_tables([check(task, d) for d in dealt])
        refuse(told)
        refuse_gaps(task, told.column("orphan").to_pylist(), any(told.column("inner").to_pylist()))
        return pa.concat_tables([finish(task, d) for d in dealt])
    roots = pa.concat_tables([hand_up_roots(task, a_part(task)).slice(0, 0), *(hand_up_roots(task, d) for d in dealt)])
    refuse(roots)
    top = solve_top(task, above, roots)
    names = [*task.levels[: task.cut], *task.added]
    done = [
        top.nodes.slice(0, None if task.fill else len(above)).rename_columns(names),
        finish(task, a_part(task)).slice(0, 0),
    ]
    for d in dealt:
        number = d.column(PART)[0]
        done.append(finish(task, d, top.settled.filter(pa.compute.equal(top.settled.column("part"), number))))
    return pa.concat_tables(done, promote_options="default")


def a_part(task: ClusterTask) -> pa.Table:
    """A part of one node."""
    labels = {name: ["x"] for name in task.levels}
    return pa.table({**labels, NOISY: [1.0], VARIANCE: [1.0], PART: pa.array([0], pa.int32())})


def refuse(told: pa.Table) -> None:
    refused = [text for text in told.column("refused").to_pylist() if text is not None]
    if refused:
        raise InputError(min(refused))


def by_path(table: pa.Table, levels: list[str]) -> pa.Table:
    return table.sort_by([(name, "ascending") for name in levels])


def in_one_piece(levels: list[str], table: pa.Table, shape: str = "laplace", **options: Any) -> pa.Table:
    """The same on one machine; rows sorted, so that ties break alike."""
    rows = by_path(table, levels)
    tree = Tree.from_paths(rows, levels, fill=options.pop("fill", False))
    noisy, variance = np.full(len(tree), np.nan), np.full(len(tree), np.inf)
    noisy[: len(rows)], variance[: len(rows)] = rows.column(NOISY).to_numpy(), rows.column(VARIANCE).to_numpy()
    est = denoise(tree, noisy, variance, shape=shape, **options)
    est = replace(est, measurements=replace(est.measurements, part=True))  # in parts, nothing has bounds
    labels = [c.cast(c.type.value_type) for c in tree.table().select(levels).columns]
    values = [est.count, est.variance, *est.interval(), est.correction]
    return by_path(pa.table([*labels, *values], names=[*levels, *ADDED]), levels)


def agree(levels: list[str], table: pa.Table, cut: int, parts: int, **options: Any) -> None:
    """In pieces and in one: the same to 1e-9, in every column."""
    how = {name: value for name, value in options.items() if name not in ("nonnegative", "whole")}
    method, whole = options.get("nonnegative"), options.get("whole", False)
    chosen = Estimator("nonnegative" if method else "unbiased", method == "joint", whole)
    task = ClusterTask(levels, min(cut, len(levels) - 1), levels, levels, ADDED, chosen, **how)
    found, expected = by_path(in_pieces(task, table, parts), levels), in_one_piece(levels, table, **options)
    assert found.select(levels) == expected.select(levels)
    size = 1 + np.abs(np.nan_to_num(table.column(NOISY).to_numpy())).max()
    for name in ADDED:
        a, b = (np.array(t.column(name).to_pylist(), float) for t in (found, expected))
        off = 0 if name == "estimate" and options.get("whole") else 1e-9 * size
        assert np.allclose(a, b, rtol=1e-9, atol=0 if name == "variance" else off, equal_nan=True), name


def honoured(case: Case) -> Case:
    """The case with exact figures that agree, those of a consistent truth, and any value where nothing was measured."""
    truth = denoise(case.tree, np.arange(len(case.parent)) % 7, 1.0, nonnegative=True, whole=True).count
    noisy = [
        float(t) if v == 0 else 5.0 if v == np.inf else x
        for t, x, v in zip(truth, case.noisy, case.variance, strict=True)
    ]
    return case._replace(noisy=noisy)


CUTS, PARTS = st.integers(0, 4), st.integers(1, 3)
SHAPES = st.sampled_from(["laplace", "dlap", "normal"])
ODD = cases(most=14, spread=3.0, special=(0.0, np.inf, np.inf)).map(honoured)


@RUNNERS
@settings(max_examples=examples(60), deadline=None)
@given(case=cases(most=14, spread=3.0), cut=CUTS, parts=PARTS, shape=SHAPES)
def test_a_cut_changes_nothing(runner: str, case: Case, cut: int, parts: int, shape: str) -> None:
    with running(runner):
        agree(*in_paths(case), cut, parts, shape=shape)


@pytest.mark.parametrize("passes", [linear, compiled], ids=["numpy", "compiled"])
@settings(max_examples=examples(60), deadline=None)
@given(case=ODD)
def test_up_and_down_is_blue(passes: ModuleType, case: Case) -> None:
    tree = case.tree
    x, var = (tree.to_level_order(np.array(a)) for a in (case.noisy, case.variance))
    count, variance = passes.upward(tree, x, var)
    passes.downward(tree, count, variance)
    blue, blue_variance = passes.blue(tree, x, var)
    assert np.allclose(count, blue, rtol=1e-12, atol=1e-12) and np.allclose(variance, blue_variance, rtol=1e-12)


@settings(max_examples=examples(60), deadline=None)
@given(case=ODD, cut=CUTS, parts=PARTS)
def test_nor_where_figures_are_exact_or_missing(case: Case, cut: int, parts: int) -> None:
    agree(*in_paths(case), cut, parts)


@settings(max_examples=examples(60), deadline=None)
@given(case=ODD, cut=CUTS, parts=PARTS, whole=st.booleans())
def test_nor_where_counts_are_not_negative(case: Case, cut: int, parts: int, whole: bool) -> None:
    agree(*in_paths(case), cut, parts, nonnegative="top-down", whole=whole)


@settings(max_examples=examples(60), deadline=None)
@given(case=ODD, cut=CUTS, parts=PARTS)
def test_nor_where_they_are_whole(case: Case, cut: int, parts: int) -> None:
    agree(*in_paths(case), cut, parts, whole=True)


@settings(max_examples=examples(60), deadline=None)
@given(case=ODD, parts=PARTS)
def test_joint_counts_need_whole_trees(case: Case, parts: int) -> None:
    agree(*in_paths(case), 0, parts, nonnegative="joint")


@settings(max_examples=examples(60), deadline=None)
@given(case=cases(most=14, spread=3.0), cut=CUTS, parts=PARTS, kept=st.sets(st.integers(0, 13), min_size=1))
def test_nodes_without_a_row_are_filled(case: Case, cut: int, parts: int, kept: set[int]) -> None:
    levels, table = in_paths(case)
    some = table.take(sorted({v % len(table) for v in kept}))
    agree(levels, some, cut, parts, fill=True)


FAMILY = [-1, 0, 0, 1, 1]  # n0 over n1 and n2, n1 over n3 and n4
WRONG: dict[str, tuple[list[float], list[float], str]] = {
    "below the cut": ([9.0, 5.0, 4.0, 1.0, np.nan], [1.0] * 5, "l0=n0, l1=n1, l2=n4 has nan"),
    "above the cut": ([np.inf, 5.0, 4.0, 1.0, 4.0], [1.0] * 5, "l0=n0 has inf"),
    "at the cut": ([9.0, 5.0, 4.0, 1.0, 4.0], [1.0, -1.0, 1.0, 1.0, 1.0], "l0=n0, l1=n1 has -1.0"),
    "exact figures on both sides of the cut": (
        [9.0, 0.0, 4.0, 1.0, 3.0],
        [0.0, np.inf, 0.0, 0.0, 0.0],
        "l0=n0 is 9, but below it are exactly 4 .l0=n0, l1=n1. . 4 .l0=n0, l1=n2",
    ),
    "an exact figure too small for one beyond the cut": (
        [2.0, 0.0, 4.0, 3.0, 3.0],
        [0.0, 1.0, 1.0, 0.0, 1.0],
        "l0=n0 is 2, but below it are exactly 3 .l0=n0, l1=n1",
    ),
    "a negative exact figure": ([9.0, 5.0, 4.0, -1.0, 3.0], [1.0, 1.0, 1.0, 0.0, 1.0], "l0=n0, l1=n1, l2=n3 is -1"),
}


@pytest.mark.parametrize("name", WRONG)
def test_mistakes_are_told_by_their_whole_path(name: str) -> None:
    noisy, variance, message = WRONG[name]
    levels, table = in_paths(Case(FAMILY, noisy, variance))
    with pytest.raises(ValueError, match=message):
        in_pieces(ClusterTask(levels, 1, levels, levels, ADDED, Estimator("nonnegative")), table, 2)


def test_nodes_without_a_row_are_refused_wherever_the_others_are() -> None:
    levels, table = in_paths(Case(FAMILY, [1.0] * 5, [1.0] * 5))
    for lost, orphan in ((0, "l0=n0, l1=n1"), (1, "l0=n0, l1=n1, l2=n3")):
        some = table.take([v for v in range(5) if v != lost])
        for cut in (0, 1, 2):
            with pytest.raises(InputError, match=f"{orphan} has no row for its parent"):
                in_pieces(ClusterTask(levels, cut, levels, levels, ADDED), some, 2)


def test_figures_that_change_on_the_way_are_refused() -> None:
    levels, table = in_paths(Case(FAMILY, [1.0] * 5, [1.0] * 5))
    task = ClusterTask(levels, 1, levels, levels, ADDED)
    rows = table.append_column(PART, pa.array([0] * 5, pa.int32()))
    top = solve_top(task, rows.take([0]), hand_up_roots(task, rows.slice(1)))
    finish(task, rows.slice(1), top.settled)
    other = rows.set_column(rows.column_names.index(NOISY), NOISY, pa.array([1.0, 1.0, 1.0, 1.0, 1.1]))
    with pytest.raises(InputError, match="changed while they were denoised; persist it"):
        finish(task, other.slice(1), top.settled)
