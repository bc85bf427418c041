"""learned_part: what to expect of a measure's sums, from their cousins and from an earlier period."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from attributary.plan import Plan
from attributary.plan.parts import Part
from attributary.prior import Prior, learn
from attributary.tree import Tree

Floats = NDArray[np.float64]


def learned_part(part: Part, tree: Tree, noisy: Floats, past: Prior | None, worth: float) -> Prior:
    """Shares and their spread, learned in conversions' worth: how far a guess is trusted is a number of conversions."""
    variance = part.variance(tree) / worth**2
    before = None if past is None else _times(past, 1 / worth)
    return _times(learn(tree, noisy / worth, variance, before, tau=part.tau / worth), worth)


def worth_of(plan: Plan, number: int) -> float:
    """What a conversion brings on average of the plan's measure of this number, as far as is known; 1 of counts."""
    if plan.measures is None:
        return 1.0
    part = plan.measures[number]
    return part.mean if part.mean is not None and part.mean > 0 else part.clip


def _times(prior: Prior, factor: float) -> Prior:
    variance, spread = (None if v is None else v * factor**2 for v in (prior.variance, prior.spread))
    return replace(prior, mean=prior.mean * factor, variance=variance, spread=spread)
