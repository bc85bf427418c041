"""Layout: where the 128 bits of a key go, a level tag and a field for each attribute.

A key is written from the lowest bit up: the last attribute first, the level tag on top. A field holds 0 above the
level of its attribute, and a code from 1 on at and below it, so that every node has a key of its own.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from attributary.api.ara.keys.allotment import BITS, bits, measure_bits
from attributary.api.ara.keys.code import Code, code
from attributary.errors import InputError
from attributary.plan import Plan
from attributary.plan.bits import Bits
from attributary.spec import Attribute, Spec


@dataclass(frozen=True)
class Field:
    """The bits of one attribute in a key."""

    attribute: Attribute
    bits: int
    shift: int  # how many bits stand below it
    code: Code

    @property
    def mask(self) -> int:
        """All its bits."""
        return ((1 << self.bits) - 1) << self.shift

    def piece(self, label: str) -> int:
        """The part of a key that a label is."""
        return self.code.one(label) << self.shift


@dataclass(frozen=True)
class Layout:
    """A key's bits: a field for each attribute, top to bottom, and the level tag above them."""

    levels: tuple[str, ...]
    total: bool
    fields: tuple[Field, ...]
    measures: tuple[str, ...] = ()  # where there are several; their field stands above the level tag

    @property
    def tag_shift(self) -> int:
        """How many bits stand below the level tag."""
        return sum(field.bits for field in self.fields)

    @property
    def tag_bits(self) -> int:
        return len(self.levels).bit_length()

    @property
    def bits(self) -> int:
        """How many bits a key has in all."""
        return self.tag_shift + self.tag_bits + self.measure_bits

    @property
    def measure_bits(self) -> int:
        return measure_bits(len(self.measures))

    def tag(self, level: int, measure: int = 0) -> int:
        """The part of a key that says its level, the first being 1, so that no key is 0; and its measure, from 0."""
        return (measure << (self.tag_shift + self.tag_bits)) | (level + 1) << self.tag_shift

    def level_of(self, attribute: int) -> int:
        """The level of an attribute, counted from the top."""
        return attribute + self.total

    def key(self, level: int, labels: Sequence[str], measure: int = 0) -> int:
        """The key of a node, from the labels on its path."""
        return self.tag(level, measure) | self.piece(range(level + 1 - self.total), labels)

    def piece(self, attributes: range, labels: Sequence[str]) -> int:
        """The part of a key that some attributes make up, from all labels, top to bottom."""
        made = 0
        for i in attributes:
            made |= self.fields[i].piece(labels[i])
        return made

    def table(self) -> list[list[str]]:
        """Where the bits went: heads and rows for the eye."""
        rows = [["field", "bits", "from", "to", "values", "side"]]
        if self.measures:
            above = self.tag_shift + self.tag_bits
            rows += [_row("measure", self.measure_bits, above, ", ".join(self.measures), "impression")]
        rows += [_row("level", self.tag_bits, self.tag_shift, f"{len(self.levels)} levels", "impression")]
        for field in self.fields:
            side = "conversion" if field.attribute.unknown else "impression"
            rows += [_row(field.attribute.name, field.bits, field.shift, field.code.words, side)]
        spare = BITS - self.bits
        return [*rows, _row("not used", spare, self.bits, "", "")] if spare else rows


def _row(name: str, bits: int, shift: int, values: str, side: str) -> list[str]:
    return [name, str(bits), str(shift + bits - 1), str(shift), values, side]


def layout(plan: Plan) -> Layout:
    """The layout that the plan stores, or else the one that it would."""
    return layout_of(plan.spec, plan.keys if plan.keys is not None else bits(plan))


def layout_of(spec: Spec, stored: Sequence[Bits]) -> Layout:
    """The layout of stored bits."""
    fields: list[Field] = []
    shift = sum(field.bits for field in stored)
    for attribute, field in zip(spec.attributes, stored, strict=True):
        shift -= field.bits
        fields.append(Field(attribute, field.bits, shift, code(attribute, field)))
    measures = tuple(measure.name for measure in spec.asked)
    found = Layout(spec.levels, spec.total, tuple(fields), measures if len(measures) > 1 else ())
    if found.bits > BITS:
        tags = found.tag_bits + found.measure_bits
        raise InputError(f"a key has {BITS} bits; this layout takes {found.bits}: {_where(stored, tags)}")
    return found


def _where(stored: Sequence[Bits], tag: int) -> str:
    return ", ".join([f"level {tag}", *(f"{field.attribute} {field.bits}" for field in stored)])
