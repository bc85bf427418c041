"""run_counts: what a summary report would say of each count, and what denoising makes of it."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from attributary import rmsre
from attributary.denoising import Estimate
from attributary.estimates import estimates_table
from attributary.evaluate.private import private_prior
from attributary.measurements import Measurements
from attributary.pipeline.estimator import Estimator
from attributary.plan import Plan, make_plan
from attributary.prior import Prior, from_counts
from attributary.spec import Spec
from attributary.tree import Tree

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
    estimator: Estimator,
) -> Ran:
    """A plan for counts of one conversion to an impression, a summary report simulated by it, and its estimates."""
    plan = make_plan(spec, tree, prior, method, learn=estimator.uses_prior and prior.history and method == "optimal")
    stage("simulating a summary report")
    truth = from_counts(tree, after).mean
    measured = Measurements.simulate(plan, tree, truth, rng)
    stage("denoising")
    with_past = estimator.uses_prior and before is not None
    past = private_prior(spec, tree, before, rng, spec.epsilon) if with_past else None
    est = estimator.denoise(tree, measured, earlier=past, tau=spec.tau)
    off = rmsre.tree(tree, truth, np.square(est.count - truth), spec.tau)
    error = f"error of this draw: {off:.1%} of the count, or of tau if larger"
    return Ran(plan, {"count": est}, {"estimates": estimates_table(est, confidence)}, [error])
