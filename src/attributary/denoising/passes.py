"""passes: those that suit a tree, in NumPy or compiled; kernels run over its families, on all cores if that pays."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import pairwise
from types import ModuleType
from typing import Any

import numpy as np

from attributary.denoising import linear
from attributary.kernel import IN_PYTHON, compiled, memory_threads, worth_compiling
from attributary.tree import Tree
from attributary.types import Floats, Values

COMPILED_FROM = 100_000  # figures; below, compiled passes gain next to nothing
COMPILED_ONCE = 3_000_000  # below, NumPy is done before numba is imported
ONCE: ContextVar[bool] = ContextVar("once", default=False)
THREADED = 500_000  # nodes of a level from which a second thread pays
Kernel = Callable[..., Any]  # kernel(first, *arrays, lo, hi) over the parents lo:hi
DEEP = 1_000  # levels; a long chain costs NumPy a call per level


def blue(tree: Tree, x: Floats, var: Floats, figures: int = 0) -> tuple[Floats, Floats]:
    """The best linear unbiased counts and their variances, in level order (Algorithm 2); `figures` as in `engine`."""
    counts: tuple[Floats, Floats] = engine(tree, figures).blue(tree, x, var)
    return counts


def engine(tree: Tree, figures: int = 0) -> ModuleType:
    """The passes that suit the tree: NumPy for small ones, compiled for large ones.

    `figures` is how many there are in all, where a node has more than one. Their last digits differ: what was done
    before does not matter, so that the same figures always have the same estimates.
    """
    if max(len(tree), figures) < (COMPILED_ONCE if ONCE.get() else COMPILED_FROM) and tree.depth < DEEP:
        return linear
    from attributary.denoising import compiled as large

    return large


@contextmanager
def passes_once() -> Iterator[None]:
    """Within it, passes are taken to run once, as in a command: what numba takes to begin counts."""
    token = ONCE.set(True)
    try:
        yield
    finally:
        ONCE.reset(token)


def sweep(tree: Tree, kernel: Kernel, *arrays: Values, upwards: bool = False) -> None:
    """Runs kernel(first, *arrays, lo, hi) over the parents, which changes the arrays in place.

    Parents lo:hi come after their own parents, or before them on the way upwards. The same function runs on lists and,
    compiled, on arrays, with the same digits: a little work in Python is over before numba is loaded.
    """
    if tree.depth < DEEP and not worth_compiling(IN_PYTHON * len(tree)):
        lists = {id(a): a.tolist() for a in arrays}  # an array given twice stays one
        kernel(tree.first.tolist(), *(lists[id(a)] for a in arrays), 0, int(tree.offsets[-2]))
        for a in arrays:
            if a.flags.writeable:  # else it is the user's, which no kernel changes
                a[:] = lists[id(a)]
        return
    with shared(tree) as run:
        for span in reversed(spans(tree)) if upwards else spans(tree):
            run(span, compiled(kernel), *arrays)


@contextmanager
def shared(tree: Tree) -> Iterator[Callable[..., list[Any]]]:
    """A way to run a kernel over a span of parents: run(span, kernel, *arrays), its results one for each thread."""
    threads = memory_threads() if len(tree) >= THREADED else 1
    with ThreadPoolExecutor(threads) as pool:

        def run(span: tuple[int, int], kernel: Kernel, *arrays: Any) -> list[Any]:
            parts = _parts(tree, *span, threads)
            if len(parts) == 1:
                return [kernel(tree.first, *arrays, *parts[0])]
            return list(pool.map(lambda part: kernel(tree.first, *arrays, *part), parts))

        yield run


def spans(tree: Tree) -> list[tuple[int, int]]:
    """The parents, top to bottom, in runs that one sweep can take: the last level's parents alone, the rest by size."""
    if tree.depth == 1:
        return [(0, len(tree))]
    above, last = tree.offsets[:-2], int(tree.offsets[-2])
    large = np.flatnonzero((np.diff(above) >= THREADED) | (np.diff(tree.first[above].astype(np.int64)) >= THREADED))
    cuts = np.unique(np.concatenate([[0], above[large], above[large + 1], above[-1:], [last]]))
    return list(pairwise(cuts.tolist()))


def _parts(tree: Tree, lo: int, hi: int, threads: int) -> list[tuple[np.uint64, np.uint64]]:
    """The parents lo:hi in as many parts as there are threads, each with about as many children."""
    lowest, highest = int(tree.first[lo]), int(tree.first[hi])
    one_level = lowest >= hi  # only then are the families independent
    shares = threads if one_level and highest - lowest >= THREADED else 1
    aims = [lowest + (highest - lowest) * i // shares for i in range(1, shares)]
    inner = lo + np.searchsorted(tree.first[lo:hi], np.array(aims, np.uint32))  # of one type, or all would be converted
    cuts = [lo, *inner.tolist(), hi]
    return [(np.uint64(a), np.uint64(b)) for a, b in pairwise(cuts)]
