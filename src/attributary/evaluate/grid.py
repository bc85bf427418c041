"""evaluate: methods × ε × τ × cases → one tidy table."""

import hashlib
import json
import multiprocessing
import os
import pickle
import signal
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from itertools import groupby
from math import sqrt
from threading import Thread
from typing import NamedTuple

import numpy as np

from attributary import __version__
from attributary.errors import InputError
from attributary.estimators import Background
from attributary.evaluate.case import Case, OneMeasure, fixed, measures_by_epsilon, usable
from attributary.evaluate.comparison import Evaluation, keys
from attributary.evaluate.methods import Method, chosen
from attributary.evaluate.methods import methods as every_method
from attributary.evaluate.simulation import (
    Pool,
    PooledErrors,
    Pooling,
    SimulatedNoise,
    exact,
    joint_errors,
    simulate,
)
from attributary.facts.evaluation import ZEROS
from attributary.kernel import usable_threads
from attributary.measurements import Measurements
from attributary.noise import page_of
from attributary.tables.table_columns import mark
from attributary.types import Record

EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
TAUS = (5.0, 10.0)
DRAWS = 50
MANY = ("clip", "conversions_per_impression", "measure_tau", "bias")  # columns where limits cut something off
PAYS = 2e8  # work from which a second process pays, which takes a second or two to start
Progress = Callable[[int, int], None]  # is called with how many tasks are done, and of how many


class Store:
    """Finished results of a grid; with the path of a file, `evaluate` continues after an interruption.

    A line is written and synced for each finished task. The last may be cut off: then its task is done again. Methods
    of yours are not kept, since their code may change.
    """

    def __init__(self, path: str | None = None) -> None:
        self._path = path
        self._rows = {} if path is None else _read(path)

    def get(self, key: str) -> list[Record] | None:
        """The rows of a finished task; None if it is not finished."""
        return self._rows.get(key)

    def put(self, key: str, rows: list[Record]) -> None:
        self._rows[key] = rows
        if self._path is None:
            return
        try:
            with open(self._path, "a+b") as file:
                if file.tell() > 0:
                    file.seek(-1, os.SEEK_END)
                cut_off = file.read(1) not in (b"", b"\n")
                file.write(b"\n" * cut_off + json.dumps([key, rows]).encode() + b"\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise InputError(f"{self._path} cannot be written: {error.strerror}") from error


def _read(path: str) -> dict[str, list[Record]]:
    by_key = {}
    try:
        with open(path, "rb") as file:
            for line in file:
                try:
                    key, rows = json.loads(line)
                except ValueError:  # cut off
                    continue
                by_key[key] = rows
    except FileNotFoundError:
        pass
    except OSError as error:
        raise InputError(
            f"{path} cannot be read: {error.strerror}; choose another folder for what is cached"
        ) from error
    return by_key


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

    def key(self) -> str:
        """A name for all that the answer depends on; what ships goes by its version."""
        held = [
            [x for part in (m.split, m.estimator) for x in vars(part).values() if not callable(x)] for m in self.methods
        ]
        names = [(m.name, m.planned, repr(settings)) for m, settings in zip(self.methods, held, strict=True)]
        parts: list[object] = [__version__, self.case, self.tau, names, self.epsilons, self.draws, self.seed, self.pool]
        return hashlib.blake2b(json.dumps([*parts, self.coverage]).encode(), digest_size=16).hexdigest()

    def lasting(self, case: Case) -> bool:
        """Whether the answer stays the same as long as the version does: only Attributary's own functions make it."""
        functions = [case.spec.weigh, type(case.spec.noise_model)]
        functions += [function for m in self.methods for function in (m.split.split, m.estimator.make)]
        return all(str(getattr(function, "__module__", "")).startswith("attributary.") for function in functions)

    def work(self, case: Case) -> float:
        """About how much there is to do: the largest tasks come first, so that workers end together."""
        method = self.methods[0]
        splits = 1 if page_of(case.noise).proportional and method.scales else len(self.epsilons)
        plan = splits * method.split.work
        return case.nodes * (plan + len(self.epsilons) * self.draws * (1 + len(self.methods)))


def evaluate(
    cases: Sequence[Case],
    methods: Collection[str] | Sequence[Method] | None = None,
    *,
    estimators: Collection[str] = (),
    epsilons: Collection[float] = EPSILONS,
    taus: Collection[float] = TAUS,
    draws: int = DRAWS,
    seed: int = 0,
    pool: Pool = "nodes",
    coverage: bool = False,
    zeros: bool = False,
    workers: int | None = 1,
    store: Store | None = None,
    progress: Progress | None = None,
) -> Evaluation:
    """The errors of methods on cases: a row for each method, ε, τ and level, and one for the tree, whose level is null.

    `methods` are names (see `methods()`), names of splits ("optimal"), or methods of your own (`Method`); by
    default all but the slow ones. `estimators` keeps those with these estimators (`estimators.ESTIMATORS`); limit0 and
    limit1 are for generated forests. With `zeros`, answering 0 everywhere is among the methods whatever they are.
    Linear methods have rows of kind "exact", in closed form; with draws, all but zeros have rows of kind "simulated"
    and their standard error.
    Cases of several measures have rows for each measure, and for all together, whose measure is null.

    `draws` is the number of noise draws, 0 for closed forms only. `pool` says whether errors are averaged over all
    nodes of a level, or whether each root has the same weight. With `coverage`, two more columns have the share of 95 %
    intervals with the true count, for methods that give intervals, and its standard error. The same seed gives the same
    table, however many `workers` (processes) there are; None means one for each core where that pays. `store` keeps
    finished results, and `progress` is called with the number of finished tasks and of all tasks.
    """
    if not cases:
        raise InputError("there is nothing to evaluate; give a case")
    case_of = {case.key: case for case in cases}
    names = [(case.dataset, case.name, case.noise, case.limits) for case in cases]
    if len(set(names)) < len(names):
        raise InputError("two cases have the same dataset and tree; give one of them another name")
    named = methods is not None or bool(estimators)
    tried = _methods(methods, estimators)
    tried += (every_method()[ZEROS],) if zeros and ZEROS not in {method.name for method in tried} else ()
    epsilons, taus = _numbers("epsilon", epsilons), _numbers("tau", taus)
    if not draws >= 0 or draws == 1:
        raise InputError(f"draws are 2 or more, or 0 for closed forms alone; got {draws}")
    tasks = [
        GridTask(case.key, tau, tuple(group), epsilons, draws, seed, pool, coverage)
        for case in cases
        for tau in taus
        for group in _by_split(usable(case, tried, named))
    ]
    if coverage and any(case.breakdowns for case in cases):
        raise InputError("coverage is of one tree, and the spec has several breakdowns; leave it out")
    kept, by_key = store or Store(), {task.key(): task for task in tasks}
    lasting = {key for key, task in by_key.items() if task.lasting(case_of[task.case])}
    finished = {key: rows for key in lasting if (rows := kept.get(key)) is not None}
    work = {key: task.work(case_of[task.case]) for key, task in by_key.items() if key not in finished}
    left = {key: by_key[key] for key in sorted(work, key=lambda key: -work[key])}
    tell = progress or (lambda done, of: None)
    tell(len(finished), len(tasks))
    pays = sum(work.values()) >= PAYS
    processes = workers if workers is not None else usable_threads() if pays else 1
    for key, rows in answers(left, case_of, processes):
        finished[key] = rows
        if key in lasting:
            kept.put(key, rows)
        tell(len(finished), len(tasks))
    table, squared = _tables([row for key in by_key for row in finished[key]], tasks)
    return Evaluation(mark(table, *(case.not_private for case in cases)), squared)


def _by_split(methods: tuple[Method, ...]) -> Iterable[list[Method]]:
    """The methods that share a split, together."""
    groups: dict[object, list[Method]] = {}
    for method in methods:
        groups.setdefault((method.split, method.planned, method.raw), []).append(method)
    return groups.values()


def _methods(methods: Collection[str] | Sequence[Method] | None, estimates: Collection[str]) -> tuple[Method, ...]:
    if methods is not None and not methods:
        raise InputError("there is nothing to evaluate; give a method")
    new = tuple(method for method in methods or () if isinstance(method, Method))
    named = [method for method in methods or () if isinstance(method, str)]
    tried = new + (chosen(named, estimates) if named or methods is None else ())
    names = [method.name for method in tried]
    if twice := {name for name in names if names.count(name) > 1}:
        raise InputError(f"two methods are named {min(twice)!r}; give one of their parts another name")
    return tried


def _numbers(name: str, values: Collection[float]) -> tuple[float, ...]:
    numbers = tuple(float(number) for number in values)
    bad = [number for number in numbers if not 0 < number < np.inf]
    if bad or not numbers:
        raise InputError(f"{name} is a positive number, or several; got {bad[0] if bad else 'none'}")
    return tuple(dict.fromkeys(numbers))


def _tables(rows: list[Record], tasks: list[GridTask]) -> tuple[object, object]:
    """The rows by dataset, tree, noise, τ, ε, measure, limits and method, as they were asked for; and their draws."""
    import pyarrow as pa

    many = any("measure" in row for row in rows)
    tried = dict.fromkeys(method.name for task in tasks for method in task.methods)
    order = {name: i for i, name in enumerate(sorted(tried, key=lambda name: name == ZEROS))}  # zeros last
    by = ("dataset", "tree", "noise", "tau", "epsilon", *(("measure", "limits") if many else ()))
    place = {name: {row.get(name): None for row in rows} for name in by}
    ranks = {name: {value: i for i, value in enumerate(values)} for name, values in place.items()}
    rows = sorted(rows, key=lambda row: (*(ranks[name][row.get(name)] for name in ranks), order[row["method"]]))
    text, number, whole = pa.string(), pa.float64(), pa.int64()
    first = ("dataset", *("breakdown" for row in rows[:1] if "breakdown" in row), "tree")
    types = dict.fromkeys((*first, *(("measure", "limits") if many else ()), "method", "noise"), text)
    types |= {"epsilon": number, "tau": number, "level": text, "rmsre": number, "standard_error": number, "kind": text}
    types |= {"below_10_percent": number, "nodes": whole, "draws": whole, "pool": text, "title": text}
    types |= {"generated": pa.bool_()} | dict.fromkeys(MANY if many else (), number)
    if any(task.coverage for task in tasks):
        types |= dict.fromkeys(("coverage", "coverage_error"), number)
    table = pa.table({name: pa.array([row.get(name) for row in rows], kind) for name, kind in types.items()})
    drawn = [row["squared"] is not None for row in rows]
    squared = pa.array([row["squared"] for row in rows], pa.list_(number))
    return table, table.append_column("squared", squared).filter(pa.array(drawn)).select([*keys(table), "squared"])


def answer(task: GridTask, case: Case) -> list[Record]:
    """The rows of the evaluation table for a task: of each measure and, if there are several, of all together."""
    rows: list[Record] = []
    if case.breakdowns:
        each = [(case.at(task.tau, epsilon), method) for epsilon in task.epsilons for method in task.methods]
        return [row for at, method in each for row in _of_breakdowns(task, at, method)]
    by_epsilon = measures_by_epsilon(case, task.methods, task.tau, task.epsilons)
    for _, same in groupby(by_epsilon, key=lambda measures: measures[0].case):  # counts alone: the same at every ε
        measures = list(zip(*same, strict=True))
        by_measure = [_of_measure(task, case, ones) for ones in measures]
        rows += [row for of_measure in by_measure for row in of_measure]
        if len(by_measure) > 1:
            weights = [ones[0].measure.weight for ones in measures]
            rows += [_together(alike, weights) for alike in zip(*by_measure, strict=True)]
    return rows


def _of_measure(task: GridTask, case: Case, ones: Sequence[OneMeasure]) -> list[Record]:
    """The rows of one measure, whose counts are the same at each of some ε."""
    one, alone = ones[0], ones[0].case
    pooling = Pooling.of(alone.tree, alone.truth, one.tau, task.pool, case.spec.weigh)
    background = Background(alone.prior, one.tau, one.worth)
    noises = [SimulatedNoise(case.noise, at.epsilon, at.case.spec.l1, at.share, case.spec.delta or 0.0) for at in ones]
    rows = [row for method in task.methods for row in _exactly(task, alone, method, noises, pooling, background)]
    methods = [method for method in task.methods if method.name != ZEROS]
    if task.draws and methods:
        kinds = [method.estimator for method in methods]
        drawn = simulate(alone, noises, kinds, pooling, task.draws, task.seed, background, task.coverage)
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
    task: GridTask, case: Case, method: Method, noises: list[SimulatedNoise], pooling: Pooling, background: Background
) -> list[Record]:
    """The errors of a linear estimator: its variances, and how far its counts are off where there is no noise."""
    if not method.estimator.linear:
        return []
    rows: list[Record] = []
    before: SimulatedNoise | None = None
    for noise in noises:
        if before is None or noise.share is not before.share or np.any(case.rounding):
            variance = fixed((noise.variance + case.rounding) / noise.scale)  # as parts of the noise's scale
            unit = method.estimator.make(case.tree, Measurements(case.count, variance, noise.shape), background)
        before = noise
        errors = exact(pooling, unit.variance * noise.scale, unit.count - case.truth)
        rows += _rows(case, task, method, noise.epsilon, "exact", errors)
    return rows


def _rows(case: Case, task: GridTask, method: Method, epsilon: float, kind: str, errors: PooledErrors) -> list[Record]:
    sizes = [*np.diff(case.tree.offsets).tolist(), case.nodes]
    by_level = zip([*case.spec.levels, None], sizes, *(values.tolist() for values in errors[:3]), strict=True)
    rows: list[Record] = [
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
        for level, nodes, rmsre, error, below in by_level
    ]
    for i, row in enumerate(rows):
        row["squared"] = None if errors.draws is None else errors.draws[:, i].tolist()
        for name in ("coverage", "coverage_error") if task.coverage else ():
            values = getattr(errors, name)
            row[name] = None if values is None else float(values[i])
    return rows


def _together(rows: Sequence[Record], weights: Sequence[float]) -> Record:
    """Root mean squares over measures, by their weights; the noise of one is independent of the others'."""
    part = [weight / sum(weights) for weight in weights]

    def mean(name: str) -> float:
        return sqrt(sum(p * row[name] ** 2 for p, row in zip(part, rows, strict=True)))

    whole: Record = {
        name: value if all(row[name] == value for row in rows) else None for name, value in rows[0].items()
    }
    whole |= {"measure": None, "clip": None, "measure_tau": None, "rmsre": mean("rmsre"), "bias": mean("bias")}
    if rows[0]["squared"] is not None:
        whole["squared"] = np.average([row["squared"] for row in rows], axis=0, weights=part).tolist()
    whole["below_10_percent"] = sum(row["below_10_percent"] for row in rows) / len(rows)
    if rows[0]["standard_error"] is not None:
        errors = (p * row["rmsre"] * row["standard_error"] for p, row in zip(part, rows, strict=True))
        whole["standard_error"] = sqrt(sum(e**2 for e in errors)) / whole["rmsre"] if whole["rmsre"] > 0 else 0.0
    return whole


def _of_breakdowns(task: GridTask, case: Case, method: Method) -> list[Record]:
    """The rows of each breakdown and, last, of all: root mean squares by their weights; one may have none."""
    rows, weights = list[Record](), [one.weight for one in case.spec.breakdowns or ()]
    for errors in joint_errors(case, method, task.draws, task.seed, task.pool):
        kind, trees = "exact" if errors[0].draws is None else "simulated", list[Record]()
        for one, error in zip(case.breakdowns, errors, strict=True):
            rows += [row | {"breakdown": one.name} for row in _rows(one, task, method, case.spec.epsilon, kind, error)]
            trees.append(rows[-1])
        nodes, asked = [tree["nodes"] for tree in trees], [i for i, weight in enumerate(weights) if weight]
        whole = trees[0] | {"tree": case.name, "breakdown": None, "nodes": sum(nodes)}
        whole["rmsre"] = sqrt(sum(weights[i] * trees[i]["rmsre"] ** 2 for i in asked) / sum(weights))
        whole["below_10_percent"] = float(np.average([tree["below_10_percent"] for tree in trees], weights=nodes))
        if kind == "simulated":  # joint estimates depend on each other
            drawn = np.average([trees[i]["squared"] for i in asked], 0, [weights[i] for i in asked]).tolist()
            spread = float(np.std(drawn, ddof=1)) / sqrt(task.draws) / 2
            whole |= {"squared": drawn, "standard_error": spread / whole["rmsre"] if whole["rmsre"] else 0.0}
        rows.append(whole)
    return rows


_CASES: dict[str, Case] = {}  # of this process, by their keys, once they were needed
_FOLDER = ""


def answers(tasks: dict[str, GridTask], cases: dict[str, Case], workers: int) -> Iterator[tuple[str, list[Record]]]:
    """The rows of each task, with its key, as they come: in the tasks' order with one worker."""
    if workers <= 1 or len(tasks) <= 1:
        for key, task in tasks.items():
            yield key, answer(task, cases[task.case])
        return
    try:
        pickle.dumps(tasks)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise InputError(
            f"with several workers, a method's functions must be importable by name ({error}); use 1 worker"
        ) from error
    with tempfile.TemporaryDirectory(prefix="attributary-", ignore_cleanup_errors=True) as folder:
        for key in {task.case for task in tasks.values()}:
            with open(_file(folder, key), "wb") as file:
                pickle.dump(cases[key], file)
        before = set(multiprocessing.active_children())
        # Processes that start afresh: a copy of this one might hold locks of threads that it does not have.
        pool = ProcessPoolExecutor(
            min(workers, len(tasks)), multiprocessing.get_context("spawn"), initializer=_begin, initargs=(folder,)
        )
        try:
            with _uninterrupted():
                futures = {pool.submit(_run, task): key for key, task in tasks.items()}
            for future in as_completed(futures):
                yield futures[future], future.result()
        except BrokenProcessPool:
            raise InputError(
                "a worker process ended early: too little memory, or it could not import a method's functions; "
                "use 1 worker"
            ) from None
        except BaseException:  # Ctrl-C too: what is under way is not waited for
            for worker in set(multiprocessing.active_children()) - before:
                worker.terminate()
            raise
        finally:
            pool.shutdown(cancel_futures=True)


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Processes that are started in here do not hear Ctrl-C; it is the parent's to hear, and it does afterwards."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _file(folder: str, key: str) -> str:
    return os.path.join(folder, f"{key}.pickle")


def _begin(folder: str) -> None:
    global _FOLDER  # noqa: PLW0603
    _FOLDER = folder
    parent = multiprocessing.parent_process()
    if parent is not None:
        Thread(target=_end_with, args=(parent.join,), daemon=True).start()


def _end_with(join: Callable[[], object]) -> None:
    """Ends this process when its parent has ended, which it would not hear of while it waits for work."""
    join()
    os._exit(1)


def _run(task: GridTask) -> list[Record]:
    if task.case not in _CASES:
        with open(_file(_FOLDER, task.case), "rb") as file:
            _CASES[task.case] = pickle.load(file)
    return answer(task, _CASES[task.case])
