"""Rows are numbered by what they hold, in the order of the columns."""

from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attributary.logs import log_columns as module
from attributary.logs.log_columns import number_rows

CELLS = st.one_of(st.integers(-3, 3), st.integers(-(2**60), 2**60))


@given(st.lists(st.tuples(CELLS, CELLS, CELLS), max_size=30), st.integers(1, 3))
def test_rows_are_numbered_as_their_cells_are_sorted(rows: list[tuple[int, ...]], width: int) -> None:
    columns = [np.array([row[i] for row in rows], np.int64) for i in range(width)]
    of_row, first = number_rows(columns, len(rows))
    cells = [row[:width] for row in rows]
    ordered = sorted(set(cells))
    assert [ordered[number] for number in of_row] == cells
    assert [cells[row] for row in first] == ordered


@pytest.mark.parametrize("fits", [1, 10_000])
def test_one_number_and_several_give_the_same(fits: int) -> None:
    columns = [np.random.default_rng(i).integers(-2, 8, 500) for i in range(3)]
    plain = number_rows(columns, 500)
    with patch.object(module, "FITS", fits):
        of_row, first = number_rows(columns, 500)
    assert (of_row == plain.of_row).all() and len(first) == len(plain.first)


def test_without_columns_all_are_number_0() -> None:
    of_row, first = number_rows([], 3)
    assert of_row.tolist() == [0, 0, 0] and first.tolist() == [0]
