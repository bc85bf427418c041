"""numbered: rows that agree in several columns of whole numbers get one number, in the order of the columns."""

from typing import NamedTuple

import numpy as np

from attributary.types import Ints

FITS = 2**62  # into one whole number


class Numbered(NamedTuple):
    of_row: Ints
    first: Ints  # a row of each number


def numbered(columns: list[Ints], rows: int) -> Numbered:
    """The number of each row; without columns all rows are number 0."""
    if not columns or not rows:
        return Numbered(np.zeros(rows, np.int64), np.zeros(0 if columns else 1, np.int64))
    order, cells = _ordered(columns)
    new = np.ones(rows, bool)
    new[1:] = np.any([cell[1:] != cell[:-1] for cell in cells], axis=0)
    of_row = np.empty(rows, np.int64)
    of_row[order] = np.cumsum(new) - 1
    return Numbered(of_row, order[new])


def _ordered(columns: list[Ints]) -> tuple[Ints, list[Ints]]:
    """The order of the rows, and columns in that order: one where all fit into one number, sorted much faster."""
    least = [int(column.min()) for column in columns]
    sizes = [int(column.max()) - low + 1 for column, low in zip(columns, least, strict=True)]
    room = 1
    for size in sizes:
        room *= size
    if room >= FITS:
        order = np.lexsort(columns[::-1])
        return order, [column[order] for column in columns]
    key = np.zeros(len(columns[0]), np.int64)
    for column, low, size in zip(columns, least, sizes, strict=True):
        key = key * size + (column - low)
    order = np.argsort(key)
    return order, [key[order]]
