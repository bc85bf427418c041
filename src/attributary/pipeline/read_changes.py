"""read_changes: what is asked otherwise, as users write it: epsilon=1,2,4 or "period=28d; location=country"."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import reduce
from itertools import product
from typing import Any

from attributary.errors import InputError
from attributary.plan.variants import Change, Coarser
from attributary.spec import Spec
from attributary.spec.attribute import A_SPAN, span
from attributary.spec.measure import NONE
from attributary.spec.mistakes import Mistakes
from attributary.tables import read_table, shown
from attributary.tables.table_columns import column
from attributary.tree.paths import codes, text_labels

RULE = (
    "takes budgets (epsilon=1,2,4), guards (guard=1.1,2,none), periods (period=7d,28d), a coarser attribute "
    "(location=country, a column of the "
    "prior, or location=map.csv:country, of a table) or none (location=), settings of the API ({settings}) or another "
    "(api=ara); what goes together is joined by ;"
)


def read_changes(texts: Sequence[str], spec: Spec, prior_path: str | None, period: str | None = None) -> list[Change]:
    """The changes in some texts: each value between commas is a variant, and parts between ; are made together.

    A coarser attribute is a column of the prior, or of a table that has it beside the finer one. `period` is the time
    that the prior covers, as in 14d.
    """
    changes = []
    for text in texts:
        parts = [list(_changes(part, spec, prior_path, period)) for part in text.split(";")]
        changes += [reduce(Change.also, together) for together in product(*parts)]
    return changes


def _changes(text: str, spec: Spec, prior_path: str | None, period: str | None) -> Iterator[Change]:
    name, equals, listed = (part.strip() for part in text.partition("="))
    values = [value.strip() for value in listed.split(",")]
    names = [attribute.name for attribute in spec.attributes]
    settings = [key for key in spec.terms.section.model_fields if key != "kind"]
    keys = ("epsilon", "guard", "period", "api", *settings)
    if not equals or (name not in (*keys, *names)) or (name not in names and not all(values)):
        rule = RULE.format(settings=", ".join(settings) or "none here")
        raise InputError(f"`what_if` {rule}; got {text.strip()}, and the attributes are {', '.join(names)}")
    for value in values:
        words = f"{name}={value}" if value else f"no {name}"
        if name in names:
            yield Change(words, coarser={name: _coarser(name, value, prior_path) if value else None})
        elif name in ("epsilon", "guard"):
            yield Change(words, **{name: _key(name, value, spec)})
        elif name in ("api", *settings):
            yield Change(words, api=_settings("kind" if name == "api" else name, value, spec))
        else:
            if period is None:
                rule = "`what_if` period=… needs to know how long the prior's period was"
                raise InputError(f"{rule}; state it, as in `prior_period=14d`")
            yield Change(words, times=_seconds(value, "`what_if` period=") / _seconds(period, "`prior_period` "))


def _key(name: str, text: str, spec: Spec) -> Any:
    """A value of a key of the spec, which refuses what it cannot be."""
    try:
        value = text if (name, text) == ("guard", NONE) else float(text)
        _ = spec.at(value) if name == "epsilon" and isinstance(value, float) else spec.with_keys(**{name: value})
    except Mistakes as mistakes:
        raise InputError(f"`what_if` {mistakes.lines[0]}") from None
    except ValueError:
        example = "budgets as numbers, as in epsilon=1,2,4,8" if name == "epsilon" else "guards, as in guard=1.1,2,none"
        raise InputError(f"`what_if` takes {example}; got {text}") from None
    return value


def _settings(name: str, text: str, spec: Spec) -> dict[str, object]:
    """One setting of the API, of its type, which refuses what it cannot be."""
    value: int | float | str = text
    with suppress(ValueError):
        value = float(text)
        value = int(text)
    try:
        spec.with_api({name: value})
    except Mistakes as mistakes:
        raise InputError(f"`what_if` {mistakes.lines[0]}") from None
    return {name: value}


def _seconds(text: str, what: str) -> float:
    try:
        seconds = span(text).seconds
    except ValueError:
        seconds = 0
    if not seconds > 0:
        raise InputError(f"{what}{text}: {A_SPAN}, above 0, is needed")
    return seconds


def _coarser(name: str, value: str, prior_path: str | None) -> Coarser:
    """The attribute that a column holds, by the labels of the finer one: of the prior, or of FILE:column."""
    path, _, new = value.rpartition(":")
    path = path or prior_path or ""
    if not path:
        raise InputError(f"`what_if` {name}={new} names a column of the prior; give one, or a table: {name}=FILE:{new}")
    table = read_table(path)
    for each in (name, new):
        column(table, each, path)  # or an error that tells what there is
    fine, coarse = text_labels(table, name), text_labels(table, new)
    pairs = sorted(set(zip(codes(fine).tolist(), codes(coarse).tolist(), strict=True)))
    finer, coarser = fine.dictionary.to_pylist(), coarse.dictionary.to_pylist()
    labels: dict[str, str] = {}
    for i, j in pairs:
        if min(i, j) >= 0 and labels.setdefault(finer[i], coarser[j]) != coarser[j]:
            rule = f"a {name} is in one {new}; {finer[i]!r} is in {labels[finer[i]]!r} and in {coarser[j]!r}"
            raise InputError(f"{shown(path)}: {rule}: tell them apart by their labels")
    return Coarser(new, labels)
