"""Task: one way to split the budget of one case at one τ, under every ε: the unit of work, and of resuming."""

import hashlib
import json
from typing import Any, NamedTuple

import numpy as np

from attributary import __version__
from attributary.budget import Split
from attributary.errors import InputError
from attributary.evaluate.case import Case
from attributary.evaluate.exact import exact
from attributary.evaluate.measure import Errors, Measure, Pool
from attributary.evaluate.methods import Method
from attributary.evaluate.noisy import Noise
from attributary.evaluate.simulate import Tried, simulate
from attributary.evaluate.ways import Way
from attributary.noise import page_of
from attributary.types import Floats

Row = dict[str, Any]

# About how long a split takes, in draws of noise.
WORK = {"equal": 1, "leaves": 1, "greedy": 40, "greedy_raw": 20, "optimal": 150, "planned": 400, "per_node": 400}


class Task(NamedTuple):
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


def run(task: Task, case: Case, share: Floats | None = None) -> list[Row]:
    """The rows of the evaluation table for a task; `share` takes the place of its split.

    Under the API's noise the best shares do not depend on ε, and variances are proportional to that of DLap(ε/L1): one
    split and one closed form serve every ε.
    """
    measure = Measure.of(case.tree, case.truth, task.tau, task.pool)
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


def _split(task: Task, case: Case) -> Floats:
    """The share of each node; refuses those that are no split: negative, nan, or more than 1 along a path."""
    try:
        return Split(case.tree, np.asarray(task.way(case.spec, case.tree, case.prior), np.float64), 1.0).nodes()
    except ValueError as error:
        raise InputError(f"{task.methods[0].name}: {error}") from error


def _exactly(task: Task, case: Case, method: Method, noises: list[Noise], measure: Measure) -> list[Row]:
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


def _rows(case: Case, task: Task, method: Method, kind: str, errors: Errors) -> list[Row]:
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
