"""One way to split the budget of one case at one τ, under every ε: the unit of work, and of resuming."""

import hashlib
import json
import pickle
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import groupby
from math import sqrt
from types import CodeType, FunctionType
from typing import Any, NamedTuple

import numpy as np

from attributary import __version__
from attributary.estimators import Background
from attributary.evaluate.case import Case
from attributary.evaluate.case_measures import OneMeasure, measures_by_epsilon
from attributary.evaluate.methods import ZEROS, Method
from attributary.evaluate.pooling import Pool, PooledErrors, Pooling, exact
from attributary.evaluate.simulation import SimulatedNoise, simulate
from attributary.measurements import Measurements
from attributary.noise import page_of

Row = dict[str, Any]


class GridTask(NamedTuple):
    """Methods that split the budget alike, on one case, at one τ and under every ε."""

    case: str  # its key
    tau: float
    methods: tuple[Method, ...]  # of one split
    epsilons: tuple[float, ...]
    draws: int  # 0: closed forms only
    seed: int
    pool: Pool = "nodes"
    coverage: bool = False  # whether intervals are tried, too

    @property
    def key(self) -> str:
        """A name for all that the answer depends on; a method goes by its name and by its code."""
        names = [(m.name, m.scales, m.estimator.batched, m.estimator.linear, *_code(m)) for m in self.methods]
        parts: list[Any] = [__version__, self.case, self.tau, names, self.epsilons, self.draws, self.seed, self.pool]
        return hashlib.blake2b(json.dumps([*parts, self.coverage]).encode(), digest_size=16).hexdigest()

    def work(self, case: Case) -> float:
        """About how much there is to do: the largest tasks come first, so that workers end together."""
        method = self.methods[0]
        splits = 1 if page_of(case.noise).proportional and method.scales else len(self.epsilons)
        plan = splits * method.split.work
        return case.nodes * (plan + len(self.epsilons) * self.draws * (1 + len(self.methods)))


OURS = "attributary."  # whose code goes by its version


def _code(method: Method) -> list[str]:
    """A digest of the functions of a method, and of those of the user that they call."""
    return [
        hashlib.blake2b(b"\0".join(_parts(function, set())), digest_size=16).hexdigest()
        for function in (method.split.split, method.estimator.make)
    ]


def _parts(value: Any, seen: set[int]) -> Iterator[bytes]:
    """What makes a function what it is: its code, constants, defaults, and the functions and values that it uses."""
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, partial):
        yield from _parts((value.func, value.args, value.keywords), seen)
    elif isinstance(value, CodeType):
        yield value.co_code + " ".join(value.co_names).encode()
        yield from _parts(value.co_consts, seen)
    elif isinstance(value, FunctionType):
        yield f"{value.__module__}.{value.__qualname__}".encode()
        if (value.__module__ or "").startswith(OURS):
            return
        used = [value.__globals__[name] for name in value.__code__.co_names if name in value.__globals__]
        cells = [cell.cell_contents for cell in value.__closure__ or ()]
        yield from _parts((value.__code__, value.__defaults__, value.__kwdefaults__, *used, *cells), seen)
    elif isinstance(value, tuple | list):
        for part in value:
            yield from _parts(part, seen)
    elif isinstance(value, dict):
        yield from _parts([part for pair in value.items() for part in pair], seen)
    else:
        try:
            yield pickle.dumps(value)
        except (pickle.PicklingError, AttributeError, TypeError):
            yield repr(type(value)).encode()


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
    pooling = Pooling.of(alone.tree, alone.truth, one.tau, task.pool, case.spec.weigh)
    known = Background(alone.prior, one.tau, one.worth)
    noises = [
        SimulatedNoise(case.noise, each.epsilon, case.spec.l1, each.share, case.spec.delta or 0.0) for each in ones
    ]
    rows = [row for method in task.methods for row in _exactly(task, alone, method, noises, pooling, known)]
    methods = [method for method in task.methods if method.name != ZEROS]
    if task.draws and methods:
        kinds = [method.estimator for method in methods]
        drawn = simulate(alone, noises, kinds, pooling, task.draws, task.seed, known, task.coverage)
        for noise, by_method in zip(noises, drawn, strict=True):
            for method, errors in zip(methods, by_method, strict=True):
                rows += _rows(alone, task, method, noise.epsilon, "simulated", errors)
    if case.limits is None:
        return rows
    cut = exact(pooling, np.zeros(case.nodes), alone.count - alone.truth).rmsre.tolist()
    names = {"tree": case.name, "measure": one.measure.name, "limits": case.limits.name}
    more = {"clip": one.clip, "conversions_per_impression": one.most, "measure_tau": one.tau}
    return [row | names | more | {"bias": cut[i % len(cut)]} for i, row in enumerate(rows)]


def _exactly(
    task: GridTask, case: Case, method: Method, noises: list[SimulatedNoise], pooling: Pooling, known: Background
) -> list[Row]:
    """The errors of a linear estimator: its variances, and how far its counts are off where there is no noise."""
    if not method.estimator.linear:
        return []
    rows: list[Row] = []
    before: SimulatedNoise | None = None
    for noise in noises:
        if before is None or noise.share is not before.share or np.any(case.rounding):
            variance = (noise.variance + case.rounding) / noise.scale  # as parts of the noise's scale
            unit = method.estimator.make(case.tree, Measurements(case.count, variance, noise.shape), known)
        before = noise
        errors = exact(pooling, unit.variance * noise.scale, unit.count - case.truth)
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
            "title": method.title,
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
    for i, row in enumerate(rows):
        row["squared"] = None if errors.draws is None else errors.draws[:, i].tolist()
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
    if rows[0]["squared"] is not None:
        whole["squared"] = np.average([row["squared"] for row in rows], axis=0, weights=part).tolist()
    whole["below_10_percent"] = sum(row["below_10_percent"] for row in rows) / len(rows)
    if rows[0]["standard_error"] is not None:
        errors = (p * row["rmsre"] * row["standard_error"] for p, row in zip(part, rows, strict=True))
        whole["standard_error"] = sqrt(sum(e**2 for e in errors)) / whole["rmsre"] if whole["rmsre"] > 0 else 0.0
    return whole
