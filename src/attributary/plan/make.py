"""make_plan: from a spec, a tree and a prior to a plan."""

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from attributary import budget
from attributary.errors import InputError
from attributary.plan.contributions import contributions
from attributary.plan.errors import Compared, Errors
from attributary.plan.methods import METHODS
from attributary.plan.plan import Plan, PriorNote, checksum
from attributary.plan.question import Question
from attributary.plan.shares import shares
from attributary.plan.whole import Rounding
from attributary.prior import Prior, foreseen, none
from attributary.profile import Profile
from attributary.spec import Spec
from attributary.tree import Tree
from attributary.types import Floats


def make_plan(
    spec: Spec,
    tree: Tree,
    prior: Prior | None = None,
    method: str = "optimal",
    *,
    share: Mapping[str, float] | None = None,
    keep: Collection[str] = (),
    rounding: Rounding = "largest-remainder",
    phases: int = 20,
    profile: Profile | None = None,
    learn: bool = False,
) -> Plan:
    """The plan that a method makes for a tree, with the errors to expect if the counts will be as in the prior.

    `share` fixes the part of ε that a level gets (0: no key); the levels in `keep` get a key whatever the method says.
    Values, and limits that the plan is to choose, need a `profile` beside the prior. With several measures, shares are
    parts of each measure's part. With `learn`, plan and errors are for estimates that use what is known, the prior
    included, as `prior.learn` finds it; should that be worth nothing, the split is still good for unbiased ones.
    """
    prior = prior or none(tree)
    if method not in METHODS:
        raise InputError(f"a method is one of {', '.join(METHODS)}; got {method!r}")
    if tree.level_names != spec.levels:
        raise InputError(
            f"the spec's levels are {', '.join(spec.levels)}; the tree's are {', '.join(tree.level_names)}"
        )
    if len(prior.mean) != len(tree):
        raise InputError(f"a prior is made for one tree; it has {len(prior.mean):,} counts for {len(tree):,} nodes")
    fixed = _fixed(spec, share or {}, keep)
    told = profile is not None and spec.conversions_per_impression != 1 and method != "per-node"
    if learn:
        _check_learn(spec, prior, method, told)
    if not spec.counts_alone or told:  # a prior that tells what a limit cuts off
        from attributary.plan.many import make_many

        return make_many(spec, tree, prior, profile, method, fixed, keep, rounding, phases, _note(tree, prior))
    question = Question(spec, tree, prior, fixed, phases, foreseen(tree, prior, tau=spec.tau) if learn else None)
    plan = _plan(question, method, rounding, keep)
    three = (plan, *(_plan(question, name, rounding, keep) for name in ("equal", "leaves")))
    sizes: list[int] = np.diff(tree.offsets).tolist()
    return plan.model_copy(
        update={"expected": Errors.of(spec.levels, sizes, *(expected(p, tree, prior, question.expects) for p in three))}
    )


def expected(plan: Plan, tree: Tree, prior: Prior, expects: Prior | None = None) -> budget.Expected:
    """What to expect of a plan on a tree, if the counts will be as in the prior.

    Of unbiased estimates, or of those that use `expects`, as `prior.foreseen` gives it.
    """
    weights = np.maximum(prior.mean, 0.0) if plan.spec.weights == "counts" else None
    share, spread = (None, None) if expects is None else (expects.share, expects.spread)
    given = (tree, prior.mean, plan.variance(tree), plan.spec.tau)
    return budget.expected(*given, weights=weights, share=share, spread=spread)


def _plan(question: Question, method: str, rounding: Rounding, keep: Collection[str]) -> Plan:
    """A plan without its errors."""
    spec, tree, prior = question.spec, question.tree, question.prior
    found = contributions(question, shares(question, method), rounding, keep)
    roots = {}
    if found.roots is not None:
        labels = tree.labels[0].cast("string").to_pylist()
        own = ~question.new
        roots = {label: tuple(row) for label, row, its in zip(labels, found.roots.tolist(), own, strict=True) if its}
    nodes: Any = None
    if found.nodes is not None:
        nodes = tree.table().append_column("contribution", [tree.from_level_order(found.nodes)])
    return Plan(
        method=method,
        rounding=rounding,
        levels=spec.levels,
        default=tuple(found.default.tolist()),
        roots=roots,
        checksum=None if nodes is None else checksum(nodes),
        nodes=nodes,
        prior=_note(tree, prior),
        expected=_NO_ERRORS,
        learn=None if question.expects is None else True,
        spec=spec,
    )


_NO_ERRORS = Errors(levels=(), tree=Compared(plan=0, equal=0, leaves=0), roots=Compared(plan=0, equal=0, leaves=0))


def _note(tree: Tree, prior: Prior) -> PriorNote:
    return PriorNote(
        history=prior.history,
        protected=prior.protected,
        conversions=float(prior.mean[tree.parent < 0].sum()),
        new=0 if prior.new is None else int(prior.new.sum()),
        gone=prior.gone,
        lost=prior.lost,
    )


def _check_learn(spec: Spec, prior: Prior, method: str, told: bool) -> None:
    """Refuses what does not go with a plan for estimates that use what is known."""
    if method != "optimal":
        raise InputError(f"a plan for what is learned is made by the method optimal; got {method}: leave one out")
    if not spec.counts_alone or told:
        raise InputError("a plan for what is learned is for counts of one conversion to an impression; leave learn out")
    if not prior.history:
        raise InputError("a plan for what is learned needs a prior: what an earlier period shared; give one")


def _fixed(spec: Spec, share: Mapping[str, float], keep: Collection[str]) -> Floats:
    """The share of each level that is fixed, nan for the others."""
    for level in (*share, *keep):
        if level not in spec.levels:
            raise InputError(f"there is no level {level!r}; the levels are {', '.join(spec.levels)}")
    fixed = np.array([share.get(level, np.nan) for level in spec.levels], np.float64)
    if not ((fixed >= 0) | np.isnan(fixed)).all() or not np.nansum(fixed) <= 1 + 1e-12:
        raise InputError(f"shares are parts of ε, 0 or more, that sum to 1 at most; got {dict(share)}")
    if not (fixed[-1] > 0 or np.nansum(fixed[:-1]) < 1) or fixed[-1] == 0:
        raise InputError(
            f"{spec.levels[-1]!r} cannot be told without a key; give it a share, or leave it out of the spec"
        )
    unknown = [share.get(attribute.name, 0.0) for attribute in spec.unknown]
    if spec.neighbours == "definition-1" and sum(unknown) > 0.5:
        raise InputError(
            f"under definition-1 the unknown levels share half of ε; got {sum(unknown):g} for them: lower it"
        )
    return fixed
