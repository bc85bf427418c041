"""breakdown: one of several trees that count the same conversions under one budget.

[[breakdown]]
attributes = ["campaign", "location", "day"]     # top to bottom

[[breakdown]]
attributes = ["device"]
weight = 2             # how much its errors weigh beside the others'
name = "devices"       # in tables and on the page; else the attributes, as in "campaign > location > day"
"""

from collections.abc import Iterator
from itertools import combinations
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from attributary.spec.measure import AUTO, COUNT
from attributary.spec.mistakes import Mistake, Section, tables_in, titled
from attributary.spec.terms import Terms
from attributary.types import Record

BREAKDOWN = "breakdown"  # the column that tells breakdowns apart
BETWEEN = " > "


class AskedBreakdown(Section):
    """The attributes of one tree, top to bottom, and how much its errors weigh."""

    attributes: tuple[str, ...] = Field(
        strict=False,
        min_length=1,
        description='a list of names of attributes, top to bottom, as in ["campaign", "day"]',
    )
    weight: float = Field(
        default=1.0,
        ge=0,
        allow_inf_nan=False,
        description="how much its errors weigh beside other breakdowns'; 0 if it is to help them only",
    )
    name: Annotated[str, AfterValidator(titled)] | None = Field(
        default=None, description="what tables and pages call it; without one, its attributes"
    )

    @property
    def called(self) -> str:
        return self.name or BETWEEN.join(self.attributes)


def in_order_of_one(given: Record) -> Record:
    """The keys of a spec; those of one with a single breakdown as if its attributes stood in that order."""
    listed, attributes = tables_in(given, "breakdown"), tables_in(given, "attribute")
    if len(listed) != 1 or not attributes or not listed[0].keys() <= AskedBreakdown.model_fields.keys():
        return given
    names = {str(each.get("name")): each for each in attributes}
    wanted = [str(name) for name in _attributes_of(listed[0])]
    if sorted(wanted) != sorted(names) or len(names) < len(attributes):
        return given
    return {key: value for key, value in given.items() if key != "breakdown"} | {
        "attribute": [names[name] for name in wanted]
    }


def wrong_breakdowns(given: Record, terms: Terms) -> Iterator[Mistake]:
    """What is wrong between breakdowns, and between them and the rest of a spec."""
    listed, attributes = tables_in(given, "breakdown"), tables_in(given, "attribute")
    if not listed:
        return
    unknown = {each.get("name"): each.get("unknown") is True for each in attributes}
    asked = [_attributes_of(each) for each in listed]
    for i, names in enumerate(asked):
        here = ("breakdown", i, "attributes")
        if strange := [name for name in names if name not in unknown]:
            yield Mistake(here, f"names attributes of the spec; there is no [[attribute]] {strange[0]!r}: add it")
        if twice := [name for k, name in enumerate(names) if name in names[:k]]:
            yield Mistake(here, f"names an attribute once; {twice[0]!r} is there twice: leave one out")
        below = [(a, b) for a, b in combinations(names, 2) if unknown.get(a) and unknown.get(b) is False]
        if below:
            upper, lower = below[0]
            yield Mistake(
                here,
                f"has known attributes before unknown ones; {lower!r} is known to the impression but stands below "
                f"{upper!r}, which is not: move it up",
            )
    called = [each.get("name") or BETWEEN.join(map(str, names)) for each, names in zip(listed, asked, strict=True)]
    for i, name in enumerate(called):
        if name and name in called[:i]:
            rule = f"breakdowns differ; {name!r} is the name of breakdown[{called.index(name) + 1}] too: leave one out"
            yield Mistake(("breakdown", i), rule)
    if all(each.get("weight", 1.0) == 0 for each in listed):
        yield Mistake("breakdown", "have weights, of which one is above 0; all are 0")
    for i, each in enumerate(attributes):
        if not any(each.get("name") in names for names in asked):
            yield Mistake(("attribute", i), f"is in no breakdown: add {each.get('name')!r} to one, or leave it out")
        if len(listed) > 1 and each.get("name") == BREAKDOWN:
            yield Mistake(("attribute", i, "name"), "is the name of a column that our tables add; rename it")
    if len(listed) == 1:
        return
    if terms.proposals is not None:
        yield Mistake(
            "breakdown",
            f"clients of the {terms.title} write one histogram per conversion, whose schemes share its credits among "
            "the levels of one tree: keep one breakdown, or make a spec for each with a part of the budget",
        )
    split_by = given.get("split_by")
    if isinstance(split_by, str) and split_by not in [names[0] for names in asked if names]:
        yield Mistake("split_by", f"names the first attribute of a breakdown; got {split_by!r}: leave it out")
    automatic = [key for key in ("epsilon", "conversions_per_impression") if given.get(key) == AUTO]
    values = [measure for measure in tables_in(given, "measure") if measure.get("name") != COUNT]
    automatic += [f"clip of measure {each.get('name')!r}" for each in values if each.get("clip") in (None, AUTO)]
    for key in automatic:
        rule = f'several breakdowns count the same conversions: {key} is a number, not "{AUTO}"; give one'
        yield Mistake("measure" if " " in key else key, rule)


def _attributes_of(breakdown: Record) -> tuple[Any, ...]:
    names = breakdown.get("attributes")
    return tuple(names) if isinstance(names, list | tuple) else ()
