"""threads: a kernel run over the parents of a tree, spread over the machine's cores where that pays."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import numpy as np

from attributary.kernel import memory_threads
from attributary.tree import Tree
from attributary.types import Values

THREADED = 500_000  # nodes of a level from which a second thread pays
Kernel = Callable[..., Any]  # kernel(first, *arrays, lo, hi) over the parents lo:hi


@contextmanager
def shared(tree: Tree) -> Iterator[Callable[..., list[Any]]]:
    """A way to run a kernel over a span of parents: run(span, kernel, *arrays), its results one for each thread."""
    threads = memory_threads() if len(tree) >= THREADED else 1
    with ThreadPoolExecutor(threads) as pool:

        def run(span: tuple[int, int], kernel: Kernel, *arrays: Values) -> list[Any]:
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
