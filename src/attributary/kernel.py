"""kernel: functions compiled by numba, kept on disk for the next process where there is a place; how many threads."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any

Function = Callable[..., Any]
LIMIT: ContextVar[int | None] = ContextVar("threads", default=None)
LOADING = 10_000_000  # nodes that NumPy passes through while numba loads,
LOADED = 300_000  # and while a kernel does
IN_PYTHON = 30  # a node in plain Python takes as long as so many in NumPy
_passed = [0]  # up to now, without kernels


def worth_compiling(nodes: int) -> bool:
    """Whether to take the compiled way through so many nodes, as NumPy counts them.

    It is once all ways up to now, with this one, take longer than loading what is not loaded yet.
    """
    _passed[0] += nodes
    return _passed[0] >= (LOADED if "numba" in sys.modules else LOADING)


def kernel(inner: bool = False, **options: Any) -> Callable[[Function], Function]:
    """A decorator: the function compiled with these options of numba's; one that is `inner` is for kernels alone."""
    from numba import njit

    options |= {"no_cpython_wrapper": True, "no_cfunc_wrapper": True} if inner else {}

    def compiled(function: Function) -> Function:
        try:
            kept: Function = njit(cache=True, **options)(function)
        except RuntimeError:  # "no locator available": package, home and NUMBA_CACHE_DIR are read-only
            kept = njit(**options)(function)
        return kept

    return compiled


@cache
def compiled(function: Function) -> Function:
    """A function that runs in plain Python, too, as a kernel."""
    return kernel(nogil=True)(function)


def is_kept(function: Function) -> bool:
    """True if a kernel is compiled already, in this process or for it."""
    from pathlib import Path

    folder, name = function.stats.cache_path, f"{function.__module__.split('.')[-1]}.{function.__name__}-*.nbi"  # type: ignore[attr-defined]
    return bool(function.signatures) or (folder is not None and any(Path(folder).glob(name)))  # type: ignore[attr-defined]


@contextmanager
def limit_threads(number: int | None) -> Iterator[None]:
    """Within it, compiled passes use at most so many threads; None for all cores."""
    token = LIMIT.set(number)
    try:
        yield
    finally:
        LIMIT.reset(token)


def usable_threads() -> int:
    """The cores that this process may use, or fewer if they are limited."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(cores, LIMIT.get() or cores)


def memory_threads() -> int:
    """The threads for what memory limits: more than eight do not make that faster."""
    return min(usable_threads(), 8)
