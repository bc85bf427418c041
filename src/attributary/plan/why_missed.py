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
from attributary.spec.measure import Target
from attributary.tree import Tree
from attributary.types import Floats, Ints

MARGIN = 1e-3  # of ε, for rounding to whole contributions, and for the levels that no target is for
LONGEST = 1000.0  # times as long a period


def needed_epsilon(
    questions: Sequence[Problem], limits: ChosenLimits, equal: Sequence[Shares], least: Floats
) -> tuple[float, list[Floats]]:
    """The least ε that meets all targets and keeps to the guard; the shares that do, of one split for all first.

    Refused where it is more than an answer takes.
    """
    spec, near = questions[0].spec, list[Floats]()
    epsilon, held = spec.epsilon, None
    for together in (True, False) if spec.split_by is not None else (False,):
        case = BoundedCase.of(questions, limits, equal, spec.targets, together=together, least=least, held=held)
        epsilon, found = case.least_epsilon(epsilon, near[0] if near else None)
        near.append(found.share)
        held = case.shares(found.share)[0]
    epsilon *= 1 + MARGIN
    most = spec.terms.largest_epsilon if spec.noise_model.on_sums else inf
    if epsilon > min(most, HIGHEST):
        at = min(most, HIGHEST)
        found = case.at(at).least(case.starts(), goal=False)
        raise InputError(why_missed(Missed(case, found), at, epsilon))
    return epsilon, near


def why_missed(missed: Missed, epsilon: float | None = None, needed: float | None = None) -> str:
    """In words: what is possible under this ε, and what would be under other circumstances."""
    case, spec = missed.case, missed.case.spec
    epsilon = epsilon or spec.epsilon
    nearest = ", ".join(
        f"{target.name} {_percent(_asked(target) * over)} instead of {_percent(_asked(target))}"
        if _asked(target) < inf
        else f"{target.name} {over - 1:.1%} above its error under an equal split"
        for target, over in missed.targets
    )
    rule = f"the targets cannot be met with epsilon = {epsilon:.4g}, the nearest is {nearest}"
    needed = needed or case.least_epsilon(epsilon)[0]
    most = spec.terms.largest_epsilon if spec.noise_model.on_sums else inf
    beyond = f" (more than the {most:g} that {spec.terms.answer} takes)" if needed > most else ""
    ways = [f"epsilon = {needed * (1 + MARGIN):.4g}{beyond}"] if needed < HIGHEST else []
    return f"{rule}; what would meet them: {', or '.join([*ways, *_remedies(case, epsilon), 'larger targets'])}"


def _asked(target: Target) -> float:
    """The error or half-width that was asked for; inf for that of an equal split."""
    asked = target.error if target.half_width is None else target.half_width
    return asked if isinstance(asked, float) else inf


def _percent(error: float) -> str:
    return f"{100 * error:.3g} %"


def _remedies(case: BoundedCase, epsilon: float) -> Iterator[str]:
    """What else would help, as far as it does, where the prior is one of counts."""
    spec, q = case.spec, case.questions[0]
    if np.isfinite(spec.guard_factor):
        free = spec.with_keys(epsilon=epsilon, guard="none")
        needs = _of(case, [replace(each, spec=free) for each in case.questions]).least_epsilon(epsilon)[0]
        if needs <= epsilon:
            yield 'guard = "none"'
    if q.profile is not None:
        return
    if q.prior.history:
        longer = _longer(case, epsilon)
        if longer < LONGEST:
            yield f"a period {longer:.3g} times as long"
    last = spec.attributes[-1]
    if last.name not in {target.name for target in spec.targets} and len(spec.attributes) > 1:
        above = int(q.tree.offsets[-2])
        fewer = spec.model_copy(update={"attributes": spec.attributes[:-1], "epsilon_or_auto": epsilon})
        yield _would(f"no level {last.name}", case, fewer, q.tree.family[:above], np.arange(above), epsilon)
    pairs = _pairs(q.tree)
    if len(pairs) and pairs[-1] < len(q.tree) - 1:
        parent = np.empty(int(pairs.max()) + 1, np.int64)
        parent[pairs] = q.tree.family
        coarser = spec.model_copy(update={"epsilon_or_auto": epsilon})
        yield _would(f"{last.name} with half as many values", case, coarser, parent, pairs, epsilon)


def _would(what: str, case: BoundedCase, spec: Spec, parent: Ints, place: Ints, epsilon: float) -> str:
    """What a smaller tree would need; `place` is where each node of the old one, in level order, goes in it."""
    tree = replace(Tree.from_parents(parent), total=spec.total)
    questions = []
    for q in case.questions:
        mean = q.tree.to_level_order(q.prior.mean)[: len(place)]
        smaller = replace(q.prior, mean=np.bincount(place, mean, len(tree)).astype(np.float64), variance=None, new=None)
        questions.append(replace(q, spec=spec, tree=tree, prior=smaller, fixed=q.fixed[: tree.depth], expects=None))
    needs = _of(case, questions).least_epsilon(epsilon)[0]
    return f"{what} and epsilon = {needs * (1 + MARGIN):.4g}"


def _longer(case: BoundedCase, epsilon: float) -> float:
    """How many times as long a period would have to be, if all counts grow with it."""
    def ratio(longer: float) -> float:
        bounded = _of(case, [replace(q, prior=q.prior.times(longer)) for q in case.questions]).at(epsilon)
        return float(bounded.least(case.starts(), goal=False).ratio[bounded.soft].max())

    return solved(ratio, 2.0, LONGEST)


def _of(case: BoundedCase, questions: Sequence[Problem]) -> BoundedCase:
    """The same bounds for other questions."""
    equal = [shares(q, "equal") for q in questions]
    least = case.layout.least[: len(questions[0].fixed)]
    return BoundedCase.of(questions, case.limits, equal, questions[0].spec.targets, least=least)


def _pairs(tree: Tree) -> Ints:
    """Where each node goes if siblings on the last level become one, two by two."""
    last = tree.slice(tree.depth - 1)
    family = tree.family[last]
    begin = np.concatenate([[True], family[1:] != family[:-1]])
    rank = np.arange(len(family)) - np.maximum.accumulate(np.where(begin, np.arange(len(family)), 0))
    pair = np.cumsum(begin | (rank % 2 == 0)) - 1
    return np.concatenate([np.arange(last.start), last.start + pair])
