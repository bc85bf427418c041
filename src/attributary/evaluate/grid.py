"""evaluate: methods × ε × τ × cases → one tidy table."""

import os
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

import numpy as np

from attributary.errors import InputError
from attributary.evaluate.case import Case
from attributary.evaluate.case_measures import usable
from attributary.evaluate.comparison import Evaluation, keys
from attributary.evaluate.grid_tasks import GridTask, Row
from attributary.evaluate.grid_workers import Store, answers
from attributary.evaluate.methods import ZEROS, Method, chosen
from attributary.evaluate.methods import methods as every_method
from attributary.evaluate.pooling import Pool
from attributary.tables.not_private import mark

EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
TAUS = (5.0, 10.0)
DRAWS = 50
MANY = ("clip", "conversions_per_impression", "measure_tau", "bias")  # columns where limits cut something off
PAYS = 2e8  # work from which a second process pays, which takes a second or two to start
Progress = Callable[[int, int], None]  # is called with how many tasks are done, and of how many


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
    known = {case.key: case for case in cases}
    named = methods is not None or bool(estimators)
    tried = _methods(methods, estimators)
    tried += (every_method()[ZEROS],) if zeros and ZEROS not in {method.name for method in tried} else ()
    tasks = _tasks(cases, tried, named, _numbers("epsilon", epsilons), _numbers("tau", taus), draws, seed, pool)
    tasks = [task._replace(coverage=coverage) for task in tasks]
    kept = store or Store()
    left = [task for task in tasks if kept.get(task.key) is None]
    left.sort(key=lambda task: -task.work(known[task.case]))
    tell = progress or (lambda done, of: None)
    tell(len(tasks) - len(left), len(tasks))
    processes = _workers(sum(task.work(known[task.case]) for task in left)) if workers is None else workers
    for done, (task, rows) in enumerate(answers(left, known, processes), len(tasks) - len(left) + 1):
        kept.put(task.key, rows)
        tell(done, len(tasks))
    table, squared = _tables([row for task in tasks for row in kept.get(task.key) or ()], tasks)
    return Evaluation(mark(table, *(case.not_private for case in cases)), squared)


def _tasks(
    cases: Sequence[Case],
    methods: tuple[Method, ...],
    named: bool,
    epsilons: tuple[float, ...],
    taus: tuple[float, ...],
    draws: int,
    seed: int,
    pool: Pool,
) -> list[GridTask]:
    if not cases:
        raise InputError("there is nothing to evaluate; give a case")
    if not draws >= 0 or draws == 1:
        raise InputError(f"draws are 2 or more, or 0 for closed forms alone; got {draws}")
    return [
        GridTask(case.key, tau, tuple(group), epsilons, draws, seed, pool)
        for case in cases
        for tau in taus
        for group in _by_split(usable(case, methods, named))
    ]


def _by_split(methods: tuple[Method, ...]) -> Iterable[list[Method]]:
    """The methods that share a split, together."""
    groups: dict[Any, list[Method]] = {}
    for method in methods:
        groups.setdefault((method.split, method.planned, method.raw), []).append(method)
    return groups.values()


def _workers(work: float) -> int:
    if work < PAYS:
        return 1
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _methods(given: Collection[str] | Sequence[Method] | None, estimates: Collection[str]) -> tuple[Method, ...]:
    if given is not None and not given:
        raise InputError("there is nothing to evaluate; give a method")
    new = tuple(method for method in given or () if isinstance(method, Method))
    named = [method for method in given or () if isinstance(method, str)]
    tried = new + (chosen(named, estimates) if named or given is None else ())
    names = [method.name for method in tried]
    if twice := {name for name in names if names.count(name) > 1}:
        raise InputError(f"two methods are named {min(twice)!r}; give one of their parts another name")
    return tried


def _numbers(name: str, given: Collection[float]) -> tuple[float, ...]:
    numbers = tuple(float(number) for number in given)
    bad = [number for number in numbers if not 0 < number < np.inf]
    if bad or not numbers:
        raise InputError(f"{name} is a positive number, or several; got {bad[0] if bad else 'none'}")
    return tuple(dict.fromkeys(numbers))


def _tables(rows: list[Row], tasks: list[GridTask]) -> tuple[Any, Any]:
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
    types = {
        **dict.fromkeys(("dataset", "tree", *(("measure", "limits") if many else ()), "method", "noise"), text),
        **dict.fromkeys(("epsilon", "tau"), number),
        "level": text,
        **dict.fromkeys(("rmsre", "standard_error"), number),
        "kind": text,
        "below_10_percent": number,
        **dict.fromkeys(("nodes", "draws"), whole),
        "pool": text,
        "title": text,
        "generated": pa.bool_(),
        **dict.fromkeys(MANY if many else (), number),
    }
    if any(task.coverage for task in tasks):
        types |= dict.fromkeys(("coverage", "coverage_error"), number)
    table = pa.table({name: pa.array([row.get(name) for row in rows], kind) for name, kind in types.items()})
    drawn = [row["squared"] is not None for row in rows]
    squared = pa.array([row["squared"] for row in rows], pa.list_(number))
    return table, table.append_column("squared", squared).filter(pa.array(drawn)).select([*keys(table), "squared"])
