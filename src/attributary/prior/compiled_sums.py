"""compiled_sums: the sums that shares and spreads are learned from, compiled, for millions of nodes.

The same as in `kin` and `learn`, in one sweep over a level, without NumPy's temporary arrays.
"""

import numpy as np

from attributary.kernel import kernel

INF = np.inf


@kernel(nogil=True, fastmath={"reassoc"})
def losses(first, z, parent, weight, have, before, of, trust):  # type: ignore[no-untyped-def]
    """For each trust t, Σ weight·(z − share·parent)² with shares (have + t·before) / (of + t), made to sum to 1."""
    share, out = np.empty(len(z)), np.zeros(len(trust))
    for f in range(len(first) - 1):
        a, b = np.uint64(first[f]), np.uint64(first[f + 1])
        for k in range(len(trust)):
            t, total, loss = trust[k], 0.0, 0.0
            for i in range(a, b):
                share[i] = (have[i] + t * before[i]) / (of[i] + t)
                total += share[i]
            if total > 0.0:
                scale = parent[a] / total
                for i in range(a, b):
                    off = z[i] - share[i] * scale
                    loss += weight[i] * off * off
            else:
                even = parent[a] / (b - a)
                for i in range(a, b):
                    off = z[i] - even
                    loss += weight[i] * off * off
            out[k] += loss
    return out


@kernel(nogil=True)
def others(group, pool, expected):  # type: ignore[no-untyped-def]
    """Sums up what the others of each node's group have in the pool, and what was expected of them."""
    have, of, sums = np.empty_like(pool), np.empty_like(pool), np.zeros((group.max() + 1, 2))
    for i in range(len(pool)):
        sums[group[i], 0] += pool[i]
        sums[group[i], 1] += expected[i]
    for i in range(len(pool)):
        have[i] = max(sums[group[i], 0] - pool[i], 0.0)
        of[i] = max(sums[group[i], 1] - expected[i], 0.0)
    return have, of


@kernel(nogil=True)
def binned(edges, m, weight, z, v, drawn, use):  # type: ignore[no-untyped-def]
    """The sums of bins that a spread is learned from."""
    sums = np.zeros((5, len(edges) + 1))
    for i in range(len(m)):
        if use[i]:
            low, high = 0, len(edges)
            while low < high:
                middle = (low + high) // 2
                if edges[middle] <= m[i]:
                    low = middle + 1
                else:
                    high = middle
            surplus = weight[i] * ((z[i] - m[i]) ** 2 - v[i] - drawn[i])
            sums[0, low] += 1.0
            sums[1, low] += np.log(m[i])
            sums[2, low] += weight[i]
            sums[3, low] += surplus
            sums[4, low] += surplus * surplus
    return sums


@kernel(nogil=True)
def forgiven(spread, expected, z, v, jump, steps):  # type: ignore[no-untyped-def]
    """The spread, larger for nodes whose counts jumped; see `forgiving`."""
    grown = np.empty_like(spread)
    for i in range(len(z)):
        q, noise, growth = spread[i], v[i], 1.0
        if q > 0.0 and q + noise < INF:
            off = (z[i] - expected[i]) ** 2
            for _ in range(steps):
                k = growth * q / (growth * q + noise)
                growth = max((jump + (k * k * off + k * noise) / q) / (jump + 1.0), 1.0)
        grown[i] = q * growth
    return grown


@kernel(nogil=True)
def doubts(group, expected, variance, z, v, groups):  # type: ignore[no-untyped-def]
    """For each group the surplus found, its square, and what was claimed, added up; see `doubt_sums`."""
    sums = np.zeros((3, groups))
    for i in range(len(z)):
        both = variance[i] + v[i]
        if both > 0.0 and both < INF:
            weight = 1.0 / (both * both)
            surplus = weight * ((z[i] - expected[i]) ** 2 - v[i])
            sums[0, group[i]] += surplus
            sums[1, group[i]] += surplus * surplus
            sums[2, group[i]] += weight * variance[i]
    return sums
