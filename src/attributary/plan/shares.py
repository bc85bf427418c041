"""Shares: what part of the budget each level gets, for each root, for roots not yet seen, or for each node.

Roots with splits of their own minimise their own error each; a single split minimises the error of the whole tree, all
roots pooled. Under Definition 1, the levels at or below the first unknown attribute may have half of the budget
together. A split that would give them more gives them exactly half, in the same proportions, and is made anew for the
other levels; where there are no others, the other half is not spent.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from attributary.budget import Split
from attributary.plan.question import Question
from attributary.types import Floats

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
        return Shares(_together(q, method))
    rows = _limited(q, lambda fixed: _rows(q, q.split(method, fixed, q.weights, total=q.spec.total)), q.fixed)
    default = _default(q, method, rows[0, 0])
    rows[q.new] = default
    return Shares(default, rows)


def _together(q: Question, method: str) -> Floats:
    """The one split that is best for the whole tree."""
    levels = len(q.fixed)  # beside which there may be one on top
    found: Floats = _limited(q, lambda fixed: _rows(q, q.split_together(method, fixed))[:1, -levels:], q.fixed)[0]
    return found


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
    nodes = _nodes(q, q.fixed)
    own = q.spec.split_by is not None
    default = _default(q, "optimal", float(nodes[0])) if own else _together(q, "optimal")
    unknown = np.where(np.arange(len(nodes)) < q.tree.offsets[q.spec.first_unknown], 0.0, nodes)
    unknown = q.tree.in_level_order.sum_down(unknown)
    if unknown.max() > q.limit * (1 + CLOSE):
        nodes = _nodes(q, np.where(np.arange(q.tree.depth) < q.spec.first_unknown, q.fixed, default))
    return Shares(default, None, nodes)


def _nodes(q: Question, fixed: Floats) -> Floats:
    """The share of each node, in level order."""
    if q.spec.split_by is not None:
        return q.tree.to_level_order(q.split("per-node", fixed, q.weights, total=q.spec.total).epsilon) / q.spec.epsilon
    split = q.split_together("per-node", fixed)
    found: Floats = split.tree.to_level_order(split.epsilon)[-len(q.tree) :] / q.spec.epsilon
    return found


def _rows(q: Question, split: Split) -> Floats:
    """The split by level, with a common total in front of every row."""
    rows = split.epsilon / q.spec.epsilon
    if split.total is None:
        return rows
    return np.column_stack([np.full(len(rows), split.total / q.spec.epsilon), rows])


def _limited(q: Question, solve: Callable[[Floats], Floats], fixed: Floats) -> Floats:
    """Rows whose unknown levels stay within their limit."""
    rows = solve(fixed)
    over = rows[:, q.spec.first_unknown :].sum(axis=1) > q.limit * (1 + CLOSE)
    if not over.any():
        return rows
    free = np.isnan(fixed) & (np.arange(len(fixed)) >= q.spec.first_unknown)
    wanted = np.where(free, rows[over].mean(axis=0), 0.0)
    room = q.limit - np.nansum(fixed[q.spec.first_unknown :])
    limited = solve(np.where(free, wanted / wanted.sum() * room, fixed))
    if q.spec.total and not over.all():  # once more, as the total is common to all rows
        with_total = fixed.copy()
        with_total[0] = limited[0, 0]
        rows = solve(with_total)
        over = rows[:, q.spec.first_unknown :].sum(axis=1) > q.limit * (1 + CLOSE)
    return np.where(over[:, None], limited, rows)
