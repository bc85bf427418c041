"""Table form: whatever a table of totals looks like, its levels are the right ones or it is refused."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import attributary
from attributary.errors import InputError, QuestionError
from attributary.pipeline.table_form import TableForm, recognise
from support.effort import examples

LEVELS = ("region", "store", "week")


def rolled_up(
    rng: np.random.Generator, depth: int, mark: str | None, total: bool, skipped: int | None, extra: str
) -> tuple[pa.Table, list[str]]:
    """A table of a random tree with a row for each node, its rows and columns in any order, and its levels.

    `skipped` is a level whose rows are left out, and `extra` a column that is no level.
    """
    leaves = {()}
    for level in range(depth):
        leaves = {(*leaf, f"{LEVELS[level][0]}{i}") for leaf in leaves for i in range(int(rng.integers(1, 4)))}
    count = {leaf: int(rng.integers(20, 90)) for leaf in sorted(leaves)}
    nodes: dict[tuple[str, ...], int] = {}
    for leaf, n in count.items():
        for level in range(0 if total else 1, depth + 1):
            if level != skipped or level == depth:
                nodes[leaf[:level]] = nodes.get(leaf[:level], 0) + n
    rows = [(*path, *([mark] * (depth - len(path))), str(n + int(rng.integers(-2, 3)))) for path, n in nodes.items()]
    cells = [rows[i] for i in rng.permutation(len(rows))]
    columns = {name: [row[i] for row in cells] for i, name in enumerate((*LEVELS[:depth], "visits"))}
    if extra == "owner":
        columns["owner"] = [f"o{int(rng.integers(3))}" for _ in cells]
    elif extra == "remark":
        columns["remark"] = ["seen" if rng.random() < 0.2 else None for _ in cells]  # type: ignore[misc]
    names = list(columns)
    return pa.table({names[i]: columns[names[i]] for i in rng.permutation(len(names))}), list(LEVELS[:depth])


def attempt(table: pa.Table) -> TableForm | str:
    try:
        return recognise(table)
    except InputError as refusal:
        return str(refusal)


@settings(max_examples=examples(100), deadline=None)
@given(
    seed=st.integers(0, 2**32),
    depth=st.integers(1, 3),
    mark=st.sampled_from([None, "", "*", "ALL", "Total"]),
    total=st.booleans(),
    skipped=st.sampled_from([None, None, 1, 2]),
    extra=st.sampled_from(["", "", "owner", "remark"]),
)
def test_levels_are_the_right_ones_or_asked_for(
    seed: int, depth: int, mark: str | None, total: bool, skipped: int | None, extra: str
) -> None:
    table, levels = rolled_up(np.random.default_rng(seed), depth, mark, total, skipped, extra)
    form = attempt(table)
    if isinstance(form, str):
        assert "levels" in form or "total" in form or "no row for its parent" in form, form
    else:
        alike = extra != "" and len(table.column(extra).unique()) == 1  # it stands above all, as the total does
        assert list(form.levels) in ([levels, [extra, *levels]] if alike else [levels])
        assert form.value == "visits"


@pytest.mark.parametrize("mark", [None, "*", "ALL"])
@pytest.mark.parametrize("total", [False, True])
def test_levels_of_a_whole_table_are_recognised(mark: str | None, total: bool) -> None:
    table, levels = rolled_up(np.random.default_rng(8), 3, mark, total, None, "")
    form = attributary.recognise(table)
    assert list(form.levels) == levels and len(form.tree) == table.num_rows == len(form.figures)
    assert form.totals == (("ALL",) if mark == "ALL" else ()) and "levels: region > store > week" in form.notes


def test_what_is_asked_for_names_columns_of_labels() -> None:
    bounds = {
        "region": ["N", "N", "S"],
        "store": [None, "a", None],
        "from": [1, 2, 3],
        "to": [5, 6, 7],
        "users": [3, 4, 5],
    }
    more = {name: [*cells, cells[1]] for name, cells in bounds.items()} | {"region": ["N", "N", "S", "S"]}
    assert recognise(more).levels == ("region", "store") and recognise(more).value == "users"
    with pytest.raises(InputError, match="top to bottom\\? For example `levels=region,store`$"):
        recognise(bounds, path="b.csv")
    with pytest.raises(InputError, match="^the table has no column 'sd'"):
        attributary.Measurements.from_table(bounds, ["region", "store"], "users", noise="normal:std=sd")


def test_codes_with_leading_zeros_name_stores() -> None:
    """They are no figures beside those of a pivot, nor is the table refused for rows that are told apart by them."""
    wide = {"region": ["N", "N", "S"], "store": ["0012", "0013", "0101"], "2025-01": [5, 6, 7], "2025-02": [8, 9, 7]}
    with pytest.raises(QuestionError, match="which columns are the hierarchy") as raised:
        recognise(wide)
    assert "region,store" in str(raised.value.__dict__)
