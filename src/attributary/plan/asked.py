"""asked: the question of each measure, with the tau of its unit and what limits cost it."""

from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from attributary import budget, rmsre
from attributary.budget import Split
from attributary.plan.choice import Sums
from attributary.plan.question import Question
from attributary.plan.shares import Shares
from attributary.prior import Prior
from attributary.profile import Profile
from attributary.spec import Measure, Spec
from attributary.tree import Tree
from attributary.types import Floats, Ints


@dataclass(frozen=True, eq=False)
class Asked:
    """One measure's question, with the tau of its unit."""

    measure: Measure
    question: Question
    profile: Profile | None

    @property
    def own(self) -> bool:
        """Whether roots have limits and parts of their own; a total above them is one key, fed by all alike."""
        spec = self.question.spec
        return spec.split_by is not None and not spec.total

    def squared(self, variance: Floats) -> Floats:
        """Squared errors by root, or of the whole tree, from variances or squared biases of nodes."""
        q = self.question
        given = (q.tree, q.prior.mean, variance, q.spec.tau)
        if not self.own:
            return np.array([rmsre.tree(*given, weights=q.weights) ** 2])
        return np.nan_to_num(rmsre.roots(*given, weights=q.weights) ** 2)

    def noise(self, share: Shares, m: int) -> Floats:
        """The noise variance of estimates, with all of the budget and a clip of 1."""
        q = self.question
        top, heads = int(q.spec.total), q.tree.slice(int(q.spec.total))
        rows = share.roots if share.roots is not None else np.repeat(share.default[None], heads.stop - heads.start, 0)
        rows = rows * q.spec.epsilon / m
        given = Split(
            q.tree, rows[:, top:], q.spec.epsilon, q.spec.noise, q.spec.l1, float(rows[0, 0]) if top else None
        )
        return budget.expected(q.tree, q.prior.mean, given, q.spec.tau, weights=q.weights).variance

    def bias(self, most: int | Ints, clip: float) -> Floats:
        """What limits cut off each node's sum."""
        if self.profile is None:
            return np.zeros(len(self.question.tree))
        return self.profile.limited(self.measure, most, clip) - self.question.prior.mean


def ask(
    spec: Spec, measure: Measure, tree: Tree, prior: Prior, profile: Profile | None, fixed: Floats, phases: int
) -> Asked:
    """A measure's question: sums without limits as the prior, and a tau of tau conversions' worth."""
    mean = prior.mean if profile is None else profile.full(measure)
    if profile is None and not measure.is_count:
        mean = np.zeros(len(tree))
    worth = 1.0 if measure.is_count else (profile.mean(measure) if profile is not None else float("nan"))
    worth = worth if worth > 0 else (measure.limit or 1.0)
    tau = measure.tau if measure.tau is not None else spec.tau * worth
    return Asked(
        measure,
        Question(spec.model_copy(update={"tau": tau}), tree, replace(prior, mean=mean), fixed, phases),
        profile,
    )


def sums_of(asked: Asked, share: Shares, spec: Spec) -> Sums:
    """The squared errors of a measure under limits, each worked out once."""
    base = asked.squared(asked.noise(share, 1))

    @cache
    def noise(m: int) -> Floats:
        return base * m**2 if spec.noise_model.proportional else asked.squared(asked.noise(share, m))

    @cache
    def bias(m: int, clip: float) -> Floats:
        return asked.squared(asked.bias(m, clip) ** 2)

    limit = asked.measure.limit
    clips = [limit] if limit is not None else asked.profile.clips(asked.measure) if asked.profile else []
    return Sums(asked.measure.weight, clips, noise, bias)


def mean_of(asked: Asked) -> float | None:
    """What a conversion is worth on average; None where that is not known."""
    if asked.profile is None or asked.measure.is_count:
        return None
    mean = asked.profile.mean(asked.measure)
    return None if np.isnan(mean) else mean
