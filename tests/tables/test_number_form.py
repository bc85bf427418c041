"""Number form: figures written in any locale are read as they were meant, or the column is refused; never otherwise."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attributary.errors import InputError
from attributary.tables.number_form import plain_numbers
from attributary.tables.table_columns import floats
from support.effort import examples

LOCALES = [("", "."), ("", ","), (",", "."), (".", ","), (" ", ","), ("\u00a0", ","), ("’", "."), ("'", ",")]
ODD = ["1.23.456", "12,34,567", "1,2345", "1 23", "0,123,456", "1.234,567.8", "--1", "1,5,", "1e"]
figure = st.tuples(st.integers(-(10**9), 10**9), st.integers(0, 4))  # digits, and how many of them are decimals


def written(value: float, digits: int, gap: str, sign: str) -> str:
    """A number with so many decimals, as a locale writes it."""
    return f"{value:,.{digits}f}".replace(",", "G").replace(".", sign).replace("G", gap)


def told(cells: list[str], decimal: str | None = None) -> tuple[list[float], str, str]:
    """The numbers, a note, and the reason if they are refused."""
    try:
        table, note = plain_numbers(pa.table({"n": cells}), "n", "t", decimal)
        return floats(table, "n", "t").tolist(), note, ""
    except InputError as refusal:
        return [], "", str(refusal)


@settings(max_examples=examples(200), deadline=None)
@given(figures=st.lists(figure, min_size=1, max_size=6), locale=st.sampled_from(LOCALES))
def test_a_column_is_read_as_it_was_meant_or_refused(figures: list[tuple[int, int]], locale: tuple[str, str]) -> None:
    meant = [round(whole / 10**digits, digits) for whole, digits in figures]
    cells = [written(x, digits, *locale) for x, (_, digits) in zip(meant, figures, strict=True)]
    assert told(cells, locale[1])[0] == pytest.approx(meant)  # said
    found, note, refusal = told(cells)
    if refusal:
        assert "may be" in refusal
    elif found != pytest.approx(meant):  # few points, with three digits after each, are decimals: never in silence
        assert "has a decimal point (--decimal , says otherwise)" in note


@settings(max_examples=examples(150), deadline=None)
@given(cells=st.lists(st.text("0123456789.,-+' e−", max_size=9), min_size=1, max_size=4))
def test_whatever_is_not_a_number_is_refused(cells: list[str]) -> None:
    for decimal in (None, ".", ","):
        found, _, refusal = told(cells, decimal)
        if refusal:
            assert len(refusal) < 400
        else:
            assert np.isnan(found).tolist() == [not cell.strip() for cell in cells]


@pytest.mark.parametrize("cell", ODD)
def test_odd_groups_are_not_numbers(cell: str) -> None:
    signs = {"1,2345": (".",)}.get(cell, (None, ".", ","))
    assert all(told([cell], decimal)[2] for decimal in signs)


def test_another_decimal_sign_is_refused() -> None:
    assert "the decimal sign is . or ,; got ';'" in told(["1"], ";")[2]
