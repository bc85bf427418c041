"""What is not private says so, and so does everything that is made from it."""

import csv
import json
import re
from pathlib import Path
from typing import Any

import pandas
import polars
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from attributary import Measurements, Plan, Spec, Tree, denoise, make_plan, prior
from attributary.cli import main
from attributary.explore.estimate_store import open_store
from attributary.explore.plan_tab import start_of_plan
from attributary.explore.session import Session
from attributary.facts.privacy import not_private
from attributary.logs import count
from attributary.paper import generate
from attributary.pipeline.table_form import recognise
from attributary.report.notebook import plan_html
from attributary.tables import read_table, write_table
from attributary.tables.table_columns import EXACT_PRIOR, NO_NOISE, SEEDED, TRUE_COUNTS, floats, mark, words_of
from support.command import attributary
from support.effort import first_of

pytestmark = pytest.mark.usefixtures("undrawn")

TABLE = pa.table({"campaign": ["a", None, "c"], "estimate": [1.5, -2.0, 3.0]})
ENDINGS = ["csv", "tsv", "csv.gz", "parquet", "arrow", "arrows"]


@pytest.mark.parametrize("first", ENDINGS)
@pytest.mark.parametrize("second", ENDINGS)
def test_the_words_go_through_every_format_and_from_each_to_each(tmp_path: Path, first: str, second: str) -> None:
    one, two = str(tmp_path / f"one.{first}"), str(tmp_path / f"two.{second}")
    write_table(mark(TABLE, SEEDED), one)
    again = read_table(one)
    write_table(mark(again, words_of(again)), two)
    assert words_of(read_table(two)) == SEEDED


@pytest.mark.parametrize("ending", ["csv", "tsv"])
def test_text_has_the_words_in_a_last_column_of_every_row(tmp_path: Path, ending: str) -> None:
    path = str(tmp_path / f"t.{ending}")
    write_table(mark(TABLE, SEEDED), path)
    table = read_table(path)
    assert table.column_names == ["campaign", "estimate", "not_private"]
    assert table.column("not_private").to_pylist() == [SEEDED] * 3


def test_parquet_has_them_in_its_metadata_and_no_column(tmp_path: Path) -> None:
    path = str(tmp_path / "t.parquet")
    write_table(mark(TABLE, SEEDED), path)
    assert pq.read_schema(path).metadata[b"not_private"].decode() == SEEDED
    assert pq.read_schema(path).names == TABLE.column_names


def test_words_add_up_and_none_is_lost_or_repeated() -> None:
    twice = mark(mark(mark(TABLE, SEEDED), NO_NOISE), SEEDED)
    assert words_of(twice) == f"{SEEDED} | {NO_NOISE}"


@pytest.mark.parametrize(
    "table", [TABLE, mark(TABLE), mark(TABLE, "", "")], ids=["as it is", "no words", "empty words"]
)
def test_a_private_table_stays_as_it_is(table: pa.Table, tmp_path: Path) -> None:
    assert words_of(table) == "" and table.schema.equals(TABLE.schema, check_metadata=True)
    write_table(table, str(tmp_path / "t.csv"))
    assert read_table(str(tmp_path / "t.csv")).column_names == TABLE.column_names


def test_a_column_of_that_name_is_kept_if_it_holds_something_else() -> None:
    other = TABLE.append_column("not_private", pa.array([0, 1, 1]))
    assert words_of(other) == "" and mark(other, "").column_names[-1] == "not_private"


def test_a_column_with_gaps_is_in_every_row_once_written(tmp_path: Path) -> None:
    some = TABLE.append_column("not_private", pa.array([None, SEEDED, None])).select(
        ["not_private", "campaign", "estimate"]
    )
    write_table(some, str(tmp_path / "t.csv"))
    assert read_table(str(tmp_path / "t.csv")).column("not_private").to_pylist() == [SEEDED] * 3


# --- through the commands --------------------------------------------------------------------------------------------

SPEC = """epsilon = 4
[[attribute]]
name = "a"
[[attribute]]
name = "b"
unknown = true
domain = ["p", "q"]
"""


@pytest.fixture
def noisy(tmp_path: Path) -> Path:
    """A seeded table of noisy figures."""
    table = pa.table({"a": ["x", "x", "x", "y"], "b": [None, "p", "q", None], "n": [5.0, 2, 2, 7]})
    write_table(mark(table, SEEDED), str(tmp_path / "noisy.csv"))
    return tmp_path / "noisy.csv"


DENOISE = ("--levels", "a,b", "--value", "n", "--variance", "2")


@pytest.mark.parametrize("ending", ["csv", "tsv", "parquet", "arrow"])
@pytest.mark.parametrize("quiet", [[], ["-q"]])
def test_estimates_of_a_marked_table_are_marked(ending: str, quiet: list[str], noisy: Path, tmp_path: Path) -> None:
    out = tmp_path / f"est.{ending}"
    said = attributary("denoise", "--table", noisy, *DENOISE, "-o", out, *quiet).stderr
    assert words_of(read_table(str(out))) == SEEDED and said.startswith(f"{out}: {SEEDED}\n")
    assert quiet == [] or said.count("\n") == 1


def test_a_marked_prior_marks_what_is_learned_from_it(noisy: Path, tmp_path: Path) -> None:
    plain, prior, out = tmp_path / "plain.csv", tmp_path / "prior.parquet", tmp_path / "out.csv"
    table = read_table(str(noisy)).drop_columns(["not_private"])
    later = [floats(table, "n", "") + 1.5]
    write_table(table.set_column(table.column_names.index("n"), "n", later), str(plain))
    attributary("denoise", "--table", noisy, *DENOISE, "-o", prior)
    said = attributary("denoise", "--table", plain, *DENOISE, "--prior", prior, "-o", out, "-q").stderr
    assert words_of(read_table(str(out))) == SEEDED and SEEDED in said
    attributary("denoise", "--table", plain, *DENOISE, "--estimator", "learned", "-o", out, "-q")
    assert words_of(read_table(str(out))) == ""


@pytest.mark.parametrize("protected", [True, False])
def test_a_plan_from_marked_estimates_was_not_protected(protected: bool, noisy: Path, tmp_path: Path) -> None:
    (tmp_path / "spec.toml").write_text(SPEC)
    table = read_table(str(noisy)).take([0, 1, 2])
    table = table.drop_columns(["not_private"]) if protected else table
    write_table(table, str(tmp_path / "in.csv"))
    attributary("denoise", "--table", tmp_path / "in.csv", *DENOISE, "-o", tmp_path / "prior.csv")
    out = tmp_path / "plan.json"
    attributary("plan", tmp_path / "spec.toml", "--prior", tmp_path / "prior.csv", "-o", out)
    assert Plan.load(str(out)).prior.protected == protected


@pytest.mark.parametrize("ending", ["csv", "parquet", "arrow"])
@pytest.mark.parametrize("words", first_of([SEEDED, NO_NOISE, "NOT PRIVATE: for <reasons>"]))
def test_pages_and_charts_say_it_first(ending: str, words: str, noisy: Path, tmp_path: Path) -> None:
    out = tmp_path / f"est.{ending}"
    attributary("denoise", "--table", noisy, *DENOISE, "-o", out)
    table = read_table(str(out)).replace_schema_metadata()
    table = table.drop_columns(["not_private"]) if ending == "csv" else table
    args = ("report", out, "--levels", "a,b", "-o", tmp_path / "page.html", "--charts", tmp_path / "charts", "-q")
    for marked in (mark(table, words), table):
        write_table(marked, str(out))
        said, page = attributary(*args).stderr, (tmp_path / "page.html").read_text()
        charts = [path.read_text() for path in (tmp_path / "charts").iterdir()]
        wanted = marked is not table
        assert ("<title>NOT PRIVATE: " in page) == wanted == (words in said)
        assert ('role="alert"><strong>NOT PRIVATE. Do not publish this page' in page) == wanted
        assert charts and all(("NOT PRIVATE" in chart) == wanted for chart in charts)
        assert "<reasons>" not in page
    assert "known seed" in _page_words(SEEDED) and "No noise" in _page_words(NO_NOISE)


def _page_words(words: str) -> str:
    return " ".join(not_private(words))


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_the_explorer_says_it_and_so_does_what_is_downloaded(ending: str, noisy: Path, tmp_path: Path) -> None:
    out = tmp_path / f"est.{ending}"
    attributary("denoise", "--table", noisy, *DENOISE, "-o", out)
    store = open_store([str(out)], ["a", "b"])
    session = Session(None, lambda current: None, 10.0, "laplace", store, {})  # type: ignore[arg-type, return-value]
    try:
        assert session.about({})["table"]["not_private"] == not_private(SEEDED)
        rows = list(csv.reader("".join(session.queries({}).csv({})).splitlines()))
        assert rows[0][-1] == "not_private" and {row[-1] for row in rows[1:]} == {SEEDED}
    finally:
        session.close()


def test_an_estimate_in_a_notebook_says_it() -> None:
    tree = Tree.from_parents([-1, 0, 0])
    figures = Measurements.of(tree, [5.0, 2, 2], [1.0, 2, 3], not_private=SEEDED)
    for est in (denoise(tree, figures), denoise(tree, figures, nonnegative=True), denoise(tree, figures.plus(figures))):
        assert est.not_private == SEEDED and SEEDED in repr(est)
        assert est._repr_html_().startswith('<div role="alert"') and SEEDED in est._repr_html_()
    plain = denoise(tree, [5.0, 2, 2], 1.0)
    assert plain.not_private == "" and "alert" not in plain._repr_html_() and "PRIVATE" not in repr(plain)


@pytest.mark.parametrize("format_", ["csv", "parquet"])
@pytest.mark.parametrize("seed", [["--seed", "1"], []])
def test_all_that_a_run_writes(format_: str, seed: list[str], tmp_path: Path) -> None:
    generate("shop", f"{tmp_path}/", 2_000, 0)
    out = tmp_path / "run"
    args = ("run", tmp_path / "spec.toml", "--prior-until", "2026-02-02", "-o", out, "--format", format_, "-q")
    said = attributary(*args, *seed).stderr
    words = SEEDED if seed else ""
    assert said == (f"{out}: {SEEDED}\n" if seed else "")
    found = {path.stem: words_of(read_table(str(path))) for path in out.glob(f"*.{format_}")}
    assert found == {"estimates": words, "counts": TRUE_COUNTS, "prior": TRUE_COUNTS}
    assert ("NOT PRIVATE. Do not publish" in (out / "report.html").read_text()) == bool(seed)


# --- true counts ----------------------------------------------------------------------------------------------------

LEVELS = "campaign,location,day"


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("logs")
    generate("shop", f"{folder}/", 2_000, 0)
    return folder


@pytest.mark.parametrize("noise", [["--variance", "0"], ["--std", "3"], ["--noise", "laplace:scale=2"]])
@pytest.mark.parametrize("ending", first_of(ENDINGS))
def test_counts_and_all_that_is_made_of_them(ending: str, noise: list[str], logs: Path, tmp_path: Path) -> None:
    """A page of true counts says so, whatever noise is stated for them, through every format."""
    counts, est, page = tmp_path / f"counts.{ending}", tmp_path / f"est.{ending}", tmp_path / "page.html"
    said = attributary("count", logs / "spec.toml", "-o", counts, "--summary", tmp_path / "said.json").stderr
    assert TRUE_COUNTS in said and json.loads((tmp_path / "said.json").read_text())["not_private"] == TRUE_COUNTS
    assert words_of(read_table(str(counts))) == TRUE_COUNTS
    how = ("--levels", LEVELS, "--value", "conversions", *noise)
    attributary("denoise", "--table", counts, *how, "--fill", "-o", est)
    assert words_of(read_table(str(est))) == TRUE_COUNTS
    for source in ((est,), (counts, *how)):
        attributary("report", *source, "-o", page)
        assert "<title>NOT PRIVATE: " in page.read_text()
    store = open_store([str(est)], LEVELS.split(","))
    assert store.about.not_private == TRUE_COUNTS
    store.close()


def test_counts_on_standard_output_and_from_standard_input(logs: Path) -> None:
    given = CliRunner().invoke(main, ["count", str(logs / "spec.toml"), "-q"]).stdout
    assert {row[-1] for row in list(csv.reader(given.splitlines()))[1:]} == {TRUE_COUNTS}
    how = ["denoise", "--table", "-", "--levels", LEVELS, "--value", "conversions", "--variance", "4"]
    made = CliRunner().invoke(main, how, input=given)
    assert made.exit_code == 0 and {row[-1] for row in list(csv.reader(made.stdout.splitlines()))[1:]} == {TRUE_COUNTS}


def test_the_mark_is_no_level_and_a_pivot_keeps_it() -> None:
    marked = pa.table({"a": ["x", "y"], "conversions": [5, 2], "not_private": [TRUE_COUNTS] * 2})
    assert recognise(marked).tree.attributes == ("a",)
    wide = pa.table({"a": ["x", "y"], "Jan": [5, 2], "Feb": [2, 7], "Mar": [2, 3], "not_private": [TRUE_COUNTS] * 2})
    assert words_of(recognise(wide, wide="month").table) == TRUE_COUNTS


@pytest.mark.parametrize("kind", ["pandas", "polars", "categorical", "counts"])
def test_frames_carry_it(kind: str, logs: Path, tmp_path: Path) -> None:
    attributary("count", logs / "spec.toml", "-o", tmp_path / "counts.csv", "-q")
    frame: Any = {
        "pandas": lambda: pandas.read_csv(tmp_path / "counts.csv"),
        "polars": lambda: polars.read_csv(tmp_path / "counts.csv"),
        "categorical": lambda: pandas.read_csv(tmp_path / "counts.csv").astype({"not_private": "category"}),
        "counts": lambda: count(Spec.load(str(logs / "spec.toml")), str(logs)).table,
    }[kind]()
    measured = Measurements.from_table(frame, levels=LEVELS.split(","), value="conversions", variance=4)
    assert measured.not_private == denoise(measured).not_private == TRUE_COUNTS


def test_errors_of_true_counts_are_marked(logs: Path, tmp_path: Path) -> None:
    out = tmp_path / "errors.csv"
    attributary("evaluate", logs / "spec.toml", "--method", "equal", "--draws", "0", "-o", out, "-q")
    assert words_of(read_table(str(out))) == TRUE_COUNTS
    attributary("report", out, "-o", tmp_path / "page.html")
    assert "<title>NOT PRIVATE: " in (tmp_path / "page.html").read_text()


@pytest.mark.parametrize("protected", [True, False])
def test_estimates_from_an_exact_prior_in_python(protected: bool) -> None:
    """What the command marks, a call marks, too."""
    rows = {"a": ["x", "x", "y", "y"], "b": ["p", "q", "p", "q"], "conversions": [50, 20, 20, 70]}
    tree = Tree.from_paths({name: rows[name] for name in "ab"}, ["a", "b"], fill=True)
    for table, words in (
        (pa.table(rows), "" if protected else EXACT_PRIOR),
        (mark(pa.table(rows), TRUE_COUNTS), EXACT_PRIOR),
    ):
        earlier = prior.from_counts(tree, table, protected=protected)
        measured = Measurements.of(tree, earlier.mean + 1.0, 4.0)
        est = denoise(tree, measured, prior=prior.learn(tree, measured, None, earlier))
        assert (earlier.not_private, earlier.protected, est.not_private) == (words, not words, words)


@pytest.mark.parametrize("marked", ["marked", "by hand", "protected"])
def test_a_plan_tells_no_figure_of_counts_that_were_not_protected(marked: str, tmp_path: Path) -> None:
    """Neither the total nor a node with its count: in terminal, summary, file, page, notebook and explorer."""
    (tmp_path / "spec.toml").write_text('split_by = "a"\n' + SPEC)
    figures = [3501, 312, 277, 231]
    table = pa.table({"a": ["x", "x", "y", "y"], "b": ["p", "q", "p", "q"], "conversions": figures})
    write_table(mark(table, TRUE_COUNTS if marked == "marked" else ""), str(tmp_path / "counts.csv"))
    args = [*("plan", tmp_path / "spec.toml", "--prior", tmp_path / "counts.csv", "-o", tmp_path / "plan.json")]
    args += ["--summary", tmp_path / "said.json", "--what-if", "epsilon=1", *["--protected"] * (marked != "by hand")]
    done = attributary(*args)
    attributary("report", tmp_path / "plan.json", "-o", tmp_path / "page.html")
    plan = Plan.load(str(tmp_path / "plan.json"))
    asked = Spec.load(str(tmp_path / "spec.toml"))
    tree = asked.tree(table)
    made = make_plan(asked, tree, prior.from_counts(tree, table, protected=marked == "protected"))
    shown = [done.stdout + done.stderr, repr(made), plan_html(made), start_of_plan(plan).words]
    shown += [(tmp_path / name).read_text() for name in ("said.json", "plan.json", "page.html")]
    found = [
        [number for number in (sum(figures), *figures, 3813, 508) if re.search(rf"\b{number}\b", text.replace(",", ""))]
        for text in shown
    ]
    assert made == plan and plan.prior.protected == (marked == "protected")
    if marked == "protected":
        assert all(4321 in numbers for numbers in (found[0], found[4], found[5], found[6]))
    else:
        assert found == [[]] * len(shown) and plan.prior.conversions is None
        assert all("NOT protected" in text for text in (shown[0], shown[2], shown[6]))


@pytest.mark.parametrize("name", ["not_private", "NOT_PRIVATE", "Not_Private"])
def test_the_mark_is_found_however_its_head_is_written(name: str) -> None:
    assert words_of(pa.table({"a": ["x"], name: [TRUE_COUNTS]})) == TRUE_COUNTS
