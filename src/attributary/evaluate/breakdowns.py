"""breakdowns: the errors of several breakdowns, whose budget is divided by one plan of all or by plans of each."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from attributary.denoising import Estimate
from attributary.estimators import Estimator
from attributary.evaluate.case import Case
from attributary.evaluate.methods import Method
from attributary.evaluate.simulation import Pool, PooledErrors, Pooling, exact, of_draws, with_tree
from attributary.facts.evaluation import ZEROS
from attributary.measurements import Measurements
from attributary.pipeline.denoise_summary import estimate_breakdowns, estimate_measures
from attributary.plan import Plan
from attributary.plan.make import each_asked, solve
from attributary.plan.proposals import Wishes
from attributary.plan.together import plan_together
from attributary.spec.measure import COUNT
from attributary.types import Floats


def joint_plan(case: Case, split: str) -> Plan:
    """The plan that divides the budget by "optimal", as `run` does, or plans each by itself: "apart", "equal-parts"."""
    trees, priors = [one.labelled or one.tree for one in case.breakdowns], [one.prior for one in case.breakdowns]
    parts = [1 / len(trees)] * len(trees) if split == "equal-parts" else None
    each = each_asked(case.spec, trees, priors)
    return plan_together(case.spec, each, Wishes("optimal"), solve, join=split == "optimal", parts=parts)


def joint_errors(case: Case, method: Method, draws: int, seed: int, pool: Pool) -> Iterator[list[PooledErrors]]:
    """The errors of each breakdown, exact and simulated; draw i is `run` with the generator default_rng([seed, i])."""
    trees, truth = [one.labelled or one.tree for one in case.breakdowns], [one.count for one in case.breakdowns]
    poolings = [Pooling.of(t, c, case.spec.tau, pool, case.spec.weigh) for t, c in zip(trees, truth, strict=True)]
    if method.name == ZEROS:
        yield [exact(pooling, 0 * count, count) for pooling, count in zip(poolings, truth, strict=True)]
        return
    plan = joint_plan(case, method.split.name)
    each = list(zip(plan.parts, trees, truth, strict=True))

    def measured(draw: int) -> list[Measurements]:
        rng = np.random.default_rng([seed, draw])
        return [Measurements.simulate(one, tree, count, rng) for one, tree, count in each]

    def estimates(figures: list[Measurements]) -> list[Estimate]:
        measures = [{COUNT: m} for m in figures]
        if method.split.name == "optimal":
            made = estimate_breakdowns(plan, trees, measures, Estimator())
        else:
            made = [estimate_measures(p, t, m, Estimator()) for (p, t, _), m in zip(each, measures, strict=True)]
        return [one[COUNT] for one in made]

    still = estimates([replace(m, noisy=count) for m, count in zip(measured(0), truth, strict=True)])
    yield [exact(p, est.variance, est.count - c) for p, est, c in zip(poolings, still, truth, strict=True)]
    squared, nodes = [list[Floats]() for _ in truth], [0 * count for count in truth]
    for draw in range(draws):
        for k, est in enumerate(estimates(measured(draw))):
            off = np.square((est.count - truth[k]) * poolings[k].relative)
            squared[k].append(with_tree(poolings[k].levels(off)))
            nodes[k] += off / draws
    if draws:
        yield [of_draws(np.array(s), n, pooling) for s, n, pooling in zip(squared, nodes, poolings, strict=True)]
