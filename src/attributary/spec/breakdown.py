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

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, Field

from attributary.errors import InputError
from attributary.spec.measure import AUTO, COUNT
from attributary.spec.mistakes import Listed, Mistake, Section, tables_in, titled
from attributary.spec.terms import Terms
from attributary.tables.table_columns import arrow_table
from attributary.tree import Tree
from attributary.tree.paths import codes, depths, read_paths, text_labels
from attributary.tree.tree import level_order
from attributary.types import Arrow, Cells, Record

BREAKDOWN = "breakdown"  # the column that tells breakdowns apart
BETWEEN = " > "


class AskedBreakdown(Section):
    """The attributes of one tree, top to bottom, and how much its errors weigh."""

    attributes: Listed[str] = Field(
        min_length=1, description='a list of names of attributes, top to bottom, as in ["campaign", "day"]'
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
    others = {key: value for key, value in given.items() if key != "breakdown"}
    return others | {"attribute": [names[name] for name in wanted]}


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
            rule = f"{lower!r} is known to the impression but stands below {upper!r}, which is not: move it up"
            yield Mistake(here, f"has known attributes before unknown ones; {rule}")
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
        rule = "write one histogram per conversion, whose schemes share its credits among the levels of one tree"
        remedy = "keep one breakdown, or make a spec for each with a part of the budget"
        yield Mistake("breakdown", f"clients of the {terms.title} {rule}: {remedy}")
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


# The tree that is queried, from the paths that occur and the domains of what is unknown.

LARGEST = 2**31  # nodes of a tree


def queried(table: Arrow, names: list[str], domains: dict[str, tuple[str, ...]], total: bool) -> Tree:
    """Known attributes as they occur in the table, the full domain of unknown ones under whatever stands above them."""
    import pyarrow as pa

    known = [name for name in names if name not in domains]
    tops, texts = _known(table, known) if known else ([], [])
    nodes = leaves = len(tops[-1]) if known else 1
    for name, domain in domains.items():
        leaves *= len(domain)
        nodes += leaves
        if nodes >= LARGEST:
            rule = f"a tree holds fewer than 2**31 nodes; the domains down to {name!r} make {nodes:,}"
            raise InputError(f"{rule}: use fewer values")
    parents, labels = [np.array([-1])] if total else list[NDArray[np.int64]](), list[Cells]()
    held, passed = np.zeros(1, np.int64), 0  # which known path each node above has, and how many attributes it has
    for name in names:
        if name in domains:
            each = np.full(len(held), len(domains[name]))
            code = np.tile(np.arange(len(domains[name]), dtype=np.int32), len(held))
            held, text = np.repeat(held, each), pa.DictionaryArray.from_arrays(code, pa.array(domains[name]))
        else:  # the children of each known path, once for each node that has it
            number = np.bincount(tops[passed]) if passed else np.array([len(tops[0])])
            each, first = number[held], (np.cumsum(number) - number)[held]
            held = np.repeat(first - (np.cumsum(each) - each), each) + np.arange(each.sum())
            text, passed = texts[passed].take(pa.array(held)), passed + 1
        above = np.repeat(np.arange(len(each)), each)
        parents.append(above if parents else np.full(len(above), -1))
        labels.append(text)
    start = np.concatenate([[0], np.cumsum([len(level) for level in parents])])
    parent = np.concatenate([level + start[i - 1] if i else level for i, level in enumerate(parents)])
    layout = level_order(parent)
    return Tree(parent.astype(np.int32), layout.first, layout.offsets, None, tuple(names), tuple(labels), total)


def occurring(table: Arrow, name: str) -> list[str]:
    """The labels of a column; those of conversions, whose impressions have none there."""
    if table is None or name not in arrow_table(table).column_names:
        raise InputError(f"{name!r} takes the values that occur, and the table has no column {name!r}; give a domain")
    labels = text_labels(arrow_table(table), name).dictionary_decode().unique().to_pylist()
    if not any(labels):
        raise InputError(f"{name!r} takes the values that occur, and none does; give a domain")
    return [label for label in labels if label]


def _known(table: Arrow, known: list[str]) -> tuple[list[NDArray[np.int64]], list[Cells]]:
    """The parents of each level, counted within the level above, and its labels."""
    if table is None:
        raise InputError(f"the tree needs a table of the known attributes, {', '.join(known)}, as they occur; got none")
    paths = read_paths(_distinct(arrow_table(table), known), known, fill=True)
    layout = level_order(paths.parent)
    tree = Tree(paths.parent.astype(np.int32), layout.first, layout.offsets, None, tuple(known), paths.labels)
    short = tree.is_leaf & (tree.level < len(known) - 1)  # a path ends above the last known attribute
    if short.any():
        node = int(np.argmax(short))
        rule = f"{tree.name(node)} has no {known[int(tree.level[node]) + 1]!r} in any row"
        raise InputError(f"{rule}; give a missing value a label, as in 'none'")
    parents = np.split(paths.parent, layout.offsets[1:-1])
    return [level - layout.offsets[i - 1] if i else level for i, level in enumerate(parents)], list(paths.labels)


def _distinct(table: Arrow, known: list[str]) -> Arrow:
    """Every path once, in order of appearance, as text; rows without any label, such as a total's, are passed over."""
    import pyarrow as pa

    if table.num_rows == 0:
        raise InputError("the table of known attributes is empty; give the paths that will be queried")
    columns = [text_labels(table, name) for name in known]
    code = {name: codes(column) for name, column in zip(known, columns, strict=True)}
    depths(list(code.values()), known)  # refuses gaps
    keys = pa.table(code).filter(pa.array(code[known[0]] >= 0))
    if keys.num_rows == 0:
        raise InputError(f"no row has a label in column {known[0]!r}; give the paths that will be queried")
    keys = keys.group_by(known, use_threads=False).aggregate([])  # threads would shuffle them
    numbers = {name: keys.column(name).to_numpy().astype(np.int32) for name in known}
    cells = {}
    for name, column in zip(known, columns, strict=True):
        place = pa.array(numbers[name], mask=numbers[name] < 0)
        cells[name] = pa.DictionaryArray.from_arrays(place, column.dictionary)
    return pa.table(cells)
