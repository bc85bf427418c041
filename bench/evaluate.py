"""Evaluating: where the time of a grid goes, what a grid costs beside its methods one by one, and a second worker."""

import tempfile
import time
from collections.abc import Callable
from typing import Any

from attributary.evaluate import METHODS, Case, PaperLog, evaluate, paper
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


def methods_one_by_one(cases: list[Case]) -> float:
    """The seconds of a call for each method, case and τ."""
    total = 0.0
    for case in cases:
        for tau in (5.0, 10.0):
            for name in (method.name for method in METHODS.values() if not method.slow):
                total += timed(lambda: evaluate([case], [name], taus=[tau], draws=DRAWS))[1]  # noqa: B023
    return total


def split_of_time(cases: list[Case]) -> tuple[Any, float]:
    """The table of a grid and its seconds; prints what splits, estimators and closed forms take of them."""
    spent: dict[str, float] = {}
    known: dict[tuple[str, Any], Any] = {}

    def clocked(call: Callable[..., Any], part: str) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            result, took = timed(lambda: call(*args))
            spent[part] = spent.get(part, 0.0) + took
            return result

        run.__name__ = run.__qualname__ = call.__name__
        return known.setdefault((part, call), run)  # so that methods of one way stay together

    methods = [
        m._replace(
            way=clocked(m.way, f"split: {m.way.__name__}"),
            estimator=clocked(m.estimator, f"estimate: {m.estimator.__name__}"),
            variance=None if m.variance is None else clocked(m.variance, "closed forms"),
        )
        for m in METHODS.values()
        if not m.slow
    ]
    table, whole = timed(lambda: evaluate(cases, methods, draws=DRAWS))
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
