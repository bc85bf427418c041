"""Suppressed cells: figures that a table states as a bound, <5, and what they say of the count.

A cell that lies between low and high is a measurement of the middle, with the variance of a uniform choice among the
n = high − low + 1 whole numbers, (n² − 1)/12, besides that of the row's noise. That is what is known of a count whose
noisy figure was suppressed, and less than what is known of a count that was suppressed itself.
"""

import re
from collections.abc import Collection
from typing import Any, NamedTuple

import numpy as np

from attributary.errors import InputError
from attributary.tables import shown
from attributary.tables.table_columns import column, is_text_type
from attributary.types import Bools, Floats

BELOW = re.compile(r"(<=?|≤)\s*(\d{1,9})")
BETWEEN = re.compile(r"(\d{1,9})\s*(?:\.\.|-|–)\s*(\d{1,9})")
EMPTY = ("unmeasured", "zero")


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
            "a suppressed cell has a text, as in --suppressed '<5'; for empty cells give --empty unmeasured"
        )
    below = BELOW.fullmatch(cell)
    if not between and not below:
        return Suppression(cell)
    low, high = map(float, between.groups()) if between else (0.0, float(below[2]) - (below[1] == "<") if below else 0)
    if low > high:
        raise InputError(f"a bound goes from low to high, and a count is not below 0; got {text[:40]!r}")
    return Suppression(cell, low, high)


class KnownCells(NamedTuple):
    """A column without its suppressed and empty cells, and what is known of these."""

    cells: Any  # Arrow; null where a figure was suppressed
    middle: Floats  # nan where there is a figure, or nothing is known
    variance: Floats  # to add; inf where nothing was measured, 0 where there is a figure
    notes: list[str]


def without_suppressed(table: Any, name: str, path: str, texts: Collection[str], empty: str | None) -> KnownCells:
    """A column of figures with what is known of its suppressed cells: those given, or else texts such as <5."""
    import pyarrow as pa
    import pyarrow.compute as pc

    cells, rows = column(table, name, path), table.num_rows
    middle, variance, notes = np.full(rows, np.nan), np.zeros(rows), list[str]()
    stated = [parse_suppression(text) for text in texts]
    is_text = is_text_type(cells.type)
    trimmed = pc.fill_null(pc.utf8_trim_whitespace(cells), "") if is_text else pa.array([""] * rows)
    if not stated:
        odd = trimmed.filter(pc.match_substring_regex(trimmed, f"^{BELOW.pattern}$"))
        stated = [parse_suppression(text) for text in odd.unique().to_pylist()]
    for each in stated:
        here = pc.equal(trimmed, each.text)
        if not pc.any(here).as_py():
            raise InputError(f"{shown(path)}: no cell of {name} is {each.text!r}; leave --suppressed out")
        cells = pc.if_else(here, None, cells)
        here_rows = here.to_numpy()
        middle[here_rows], variance[here_rows] = each.middle, each.variance
        notes.append(f"column {name}: {each} ({_cells(here_rows)})")
    blank = (pc.equal(trimmed, "") if is_text else pc.is_null(cells, nan_is_null=True)).to_numpy()
    if empty is not None and empty not in EMPTY:
        raise InputError(f"empty cells are {' or '.join(EMPTY)}; got {empty[:40]!r}")
    if empty is not None and blank.any():
        middle[blank], variance[blank] = (np.nan, np.inf) if empty == "unmeasured" else (0.0, 0.0)
        notes.append(f"column {name}: empty is {'not measured' if empty == 'unmeasured' else '0'} ({_cells(blank)})")
    return KnownCells(cells, middle, variance, notes)


def _cells(which: Bools) -> str:
    number = int(which.sum())
    return f"{number:,} cell{'s' if number > 1 else ''}"
