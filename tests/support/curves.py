"""Non-negative counts in exact fractions: by the curves s(λ) for the joint optimum, by trying all sets for a family."""

from fractions import Fraction
from itertools import combinations

import numpy as np

from support.exact import HUGE

Curve = list[tuple[Fraction, Fraction, Fraction]]  # from price λ on, s is this and grows at this slope; before, 0


def joint(parent: list[int], noisy: list[float], variance: list[float]) -> list[Fraction]:
    """argmin over s_leaf ≥ 0 of Σ (noisy − s)² / variance: the piecewise linear functions of docs/mathematics."""
    x, var = _fractions(parent, noisy, variance)
    children = kin(parent)
    below: dict[int, Curve] = {}
    own: dict[int, Curve] = {}
    for v in bottom_up(parent):
        if not children[v]:
            own[v] = [(-x[v] / var[v], Fraction(0), var[v])]
            continue
        prices = sorted({price for c in children[v] for price, _, _ in own[c]})
        below[v] = [
            (p, sum(at(own[c], p) for c in children[v]), sum(slope(own[c], p) for c in children[v])) for p in prices
        ]
        own[v] = [(p + (s - x[v]) / var[v], s, d / (1 + d / var[v])) for p, s, d in below[v]]
    count = [Fraction(0)] * len(parent)
    for v in reversed(bottom_up(parent)):
        if parent[v] < 0:
            count[v] = at(own[v], Fraction(0))
        if children[v]:
            price = where(below[v], count[v])
            for c in children[v]:
                count[c] = at(own[c], price)
    return count


def at(curve: Curve, price: Fraction) -> Fraction:
    passed = [piece for piece in curve if piece[0] <= price]
    return passed[-1][1] + passed[-1][2] * (price - passed[-1][0]) if passed else Fraction(0)


def slope(curve: Curve, price: Fraction) -> Fraction:
    passed = [piece for piece in curve if piece[0] <= price]
    return passed[-1][2] if passed else Fraction(0)


def where(curve: Curve, count: Fraction) -> Fraction:
    """The price at which the curve reaches a count."""
    start, s, growth = [piece for piece in curve if piece[1] <= count][-1]
    return start + (count - s) / growth


def topdown(parent: list[int], noisy: list[float], variance: list[float]) -> list[Fraction]:
    """Roots keep their blue; each family is as near to z⇑ as its parent's count and its members' least allow."""
    x, var = _fractions(parent, noisy, variance)
    children = kin(parent)
    z, v_up, least = x[:], var[:], [Fraction(0)] * len(parent)
    for v in bottom_up(parent):
        if children[v]:
            zs, vs = sum(z[c] for c in children[v]), sum(v_up[c] for c in children[v])
            least[v] = sum(least[c] for c in children[v])
            z[v], v_up[v] = (x[v] * vs + zs * var[v]) / (vs + var[v]), var[v] * vs / (vs + var[v])
        if variance[v] == 0:
            least[v] = z[v] = x[v]
            v_up[v] = Fraction(0)
    count = [Fraction(0)] * len(parent)
    for v in reversed(bottom_up(parent)):
        if parent[v] < 0:
            count[v] = max(z[v], least[v])
        family(count, count[v], children[v], z, v_up, least)
    return count


def family(
    count: list[Fraction],
    total: Fraction,
    nodes: list[int],
    z: list[Fraction],
    v: list[Fraction],
    least: list[Fraction],
) -> None:
    unknown = [u for u in nodes if v[u] > HUGE / 10**20]
    known = [u for u in nodes if u not in unknown]
    left = total - sum(max(z[u], least[u]) for u in known)
    if unknown and left > sum(least[u] for u in unknown):
        for u in known:
            count[u] = max(z[u], least[u])
        nearest(count, left, unknown, dict.fromkeys(unknown, Fraction(0)), dict.fromkeys(unknown, Fraction(1)), least)
    else:
        for u in unknown:
            count[u] = least[u]
        rest = total - sum(least[u] for u in unknown)
        nearest(count, rest, known, {u: z[u] for u in known}, {u: v[u] for u in known}, least)


def nearest(
    count: list[Fraction],
    total: Fraction,
    nodes: list[int],
    z: dict[int, Fraction],
    v: dict[int, Fraction],
    least: list[Fraction],
) -> None:
    """Tries every set of members above their least until one meets all conditions for the optimum."""
    for size in range(len(nodes) + 1):
        for chosen in combinations([u for u in nodes if v[u] > 0], size):
            rest = total - sum(least[u] for u in nodes if u not in chosen)
            price = (rest - sum(z[u] for u in chosen)) / sum(v[u] for u in chosen) if chosen else None
            wants = {u: z[u] + v[u] * price if price is not None else least[u] for u in nodes}
            above = all(wants[u] > least[u] for u in chosen)
            if above and (all(wants[u] <= least[u] for u in nodes if u not in chosen) if chosen else rest <= 0):
                for u in nodes:
                    count[u] = wants[u] if u in chosen else least[u]
                return
    assert not nodes or all(v[u] == 0 for u in nodes)
    for u in nodes:
        count[u] = least[u]


def kin(parent: list[int]) -> list[list[int]]:
    children: list[list[int]] = [[] for _ in parent]
    for v, p in enumerate(parent):
        if p >= 0:
            children[p].append(v)
    return children


def bottom_up(parent: list[int]) -> list[int]:
    children = kin(parent)
    order = [v for v, p in enumerate(parent) if p < 0]
    for v in order:
        order += children[v]
    return order[::-1]


def _fractions(parent: list[int], noisy: list[float], variance: list[float]) -> tuple[list[Fraction], list[Fraction]]:
    """Figures and variances; ∞ is huge for a leaf, and hugely huge above it, so that it gives way to what is below."""
    inner = set(parent)
    huge = [HUGE**2 if v in inner else HUGE for v in range(len(parent))]
    var = [h if v == np.inf else Fraction(v) or 1 / HUGE for v, h in zip(variance, huge, strict=True)]
    return [Fraction(0) if v == np.inf else Fraction(x) for x, v in zip(noisy, variance, strict=True)], var
