"""nonnegative: counts that add up and are never negative: top-down (`topdown`), or the best fit of all figures at once.

For the joint fit, fix some leaves at 0 and let the others be negative. The count of each node is then a linear function
of the price λ that is nowhere above the true one: 0 and x + var·λ are below max(0, x + var·λ), and adding up and
combining with a node's own figure keep that order. On a lower line the same count needs a higher price, so no price on
the way down is too low, and a leaf that is negative even so is 0 at the optimum. Fix it there and repeat; when none is
negative, that is the optimum. Each round is Algorithm 2; about ten are needed, never more than there are leaves.
"""

from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from attributary.denoising.passes import engine, sweep
from attributary.tree import Tree
from attributary.types import Floats

INF = np.inf
ONE = np.uint64(1)
ULPS = 1e-15  # how far a family may be from its parent, relatively, before it is brought back


def topdown(tree: Tree, x: Floats, var: Floats, blue: Floats, least: Floats | None) -> Floats:
    """The counts ≥ 0 that keep the roots' blue and, in each family, are nearest to z⇑, in level order.

    Of all s ≥ 0 that sum to their parent's count, those with the least Σ (s_u − z⇑_u)² / var⇑_u, exactly:
    s_u = max(0, z⇑_u + var⇑_u·λ). Where figures are known exactly, `least` takes the place of 0. Children with
    var⇑ = ∞ share equally what is left above Σ max(least, z⇑) of their siblings, none getting less than its least; if
    nothing is left, that is all they get, and the siblings share the rest as ever.
    """
    z, v = engine(tree).upward(tree, x, var)
    return settled(tree, z, v, blue, least)


def settled(tree: Tree, z: Floats, v: Floats, blue: Floats, least: Floats | None, pull: Floats | None = None) -> Floats:
    """`topdown` from z⇑ and var⇑, which are lost; with `pull`, a child's z⇑ grows by pull · its parent's count."""
    roots = tree.slice(0)
    pull = np.empty(0) if pull is None else pull
    if least is None and v.max() < INF:
        z[roots] = np.maximum(blue[roots], 0.0) + 0.0
        sweep(tree, _settle, z, v, np.empty(0), z, z, v, pull)
        return z
    least = np.zeros(len(tree)) if least is None else least
    count, w, u = np.empty_like(z), np.empty_like(z), np.empty_like(z)
    count[roots] = np.maximum(blue[roots], least[roots]) + 0.0
    sweep(tree, _settle, z, v, least, count, w, u, pull)
    return count


def _settle(first, z, v, least, s, w, u, pull, lo, hi):  # type: ignore[no-untyped-def]
    """Settles the children of the parents lo:hi: w and u are z⇑ and var⇑ above least, and w becomes s above least.

    Without bounds and ∞, least is empty, w and s are z itself, and u is v. Compiled, digits are as in Python.
    """
    bounded, pulled = len(least) > 0, len(pull) > 0
    for p in range(lo, hi):
        a, b = np.uint64(first[p]), np.uint64(first[p + ONE])
        if a == b:
            continue
        total = s[p]
        if b - a == ONE:
            s[a] = max(total, least[a]) if bounded else total
            continue
        if pulled:
            for i in range(a, b):
                z[i] += pull[i] * total
        if bounded:
            unknown, known = 0, 0.0
            for i in range(a, b):
                total -= least[i]
                if v[i] == INF:
                    unknown += 1
                else:
                    known += max(z[i] - least[i], 0.0)
            spare = unknown > 0 and total > known
            if spare:
                total -= known
            for i in range(a, b):
                s[i], w[i], u[i] = least[i], 0.0, 0.0
                if v[i] == INF:
                    if spare:  # s = max(least, λ): the rule for z⇑ = 0 and var⇑ = 1
                        w[i], u[i] = -least[i], 1.0
                elif spare:
                    s[i] = max(z[i], least[i])
                elif v[i] > 0.0:
                    w[i], u[i] = z[i] - least[i], v[i]

        ws, us, alive = 0.0, 0.0, int(b - a)
        for i in range(a, b):
            ws += w[i]
            us += u[i]
        if not (total > 0.0 and us > 0.0):
            for i in range(a, b):
                w[i] = 0.0
            continue
        price = (total - ws) / us
        while True:  # drop whoever would be negative: that lowers the price, so nobody comes back
            ws_left, us_left, left = 0.0, 0.0, 0
            for i in range(a, b):
                stays = w[i] + u[i] * price > 0.0
                ws_left += w[i] if stays else 0.0
                us_left += u[i] if stays else 0.0
                left += 1 if stays else 0
            if left == 0 or left >= alive:
                break
            us, alive = us_left, left
            price = (total - ws_left) / us_left

        got = 0.0
        if left == 0:  # total is lost in the rounding of w: the last to be dropped takes all
            best: Any = a
            for i in range(a, b):
                if u[i] > 0.0 and (u[best] == 0.0 or w[i] * u[best] > w[best] * u[i]):
                    best = i
            for i in range(a, b):
                w[i] = total if i == best else 0.0
            got = total
        else:
            for i in range(a, b):
                t = w[i] + u[i] * price
                w[i] = (t if t < total else total) if t > 0.0 else 0.0
                got += w[i]
        if abs(total - got) > ULPS * total:
            price, again = (total - got) / us, 0.0  # once more, from counts no larger than total
            for i in range(a, b):
                again += max(w[i] + u[i] * price, 0.0) if w[i] > 0.0 else 0.0
            if again > 0.0:
                for i in range(a, b):
                    w[i] = max(w[i] + u[i] * price, 0.0) if w[i] > 0.0 else 0.0
            scale = total / (again if again > 0.0 else got)
            for i in range(a, b):
                w[i] = min(w[i] * scale, total)
        if bounded:
            for i in range(a, b):
                s[i] = min(s[i] + w[i], s[p]) if w[i] > 0.0 else s[i]


def nonnegative(tree: Tree, x: Floats, var: Floats, blue: Floats, method: str) -> Floats:
    """Consistent counts ≥ 0 by a method, "top-down" or "joint", in level order; no longer unbiased."""
    return METHODS[method](tree, x, var, blue, least(tree, x, var))


def joint(tree: Tree, x: Floats, var: Floats, blue: Floats, least: Floats | None) -> Floats:
    """argmin over consistent s with s_leaf ≥ 0 of Σ (x_v − s_v)² / var_v, exactly, in level order.

    Exact figures are kept. Leaves not measured share what is left as in Algorithm 2, equally among siblings with
    var⇑ = ∞; those that would be negative are 0, and the others share again.
    """
    x, var = x.copy(), var.copy()
    leaf = tree.in_level_order.is_leaf
    above = None
    if least is not None:  # the exact node that each node is or stands under; its root where there is none
        above = np.where((var == 0) | (tree.family < 0), np.arange(len(tree)), tree.family)
        while (above[above] != above).any():
            above = above[above]
    while True:
        free = leaf & (var > 0)
        negative = np.flatnonzero(free & (blue < _bar(blue, var, free, above)))
        if not negative.size:
            return topdown(tree, x, var, blue, least)  # with nothing left to do but mend the last digits
        x[negative], var[negative] = 0.0, 0.0
        blue, _ = engine(tree).blue(tree, x, var)


def _bar(blue: Floats, var: Floats, free: NDArray[np.bool_], above: NDArray[np.int64] | None) -> Floats | float:
    """The least count that stays: 0, or the best below an exact figure, where all are negative by rounding only."""
    if above is None:
        return 0.0
    best = np.where(var == 0, -np.inf, 0.0)
    np.maximum.at(best, above[free], blue[free])
    return np.minimum(best, 0.0)[above]


METHODS = {"top-down": topdown, "joint": joint}


def least(tree: Tree, x: Floats, var: Floats, leaves: Floats | float = 0.0) -> Floats | None:
    """The least count each node can have, knowing the exact figures below it; None where that is 0 everywhere.

    `leaves` is what is known of leaves that stand for a tree below them; that of other nodes is 0.
    """
    exact = var == 0
    if not exact.any() and not np.any(leaves):
        return None
    sure = np.where(exact, x, leaves)
    if (exact & (x < 0)).any():
        place = int(np.argmax(exact & (x < 0)))
        raise ValueError(
            f"an exact figure (variance 0) is 0 or more where counts are never negative; "
            f"{tree.name_at(place)} is {x[place]:.17g}"
        )
    if not (sure > 0).any():
        return None
    leaf = tree.in_level_order.is_leaf
    # The bottom-up pass keeps an exact figure, and adds up what is below a node not measured.
    rest = np.where(leaf, 1.0, np.inf)
    bound: Floats = engine(tree).upward(tree, sure, np.where(exact, 0.0, rest))[0]
    parents = np.flatnonzero(~leaf)
    if parents.size:
        below = np.add.reduceat(bound, tree.first[parents])
        short = exact[parents] & (below > x[parents] * (1 + 1e-12))  # beyond rounding
        if short.any():
            _too_small(tree, sure, exact, int(parents[np.argmax(short)]))
    return bound


def _too_small(tree: Tree, sure: Floats, exact: NDArray[np.bool_], place: int) -> NoReturn:
    culprits: list[int] = []
    level = [place]
    while level:
        children = [c for v in level for c in range(int(tree.first[v]), int(tree.first[v + 1]))]
        culprits += [c for c in children if sure[c] > 0]
        level = [c for c in children if not exact[c]]
    below = " + ".join(f"{sure[v]:.17g} ({tree.name_at(v)})" for v in culprits[:3])
    more = f" + {len(culprits) - 3} more" if len(culprits) > 3 else ""
    raise ValueError(
        f"an exact figure (variance 0) is no less than those below it where counts are never negative; "
        f"{tree.name_at(place)} is {sure[place]:.17g}, but below it are exactly {below}{more}"
    )
