"""Shares: what part of the budget each level gets, for each root, for roots not yet seen, or for each node.

Roots with splits of their own minimise their own error each; a single split minimises the error of the whole tree, all
roots pooled. Under Definition 1, the levels at or below the first unknown attribute may have half of the budget
together. A split that would give them more gives them exactly half, in the same proportions, and is made anew for the
other levels; where there are no others, the other half is not spent.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from attributary.budget import Split
from attributary.plan.question import Question

Floats = NDArray[np.float64]
CLOSE = 1e-9


@dataclass(frozen=True, eq=False)
class Shares:
    """Parts of ε, each row by level, a total included; none sums to more than 1."""

    default: Floats  # (levels,)
    roots: Floats | None = None  # (heads, levels), in level order; None for one split
    nodes: Floats | None = None  # of each node, in level order


def shares(q: Question, method: str) -> Shares:
    """The shares that a method gives."""
    if method == "per-node":
        return _per_node(q)
    if q.spec.split_by is None:
        return Shares(_limited(q, lambda fixed: _rows(q, q.split_together(method, fixed))[-1:, -len(fixed) :], q.fixed)[0])
    rows = _limited(q, lambda fixed: _rows(q, q.split(method, fixed, q.weights, total=q.spec.total)), q.fixed)
    default = _default(q, method, rows[0, 0])
    rows[q.new] = default
    return Shares(default, rows)


def _default(q: Question, method: str, total: float) -> Floats:
    """The one split that is best for all known roots together; a key that all roots feed takes the same from all."""
    fixed = q.fixed.copy()
    if q.spec.total:
        fixed[0] = total
    weights = q.of_known_heads(q.weights)
    options = {"by_root": False, "total": q.spec.total}
    found: Floats = _limited(q, lambda fixed: _rows(q, q.split(method, fixed, weights, **options))[:1], fixed)[0]
    return found


def _per_node(q: Question) -> Shares:
    def solve(fixed: Floats) -> Floats:
        by_root = q.spec.split_by is not None
        split = q.split("per-node", fixed, q.weights, total=q.spec.total) if by_root else q.split_together("per-node", fixed)
        share = split.epsilon / q.spec.epsilon
        return q.tree.to_level_order(share) if len(share) == len(q.tree) else share[1:]

    nodes = solve(q.fixed)
    lower = slice(int(q.tree.offsets[min(q.unknown, q.tree.depth)]), None)
    path = np.where(np.arange(len(nodes)) >= lower.start, nodes, 0.0)
    for i in range(q.unknown + 1, q.tree.depth):
        path[q.tree.slice(i)] += path[q.tree.family[q.tree.slice(i)]]
    pattern = shares(q, "optimal").default if q.spec.split_by is None else _default(q, "optimal", nodes[0])
    if path.max() > q.limit * (1 + CLOSE):
        fixed = q.fixed.copy()
        fixed[q.unknown :] = pattern[q.unknown :]
        nodes = solve(fixed)
    return Shares(pattern, None, nodes)


def _rows(q: Question, split: Split) -> Floats:
    """The split by level, with a common total in front of every row."""
    rows = split.epsilon / q.spec.epsilon
    if split.total is None:
        return rows
    return np.column_stack([np.full(len(rows), split.total / q.spec.epsilon), rows])


def _limited(q: Question, solve: Callable[[Floats], Floats], fixed: Floats) -> Floats:
    """Rows whose unknown levels stay within their limit."""
    rows = solve(fixed)
    over = rows[:, q.unknown :].sum(axis=1) > q.limit * (1 + CLOSE)
    if not over.any():
        return rows
    free = np.isnan(fixed) & (np.arange(len(fixed)) >= q.unknown)
    wanted = np.where(free, rows[over].mean(axis=0), 0.0)
    room = q.limit - np.nansum(fixed[q.unknown :])
    limited = solve(np.where(free, wanted / wanted.sum() * room, fixed))
    if q.spec.total and not over.all():  # once more, as the total is common to all rows
        with_total = fixed.copy()
        with_total[0] = limited[0, 0]
        rows = solve(with_total)
        over = rows[:, q.unknown :].sum(axis=1) > q.limit * (1 + CLOSE)
    return np.where(over[:, None], limited, rows)
