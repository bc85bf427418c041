"""w3c_schemes: how a hierarchy fits into the reports of W3C Attribution, and what one conversion may spend.

Levels of known attributes are indexes of a histogram, those of unknown ones are batches of reports; levels that are in
different batches are in reports of different kinds. A device grants a site `site_epsilon` in each epoch, for all
conversions that have an impression in it. Budgets are whole millionths of ε (µε), as browsers charge them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from attributary.noise.aggregator_noise import (
    AggregatorCounts,
    AggregatorSums,
    TwoAggregatorCounts,
    TwoAggregatorSums,
)

MICRO = 1_000_000
FIELD = 16  # bytes of an element of Field128
SEED = 32  # bytes
GUARANTEE = (
    "individual ε-DP for the impressions of one device within one epoch (7 days), towards one conversion site",
    "conversions are public: whether, when and what someone bought is not protected, nor how many reports there are",
    "guarantees of single sites do not hold against sites that collude and adapt to each other's results",
)


@dataclass(frozen=True)
class Scheme:
    """A way to measure all levels with what browsers report."""

    name: str
    words: str
    credits: int  # that a conversion may share among its levels; 0 where each level has reports with an ε of its own
    splits_by_root: bool  # whether impressions carry their root's split
    noise: tuple[str, str]  # of one aggregator, and of two

    @property
    def atomic(self) -> bool:
        """Whether levels of known attributes share a report: a conversion is measured at all of them or at none."""
        return self.credits > 0


COUNTS = (AggregatorCounts.name, TwoAggregatorCounts.name)
SUMS = (AggregatorSums.name, TwoAggregatorSums.name)
SCHEMES = (
    Scheme("A", "a report for each level", 0, False, COUNTS),
    Scheme("B", "levels of known attributes share a report, each with some of its credit", 15, False, SUMS),
    Scheme("C", "the same, by impressions that are saved several times: splits by root are possible", 10, True, SUMS),
)
DEFAULTS: Mapping[str, Any] = {
    "aggregators": 2,
    "conversions_per_epoch": 1,
    "others": 0.0,
    "histogram": 1000,
    "minimum_batch": 20,
}


def of_section(section: Mapping[str, Any]) -> dict[str, Any]:
    """ε, L1 and noise that follow from a section [api], which may have mistakes."""
    scheme = next((each for each in SCHEMES if each.name == section.get("scheme")), SCHEMES[0])
    noise = scheme.noise[section.get("aggregators") != 1]
    spend = max(one_conversion(section), 1)
    return {"epsilon": spend / MICRO, "l1": spend, "noise": noise}


def one_conversion(section: Mapping[str, Any]) -> int:
    """µε that one conversion may spend: what others leave of the site's budget, in equal parts; 1 of what is wrong."""
    site, others, times = (section.get(key) for key in ("site_epsilon", "others", "conversions_per_epoch"))
    numbers = all(isinstance(x, int | float) and 0 <= x <= 1e6 for x in (site, others, times))
    if not numbers or not isinstance(times, int) or times < 1:
        return MICRO
    return (round(site * MICRO) - round(others * MICRO)) // times  # type: ignore[operator]


@dataclass(frozen=True)
class ReportKind:
    """Reports of one kind: a conversion makes one of each."""

    name: str  # of its last level
    levels: tuple[int, ...]
    credit: tuple[int, ...]  # of each of these levels
    micro: int  # µε that it costs
    value: int  # which is its maxValue, too
    batch: int  # how many unknown attributes its batches are told apart by


def report_kinds(spec: Any, row: Sequence[int]) -> tuple[ReportKind, ...]:
    """The kinds of reports for contributions by level, top to bottom; levels without any are in none."""
    scheme, first = scheme_of(spec), spec.first_unknown
    asked = [level for level, contribution in enumerate(row) if contribution > 0]
    together = [level for level in asked if level < first] if scheme.atomic else []
    groups = [together] * bool(together) + [[level] for level in asked if level not in together]
    kinds = []
    for levels in groups:
        credit, batch = tuple(row[level] for level in levels), max(levels[-1] - first + 1, 0)
        value, micro = (sum(credit), sum(credit) * micro_of(spec) // spec.l1) if scheme.atomic else (1, credit[0])
        kinds.append(ReportKind(spec.levels[levels[-1]], tuple(levels), credit, micro, value, batch))
    return tuple(kinds)


def scheme_of(spec: Any) -> Scheme:
    """The scheme of a plan's spec."""
    return next(each for each in SCHEMES if each.name == spec.api.scheme)


def micro_of(spec: Any) -> int:
    """µε of all reports of a conversion together."""
    return round(float(spec.epsilon) * MICRO)


@cache
def report_bytes(size: int, value: int) -> int:
    """The length of a report's input shares: a histogram of Prio3L1BoundSum, with the chunk that makes it shortest.

    16·((N + 1)·bits + 2·chunk + 2·(P − 1) + 1) + 32, where P is the power of two above the number of calls.
    """
    length = (size + 1) * value.bit_length()
    powers = (1 << k for k in range(1, length.bit_length() + 2))
    proof = min(2 * -(-length // (power - 1)) + 2 * (power - 1) + 1 for power in powers)
    return FIELD * (length + proof) + SEED
