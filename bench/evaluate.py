"""Evaluating: where the time of a grid goes, what a grid costs beside its methods one by one, and a second worker."""

import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from attributary.evaluate import Case, Method, evaluate, methods
from attributary.paper.experiment import PaperLog, paper
from bench.timing import heading

ROWS = 500_000
DRAWS = 10
MOST, LEAST = 1.3, 1.6  # of a grid beside its methods, and what a second worker is worth


def main() -> None:
    heading(f"Evaluating: csscl look-alike, {ROWS:,} generated rows, both trees, both noise models, {DRAWS} draws")
    with tempfile.TemporaryDirectory() as cache:
        for words in ("generated, counted once, made cases", "the same again, counts from the cache"):
            cases, took = timed(lambda: paper("csscl", PaperLog(rows=ROWS), cache=cache).cases)
            print(f"{words + ':':46}{took:8.2f} s", flush=True)
    print(f"{'nodes:':46}{', '.join(f'{case.nodes:,} ({case.name}, {case.noise})' for case in cases)}", flush=True)
    evaluate(cases, draws=2, epsilons=[4])  # compiled code is loaded
    table, grid = split_of_time(cases)
    alone = methods_one_by_one(cases)
    print(f"{'every method by itself, added up:':46}{alone:8.2f} s")
    print(f"{'the whole grid, 1 worker:':46}{grid:8.2f} s  {grid / alone:5.2f} of that (bar {MOST})", flush=True)
    other, two = timed(lambda: evaluate(cases, draws=DRAWS, workers=2))
    print(f"{'the whole grid, 2 workers:':46}{two:8.2f} s  {grid / two:5.2f} times as fast (bar {LEAST})")
    assert table.equals(other)


def tried() -> list[Method]:
    """The methods of a grid by default."""
    return [method for method in methods().values() if not method.slow]


def methods_one_by_one(cases: list[Case]) -> float:
    """The seconds of a call for each method, case and τ."""
    total = 0.0
    for case in cases:
        for tau in (5.0, 10.0):
            for name in (method.name for method in tried()):
                total += timed(lambda: evaluate([case], [name], taus=[tau], draws=DRAWS))[1]  # noqa: B023
    return total


def split_of_time(cases: list[Case]) -> tuple[Any, float]:
    """The table of a grid and its seconds; prints what splits and estimators take of them."""
    spent: dict[str, float] = {}

    def clocked(call: Callable[..., Any], part: str) -> Callable[..., Any]:
        def run(*args: Any, **options: Any) -> Any:
            result, took = timed(lambda: call(*args, **options))
            spent[part] = spent.get(part, 0.0) + took
            return result

        return run

    splits = {m.split.name: replace(m.split, split=clocked(m.split.split, f"split: {m.split.name}")) for m in tried()}
    kinds = {m.estimator.name: m.estimator for m in tried()}
    kinds = {name: replace(kind, make=clocked(kind.make, f"estimate: {name}")) for name, kind in kinds.items()}
    clocks = [replace(m, split=splits[m.split.name], estimator=kinds[m.estimator.name]) for m in tried()]
    table, whole = timed(lambda: evaluate(cases, clocks, draws=DRAWS))
    spent["draw noise, add up errors, and the rest"] = whole - sum(spent.values())
    for part, took in spent.items():
        print(f"  {part + ':':44}{took:8.2f} s {took / whole:6.1%}")
    return table, whole


def timed(call: Callable[[], Any]) -> tuple[Any, float]:
    start = time.perf_counter()
    result = call()
    return result, time.perf_counter() - start


if __name__ == "__main__":
    main()
