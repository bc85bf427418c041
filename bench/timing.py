"""best: the shortest of several runs, warm, each into fresh memory."""

import time
from collections.abc import Callable
from typing import Any


def best(call: Callable[[], Any], times: int = 5, warm: int = 1) -> float:
    """Seconds of the fastest of `times` calls, after `warm` that do not count."""
    fastest = float("inf")
    for i in range(warm + times):
        start = time.perf_counter()
        result = call()
        took = time.perf_counter() - start
        del result
        if i >= warm:
            fastest = min(fastest, took)
    return fastest


def heading(text: str) -> None:
    print(f"\n{text}\n{'-' * len(text)}", flush=True)
