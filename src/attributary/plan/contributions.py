"""Contributions: shares of the budget as the whole numbers that a conversion adds to its keys."""

from collections.abc import Collection, Sequence
from typing import Literal

import numpy as np

from attributary.plan.problem import Problem, Shares, under
from attributary.spec import Spec
from attributary.tree import Tree
from attributary.types import Floats, Ints

Rounding = Literal["largest-remainder", "floor"]

CLOSE = 1e-9  # of the budget: what floating point makes of a whole number, or of a tie


def contributions(
    problems: Sequence[Problem],
    share: Sequence[Shares],
    most: Ints | None = None,
    rounding: Rounding = "largest-remainder",
    keep: Collection[str] = (),
) -> list[Shares]:
    """Whole numbers that sum to the budget for every root, or on every path, and never to more.

    `share` is what part of ε each level of each measure has; `most`, of each head, how many conversions of an
    impression count, by default as the spec says. The last level always has a key: nothing else tells what leaves have.
    """
    q, number = problems[0], len(problems)
    most = np.broadcast_to(q.spec.given_limit or 1 if most is None else most, q.new.shape)
    rows, times = np.stack([s.default for s in share])[:, None], np.array([most_of_unseen(most)])
    if share[0].roots is not None:
        rows = np.concatenate([rows, np.stack([s.rows(q.tree) for s in share])], axis=1)
        times = np.append(times, most)
    table = rows.transpose(1, 2, 0).reshape(len(times), -1)  # by level, then by measure
    whole_table = np.empty(table.shape, np.int64)
    for m in np.unique(times).tolist():
        here = times == m
        whole_table[here] = _whole_rows(q.spec, table[here], table[:1], m, number, rounding, keep)
    whole_table[1:][q.new[: len(times) - 1]] = whole_table[0]  # unseen roots have the default split
    by_measure = whole_table.reshape(len(times), -1, number).transpose(2, 0, 1)
    nodes = None if share[0].nodes is None else _by_node(q, share[0].nodes, by_measure[0, 0], keep)
    return [Shares(each[0], each[1:] if len(times) > 1 else None, nodes) for each in by_measure]


def most_of_unseen(most: Ints) -> int:
    """How many conversions count for roots not seen yet: as many as for most roots, of several the least."""
    numbers, times = np.unique(most, return_counts=True)
    return int(numbers[np.argmax(times)])


def _whole_rows(
    spec: Spec, share: Floats, default: Floats, most: int, number: int, rounding: Rounding, keep: Collection[str]
) -> Ints:
    """Whole numbers within the budget, and at unknown levels within theirs; a total's are the same for all rows."""
    budget = spec.contributions_of(most)
    top, unknown = number * (spec.total and spec.split_by is not None), spec.first_unknown * number
    common = whole(default, budget, rounding)[:, :top]  # a total feeds one key from all roots ...
    if top and common.sum() > budget - number:
        common[0, common.argmax()] -= number  # ... and leaves something for the last level
    left, lowest = 1.0 - share[:, :top].sum(axis=1, keepdims=True), np.zeros_like(share[:, top:])
    lowest[:, -number:] = 1 / number
    rest = np.divide(share[:, top:], left, out=lowest, where=left > CLOSE)
    limit = spec.privacy_unit.budget_of_unknown(budget)
    rows = whole_with_limit(rest, budget - int(common.sum()), slice(unknown - top, None), limit, rounding)
    rows = np.hstack([np.repeat(common, len(rows), axis=0), rows])
    for level in [*(spec.levels.index(level) for level in keep), len(spec.levels) - 1]:
        for column in range(level * number, (level + 1) * number):
            others = [j for j in range(top, rows.shape[1]) if j != column]
            rows = at_least_one(rows, column, [j for j in others if (j < unknown) == (column < unknown)], others)
    return rows


def _by_node(q: Problem, share: Floats, default: Ints, keep: Collection[str]) -> Ints:
    path = np.floor(q.tree.in_level_order.sum_down(share) * q.spec.budget + 1e-6).astype(np.int64)
    whole = path - np.where(q.tree.family < 0, 0, path[q.tree.family])  # so that a path's sum to what it may have
    for level in map(q.spec.levels.index, keep):
        whole[q.tree.slice(level)] = np.maximum(whole[q.tree.slice(level)], 1)
    if q.spec.split_by is not None:
        whole[under(q.tree, q.new)] = -1
    return down(q.tree, whole, default, q.spec)


# Whole numbers


def whole(share: Floats, budget: int, rounding: Rounding = "largest-remainder") -> Ints:
    """Rows of shares, each of which sums to 1 at most, as contributions that sum to the same part of `budget`.

    By largest remainders, ties to the upper level; a sum that is itself no whole number is rounded down. A share of 0
    stays 0. With "floor" all are rounded down, as in the paper's figure 2.
    """
    exact = share * budget
    contribution: Ints = np.floor(exact + CLOSE * budget).astype(np.int64)
    if rounding == "floor":
        return contribution
    spare = np.floor(exact.sum(axis=1) + CLOSE * budget).astype(np.int64) - contribution.sum(axis=1)
    remainder = np.where(share > 0, np.round(exact - contribution, 4), -np.inf)
    rank = np.argsort(np.argsort(-remainder, axis=1, kind="stable"), axis=1)
    contribution += rank < spare[:, None]
    return contribution


def whole_with_limit(share: Floats, budget: int, lower: slice, limit: int, rounding: Rounding) -> Ints:
    """The same, where the levels of `lower` have at most `limit` together, and the others the rest."""
    contribution = whole(share, budget, rounding)
    over = contribution[:, lower].sum(axis=1) > limit
    if over.any():
        upper = slice(0, lower.start)
        contribution[over, lower] = whole(_normal(share[over, lower]), limit, rounding)
        contribution[over, upper] = whole(_normal(share[over, upper]), budget - limit, rounding)
    return contribution


def at_least_one(contribution: Ints, level: int, first: list[int], others: list[int]) -> Ints:
    """The same with at least 1 for a level, taken from the largest of the first donors or, if need be, of others."""
    kept = contribution.copy()
    for row in np.flatnonzero(kept[:, level] == 0):
        donors = max(first, others, key=lambda some: max(kept[row, some], default=0) > 1)  # the first of equals
        if len(donors):
            largest = donors[int(kept[row, donors].argmax())]
            if kept[row, largest] > 1:
                kept[row, largest] -= 1
                kept[row, level] = 1
    return kept


def _normal(share: Floats) -> Floats:
    """Rows that sum to 1, or are 0."""
    sums = share.sum(axis=1, keepdims=True)
    parts: Floats = np.divide(share, sums, out=np.zeros_like(share), where=sums > 0)
    return parts


# Node by node


def down(tree: Tree, asked: Ints, default: Ints, spec: Spec) -> Ints:
    """Contributions in level order that stay within the spec's budget on every path, and at its unknown levels.

    A node has its own; one without (-1) takes of what is left on its path what the default split would. A leaf takes
    all that is left, unless it is to have nothing.
    """
    contribution, budget, unknown = asked.copy(), spec.budget, spec.first_unknown
    left, spent = np.full(len(tree), budget), np.zeros(len(tree), np.int64)  # on the path; at unknown levels
    after = np.cumsum(default[::-1])[::-1]
    leaf = tree.in_level_order.is_leaf
    for i in range(tree.depth):
        level = tree.slice(i)
        up = tree.family[level]
        if i:
            left[level] = left[up] - contribution[up]
            spent[level] = spent[up] + (contribution[up] if i > unknown else 0)
        room = np.minimum(left[level], spec.unknown_budget - spent[level]) if i >= unknown else left[level]
        mine = np.where(asked[level] >= 0, asked[level], left[level] * int(default[i]) // max(int(after[i]), 1))
        mine = np.where(leaf[level] & (mine > 0), room, mine)
        contribution[level] = np.minimum(mine, room)
    return contribution


def paths(tree: Tree, contribution: Ints, unknown: int) -> tuple[Ints, Ints]:
    """What is contributed on the way down to each node, in all and at unknown levels; in level order."""
    below = np.where(np.arange(len(tree)) < tree.offsets[min(unknown, tree.depth)], 0, contribution)
    return tree.in_level_order.sum_down(contribution), tree.in_level_order.sum_down(below)
