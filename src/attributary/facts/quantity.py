"""Quantity: a measure that is shown, or a ratio of two, with its total, its doubts, and how figures are written."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil, hypot, log10, sqrt
from typing import Literal, NamedTuple

import numpy as np

from attributary import rmsre
from attributary.estimates import Estimates, Plausibility, plausibility
from attributary.facts import numerals
from attributary.plan import MeasurePlan, Plan
from attributary.ratio import PER, delta
from attributary.spec.measure import COUNT, called
from attributary.types import Floats

MOST_DIGITS = 6
TAU = rmsre.TAU  # where nobody states it


@dataclass(frozen=True, eq=False)
class FigureName:
    """What figures are called, and the unit that they are in."""

    name: str
    kind: Literal["count", "value", "ratio"]
    unit: str

    @property
    def called(self) -> str:
        return called(self.name)

    @property
    def head(self) -> str:
        """Its name with its unit, to stand alone."""
        return f"{self.called[:1].upper()}{self.called[1:]}" + (f" ({self.unit})" if self.unit else "")

    @property
    def noun(self) -> str:
        return {"count": "count", "value": "sum", "ratio": "ratio"}[self.kind]

    @property
    def after(self) -> str:
        """What stands behind a figure: its unit, on one line with it."""
        return f"\u00a0{self.unit}" if self.unit else ""


@dataclass(frozen=True, eq=False)
class Quantity(FigureName):
    """Estimates in a unit, and what errors are relative to."""

    estimates: Estimates
    tau: float
    part: MeasurePlan | None = None  # of the plan
    digits: int = 1  # behind the point of small figures
    ratio_of: tuple[Estimates, Estimates] | None = None  # value and count, of a ratio

    @property
    def size(self) -> Floats | None:
        """How wide each node is drawn, where figures do not add up."""
        return None if self.ratio_of is None else self.ratio_of[1].estimate

    @property
    def width(self) -> Floats:
        return self.estimates.estimate if self.size is None else self.size

    @property
    def plan(self) -> Plan | None:
        return None if self.part is None else self.part.plan

    @cached_property
    def total(self) -> "RootSum":
        """The sum of the roots; of a ratio, that of their sums."""
        return total_of(self.estimates) if self.ratio_of is None else total_ratio(self.estimates, *self.ratio_of)

    @cached_property
    def doubt(self) -> Plausibility:
        """What there is to doubt; of a ratio, which is not measured, nothing."""
        if self.kind == "ratio":
            return Plausibility(np.zeros(len(self.estimates), bool), 0.0, None, 1.0)
        return plausibility(self.estimates)

    @property
    def interval_words(self) -> str:
        """What an interval is called, with its confidence."""
        est = self.estimates
        if self.kind == "ratio" and not est.confidence:
            return "interval"
        level = est.confidence or round(200 * est.level) / 200  # as their widths tell
        return f"{100 * level:g}\u00a0% interval" + ("" if est.level_known else " by default")

    @property
    def metric(self) -> rmsre.Metric:
        """What errors are judged by: the plan's metric, where there is a plan."""
        return rmsre.weights if self.part is None else self.part.plan.spec.weigh

    @property
    def errors(self) -> Floats:
        """The relative error of each node, in level order."""
        return rmsre.relative(self.estimates.estimate, self.estimates.variance, self.tau, self.metric)

    def shown(self, x: float) -> str:
        """An estimate: without digits behind the point where no estimate has any."""
        return numerals.number(x) if self.estimates.whole else numerals.count(x, self.digits)

    def figure(self, x: float) -> str:
        return numerals.count(x, self.digits)

    def interval(self, low: float, high: float) -> str:
        return f"{self.figure(low)} to {self.figure(high)}"


def quantities(
    plan: Plan | None,
    measures: Mapping[str, Estimates],
    ratios: Mapping[str, Estimates] | None = None,
    tau: float | None = None,
    figure: str = "",
) -> list[Quantity]:
    """The measures in their order, then the ratios; `tau` is the plan's by default, and `figure` what is counted."""
    planned = {part.measure.name: part for part in plan.by_measure} if plan else {}
    of_counts = tau or (plan.spec.tau if plan else TAU)
    shown: list[Quantity] = []
    for name, est in measures.items():
        part = planned.get(name)
        if name == COUNT:
            shown.append(Quantity(figure or est.figure or name, "count", "", est, of_counts, part))
            continue
        unit = (part.measure.unit if part else None) or ""
        of_value = tau_of_value(part, of_counts, root_sum(est), root_sum(measures.get(COUNT)))
        est = replace(est, impressions=None)  # conversions have a rate
        shown.append(Quantity(name, "value", unit, est, of_value, part, digits_of(est.variance)))
    units = {quantity.name: quantity.unit for quantity in shown}
    for name, est in (ratios or {}).items():
        value = name.removesuffix(PER)
        of = (measures[value], measures[COUNT])
        shown.append(Quantity(name, "ratio", units.get(value, ""), est, 0.0, None, digits_of(est.variance), of))
    return shown


def tau_of_value(part: MeasurePlan | None, of_counts: float, value: float, count: float) -> float:
    """The plan's tau, moved with that of counts; without a plan, what as many conversions bring, by these sums."""
    if part is not None:
        return part.tau if part.measure.tau else part.tau * of_counts / part.plan.spec.tau
    return of_counts * value / count if value > 0 and count > 0 else of_counts


def root_sum(est: Estimates | None) -> float:
    return 0.0 if est is None else float(est.estimate[: int(est.tree.first[0])].sum())


def digits_of(variance: Floats) -> int:
    known = variance[np.isfinite(variance) & (variance > 0)]
    return digits(float(np.median(known)) if len(known) else None)


def digits(variance: float | None) -> int:
    """As many that the last one is not finer than a typical standard deviation; 1 where that is coarse."""
    return min(max(ceil(-log10(sqrt(variance))), 1), MOST_DIGITS) if variance else 1


def rate(x: float, low: float, high: float, impressions: float) -> list[str]:
    """What an impression brings, in percent, and its interval, with as many digits as it deserves; nothing of none."""
    if not impressions > 0 or np.isnan(x):
        return []
    places = digits((100 * (high - low) / impressions) ** 2 / 16)
    return [numerals.count(100 * each / impressions, places) + numerals.PERCENT for each in (x, low, high)]


def label(est: Estimates, place: int) -> str:
    """The label of a node by its place in level order."""
    tree = est.tree
    if not tree.attributes:
        return f"node {int(tree.at(place))}"
    level = int(np.searchsorted(tree.offsets, place, side="right")) - 1
    if level < tree.total:
        return "total"
    return str(tree.labels[level - tree.total][place - int(tree.offsets[level])].as_py())


def path(est: Estimates, place: int) -> list[str]:
    """The labels from the root down to a node, by its place in level order."""
    labels = []
    while place >= 0:
        labels.append(label(est, place))
        place = int(est.tree.family[place])
    return labels[::-1]


class RootSum(NamedTuple):
    estimate: float
    low: float
    high: float
    variance: float
    unbiased: float  # the same sum of unbiased counts, where the table tells them

    def error(self, tau: float, metric: rmsre.Metric = rmsre.weights) -> float:
        """Relative to the estimate, or to tau if that is larger."""
        return float(rmsre.relative(self.estimate, self.variance, tau, metric))


def total_of(est: Estimates) -> RootSum:
    """The sum of the roots, with the interval of the unbiased sum, widened to hold the sum shown.

    Of a table without its noisy figures, roots with intervals around their estimates are unbiased and independent, so
    that the squares of their half-widths add up. Of any others the bounds do, the lower one with room for what was cut.
    """
    roots = slice(0, int(est.tree.first[0]))
    count, variance = float(est.estimate[roots].sum()), float(est.variance[roots].sum())
    low, high = est.low[roots], est.high[roots]
    if roots.stop == 1:  # the same as its row
        return RootSum(count, float(low[0]), float(high[0]), variance, float(est.blue[0]))
    least = 0.0 if (est.low >= 0).all() else -np.inf
    if est.plain is not None:
        if est.beside and est.made is not None:
            total = replace(est.made.total(est.made.tree.parent < 0), least=least)
            return RootSum(count, *total.interval(est.level), total.variance, total.unbiased)
        total = replace(est.plain.total(est.tree.parent < 0), count=count, least=least)
        total = replace(total, unbiased=count) if est.beside else total  # its own variance is smaller than this
        return RootSum(count, *total.interval(est.level), variance, total.unbiased)
    with np.errstate(invalid="ignore"):
        around = np.isclose(est.estimate[roots] - low, high - est.estimate[roots], rtol=1e-6)
    if est.from_prior is None and around.all():
        half = float(np.sqrt(np.sum((high - low) ** 2))) / 2
        return RootSum(count, count - half, count + half, variance, count)
    cut = float(np.sqrt(np.sum((high - low) ** 2)))
    return RootSum(count, max(float(low.sum()) - cut, least), float(high.sum()), variance, count)


def difference(total: RootSum, less: RootSum) -> RootSum:
    """One sum less another with independent noise: variances add up, and so do the squares of half-widths."""
    estimate, both = total.estimate - less.estimate, (total, less)
    around = [each.estimate if np.isnan(each.unbiased) else each.unbiased for each in both]
    halves = [max(each.high - x, x - each.low) for each, x in zip(both, around, strict=True)]
    middle, reach = around[0] - around[1], hypot(*halves)
    low, high = min(middle - reach, estimate), max(middle + reach, estimate)
    return RootSum(estimate, low, high, total.variance + less.variance, middle)


def total_ratio(ratio: Estimates, value: Estimates, count: Estimates) -> RootSum:
    """The ratio of the sums, with an interval as many standard deviations wide as those of the nodes.

    Around the ratio of the unbiased sums, and widened to hold the one shown.
    """
    of_value, of_count = total_of(value), total_of(count)
    ratio_of_sums, variance = map(
        float, delta(of_value.estimate, of_value.variance, of_count.estimate, of_count.variance)
    )
    around, spread = map(float, delta(of_value.unbiased, of_value.variance, of_count.unbiased, of_count.variance))
    if np.isnan(around):
        around, spread = ratio_of_sums, variance
    known = np.isfinite(ratio.estimate) & (ratio.variance > 0)
    wide = (ratio.high - ratio.low)[known] / 2 / np.sqrt(ratio.variance[known])
    reach = float(np.median(wide)) * float(np.sqrt(spread)) if len(wide) else float("nan")
    low, high = min(around - reach, ratio_of_sums), max(around + reach, ratio_of_sums)
    return RootSum(ratio_of_sums, low, high, variance, around)
