"""passes: the passes that suit a tree, in NumPy or compiled, and kernels run over its families."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from types import FunctionType, ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attributary.denoising import linear
from attributary.denoising.threads import Kernel, shared, spans
from attributary.kernel import kernel as compile_kernel
from attributary.tree import Tree
from attributary.types import Floats

COMPILED_FROM = 100_000  # figures; below, compiled passes gain next to nothing
COMPILED_ONCE = 3_000_000  # below, NumPy is done before numba is imported
ONCE: ContextVar[bool] = ContextVar("once", default=False)
EXACTLY_FROM = 1_000  # nodes; the same for kernels where numba is imported already
DEEP = 1_000  # levels; a long chain costs NumPy a call per level


def blue(tree: Tree, x: Floats, var: Floats, figures: int = 0) -> tuple[Floats, Floats]:
    """The best linear unbiased counts and their variances, in level order (Algorithm 2); `figures` as in `engine`."""
    counts: tuple[Floats, Floats] = engine(tree, figures).blue(tree, x, var)
    return counts


def engine(tree: Tree, figures: int = 0) -> ModuleType:
    """The passes that suit the tree: NumPy for small ones, compiled for large ones.

    `figures` is how many there are in all, where a node has more than one.
    """
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
    compiled, on arrays: Python alone is over before numba is imported. Where numba is there already, a kernel that
    gives the same digits as Python takes its place.
    """
    if len(tree) < COMPILED_FROM and tree.depth < DEEP:
        if len(tree) >= EXACTLY_FROM and "numba" in sys.modules:
            _compiled_exactly(kernel)(tree.first, *arrays, np.uint64(0), np.uint64(tree.offsets[-2]))
            return
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


@cache
def _compiled_exactly(function: Kernel) -> Kernel:
    assert isinstance(function, FunctionType)
    name = f"{function.__name__}_exactly"  # numba keeps what it compiles by name
    copied = FunctionType(function.__code__, function.__globals__, name, function.__defaults__, function.__closure__)
    copied.__qualname__ = name
    return compile_kernel(nogil=True)(copied)
