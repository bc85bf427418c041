"""labels: the values of an attribute in the logs as the labels of a tree, and where they stand in its domain."""

from math import isfinite, prod
from typing import NamedTuple

import numpy as np

from attributary.errors import InputError
from attributary.spec import Attribute, Logs
from attributary.spec.attribute import CALENDARS
from attributary.tree.paths import codes, refuse_unprintable, text_labels
from attributary.types import Arrow, Cells, Ints

MISSING = "missing"
OTHER = "other"
BELOW, ABOVE = "below all buckets", "above all buckets"
SHOWN = 5  # values outside of a domain
OF_PART = 1000  # such values of each part of a forest, so that those of all parts can be told
FITS = 2**62  # into one whole number
CLOSE = 4  # times as many whole numbers as rows
MOST_DIGITS = 17  # of whole numbers that are put in order as such


def missing_cells(logs: Logs) -> tuple[str, ...]:
    """The cells that mean a missing value besides empty ones, as text."""
    cells = (int(cell) if isinstance(cell, float) and cell.is_integer() else cell for cell in logs.missing)
    return tuple(map(str, cells))


class LabelCodes(NamedTuple):
    labels: Cells  # Arrow text
    code: Ints  # which of them each row has

    @property
    def coded(self) -> Cells:
        """Both as one Arrow column."""
        import pyarrow as pa

        return pa.DictionaryArray.from_arrays(pa.array(self.code.astype(np.int32)), self.labels)


def label_codes(table: Arrow, column: str, attribute: Attribute, logs: Logs) -> LabelCodes:
    """A column's values as text, in order; what is missing has the label `missing`."""
    import pyarrow as pa
    import pyarrow.compute as pc

    absent = ["", *missing_cells(logs)]
    if attribute.range is None and column in table.column_names and not any(map(is_number, absent)):
        whole = _whole_codes(table.column(column))
        if whole is not None:
            return whole
    coded = text_labels(table, column, stars=True)
    refuse_unprintable(coded.dictionary, attribute.name)
    labels = coded.dictionary
    bare = pc.utf8_trim_whitespace(labels)
    none = pc.is_in(bare, pa.array(absent))
    if attribute.range is not None:
        labels = pa.array([_range_label(text) for text in labels.to_pylist()], pa.string())
    some_missing = coded.null_count > 0 or bool(pc.any(none).as_py())
    if pc.any(pc.and_not(pc.equal(bare, "*"), none)).as_py():
        remedy = 'rename it in the log, or treat it as missing with missing = ["*"]'
        raise InputError(f"attribute {attribute.name!r} has the value '*', which means all values in tables; {remedy}")
    if MISSING not in absent and some_missing and pc.any(pc.and_not(pc.equal(labels, MISSING), none)).as_py():
        rule = f"attribute {attribute.name!r} has empty cells, labelled {MISSING!r}, and cells that say {MISSING!r}"
        raise InputError(f'{rule}; count them as one with missing = ["{MISSING}"], or rename the value in the log')
    at = np.arange(len(labels))
    if some_missing or attribute.range is not None:  # several may have one label
        named = pc.if_else(none, MISSING, labels)
        named = pa.concat_arrays([named, pa.array([MISSING] * some_missing, pa.string())])  # that of code -1, the last
        coded_names = pc.dictionary_encode(named)
        labels, at = coded_names.dictionary, codes(coded_names)
    order = pc.sort_indices(labels).to_numpy()
    rank = np.empty(len(labels), np.int64)
    rank[order] = np.arange(len(labels))
    return LabelCodes(labels.take(pa.array(order)), rank[at][codes(coded)])


def _whole_codes(cells: Cells) -> LabelCodes | None:
    """The same of whole numbers from 0 on, none missing; None of others, whose order as text is no order of numbers."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not pa.types.is_integer(cells.type) or cells.null_count or not len(cells):
        return None
    least, most = pc.min_max(cells).as_py().values()
    if least < 0 or most >= 10**MOST_DIGITS:
        return None
    number = cells.to_numpy().astype(np.int64, copy=False)
    if most - least >= CLOSE * len(cells):
        code, first = number_rows([_text_order(number)], len(number))
        return LabelCodes(pa.array(number[first]).cast(pa.string()), code)
    place, rank = number - least, np.zeros(most - least + 1, np.int64)
    rank[place] = 1
    number = np.flatnonzero(rank) + least
    number = number[np.argsort(_text_order(number))]
    rank[number - least] = np.arange(len(number))
    return LabelCodes(pa.array(number).cast(pa.string()), rank[place])


def _text_order(number: Ints) -> Ints:
    """Numbers in the order of these numbers as texts: of one first digits, the shortest is first."""
    tens = 10 ** np.arange(MOST_DIGITS + 1)
    digits = np.searchsorted(tens[1:], number, side="right")
    order: Ints = number * tens[digits.max() - digits] * (MOST_DIGITS + 1) + digits
    return order


def bucket_codes(table: Arrow, column: str, attribute: Attribute) -> LabelCodes:
    """A column of buckets' or a calendar's places as labels: theirs, then those that are outside of all of them."""
    import pyarrow as pa

    cells = table.column(column).cast(pa.int64())
    number = cells.fill_null(-1).to_numpy()
    if attribute.unknown or attribute.calendar in CALENDARS:
        inside = attribute.labels
    else:
        inside = tuple(str(place + 1) for place in range(int(number.max(initial=-1)) + 1))
    code = np.where(number < 0, len(inside) + 2, np.minimum(number, len(inside)))
    absent = cells.is_null().to_numpy()
    return LabelCodes(pa.array([*inside, ABOVE, MISSING, BELOW]), np.where(absent, len(inside) + 1, code))


def _range_label(text: str) -> str:
    """A value of a range as its whole number: 07 and 7.0 are 7."""
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
    table: Arrow, column: str, attribute: Attribute, logs: Logs, conversions: Ints, told: int = SHOWN
) -> tuple[Ints, OutsideDomain | None]:
    """The place in the domain of each row's value, -1 for none, and the conversions whose value is outside of it.

    Of such values, the `told` most frequent ones are told.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if attribute.bucket is None and attribute.calendar is None:
        labels, code = label_codes(table, column, attribute, logs)
    else:
        labels, code = bucket_codes(table, column, attribute)
    place = pc.fill_null(pc.index_in(labels, pa.array(attribute.labels)), -1).to_numpy().astype(np.int64)
    each = np.bincount(code, conversions, len(labels)).astype(np.int64) * (place < 0)
    if not each.any():
        return place[code], None
    most = np.argsort(-each, kind="stable")[:told]
    shown = {labels[i].as_py(): int(each[i]) for i in most if each[i]}
    kept = attribute.name in logs.other
    if kept:
        place[place < 0] = attribute.labels.index(OTHER)
    return place[code], OutsideDomain(attribute.name, int(each.sum()), shown, kept)


def refuse_no_other(attributes: tuple[Attribute, ...], logs: Logs) -> None:
    """Values can count as `other` only where a domain has that value."""
    having = [attribute.name for attribute in attributes if not attribute.occurs and OTHER in attribute.labels]
    for name in logs.other:
        if name not in having:
            rule = f"logs.other names unknown attributes whose domain has the value {OTHER!r}; {name!r} is not one"
            raise InputError(f"{rule}: add {OTHER!r} to its domain, or take it out of other")


class RowNumbers(NamedTuple):
    of_row: Ints
    first: Ints  # a row of each number


def number_rows(columns: list[Ints], rows: int) -> RowNumbers:
    """One number for rows that agree in all columns, in the order of the columns; without columns all are number 0."""
    if not columns or not rows:
        return RowNumbers(np.zeros(rows, np.int64), np.zeros(0 if columns else 1, np.int64))
    least = [int(column.min()) for column in columns]
    sizes = [int(column.max()) - low + 1 for column, low in zip(columns, least, strict=True)]
    if prod(sizes) < FITS:  # one number for each row, sorted much faster
        key = np.zeros(rows, np.int64)
        for column, low, size in zip(columns, least, sizes, strict=True):
            key = key * size + (column - low)
        order, columns = np.argsort(key), [key]
    else:
        order = np.lexsort(columns[::-1])
    new = np.ones(rows, bool)
    new[1:] = np.any([cell[1:] != cell[:-1] for cell in (column[order] for column in columns)], axis=0)
    of_row = np.empty(rows, np.int64)
    of_row[order] = np.cumsum(new) - 1
    return RowNumbers(of_row, order[new])


def is_number(cell: str) -> bool:
    try:
        return isfinite(float(cell))
    except ValueError:
        return False
