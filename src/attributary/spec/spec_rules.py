"""spec_rules: what is wrong between the keys of a spec, each of which may be right for itself."""

from collections.abc import Iterator
from difflib import get_close_matches
from typing import Any

from attributary.noise import MODELS, page_of
from attributary.spec.attribute import TAKEN, Attribute
from attributary.spec.measure import REPORTS, wrong_measures
from attributary.spec.mistakes import Mistake
from attributary.spec.terms import terms_of, unknown_api

MOST = 100  # attributes, or measures


def between(given: dict[str, Any]) -> Iterator[Mistake]:
    """What is wrong between the keys of a spec, whatever else is wrong with them."""
    attributes = given.get("attribute", given.get("attributes"))
    for key, listed in (("attribute", attributes), ("measure", given.get("measure", given.get("measures")))):
        if isinstance(listed, list | tuple) and len(listed) > MOST:
            yield Mistake(key, f"there are at most {MOST}; got {len(listed):,}: leave some out")
            return
    fields = [_fields(a) for a in attributes] if isinstance(attributes, list | tuple) else []
    names = [field.get("name") for field in fields]
    unknown: Any = None
    for i, field in enumerate(fields):
        name = field.get("name")
        if name is not None and name in names[:i]:
            rule = f"attributes are named once each; {name!r} is the name of attribute[{names.index(name) + 1}] too"
            yield Mistake(("attribute", i, "name"), rule)
        if field.get("unknown") is True:
            unknown = name if unknown is None else unknown
        elif unknown is not None:
            yield Mistake(
                ("attribute", i),
                f"known attributes come before unknown ones; {name!r} is known to the impression but stands below "
                f"{unknown!r}, which is not: move it up, or give it unknown = true and a domain",
            )
    yield from _wrong_split(given.get("split_by"), names)
    yield from unknown_api(given)
    terms = terms_of(given)
    epsilon, l1 = given.get("epsilon"), given.get("l1", terms.l1)
    largest = terms.largest_epsilon
    if isinstance(epsilon, int | float) and largest < epsilon < float("inf") and _on_sums(given):
        yield Mistake(
            "epsilon",
            f'{terms.answer} takes at most {largest:g}; got {epsilon:g}: lower it, or plan with noise = "unit"',
        )
    levels = len(fields) + (given.get("total") is True)
    measures = given.get("measure", given.get("measures"))
    limit = given.get("conversions_per_impression", 1)
    if isinstance(limit, int) and terms.conversions < limit <= REPORTS:
        rule = f"clients of the {terms.title} report at most {terms.conversions}; got {limit}: lower it"
        yield Mistake("conversions_per_impression", rule)
    yield from wrong_measures(measures, names, TAKEN, _on_sums(given), limit != 1)
    asked = len(measures) if isinstance(measures, list | tuple) and measures else 1
    times = limit if isinstance(limit, int) and limit > 0 else 1
    if isinstance(l1, int) and l1 >= levels and l1 // times < levels * asked:
        yield Mistake(
            "l1",
            f"every level needs a contribution of at least 1; got {l1} for {levels} levels, {asked} measures and "
            f"{times} conversions: raise it",
        )
    if isinstance(l1, int) and 1 <= l1 < levels:
        yield Mistake("l1", f"every level needs a contribution of at least 1; got {l1} for {levels} levels: raise it")


def _fields(attribute: Any) -> dict[str, Any]:
    if isinstance(attribute, Attribute):
        return {"name": attribute.name, "unknown": attribute.unknown}
    return attribute if isinstance(attribute, dict) else {}


def _wrong_split(split_by: Any, names: list[Any]) -> Iterator[Mistake]:
    if not isinstance(split_by, str) or not names or split_by == names[0]:
        return
    remedy = "or leave split_by out for one split"
    if split_by in names:
        yield Mistake(
            "split_by",
            f"names the first attribute, {names[0]!r}, whose values are the roots; got {split_by!r}: "
            f"move it to the top, {remedy}",
        )
    else:
        close = get_close_matches(split_by, [name for name in names if isinstance(name, str)], 1)
        hint = f"did you mean {close[0]!r}? " if close else ""
        yield Mistake(
            "split_by",
            f"names the first attribute; there is no attribute {split_by!r}: {hint}give {names[0]!r}, {remedy}",
        )


def known_noise(name: Any) -> str:
    """The name of a noise model; a pydantic validator."""
    if not isinstance(name, str):
        raise ValueError(f"a noise model has a name; got {type(name).__name__}")
    return page_of(name).name


def _on_sums(given: dict[str, Any]) -> bool:
    """Whether noise goes to sums of contributions, as far as can be told of a spec that may have mistakes."""
    name = given.get("noise", "api")
    return isinstance(name, str) and name in MODELS and MODELS[name].on_sums
