"""Aggregator noise: one or two aggregators each add DLap(ε/(2·maxValue)) to every sum of a W3C histogram.

A report may move from one index to another, so that sums get twice the noise that ε alone asks for. Where all levels
share a report, a conversion adds whole credits, `l1` in all (`AggregatorSums`); where each level has reports of its
own, it adds 1 to one count (`AggregatorCounts`).
"""

from dataclasses import dataclass

from attributary.noise.model import OnCounts, OnSums
from attributary.noise.shapes import DLAP_TWICE, LAPLACE_TWICE


@dataclass(frozen=True)
class AggregatorSums(OnSums):
    """Of sums of credit, `l1` for each conversion."""

    name = "one-aggregator"
    short = "credit, noise of one aggregator"
    beside = None  # type: ignore[assignment]
    formula = None  # type: ignore[assignment]
    parts = 2

    @property
    def words(self) -> tuple[str, str]:
        return (
            f"discrete Laplace of {_who(self.draws)}, on sums of credit",
            f"A conversion gives {self.l1} credits, some to each level; every sum gets noise DLap(ε / {2 * self.l1}) "
            f"from {_who(self.draws)}.",
        )


@dataclass(frozen=True)
class AggregatorCounts(OnCounts):
    """Of whole counts, each level in reports of its own."""

    name = "one-aggregator-counts"
    short = "whole counts, noise of one aggregator"
    beside = None
    values = True  # what an API refuses of them, it says itself
    parts = 2

    @property
    def words(self) -> tuple[str, str]:
        return (
            f"discrete Laplace of {_who(self.draws)}, on whole counts",
            f"Every count gets noise DLap(ε / 2) from {_who(self.draws)}, ε that of its level.",
        )


def _who(draws: int) -> str:
    return "one aggregator" if draws == 1 else "each of two aggregators"


class TwoAggregatorSums(AggregatorSums):
    name, short, shape, draws = "two-aggregators", "credit, noise of two aggregators", LAPLACE_TWICE, 2


class TwoAggregatorCounts(AggregatorCounts):
    name, short, draws = "two-aggregators-counts", "whole counts, noise of two aggregators", 2
    shape = DLAP_TWICE
