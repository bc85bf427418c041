"""attribute_labels: the values of an attribute as the labels of a tree, and where they stand in its domain."""

from typing import Any, NamedTuple

import numpy as np

from attributary.errors import InputError
from attributary.spec import Attribute, Logs
from attributary.tree.paths import codes, refuse_unprintable, text_labels
from attributary.types import Ints

MISSING = "missing"
OTHER = "other"
BELOW, ABOVE = "below all buckets", "above all buckets"
SHOWN = 5  # values outside of a domain
FITS = 2**62  # into one whole number


def missing_cells(logs: Logs) -> tuple[str, ...]:
    """The cells that mean a missing value besides empty ones, as text."""
    return tuple(
        str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell) for cell in logs.missing
    )


class LabelCodes(NamedTuple):
    labels: tuple[str, ...]
    code: Ints  # which of them each row has


def label_codes(table: Any, column: str, attribute: Attribute, logs: Logs) -> LabelCodes:
    """A column's values as text, in order; what is missing has the label `missing`."""
    coded = text_labels(table, column, stars=True)
    refuse_unprintable(coded.dictionary, attribute.name)
    code, texts = codes(coded), coded.dictionary.to_pylist()
    absent = {"", *missing_cells(logs)}
    labels = [None if text.strip() in absent else _range_label(text, attribute) for text in texts]
    some_missing = None in labels or bool((code < 0).any())
    if any(label is not None and label.strip() == "*" for label in labels):
        raise InputError(
            f"attribute {attribute.name!r} has the value '*', which means all values in tables; "
            'rename it in the log, or treat it as missing with missing = ["*"]'
        )
    if MISSING in labels and some_missing and MISSING not in absent:
        raise InputError(
            f"attribute {attribute.name!r} has empty cells, labelled {MISSING!r}, and cells that say {MISSING!r}; "
            f'count them as one with missing = ["{MISSING}"], or rename the value in the log'
        )
    names = [MISSING if label is None else label for label in (*labels, None)]  # code -1 is the last
    ordered = sorted({*names[:-1], *([MISSING] if some_missing else [])})
    place = {name: i for i, name in enumerate(ordered)}
    return LabelCodes(tuple(ordered), np.array([place.get(name, -1) for name in names], np.int64)[code])


def bucket_codes(table: Any, column: str, attribute: Attribute) -> LabelCodes:
    """A column of bucket numbers as labels: those of the buckets, then those that are outside of all of them."""
    import pyarrow as pa

    buckets = attribute.buckets or 0
    labels = (*attribute.labels[:buckets], ABOVE, MISSING, BELOW)  # bucket -1 is the last
    number = table.column(column).cast(pa.int64()).fill_null(buckets + 1).to_numpy()
    return LabelCodes(labels, np.where(number < 0, buckets + 2, number))


def _range_label(text: str, attribute: Attribute) -> str:
    """A value of a range as its whole number: 07 and 7.0 are 7."""
    if attribute.range is None:
        return text
    try:
        return f"{float(text):.0f}" if float(text).is_integer() else text
    except ValueError:
        return text


class OutsideDomain(NamedTuple):
    """Conversions whose value of an attribute is not in its domain."""

    attribute: str
    conversions: int
    values: dict[str, int]  # the most frequent ones, and how many conversions have each
    kept: bool  # as the value `other`; if not, they are in no leaf


def domain_places(
    table: Any, column: str, attribute: Attribute, logs: Logs, conversions: Ints
) -> tuple[Ints, OutsideDomain | None]:
    """The place in the domain of each row's value, -1 for none, and the conversions whose value is outside of it."""
    if attribute.bucket is None:
        labels, code = label_codes(table, column, attribute, logs)
    else:
        labels, code = bucket_codes(table, column, attribute)
    domain = {label: i for i, label in enumerate(attribute.labels)}
    place = np.array([domain.get(label, -1) for label in labels], np.int64)
    each = np.bincount(code, conversions, len(labels)).astype(np.int64) * (place < 0)
    if not each.any():
        return place[code], None
    most = np.argsort(-each, kind="stable")[:SHOWN]
    shown = {labels[i]: int(each[i]) for i in most if each[i]}
    kept = attribute.name in logs.other
    if kept:
        place[place < 0] = domain[OTHER]
    return place[code], OutsideDomain(attribute.name, int(each.sum()), shown, kept)


def refuse_no_other(attributes: tuple[Attribute, ...], logs: Logs) -> None:
    """Values can count as `other` only where a domain has that value."""
    having = [attribute.name for attribute in attributes if OTHER in attribute.labels]
    for name in logs.other:
        if name not in having:
            raise InputError(
                f"logs.other names unknown attributes whose domain has the value {OTHER!r}; {name!r} is not one: "
                f"add {OTHER!r} to its domain, or take it out of other"
            )


class RowNumbers(NamedTuple):
    of_row: Ints
    first: Ints  # a row of each number


def number_rows(columns: list[Ints], rows: int) -> RowNumbers:
    """One number for rows that agree in all columns, in the order of the columns; without columns all are number 0."""
    if not columns or not rows:
        return RowNumbers(np.zeros(rows, np.int64), np.zeros(0 if columns else 1, np.int64))
    order, cells = _in_order(columns)
    new = np.ones(rows, bool)
    new[1:] = np.any([cell[1:] != cell[:-1] for cell in cells], axis=0)
    of_row = np.empty(rows, np.int64)
    of_row[order] = np.cumsum(new) - 1
    return RowNumbers(of_row, order[new])


def _in_order(columns: list[Ints]) -> tuple[Ints, list[Ints]]:
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
