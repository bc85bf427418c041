"""What is not private says so, and so does everything that is made from it."""

import csv
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from attributary import Measurements, Plan, Tree, denoise
from attributary.datasets import generate
from attributary.explore.estimate_store import open_store
from attributary.explore.explore_session import Session
from attributary.report.facts import not_private
from attributary.tables import read_table, write_table
from attributary.tables.not_private import NO_NOISE, SEEDED, TRUE_COUNTS, mark, words_of
from attributary.tables.table_columns import floats
from command import attributary
from effort import first_of

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
        rows = list(csv.reader("".join(session.csv(session.queries({}), {})).splitlines()))
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
