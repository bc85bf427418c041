"""attributary denoise: the answer of the library, the user's rows around it, and errors of one line."""

import csv
import io
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attributary import Tree, denoise
from attributary.noise import dlap_variance
from attributary.tables import read_table, write_table
from support.command import ADDED, NOISY, SMALL, TREE, VAR, answer, csv_of, numbers, run
from support.effort import examples, first_of


def test_rows_order_and_extra_columns_are_kept() -> None:
    rows = answer("--variance", "v", data=SMALL)
    assert [{k: v for k, v in row.items() if k not in (*ADDED, "noise_variance")} for row in rows] == list(
        csv.DictReader(io.StringIO(SMALL, newline=""))
    )
    assert list(rows[0]) == ["a", "b", "c", "noisy", "v", "note", *ADDED, "noise_variance"]
    assert [row["noise_variance"] for row in rows] == [row["v"] for row in rows]


labels = st.text(st.sampled_from(' ",\t\r\né0*x'), min_size=1, max_size=3).filter(lambda s: s.strip() not in ("", "*"))


@st.composite
def noisy_tables(draw: st.DrawFn) -> pa.Table:
    """One row per node of a random forest with leaves at any depth, in random order."""
    paths = draw(st.lists(st.lists(labels, min_size=0, max_size=3), min_size=1, max_size=8))
    nodes = {tuple(path[:i]) for path in paths for i in range(1, len(path) + 1)} | {tuple(path) for path in paths}
    if () in nodes or not nodes:
        nodes |= {()}
    rows = draw(st.permutations(sorted(nodes)))
    figure = st.floats(-1e6, 1e6)
    var = st.one_of(st.floats(0.01, 100), st.just(float("inf")))
    return pa.table(
        {
            **{name: pa.array([(*p, None, None, None)[i] for p in rows], pa.string()) for i, name in enumerate("abc")},
            "noisy": [draw(figure) for _ in rows],
            "v": [draw(var) for _ in rows],
            "extra": [draw(labels) for _ in rows],
        }
    )


COUNTS = ("estimate", "low", "high")


@pytest.mark.parametrize("ending", ["csv", "tsv", "parquet", "arrow"])
@pytest.mark.parametrize(
    "options", first_of([{}, {"nonnegative": "top-down"}, {"nonnegative": "joint", "whole": True}]), ids=str
)
def test_the_answer_is_the_librarys(
    ending: str, options: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("answer")
    source, out = str(folder / f"in.{ending}"), str(folder / f"out.{ending}")
    joint = options.get("nonnegative") == "joint"
    chosen = ["--estimator", "nonnegative"] * bool(options) + ["--joint"] * joint + ["--whole"] * ("whole" in options)

    @settings(max_examples=examples(25), deadline=None)
    @given(table=noisy_tables())
    def same(table: pa.Table) -> None:
        write_table(table, source)
        result = run(
            "--variance", "v", "-o", out, "-q", "--confidence", "0.9", "--missing", "zero", *chosen, table=source
        )
        assert result.exit_code == 0, result.output
        written = read_table(out)
        assert written.column_names == ["a", "b", "c", "noisy", "v", "extra", *ADDED, "noise_variance"]
        assert written.select(["a", "b", "c", "extra"]).equals(table.select(["a", "b", "c", "extra"]))
        est = denoise(Tree.from_paths(table, ["a", "b", "c"]), table["noisy"], table["v"], **options)
        interval = est.interval(0.9)
        least = 1.0 if "whole" in options else 0.02 * float(np.sqrt(np.min(est.variance[est.variance > 0], initial=9)))
        for name, wanted in zip(
            ADDED, (est.count, est.variance, interval.low, interval.high, est.correction), strict=True
        ):
            got = np.array([float("nan" if v is None else v) for v in written[name].to_pylist()])
            if ending in ("parquet", "arrow"):
                np.testing.assert_array_equal(got, wanted, err_msg=name)
            else:  # as many digits as mean something
                np.testing.assert_array_equal(np.isnan(got), np.isnan(wanted))
                np.testing.assert_allclose(got, wanted, 1e-4, least if name in COUNTS else 6e-3, err_msg=name)
        counts = np.array(list(map(float, written["estimate"].to_pylist())))
        tree, inner = est.tree, ~est.tree.is_leaf
        below = np.bincount(tree.parent[tree.parent >= 0], counts[tree.parent >= 0], len(tree))
        np.testing.assert_allclose(counts[inner], below[inner], 1e-12, 1e-9)

    same()


def test_all_ways_to_give_the_variance_agree() -> None:
    contribution = [1000, 2000, 2000, 4000, 4000, 4000, 4000]
    lines = [f"{line},{more}" for line, more in zip(TABLE.splitlines(), ["std,k", *STDS], strict=True)]
    data = "\n".join(lines) + "\n"
    wanted = answer("--variance", "v", data=data)
    for way in (["--variance", "16,4,1"], ["--std", "4,2,1"], ["--std", "std"]):
        assert answer(*way, data=data) == wanted, way

    a = 2 / 100_000
    api = "api:epsilon=2,l1=100000,contribution="
    by_level = answer("--noise", f"{api}1000,2000,4000", data=data)
    assert answer("--noise", f"{api}k", data=data) == by_level
    var = [dlap_variance(a) / c**2 for c in contribution]
    est = denoise(Tree.from_paths(TREE, ["a", "b", "c"]), NOISY, var)
    np.testing.assert_allclose(numbers(by_level, "estimate"), est.count, 0, 0.02 * est.std.min())
    np.testing.assert_allclose(numbers(by_level, "variance"), est.variance, 1e-4)

    sums = pa.table({**TREE, "noisy": [x * c for x, c in zip(NOISY, contribution, strict=True)]})
    rows = answer("--noise", f"{api}1000,2000,4000,sums", data=csv_of(sums))
    assert numbers(rows, "estimate") == numbers(by_level, "estimate")
    same = answer("--noise", "api:epsilon=1,contribution=5", data=data)
    assert same == answer("--noise", "api:epsilon=1,contribution=5,l1=65536", data=data)
    assert same == answer("--variance", repr(dlap_variance(1 / 65536) / 25), data=data)


TABLE = "a,b,c,noisy,v\n" + "".join(
    f"x,{b or ''},{c or ''},{x},{v}\n"
    for b, c, x, v in zip(TREE["b"], TREE["c"], NOISY, [16, 4, 4, 1, 1, 1, 1], strict=True)
)
STDS = ["4,1000", "2,2000", "2,2000", "1,4000", "1,4000", "1,4000", "1,4000"]


def test_no_contribution_is_no_measurement() -> None:
    data = SMALL.replace("58,4", ",4")
    by_level = answer("--noise", "api:epsilon=1,contribution=9,0,9,sums", data=data)
    var = dlap_variance(1 / 65536) / 81
    assert numbers(by_level, "variance") == numbers(answer("--variance", f"{var!r},inf,{var!r}", data=data), "variance")


def test_a_column_wins_over_a_number() -> None:
    data = SMALL.replace(",v,", ",2,")
    assert numbers(answer("--variance", "2", data=data), "variance") == numbers(
        answer("--variance", "v", data=SMALL), "variance"
    )


def test_leaves_alone_are_nodes_with_nothing_measured_above() -> None:
    leaves = "a,b,c,noisy\n" + "".join(f"x,{b},{c},{x}\n" for b, c, x in zip("ppqq", "1212", NOISY[3:], strict=True))
    nodes = leaves + "x,,,\nx,p,,\nx,q,,\n"
    alone, filled = (answer("--variance", "1,2,3", *more, data=leaves) for more in ([], ["--fill"]))
    assert answer("--variance", "inf,inf,3", data=nodes) == filled
    assert filled[:4] == alone and len(alone) == 4
    assert numbers(filled, "variance") == [3, 3, 3, 3, 12, 6, 6]
    assert [(row["a"], row["b"], row["c"], row["noisy"], row["correction"]) for row in filled[4:]] == [
        ("x", "", "", "", ""),
        ("x", "p", "", "", ""),
        ("x", "q", "", "", ""),
    ]


def test_a_row_without_labels_is_the_total() -> None:
    data = "a,n\n,10\nx,4\ny,5\n"
    rows = answer("--variance", "0,1", levels="a", value="n", data=data)
    assert numbers(rows, "estimate") == [10, 4.5, 5.5]


@pytest.mark.parametrize("kind", ["words", "numbers", "dates", "categories", "floats", "large words"])
def test_types_of_labels_and_figures_survive_filling(kind: str, tmp_path: Path) -> None:
    top = {
        "words": pa.array(["x", "x", "y"]),
        "numbers": pa.array([7, 7, 9], pa.int16()),
        "dates": pa.array([7, 7, 9], pa.date32()),
        "categories": pa.array(["x", "x", "y"]).dictionary_encode(),
        "floats": pa.array([7, 7, float("nan")]),
        "large words": pa.array(["x", "x", "y"], pa.large_string()),
    }[kind]
    fields = [pa.field("a", top.type, nullable=False), ("b", pa.int64()), ("n", pa.decimal128(9, 2)), ("z", pa.bool_())]
    columns = [
        top,
        pa.array([1, 2, None if kind == "floats" else 3]),
        pa.array(map(Decimal, "567"), pa.decimal128(9, 2)),
    ]
    table = pa.table([*columns, pa.array([True] * 3)], schema=pa.schema(fields))
    for ending in ("parquet", "arrow"):
        source, out = (str(tmp_path / f"{name}.{ending}") for name in ("in", "out"))
        write_table(table, source)
        result = run("--variance", "1", "--fill", "-o", out, table=source, levels="a,b", value="n")
        assert result.exit_code == 0, result.output
        written = read_table(out)
        assert written.schema.types[:4] == table.schema.types
        assert repr(written.slice(0, 3).select([0, 1, 2, 3]).to_pylist()) == repr(table.to_pylist())
        tops = sorted({str(v) for v in top.to_pylist()} - {"nan"})
        assert [str(v) for v in written["a"].to_pylist()[3:]] == tops
        assert written["b"].to_pylist()[3:] == [None] * len(tops)


def test_figures_from_text_are_numbers_in_parquet(tmp_path: Path) -> None:
    result = run("--variance", "v", "-o", str(tmp_path / "out.parquet"), data=SMALL)
    assert result.exit_code == 0
    written = read_table(str(tmp_path / "out.parquet"))
    assert written["noisy"].to_pylist() == NOISY and written["v"].to_pylist() == VAR
    assert written["note"].to_pylist()[0] == "007"


def test_whole_and_nonnegative_counts() -> None:
    data = "a,n\n,10\nx,14.4\ny,-5\n"
    given: dict[str, Any] = {"levels": "a", "value": "n", "data": data}
    rows = answer("--variance", "0,1", "--estimator", "nonnegative", "--whole", **given)
    assert [row["estimate"] for row in rows] == ["10", "10", "0"]


def test_the_users_variance_column_is_kept_under_another_name() -> None:
    data = SMALL.replace(",v,", ",variance,")
    result = run("--variance", "variance", data=data)
    rows = list(csv.DictReader(io.StringIO(result.stdout)))
    assert list(rows[0]) == ["a", "b", "c", "noisy", "noise_variance", "note", *ADDED]
    assert [float(row["noise_variance"]) for row in rows] == VAR
    assert "your column variance is called noise_variance there" in result.stderr
    prefixed = answer("--variance", "variance", "--prefix", "d_", data=data)
    added = [f"d_{name}" for name in (*ADDED, "noise_variance")]
    assert list(prefixed[0]) == ["a", "b", "c", "noisy", "variance", "note", *added]


# --- what the summary says -------------------------------------------------------------------------------------------


def laplace_table(seed: int, scale: float = 1.0) -> dict[str, list[Any]]:
    rng = np.random.default_rng(seed)
    a = [str(i) for i in range(30)] + [str(i) for i in range(30) for _ in range(20)]
    leaves = rng.poisson(20, (30, 20))
    true = [*leaves.sum(1), *leaves.ravel()]
    noisy = true + rng.laplace(0, scale, len(true))
    return {"a": a, "b": [""] * 30 + [str(j) for _ in range(30) for j in range(20)], "noisy": list(noisy)}


def test_summary_of_a_sound_table(tmp_path: Path) -> None:
    out = str(tmp_path / "out.csv")
    data = csv_of(pa.table(laplace_table(1)))
    result = run("--variance", "2", "-o", out, levels="a,b", data=data)
    assert result.exit_code == 0 and result.stdout == ""
    table = Tree.from_paths({k: [v or None for v in laplace_table(1)[k]] for k in "ab"}, ["a", "b"])
    fell = [1 - denoise(table, laplace_table(1)["noisy"], 2.0).variance[table.level == i].mean() / 2 for i in (0, 1)]
    lines = result.stderr.splitlines()
    assert lines[0].startswith("630 rows in 2 levels; 12,030 in all, give or take ")
    assert lines[2].split()[:3] == ["a", "30", "2"] and lines[2].split()[4] == f"−{fell[0]:.1%}"
    assert lines[3].split()[:3] == ["b", "600", "2"] and lines[3].split()[4] == f"−{fell[1]:.1%}"
    assert (
        "the noise is as large as stated" in result.stderr
        and "no figure is off by more than noise explains (threshold " in result.stderr
    )
    assert lines[-1] == f"630 rows written to {out}"


@pytest.mark.parametrize(("scale", "word"), [(3, "more"), (0.2, "less"), (100, "far larger"), (0.01, "far smaller")])
def test_summary_says_when_the_noise_does_not_fit(scale: float, word: str) -> None:
    result = run("--variance", "2", levels="a,b", data=csv_of(pa.table(laplace_table(2, scale))))
    first = next(line for line in result.stderr.splitlines() if not line.startswith("recognised"))
    assert f"noise is {word} than stated" in first or f"there is {word} noise than stated" in first
    assert ("is the scale right?" in result.stderr) == (scale not in (3, 0.2))


@pytest.mark.parametrize("shape", ["laplace", "normal", "dlap"])
def test_summary_names_implausible_figures(shape: str) -> None:
    table = laplace_table(3)
    for family in range(8):
        table["noisy"][30 + 20 * family] += 500 - 50 * family
    result = run("--variance", "2", "--noise", shape, levels="a,b", data=csv_of(pa.table(table)))
    lines = result.stderr.splitlines()
    start = next(i for i, line in enumerate(lines) if "figures are off by more than noise explains" in line)
    # One leaf of each family is wrong, but all that is known is that the sum of the leaves does not fit their parent.
    assert lines[start].startswith(f"{8 * 21} figures are off by more than noise explains (threshold ")
    parent, leaves = table["noisy"][0], sum(table["noisy"][30:50])
    assert lines[start + 1].startswith(f"  a=0: noisy {parent:,.0f} → estimate ")
    assert lines[start + 2].startswith(f"  the 20 leaves of a=0 together: noisy {leaves:,.0f} → estimate ")
    assert lines[start + 3].startswith("  a=1: ") and lines[start + 6] == "  and 11 more; see the column correction"
    sizes = [abs(float(line.rsplit("(", 1)[1].strip(")").replace("−", "-"))) for line in lines[start + 1 : start + 6]]
    assert all(a >= b for a, b in pairwise(sizes))


def test_one_implausible_figure_in_a_chain() -> None:
    result = run("--variance", "1", levels="a,b", value="n", data="a,b,n\nx,,100\nx,y,5\n")
    assert "2 figures are off by more than noise explains (threshold " in result.stderr
    assert "  a=x, b=y: noisy 5.0 → estimate 52.5 (+67.2)\n" in result.stderr


def test_labels_cannot_break_the_lines_of_the_summary() -> None:
    data = 'a,b,n\n"x\n\x9b31m",,100\n"x\n\x9b31m",[bold]:smile:,5\n'
    words = run("--variance", "1", levels="a,b", value="n", data=data).stderr
    assert "  a=x\\n\\x9b31m, b=[bold]:smile:: noisy 5.0 → " in words and "\x9b" not in words


def test_summary_counts_what_is_missing_and_what_is_negative() -> None:
    result = run("--variance", "1", levels="a,b", value="n", data="a,b,n\nx,1,-3\nx,2,5\n")
    assert "not measured" in result.stderr and "2 (1 measured)" not in result.stderr
    assert "cannot be checked: no figure was measured twice" in result.stderr and "implausible" not in result.stderr
    assert "1 of 3 estimates is negative, which is normal for small noisy counts" in result.stderr
    assert (
        "negative"
        not in run(
            "--variance", "1", "--estimator", "nonnegative", levels="a,b", value="n", data="a,b,n\nx,1,-3\nx,2,5\n"
        ).stderr
    )


STORES = "region,store,n\nNorth,A,{0}\nNorth,B,{1}\nNorth,{2},{3}\nSouth,A,{4}\nSouth,C,{5}\nSouth,{2},{6}\n"


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_rows_labelled_all_are_totals_where_they_are_near_the_sums(ending: str, tmp_path: Path) -> None:
    source = str(tmp_path / f"in.{ending}")
    (tmp_path / "in.csv").write_text(STORES.format(10, 20, "ALL", 31, 10, 19, 30) + "ALL,ALL,60\n")
    write_table(read_table(str(tmp_path / "in.csv")), source)
    call = {"table": source, "levels": "region,store", "value": "n"}
    recognised = run("--variance", "1", **call)
    assert recognised.exit_code == 0 and "recognised: ALL marks totals" in recognised.stderr
    rows = answer("--variance", "1", "--total", "ALL", **call)
    assert rows == answer("--variance", "1", **call)
    assert len(rows) == 7 and (rows[2]["store"], rows[6]["region"]) == ("ALL", "ALL")
    assert float(rows[6]["estimate"]) == pytest.approx(sum(numbers(rows, "estimate")[i] for i in (0, 1, 3, 4)))
    assert 58 < float(rows[6]["estimate"]) < 62
    as_they_are = answer("--variance", "1", "--no-totals", "--fill", **call)
    assert as_they_are[2]["store"] == "ALL" and len(as_they_are) == 10
    assert run("--variance", "1", "--total", "Summe", **call).exit_code == 2
    (tmp_path / "in.csv").write_text(STORES.format(10, 20, "ALL", 11, 10, 19, 12))
    refused = run("--variance", "1", "--fill", table=str(tmp_path / "in.csv"), levels="region,store", value="n")
    assert refused.exit_code == 2 and "'ALL' in column 'store' reads as a total" in refused.stderr


def test_a_label_that_is_the_sum_of_its_siblings_is_refused() -> None:
    call: dict[str, Any] = {"levels": "region,store", "value": "n"}
    summed = STORES.format(110, 221, "everything", 331, 113, 190, 303)
    refused = run("--variance", "1", data=summed, **call)
    assert refused.exit_code == 2 and "'everything' in column 'store' is the sum of the" in refused.stderr
    assert run("--variance", "1", "--no-totals", data=summed, **call).exit_code == 0
    assert run("--variance", "1", "--total", "everything", data=summed, **call).exit_code == 0
    noisy = run("--variance", "1", data=STORES.format(110, 221, "everything", 330, 113, 190, 304), **call)
    assert noisy.exit_code == 2 and "'everything' in column 'store' is near the sum of the" in noisy.stderr
    assert "the rows beside it, in every family: it looks like a total" in noisy.stderr
    for honest in (STORES.format(1, 2, "D", 3, 1, 1, 2), STORES.format(110, 221, "D", 331, 113, 190, 390)):
        assert run("--variance", "1", data=honest, **call).exit_code == 0


@pytest.mark.parametrize(
    ("figures", "message"),
    [
        (["23.048", "1.250", "512", "9.999"], "may be 23048 or 23.048"),
        (["23.048", "1.234.567", "512", "9.999"], None),
        (["23.048", "1_000", "5", "9"], "'1_000' in column 'n' is not a number"),
        (["23.048", "x" * 5000, "5", "9"], "is not a number"),
        (["23.048", "1.250", "0.512", "9.999"], None),
        (["23.048", "1.250", "512.5", "9.999"], None),
        (["980", "1.480", "-500", "7"], "may be 1480 or 1.480"),
        (["23.048", "23.048", "512", "23.048"], "may be 23048 or 23.048"),
        (["23.048", "23.048", "51", "23.048"], "may be 23048 or 23.048"),
        (["8", "2.125", "8", "2.125"], "may be 2125 or 2.125"),
        (["2048.512", "1.250", "7.125", "9.999"], None),
    ],
)
def test_figures_that_can_be_read_in_two_ways_are_refused(figures: list[str], message: str | None) -> None:
    data = "a,b,n\n" + "".join(f"x,{i},{figure}\n" for i, figure in enumerate(figures))
    result = run("--variance", "1", levels="a,b", value="n", data=data)
    assert result.exit_code == (2 if message else 0) and (message or "") in result.stderr
    assert message is None or (len(result.stderr) < 400 and result.stderr.count("\n") == 1)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_blank_cell_is_an_empty_one(ending: str, tmp_path: Path) -> None:
    source, out = str(tmp_path / f"in.{ending}"), str(tmp_path / f"out.{ending}")
    write_table(pa.table({"a": ["x", "x"], "b": ["1", "2"], "n": ["5", " "], "v": ["1", "inf"]}), source)
    result = run("--variance", "v", "-o", out, table=source, levels="a,b", value="n")
    assert result.exit_code == 0, result.output
    assert read_table(out).num_rows == 2


def test_control_characters_in_labels_are_one_line(tmp_path: Path) -> None:
    for odd in ("\x01", "\x00"):
        for ending in ("csv", "parquet", "arrow"):
            write_table(pa.table({"a": ["x", f"y{odd}"], "n": [1, 2]}), str(tmp_path / f"in.{ending}"))
            result = run("--variance", "1", table=str(tmp_path / f"in.{ending}"), levels="a", value="n")
            assert result.exit_code == 2 and result.stderr.count("\n") == 1, result.stderr
