"""run_parts: what a summary report would say of each measure, and what denoising makes of it."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attributary import rmsre
from attributary.cli.estimates import by_measure, of_nodes
from attributary.denoising import Estimate, denoise
from attributary.noise import sample_dlap
from attributary.plan import Plan
from attributary.plan.parts import Part, most_by_head, parts
from attributary.profile import Profile
from attributary.ratio import ratio
from attributary.spec.measure import COUNT
from attributary.tree import Tree

Floats = NDArray[np.float64]


class Done(NamedTuple):
    estimates: dict[str, Estimate]
    errors: dict[str, float]  # of this very draw, limits included
    table: Any
    ratios: Any  # None where there is nothing to divide


def run_parts(plan: Plan, tree: Tree, truth: Profile, rng: Any, confidence: float, **how: Any) -> Done:
    """A summary report simulated and denoised, measure by measure."""
    most, found, errors = most_by_head(plan, tree), {}, {}
    whole = how.pop("whole", False)
    for part in parts(plan):
        measure = part.measure
        noisy = simulated_part(part, tree, truth.limited(measure, most, part.clip), rng)
        shape: Any = "laplace" if plan.spec.noise == "api" else "dlap"
        est = denoise(tree, noisy, part.variance(tree), shape=shape, whole=whole and measure.is_count, **how)
        full = truth.full(measure)
        errors[measure.name] = rmsre.tree(tree, full, np.square(est.count - full), part.tau)
        found[measure.name] = est
    table = by_measure({name: of_nodes(est, confidence) for name, est in found.items()})
    return Done(found, errors, table, ratios(found, tree, confidence))


def simulated_part(part: Part, tree: Tree, limited: Floats, rng: Any = None) -> Floats:
    """What a summary report would say of each node's sum, in the measure's unit; 0 where it has no key.

    A sum of values is rounded up as often as its fraction says, as each of its values would be.
    """
    spec, contribution = part.plan.spec, part.contribution(tree)
    exact = limited / part.clip * (contribution if spec.noise == "api" else contribution > 0)
    chance = (rng or np.random.default_rng()).random(len(tree))
    sums = np.floor(exact + 1e-9) + (chance < exact - np.floor(exact + 1e-9))
    for amount in np.unique(contribution[contribution > 0]) if spec.noise != "api" else [1]:
        here = contribution == amount if spec.noise != "api" else contribution > 0
        sums[here] += sample_dlap(spec.epsilon * int(amount) / spec.l1, int(here.sum()), rng)
    scale = np.maximum(contribution, 1) if spec.noise == "api" else 1
    noisy: Floats = np.where(contribution > 0, sums * part.clip / scale, 0.0)
    return noisy


def ratios(estimates: dict[str, Estimate], tree: Tree, confidence: float) -> Any:
    """What a conversion brings at each node, for each value; None without counts and values to divide."""
    import pyarrow as pa

    if COUNT not in estimates or len(estimates) == 1:
        return None
    tables = []
    for name, est in estimates.items():
        if name == COUNT:
            continue
        found = ratio(est, estimates[COUNT], confidence)
        table = tree.table().add_column(0, "measure", pa.array([f"{name} per conversion"] * len(tree)))
        for column, values in zip(("estimate", "variance", "low", "high"), found, strict=True):
            table = table.append_column(column, pa.array(values, mask=np.isnan(values)))
        tables.append(table)
    return pa.concat_tables(tables)
