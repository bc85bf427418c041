"""whole: shares of a budget as whole numbers that sum to it."""

from typing import Literal

import numpy as np

from attributary.types import Floats, Ints

Rounding = Literal["largest-remainder", "floor"]

CLOSE = 1e-9  # of the budget: what floating point makes of a whole number, or of a tie


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
        contribution[over, lower] = whole(normal(share[over, lower]), limit, rounding)
        contribution[over, upper] = whole(normal(share[over, upper]), budget - limit, rounding)
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


def normal(share: Floats) -> Floats:
    """Rows that sum to 1, or are 0."""
    sums = share.sum(axis=1, keepdims=True)
    parts: Floats = np.divide(share, sums, out=np.zeros_like(share), where=sums > 0)
    return parts
