"""shared: what each measure gets of a budget that all share, as a case of its own.

Splits, limits and parts are those of the planner, in whole contributions. A case of one measure has what is left under
the limits as its counts, and judges by what there is without them.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from attributary.evaluate.case import Case
from attributary.evaluate.many import Many
from attributary.plan.choose_limits import ChosenLimits, best_parts, measure_errors
from attributary.plan.contributions import contributions, most_of_unseen
from attributary.plan.level_shares import Question, Shares, shares
from attributary.profile import CLOSE, Profile
from attributary.spec import Measure
from attributary.types import Floats, Ints


class One(NamedTuple):
    """One measure of a case, planned."""

    measure: Measure
    case: Case
    share: Floats  # of each node, in level order; of values, divided by the clip, so that noise is in their unit
    clip: float
    tau: float  # in the measure's unit
    most: float  # conversions of an impression that count, on average over the values of the first attribute


def questions(many: Many) -> list[Question]:
    """What is asked of each measure."""
    return [Question.of(many.spec, many.tree, many.prior, measure, many.earlier) for measure in many.spec.asked]


def split(asked: Sequence[Question], method: str) -> list[Shares]:
    """Each measure's split by level; under the API's noise it is the same at every ε."""
    return [shares(one, method) for one in asked]


def shared(many: Many, asked: list[Question], share: list[Shares]) -> list[One]:
    """All measures under the case's limits, each with its contributions."""
    spec, tree = many.spec, many.tree
    errors = [measure_errors(one, own) for one, own in zip(asked, share, strict=True)]
    found = many.limits.of(spec, errors, many.earlier)
    parts = None if many.limits.by_hand else best_parts(errors, found)
    whole = contributions(asked, share, parts, found.most)
    most = _most(asked[0], found)
    ones = []
    for k, (measure, clip) in enumerate(zip(spec.asked, found.clips, strict=True)):
        rows = _rows(asked[0], whole.default[k], None if whole.roots is None else whole.roots[k])
        given = tree.spread(rows, int(spec.total), rest=True).astype(np.float64)
        case = Case(
            many.dataset,
            f"{many.name}/{measure.name}",  # a name of its own, so that its noise is
            spec,
            tree,
            many.measured.limited(measure, most, clip),
            asked[k].prior,
            many.generated,
            many.measured.full(measure),
            _rounding(many.measured, measure, most, clip, given),
        )
        ones.append(One(measure, case, given / spec.l1 / clip, clip, asked[k].tau, float(np.mean(most))))
    return ones


def _rows(q: Question, default: Ints, roots: Ints | None) -> Ints:
    """The contributions of each head; those not seen before, or all that have none of their own, take the default."""
    return default[None] if roots is None else np.where(q.new[:, None], default, roots)


def _most(q: Question, found: ChosenLimits) -> int | Ints:
    """How many conversions of an impression count, for all heads or for each."""
    if len(found.most) == 1:
        return int(found.most[0])
    return np.where(q.new, most_of_unseen(found.most), found.most)


def _rounding(profile: Profile, measure: Measure, most: int | Ints, clip: float, given: Floats) -> Floats | float:
    """The variance that rounding each value to a whole contribution adds to each node's sum.

    A value's exact contribution has a fraction f, and is rounded up with probability f: a variance of f(1 − f), 1/6 on
    average where all fractions are as likely. Values that are clipped are whole already, and so are counts.
    """
    if measure.is_count:
        return 0.0
    begin = profile.begin.get(measure.name, np.zeros(len(profile.leaf)))
    number = np.where(begin < clip * (1 - CLOSE), profile.number, 0.0)
    if profile.rank is not None:
        number = np.where(profile.rank <= (most if np.ndim(most) == 0 else np.asarray(most)[profile.head]), number, 0.0)
    up = Profile(profile.tree, profile.leaf, number, {}).full(Measure(name="count"))
    return np.divide(up * clip**2 / 6, given**2, out=np.zeros(len(given)), where=given > 0)
