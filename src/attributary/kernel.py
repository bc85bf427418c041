"""kernel: a function compiled by numba, and kept on disk for the next process where there is a place for it."""

from collections.abc import Callable
from typing import Any

Function = Callable[..., Any]


def kernel(**options: Any) -> Callable[[Function], Function]:
    """A decorator: the function compiled with these options of numba's."""
    from numba import njit

    def compiled(function: Function) -> Function:
        try:
            kept: Function = njit(cache=True, **options)(function)
        except RuntimeError:  # "no locator available": package, home and NUMBA_CACHE_DIR are read-only
            kept = njit(**options)(function)
        return kept

    return compiled
