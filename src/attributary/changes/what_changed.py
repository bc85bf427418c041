"""Changes: two periods side by side, node by node: what changed by more than chance, and how many such calls are wrong.

Two unbiased figures differ by noise, whose variance and shape are known, and by chance itself: of the same number of
impressions, not every week has the same number of conversions. A test says which of these may explain a difference.
Counts vary by their number (Poisson). A sum of values x varies by Σx², at most C times the sum if no event adds more
than C. Where nobody states C, the courses of four periods or more tell; else noise alone is tested.

With many nodes, some differ by chance. `adjusted` gives each node the false-discovery rate at which it is called
changed: among the nodes called changed at 5 %, the expected share of wrong calls is at most 5 %. Benjamini and Hochberg
(1995) proved it for independent and for positively dependent tests; a node and the nodes above it are positively
dependent, siblings that share a measured sum slightly negatively, so that for a tree it is measured, not proven.
Benjamini and Yekutieli (2001) proved it for any dependence, at about ln(nodes) times smaller chances: `proven`.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from attributary.denoising.estimate import Fit
from attributary.denoising.quantile import quantile
from attributary.errors import InputError
from attributary.estimates import Z_FINE, noted, with_columns
from attributary.tree import Tree
from attributary.types import Arrow, Bools, Floats, Values

STEPS = np.linspace(0, 1, 97)
BLOCK = 2**14  # nodes at a time
UNKNOWN = (0.0, 3.0)  # excess kurtosis: normal and Laplace, between which an estimate's noise is
LEAST, MOST = 1e-4, 15.0  # the excess that the sums below are exact for
ERFC = (
    *(0.17087277, -0.82215223, 1.48851587, -1.13520398, 0.27886807),
    *(-0.18628806, 0.09678418, 0.37409196, 1.00002368, -1.26551223),
)
COURSES = 3  # steps, from which the courses of periods tell
CUT, CUT_MEAN, CUT_SD = 4.0, 0.9205, 1.110  # of a squared normal figure, and what it is then
COUNTED = (
    "n|num|number|of|counts?|cnt|dp|noisy|visits|visitors|users|orders|conversions|purchases|clicks|sessions|events"
    "|customers|views|anzahl|besuche|besucher|nutzer|kunden|klicks|bestellungen|visites|clients|commandes|visitas|clientes"
    "|pedidos"
)  # words that names of counts have, and no others
COUNTS = "Chance is that of counts."
ASSUMED_COUNTS = (
    "Chance is that of counts, assuming that each event adds 1; for sums of values, state the most that one adds "
    "(`largest`)."
)
NOT_KNOWN = "not known; state the most that one event adds (`largest`, 1 for counts), or compare four periods or more"


@dataclass(frozen=True, eq=False)
class PeriodFigures:
    """The unbiased figures of one period, one per node; nan where the period does not have the node."""

    count: Floats
    variance: Floats  # of the privacy noise
    excess: Floats  # kurtosis of the noise: 0 if normal, 3 if Laplace, nan where it is not known
    impressions: Floats  # nan where they are not known
    shared: Floats | float = 0.0  # covariance with the period before: 0 unless both are of one table
    unit: Floats | float = 1.0  # variance by chance since the period before, per unit: 1 if each event counts 1
    periods: Floats | float = 1.0  # that were added up, where their mean is compared

    @property
    def mean(self) -> Floats:
        return self.count / self.periods


class Difference(NamedTuple):
    """What changed, and the variances of what may explain it."""

    change: Floats
    noise: Floats
    excess: Floats  # kurtosis of the noise
    sampling: Floats  # of conversions that come by chance, at one rate: 0 where that explains nothing


class ChangeTest(NamedTuple):
    words: str
    exposure: Callable[[PeriodFigures], Floats]  # what figures are divided by
    poisson: bool  # whether conversions may differ by chance, too
    per: str = ""  # what figures are divided by, in words

    def figures(self, of: PeriodFigures, unit: Floats | float) -> tuple[Floats, Floats, Floats]:
        """What is compared of a period, its variance, and the kurtosis."""
        per, sampling = self.exposure(of), np.maximum(of.count, 0) * self.poisson * unit  # noise may make it negative
        with np.errstate(divide="ignore", invalid="ignore"):
            excess = sum_excess([(of.variance, of.excess), (sampling, np.zeros(len(per)))])
            return of.count / per, (of.variance + sampling) / per**2, excess

    def difference(self, now: PeriodFigures, before: PeriodFigures) -> Difference:
        """What changed; at one rate, Poisson counts have the pooled rate over each exposure as variance."""
        a, b = self.exposure(now), self.exposure(before)
        with np.errstate(divide="ignore", invalid="ignore"):
            one, two = now.variance / a**2, before.variance / b**2
            rate = (np.maximum(now.count, 0) + np.maximum(before.count, 0)) / (a + b) * self.poisson * now.unit
            excess = sum_excess([(one, now.excess), (two, before.excess)])
            noise = np.maximum(one + two - 2 * now.shared / (a * b), 0.0)
            return Difference(now.count / a - before.count / b, noise, excess, rate / a + rate / b)


def sum_excess(parts: list[tuple[Floats, Floats]]) -> Floats:
    """The excess kurtosis of a sum of independent figures, each with a variance and an excess kurtosis."""
    whole = np.sum([variance for variance, _ in parts], axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        fourth = np.sum([excess * np.square(variance / whole) for variance, excess in parts], axis=0)
    return np.where((whole > 0) & (whole < np.inf), fourth, 0.0)


TESTS = {
    "rates": ChangeTest("rates equal: noise plus Poisson", lambda of: np.ones(len(of.count)) * of.periods, True),
    "counts": ChangeTest(
        "counts equal, given the privacy noise", lambda of: np.ones(len(of.count)) * of.periods, False
    ),
    "per-impression": ChangeTest(
        "conversions per impression equal: noise plus Poisson", lambda of: of.impressions, True, " per impression"
    ),
}


def chance_of(difference: Difference) -> Floats:
    """How often noise, and conversions that come by chance, make a difference of this size or more; nan where none."""
    size, compared = np.abs(difference.change), np.isfinite(difference.change)
    if np.isnan(difference.excess[compared]).any():
        return np.maximum(*(tails(size, difference.noise, np.full(len(size), e), difference.sampling) for e in UNKNOWN))
    return tails(size, difference.noise, difference.excess, difference.sampling)


def tails(size: Floats, noise: Floats, excess: Floats, normal: Floats) -> Floats:
    """P(|sum| > size) of a sum of noise and a normal figure with these variances, node by node.

    As in `denoising.quantile`, noise is √G·Z, with Z normal and G gamma; so the sum is √(noise·G + normal)·Z.
    """
    chance = np.empty(len(size))
    for at in range(0, len(size), BLOCK):
        here = slice(at, at + BLOCK)
        x, var, normal_var = (a[here, None] for a in (size, noise, normal))
        n = 3 / np.clip(excess[here, None], LEAST, MOST)
        left, right = -8 / np.sqrt(n) - 16 / n, np.log(1 + 40 / n + 12 / np.sqrt(n))
        log_g = left + (right - left) * STEPS
        weight = np.exp(n * (log_g - np.expm1(log_g)))  # the trapezoid rule in log G: both ends are nothing
        with np.errstate(divide="ignore", invalid="ignore"):
            reach = x / np.sqrt(2 * (var * np.exp(log_g) + normal_var))
        reach = np.where((x == 0) | np.isposinf(var), 0.0, reach)
        chance[here] = (weight * _erfc(reach)).sum(axis=1) / weight.sum(axis=1)
    return np.minimum(chance, 1.0)


def _erfc(x: Floats) -> Floats:
    """erfc of what is not negative, to seven digits (Numerical Recipes, 6.2)."""
    t = 1 / (1 + x / 2)
    with np.errstate(invalid="ignore", over="ignore"):
        return np.where(np.isposinf(x), 0.0, t * np.exp(np.polyval(ERFC, t) - x * x))


def adjusted(chance: Floats, proven: bool = False) -> Floats:
    """The least false-discovery rate at which each node is called changed; nan where nothing is tested."""
    tested = np.flatnonzero(~np.isnan(chance))
    order = tested[np.argsort(chance[tested], kind="stable")]
    rank = np.arange(1, len(order) + 1)
    times = float(np.sum(1 / rank)) if proven else 1.0
    rate = np.full(len(chance), np.nan)
    rate[order] = np.minimum(np.minimum.accumulate((chance[order] * times * len(order) / rank)[::-1])[::-1], 1.0)
    return rate


def with_chance(
    periods: Sequence[PeriodFigures], test: str | None, called: str, largest: float | None
) -> tuple[str, list[PeriodFigures], str]:
    """The test, the figures with their variance by chance per unit, and what was assumed, in a sentence.

    `called` is what figures are of, where something tells; `largest` is the most that one event adds.
    """
    if test is not None and not TESTS[test].poisson:
        return test, list(periods), "Chance is not included: noise alone is tested."
    name_parts = re.findall(r"[^\W\d_]+", called.casefold())
    if largest is None and (not called or (name_parts and all(re.fullmatch(COUNTED, word) for word in name_parts))):
        return test or "rates", list(periods), COUNTS if called else ASSUMED_COUNTS
    units: Sequence[Floats | float] = [largest or np.inf] * (len(periods) - 1)
    said = "that of counts" if largest == 1 else f"at most that of events that add {largest or 0:g} each"
    if largest is None:
        steps = [TESTS[test or "rates"].difference(b, a) for a, b in pairwise(periods)]
        units = _units(steps) if len(steps) >= COURSES else units
        said = f"estimated from the courses of {len(periods)} periods"
    if largest is None and not (units and all(np.isfinite(unit).all() for unit in units)):
        if test is not None:
            raise InputError(f"sums of {called} are tested for noise alone: how far they vary by chance is {NOT_KNOWN}")
        return "counts", list(periods), f"Chance is not included: how far {called} varies by itself is {NOT_KNOWN}."
    later = [replace(figures, unit=unit) for figures, unit in zip(periods[1:], units, strict=True)]
    return test or "rates", [*periods[:1], *later], f"Chance is {said}."


def _units(steps: Sequence[Difference]) -> list[Floats]:
    """For each step, the variance by chance per unit of each node's figure, from the other steps at a unit of 1.

    A sum of values x varies by Σx², which grows with the sum. One unit for all nodes makes noise and chance explain
    what the other steps have, at the upper end of what they leave open; a node that varied more by itself has its own.
    """
    change, noise, size = (
        np.stack([getattr(step, name) for step in steps]) for name in ("change", "noise", "sampling")
    )
    good, units = np.isfinite(change) & (size > 0) & np.isfinite(noise), []
    for t in range(len(steps)):
        others = good & (np.arange(len(steps)) != t)[:, None]
        beyond, by = (np.where(others, values, 0.0).sum(axis=0) for values in (change**2 - noise, size))
        pooled = _pooled_unit(change[others] ** 2, noise[others], size[others])
        few = 1 + 4 / np.maximum(others.sum(axis=0), 1)  # a node's own variance is hardly known from few steps
        units.append(np.maximum(few * beyond / np.where(by > 0, by, 1.0), pooled))
    return units


def _pooled_unit(square: Floats, noise: Floats, size: Floats) -> float:
    """The unit at which squares, cut at CUT so that true changes weigh little, are as large as chance makes them."""
    low, high = 0.0, 100 * float(np.max(square / size, initial=0.0)) + 1e-9

    def above(unit: float) -> bool:
        weight = size / np.maximum(noise + unit * size, 1e-300)
        cut = np.minimum(square / np.maximum(noise + unit * size, 1e-300), CUT)
        return bool(np.sum(weight * (cut - CUT_MEAN)) > -2 * CUT_SD * np.sqrt(np.sum(weight**2)))

    if not len(square) or above(high):
        return float("inf")  # too few to tell
    for _ in range(60):
        low, high = ((low + high) / 2, high) if above((low + high) / 2) else (low, (low + high) / 2)
    return high


GREW, FELL, NOISE, NEW, GONE = "grew", "fell", "could be noise", "new", "gone"
LAPLACE = 3.0  # excess kurtosis, where the noise's is not known


class SeriesPeriod(NamedTuple):
    """The unbiased figures of one period; arrays are in a tree's level order."""

    name: str
    figures: PeriodFigures
    fit: Fit | None = None  # whether the noise is as stated
    recomputed: bool = False  # the table's own estimates use a prior or are never negative
    not_private: str = ""
    generated: bool = False  # made of generated logs
    fingerprint: str = ""  # of its noisy figures

    @property
    def doubtful(self) -> bool:
        """Whether the noise does not look as stated."""
        return self.fit is not None and self.fit.df > 0 and abs(self.fit.z) > Z_FINE


class WithInterval(NamedTuple):
    """A figure of each node and its interval; nan where there is none, or where it would divide by about 0."""

    estimate: Floats
    low: Floats
    high: Floats


@dataclass(frozen=True, eq=False)
class Changes:
    """What changed from one period to another; arrays are in the tree's level order.

    The tree has the nodes of both. A node that one of them lacks is new or gone, and not tested.
    """

    tree: Tree
    before: SeriesPeriod
    now: SeriesPeriod
    test: str = "rates"  # of TESTS
    false_discoveries: float = 0.05  # the expected share of wrong calls among those called changed, at most
    proven: bool = False  # under any dependence of the nodes
    confidence: float = 0.95
    chance_words: str = ""  # what is assumed about chance

    def __repr__(self) -> str:
        changed = f"{int(self.changed.sum()):,} of {len(self.tree):,} nodes changed"
        return f"Changes({changed}, {self.before.name} to {self.now.name})"

    @cached_property
    def difference(self) -> Difference:
        """What changed, and the variances of what may explain it."""
        return TESTS[self.test].difference(self.now.figures, self.before.figures)

    @cached_property
    def chance(self) -> Floats:
        """How often each node differs by as much or more if nothing changed; nan where it is not tested."""
        return chance_of(self.difference)

    @cached_property
    def adjusted(self) -> Floats:
        """The least false-discovery rate at which each node is called changed."""
        return adjusted(self.chance, self.proven)

    @cached_property
    def changed(self) -> Bools:
        return np.nan_to_num(self.adjusted, nan=1.0) <= self.false_discoveries

    @property
    def standard_error(self) -> Floats:
        return np.sqrt(self.difference.noise + self.difference.sampling)

    @cached_property
    def change(self) -> WithInterval:
        """The change in what the test is about, with the interval that noise and chance leave."""
        difference = self.difference
        excess = sum_excess(
            [(difference.noise, difference.excess), (difference.sampling, np.zeros(len(difference.change)))]
        )
        half = reach(self.confidence, excess) * self.standard_error
        return WithInterval(difference.change, difference.change - half, difference.change + half)

    @cached_property
    def relative(self) -> WithInterval:
        """The change relative to before, 0.1 for +10 %, with Fieller's interval for a ratio of two noisy figures.

        (now − r·before)² ≤ q²·(variance now − 2r·covariance + r²·variance before) holds between its roots r, unless
        before may be 0.
        """
        (x, of_x, e_x), (y, of_y, e_y) = (
            TESTS[self.test].figures(period.figures, self.now.figures.unit) for period in (self.now, self.before)
        )
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = x / y
            q2 = reach(self.confidence, sum_excess([(of_x, e_x), (ratio**2 * of_y, e_y)])) ** 2
            a, b, c = y**2 - q2 * of_y, x * y - q2 * self.now.figures.shared, x**2 - q2 * of_x
            half, bounded = np.sqrt(b**2 - a * c), (a > 0) & (y > 0)
            ends = np.maximum((b - half) / a, 0.0), np.maximum((b + half) / a, 0.0)  # no rate is negative
            return WithInterval(*(np.where(bounded, r - 1, np.nan) for r in (ratio, *ends)))

    @cached_property
    def verdict(self) -> Values:
        """A word for each node: grew, fell, could be noise, new or gone."""
        there, was = (np.isfinite(period.figures.count) for period in (self.now, self.before))
        calls = np.where(self.changed, np.where(self.difference.change > 0, GREW, FELL), NOISE)
        return np.where(there & was, calls, np.where(there, NEW, np.where(was, GONE, "")))

    def table(self) -> Arrow:
        """The Arrow table, one row per node: before, now, the change with its interval, its chance and the verdict."""
        import pyarrow as pa

        now, before = self.now.figures, self.before.figures
        columns = {"before": before.mean, "variance_before": before.variance / np.square(before.periods)}
        columns |= {"now": now.count, "variance": now.variance}
        for name, change in (("change", self.change), ("relative", self.relative)):
            columns |= dict(zip((name, f"{name}_low", f"{name}_high"), change, strict=True))
        columns |= {"chance": self.chance, "false_discovery_rate": self.adjusted}
        back = self.tree.from_level_order
        made = with_columns(self.tree.table(), {name: back(values) for name, values in columns.items()})
        return noted(made.append_column("verdict", pa.array(back(self.verdict))), chance=self.chance_words)


def reach(confidence: float, excess: Floats) -> Floats:
    """The standard deviations to either side that an interval has."""
    return quantile(confidence, np.nan_to_num(excess, nan=LAPLACE))
