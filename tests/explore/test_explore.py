"""The explorer's answers: pages hold every row once, in order; search, comparison and CSV say what a slow look says."""

import csv
import io
import math
import os
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from attributary import compare
from attributary.errors import InputError
from attributary.estimates import by_measure
from attributary.explore import open_session
from attributary.explore.estimate_store import open_store
from attributary.pipeline.denoise_table import denoise_table
from attributary.tables import write_table
from attributary.tree.paths import UNPRINTABLE
from support.effort import examples, first_of
from support.explored import AWKWARD, client, closed, every_page, session, shuffled, table, written  # noqa: F401

SORTS = {
    "estimate": lambda r: r["estimate"],
    "error": lambda r: math.sqrt(r["variance"]) / max(10.0, r["estimate"]),
    "correction": lambda r: None if r["correction"] is None else abs(r["correction"]),
    "label": lambda r: r["label"],
    "order": lambda r: r["node"],
}


def rows_of(given: pa.Table) -> list[dict[str, Any]]:
    """The rows of a table as a slow look sees them."""
    rows = given.to_pylist()
    names = ["campaign", "place", "day"]
    total = any(r["level"] == 0 and r["campaign"] is None for r in rows)
    for r in rows:
        r["path"] = [r[name] for name in names if r[name] is not None]
        r["label"] = r[names[r["level"] - total]] if r["level"] >= total else "total"
    return rows


def in_order(rows: list[dict[str, Any]], sort: str, down: bool) -> list[int]:
    """The nodes of rows, sorted; what has no value comes last."""
    key = SORTS[sort]
    known = [r for r in rows if key(r) is not None]
    known.sort(key=lambda r: r["node"])
    known.sort(key=lambda r: key(r).encode() if isinstance(key(r), str) else key(r), reverse=down)
    return [r["node"] for r in known] + sorted(r["node"] for r in rows if key(r) is None)


@pytest.fixture(scope="module", params=["in order", "shuffled", "small groups", "with a total", "CSV"])
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A tab on a table, and what is in it."""
    folder = tmp_path_factory.mktemp("explored")
    roots = [f"root {i}" for i in range(230)] if request.param == "CSV" else [*AWKWARD, *(f"r{i}" for i in range(220))]
    given = table(roots, fans=(3, 2), total=request.param == "with a total")
    rows = rows_of(given)
    path = str(folder / "estimates.csv")
    if request.param == "CSV":
        write_table(given, path)
    else:
        shown = shuffled(given) if request.param == "shuffled" else given
        path = written(
            shown, folder / "it's [odd]*.parquet", row_group_size=100 if request.param == "small groups" else None
        )
    opened = session(path, keep=True)
    yield client(opened), rows
    opened.close()


@pytest.mark.parametrize("down", [True, False])
@pytest.mark.parametrize("sort", SORTS)
def test_all_pages_together_are_all_children_in_order(case: Any, sort: str, down: bool) -> None:
    tab, rows = case
    roots = [r for r in rows if r["level"] == 0]
    parent = roots[0]["node"] if len(roots) == 1 else -1
    children = [r for r in rows if r["parent"] == parent]
    asked = {"sort": sort, "down": str(int(down)), **({"node": str(parent)} if parent >= 0 else {})}
    found = every_page(tab, **asked)
    assert [r["node"] for r in found] == in_order(children, sort, down)
    assert len(found) > 200


def test_a_row_says_what_the_table_says(case: Any) -> None:
    tab, rows = case
    by_node = {r["node"]: r for r in rows}
    many = {v: sum(r["parent"] == v for r in rows) for v in (0, 1, 250)}
    for r in every_page(tab, level="all"):
        own = by_node[r["node"]]
        for name in ("level", "label", "noisy", "estimate", "variance", "low", "high", "correction"):
            assert r[name] == own[name], name
        assert [label for _, label in r["path"]][-len(own["path"]) or 9 :] == own["path"]
        assert r["error"] == pytest.approx(SORTS["error"](own))
        assert r["children"] == many.get(r["node"], r["children"])
        for (upper, _), (lower, _) in zip(r["path"], r["path"][1:], strict=False):
            assert by_node[int(lower)]["parent"] == int(upper)


@pytest.mark.parametrize(
    "find", first_of(["CITY 1", "day 0", "r1", "%", "_", "\\", "'", "🛒", "SCRIPT", "مرحبا", "nowhere at all", "\n"])
)
@pytest.mark.parametrize("level", first_of(["", "1"]))
def test_search_finds_what_a_slow_look_finds(case: Any, find: str, level: str) -> None:
    tab, rows = case
    wanted = [r for r in rows if find.lower() in r["label"].lower() and level in ("", str(r["level"]))]
    found = every_page(tab, find=find, level=level, sort="error")
    assert [r["node"] for r in found] == in_order(wanted, "error", True)
    assert tab.get("/api/count", params={"find": find, "level": level}).json() == {"of": len(wanted)}


def test_search_stays_below_the_node(case: Any) -> None:
    tab, rows = case
    upper = next(r for r in rows if r["label"] in (AWKWARD[0], "root 0"))
    below = [r for r in rows if r["path"][:1] == upper["path"] and r["level"] > upper["level"] and "1" in r["label"]]
    found = every_page(tab, find="1", node=str(upper["node"]), sort="order")
    assert [r["node"] for r in found] == [r["node"] for r in below]


def test_a_node_has_its_path_and_its_figures(case: Any) -> None:
    tab, rows = case
    leaf = rows[-1]
    found = tab.get("/api/node", params={"node": str(leaf["node"])}).json()
    assert found["estimate"] == leaf["estimate"] and found["children"] == 0
    assert [label for _, label in found["path"]][-3:] == leaf["path"]


def test_the_number_of_children_is_told_where_it_is_known(case: Any) -> None:
    tab, rows = case
    page = tab.get("/api/rows").json()
    assert page["of"] == sum(r["level"] == 0 for r in rows)
    assert len(page["rows"]) == min(page["of"], 100)


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(labels=st.lists(st.text(max_size=6), min_size=1, max_size=8, unique=True), words=st.text(min_size=1, max_size=2))
def test_any_label_is_found_by_any_part_of_it(tmp_path: Path, labels: list[str], words: str) -> None:
    labels = [label.encode("utf-8", "ignore").decode() for label in labels]
    words = words.encode("utf-8", "ignore").decode().replace("\0", "")
    assume(len(set(labels)) == len(labels) and words and not any("\0" in label for label in labels))
    opened = session(written(table(labels, fans=(1, 1)), tmp_path / "any.parquet"), keep=True)
    tab = client(opened)
    assert [r["label"] for r in every_page(tab, sort="order")] == labels
    found = {r["label"] for r in every_page(tab, find=words, level="0")}
    assert found >= {label for label in labels if words in label}
    opened.close()


@pytest.fixture
def two(tmp_path: Path) -> Any:
    labels = [label for label in AWKWARD if label and not UNPRINTABLE.search(label)]  # a tree takes no others
    now = table([*labels, "stays", "new"], seed=1)
    before = shuffled(table(["gone", *labels[::-1], "stays"], seed=2))
    paths = written(now, tmp_path / "now.parquet"), written(before, tmp_path / "before.parquet")
    return client(session(*paths)), rows_of(now), rows_of(before), compare(*paths)


@pytest.mark.parametrize(
    "asked", [{}, {"level": "all"}, {"level": "1"}, {"find": "city 3"}, {"find": "day 2", "sort": "z"}]
)
def test_two_tables_are_joined_by_path(two: Any, asked: dict[str, str]) -> None:
    tab, now, before, changes = two
    sort = {"sort": "significance"} if asked.pop("sort", "") else {}
    tested = {
        tuple(label for label in (row["campaign"], row["place"], row["day"]) if label is not None): row
        for row in changes.table().to_pylist()
    }

    def wanted(rows: list[dict[str, Any]]) -> dict[tuple[str, ...], dict[str, Any]]:
        level, find = asked.get("level", "" if "find" in asked else "0"), asked.get("find", "")
        return {
            tuple(r["path"]): r
            for r in rows
            if level in ("", "all", str(r["level"])) and find.lower() in r["label"].lower()
        }

    a, b = wanted(now), wanted(before)
    found = {}
    for r in every_page(tab, **asked, **sort):
        path = tuple(label for _, label in r["path"]) if "path" in r else (r["label"],)
        assert path not in found
        found[path] = r
    assert found.keys() == a.keys() | b.keys()
    for path, r in found.items():
        x, y = a.get(path), b.get(path)
        assert r["verdict"] == ("gone" if x is None else "new" if y is None else tested[path]["verdict"])
        if x and y:
            change = x["estimate"] - y["estimate"]
            spread = math.sqrt(x["variance"] + y["variance"] + x["estimate"] + y["estimate"])
            assert (r["change"], r["spread"]) == (pytest.approx(change), pytest.approx(spread))
            assert r["z"] == pytest.approx(change / spread) and r["chance"] == pytest.approx(tested[path]["chance"])
        else:
            assert r["change"] is None and r["z"] is None


def test_what_is_new_or_gone_can_be_opened(two: Any) -> None:
    tab, now, before, _ = two
    for label, rows in (("new", now), ("gone", before)):
        (row,) = [r for r in every_page(tab) if r["label"] == label]
        children = every_page(tab, node=row["id"])
        assert {r["verdict"] for r in children} == {label}
        assert sorted(r["label"] for r in children) == sorted(r["label"] for r in rows if r["path"][:-1] == [label])
        assert tab.get("/api/node", params={"node": row["id"]}).json()["verdict"] == label


def test_measures_are_compared_by_their_names(tmp_path: Path) -> None:
    def of(seed: int) -> pa.Table:
        return by_measure({name: table(["x", "y"], seed=seed + i) for i, name in enumerate(("count", "revenue"))})

    paths = written(of(1), tmp_path / "now.parquet"), written(of(5), tmp_path / "before.parquet")
    tab = client(session(*paths))
    for number, measure in enumerate(("count", "revenue")):
        rows, now = every_page(tab, measure=measure, sort="label"), rows_of(table(["x", "y"], seed=1 + number))
        assert [row["estimate"] for row in rows] == pytest.approx([row["estimate"] for row in now[:2]])
        assert [row["verdict"] for row in rows] == compare(*paths, measure=measure).verdict[:2].tolist()
    alone = written(table(["x", "y"]), tmp_path / "alone.parquet")
    with pytest.raises(InputError, match="tables of the same measures are compared; .* has one without a name"):
        open_store([paths[0], alone])


def test_a_course_is_drawn_of_periods_only(two: Any, case: Any) -> None:
    tab, _, _, _ = two
    whole = tab.get("/api/course").json()
    assert (
        {"polyline", "polygon", "text"} <= {tag for tag, _, _ in whole["shapes"]}
        and "from" in whole["words"]
        and "Gone: gone." in whole["words"]
    )
    assert "2 periods together" in tab.get("/api/course", params={"node": "3"}).json()["words"]
    assert case[0].get("/api/course").status_code == 400


def test_changes_are_sorted_by_sign_and_significance_by_size(two: Any) -> None:
    tab, _, _, _ = two
    changes = [r["change"] for r in every_page(tab, sort="change") if r["change"] is not None]
    assert changes == sorted(changes, reverse=True) and changes[0] > 0 > changes[-1]
    sizes = [abs(r["z"]) for r in every_page(tab, sort="significance") if r["z"] is not None]
    assert sizes == sorted(sizes, reverse=True)


@pytest.mark.parametrize("asked", [{}, {"find": "city", "sort": "label"}, {"node": "3", "sort": "error", "down": "0"}])
def test_csv_holds_the_rows_of_all_pages_in_order(case: Any, asked: dict[str, str]) -> None:
    tab, rows = case
    answer = tab.get("/api/rows.csv", params=asked)
    assert (
        answer.headers["content-type"].startswith("text/csv") and "attachment" in answer.headers["content-disposition"]
    )
    read = list(csv.DictReader(io.StringIO(answer.text, newline="")))
    shown = every_page(tab, **asked)
    assert [float(r["estimate"]) for r in read] == [r["estimate"] for r in shown]
    by_node = {r["node"]: r for r in rows}
    for r, s in zip(read, shown, strict=True):
        own = by_node[s["node"]]
        for name in ("campaign", "place", "day"):
            assert r[name].removeprefix("'" if (own[name] or "").startswith(("=", "+", "-", "@")) else "\0") == (
                own[name] or ""
            )
        assert not any(r[name].startswith(("=", "+", "-", "@")) for name in ("campaign", "place", "day"))
        assert float(r["noise_variance"]) == own["noise_variance"]
        assert (float(r["noisy"]) if r["noisy"] else None) == own["noisy"]


def test_csv_of_two_tables_has_the_change(two: Any) -> None:
    tab, _, _, _ = two
    read = list(csv.DictReader(io.StringIO(tab.get("/api/rows.csv?sort=change").text, newline="")))
    shown = every_page(tab, sort="change")
    assert [r["verdict"] for r in read] == [r["verdict"] for r in shown]
    assert [r["change"] for r in read] == ["" if r["change"] is None else repr(r["change"]) for r in shown]


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"sort": "estimate; DROP TABLE now"}, "rows are sorted by"),
        ({"sort": "change"}, "rows are sorted by"),
        ({"node": "1 OR 1=1"}, "a node is a whole number"),
        ({"node": "99999999"}, "a node is a whole number"),
        ({"node": "-1"}, "a node is a whole number"),
        ({"node": "٣"}, "a node is a whole number"),
        ({"node": "before-1"}, "a node is a whole number"),
        ({"level": "7"}, "a level is a whole number"),
        ({"page": "-1"}, "a page is a whole number"),
        ({"page": "1e9"}, "a page is a whole number"),
        ({"find": "x" * 1001}, "at most 1,000 characters"),
        ({"find": "\0"}, "none of them NUL"),
    ],
)
def test_what_an_address_cannot_mean_is_refused(case: Any, asked: dict[str, str], words: str) -> None:
    tab, _ = case
    for path in ("/api/rows", "/api/count", "/api/rows.csv", "/api/node"):
        answer = tab.get(path, params=asked)
        assert answer.status_code == 400 and words in answer.json()["error"], path


@pytest.mark.parametrize("words", ["'; DROP TABLE now; --", "' OR '1'='1", "$1", "?", "{}", "%s"])
def test_sql_in_a_search_is_only_searched_for(case: Any, words: str) -> None:
    tab, rows = case
    found = every_page(tab, find=words)
    assert [r["label"] for r in found] == [r["label"] for r in rows if words.lower() in r["label"].lower()]
    assert len(every_page(tab)) > 0


def test_the_database_reads_nothing_but_the_table(tmp_path: Path) -> None:
    secret = tmp_path / "secret.csv"
    secret.write_text("a\n1\n")
    store = open_store([written(table(["x"]), tmp_path / "e.parquet")])
    for sql in (
        f"SELECT * FROM read_csv('{secret}')",
        f"SELECT * FROM '{secret}'",
        f"COPY now TO '{tmp_path / 'out.csv'}'",
        f"ATTACH '{tmp_path / 'other.db'}'",
        "SET enable_external_access = true",
    ):
        with pytest.raises(Exception, match=r"(?i)permission|disabled|locked|does not exist"):
            store.connection.cursor().execute(sql)
    assert sorted(os.listdir(tmp_path)) == ["e.parquet", "secret.csv"]
    store.close()


def test_a_tree_without_labels_is_looked_through_by_number(tmp_path: Path) -> None:
    given = table(["x", "y"]).drop_columns(["campaign", "place", "day"])
    tab = client(session(written(given, tmp_path / "plain.parquet")))
    assert [r["label"] for r in every_page(tab, sort="order")] == ["node 0", "node 1"]
    assert {r["label"] for r in every_page(tab, find="node 11")} == {"node 11"}
    assert every_page(tab, node="1", sort="order")[0]["node"] == 7
    assert "searched as a whole" in tab.get("/api/rows?node=1&find=x").json()["error"]


def test_a_file_that_changes_says_so_and_can_be_opened_again(tmp_path: Path) -> None:
    path = written(table(["old"]), tmp_path / "e.parquet")
    opened = session(path)
    tab = client(opened)
    assert [r["label"] for r in every_page(tab)] == ["old"]
    written(table(["fresh", "more"]), tmp_path / "next.parquet")
    shutil.move(tmp_path / "next.parquet", path)
    for place in ("/api/rows", "/api/count", "/api/rows.csv"):
        answer = tab.get(place)
        assert answer.status_code == 409 and "has changed since it was opened" in answer.json()["error"]
    assert tab.post("/api/reopen").json()["table"]["nodes"] == 82
    assert {r["label"] for r in every_page(tab)} == {"fresh", "more"}
    Path(path).write_bytes(b"PAR1 no longer")
    assert tab.get("/api/rows").status_code == 409
    answer = tab.post("/api/reopen")
    assert answer.status_code == 400 and "is not a whole Parquet file" in answer.json()["error"]
    assert tab.get("/api/rows").status_code == 409
    os.unlink(path)
    assert tab.get("/api/rows").status_code == 409 and "there is no file" in tab.get("/api/rows").json()["error"]


def edited(**columns: Any) -> pa.Table:
    given = table(["x"], fans=(1, 1))
    for name, values in columns.items():
        given = given.set_column(given.column_names.index(name), name, pa.array(values))
    return given


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (edited(node=[0, 1, 1]), "node 2 has no row"),
        (edited(node=[0, 1, 9]), "numbered from 0 to 2; one is 9"),
        (edited(node=[0.0, 1.0, 2.0]), "'node' holds whole numbers; got double"),
        (edited(parent=[-1, 0, None]), "'parent' holds whole numbers; got 1 empty"),
        (edited(parent=[-1, 0, 7]), "or -1; one is 7"),
        (edited(parent=[1, 2, 0]), "one level below its parent"),
        (edited(level=[0, 1, 3]), "one level below its parent"),
        (edited(level=[0, 1, 300]), "a level is from 0 to 127; one is 300"),
        (edited(estimate=[1.0, math.nan, 3.0]), "estimate is a number; node 1 has nan"),
        (edited(variance=[1.0, 1.0, -1.0]), "variance is a number, 0 or more; node 2 has -1"),
        (edited(low=[None, 1.0, 1.0]), "low is a number, the estimate at most; node 0 has none"),
        (edited().drop_columns("day"), "3 levels, but 2 columns"),
        (edited().slice(0, 0), "no rows of level 0"),
        (edited().drop_columns("high"), "estimates have the columns estimate, variance, low, high"),
        (pa.table({"campaign": ["x"], "conversions": [3]}), "holds true counts"),
    ],
)
def test_a_foreign_table_is_refused_in_words(tmp_path: Path, given: pa.Table, words: str) -> None:
    with pytest.raises(InputError, match="odd.parquet") as refused:
        open_store([written(given, tmp_path / "odd.parquet")])
    assert words in str(refused.value)


def test_a_broken_file_is_refused_in_words(tmp_path: Path) -> None:
    whole = Path(written(table(["x"]), tmp_path / "e.parquet")).read_bytes()
    for damaged in (whole[:-100], whole[:4] + b"x" * 50 + whole[60:], b"PAR1", whole[: len(whole) // 2] + whole[-8:]):
        Path(tmp_path / "cut.parquet").write_bytes(damaged)
        with pytest.raises(InputError, match="cut.parquet"):
            open_store([str(tmp_path / "cut.parquet")])
    with pytest.raises(InputError, match="`memory` is a size"):
        open_store([str(tmp_path / "e.parquet")], memory="lots")


def test_tables_of_different_questions_are_not_compared(tmp_path: Path) -> None:
    now = written(table(["x"]), tmp_path / "now.parquet")
    for other in (table(["x"], total=True), table(["x"]).rename_columns({"place": "city"})):
        with pytest.raises(InputError, match="have the same levels"):
            open_store([now, written(other, tmp_path / "other.parquet")])
    plain = written(table(["x"]).drop_columns(["campaign", "place", "day"]), tmp_path / "plain.parquet")
    with pytest.raises(InputError, match="compared by the labels"):
        open_store([now, plain])


def test_a_table_is_called_by_what_it_counts(tmp_path: Path) -> None:
    """As on the page: by the column that was denoised, or else conversions."""
    figures = pa.table({"shop": ["a", "a", "b"], "day": [None, "mon", None], "visits": [9.0, 5.0, 4.0]})
    made = denoise_table(figures, ["shop", "day"], "visits", variance=1.0, fill=True)
    write_table(made.written("csv"), str(tmp_path / "t.csv"))
    write_table(table(["a", "b"]), str(tmp_path / "run.parquet"))
    for name, called in (("t.csv", "visits"), ("run.parquet", "conversions")):
        opened = open_session(str(tmp_path / name))
        about = opened.about({})["table"]
        opened.close()
        assert (about["called"], about["noun"]) == (called, "count")
