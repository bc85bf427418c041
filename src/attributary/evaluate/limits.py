"""Limits: how many conversions per impression count and where values are clipped, as chosen or as set by hand.

A plan chooses the limits that the spec leaves open. By hand one would take a round number of conversions, clip values
at a percentile, and give all measures equal parts of the budget. What the choice is worth is the difference.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from attributary.errors import InputError
from attributary.plan.choose_limits import ChosenLimits, MeasureErrors, choose
from attributary.plan.make import WITH_LIMITS
from attributary.prior.profile import Profile
from attributary.spec import Measure, Spec
from attributary.spec.measure import REPORTS

MOST = (1, 2, 5, 15)
PERCENTS = (95, 99)


class Limits(NamedTuple):
    """A way to come to limits; what is None is as the spec or, where it leaves it open, the plan says."""

    name: str
    most: int | None = None
    percent: int | None = None

    @property
    def by_hand(self) -> bool:
        return self.most is not None or self.percent is not None

    def of(self, spec: Spec, sums: Sequence[MeasureErrors], earlier: Profile) -> ChosenLimits:
        """The limits themselves, from what each measure has of them to choose from."""
        if not self.by_hand:
            most = [spec.given_limit] if spec.given_limit else range(1, min(earlier.ranks, REPORTS) + 1)
            return choose(sums, list(most))
        clips = [
            measure.limit if measure.limit is not None else percentile(earlier, measure, self.percent or 100)
            for measure in spec.asked
        ]
        return ChosenLimits(tuple(clips), np.array([self.most or spec.given_limit], np.int64), {})


def all_limits(spec: Spec) -> tuple[Limits, ...]:
    """The spec's own limits and, for those that it leaves open, what one would choose by hand."""
    keys = len(spec.levels) * len(spec.asked)
    most = (None,) if spec.given_limit else tuple(m for m in MOST if spec.contributions_of(m) >= keys)  # 1 for each key
    percents = PERCENTS if any(measure.limit is None for measure in spec.values) else (None,)
    if most == percents:
        return (Limits("given"),)
    hands = [(m, p) for p in percents for m in most]
    return (Limits("chosen"), *(Limits(_name(m, p), m, p) for m, p in hands))


def percentile(profile: Profile, measure: Measure, percent: float) -> float:
    """The end of the step that a percentile of the values above 0 is in: where it is known what clipping cuts off."""
    begin, clips = profile.begin[measure.name], profile.clips(measure)
    some = begin > 0
    number = np.array([profile.number[some & (begin == edge)].sum() for edge in clips[:-1]])
    reached = np.cumsum(number) >= percent / 100 * number.sum() * (1 - 1e-12)
    return clips[int(np.argmax(reached)) + 1]


def refuse_no_cut(spec: Spec, measured: Profile) -> None:
    """Refuses counts without what limits cut off, since estimates are compared with the sums without limits."""
    ranked = measured.rank is not None or ("count" in measured.beyond and spec.given_limit is not None)
    names = [] if ranked or spec.conversions_per_impression == 1 else ["conversions"]
    for measure in spec.values:
        known = measured.begin if measure.limit is None else {**measured.begin, **measured.beyond}
        names += [] if measure.name in known else [measure.name]
    if names:
        raise InputError(f"the counts do not show how much of {names[0]!r} limits cut off; give {WITH_LIMITS}")


def _name(most: int | None, percent: int | None) -> str:
    return ", ".join([f"m = {most}"] * (most is not None) + [f"C at {percent} %"] * (percent is not None))
