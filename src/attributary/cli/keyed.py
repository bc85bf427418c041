"""keyed: a plan with its keys, which the first run makes and stores, and where their bits went."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from attributary.api.ara.keys.allotment import BITS, bits
from attributary.api.ara.keys.layout import layout
from attributary.api.ara.keys.quantised import MOST, Quantised, quantised
from attributary.cli.figures import console, print_table
from attributary.errors import InputError
from attributary.plan import Plan


@dataclass(frozen=True)
class Keyed:
    """A plan with keys, and how it came to them, if it had none."""

    plan: Plan
    made: Quantised | None = None

    @property
    def changed(self) -> bool:
        return self.made is not None

    def save(self, path: str) -> None:
        """Writes the plan, if its keys are new."""
        if self.changed:
            self.plan.save(path)


def keyed(path: str, *, widths: tuple[str, ...], values: tuple[str, ...], classes: int | None) -> Keyed:
    """The plan in a file with the keys that it has, or with new ones."""
    plan = Plan.load(path)
    if not plan.spec.noise_model.on_sums:
        raise InputError(f'{path}: the API adds its noise to sums; plan anew with noise = "api", not "unit"')
    if plan.keys is None:
        return _new(plan, widths, values, classes)
    for option, given in (("--bits", widths), ("--values", values), ("--classes", classes)):
        if given:
            raise InputError(
                f"{path} has keys already, and keys that were registered must stay; leave {option} out, or plan anew"
            )
    return Keyed(plan)


def _new(plan: Plan, wanted: tuple[str, ...], values: tuple[str, ...], classes: int | None) -> Keyed:
    listed = {name: tuple(text.split(",")) for name, text in _pairs("--values", values)}
    stored = bits(plan, {name: _whole(text) for name, text in _pairs("--bits", wanted)}, listed)
    found = quantised(plan.model_copy(update={"keys": stored}), MOST if classes is None else classes)
    return Keyed(found.plan, found)


def _pairs(option: str, given: tuple[str, ...]) -> list[tuple[str, str]]:
    pairs = [text.partition("=") for text in given]
    for name, equals, value in pairs:
        if not (name and equals and value):
            raise InputError(f"{option} takes an attribute and what it gets, as in {option} campaign=…; got {name!r}")
    return [(name, value) for name, _, value in pairs]


def _whole(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise InputError(f"--bits takes a whole number, as in --bits campaign=40; got {text!r}")
    return int(text)


def print_layout(made: Keyed, path: str) -> None:
    """Prints where the bits went, the classes, and whether the plan is new."""
    out, found = console(), layout(made.plan)
    out.print(f"a key of {path} has {found.bits} of {BITS} bits")
    print_table(out, found.table())
    out.print()
    if made.made is None:
        out.print(f"{path} has these keys already; they stay as they are")
        return
    for line in _classes(made.made):
        out.print(line)
    out.print(f"keys written to {path}")


def _classes(found: Quantised) -> list[str]:
    if not found.changed:
        return [f"{found.after:,} classes of contributions, as planned"] if found.after > 1 else []
    each = zip(found.plan.levels, found.mean, found.worst, strict=True)
    loss: list[Any] = [f"{level} {_ratio(mean)} (at most {_ratio(worst)})" for level, mean, worst in each]
    return [
        f"{found.before:,} different contributions made {found.after:,} classes; noise variance by level, in terms of "
        f"what it was: {', '.join(loss)}",
        "the plan now has the contributions of the classes; its expected errors are still those from before",
    ]


def _ratio(ratio: float) -> str:
    return f"× {ratio:.3f}" if np.isfinite(ratio) else "∞"
