"""Allotment: how many of a key's 128 bits each attribute gets."""

from collections.abc import Mapping, Sequence
from math import ceil, log2
from typing import Literal

import numpy as np

from attributary.errors import InputError
from attributary.plan import Plan
from attributary.plan.bits import Bits
from attributary.plan.parts import parts
from attributary.spec import Attribute, Spec

BITS = 128  # of a key
KEYS = 20  # of a source
WIDEST = 64  # bits of one field
FEW = 1024  # values that any known attribute may have
ROOM = 16  # times as many values as the plan knows may occur
SELDOM = 20  # in so many values, two collide in one layout of 2**20
LEAST = 7  # and where bits are scarce, in one of 2**7 among the values that the plan knows


def bits(
    plan: Plan, wanted: Mapping[str, int] | None = None, values: Mapping[str, Sequence[str]] | None = None
) -> tuple[Bits, ...]:
    """The bits of each attribute: as many as its domain or list needs, and for hashed values what makes them unlikely
    to collide: with room for more values than the plan knows, and less of it where bits are scarce.

    `wanted` sets the bits of an attribute; `values` lists all values of a known one, which are then not hashed.
    """
    spec, wanted, values = plan.spec, dict(wanted or {}), dict(values or {})
    _refuse_names(spec, wanted, values)
    _refuse_keys(plan)
    fixed = {a.name: n for a in spec.attributes if (n := _fixed(a, wanted, values))}
    nodes = {level.level: level.nodes for level in plan.expected.levels}
    hashed = {a.name: nodes.get(a.name, 0) for a in spec.attributes if a.name not in fixed}
    tag = len(spec.levels).bit_length() + measure_bits(len(spec.asked))
    width = fixed | _shared(hashed, BITS - tag - sum(fixed.values()))
    if tag + sum(width.values()) > BITS:
        where = ", ".join(f"{a.name} {width[a.name]}" for a in spec.attributes)
        raise InputError(
            f"a key has {BITS} bits; level {tag}, {where} make {tag + sum(width.values())}: leave a level out, use "
            "fewer buckets, or list the values of a known attribute with --values"
        )
    return tuple(_bits(a, width[a.name], values.get(a.name)) for a in spec.attributes)


def keyed(plan: Plan) -> tuple[int, ...]:
    """The levels that have keys: those to which some conversion contributes."""
    some = np.array([plan.default, *plan.roots.values()]).max(axis=0) > 0
    if plan.nodes is not None:
        level, contribution = (plan.nodes.column(name).to_numpy() for name in ("level", "contribution"))
        some |= np.bincount(level, contribution, len(plan.levels)) > 0
    return tuple(np.flatnonzero(some).tolist())


def measure_bits(number: int) -> int:
    """The bits that tell so many measures apart; one takes none."""
    return max(number - 1, 0).bit_length()


def _bits(attribute: Attribute, width: int, listed: Sequence[str] | None) -> Bits:
    coded: Literal["hash", "domain", "list"] = "domain" if attribute.unknown else "list" if listed else "hash"
    return Bits(attribute=attribute.name, bits=width, coded=coded, values=tuple(listed) if listed else None)


def _fixed(attribute: Attribute, wanted: Mapping[str, int], values: Mapping[str, Sequence[str]]) -> int:
    """The bits of an attribute whose number is given or follows from its values; 0 for one that shares what is left."""
    size = attribute.size if attribute.unknown else len(values.get(attribute.name, ()))
    given, needed = wanted.get(attribute.name, 0), size.bit_length()
    if given and given < needed:
        raise InputError(f"{attribute.name!r} has {size:,} values, which take {needed} bits; got {given}")
    return given or needed


def _shared(nodes: Mapping[str, int], left: int) -> dict[str, int]:
    """Bits for hashed values: what makes a collision unlikely with room to spare, and less where bits are scarce."""
    width = {name: min(WIDEST, ceil(2 * log2(max(n, FEW) * ROOM)) + SELDOM - 1) for name, n in nodes.items()}
    spare = {name: width[name] - min(WIDEST, ceil(2 * log2(max(n, 1))) + LEAST - 1) for name, n in nodes.items()}
    for _ in range(sum(width.values()) - left):
        most = max(spare, key=lambda name: spare[name], default="")  # the first of equals
        if spare.get(most, 0) <= 0:
            break
        width[most], spare[most] = width[most] - 1, spare[most] - 1
    return width


def _refuse_names(spec: Spec, wanted: Mapping[str, int], values: Mapping[str, Sequence[str]]) -> None:
    names = {attribute.name: attribute for attribute in spec.attributes}
    for name in (*wanted, *values):
        if name not in names:
            raise InputError(f"there is no attribute {name!r}; the attributes are {', '.join(names)}")
    for name, width in wanted.items():
        if not 1 <= width <= WIDEST:
            raise InputError(f"a field has 1 to {WIDEST} bits; got {width} for {name!r}")
    for name, listed in values.items():
        if names[name].unknown:
            raise InputError(f"{name!r} is unknown to the impression and has its values from the spec; list none")
        if not listed or len(set(listed)) < len(listed):
            raise InputError(f"the values of {name!r} are listed once each, at least one; got {', '.join(listed)}")


def _refuse_keys(plan: Plan) -> None:
    levels = sum(len(keyed(part.plan)) for part in parts(plan))
    if plan.measures is not None and levels + 1 > KEYS:
        raise InputError(
            f"a source has at most {KEYS} keys, one for each level and measure, and one for what is left; "
            f"the plan has {levels + 1}: leave some out"
        )
    if levels > KEYS:
        raise InputError(f"a source has at most {KEYS} keys, one for each level; the plan has {levels}: leave some out")
