"""Limits: how many conversions per impression count and where values are clipped, as chosen or as set by hand.

A plan chooses the limits that the spec leaves open. By hand one would take a round number of conversions, clip values
at a percentile, and give all measures equal parts of the budget. What the choice is worth is the difference.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from attributary.errors import InputError
from attributary.plan.choose_limits import ChosenLimits, MeasureErrors, choose
from attributary.prior.profile import Profile
from attributary.spec import Measure, Spec
from attributary.spec.measure import AUTO, REPORTS

MOST = (1, 2, 5, 15)
PERCENTS = (95, 99)
HOW = "counts of an earlier period, as `attributary count` writes them for this spec"


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
            most = range(1, min(earlier.ranks, REPORTS) + 1) if is_auto(spec) else [_given(spec)]
            return choose(sums, list(most))
        clips = [
            measure.limit if measure.limit is not None else percentile(earlier, measure, self.percent or 100)
            for measure in spec.asked
        ]
        m = self.most if self.most is not None else _given(spec)
        return ChosenLimits(tuple(clips), np.array([m], np.int64), {})


def all_limits(spec: Spec) -> tuple[Limits, ...]:
    """The spec's own limits and, for those that it leaves open, what one would choose by hand."""
    keys = len(spec.levels) * len(spec.asked)
    most = (
        tuple(m for m in MOST if spec.contributions_of(m) >= keys) if is_auto(spec) else (None,)
    )  # each key has 1 at least
    percents = PERCENTS if any(measure.limit is None for measure in spec.values) else (None,)
    if most == percents:
        return (Limits("given"),)
    hands = [(m, p) for p in percents for m in most]
    return (Limits("chosen"), *(Limits(_name(m, p), m, p) for m, p in hands))


def is_auto(spec: Spec) -> bool:
    """Whether the plan chooses how many conversions of an impression count."""
    return spec.conversions_per_impression == AUTO


def percentile(profile: Profile, measure: Measure, percent: float) -> float:
    """The end of the step that a percentile of the values above 0 is in: where it is known what clipping cuts off."""
    begin, clips = profile.begin[measure.name], profile.clips(measure)
    some = begin > 0
    number = np.array([profile.number[some & (begin == edge)].sum() for edge in clips[:-1]])
    reached = np.cumsum(number) >= percent / 100 * number.sum() * (1 - 1e-12)
    return clips[int(np.argmax(reached)) + 1]


def refuse_open(spec: Spec, earlier: Profile) -> None:
    """Refuses limits that are to be chosen from a prior that does not tell what they would cut off."""
    if is_auto(spec) and earlier.rank is None:
        raise InputError(f'conversions_per_impression = "auto" needs a prior with ranks: {HOW}; or give a number')
    for measure in spec.values:
        if measure.limit is None and not earlier.clips(measure):
            raise InputError(
                f"measure {measure.name!r}: where to clip is chosen from the values of a prior, and this has none; "
                f"give {HOW}, or give clip = …"
            )


def refuse_untold(spec: Spec, measured: Profile) -> None:
    """Refuses counts that do not tell what limits cut off them, which they are to be judged by."""
    ranked = measured.rank is not None or ("count" in measured.beyond and not is_auto(spec))
    names = [] if ranked or spec.conversions_per_impression == 1 else ["conversions"]
    for measure in spec.values:
        known = measured.begin if measure.limit is None else {**measured.begin, **measured.beyond}
        names += [] if measure.name in known else [measure.name]
    if names:
        raise InputError(f"the counts do not show how much of {names[0]!r} limits cut off; give {HOW}")


def _given(spec: Spec) -> int:
    return int(spec.conversions_per_impression)


def _name(most: int | None, percent: int | None) -> str:
    return ", ".join([f"m = {most}"] * (most is not None) + [f"C at {percent} %"] * (percent is not None))
