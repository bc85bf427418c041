"""passes: the passes that suit a tree, in NumPy or compiled, and kernels run over its families."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import ModuleType

from attributary.denoising import linear
from attributary.denoising.threads import Kernel, shared, spans
from attributary.kernel import IN_PYTHON, compiled, worth_compiling
from attributary.tree import Tree
from attributary.types import Floats, Values

COMPILED_FROM = 100_000  # figures; below, NumPy is done long before numba is loaded
COMPILED_ONCE = 3_000_000  # below, NumPy is done before numba is imported
ONCE: ContextVar[bool] = ContextVar("once", default=False)
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
