"""Contributions: shares of the budget as the whole numbers that a conversion adds to its keys."""

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from attributary.plan.nodes import down
from attributary.plan.question import Question, under
from attributary.plan.shares import Shares
from attributary.plan.whole import Rounding, at_least_one, whole, whole_with_limit
from attributary.spec import Spec
from attributary.types import Floats, Ints


@dataclass(frozen=True, eq=False)
class Contributions:
    """By level, a total included; 0 means no key."""

    default: Ints
    roots: Ints | None = None  # (heads, levels), in level order
    nodes: Ints | None = None  # of each node, in level order


def contributions(q: Question, share: Shares, rounding: Rounding, keep: Collection[str]) -> Contributions:
    """Whole numbers that sum to the budget for every root, or on every path, and never to more."""
    kept = [q.spec.levels.index(level) for level in keep]
    rows = share.default[None] if share.roots is None else np.vstack([share.default, share.roots])
    found = _by_level(q.spec, rows, rounding, kept)
    if share.nodes is None:
        return Contributions(found[0], None if share.roots is None else found[1:])
    own = np.floor(share.nodes * q.spec.budget + 1e-6).astype(np.int64)
    for level in kept:
        own[q.tree.slice(level)] = np.maximum(own[q.tree.slice(level)], 1)
    if q.spec.split_by is not None:
        own[under(q.tree, q.new)] = -1
    return Contributions(found[0], None, down(q.tree, own, found[0], q.spec))


def _by_level(spec: Spec, share: Floats, rounding: Rounding, keep: list[int]) -> Ints:
    top, unknown = int(spec.total and len(share) > 1), spec.first_unknown
    common = whole(share[:1], spec.budget, rounding)[:, :top]  # a total feeds one key from all roots: the same for all
    left = 1.0 - share[:, :top].sum(axis=1, keepdims=True)
    rest = np.divide(share[:, top:], left, out=np.zeros_like(share[:, top:]), where=left > 0)
    lower = slice(unknown - top, None)
    found = whole_with_limit(rest, spec.budget - int(common.sum()), lower, spec.unknown_budget, rounding)
    found = np.hstack([np.repeat(common, len(found), axis=0), found])
    for level in keep:
        others = [j for j in range(top, found.shape[1]) if j != level]
        found = at_least_one(found, level, [j for j in others if (j < unknown) == (level < unknown)], others)
    return found
