"""Quantity: what a part of a page is about, a measure or a ratio of two, and how its figures are written."""

from dataclasses import dataclass, replace
from math import ceil, log10, sqrt
from typing import Literal

import numpy as np

from attributary.plan.parts import Part, parts
from attributary.report import figures, names
from attributary.report.estimates import Estimates
from attributary.report.given import Given
from attributary.report.measures import PER
from attributary.spec.measure import COUNT
from attributary.types import Floats

TAU = 10.0
MOST_DIGITS = 6


@dataclass(frozen=True, eq=False)
class Quantity:
    """Estimates in a unit, and what errors are relative to."""

    name: str
    kind: Literal["count", "value", "ratio"]
    estimates: Estimates
    tau: float
    unit: str = ""
    part: Part | None = None  # of the plan
    digits: int = 1  # behind the point of small figures
    size: Floats | None = None  # how wide each node is drawn, where figures do not add up

    @property
    def called(self) -> str:
        """Its name in a sentence."""
        return "conversions" if self.kind == "count" else self.name

    @property
    def head(self) -> str:
        """Its name with its unit, to stand alone."""
        return f"{self.called[:1].upper()}{self.called[1:]}" + (f" ({self.unit})" if self.unit else "")

    @property
    def noun(self) -> str:
        """What one of its figures is."""
        return {"count": "count", "value": "sum", "ratio": "ratio"}[self.kind]

    @property
    def width(self) -> Floats:
        return self.estimates.estimate if self.size is None else self.size

    def shown(self, x: float) -> str:
        return names.shown(self.estimates, x, self.digits)

    def figure(self, x: float) -> str:
        return figures.count(x, self.digits)

    def interval(self, low: float, high: float) -> str:
        return names.interval(low, high, self.digits)

    @property
    def after(self) -> str:
        """What stands behind a figure: its unit, on one line with it."""
        return f"\u00a0{self.unit}" if self.unit else ""


def quantities(given: Given, tau: float | None) -> list[Quantity]:
    """The measures of a page in their order, then the ratios; `tau` is the plan's unless told."""
    plan = given.plan
    own = {part.measure.name: part for part in parts(plan)} if plan else {}
    of_counts = tau or (plan.spec.tau if plan else TAU)
    found: list[Quantity] = []
    for name, read in _named(given).items():
        est, part = _shaped(read, given), own.get(name)
        if name == COUNT:
            found.append(Quantity(name, "count", est, of_counts, part=part))
            continue
        unit = (part.measure.unit if part else None) or ""
        found.append(Quantity(name, "value", est, _tau(part, est, given, of_counts), unit, part, _digits(est.variance)))
    units = {quantity.name: quantity.unit for quantity in found}
    for name, est in given.ratios.items():
        unit = units.get(name.removesuffix(PER), "")
        size = given.measures[COUNT].estimate
        found.append(Quantity(name, "ratio", est, 0.0, unit, None, _digits(est.variance), size))
    return found


def _shaped(est: Estimates, given: Given) -> Estimates:
    """The estimates with the shape of their noise: the file's, or else the plan's, or else what was told."""
    if est.shape is not None or (given.plan is None and given.shape is None):
        return est
    of_plan = given.plan.spec.noise_model.shape.name if given.plan else "laplace"
    return replace(est, shape=of_plan if given.plan else given.shape)


def _named(given: Given) -> dict[str, Estimates]:
    if given.measures or given.estimates is None:
        return given.measures
    return {given.plan.spec.asked[0].name if given.plan else COUNT: given.estimates}


def _tau(part: Part | None, est: Estimates, given: Given, of_counts: float) -> float:
    """The plan's, moved with that of counts; without a plan, what as many conversions bring on average."""
    if part is not None:
        return part.tau if part.measure.tau else part.tau * of_counts / part.plan.spec.tau
    counts = given.measures.get(COUNT)
    if counts is None:
        return of_counts
    roots = slice(0, int(est.tree.first[0]))
    value, count = float(est.estimate[roots].sum()), float(counts.estimate[roots].sum())
    return of_counts * value / count if value > 0 and count > 0 else of_counts


def _digits(variance: Floats) -> int:
    known = variance[np.isfinite(variance) & (variance > 0)]
    return digits(float(np.median(known)) if len(known) else None)


def digits(variance: float | None) -> int:
    """As many that the last one is not finer than a typical standard deviation; 1 where that is coarse."""
    return min(max(ceil(-log10(sqrt(variance))), 1), MOST_DIGITS) if variance else 1
