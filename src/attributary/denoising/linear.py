"""Algorithms 1 and 2 in NumPy, level by level: the best linear unbiased counts.

The paper's z⇑, var⇑ (a node and all below it) and z↑, var↑ (all below it, without itself) are kept; its z⇓ and z↓ are
not needed, since with k_v = var⇑_v / var↑_p, v's share of its siblings' uncertainty, the top-down pass collapses to

    x̂_v = z⇑_v + k_v · (x̂_p − z↑_p),    v̂ar_v = (1 − k_v) · var⇑_v + k_v² · v̂ar_p

There are no differences of nearly equal numbers but 1 − k_v of a child with most of its family's uncertainty, which is
therefore summed over its siblings. A variance of 0 is kept exactly; ∞ means not measured.
"""

from typing import NoReturn

import numpy as np

from attributary.measurements import combine
from attributary.tree import Family, Tree
from attributary.types import Floats

LARGEST = 1e300  # a variance: sums of larger ones overflow


def blue(tree: Tree, x: Floats, var: Floats) -> tuple[Floats, Floats]:
    """The best linear unbiased counts and their variances, in level order (Algorithm 2)."""
    count, variance = upward(tree, x, var)
    downward(tree, count, variance)
    return count, variance


def downward(
    tree: Tree, count: Floats, variance: Floats, start: int = 0, figures: tuple[Floats, Floats] | None = None
) -> None:
    """Makes z⇑ and var⇑ of every node x̂ and v̂ar, in place and in level order; down to level `start`, they are so.

    `figures` save compiled passes a copy.
    """
    for family in tree.families(start=start):
        c = family.children
        count[c], variance[c] = _down(family, count[c], variance[c], count[family.parent], variance[family.parent])


def upward(tree: Tree, x: Floats, var: Floats, last: bool = True) -> tuple[Floats, Floats]:
    """z⇑ and var⇑ of every node, in level order: the best estimate from the node and all below it."""
    refuse(tree, x, var)
    z, v = np.where(var == np.inf, 0.0, x), var.copy()
    for family in tree.families(upwards=True):
        p, c = family.parent, family.children
        below = family.sum(z[c])
        clash = (var[p] == 0) & (family.sum(v[c]) == 0) & (np.abs(x[p] - below) > family.rounding(z[c], x[p]))
        if clash.any():
            contradiction(tree, x, z, int(p[np.argmax(clash)]))
        z[p], v[p] = combine(z[p], var[p], below, family.sum(v[c]))
    return z, v


def _down(family: Family, z: Floats, v: Floats, x_parent: Floats, v_parent: Floats) -> tuple[Floats, Floats]:
    unknown = v == np.inf
    v_known = np.where(unknown, 0.0, v)
    z_known = np.where(unknown, 0.0, z)
    z_sum, v_sum = family.sum(z_known), family.sum(v_known)
    missing = family.sum(unknown.astype(np.float64))

    with np.errstate(invalid="ignore", divide="ignore"):
        k = v_known / family.spread(np.where((missing == 0) & (v_sum > 0), v_sum, np.inf))
    rest = 1.0 - k
    surplus = family.spread(x_parent - z_sum)
    target = z_known + k * surplus
    biggest = k > 0.5
    if biggest.any():  # at most one of a family: 1 - k by adding up the siblings
        others_v = family.spread(family.sum(np.where(biggest, 0.0, v_known)))[biggest]
        others_z = family.spread(family.sum(np.where(biggest, 0.0, z_known)))[biggest]
        rest[biggest] = others_v / family.spread(v_sum)[biggest]
        moved = rest[biggest] * z[biggest] + k[biggest] * (family.spread(x_parent)[biggest] - others_z)
        target[biggest] = np.where(surplus[biggest] == 0, z[biggest], moved)  # nothing to correct: to the last digit
    known_variance = rest * v_known
    shared = k > 0
    known_variance[shared] += k[shared] ** 2 * family.spread(v_parent)[shared]

    lone = np.where(missing == 1, v_parent + v_sum, np.inf)
    share = (x_parent - z_sum) / np.maximum(missing, 1)
    count = np.where(unknown, family.spread(share), target)
    return count, np.where(unknown, family.spread(lone), known_variance)


def refuse(tree: Tree, x: Floats, var: Floats) -> None:
    """Raises ValueError for the first node with an invalid figure or variance."""
    bad = ~(var >= 0) | ((var < np.inf) & ~(np.isfinite(x) & (var <= LARGEST)))
    if bad.any():
        places = np.flatnonzero(bad)
        at = int(places[0] if tree.order is None else places[np.argmin(tree.order[places])])
        if not var[at] >= 0 or var[at] > LARGEST:
            raise ValueError(
                f"a variance is 0 or more and up to {LARGEST:g}, or inf for a node not measured; "
                f"{tree.name_at(at)} has {var[at]}"
            )
        raise ValueError(
            f"a noisy figure is a finite number, or anything with variance inf if it was not measured; "
            f"{tree.name_at(at)} has {x[at]}"
        )


def contradiction(tree: Tree, x: Floats, z: Floats, place: int) -> NoReturn:
    """Raises ValueError for an exact figure that is not the sum of the exact figures below it."""
    children = range(int(tree.first[place]), int(tree.first[place + 1]))
    below = " + ".join(f"{z[v]:.17g} ({tree.name_at(v)})" for v in children[:3])
    more = f" + {len(children) - 3} more" if len(children) > 3 else ""
    raise ValueError(
        f"exact figures (variance 0) must agree; {tree.name_at(place)} is {x[place]:.17g}, but below it are "
        f"exactly {below}{more}"
    )
