"""Generalised least squares in exact fractions: slow, dense, and independent of the passes."""

from fractions import Fraction

import numpy as np

HUGE = Fraction(10) ** 60  # stands for ∞, and its inverse for 0: far beyond any variance under test


def least_squares(
    parent: list[int], noisy: list[float], variance: list[float]
) -> tuple[list[Fraction], list[Fraction]]:
    """The counts that minimise Σ (noisy − s)² / variance over consistent s, and their variances."""
    n = len(parent)
    inner = {p for p in parent if p >= 0}
    leaves = [v for v in range(n) if v not in inner]
    rows = incidence(parent, leaves)
    var = [HUGE if v == np.inf else Fraction(v) or 1 / HUGE for v in variance]
    x = [Fraction(0) if v == np.inf else Fraction(f) for f, v in zip(noisy, variance, strict=True)]
    m = len(leaves)
    normal = [[sum(r[i] * r[j] / v for r, v in zip(rows, var, strict=True)) for j in range(m)] for i in range(m)]
    inverse = invert(normal)
    right = [sum(r[i] * f / v for r, f, v in zip(rows, x, var, strict=True)) for i in range(m)]
    theta = [sum(a * b for a, b in zip(line, right, strict=True)) for line in inverse]
    count = [sum(a * b for a, b in zip(r, theta, strict=True)) for r in rows]
    spread = [sum(r[i] * inverse[i][j] * r[j] for i in range(m) for j in range(m) if r[i] and r[j]) for r in rows]
    return [Fraction(c) for c in count], [Fraction(s) for s in spread]


def incidence(parent: list[int], leaves: list[int]) -> list[list[int]]:
    """Which leaves each node counts."""
    rows = [[0] * len(leaves) for _ in parent]
    for j, leaf in enumerate(leaves):
        v = leaf
        while v >= 0:
            rows[v][j] = 1
            v = parent[v]
    return rows


def invert(matrix: list[list[Fraction | int]]) -> list[list[Fraction]]:
    """The inverse by Gauss–Jordan."""
    m = len(matrix)
    work = [[Fraction(a) for a in row] + [Fraction(int(i == j)) for j in range(m)] for i, row in enumerate(matrix)]
    for i in range(m):
        pivot = next(r for r in range(i, m) if work[r][i] != 0)
        work[i], work[pivot] = work[pivot], work[i]
        head = work[i][i]
        work[i] = [a / head for a in work[i]]
        for r in range(m):
            if r != i and work[r][i] != 0:
                factor = work[r][i]
                work[r] = [a - factor * b for a, b in zip(work[r], work[i], strict=True)]
    return [row[m:] for row in work]
