"""run_parts: what a summary report would say of each measure, and what denoising makes of it."""

from dataclasses import replace
from typing import Any

import numpy as np

from attributary import rmsre
from attributary.cli.learned import learned_part
from attributary.cli.run_counts import Ran, Stage
from attributary.denoising import denoise
from attributary.estimates import by_measure, estimates_table
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
    use_prior: bool,
    **how: Any,
) -> Ran:
    """The same for values, or for several conversions to an impression, measure by measure."""
    known = None if before is None else profile(tree, spec, before)
    plan = make_plan(spec, tree, prior, method, profile=known)
    stage("simulating a summary report and denoising it")
    truth, most = profile(tree, spec, after), plan.most_of_heads(tree)
    own = plan.by_measure
    figures = [simulated_part(part, tree, truth.limited(part.measure, most, part.clip), rng) for part in own]
    found, errors, whole = {}, [], how.pop("whole", False)
    shape = spec.noise_model.shape.name
    for part, noisy in zip(own, figures, strict=True):
        measure, expected = part.measure, None
        if use_prior:
            past = (
                None
                if known is None
                else measured_part(part, tree, known.limited(measure, most, part.clip), prior, rng)
            )
            expected = learned_part(part, tree, noisy, part.variance(tree), past, part.share.worth)
        rounded = whole and measure.is_count
        est = denoise(tree, noisy, part.variance(tree), prior=expected, shape=shape, whole=rounded, **how)
        full = truth.full(measure)
        off = rmsre.tree(tree, full, np.square(est.count - full), part.tau)
        errors.append(f"error of this draw: {off:.1%} of {measure.name}, or of its tau if larger")
        found[measure.name] = est
    tables = {"estimates": by_measure({name: estimates_table(est, confidence) for name, est in found.items()})}
    divided = ratios_table(found, confidence)
    return Ran(plan, found, tables | ({} if divided is None else {"ratios": divided}), errors)


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
