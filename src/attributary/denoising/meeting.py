"""meeting: breakdowns and the sums that they share; if these are upper levels alone, they are joined there.

At the lowest common level every tree has an estimate from what is below it, z⇑; above it, figures of the same nodes.
All of these are independent: combined, they are figures of one small tree, whose best counts go down every tree.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from attributary.denoising.passes import blue, engine
from attributary.errors import InputError
from attributary.measurements import combine
from attributary.tree import Tree
from attributary.types import Floats, Ints

CLASH = 1e-7  # of the largest difference: exact figures that are further apart contradict each other


class Breakdown(NamedTuple):
    """A tree, and a figure and its variance for each node, in the tree's order; the variance is inf if not measured."""

    tree: Tree
    noisy: Floats
    variance: Floats


class Meeting(NamedTuple):
    """Two breakdowns, by their numbers, and which of the sums they share each of their leaves is part of.

    Leaves are in the order of `Tree.leaves`; -1 is a leaf that is part of none. With `levels`, the sums are told of
    the nodes of a level of each tree, in level order, and hold for all leaves below.
    """

    one: int
    other: int
    of_one: Ints
    of_other: Ints
    levels: tuple[int, int] | None = None

    def of(self, number: int) -> Ints:
        return self.of_one if number == self.one else self.of_other

    def of_leaves(self, number: int, tree: Tree) -> Ints:
        """The sums that leaves are part of."""
        if self.levels is None:
            return self.of(number)
        sums: Ints = tree.hand_down(self.of(number), self.levels[number != self.one])[tree.leaves]
        return sums

    @property
    def size(self) -> int:
        return 1 + int(max(self.of_one.max(initial=-1), self.of_other.max(initial=-1)))


def refuse_clash(apart: Floats, size: Floats) -> None:
    """Refuses exact figures that are apart by more than rounding."""
    if (np.abs(apart) > CLASH * (1 + np.abs(size).max(initial=0))).any():
        raise InputError("breakdowns contradict each other: exact figures (variance 0) do not sum to the same")


def common_top(trees: Sequence[Tree], meetings: Sequence[Meeting]) -> list[list[Ints]] | None:
    """Of each tree, level by level from the top, where its nodes stand in the first tree.

    None where breakdowns meet in sums that are not nodes of both, or meet at different levels.
    """
    found = {level for m in meetings for level in m.levels or (-1,)}
    if len(found) != 1 or -1 in found:
        return None
    level = found.pop()
    size = trees[0].slice(level).stop - trees[0].slice(level).start
    if any(not np.array_equal(np.sort(of), np.arange(size)) for m in meetings for of in (m.of_one, m.of_other)):
        return None
    places: dict[int, Ints] = {0: np.arange(size)}
    while links := [m for m in meetings if (m.one in places) != (m.other in places)]:
        known, new = sorted((links[0].one, links[0].other), key=lambda i: i not in places)
        places[new] = places[known][np.argsort(links[0].of(known))[links[0].of(new)]]
    if len(places) < len(trees):
        return None
    each = [[places[i]] for i in range(len(trees))]
    for at in range(level, 0, -1):
        above = [tree.family[tree.slice(at)] - tree.offsets[at - 1] for tree in trees]
        size = int(trees[0].offsets[at] - trees[0].offsets[at - 1])
        for tree, parent, tops in zip(trees, above, each, strict=True):
            place = np.full(int(tree.offsets[at] - tree.offsets[at - 1]), -1)
            place[parent] = above[0][tops[0]]
            if (place[parent] != above[0][tops[0]]).any() or not np.array_equal(np.sort(place), np.arange(size)):
                return None
            tops.insert(0, place)
    return each


def joined_above(breakdowns: Sequence[Breakdown], tops: list[list[Ints]]) -> list[tuple[Floats, Floats]]:
    """The best counts and variances of breakdowns with this common top, in the order of each tree."""
    first, level, ups = breakdowns[0].tree, len(tops[0]) - 1, []
    top = first.above(level + 1)
    count, variance = np.zeros(len(top)), np.full(len(top), np.inf)
    for (tree, noisy, var), places in zip(breakdowns, tops, strict=True):
        noisy, var = tree.to_level_order(noisy), tree.to_level_order(var)
        below = level < tree.depth - 1  # else the last level is one where they meet
        z, up = engine(tree).upward(tree, noisy, var, last=not below)
        ups.append((z, up, (noisy, var) if below else None))
        for at, place in enumerate(places):
            own, here = tree.slice(at), first.slice(at).start + place
            told, wide = (z[own], up[own]) if at == level else (np.where(var[own] < np.inf, noisy[own], 0), var[own])
            both = (wide == 0) & (variance[here] == 0)
            refuse_clash(np.where(both, told - count[here], 0), told)
            count[here], variance[here] = combine(count[here], variance[here], told, wide)
    count, variance = blue(top, count, variance)
    made = []
    for (tree, _, _), (z, up, figures), places in zip(breakdowns, ups, tops, strict=True):
        for at, place in enumerate(places):
            here = first.slice(at).start + place
            z[tree.slice(at)], up[tree.slice(at)] = count[here], variance[here]
        engine(tree).downward(tree, z, up, level, figures)
        made.append((tree.from_level_order(z), tree.from_level_order(up)))
    return made
