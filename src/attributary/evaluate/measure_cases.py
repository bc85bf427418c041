"""Cases of several measures, or of several conversions per impression, which share one budget under limits.

Limits are as the plan chooses them, or set by hand: a round number of conversions, values clipped at a percentile,
equal parts of the budget. What the choice is worth is the difference. A case of one measure has what is left under the
limits as its counts, and is judged by what there is without them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np

from attributary.errors import InputError
from attributary.evaluate import splits
from attributary.evaluate.case import Case
from attributary.evaluate.methods import Method
from attributary.evaluate.splits import Way
from attributary.noise import page_of
from attributary.plan.choose_limits import ChosenLimits, MeasureErrors, best_parts, choose, measure_errors
from attributary.plan.contributions import contributions, most_of_unseen
from attributary.plan.level_shares import Question, Shares, shares
from attributary.prior import Prior
from attributary.profile import CLOSE, Profile
from attributary.spec import Measure, Spec
from attributary.spec.measure import AUTO, REPORTS
from attributary.tree import Tree
from attributary.types import Floats, Ints

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
        raise InputError(f'conversions_per_impression = "auto" needs a prior that tells ranks: {HOW}; or give a number')
    for measure in spec.values:
        if measure.limit is None and not earlier.clips(measure):
            raise InputError(
                f"measure {measure.name!r}: where to clip is chosen from the values of a prior, and this has none; "
                f"give {HOW}, or give clip = …"
            )


def refuse_untold(spec: Spec, measured: Profile) -> None:
    """Refuses counts that do not tell what limits cut off them, which they are to be judged by."""
    told = measured.rank is not None or ("count" in measured.beyond and not is_auto(spec))
    names = [] if told or spec.conversions_per_impression == 1 else ["conversions"]
    for measure in spec.values:
        known = measured.begin if measure.limit is None else {**measured.begin, **measured.beyond}
        names += [] if measure.name in known else [measure.name]
    if names:
        raise InputError(f"the counts do not tell what limits cut off {names[0]!r}; give {HOW}")


def _given(spec: Spec) -> int:
    return int(spec.conversions_per_impression)


def _name(most: int | None, percent: int | None) -> str:
    return ", ".join([f"m = {most}"] * (most is not None) + [f"C at {percent} %"] * (percent is not None))


PLANS: dict[Way, str] = {
    splits.equal: "equal",
    splits.leaves: "leaves",
    splits.greedy: "greedy",
    splits.optimal: "optimal",
}


@dataclass(frozen=True, eq=False, kw_only=True)
class MeasureCase(Case):
    """All measures of a tree under one way to come to limits. `count` are all conversions, whatever the limits are.

    What methods may see of values and ranks is `earlier`; `measured` is what they are judged by.
    """

    measured: Profile
    earlier: Profile
    limits: Limits

    @classmethod
    def cases(
        cls,
        dataset: str,
        spec: Spec,
        tree: Tree,
        measured: Profile,
        prior: Prior,
        earlier: Profile,
        noises: tuple[str, ...] = (),
        generated: bool = False,
    ) -> list[Self]:
        """A case for each noise model and each way to come to limits; profiles are of the tree."""
        noises = noises or (spec.noise,)
        if spec.values and not all(page_of(noise).on_sums for noise in noises):
            raise InputError('values are scaled, as in the API; take noise = "api", or count conversions alone')
        refuse_untold(spec, measured)
        refuse_open(spec, earlier)
        count = measured.full(next((m for m in spec.asked if m.is_count), spec.asked[0]))
        name = " > ".join(spec.levels)
        found: list[Self] = []
        for noise in noises:
            asks = spec.model_copy(update={"noise": noise})
            one = Case.of(dataset, name, asks, tree, count, prior, generated)
            two = (_on(one.tree, measured), _on(one.tree, earlier))
            found += [cls._of(one, *two, limits) for limits in all_limits(spec)]
        return found

    @classmethod
    def _of(cls, one: Case, measured: Profile, earlier: Profile, limits: Limits) -> Self:
        return cls(
            dataset=one.dataset,
            name=one.name,
            spec=one.spec,
            tree=one.tree,
            count=one.count,
            prior=one.prior,
            generated=one.generated,
            measured=measured,
            earlier=earlier,
            limits=limits,
        )

    def _arrays(self) -> dict[str, Any]:
        found = super()._arrays() | {"limits": np.array([str(part) for part in self.limits])}
        for side in ("measured", "earlier"):
            profile: Profile = getattr(self, side)
            found |= {f"{side}_{name}": values for name, values in _parts(profile).items()}
        return found

    @classmethod
    def load(cls, path: str) -> "MeasureCase":
        """The case in a file."""
        plain = Case.load(path)
        with np.load(path) as file:
            name, *numbers = (str(word) for word in file["limits"])
            most, percent = (None if word == "None" else int(word) for word in numbers)
            arrays = {key: file[key] for key in file.files}
        measured, earlier = (_profile(plain.tree, side, arrays) for side in ("measured", "earlier"))
        return cls._of(plain, measured, earlier, Limits(name, most, percent))


def load(path: str) -> Case:
    """The case in a file, of whatever kind."""
    with np.load(path) as file:
        many = "limits" in file.files
    return MeasureCase.load(path) if many else Case.load(path)


def taken(case: Case, methods: tuple[Method, ...], named: bool) -> tuple[Method, ...]:
    """The methods that can be tried on a case; those that were named and cannot are refused."""
    if not isinstance(case, MeasureCase):
        return methods
    fits = tuple(method for method in methods if method.way in PLANS and not method.slow)
    if named and len(fits) < len(methods):
        odd = next(method.name for method in methods if method not in fits)
        raise InputError(
            f"{odd} is for counts of one conversion to an impression; with values or several conversions take "
            "equal-raw, or equal, leaves, greedy or optimal with -blue or -top-down"
        )
    return fits


def _on(tree: Tree, profile: Profile) -> Profile:
    """The same on the flat tree; rows stand in level order already."""
    return replace(profile, tree=tree)


def _parts(profile: Profile) -> dict[str, Any]:
    """A profile's arrays; names of measures are text of the user's."""
    found: dict[str, Any] = {"leaf": profile.leaf, "number": profile.number}
    if profile.rank is not None:
        found["rank"] = profile.rank
    for kind in ("value", "begin", "beyond"):
        each = getattr(profile, kind)
        found |= {f"{kind}_names": np.array(list(each), str)}
        found |= {f"{kind}_{i}": values for i, values in enumerate(each.values())}
    return found


def _profile(tree: Tree, side: str, arrays: dict[str, Any]) -> Profile:
    given: dict[str, Any] = {name: arrays.get(f"{side}_{name}") for name in ("leaf", "number", "rank")}
    for kind in ("value", "begin", "beyond"):
        names = [str(name) for name in arrays[f"{side}_{kind}_names"]]
        given[kind] = {name: arrays[f"{side}_{kind}_{i}"] for i, name in enumerate(names)}
    return Profile(tree, **given)


class OneMeasure(NamedTuple):
    """One measure of a case, planned."""

    measure: Measure
    case: Case
    share: Floats  # of each node, in level order; of values, divided by the clip, so that noise is in their unit
    clip: float
    tau: float  # in the measure's unit
    most: float  # conversions of an impression that count, on average over the values of the first attribute


def questions(many: MeasureCase) -> list[Question]:
    """What is asked of each measure."""
    return [Question.of(many.spec, many.tree, many.prior, measure, many.earlier) for measure in many.spec.asked]


def split(asked: Sequence[Question], method: str) -> list[Shares]:
    """Each measure's split by level; under the API's noise it is the same at every ε."""
    return [shares(one, method) for one in asked]


def shared(many: MeasureCase, asked: list[Question], share: list[Shares]) -> list[OneMeasure]:
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
        ones.append(OneMeasure(measure, case, given / spec.l1 / clip, clip, asked[k].tau, float(np.mean(most))))
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
