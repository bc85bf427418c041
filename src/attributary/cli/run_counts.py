"""run_counts: what a summary report would say of each count, and what denoising makes of it."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from attributary import rmsre
from attributary.denoising import Estimate, denoise
from attributary.estimates import estimates_table
from attributary.evaluate.private import private_prior
from attributary.plan import Plan, make_plan
from attributary.prior import Prior, from_counts, learn
from attributary.spec import Spec
from attributary.tree import Tree
from attributary.types import Floats

Stage = Callable[[str], None]


class Ran(NamedTuple):
    """What a run came to, whatever it measured."""

    plan: Plan
    estimates: dict[str, Estimate]  # by measure
    tables: dict[str, Any]  # to write, the estimates first
    errors: list[str]  # of this very draw, in words


def run_counts(
    spec: Spec,
    tree: Tree,
    prior: Prior,
    before: Any,
    after: Any,
    method: str,
    rng: Any,
    confidence: float,
    stage: Stage,
    use_prior: bool,
    **how: Any,
) -> Ran:
    """A plan for counts of one conversion to an impression, a summary report simulated by it, and its estimates."""
    plan = make_plan(spec, tree, prior, method, learn=use_prior and prior.history and method == "optimal")
    stage("simulating a summary report")
    truth = from_counts(tree, after).mean
    noisy, variance = simulated(plan, tree, truth, rng), plan.variance(tree)
    stage("denoising")
    shape = spec.noise_model.shape.name
    past = private_prior(spec, tree, before, rng, spec.epsilon) if use_prior and before is not None else None
    expected = learn(tree, noisy, variance, past, tau=spec.tau) if use_prior else None
    est = denoise(tree, noisy, variance, prior=expected, shape=shape, **how)
    off = rmsre.tree(tree, truth, np.square(est.count - truth), spec.tau)
    error = f"error of this draw: {off:.1%} of the count, or of tau if larger"
    return Ran(plan, {"count": est}, {"estimates": estimates_table(est, confidence)}, [error])


def simulated(plan: Plan, tree: Tree, count: Floats, rng: Any = None) -> Floats:
    """What a summary report would say of each node, as a count; 0 where it has no key."""
    return plan.spec.noise_model.measure(count, plan.budget(tree), rng)
