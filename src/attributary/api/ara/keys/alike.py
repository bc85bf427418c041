"""alike: contributions by node, drawn together until there are few enough different ones on the ways down.

A known node has one contribution, common to all paths through it: what reaches its key is its count times that. So it
is the nodes of a level that are drawn together, not the paths. What an impression does not know cannot make a
difference: below a known path, a level's nodes get their mean.
"""

import numpy as np

from attributary.api.ara.keys.classes import NEW, by_known_path
from attributary.api.ara.keys.cluster import cluster
from attributary.errors import InputError
from attributary.plan import Plan
from attributary.plan.nodes import down
from attributary.tree import Tree
from attributary.types import Bools, Floats, Ints


def alike(plan: Plan, tree: Tree, was: Ints, new: Bools, most: int) -> Ints:
    """The contributions in level order, with at most so many different ones on the ways down, and as near as may be.

    `new` are nodes that the plan has not seen: they take of what is left on their path what the default split would.
    """
    known = len(plan.spec.known)
    if most <= known:
        raise InputError(f"a plan by node needs at least {known + 1} classes with {known} known attributes; got {most}")
    rows, _ = by_known_path(plan.spec, tree, was)
    tries = (_drawn(plan, tree, was, rows, new, bins, up) for bins in _fewer(most) for up in (True, False))
    return min((now for now in tries if distinct_paths(tree, now) <= most), key=lambda now: _cost(tree, was, now, new))


def _fewer(most: int) -> list[int]:
    """How many different contributions of a level to try: each time a fifth less, down to none of its own."""
    tries = [most]
    while tries[-1] > 0:
        tries.append(tries[-1] * 4 // 5)
    return tries


def distinct_paths(tree: Tree, value: Ints) -> int:
    """How many different rows of values there are on the ways down to the last level."""
    number = np.zeros(tree.offsets[1], np.int64)
    for i in range(tree.depth):
        level = tree.slice(i)
        above = number[tree.family[level] - tree.offsets[i - 1]] if i else number
        _, number = np.unique(above * (int(value.max()) + 1) + value[level], return_inverse=True)
    return int(number.max()) + 1


def under_new(tree: Tree) -> Bools:
    """The nodes of values that the plan has not seen, and all below them, in level order."""
    found = np.zeros(len(tree), bool)
    for i, labels in enumerate(tree.labels[: tree.depth - tree.total], int(tree.total)):
        is_new = np.array([label == NEW for label in labels.dictionary.to_pylist()])
        found[tree.slice(i)] = is_new[labels.indices.to_numpy()]
    return tree.in_level_order.sum_down(found, np.logical_or)


def _drawn(plan: Plan, tree: Tree, was: Ints, rows: Floats, new: Bools, bins: int, up: bool) -> Ints:
    """So many different contributions at each level above the last, which takes what is left."""
    own = np.empty(len(tree), np.int64)
    for i in range(tree.depth):
        level = tree.slice(i)
        if i < plan.spec.first_unknown:
            value, seen = was[level].astype(np.float64), ~new[level]
        else:
            value = rows[:, i]
            seen = ~new[level][:: (level.stop - level.start) // len(value)]
        if i < tree.depth - 1:
            value = value.copy()
            value[seen] = _binned(value[seen], bins, up)
        elif bins == 0:
            value = np.full_like(value, value[seen].max())
        own[level] = np.repeat(np.floor(value), (level.stop - level.start) // len(value)).astype(np.int64)
    own[new] = -1
    return down(tree, own, np.array(plan.default), plan.spec)


def _binned(value: Floats, bins: int, up: bool) -> Floats:
    """Values in so many groups: of each the mean, or the least; 0 stays 0, unless there are no groups."""
    if bins == 0:
        return np.full_like(value, value.mean() if up else value.min())
    found, some = value.copy(), value > 0
    distinct, number, size = np.unique(value[some], return_inverse=True, return_counts=True)
    if len(distinct) <= bins:
        return found
    group = cluster(distinct[:, None], size.astype(np.float64), bins)
    low = np.full(bins, np.inf)
    np.minimum.at(low, group, distinct)
    mean = np.bincount(group, distinct * size, bins) / np.maximum(np.bincount(group, size, bins), 1)
    found[some] = (mean if up else low)[group][number]
    return found


def _cost(tree: Tree, was: Ints, now: Ints, new: Bools) -> float:
    """The mean over levels of the variances now, in terms of what they were."""
    levels = [tree.slice(i) for i in range(tree.depth)]
    return float(sum(variance_ratio(was[level][~new[level]], now[level][~new[level]]).mean() for level in levels))


def variance_ratio(was: Ints, now: Ints) -> Floats:
    """The noise variance of each node's count now, in terms of what it was; of those that had a key."""
    had = was > 0
    with np.errstate(divide="ignore"):
        ratio: Floats = (was[had] / now[had]) ** 2 if had.any() else np.ones(1)
    return ratio
