"""Number form: how the figures of a column are written, 1,234.5 or 1.234,5 or 1 234, or as a bound, <5.

The decimal sign is decided by all cells together. A cell that lies between low and high is a measurement of the middle,
with the variance of a uniform choice among the n = high − low + 1 whole numbers, (n² − 1)/12, besides that of the row's
noise. That is what is known of a count whose noisy figure was suppressed, and less than what is known of a count that
was suppressed itself.
"""

import re
from collections.abc import Collection
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from attributary.arrow import pa, pc
from attributary.errors import InputError
from attributary.tables.table_columns import (
    FIRST,
    SHOWN,
    cell_in_words,
    column,
    floats,
    is_text_type,
    number_cells,
    with_cells,
)
from attributary.tables.table_source import shown
from attributary.tables.text_form import place
from attributary.types import Arrow, Bools, Cells, Floats

GAPS = " \u00a0\u2009\u202f'’"  # what may stand between thousands besides a point or a comma
OTHER = {".": ",", ",": "."}
WORDS = {".": "decimal point", ",": "decimal comma"}
BELOW = re.compile(r"n?\s*(<=?|≤)\s*(\d{1,9})")
BETWEEN = re.compile(r"(\d{1,9})\s*(?:\.\.|-|–)\s*(\d{1,9})")
EMPTY = ("unmeasured", "zero")


class FigureColumn(NamedTuple):
    """A table and its column of figures."""

    table: Arrow  # Arrow; the column as numbers, where it was written in another form than ours
    figures: Floats  # nan where a cell is empty, the middle of its bound where it was suppressed
    extra: Floats  # what is added to the variance: by a bound, or inf where nothing was measured
    notes: list[str]  # what was assumed, in words


def figure_column(
    table: Arrow, name: str, path: str, texts: Collection[str] = (), empty: str | None = None, sign: str | None = None
) -> FigureColumn:
    """The figures of a column, with what is known of its suppressed cells: those stated, or else texts such as <5."""
    cells, notes = column(table, name, path), list[str]()
    middle, extra = np.full(len(cells), np.nan), np.zeros(len(cells))
    is_text = is_text_type(cells.type)
    stated = [parse_suppression(text) for text in texts]
    searched = is_text and (stated or not _are_numbers(cells))
    trimmed = pc.fill_null(pc.utf8_trim_whitespace(cells), "") if searched else cells.slice(0, 0)
    if searched and not stated:
        odd = trimmed.filter(pc.match_substring_regex(trimmed, f"^{BELOW.pattern}$"))
        stated = [parse_suppression(text) for text in odd.unique().to_pylist()]
    for each in stated:
        here = pc.equal(trimmed, each.text).to_numpy() if is_text else np.zeros(1, bool)
        if not here.any():
            raise InputError(f"{shown(path)}: no cell of {name} is {each.text!r}; leave `suppressed` out")
        cells = pc.if_else(here, None, cells)
        middle[here], extra[here] = each.middle, each.variance
        notes.append(f"column {name}: {each} ({_cells(here)})")
    blank = (pc.equal(trimmed, "") if searched else pc.is_null(cells, nan_is_null=not is_text)).to_numpy()
    if empty not in (None, *EMPTY):
        raise InputError(f"empty cells are {' or '.join(EMPTY)}; got {empty[:40]!r}")
    if empty is not None and blank.any():
        middle[blank], extra[blank] = (np.nan, np.inf) if empty == "unmeasured" else (0.0, 0.0)
        notes.append(f"column {name}: empty is {'not measured' if empty == 'unmeasured' else '0'} ({_cells(blank)})")
    plain, note = plain_numbers(with_cells(table, name, cells) if stated else table, name, path, sign)
    try:
        figures = floats(plain, name, path)
    except InputError as error:
        remedy = "; if it stands for a figure that was suppressed, say so with `suppressed`"
        raise InputError(f"{error}{remedy if 'is not a number' in str(error) else ''}") from error
    figures = np.where(np.isnan(middle), figures, middle)
    return FigureColumn(plain if note else table, figures, extra, [*notes, note])


def _cells(which: Bools) -> str:
    number = int(which.sum())
    return f"{number:,} cell{'s' if number > 1 else ''}"


class Suppression(NamedTuple):
    """Cells of one text; without bounds, they were not measured."""

    text: str
    low: float | None = None
    high: float | None = None

    @property
    def middle(self) -> float:
        return np.nan if self.low is None or self.high is None else (self.low + self.high) / 2

    @property
    def variance(self) -> float:
        """What the bound adds to the variance of the noise."""
        return np.inf if self.low is None or self.high is None else ((self.high - self.low + 1) ** 2 - 1) / 12

    def __str__(self) -> str:
        return f"{self.text} is " + ("not measured" if self.low is None else f"{self.low:g} to {self.high:g}")


def parse_suppression(text: str) -> Suppression:
    """A text as a user states it: <5 is 0 to 4, 1-4 is what it says, and any other can state its bounds: *=1..4."""
    cell, equals, bounds = text.rpartition("=")
    between = BETWEEN.fullmatch(bounds.strip()) if equals and cell.strip(" <") else None
    if between is None:
        cell, between = text, BETWEEN.fullmatch(text.strip())
    cell = cell.strip()
    if not cell:
        raise InputError(
            "a suppressed cell has a text, as in `suppressed='<5'`; for empty cells give `empty=unmeasured`"
        )
    below = BELOW.fullmatch(cell)
    if not between and not below:
        return Suppression(cell)
    low, high = map(float, between.groups()) if between else (0.0, float(below[2]) - (below[1] == "<") if below else 0)
    if low > high:
        raise InputError(f"a bound goes from low to high, and a count is not below 0; got {text[:40]!r}")
    return Suppression(cell, low, high)


def plain_numbers(
    table: Arrow, name: str, path: str, decimal: str | None = None, likely: str | None = None
) -> tuple[Any, str]:
    """The table with this column as numbers if it is text of another form than ours, and a note of what was assumed.

    The form is the one that all cells fit. Where two do, as for 1,234 or 10.307 alone, it is that with the
    sign that is `likely`, as other columns have it; if there is none, an InputError asks for `decimal`.
    """
    if decimal is not None and decimal not in WORDS:
        raise InputError(f"the decimal sign is . or ,; got {decimal[:SHOWN]!r}")
    cells = column(table, name, path)
    if not is_text_type(cells.type):
        return table, ""
    both = decimal is None and _fits_both(cells)
    if decimal is None and not both:
        with suppress(pa.ArrowInvalid):
            number_cells(cells)
            return table, ""
    sign = decimal or (likely if both else _decimal(cells))
    if sign is None:
        row = _first(cells, "[.,]")
        text = cells[row].as_py().strip()[:SHOWN]
        whole, part = (text.replace(each, way) for each, way in ((".", ""), (",", ".")))
        raise InputError(
            f"{place(path, row)}: {cell_in_words(table, name, row)} in column {name!r} may be "
            f"{whole.replace(',', '')} or {part}: all signs there have three digits after them; say which with "
            "`decimal=.` or `decimal=,`"
        )
    unfit = int(pc.index(_fits(cells, sign), False).as_py())
    if unfit >= 0 and decimal is None:
        return table, ""  # some cell is not a number in any form, which reading it will tell
    if unfit >= 0:
        words = cell_in_words(table, name, unfit)
        raise InputError(f"{place(path, unfit)}: {words} in column {name!r} is not a number with a {WORDS[sign]}")
    row = _first(cells, f"[.,−{GAPS}]")
    if row < 0:
        return table, ""
    made = _numbers(cells, sign)
    example = f"{cells[row].as_py().strip()[:SHOWN]} is read as {made[row].as_py():.12g}"
    return with_cells(table, name, made), f"column {name}: {example}"


def is_numeric(cells: Cells, suppressed: Collection[str] = ()) -> bool:
    """Whether cells are numbers, empty, or bounds such as <5, and some of them numbers."""
    if not is_text_type(cells.type):
        numbers = pa.types.is_integer(cells.type) or pa.types.is_floating(cells.type) or pa.types.is_decimal(cells.type)
        return bool(numbers and not pc.all(pc.is_null(cells, nan_is_null=True)).as_py())
    with suppress(pa.ArrowInvalid):  # as most columns of figures can be
        return bool(number_cells(cells).null_count < len(cells))
    some = False
    for part in (cells.slice(0, FIRST), cells):  # the first cells nearly always tell
        trimmed = pc.fill_null(pc.utf8_trim_whitespace(part), "")
        texts = pa.array([parse_suppression(text).text for text in suppressed], trimmed.type)
        bound = pc.or_(pc.match_substring_regex(trimmed, f"^{BELOW.pattern}$"), pc.is_in(trimmed, texts))
        some = pc.any(pc.and_not(pc.not_equal(trimmed, ""), bound)).as_py()
        if not any(pc.all(pc.or_(_fits(trimmed, sign), bound)).as_py() for sign in WORDS):
            return False
    return bool(some)


def decimal_sign(cells: Cells) -> str | None:
    """The decimal sign that the texts of a column show, some of which fit no other; None where none do."""
    if not is_text_type(cells.type):
        return None
    plain = _are_numbers(cells)
    if not plain:
        cells = pc.if_else(pc.match_substring_regex(cells, rf"^\s*{BELOW.pattern}\s*$"), None, cells)
    if _fits_both(cells) or _first(cells, "[.,]") < 0:
        return None
    return "." if plain else _decimal(cells)


def point_of_noise(cells: Cells) -> str | None:
    """A decimal point where a column of noise has no comma: a standard deviation of 1.414 is not in thousands."""
    return "." if is_text_type(cells.type) and _first(cells, ",") < 0 else None


def _are_numbers(cells: Cells) -> bool:
    """Whether all texts are numbers with a decimal point and nothing between thousands, or missing."""
    with suppress(pa.ArrowInvalid):
        return cells.cast(pa.float64()) is not None
    return False


def _fits_both(cells: Cells) -> bool:
    """Whether the signs in a column may be decimal or between thousands: all have three digits after them."""
    for part in (cells.slice(0, FIRST), cells):  # the first cells nearly always tell
        if _first(part, "[0-9]") >= 0 and not all(pc.all(_fits(part, sign)).as_py() for sign in WORDS):
            return False
    return _first(cells, "[.,]") >= 0


def _decimal(cells: Cells) -> str:
    """The decimal sign that all cells fit; a point where none do, or where both do and it does not matter."""
    return next((sign for sign in WORDS if pc.all(_fits(cells, sign)).as_py()), ".")


def _fits(cells: Cells, sign: str) -> Cells:
    """Which cells are empty or numbers with this decimal sign, their thousands with one kind of gap or none."""
    grouped = "|".join(rf"[1-9][0-9]{{0,2}}(?:[{gap}][0-9]{{3}})+" for gap in (*GAPS, OTHER[sign]))
    figure = rf"[-+−]?(?:(?:[0-9]+|{grouped})(?:[{sign}][0-9]*)?|[{sign}][0-9]+)(?:[eE][-+]?[0-9]+)?"
    return pc.match_substring_regex(pc.utf8_trim_whitespace(cells), f"^(?:{figure}|[-+]?inf)?$")


def _numbers(cells: Cells, sign: str) -> Cells:
    joined = pc.replace_substring_regex(pc.utf8_trim_whitespace(cells), f"[{OTHER[sign]}{GAPS}]", "")
    signed = pc.replace_substring(pc.replace_substring(joined, sign, "."), "−", "-")
    return number_cells(signed)


def _first(cells: Cells, pattern: str) -> int:
    """The first row whose text holds this; -1 if none does."""
    for part in (cells.slice(0, FIRST), cells):  # the first cells nearly always tell
        row = int(pc.index(pc.match_substring_regex(pc.utf8_trim_whitespace(part), pattern), True).as_py())
        if row >= 0:
            break
    return row
