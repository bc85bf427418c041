"""One way to split the budget of one case at one τ, under every ε: the unit of work, and of resuming."""

import hashlib
import json
from collections.abc import Sequence
from itertools import groupby
from math import sqrt
from typing import Any, NamedTuple

import numpy as np

from attributary import __version__
from attributary.evaluate.case import Case
from attributary.evaluate.case_measures import OneMeasure, measures_by_epsilon
from attributary.evaluate.methods import Method
from attributary.evaluate.pooling import Pool, PooledErrors, Pooling, exact
from attributary.evaluate.simulation import SimulatedNoise, Tried, simulate
from attributary.evaluate.splits import Way
from attributary.noise import page_of

Row = dict[str, Any]

# About how long a split takes, in draws of noise.
WORK = {"equal": 1, "leaves": 1, "greedy": 40, "greedy_raw": 20, "optimal": 150, "planned": 400, "per_node": 400}


class GridTask(NamedTuple):
    """Methods that split the budget alike, on one case, at one τ and under every ε."""

    case: str  # its key
    tau: float
    methods: tuple[Method, ...]  # of one way
    epsilons: tuple[float, ...]
    draws: int  # 0: closed forms only
    seed: int
    pool: Pool = "nodes"
    coverage: bool = False  # whether intervals are tried, too

    @property
    def way(self) -> Way:
        return self.methods[0].way

    @property
    def key(self) -> str:
        """A name for all that the answer depends on; functions go by their names."""
        names = [
            (m.name, _name(m.way), _name(m.estimator or m.intervals), _name(m.variance), m.by_epsilon, m.batched)
            for m in self.methods
        ]
        parts: list[Any] = [__version__, self.case, self.tau, names, self.epsilons, self.draws, self.seed, self.pool]
        if self.coverage:
            parts += [[_name(m.intervals) for m in self.methods]]
        return hashlib.blake2b(json.dumps(parts).encode(), digest_size=16).hexdigest()

    def work(self, case: Case) -> float:
        """About how much there is to do: the largest tasks come first, so that workers end together."""
        splits = 1 if page_of(case.noise).proportional else len(self.epsilons)
        plan = splits * WORK.get(self.way.__name__, WORK["optimal"])
        return case.nodes * (plan + len(self.epsilons) * self.draws * (1 + len(self.methods)))


def _name(function: Any) -> str:
    return "" if function is None else f"{function.__module__}.{function.__qualname__}"


def answer(task: GridTask, case: Case) -> list[Row]:
    """The rows of the evaluation table for a task: of each measure and, if there are several, of all together."""
    rows: list[Row] = []
    by_epsilon = measures_by_epsilon(case, task.methods, task.tau, task.epsilons)
    for _, same in groupby(by_epsilon, key=lambda measures: measures[0].case):  # counts alone: the same at every ε
        measures = list(zip(*same, strict=True))
        each = [_of_measure(task, case, ones) for ones in measures]
        rows += [row for of_measure in each for row in of_measure]
        if len(each) > 1:
            weights = [ones[0].measure.weight for ones in measures]
            rows += [_together(alike, weights) for alike in zip(*each, strict=True)]
    return rows


def _of_measure(task: GridTask, case: Case, ones: Sequence[OneMeasure]) -> list[Row]:
    """The rows of one measure, whose counts are the same at each of some ε."""
    one, alone = ones[0], ones[0].case
    pooling = Pooling.of(alone.tree, alone.truth, one.tau, task.pool)
    noises = [
        SimulatedNoise(case.noise, each.epsilon, case.spec.l1, each.share, case.spec.delta or 0.0) for each in ones
    ]
    rows = [row for method in task.methods for row in _exactly(task, alone, method, noises, pooling)]
    methods = [method for method in task.methods if not method.blind]
    if task.draws and methods:
        shows = [task.coverage or m.estimator is None for m in methods]
        tried = [
            Tried(m.estimator, m.intervals if show else None, m.batched) for m, show in zip(methods, shows, strict=True)
        ]
        drawn = simulate(alone, noises, tried, pooling, task.draws, task.seed)
        for noise, by_method in zip(noises, drawn, strict=True):
            for method, errors in zip(methods, by_method, strict=True):
                rows += _rows(alone, task, method, noise.epsilon, "simulated", errors)
    if case.limits is None:
        return rows
    cut = exact(pooling, np.zeros(case.nodes), alone.count - alone.truth).rmsre.tolist()
    names = {"tree": case.name, "measure": one.measure.name, "limits": case.limits.name}
    more = {"clip": one.clip, "conversions_per_impression": one.most, "measure_tau": one.tau}
    return [row | names | more | {"bias": cut[i % len(cut)]} for i, row in enumerate(rows)]


def _exactly(task: GridTask, case: Case, method: Method, noises: list[SimulatedNoise], pooling: Pooling) -> list[Row]:
    if method.variance is None:
        return []
    rows: list[Row] = []
    before: SimulatedNoise | None = None
    for noise in noises:
        if before is None or noise.share is not before.share or np.any(case.rounding):
            noisy = noise.variance + case.rounding
            unit = method.variance(case.tree, noisy / noise.scale)  # as parts of the noise's scale
        before = noise
        bias = (0.0 if method.blind else case.count) - case.truth  # denoising leaves it as it is
        errors = exact(pooling, unit * noise.scale, bias)
        rows += _rows(case, task, method, noise.epsilon, "exact", errors)
    return rows


def _rows(case: Case, task: GridTask, method: Method, epsilon: float, kind: str, errors: PooledErrors) -> list[Row]:
    sizes = [*np.diff(case.tree.offsets).tolist(), case.nodes]
    each = zip([*case.spec.levels, None], sizes, *(values.tolist() for values in errors[:3]), strict=True)
    rows: list[Row] = [
        {
            "dataset": case.dataset,
            "tree": case.name,
            "method": method.name,
            "noise": case.noise,
            "epsilon": epsilon,
            "tau": task.tau,
            "level": level,
            "rmsre": rmsre,
            "standard_error": None if kind == "exact" or np.isnan(error) else error,
            "kind": kind,
            "below_10_percent": below,
            "nodes": nodes,
            "draws": 0 if kind == "exact" else task.draws,
            "pool": task.pool,
            "generated": case.generated,
        }
        for level, nodes, rmsre, error, below in each
    ]
    if task.coverage:
        for i, row in enumerate(rows):
            for name, values in (("coverage", errors.coverage), ("coverage_error", errors.coverage_error)):
                row[name] = None if values is None else float(values[i])
    return rows


def _together(rows: Sequence[Row], weights: Sequence[float]) -> Row:
    """Root mean squares over measures, by their weights; the noise of one is independent of the others'."""
    part = [weight / sum(weights) for weight in weights]

    def mean(name: str) -> float:
        return sqrt(sum(p * row[name] ** 2 for p, row in zip(part, rows, strict=True)))

    whole: Row = {name: value if all(row[name] == value for row in rows) else None for name, value in rows[0].items()}
    whole |= {"measure": None, "clip": None, "measure_tau": None, "rmsre": mean("rmsre"), "bias": mean("bias")}
    whole["below_10_percent"] = sum(row["below_10_percent"] for row in rows) / len(rows)
    if rows[0]["standard_error"] is not None:
        errors = (p * row["rmsre"] * row["standard_error"] for p, row in zip(part, rows, strict=True))
        whole["standard_error"] = sqrt(sum(e**2 for e in errors)) / whole["rmsre"] if whole["rmsre"] > 0 else 0.0
    return whole
