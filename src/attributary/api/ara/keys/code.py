"""Code: the number that stands for a label in a key, 1 or more; 0 means that there is none."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from attributary.errors import InputError, brief
from attributary.plan.bits import Bits
from attributary.spec import Attribute

Codes = NDArray[np.uint64]


@dataclass(frozen=True)
class Code:
    """Labels by their place in a list, or hashed where there is none."""

    attribute: str
    bits: int
    labels: tuple[str, ...] | None  # None: any label, hashed
    kind: str = "list"

    @cached_property
    def places(self) -> dict[str, int]:
        return {label: i for i, label in enumerate(self.labels or (), 1)}

    @property
    def words(self) -> str:
        """How labels are coded, in words."""
        return "any, hashed" if self.labels is None else f"{len(self.labels):,}, by their place in the {self.kind}"

    def one(self, label: str) -> int:
        """The code of a label; an InputError for one that is not in the list."""
        if self.labels is None:
            return hashed(self.attribute, label, self.bits)
        if label not in self.places:
            raise InputError(f"{self.attribute!r} has no value {brief(label)}; {self._shown()}")
        return self.places[label]

    def all(self, labels: Sequence[str]) -> Codes:
        """The codes of labels, which must be different; an InputError names two that have the same code."""
        codes = np.fromiter(map(self.one, labels), np.uint64, len(labels))
        if self.labels is None:
            self._refuse_same(labels, codes)
        return codes

    def _refuse_same(self, labels: Sequence[str], codes: Codes) -> None:
        order = np.argsort(codes, kind="stable")
        same = np.flatnonzero(codes[order][1:] == codes[order][:-1])
        if len(same):
            one, other = (labels[i] for i in order[same[0] : same[0] + 2])
            raise InputError(
                f"the values {brief(one)} and {brief(other)} of {self.attribute!r} have the same code of "
                f"{self.bits} bits, and their counts could not be told apart; make keys with more bits, as in --bits "
                f"{self.attribute}={min(self.bits + 16, 64)}, or list the values with --values"
            )

    def _shown(self) -> str:
        labels = self.labels or ()
        some = ", ".join(label[:40] for label in labels[:8])
        return f"the {self.kind} has {some}{', …' if len(labels) > 8 else ''}"


def code(attribute: Attribute, field: Bits) -> Code:
    """How an attribute's labels are coded."""
    if field.coded == "domain":
        if not attribute.unknown or attribute.size >= 1 << field.bits:
            raise InputError(f"the keys of {attribute.name!r} do not fit its domain; plan anew")
        return Code(attribute.name, field.bits, attribute.labels, "domain")
    if attribute.unknown or (field.coded == "list") != (field.values is not None):
        raise InputError(f"the keys of {attribute.name!r} are not those of a known attribute; plan anew")
    if field.values is not None and len(field.values) >= 1 << field.bits:
        raise InputError(
            f"the {len(field.values):,} values of {attribute.name!r} do not fit {field.bits} bits; plan anew"
        )
    return Code(attribute.name, field.bits, field.values)


def hashed(attribute: str, label: str, bits: int) -> int:
    """A label's code by SHA-256 of `attribute=label`, the same everywhere and always; from 1 to 2**bits - 1."""
    digest = hashlib.sha256(f"{attribute}={label}".encode()).digest()
    return int.from_bytes(digest[:16], "big") % ((1 << bits) - 1) + 1
