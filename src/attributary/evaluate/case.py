"""Case: a tree, its true counts and a prior for them: what methods are tried on, one measure after the other."""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np

from attributary.budget import METHODS, Split
from attributary.errors import InputError
from attributary.evaluate.methods import APART, JOINT, Method
from attributary.noise import page_of
from attributary.plan.limits import ChosenLimits
from attributary.plan.make import WITH_LIMITS, Division
from attributary.plan.problem import Problem, Shares, in_parts, shares, under
from attributary.plan.proposals import Wishes
from attributary.prior import Prior
from attributary.prior.earlier import CLOSE, Profile
from attributary.prior.learn import label_codes
from attributary.spec import Measure, Spec
from attributary.spec.measure import EQUAL
from attributary.tree import Tree
from attributary.types import Floats, Ints, Record, Values

MOST = (1, 2, 5, 15)
PERCENTS = (95, 99)


class Limits(NamedTuple):
    """A way to come to limits; what is None is as the spec or, where it leaves it open, the plan says.

    By hand one would take a round number of conversions, clip values at a percentile, and give all measures equal parts
    of the budget. What a plan's choice is worth is the difference.
    """

    name: str
    most: int | None = None
    percent: int | None = None

    @property
    def by_hand(self) -> bool:
        return self.most is not None or self.percent is not None

    def of(self, spec: Spec, earlier: Profile) -> ChosenLimits:
        """The limits themselves, by hand."""
        clips = [
            measure.limit if measure.limit is not None else percentile(earlier, measure, self.percent or 100)
            for measure in spec.asked
        ]
        return ChosenLimits(tuple(clips), np.array([self.most or spec.given_limit], np.int64), {})


def all_limits(spec: Spec) -> tuple[Limits, ...]:
    """The spec's own limits and, for those that it leaves open, what one would choose by hand."""
    keys = len(spec.levels) * len(spec.asked)
    conversions = (
        (None,) if spec.given_limit else tuple(m for m in MOST if spec.contributions_of(m) >= keys)
    )  # 1 for each key
    percents = PERCENTS if any(measure.limit is None for measure in spec.values) else (None,)
    if conversions == percents:
        return (Limits("given"),)
    hands = [(m, p) for p in percents for m in conversions]
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
    if any(measure.name in measured.at for measure in spec.values if measure.limit is None):
        raise InputError(
            "where budgets run out, methods are compared under one clip; give clip = …, as a plan chose it"
        )
    names = [] if ranked or spec.conversions_per_impression == 1 else ["conversions"]
    for measure in spec.values:
        clipped = measured.begin if measure.limit is None else {**measured.begin, **measured.beyond}
        names += [] if measure.name in clipped else [measure.name]
    if names:
        raise InputError(f"the counts do not show how much of {names[0]!r} limits cut off; give {WITH_LIMITS}")


def _name(most: int | None, percent: int | None) -> str:
    return ", ".join([f"m = {most}"] * (most is not None) + [f"C at {percent} %"] * (percent is not None))


@dataclass(frozen=True, eq=False)
class Case:
    """One tree of a dataset under one noise model, `spec.noise`; nodes, counts and prior are in level order.

    Methods see the spec, the tree and the prior; the counts are what they are judged by. Counts alone have no `limits`.
    With several measures, or several conversions per impression, `limits` says how limits are chosen, `earlier` is what
    methods see of values and ranks, and `measured` is what they are judged by; `count` then has all conversions.
    """

    dataset: str
    name: str  # of the tree
    spec: Spec
    tree: Tree
    count: Floats
    prior: Prior
    generated: bool = False  # whether the rows behind it are
    full: Floats | None = None  # of one measure under limits: its sums without them; `count` are those that are left
    rounding: Floats | float = 0.0  # the variance of measured sums of values, each rounded to a whole contribution
    limits: Limits | None = None
    measured: Profile | None = None
    earlier: Profile | None = None
    breakdowns: tuple["Case", ...] = ()  # of several one each; tree, count and prior are then those of the first
    labelled: Tree | None = None  # of such a breakdown, since labels say where they meet
    not_private: str = ""  # the words on the tables behind it, which its errors carry on

    @classmethod
    def of(
        cls, dataset: str, name: str, spec: Spec, tree: Tree, count: Floats, prior: Prior, generated: bool = False
    ) -> Self:
        """A case of your own counts: `count` has the true count of every node, in the tree's order.

        Counts of leaves become counts of nodes with `tree.roll_up(leaf_counts)`; `attributary.prior.from_counts(tree,
        table)` makes a prior from a table of counts, and its `mean` are the counts of every node. `dataset` and `name`
        (of the tree) are what the table of errors calls them. Refuses a tree of one node, a tree of other levels than
        the spec's, and counts that are negative or not finite.
        """
        if len(tree) < 2:
            raise InputError(
                f"{dataset}, {name}: a tree of one node has nothing to split and nothing to add up; "
                "add attributes, or take a period with more rows"
            )
        if tree.depth != len(spec.levels):
            raise InputError(f"{dataset}, {name}: the tree has {tree.depth} levels; the spec has {len(spec.levels)}")
        counts = np.asarray(count, np.float64)
        if counts.shape != (len(tree),) or not np.isfinite(counts).all() or not (counts >= 0).all():
            raise ValueError(f"a case needs a true count, 0 or more, for each of its {len(tree)} nodes")
        flat = Tree(tree.family.astype(np.int32), tree.first, tree.offsets, total=tree.total)
        order = tree.to_level_order
        ordered = replace(changed(prior, order), label=label_codes(tree))  # the flat tree does not hold them
        return cls(dataset, name, spec, flat, order(counts), ordered, generated)

    def __post_init__(self) -> None:
        """Nobody who is handed its arrays can change them for the others."""
        tree = self.tree
        frozen = Tree(fixed(tree.family), fixed(tree.first), fixed(tree.offsets), total=tree.total)
        for name, value in {"tree": frozen, "count": fixed(self.count), "prior": changed(self.prior, fixed)}.items():
            object.__setattr__(self, name, value)

    @property
    def nodes(self) -> int:
        """The number of nodes."""
        return len(self.tree)

    @property
    def noise(self) -> str:
        """The name of the noise model."""
        return self.spec.noise

    @property
    def truth(self) -> Floats:
        """What estimates are compared with."""
        return self.count if self.full is None else self.full

    def at(self, tau: float, epsilon: float) -> Self:
        """The case under another τ and another budget."""
        return replace(self, spec=self.spec.model_copy(update={"tau": float(tau), "epsilon_or_auto": float(epsilon)}))

    @cached_property
    def key(self) -> str:
        """A name for all that is in the case, but for ε and τ: equal for equal cases."""
        parts = {each.name: getattr(self, each.name) for each in fields(self)}
        content = b"\0".join(_content(parts | {"spec": self.spec.identity("tau", "logs")}))
        return hashlib.blake2b(content, digest_size=16).hexdigest()


def _content(value: object) -> Iterator[bytes]:
    """What tells values apart: the cells of arrays, the parts of what has parts."""
    if isinstance(value, np.ndarray):
        yield f"{value.dtype} {value.shape}".encode() + value.tobytes()
    elif isinstance(value, Tree):
        yield from _content((value.first, value.offsets))
    elif is_dataclass(value):
        yield from _content({each.name: getattr(value, each.name) for each in fields(value)})
    elif isinstance(value, Mapping):
        yield from _content([*value.items()])
    elif isinstance(value, tuple | list):
        for part in value:
            yield from _content(part)
    else:
        yield repr(value).encode()


def fixed(values: Values) -> Values:
    """A read-only view of the values."""
    view = values.view()
    view.flags.writeable = False
    return view


def changed(prior: Prior, change: Callable[[Values], Values]) -> Prior:
    """The prior for other nodes, or in another order."""
    values = {each.name: getattr(prior, each.name) for each in fields(prior)}
    new: Record = {name: change(value) for name, value in values.items() if isinstance(value, np.ndarray)}
    return replace(prior, **new)


class OneMeasure(NamedTuple):
    """One measure of a case with its share of a budget."""

    measure: Measure
    case: Case
    epsilon: float
    share: Floats  # of each node, in level order; of values, divided by the clip, so that noise is in their unit
    tau: float  # in the measure's unit
    worth: float = 1.0  # what a conversion brings on average, in that unit
    clip: float = 1.0
    most: float = 1.0  # conversions of an impression that count, on average over the values of the first attribute


def usable(case: Case, methods: tuple[Method, ...], named: bool) -> tuple[Method, ...]:
    """The methods that can be tried on a case; those that were named and cannot are refused."""
    for method in methods:
        needs = method.estimator.needs
        if needs and getattr(case.prior, needs, None) is None:
            raise InputError(
                f"{method.name} knows the process that generated the counts; give those of `attributary generate "
                "forest` as `counts` and `prior`, or leave it out"
            )
    if case.breakdowns:
        if named and (single := [method.name for method in methods if method.name not in JOINT]):
            raise InputError(f"{single[0]} is for one tree; of several breakdowns, {JOINT[0]} is tried; leave it out")
        return (*(method for method in methods if method.name in JOINT), *APART)
    if case.limits is None:
        return methods
    fits = tuple(m for m in methods if not (m.slow or m.split.by_node or m.raw))
    if named and len(fits) < len(methods):
        odd = next(method.name for method in methods if method not in fits)
        raise InputError(
            f"{odd} is for counts of one conversion per impression; with values or several conversions use "
            "equal-raw, or equal, leaves, greedy or optimal with -unbiased or -nonnegative"
        )
    return fits


def measures_by_epsilon(
    case: Case, methods: Sequence[Method], tau: float, epsilons: Sequence[float]
) -> Iterator[list[OneMeasure]]:
    """The measures of a case under each ε, for methods that split the budget alike.

    Under the API's noise the best shares do not depend on ε: one split serves every ε.
    """
    method = methods[0]
    alike = page_of(case.noise).proportional and method.scales
    counts: OneMeasure | None = None
    by_level: list[Shares] | None = None
    for epsilon in epsilons:
        at = case.at(tau, epsilon)
        if case.limits is None:
            if counts is None or not alike:
                counts = OneMeasure(case.spec.asked[0], case, epsilon, node_shares(at, method), tau)
            yield [counts._replace(epsilon=epsilon)]
            continue
        if by_level is None or not alike:
            by_level = [shares(q, method.split) for q in problems(at)]
        yield under_limits(at, by_level, method)


def node_shares(case: Case, method: Method) -> Floats:
    """The share of each node, in level order; a new root takes the split that is best for the known ones."""
    asked = Problem.of(case.spec, case.tree, case.prior, learn=method.planned and case.prior.history)
    question = replace(asked, denoised=not method.raw)
    try:
        bounded = method.split.bounded and not method.raw
        divided = Division.of([question], method.split, beside=("equal",) if bounded else ())
        split = (divided.bounded()[0] if bounded else divided).split[0]
        nodes = split.of_nodes(case.tree)
        if split.nodes is not None and case.spec.split_by is not None:
            nodes = np.where(under(case.tree, question.new), Shares(split.default).of_nodes(case.tree), nodes)
        return Split(case.tree, nodes, 1.0).nodes()
    except ValueError as error:
        raise InputError(f"{method.name}: {error}") from error


def problems(case: Case) -> list[Problem]:
    """What is asked of each measure."""
    return [Problem.of(case.spec, case.tree, case.prior, measure, case.earlier) for measure in case.spec.asked]


def under_limits(case: Case, by_level: list[Shares], method: Method) -> list[OneMeasure]:
    """All measures under the case's limits, each with its contributions."""
    spec, tree, limits, measured, earlier = case.spec, case.tree, case.limits, case.measured, case.earlier
    assert limits is not None and measured is not None and earlier is not None
    asked, ones, page = problems(case), [], page_of(case.noise)
    wishes = Wishes(method.split.name if method.split.name in METHODS else EQUAL)  # which nobody improves
    if limits.by_hand:
        divided = Division(asked, limits.of(spec, earlier), in_parts(asked, by_level)).fitted(wishes)
        made = divided.rounded(wishes)
    else:
        bounded = method.split.bounded and not method.raw
        fine = Division.of(asked, method.split, beside=("equal",) if bounded else (), split=by_level)
        divided, made, _ = fine.settled(fine.fitted(wishes), wishes, bounded)
    spec, most = divided.problems[0].spec, divided.most_of_heads
    for q, row, clip in zip(divided.problems, made, divided.limits.clips, strict=True):
        contribution = row.of_nodes(tree).astype(np.float64)
        alone = Case(
            case.dataset,
            f"{case.name}/{q.measure.name}",  # a name of its own, so that its noise is
            spec,
            tree,
            measured.limited(q.measure, most, clip),
            q.prior,
            case.generated,
            measured.full(q.measure),
            _rounding(measured, q.measure, most, clip, contribution) if page.on_sums else 0.0,
        )
        share = contribution / spec.l1 / page.repeats(clip)
        ones.append(OneMeasure(q.measure, alone, spec.epsilon, share, q.tau, q.worth, clip, float(np.mean(most))))
    return ones


def _rounding(profile: Profile, measure: Measure, most: Ints, clip: float, contribution: Floats) -> Floats | float:
    """The variance that rounding each value to a whole contribution adds to each node's sum.

    A value's exact contribution has a fraction f, and is rounded up with probability f: a variance of f(1 − f), 1/6 on
    average where all fractions are as likely. Values that are clipped are whole already, and so are counts.
    """
    if measure.is_count:
        return 0.0
    begin = profile.begin.get(measure.name, np.zeros(len(profile.leaf)))
    number = np.where(begin < clip * (1 - CLOSE), profile.number, 0.0)
    if profile.rank is not None:
        number = np.where(profile.rank <= most[profile.head], number, 0.0)
    up = Profile(profile.tree, profile.leaf, number, {}).full(Measure(name="count"))
    variance: Floats = np.divide(
        up * clip**2 / 6, contribution**2, out=np.zeros(len(contribution)), where=contribution > 0
    )
    return variance
