"""passes: the passes that suit a tree, in NumPy or compiled, and kernels run over its families."""

from functools import cache
from types import ModuleType
from typing import Any

from numpy.typing import NDArray

from attributary.denoising import linear
from attributary.denoising.threads import Kernel, shared, spans
from attributary.kernel import IN_PYTHON, worth_compiling
from attributary.kernel import kernel as compile_kernel
from attributary.tree import Tree
from attributary.types import Floats

DEEP = 1_000  # levels; a long chain costs NumPy a call per level


def blue(tree: Tree, x: Floats, var: Floats, figures: int = 0) -> tuple[Floats, Floats]:
    """The best linear unbiased counts and their variances, in level order (Algorithm 2); `figures` as in `engine`."""
    counts: tuple[Floats, Floats] = engine(tree, figures).blue(tree, x, var)
    return counts


def engine(tree: Tree, figures: int = 0) -> ModuleType:
    """The passes that suit the tree: NumPy for little work, compiled for much; equal but for rounding.

    `figures` is how many there are in all, where a node has more than one.
    """
    if tree.depth < DEEP and not worth_compiling(max(len(tree), figures)):
        return linear
    from attributary.denoising import compiled

    return compiled


def sweep(tree: Tree, kernel: Kernel, *arrays: NDArray[Any], upwards: bool = False) -> None:
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
            run(span, _compiled(kernel), *arrays)


@cache
def _compiled(function: Kernel) -> Kernel:
    return compile_kernel(nogil=True)(function)
