"""run_parts: what a summary report would say of each measure, and what denoising makes of it."""

from dataclasses import replace
from typing import Any

import numpy as np

from attributary import rmsre
from attributary.cli.run_counts import Ran, Stage
from attributary.denoising import denoise
from attributary.estimates import by_measure, estimates_table
from attributary.measurements import Measurements
from attributary.pipeline.denoise_summary import estimate_measures
from attributary.pipeline.estimator import Estimator
from attributary.pipeline.read_prior import EarlierPeriod
from attributary.plan import MeasurePlan, make_plan
from attributary.prior import Prior
from attributary.profile import profile
from attributary.ratio import ratios_table
from attributary.spec import Spec
from attributary.tree import Tree
from attributary.types import Floats


def run_parts(
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
    """The same for values, or for several conversions per impression, measure by measure."""
    known = None if before is None else profile(tree, spec, before)
    plan = make_plan(spec, tree, prior, method, profile=known)
    stage("simulating a summary report and denoising it")
    truth, most = profile(tree, spec, after), plan.most_of_heads(tree)
    measures = {
        (name := part.measure.name): Measurements.simulate(
            plan, tree, truth.limited(part.measure, most, part.clip), rng, measure=name
        )
        for part in plan.by_measure
    }
    past = None
    if estimator.uses_prior and known is not None:
        limited = [known.limited(part.measure, most, part.clip) for part in plan.by_measure]
        each = [
            measured_part(part, tree, sums, prior, rng) for part, sums in zip(plan.by_measure, limited, strict=True)
        ]
        past = EarlierPeriod(each, "", "")
    estimates, errors = estimate_measures(plan, tree, measures, estimator, past), []
    for part in plan.by_measure:
        full = truth.full(part.measure)
        off = rmsre.tree(tree, full, np.square(estimates[part.measure.name].count - full), part.tau)
        errors.append(f"error of this draw: {off:.1%} of {part.measure.name}, or of its tau if larger")
    tables = {"estimates": by_measure({name: estimates_table(est, confidence) for name, est in estimates.items()})}
    divided = ratios_table(estimates, confidence)
    return Ran(plan, estimates, tables | ({} if divided is None else {"ratios": divided}), errors)


def measured_part(part: MeasurePlan, tree: Tree, limited: Floats, prior: Prior, rng: Any = None) -> Prior:
    """What a report of the earlier period, measured by the same plan, would have said."""
    est = denoise(tree, simulated_part(part, tree, limited, rng), part.variance(tree))
    return replace(prior, mean=np.asarray(est.count, np.float64), variance=est.variance, protected=True)


def simulated_part(part: MeasurePlan, tree: Tree, limited: Floats, rng: Any = None) -> Floats:
    """What a summary report would say of each node's sum, in the measure's unit; 0 where it has no key.

    A sum of values is rounded up as often as its fraction says, as each of its values would be.
    """
    model = part.plan.spec.noise_model
    return model.measure(limited / part.clip, part.plan.budget(tree), rng) * part.clip
