"""labelled: the values of an attribute as the labels of a tree."""

from typing import Any, NamedTuple

import numpy as np

from attributary.errors import InputError
from attributary.logs.missing import MISSING, missing_cells
from attributary.spec import Attribute, Logs
from attributary.tree.labels import codes, refuse_unprintable, text_labels
from attributary.types import Ints

BELOW, ABOVE = "below all buckets", "above all buckets"


class Labelled(NamedTuple):
    labels: tuple[str, ...]
    code: Ints  # which of them each row has


def labelled(table: Any, column: str, attribute: Attribute, logs: Logs) -> Labelled:
    """A column's values as text, in order; what is missing has the label `missing`."""
    coded = text_labels(table, column, stars=True)
    refuse_unprintable(coded.dictionary, attribute.name)
    code, found = codes(coded), coded.dictionary.to_pylist()
    absent = {"", *missing_cells(logs)}
    labels = [None if text.strip() in absent else _whole(text, attribute) for text in found]
    some_missing = None in labels or bool((code < 0).any())
    if any(label is not None and label.strip() == "*" for label in labels):
        raise InputError(
            f"attribute {attribute.name!r} has the value '*', which stands for all values in our tables; "
            'rename it in the log, or let it mean a missing value with missing = ["*"]'
        )
    if MISSING in labels and some_missing and MISSING not in absent:
        raise InputError(
            f"attribute {attribute.name!r} has cells without a value, and others that say {MISSING!r}, as the "
            f'former are called in a tree; count them as one with missing = ["{MISSING}"], or rename the latter'
        )
    names = [MISSING if label is None else label for label in (*labels, None)]  # code -1 is the last
    ordered = sorted({*names[:-1], *([MISSING] if some_missing else [])})
    place = {name: i for i, name in enumerate(ordered)}
    return Labelled(tuple(ordered), np.array([place.get(name, -1) for name in names], np.int64)[code])


def bucketed(table: Any, column: str, attribute: Attribute) -> Labelled:
    """A column of bucket numbers as labels: those of the buckets, then those that are outside of all of them."""
    import pyarrow as pa

    buckets = attribute.buckets or 0
    labels = (*attribute.labels[:buckets], ABOVE, MISSING, BELOW)  # bucket -1 is the last
    number = table.column(column).cast(pa.int64()).fill_null(buckets + 1).to_numpy()
    return Labelled(labels, np.where(number < 0, buckets + 2, number))


def _whole(text: str, attribute: Attribute) -> str:
    """A value of a range as its whole number: 07 and 7.0 are 7."""
    if attribute.range is None:
        return text
    try:
        return f"{float(text):.0f}" if float(text).is_integer() else text
    except ValueError:
        return text
