"""The measures of a case and their shares of the budget under each ε: counts alone are the case of one measure.

Measures that share a budget do so under limits. A measure has what is left under them as its counts, and is judged by
what there is without them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from attributary.budget import Split
from attributary.errors import InputError
from attributary.evaluate.case import Case
from attributary.evaluate.methods import Method
from attributary.noise import page_of
from attributary.plan.choose_limits import ChosenLimits, best_parts, measure_errors
from attributary.plan.contributions import contributions, most_of_unseen
from attributary.plan.level_shares import Question, Shares, shares, under
from attributary.prior.profile import CLOSE, Profile
from attributary.spec import Measure
from attributary.types import Floats, Ints


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
                "forest`, --counts and --prior, or leave it out"
            )
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
        asked = questions(at)
        if by_level is None or not alike:
            by_level = [shares(question, method.split) for question in asked]
        yield under_limits(at, asked, by_level)


def node_shares(case: Case, method: Method) -> Floats:
    """The share of each node, in level order; a new root takes the split that is best for the known ones."""
    asked = Question.of(case.spec, case.tree, case.prior, learn=method.planned and case.prior.history)
    question = replace(asked, denoised=not method.raw)
    try:
        by_method = shares(question, method.split)
        rows = by_method.default[None] if by_method.roots is None else by_method.roots
        nodes = case.tree.spread(rows, int(case.spec.total), rest=True)
        if by_method.nodes is not None:
            new = np.zeros(case.nodes, bool) if case.spec.split_by is None else under(case.tree, question.new)
            nodes = np.where(new, nodes, by_method.nodes)
        return Split(case.tree, nodes, 1.0).nodes()
    except ValueError as error:
        raise InputError(f"{method.name}: {error}") from error


def questions(case: Case) -> list[Question]:
    """What is asked of each measure."""
    return [Question.of(case.spec, case.tree, case.prior, measure, case.earlier) for measure in case.spec.asked]


def under_limits(case: Case, asked: list[Question], by_level: list[Shares]) -> list[OneMeasure]:
    """All measures under the case's limits, each with its contributions."""
    spec, tree, limits, measured, earlier = case.spec, case.tree, case.limits, case.measured, case.earlier
    assert limits is not None and measured is not None and earlier is not None
    errors = [measure_errors(question, share) for question, share in zip(asked, by_level, strict=True)]
    chosen = limits.of(spec, errors, earlier)
    parts = None if limits.by_hand else best_parts(errors, chosen)
    whole = contributions(asked, by_level, parts, chosen.most)
    most = _most(asked[0], chosen)
    ones, page = [], page_of(case.noise)
    for k, (measure, clip) in enumerate(zip(spec.asked, chosen.clips, strict=True)):
        rows = _rows(asked[0], whole.default[k], None if whole.roots is None else whole.roots[k])
        contribution = tree.spread(rows, int(spec.total), rest=True).astype(np.float64)
        alone = Case(
            case.dataset,
            f"{case.name}/{measure.name}",  # a name of its own, so that its noise is
            spec,
            tree,
            measured.limited(measure, most, clip),
            asked[k].prior,
            case.generated,
            measured.full(measure),
            _rounding(measured, measure, most, clip, contribution) if page.on_sums else 0.0,
        )
        share = contribution / spec.l1 / page.repeats(clip)
        q = asked[k]
        ones.append(OneMeasure(measure, alone, spec.epsilon, share, q.tau, q.worth, clip, float(np.mean(most))))
    return ones


def _rows(question: Question, default: Ints, roots: Ints | None) -> Ints:
    """The contributions of each head; those not seen before, or all that have none of their own, take the default."""
    return default[None] if roots is None else np.where(question.new[:, None], default, roots)


def _most(question: Question, chosen: ChosenLimits) -> int | Ints:
    """How many conversions of an impression count, for all heads or for each."""
    if len(chosen.most) == 1:
        return int(chosen.most[0])
    return np.where(question.new, most_of_unseen(chosen.most), chosen.most)


def _rounding(
    profile: Profile, measure: Measure, most: int | Ints, clip: float, contribution: Floats
) -> Floats | float:
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
    variance: Floats = np.divide(
        up * clip**2 / 6, contribution**2, out=np.zeros(len(contribution)), where=contribution > 0
    )
    return variance
