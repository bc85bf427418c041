"""key_layout: where the 128 bits of a key go: a level tag, and a field for each attribute with a label's code.

A key is written from the lowest bit up: the last attribute first, the level tag on top. A field holds 0 above the
level of its attribute, and a code from 1 on at and below it, so that every node has a key of its own. The highest 16
bits are the plan's mark, which the conversion adds, and the bit below them is 1 from every impression of a plan: an
impression that something else registered has no filter data to tell it by, and its keys lack this bit.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil, log2

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from attributary.errors import InputError, brief
from attributary.plan import Plan
from attributary.plan.sections import Bits
from attributary.spec import Attribute, Spec
from attributary.tree import Tree
from attributary.types import Bools, Cells, Keys

Codes = NDArray[np.uint64]


@dataclass(frozen=True)
class KeyField:
    """The bits of an attribute in a key: a label's place in a list, or its hash where there is none."""

    attribute: Attribute
    bits: int
    shift: int  # how many bits stand below it
    labels: tuple[str, ...] | None  # None: any label, hashed
    kind: str = "list"

    @cached_property
    def places(self) -> dict[str, int]:
        return {label: i for i, label in enumerate(self.labels or (), 1)}

    @property
    def words(self) -> str:
        return "any, hashed" if self.labels is None else f"{len(self.labels):,}, by their place in the {self.kind}"

    def piece(self, label: str) -> int:
        """The part of a key that a label is."""
        return self.code(label) << self.shift

    def code(self, label: str) -> int:
        """The code of a label; an InputError for one that is not in the list."""
        if self.labels is None:
            return hashed(self.attribute.name, label, self.bits)
        if label not in self.places:
            some = ", ".join(label[:40] for label in self.labels[:8]) + (", …" if len(self.labels) > 8 else "")
            raise InputError(f"{self.attribute.name!r} has no value {brief(label)}; the {self.kind} has {some}")
        return self.places[label]

    def codes(self, labels: Sequence[str]) -> Codes:
        """The codes of labels, which must be different; an InputError names two that have the same code."""
        codes, name = np.fromiter(map(self.code, labels), np.uint64, len(labels)), self.attribute.name
        order = np.argsort(codes, kind="stable")
        same = np.flatnonzero(codes[order][1:] == codes[order][:-1])
        if self.labels is None and len(same):
            one, other = (labels[i] for i in order[same[0] : same[0] + 2])
            raise InputError(
                f"the values {brief(one)} and {brief(other)} of {name!r} have the same code of {self.bits} bits, so "
                f"their counts would be added up; make keys with more bits, as in `bits` "
                f"{name}={min(self.bits + 16, 64)}, or list the values with `values`"
            )
        return codes


def _field(attribute: Attribute, stored: Bits, shift: int) -> KeyField:
    name, bits, values = attribute.name, stored.bits, stored.values
    if stored.coded == "domain":
        if not attribute.unknown or attribute.size >= 1 << bits:
            raise InputError(f"the keys of {name!r} do not fit its domain; make a new plan")
        return KeyField(attribute, bits, shift, attribute.labels, "domain")
    if attribute.unknown or (stored.coded == "list") != (values is not None):
        raise InputError(f"the keys of {name!r} are not those of a known attribute; make a new plan")
    if values is not None and len(values) >= 1 << bits:
        raise InputError(f"the {len(values):,} values of {name!r} do not fit {bits} bits; make a new plan")
    return KeyField(attribute, bits, shift, values)


def hashed(attribute: str, label: str, bits: int) -> int:
    """A label's code by SHA-256 of `attribute=label`, the same everywhere and always; from 1 to 2**bits - 1."""
    digest = hashlib.sha256(f"{attribute}={label}".encode()).digest()
    return int.from_bytes(digest[:16], "big") % ((1 << bits) - 1) + 1


@dataclass(frozen=True)
class KeyLayout:
    """A key's bits: a field for each attribute, top to bottom, and the level tag above them."""

    levels: tuple[str, ...]
    total: bool
    fields: tuple[KeyField, ...]
    plan: str  # the plan's mark, in the highest bits
    measures: tuple[str, ...] = ()  # where there are several; their field stands above the level tag

    @property
    def tag_shift(self) -> int:
        """How many bits stand below the level tag."""
        return sum(field.bits for field in self.fields)

    @property
    def tag_bits(self) -> int:
        return len(self.levels).bit_length()

    @property
    def used(self) -> int:
        """The bits that say a node and a measure."""
        return self.tag_shift + self.tag_bits + measure_bits(len(self.measures))

    @property
    def bits(self) -> int:
        return self.used + MARK + 1

    @property
    def mark(self) -> int:
        """The part of a key that says its plan."""
        return int(self.plan, 16) << BITS - MARK

    def of_plan(self, keys: Keys) -> Bools:
        """Which keys have the plan's mark."""
        marked: Bools = keys[:, 0] >> np.uint64(63 - MARK) == np.uint64(2 * int(self.plan, 16) + 1)
        return marked

    def tag(self, level: int, measure: int = 0) -> int:
        """The part of a key that says its level, the first being 1, so that no key is 0; and its measure, from 0."""
        marked = 1 << BITS - MARK - 1
        return marked | (measure << (self.tag_shift + self.tag_bits)) | (level + 1) << self.tag_shift

    def level_of(self, attribute: int) -> int:
        return attribute + self.total

    def key(self, level: int, labels: Sequence[str], measure: int = 0) -> int:
        """The key of a node, from the labels on its path."""
        return self.mark | self.tag(level, measure) | self.piece(range(level + 1 - self.total), labels)

    def piece(self, attributes: range, labels: Sequence[str]) -> int:
        """The part of a key that some attributes make up, from all labels, top to bottom."""
        made = 0
        for i in attributes:
            made |= self.fields[i].piece(labels[i])
        return made

    def table(self) -> list[list[str]]:
        """Where the bits went: heads and rows for the eye."""
        rows = [["field", "bits", "from", "to", "values", "side"]]
        rows += [_row("plan", MARK, BITS - MARK, self.plan, "conversion")]
        rows += [_row("marked", 1, BITS - MARK - 1, "1", "impression")]
        if self.measures:
            above = self.tag_shift + self.tag_bits
            rows += [_row("measure", self.used - above, above, ", ".join(self.measures), "impression")]
        rows += [_row("level", self.tag_bits, self.tag_shift, f"{len(self.levels)} levels", "impression")]
        for field in self.fields:
            side = "conversion" if field.attribute.unknown else "impression"
            rows += [_row(field.attribute.name, field.bits, field.shift, field.words, side)]
        spare = BITS - self.bits
        return [*rows, _row("not used", spare, self.used, "", "")] if spare else rows


def _row(name: str, bits: int, shift: int, values: str, side: str) -> list[str]:
    return [name, str(bits), str(shift + bits - 1), str(shift), values, side]


def layout(plan: Plan) -> KeyLayout:
    """The layout that the plan stores, or else the one that it would."""
    stored = plan if plan.keys is not None else plan.model_copy(update={"keys": bits(plan)})
    return layout_of(plan.spec, stored.keys or (), stored.mark or stored.key_mark)


def with_mark(plan: Plan) -> Plan:
    """A plan with new keys, which carry its mark."""
    return plan.model_copy(update={"mark": plan.key_mark})


def layout_of(spec: Spec, stored: Sequence[Bits], mark: str) -> KeyLayout:
    fields: list[KeyField] = []
    shift = sum(field.bits for field in stored)
    for attribute, field in zip(spec.attributes, stored, strict=True):
        shift -= field.bits
        fields.append(_field(attribute, field, shift))
    measures = tuple(measure.name for measure in spec.asked)
    layout = KeyLayout(spec.levels, spec.total, tuple(fields), mark, measures if len(measures) > 1 else ())
    if layout.bits > BITS:
        where = ", ".join(f"{field.attribute} {field.bits}" for field in stored)
        tag = f"plan and level {layout.bits - layout.tag_shift}"
        raise InputError(f"a key has {BITS} bits; this layout takes {layout.bits}: {tag}, {where}")
    return layout


BITS = 128  # of a key
MARK = 16  # of them for the plan's mark
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
    tag = MARK + 1 + len(spec.levels).bit_length() + measure_bits(len(spec.asked))
    width = fixed | _shared(hashed, BITS - tag - sum(fixed.values()))
    if tag + sum(width.values()) > BITS:
        where = ", ".join(f"{a.name} {width[a.name]}" for a in spec.attributes)
        raise InputError(
            f"a key has {BITS} bits; plan and level {tag}, {where} make {tag + sum(width.values())}: leave a level "
            "out, use fewer buckets, or list the values of a known attribute with `values`"
        )

    def field(a: Attribute) -> Bits:
        listed = tuple(values.get(a.name, ())) or None
        coded: Cells = "domain" if a.unknown else "list" if listed else "hash"
        return Bits(attribute=a.name, bits=width[a.name], coded=coded, values=listed)

    return tuple(map(field, spec.attributes))


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


def _fixed(attribute: Attribute, wanted: Mapping[str, int], values: Mapping[str, Sequence[str]]) -> int:
    """The bits of an attribute whose number is given or follows from its values; 0 for one that shares what is left."""
    size = attribute.size if attribute.unknown else len(values.get(attribute.name, ()))
    bits, needed = wanted.get(attribute.name, 0), size.bit_length()
    if bits and bits < needed:
        raise InputError(f"{attribute.name!r} has {size:,} values, which take {needed} bits; got {bits}")
    return bits or needed


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
    several = len(plan.measures) > 1
    number = sum(len(keyed(part.plan)) for part in plan.by_measure) + several
    if number > KEYS:
        each = " and measure, and one for what is left" if several else ""
        rule = f"a source has at most {KEYS} keys, one for each level{each}"
        raise InputError(f"{rule}; the plan has {number}: leave some out")


# The keys of all nodes of a tree, and those to query. A key is a row of two uint64: high, low.


def tree_keys(layout: KeyLayout, tree: Tree, measure: int = 0) -> Keys:
    """The key of each node, in the tree's order, for one of the measures."""
    if tree.level_names != layout.levels:
        raise ValueError(f"the keys' levels are {', '.join(layout.levels)}; the tree has {', '.join(tree.level_names)}")
    pieces = [_pieces(field, labels) for field, labels in zip(layout.fields, tree.labels, strict=True)]
    keys, made = np.empty((len(tree), 2), np.uint64), np.zeros((1, 2), np.uint64)
    for i in range(tree.depth):
        level, above = tree.slice(i), tree.slice(i - 1).start if i else -1
        made = made[tree.family[level] - above]
        if i >= layout.total:
            made |= pieces[i - layout.total][tree.labels[i - layout.total].indices.to_numpy()]
        tag = layout.mark | layout.tag(i, measure)
        keys[level] = made | np.array([tag >> 64, tag & (1 << 64) - 1], np.uint64)
    return tree.from_level_order(keys)


def _pieces(field: KeyField, labels: Cells) -> Keys:
    """The part of a key that each entry of a level's dictionary is; entries that no node has are left 0."""
    used = np.zeros(len(labels.dictionary), bool)
    used[labels.indices.to_numpy()] = True
    names = labels.dictionary.cast(pa.string()).filter(pa.array(used)).to_pylist()
    code = np.zeros(len(used), np.uint64)
    code[used] = field.codes(names)
    up, down, none = np.uint64(field.shift % 64), np.uint64((64 - field.shift) % 64), np.zeros_like(code)
    if field.shift >= 64:
        return np.column_stack([code << up, none])
    return np.column_stack([code >> down if field.shift else none, code << up])


def domain(plan: Plan, tree: Tree) -> Keys:
    """The keys to query, in the tree's order: those of all nodes that conversions contribute to; by measure."""
    keys = layout(plan)
    each = enumerate(plan.by_measure)
    return np.concatenate([tree_keys(keys, tree, k)[part.plan.contribution(tree) > 0] for k, part in each])
