"""domain: where the values of an unknown attribute stand in its domain, and which do not."""

from typing import Any

import numpy as np

from attributary.errors import InputError
from attributary.logs.counts import Outside
from attributary.logs.labelled import bucketed, labelled
from attributary.spec import Attribute, Logs
from attributary.types import Ints

OTHER = "other"
SHOWN = 5  # values outside of a domain


def placed(table: Any, column: str, attribute: Attribute, logs: Logs, conversions: Ints) -> tuple[Ints, Outside | None]:
    """The place in the domain of each row's value, -1 for none, and the conversions whose value is outside of it."""
    if attribute.bucket is None:
        labels, code = labelled(table, column, attribute, logs)
    else:
        labels, code = bucketed(table, column, attribute)
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
    return place[code], Outside(attribute.name, int(each.sum()), shown, kept)


def refuse_no_other(attributes: tuple[Attribute, ...], logs: Logs) -> None:
    """Values can count as `other` only where a domain has that value."""
    having = [attribute.name for attribute in attributes if OTHER in attribute.labels]
    for name in logs.other:
        if name not in having:
            raise InputError(
                f"logs.other names unknown attributes whose domain has the value {OTHER!r}; {name!r} is none of them: "
                f"add {OTHER!r} to its domain, or take it out of other"
            )
