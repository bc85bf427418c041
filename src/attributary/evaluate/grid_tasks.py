"""One way to split the budget of one case at one τ, under every ε: the unit of work, and of resuming."""

import hashlib
import json
from collections.abc import Sequence
from math import sqrt
from typing import Any, NamedTuple

import numpy as np

from attributary import __version__
from attributary.budget import Split
from attributary.errors import InputError
from attributary.evaluate.case import Case
from attributary.evaluate.measure_cases import PLANS, MeasureCase, OneMeasure, questions, shared, split
from attributary.evaluate.methods import Method
from attributary.evaluate.pooling import Pool, PooledErrors, Pooling, exact
from attributary.evaluate.simulation import Noise, Tried, simulate
from attributary.evaluate.splits import Way
from attributary.noise import page_of
from attributary.types import Floats

Row = dict[str, Any]

# About how long a split takes, in draws of noise.
WORK = {"equal": 1, "leaves": 1, "greedy": 40, "greedy_raw": 20, "optimal": 150, "planned": 400, "per_node": 400}


class GridTask(NamedTuple):
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
            (m.name, _name(m.way), _name(m.estimator), _name(m.variance), m.by_epsilon, m.batched) for m in self.methods
        ]
        said: list[Any] = [__version__, self.case, self.tau, names, self.epsilons, self.draws, self.seed, self.pool]
        if self.coverage:
            said += [[_name(m.intervals) for m in self.methods]]
        return hashlib.blake2b(json.dumps(said).encode(), digest_size=16).hexdigest()

    def work(self, case: Case) -> float:
        """About how much there is to do: the largest tasks come first, so that workers end together."""
        splits = 1 if page_of(case.noise).proportional else len(self.epsilons)
        plan = splits * WORK.get(self.way.__name__, WORK["optimal"])
        return case.nodes * (plan + len(self.epsilons) * self.draws * (1 + len(self.methods)))


def _name(function: Any) -> str:
    return "" if function is None else f"{function.__module__}.{function.__qualname__}"


def run(task: GridTask, case: Case, share: Floats | None = None) -> list[Row]:
    """The rows of the evaluation table for a task; `share` takes the place of its split.

    Under the API's noise the best shares do not depend on ε, and variances are proportional to that of DLap(ε/L1): one
    split and one closed form serve every ε.
    """
    measure = Pooling.of(case.tree, case.truth, task.tau, task.pool)
    rows: list[Row] = []
    noises: list[Noise] = []
    for epsilon in task.epsilons:
        at = case.at(task.tau, epsilon)
        if noises and page_of(case.noise).proportional and not any(method.by_epsilon for method in task.methods):
            noise = noises[0]._replace(epsilon=epsilon)
        else:
            noise = Noise(case.noise, epsilon, at.spec.l1, _split(task, at) if share is None else share)
        noises.append(noise)
    for method in task.methods:
        rows += _exactly(task, case, method, noises, measure)
    if task.draws:
        tried = [Tried(m.estimator, m.intervals if task.coverage else None, m.batched) for m in task.methods]
        found = simulate(case, noises, tried, measure, task.draws, task.seed)
        for epsilon, each in zip(task.epsilons, found, strict=True):
            for method, errors in zip(task.methods, each, strict=True):
                rows += _rows(case.at(task.tau, epsilon), task, method, "simulated", errors)
    return rows


def _split(task: GridTask, case: Case) -> Floats:
    """The share of each node; refuses those that are no split: negative, nan, or more than 1 along a path."""
    try:
        return Split(case.tree, np.asarray(task.way(case.spec, case.tree, case.prior), np.float64), 1.0).nodes()
    except ValueError as error:
        raise InputError(f"{task.methods[0].name}: {error}") from error


def _exactly(task: GridTask, case: Case, method: Method, noises: list[Noise], measure: Pooling) -> list[Row]:
    if method.variance is None:
        return []
    rows: list[Row] = []
    before: Noise | None = None
    for noise in noises:
        if before is None or noise.share is not before.share or np.any(case.rounding):
            noisy = noise.variance + case.rounding
            unit = method.variance(case.tree, noisy / noise.scale)  # as parts of the noise's scale
        before = noise
        errors = exact(measure, unit * noise.scale, case.count - case.truth)  # denoising leaves the bias as it is
        rows += _rows(case.at(task.tau, noise.epsilon), task, method, "exact", errors)
    return rows


def _rows(case: Case, task: GridTask, method: Method, kind: str, errors: PooledErrors) -> list[Row]:
    sizes = [*np.diff(case.tree.offsets).tolist(), case.nodes]
    each = zip([*case.spec.levels, None], sizes, *(values.tolist() for values in errors[:3]), strict=True)
    rows: list[Row] = [
        {
            "dataset": case.dataset,
            "tree": case.name,
            "method": method.name,
            "noise": case.noise,
            "epsilon": case.spec.epsilon,
            "tau": case.spec.tau,
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


def answer(task: GridTask, case: Case) -> list[Row]:
    """The rows of the evaluation table for a task."""
    if not isinstance(case, MeasureCase):
        return run(task, case)
    rows: list[Row] = []
    share = None
    for epsilon in task.epsilons:
        at = case.at(task.tau, epsilon)
        asked = questions(at)
        if share is None or not page_of(case.noise).proportional:
            share = split(asked, PLANS[task.way])
        ones = shared(at, asked, share)
        each = [_of_one(task, at, one, epsilon) for one in ones]
        rows += [row for found in each for row in found]
        if len(each) > 1:
            weights = [one.measure.weight for one in ones]
            rows += [_together(same, weights) for same in zip(*each, strict=True)]
    return rows


def _of_one(task: GridTask, many: MeasureCase, one: OneMeasure, epsilon: float) -> list[Row]:
    """The rows of one measure; its case is like any other, but for what limits cut off."""
    rows = run(task._replace(tau=one.tau, epsilons=(epsilon,)), one.case, one.share)
    measure = Pooling.of(many.tree, one.case.truth, one.tau, task.pool)
    cut = exact(measure, np.zeros(many.nodes), one.case.count - one.case.truth).rmsre.tolist()
    said = {"tree": many.name, "tau": task.tau, "measure": one.measure.name, "limits": many.limits.name}
    more = {"clip": one.clip, "conversions_per_impression": one.most, "measure_tau": one.tau}
    return [row | said | more | {"bias": cut[i % len(cut)]} for i, row in enumerate(rows)]


def _together(rows: Sequence[Row], weights: Sequence[float]) -> Row:
    """Root mean squares over measures, by their weights; the noise of one is independent of the others'."""
    part = [weight / sum(weights) for weight in weights]

    def mean(name: str) -> float:
        return sqrt(sum(p * row[name] ** 2 for p, row in zip(part, rows, strict=True)))

    found: Row = {name: value if all(row[name] == value for row in rows) else None for name, value in rows[0].items()}
    found |= {"measure": None, "clip": None, "measure_tau": None, "rmsre": mean("rmsre"), "bias": mean("bias")}
    found["below_10_percent"] = sum(row["below_10_percent"] for row in rows) / len(rows)
    if rows[0]["standard_error"] is not None:
        errors = (p * row["rmsre"] * row["standard_error"] for p, row in zip(part, rows, strict=True))
        found["standard_error"] = sqrt(sum(e**2 for e in errors)) / found["rmsre"] if found["rmsre"] > 0 else 0.0
    return found
