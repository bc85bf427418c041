"""The paper's experiment: its counts are those of `count`, its choices do what they say, and its errors are told."""

import gzip
import os
import shutil
from html import escape
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from attributary.cli.printing import plain
from attributary.errors import InputError
from attributary.evaluate import Evaluation, evaluate
from attributary.evaluate.user_cases import PIECE, PIECES, cached, identity
from attributary.facts.evaluation import best, best_tables, stated_tables, tree_errors
from attributary.logs.count import count
from attributary.logs.log_files import is_generated
from attributary.paper import experiment as paper_module
from attributary.paper import generate
from attributary.paper.experiment import DAY, PAPER, Choices, PaperLog, leaf_counts, paper, paper_counts
from attributary.prior import from_counts
from attributary.report import ReportInputs, page
from attributary.spec import Logs
from attributary.tables import read_table

DATASETS = list(PAPER)
ROWS = 30_000


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("logs")
    for name in DATASETS:
        generate(name, str(made / f"{name}.parquet"), ROWS, 1)
    return made


def counted(logs: Path, name: str, **choices: Any) -> Any:
    with duckdb.connect() as connection:
        return paper_counts(connection, str(logs / f"{name}.parquet"), PAPER[name], Choices(**choices), "any")


# Counts


@pytest.mark.parametrize("name", DATASETS)
def test_counts_are_those_of_count(logs: Path, name: str) -> None:
    of, periods = PAPER[name], counted(logs, name)
    start = min(parquet.read_table(logs / f"{name}.parquet").column("time").to_pylist())
    border = start + of.prior_days * DAY
    log = Logs(attributed=f"{name}.parquet", time="time", converted="conversion", delay="delay")
    for tree in of.trees:
        spec = tree.at().model_copy(update={"logs": log})
        for period, ends in zip(periods[:2], ({"until": border}, {"since": border}), strict=True):
            found, wanted = leaf_counts(period, tree), count(spec, str(logs), **ends).table
            queried = spec.tree(wanted)
            assert len(queried) == len(spec.tree(found))
            assert (from_counts(queried, found).mean == from_counts(queried, wanted).mean).all()


def test_choices_of_csscl(logs: Path) -> None:
    rows = f"read_parquet('{logs / 'csscl.parquet'}')"

    def sales(condition: str) -> int:
        with duckdb.connect() as connection:
            sql = f"SELECT COUNT(*) FROM {rows} WHERE conversion = 1 AND {condition}"
            return int(connection.sql(sql).fetchall()[0][0])

    def total(**choices: Any) -> int:
        periods = counted(logs, "csscl", **choices)
        found = sum(int(np.sum(leaf_counts(p, PAPER["csscl"].trees[0]).column("conversions"))) for p in periods[:2])
        assert found + sum(periods.left.column("conversions").to_pylist()) == sales("TRUE")  # nothing is silent
        return found

    assert total() == sales("delay IS NOT NULL")
    assert total(unknown_delay="first") == sales("TRUE") > total()
    known = "country <> 'missing' AND device <> 'missing' AND age_group <> 'missing' AND partner <> 'missing'"
    assert total(missing="drop") == sales(f"delay IS NOT NULL AND {known}") < total()
    within = f"time < (SELECT MIN(time) FROM {rows}) + {90 * DAY}"
    assert total(boundary="drop") == sales(f"delay IS NOT NULL AND {within}") < total()


@pytest.mark.parametrize("choice", ["missing", "unknown_delay", "boundary"])
def test_unknown_choices_are_refused(choice: str) -> None:
    with pytest.raises(InputError, match=f"{choice} is .*; got 'maybe'"):
        Choices(**{choice: "maybe"})  # type: ignore[arg-type]


# Cases


@pytest.mark.parametrize("name", DATASETS)
def test_cases_are_the_papers(logs: Path, name: str) -> None:
    cases, _, generated = paper(name, PaperLog(str(logs / f"{name}.parquet"), expect="any"))
    assert generated
    depth = {"csscl": [5, 5, 4, 4], "camb": [4, 4, 3, 3]}[name]
    assert [case.tree.depth for case in cases] == depth
    assert [case.noise for case in cases] == ["api", "unit"] * 2
    assert all(case.generated and case.prior.protected and case.spec.split_by for case in cases)
    assert [case.spec.attributes[-1].buckets for case in cases[::2]] == [15, 5]
    assert any(case.prior.new_roots(case.tree).any() for case in cases)
    again = paper(name, PaperLog(str(logs / f"{name}.parquet"), expect="any")).cases
    assert [case.key for case in again] == [case.key for case in cases]
    other = paper(name, PaperLog(str(logs / f"{name}.parquet"), expect="any"), seed=1).cases
    assert not (other[0].prior.mean == cases[0].prior.mean).all()
    assert (other[0].count == cases[0].count).all()


def test_rows_are_counted_once(logs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "rows.parquet"
    shutil.copy(logs / "camb.parquet", file)
    where = str(tmp_path / "cache")
    made = paper("camb", PaperLog(None, 20_000), cache=where), paper("camb", PaperLog(str(file)), cache=where)
    assert sorted(os.listdir(where)) == sorted(set(os.listdir(where))) and len(os.listdir(where)) == 6

    def refuse(*_: Any) -> Any:
        raise AssertionError("counted again")

    monkeypatch.setattr(paper_module, "_count", refuse)
    again = paper("camb", PaperLog(None, 20_000), cache=where), paper("camb", PaperLog(str(file)), cache=where)
    for one, other in zip(made, again, strict=True):
        assert [case.key for case in one.cases] == [case.key for case in other.cases]
        assert one.left_out == other.left_out
    for log, choices in (
        (PaperLog(None, 20_001), None),
        (PaperLog(None, 20_000, 1), None),
        (PaperLog(None, 20_000), Choices("drop")),
        (PaperLog(str(logs / "camb.parquet"), expect="any"), Choices("drop")),
    ):
        with pytest.raises(AssertionError, match="counted again"):
            paper("camb", log, choices=choices, cache=where)
    os.utime(file, ns=(1, 1))
    with pytest.raises(AssertionError, match="counted again"):
        paper("camb", PaperLog(str(file)), cache=where)


def test_a_damaged_cache_is_made_anew(tmp_path: Path) -> None:
    calls = []

    def make() -> dict[str, Any]:
        calls.append(1)
        return {"x": pa.table({"a": [1, 2]})}

    for damage in (False, False, True, False):
        if damage:
            next(tmp_path.iterdir()).write_bytes(b"PAR1")
        assert cached(str(tmp_path), "k", ("x",), make)["x"].column("a").to_pylist() == [1, 2]
    assert len(calls) == 2
    assert cached(None, "k", ("x",), make)["x"].num_rows == 2
    assert len(calls) == 3


def test_the_identity_of_a_file_is_its_content(tmp_path: Path) -> None:
    small, large = tmp_path / "small", tmp_path / "large"
    small.write_bytes(b"abc")
    large.write_bytes(bytes(3 * PIECE * PIECES))
    names = set()
    for path in (small, large):
        for change in (None, 0, -1):
            data = bytearray(path.read_bytes())
            if change is not None:
                data[change] ^= 1
                path.write_bytes(data)
            os.utime(path, ns=(5, 5))
            names.add(identity([str(path)]))
        copy = tmp_path / "copy"
        shutil.copy2(path, copy)
        assert identity([str(copy)]) == identity([str(path)])
    assert len(names) == 6
    assert identity([str(small)], "x") != identity([str(small)], "y")
    assert identity([str(small), str(large)]) != identity([str(large), str(small)])
    with pytest.raises(InputError, match="there is no file"):
        identity([str(tmp_path / "none")])
    with pytest.raises(InputError, match="cannot be read: Is a directory"):
        identity([str(tmp_path)])


def test_a_generated_file_says_so(logs: Path, tmp_path: Path) -> None:
    generate("camb", str(tmp_path / "x.tsv.gz"), 100, 0)
    assert is_generated(str(logs / "camb.parquet")) and is_generated(str(tmp_path / "x.tsv.gz"))
    with gzip.open(tmp_path / "y.gz", "wb") as file:
        file.write(b"rows")
    parquet.write_table(pa.table({"a": [1]}), tmp_path / "z.parquet")
    for other in ("y.gz", "z.parquet", "none.gz", "none.parquet"):
        assert not is_generated(str(tmp_path / other))


# What comes of it


@pytest.fixture(scope="module")
def table(logs: Path) -> Any:
    cases = paper("camb", PaperLog(str(logs / "camb.parquet"), expect="any"), ("api",)).cases
    return evaluate(
        cases, ["greedy-unbiased", "equal-raw", "optimal-unbiased", "optimal-nonnegative"], epsilons=[1, 4], draws=10
    )


def test_the_best_of_both(table: Any) -> None:
    found = best(table)
    assert len(found) == 2 * 2 * 2
    errors = {(p.tree, p.tau, p.epsilon, p.method): p.rmsre for p in tree_errors(table.points)}
    assert len(errors) == 8 * 4
    for row in found:
        paper_ones = {m: errors[row.tree, row.tau, row.epsilon, m] for m in ("greedy-unbiased", "equal-raw")}
        ours = {m: errors[row.tree, row.tau, row.epsilon, m] for m in ("optimal-unbiased", "optimal-nonnegative")}
        assert row.paper == min(paper_ones.values()) == paper_ones[row.paper_method]
        assert row.ours == min(ours.values()) == ours[row.our_method]
        assert row.change == pytest.approx(row.ours / row.paper - 1, abs=0.1)
        draws = {m: found_draws(table, row, m) for m in (row.our_method, row.paper_method)}
        ratio = np.sqrt(np.mean(draws[row.our_method]) / np.mean(draws[row.paper_method]))
        assert row.change == pytest.approx(ratio - 1) and 0 < row.change_error < 0.1


def found_draws(table: Any, row: Any, method: str) -> list[float]:
    """The squared tree errors of a method's draws."""
    wanted = {"tree": row.tree, "tau": row.tau, "epsilon": row.epsilon, "method": method, "level": None}
    (one,) = [each for each in table.draws.to_pylist() if all(each[k] == v for k, v in wanted.items())]
    return list(one["squared"])


def test_a_vague_figure_is_not_the_best(table: Any) -> None:
    rows = table.to_pylist()
    for row in rows:
        if row["method"] == "optimal-nonnegative":
            row["rmsre"], row["standard_error"] = 0.0, 0.0
    again = Evaluation(pa.Table.from_pylist(rows, table.table.schema), table.draws)
    assert {row.our_method for row in best(again)} == {"optimal-unbiased"}


def test_the_papers_figures_stand_beside_ours(table: Any) -> None:
    (found,) = stated_tables(table, PAPER["camb"].stated, 4.0)
    assert found.caption == "stated by the paper at ε = 4, and on generated rows"
    assert [[plain(cell) for cell in row[:4]] for row in found.rows] == [
        ["camb, depth 4", "10", "api", "19%"],
        ["camb, depth 3", "5", "api", "20%"],
        ["camb, depth 3", "10", "api", "12%"],
    ]
    assert all(0 < row[5].value < row[4].value for row in found.rows)  # type: ignore[attr-defined]
    assert not list(stated_tables(table, PAPER["camb"].stated, 2.0))


def test_figures_and_page(table: Any, tmp_path: Path) -> None:
    begins = {"png": b"\x89PNG", "svg": b"<svg", "pdf": b"%PDF"}
    for kind, begin in begins.items():
        table.save_figure(str(tmp_path / f"errors.{kind}"), noise="api")
        assert (tmp_path / f"errors.{kind}").read_bytes().startswith(begin)
    drawn = (tmp_path / "errors.svg").read_text()
    assert "generated rows" in drawn and "greedy split, unbiased" in drawn
    with pytest.raises(InputError, match="a picture is written as svg or png or pdf; got 'gif'"):
        table.save_figure(str(tmp_path / "errors.gif"))
    with pytest.raises(InputError, match="there are no errors of dataset None under noise 'gaussian'"):
        table.figure(noise="gaussian")
    tables = tuple(best_tables(table))
    html = page(ReportInputs(evaluation=tuple(table.points), error_tables=tables), title="Trial").html
    assert "The rows were generated" in html and html.count("<svg") == 2  # wide and narrow
    assert tables and all(escape(best_table.caption).replace("&#x27;", "&#39;") in html for best_table in tables)


def test_tables_for_a_paper(table: Any) -> None:
    latex = table.latex()
    assert latex.count(r"\begin{tabular}{lrr}") == latex.count(r"\bottomrule") == 4
    assert r"$\varepsilon$ = 4" in latex and r"optimal split, nonnegative & 0." in latex and r"$\pm$" in latex
    assert "optimal-nonnegative" not in latex and latex.count("{") == latex.count("}")


def test_the_papers_best_needs_its_greedy_method(table: Any) -> None:
    rows = [row for row in table.to_pylist() if row["method"] != "greedy-unbiased"]
    assert best(Evaluation(pa.Table.from_pylist(rows, table.table.schema), table.draws)) == []


# What is refused


@pytest.mark.parametrize("name", DATASETS)
def test_a_wrong_file_is_refused(name: str, logs: Path, tmp_path: Path) -> None:
    other = next(dataset for dataset in DATASETS if dataset != name)
    with pytest.raises(InputError, match=f"only look-alikes of {name} can be read"):
        paper(name, PaperLog(str(logs / f"{other}.parquet")))
    wrong = tmp_path / "wrong.tsv"
    wrong.write_text("a\tb\n1\t2\n")
    with pytest.raises(InputError, match="wrong.tsv"):
        paper(name, PaperLog(str(wrong)))
    with pytest.raises(InputError, match="there is no file"):
        paper(name, PaperLog(str(tmp_path / "none")))


@pytest.mark.parametrize("name", DATASETS)
def test_a_truncated_file_is_refused(name: str, logs: Path, tmp_path: Path) -> None:
    generate(name, str(tmp_path / "whole.tsv"), 3_000, 0)
    data = (tmp_path / "whole.tsv").read_bytes()
    (tmp_path / "part.tsv").write_bytes(data[: len(data) // 2 + 7])
    for expect in ("published", "any"):
        with pytest.raises(InputError, match="part.tsv"):
            paper(name, PaperLog(str(tmp_path / "part.tsv"), expect=expect))
    with pytest.raises(InputError, match="whole.tsv is not .* as published: rows 3,000 instead of"):
        paper(name, PaperLog(str(tmp_path / "whole.tsv")))
    cut = (logs / f"{name}.parquet").read_bytes()
    (tmp_path / "cut.parquet").write_bytes(cut[: len(cut) // 2])
    with pytest.raises(InputError, match="cut.parquet is not a whole Parquet file"):
        paper(name, PaperLog(str(tmp_path / "cut.parquet")))


@pytest.mark.parametrize("later", [False, True])
def test_a_period_without_rows_is_refused(later: bool, logs: Path, tmp_path: Path) -> None:
    rows = read_table(str(logs / "camb.parquet"))
    time = rows.column("time").to_numpy()
    keep = time >= 15 * DAY if later else time < 15 * DAY
    part = rows.filter(pa.array(keep)).replace_schema_metadata(parquet.read_schema(logs / "camb.parquet").metadata)
    if later:  # days are counted from the first row
        part = part.filter(pa.array(time[keep] < 29 * DAY))
    parquet.write_table(part, tmp_path / "part.parquet")
    with pytest.raises(InputError, match="has no rows of the days after day 15; give the whole file"):
        paper("camb", PaperLog(str(tmp_path / "part.parquet")))


def test_what_is_left_out_is_told(logs: Path, tmp_path: Path) -> None:
    rows = parquet.read_table(logs / "csscl.parquet")
    time, delay, sold = (rows.column(name).to_numpy().copy() for name in ("time", "delay", "conversion"))
    first = np.flatnonzero(sold == 1)[:20]
    time[:7] = -1
    delay[first[10:13]] = 30 * DAY
    for name, values, absent in (("time", time, time == -1), ("delay", delay, np.isnan(delay))):
        kind = rows.schema.field(name).type
        column = pa.array(np.where(absent, 0, values).astype(np.int64), kind, mask=absent)
        rows = rows.set_column(rows.column_names.index(name), name, column)
    parquet.write_table(rows, tmp_path / "rows.parquet")
    told = {
        why: (number, sales) for why, number, sales in paper("csscl", PaperLog(str(tmp_path / "rows.parquet"))).left_out
    }
    unknown = int(np.isnan(delay[sold == 1]).sum() - np.isnan(delay[:7][sold[:7] == 1]).sum())
    assert told == {
        "rows without a time": (7, int(sold[:7].sum())),
        "conversions without a delay": (unknown, unknown),
        "conversions after more than 30 days": (3, 3),
    }


def test_rows_without_a_time_are_refused(logs: Path, tmp_path: Path) -> None:
    rows = parquet.read_table(logs / "csscl.parquet")
    place = rows.column_names.index("time")
    parquet.write_table(rows.set_column(place, "time", pa.nulls(len(rows), pa.int64())), tmp_path / "timeless.parquet")
    with pytest.raises(InputError, match="timeless.parquet has no row with a time"):
        paper("csscl", PaperLog(str(tmp_path / "timeless.parquet")))


def test_other_mistakes(logs: Path) -> None:
    with pytest.raises(InputError, match="the paper's datasets are csscl and camb; got 'shop'"):
        paper("shop", PaperLog())
    for epsilon in (0.0, float("nan")):
        with pytest.raises(InputError, match="the prior's epsilon is a positive number"):
            paper("camb", PaperLog(str(logs / "camb.parquet")), prior_epsilon=epsilon)
    with pytest.raises(InputError, match="choose another folder"):
        paper("camb", PaperLog(str(logs / "camb.parquet")), cache=str(logs / "camb.parquet"))
