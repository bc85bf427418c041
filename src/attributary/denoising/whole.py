"""whole: counts rounded so that sums still hold."""

from math import floor as _floor
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from attributary.denoising.passes import sweep
from attributary.kernel import worth_compiling
from attributary.tree import Family, Tree
from attributary.types import Floats, Ints

ONE = np.uint64(1)
LIMIT = 2.0**53  # from here on a double is not every whole number
TIE = 1e-9  # remainders closer than this differ by rounding only
SMALL = 1_000  # nodes of a level, from which NumPy is faster than Python
IN_NUMPY = 5  # a node takes as long there as so many in a plain pass
TOP = 1.2360679774997898  # above every remainder, and no halving of it meets a fraction such as 1/2 or 1/3


def whole(tree: Tree, count: NDArray[np.float64], floor: Literal[0] | None = None) -> NDArray[np.int64]:
    """Whole counts that add up, each within 1 of the consistent count it stands for, in level order.

    Roots are rounded to the nearest (half to even), each family by largest remainders, ties to the earlier sibling.
    Whole numbers stay as they are. With floor = 0, none is negative.
    """
    small = np.abs(count) < LIMIT
    if not small.all():
        place = int(np.argmin(small))
        raise ValueError(f"counts are made whole below 2**53; {tree.name_at(place)} has {count[place]}")
    real = np.maximum(count, -LIMIT if floor is None else float(floor))
    n, rest = np.empty(len(tree), np.int64), np.empty(len(tree))
    roots = tree.slice(0)
    n[roots] = np.rint(real[roots])
    least = np.array([-(2**62) if floor is None else floor])
    if len(tree) < SMALL * tree.depth or worth_compiling(IN_NUMPY * len(tree)):
        sweep(tree, _round, real, rest, n, least)
        return n
    for family in tree.families():
        for p in _round_families(family, real, rest, n):
            _round(tree.first, real, rest, n, least, p, p + 1)  # type: ignore[no-untyped-call]
    return n


def _round_families(family: Family, real: Floats, rest: Floats, n: Ints) -> Ints:
    """`_round` of the families of a level in NumPy; gives the parents of those that it leaves alone, which are few."""
    c = family.children
    n[c] = np.floor(real[c])
    rest[c] = real[c] - n[c]
    up = n[family.parent] - np.add.reduceat(n[c], family.start)
    odd, low, high, above = (up < 0) | (up > family.count), np.zeros(family.size), np.full(family.size, TOP), 0 * up
    high[up == family.count] = 0
    halved = (up > 0) & (up < family.count)
    while halved.any():
        mine, middle = rest[c][family.spread(halved)], (low + high)[halved] / 2.0
        count = family.count[halved]
        reached = np.add.reduceat(mine >= np.repeat(middle, count), np.cumsum(count) - count, dtype=np.int64)
        low[halved] = np.where(reached >= up[halved], middle, low[halved])
        fits = np.flatnonzero(halved)[reached <= up[halved]]
        high[fits], above[fits] = middle[reached <= up[halved]], reached[reached <= up[halved]]
        halved &= high - low > TIE
    over = rest[c] >= family.spread(high)
    tied = (rest[c] >= family.spread(low)) & ~over & family.spread(up > 0)
    number = np.cumsum(tied, dtype=np.int64)
    turn = number - family.spread(number[family.start] - tied[family.start])
    n[c] += family.spread(up > 0) & (over | (tied & (turn <= family.spread(up - above))))
    left: Ints = family.parent[odd]
    return left


def _round(first, real, rest, n, least, lo, hi):  # type: ignore[no-untyped-def]
    """Rounds the children of the parents lo:hi down, then those with the largest remainders up until sums hold."""
    for p in range(lo, hi):
        a, b = np.uint64(first[p]), np.uint64(first[p + ONE])
        up, size = n[p], 0
        for i in range(a, b):
            n[i] = _floor(real[i])
            rest[i] = real[i] - n[i]
            up -= n[i]
            size += 1
        while size > 0 and (up < 0 or up > size):  # one too few or too many, since real sums are rounded themselves
            step = 1 if up > 0 else -1
            best: Any = b
            for i in range(a, b):
                if (step > 0 or n[i] > least[0]) and (best == b or step * (rest[i] - rest[best]) > 0.0):
                    best = i
            n[best] += step
            rest[best] -= step
            up -= step
        if up <= 0:
            continue
        # Reaching `low` are at least `up`, reaching `high` at most; halve until it is exact, or what lies between ties.
        low, high, above = 0.0, TOP, 0
        while up < size and high - low > TIE:
            middle, reached = (low + high) / 2.0, 0
            for i in range(a, b):
                reached += 1 if rest[i] >= middle else 0
            if reached >= up:
                low = middle
            if reached <= up:
                high, above = middle, reached
        for i in range(a, b):
            if up == size or rest[i] >= high:
                n[i] += 1
            elif rest[i] >= low and above < up:
                n[i] += 1
                above += 1
