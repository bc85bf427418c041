"""Levels: what each level gets of the budget, what error is expected of it, and what denoising made of it."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attributary.plan import Plan
from attributary.report.estimates import Estimates
from attributary.types import Floats


class Share(NamedTuple):
    """A level's part of the budget, over the roots or nodes that have a split of their own."""

    level: str
    nodes: int
    low: float
    middle: float
    high: float
    contribution: int  # of the default split
    epsilon: float  # of the default split
    plan: float  # the errors to expect
    equal: float
    leaves: float


class Change(NamedTuple):
    """The error of a level before and after denoising: root mean squared, relative to the count or tau."""

    level: str
    nodes: int
    measured: int
    raw: float  # of the measured nodes; nan where there are none
    denoised: float  # of the nodes that can be estimated
    alike: float  # after denoising, of the measured nodes alone
    open: int  # nodes that cannot be estimated: nothing that was measured tells them apart from their siblings

    @property
    def fell(self) -> float:
        """By which part the error of the measured nodes fell."""
        return 1 - self.alike / self.raw if self.raw > 0 else np.nan


def shares(plan: Plan) -> list[Share]:
    """One for each level, top to bottom."""
    budget: Any = plan.spec.budget
    if plan.per_impression is not None:
        budget = np.array([plan.spec.l1 // plan.most(root) for root in plan.roots or [None]])
    found = []
    for i, (level, spread) in enumerate(zip(plan.expected.levels, _contributions(plan), strict=True)):
        part = np.asarray(spread, np.float64) / budget
        low, middle, high = (float(x) for x in (part.min(), np.median(part), part.max()))
        error, contribution = level.error, plan.default[i]
        epsilon = plan.epsilon()[i]
        found.append(
            Share(
                level.level,
                level.nodes,
                low,
                middle,
                high,
                contribution,
                epsilon,
                error.plan,
                error.equal,
                error.leaves,
            )
        )
    return found


def changes(est: Estimates, tau: float) -> list[Change]:
    """One for each level, top to bottom; nothing where the table does not tell the noise."""
    tree = est.tree
    if np.isnan(est.noise_variance).all():
        return []
    scale = np.maximum(tau, est.estimate)
    found = []
    for i, name in enumerate(tree.level_names):
        here = tree.slice(i)
        measured = est.measured[here]
        raw = _rms((np.sqrt(est.noise_variance[here]) / scale[here])[measured])
        after = np.sqrt(est.variance[here]) / scale[here]
        known = np.isfinite(after)
        sizes, errors = (len(measured), int(measured.sum())), (raw, _rms(after[known]), _rms(after[measured & known]))
        found.append(Change(name, *sizes, *errors, int((~known).sum())))
    return found


def _rms(values: Floats) -> float:
    return float(np.sqrt(np.mean(values**2))) if len(values) else np.nan


def _contributions(plan: Plan) -> list[NDArray[np.int64]]:
    """For each level, the contributions of all roots that have their own, or of all nodes."""
    if plan.nodes is None:
        return list(np.array(list(plan.roots.values()) or [plan.default]).T)
    level, contribution = plan.nodes.column("level").to_numpy(), plan.nodes.column("contribution").to_numpy()
    return [contribution[level == i] for i in range(len(plan.levels))]
