"""Rows are numbered by what they hold, in the order of the columns."""

from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attributary.logs import labels as module
from attributary.logs.labels import label_codes, number_rows
from attributary.spec import Spec

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


@given(st.lists(st.integers(-12, 12_000), min_size=1, max_size=60), st.integers(0, 10**17))
def test_whole_numbers_have_the_labels_and_the_order_of_their_texts(numbers: list[int], above: int) -> None:
    """Whether they lie close together or not."""
    spec = Spec.parse('epsilon = 1\n[[attribute]]\nname = "a"\n[logs]\nattributed = "x.csv"\nconverted = "c"\n')
    assert spec.logs is not None
    shown = [number + above for number in numbers]
    for close in (10**18, 0):
        with patch.object(module, "CLOSE", close if max(shown) - min(shown) < 10**6 else 0):
            labels, code = label_codes(pa.table({"a": shown}), "a", spec.attributes[0], spec.logs)
        assert labels.to_pylist() == sorted(set(map(str, shown)))
        assert [labels[int(i)].as_py() for i in code] == list(map(str, shown))


def test_without_columns_all_are_number_0() -> None:
    of_row, first = number_rows([], 3)
    assert of_row.tolist() == [0, 0, 0] and first.tolist() == [0]
