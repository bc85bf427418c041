"""Changes: two periods of one question side by side, node by node, and what changed by more than chance."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attributary.changes.change_test import TESTS, Difference, PeriodFigures, adjusted, chance_of, sum_excess
from attributary.denoising.estimate import Fit
from attributary.denoising.quantile import quantile
from attributary.estimates import Z_FINE, noted, with_columns
from attributary.tree import Tree
from attributary.types import Bools, Floats

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
    def verdict(self) -> NDArray[Any]:
        """A word for each node: grew, fell, could be noise, new or gone."""
        there, was = (np.isfinite(period.figures.count) for period in (self.now, self.before))
        calls = np.where(self.changed, np.where(self.difference.change > 0, GREW, FELL), NOISE)
        return np.where(there & was, calls, np.where(there, NEW, np.where(was, GONE, "")))

    def table(self) -> Any:
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
