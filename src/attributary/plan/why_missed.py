"""why_missed: targets that cannot be met, by how much, and what would make it possible, each with its figure."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import inf

import numpy as np

from attributary.errors import InputError
from attributary.plan.bounded_shares import HIGHEST, BoundedCase, Missed, solved
from attributary.plan.choose_limits import ChosenLimits
from attributary.plan.level_shares import Problem, Shares, shares
from attributary.spec import Spec
from attributary.tree import Tree
from attributary.types import Floats

MARGIN = 2e-4  # of ε, for what rounding to whole contributions may cost
LONGEST = 1000.0  # times as long a period
WORTH = 0.05  # of ε: a level left out for less is not worth a word


def needed_epsilon(
    questions: Sequence[Problem], limits: ChosenLimits, equal: Sequence[Shares], least: Floats
) -> tuple[float, list[Floats]]:
    """The least ε that meets all targets and keeps to the guard; the shares that do, of one split for all first.

    Refused where it is more than an answer takes.
    """
    spec, near = questions[0].spec, list[Floats]()
    epsilon, held = spec.epsilon, None
    for together in (True, False) if spec.split_by is not None else (False,):
        case = BoundedCase.of(
            questions, limits, equal, spec.targets, together=together, unseen=True, least=least, held=held
        )
        epsilon, found = case.least_epsilon(epsilon, near[0] if near else None)
        near.append(found.share)
        held = case.shares(found.share)[0]
    epsilon *= 1 + MARGIN
    most = min(_largest(spec), HIGHEST)
    if epsilon > most:
        raise InputError(why_missed(Missed(case, case.at(most).least(case.starts, goal=False), most)))
    return epsilon, near


def why_missed(missed: Missed) -> str:
    """In words: what is possible under this ε, and what would be under other circumstances."""
    (case, _, epsilon), words = missed, []
    cut = ""
    for target, measure, error, of_limits in missed.targets:
        asked = target.error if target.half_width is None else target.half_width
        name = target.name + f" of {measure}" * (len(case.questions) > 1 and measure != target.name)
        words.append(
            f"{name} {_percent(error)} instead of {_percent(asked)}"
            if isinstance(asked, float)
            else f"{name} {error:.3g} times its error under an equal split"
        )
        if isinstance(asked, float) and of_limits >= asked:
            cut = f"what limits cut off is {_percent(of_limits)} of {name}, whatever epsilon is; "
    ways = [] if cut else list(_ways(case, epsilon))
    ways += ["higher limits (clip, conversions_per_impression)"] if cut else []
    rule = f"the targets cannot be met with epsilon = {epsilon:.4g}, the nearest is {', '.join(words)}"
    return f"{rule}; {cut}what would meet them: {', or '.join([*ways, 'larger targets'])}"


def _percent(error: float) -> str:
    return f"{100 * error:.3g} %"


def _largest(spec: Spec) -> float:
    """The largest ε that an answer takes."""
    return spec.terms.largest_epsilon if spec.noise_model.on_sums else inf


def _ways(case: BoundedCase, epsilon: float) -> Iterator[str]:
    """What would meet the targets: more ε, and what helps more than that, where the prior is one of counts."""
    spec, q = case.spec, case.questions[0]
    needed = case.least_epsilon(epsilon)[0] * (1 + MARGIN)
    beyond = f" (more than the {_largest(spec):g} that {spec.terms.answer} takes)" if needed > _largest(spec) else ""
    if needed < HIGHEST:
        yield f"epsilon = {needed:.4g}{beyond}"
    free = [replace(each, spec=spec.with_keys(epsilon=epsilon, guard="none")) for each in case.questions]
    if np.isfinite(spec.guard_factor) and _of(case, free).least_epsilon(epsilon)[0] <= epsilon:
        yield 'guard = "none"'
    if q.profile is not None:
        return
    if q.prior.history:

        def ratio(longer: float) -> float:
            """That of the targets if the period is so many times as long, and all counts grow with it."""
            bounded = _of(case, [replace(q, prior=q.prior.times(longer)) for q in case.questions]).at(epsilon)
            return float(bounded.least(case.starts, goal=False).ratio[bounded.soft].max())

        longer = solved(ratio, 2.0, LONGEST)
        if longer < LONGEST:
            yield f"a period {longer:.3g} times as long"
    last, heads = spec.attributes[-1].name, 1 + int(spec.total) + (spec.split_by is not None)
    if last not in {target.name for target in spec.targets} and q.tree.depth > heads:
        less = _without_last(case, epsilon).least_epsilon(epsilon)[0] * (1 + MARGIN)
        if less < needed * (1 - WORTH):
            yield f"no level {last} and epsilon = {less:.4g}"


def _without_last(case: BoundedCase, epsilon: float) -> BoundedCase:
    """The same bounds on a tree without the last level."""
    q = case.questions[0]
    above = int(q.tree.offsets[-2])
    tree = replace(Tree.from_parents(q.tree.family[:above]), total=case.spec.total)
    update = {"attributes": case.spec.attributes[:-1], "epsilon_or_auto": epsilon}
    spec, questions = case.spec.model_copy(update=update), []
    for q in case.questions:
        mean = q.tree.to_level_order(q.prior.mean)[:above]
        prior = replace(q.prior, mean=mean, variance=None, new=None)
        questions.append(replace(q, spec=spec, tree=tree, prior=prior, fixed=q.fixed[: tree.depth], expects=None))
    return _of(case, questions)


def _of(case: BoundedCase, questions: Sequence[Problem]) -> BoundedCase:
    """The same bounds for other questions."""
    equal = [shares(q, "equal") for q in questions]
    least = case.layout.least[: len(questions[0].fixed)]
    return BoundedCase.of(questions, case.limits, equal, questions[0].spec.targets, least=least)
