"""sweep: one kernel over all families, parents first; plain Python for small trees, compiled for large ones."""

from collections.abc import Callable
from functools import cache
from typing import Any

from numpy.typing import NDArray

from attributary.denoising import linear
from attributary.denoising.denoise import engine
from attributary.denoising.share import shared, spans
from attributary.kernel import kernel as compiled
from attributary.tree import Tree

Kernel = Callable[..., Any]


def sweep(tree: Tree, kernel: Kernel, *arrays: NDArray[Any], upwards: bool = False) -> None:
    """Runs kernel(first, *arrays, lo, hi) over the parents, which changes the arrays in place.

    Parents lo:hi come after their own parents, or before them on the way upwards. The same function runs on lists and,
    compiled, on arrays: Python alone is over before numba is imported.
    """
    if engine(tree) is linear:
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
    return compiled(nogil=True, fastmath={"reassoc"})(function)
