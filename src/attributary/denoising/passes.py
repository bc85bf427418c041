"""passes: the passes that suit a tree, in NumPy or compiled, and kernels run over its families."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attributary.denoising import linear
from attributary.denoising.threads import shared, spans
from attributary.kernel import kernel as compile_kernel
from attributary.kernel import usable_threads
from attributary.tree import Tree
from attributary.types import Floats

COMPILED_FROM = 100_000  # figures; below, compiled passes gain next to nothing
COMPILED_ONCE = 3_000_000  # below, NumPy is done before numba is imported
ONCE: ContextVar[bool] = ContextVar("once", default=False)
DEEP = 1_000  # levels; a long chain costs NumPy a call per level

Kernel = Callable[..., Any]


def blue(tree: Tree, x: Floats, var: Floats) -> tuple[Floats, Floats]:
    """The best linear unbiased counts and their variances, in level order (Algorithm 2).

    Many columns of figures are of shape (nodes, columns); their variances are, too, or those of one column for all.
    """
    passes = engine(tree, x.size)
    if x.ndim == 1:
        one: tuple[Floats, Floats] = passes.blue(tree, x, var)
        return one
    together: tuple[Floats, Floats] | None = None
    if passes is not linear and var.ndim == 1:
        together = passes.blue_columns(tree, x, var)
    if together is not None:
        return together
    rows, variances = np.ascontiguousarray(x.T), np.ascontiguousarray(np.broadcast_to(var.T, x.T.shape))
    count, variance = np.empty_like(rows), np.empty_like(rows)

    def column(j: int) -> None:
        try:
            count[j], variance[j] = passes.blue(tree, rows[j], variances[j])
        except ValueError as error:
            raise ValueError(f"column {j}: {error}") from error

    with ThreadPoolExecutor(usable_threads()) as pool:
        list(pool.map(column, range(len(rows))))
    return np.ascontiguousarray(count.T), np.ascontiguousarray(variance.T) if var.ndim > 1 else variance[0]


def engine(tree: Tree, figures: int = 0) -> ModuleType:
    """The passes that suit the tree: NumPy for small ones, compiled for millions of nodes."""
    if max(len(tree), figures) < (COMPILED_ONCE if ONCE.get() else COMPILED_FROM) and tree.depth < DEEP:
        return linear
    from attributary.denoising import compiled

    return compiled


@contextmanager
def passes_once() -> Iterator[None]:
    """Within it, passes are taken to run once, as in a command: what numba takes to begin counts."""
    token = ONCE.set(True)
    try:
        yield
    finally:
        ONCE.reset(token)


def sweep(tree: Tree, kernel: Kernel, *arrays: NDArray[Any], upwards: bool = False) -> None:
    """Runs kernel(first, *arrays, lo, hi) over the parents, which changes the arrays in place.

    Parents lo:hi come after their own parents, or before them on the way upwards. The same function runs on lists and,
    compiled, on arrays: Python alone is over before numba is imported.
    """
    if len(tree) < COMPILED_FROM and tree.depth < DEEP:
        lists = {id(a): a.tolist() for a in arrays}  # an array given twice stays one
        kernel(tree.first.tolist(), *(lists[id(a)] for a in arrays), 0, int(tree.offsets[-2]))
        for a in arrays:
            if a.flags.writeable:  # else it is the user's, which no kernel changes
                a[:] = lists[id(a)]
        return
    with shared(tree) as run:
        for span in reversed(spans(tree)) if upwards else spans(tree):
            run(span, _compiled(kernel), *arrays)


@cache
def _compiled(function: Kernel) -> Kernel:
    return compile_kernel(nogil=True, fastmath={"reassoc"})(function)
