"""topdown: non-negative counts, family by family, from the roots' best estimates down."""

from typing import Any

import numpy as np

from attributary.denoising.passes import engine, sweep
from attributary.tree import Tree
from attributary.types import Floats

INF = np.inf
ONE = np.uint64(1)
ULPS = 1e-15  # how far a family may be from its parent, relatively, before it is brought back


def topdown(tree: Tree, x: Floats, var: Floats, blue: Floats, least: Floats | None) -> Floats:
    """The counts ≥ 0 that keep the roots' blue and, in each family, are nearest to z⇑, in level order.

    Of all s ≥ 0 that sum to their parent's count, those with the least Σ (s_u − z⇑_u)² / var⇑_u, exactly:
    s_u = max(0, z⇑_u + var⇑_u·λ). Where figures are known exactly, `least` takes the place of 0. Children with
    var⇑ = ∞ share equally what is left above Σ max(least, z⇑) of their siblings, none getting less than its least; if
    nothing is left, that is all they get, and the siblings share the rest as ever.
    """
    z, v = engine(tree).upward(tree, x, var)
    return settled(tree, z, v, blue, least)


def settled(tree: Tree, z: Floats, v: Floats, blue: Floats, least: Floats | None, pull: Floats | None = None) -> Floats:
    """The same from z⇑ and var⇑, which are lost; with `pull`, a child's z⇑ grows by pull · its parent's count."""
    roots = tree.slice(0)
    pull = np.empty(0) if pull is None else pull
    if least is None and v.max() < INF:
        z[roots] = np.maximum(blue[roots], 0.0) + 0.0
        sweep(tree, _settle, z, v, np.empty(0), z, z, v, pull)
        return z
    least = np.zeros(len(tree)) if least is None else least
    count, w, u = np.empty_like(z), np.empty_like(z), np.empty_like(z)
    count[roots] = np.maximum(blue[roots], least[roots]) + 0.0
    sweep(tree, _settle, z, v, least, count, w, u, pull)
    return count


def _settle(first, z, v, least, s, w, u, pull, lo, hi):  # type: ignore[no-untyped-def]
    """Settles the children of the parents lo:hi: w and u are z⇑ and var⇑ above least, and w becomes s above least.

    Without bounds and ∞, least is empty, w and s are z itself, and u is v.
    """
    bounded, pulled = len(least) > 0, len(pull) > 0
    for p in range(lo, hi):
        a, b = np.uint64(first[p]), np.uint64(first[p + ONE])
        if a == b:
            continue
        total = s[p]
        if b - a == ONE:
            s[a] = max(total, least[a]) if bounded else total
            continue
        if pulled:
            for i in range(a, b):
                z[i] += pull[i] * total
        if bounded:
            unknown, known = 0, 0.0
            for i in range(a, b):
                total -= least[i]
                if v[i] == INF:
                    unknown += 1
                else:
                    known += max(z[i] - least[i], 0.0)
            spare = unknown > 0 and total > known
            if spare:
                total -= known
            for i in range(a, b):
                s[i], w[i], u[i] = least[i], 0.0, 0.0
                if v[i] == INF:
                    if spare:  # s = max(least, λ): the rule for z⇑ = 0 and var⇑ = 1
                        w[i], u[i] = -least[i], 1.0
                elif spare:
                    s[i] = max(z[i], least[i])
                elif v[i] > 0.0:
                    w[i], u[i] = z[i] - least[i], v[i]

        ws, us, alive = 0.0, 0.0, int(b - a)
        for i in range(a, b):
            ws += w[i]
            us += u[i]
        if not (total > 0.0 and us > 0.0):
            for i in range(a, b):
                w[i] = 0.0
            continue
        price = (total - ws) / us
        while True:  # drop whoever would be negative: that lowers the price, so nobody comes back
            ws_left, us_left, left = 0.0, 0.0, 0
            for i in range(a, b):
                stays = w[i] + u[i] * price > 0.0
                ws_left += w[i] if stays else 0.0
                us_left += u[i] if stays else 0.0
                left += 1 if stays else 0
            if left == 0 or left >= alive:
                break
            us, alive = us_left, left
            price = (total - ws_left) / us_left

        got = 0.0
        if left == 0:  # total is lost in the rounding of w: the last to be dropped takes all
            best: Any = a
            for i in range(a, b):
                if u[i] > 0.0 and (u[best] == 0.0 or w[i] * u[best] > w[best] * u[i]):
                    best = i
            for i in range(a, b):
                w[i] = total if i == best else 0.0
            got = total
        else:
            for i in range(a, b):
                t = w[i] + u[i] * price
                w[i] = (t if t < total else total) if t > 0.0 else 0.0
                got += w[i]
        if abs(total - got) > ULPS * total:
            price, got = (total - got) / us, 0.0  # once more, from counts no larger than total
            for i in range(a, b):
                t = w[i] + u[i] * price
                w[i] = t if w[i] > 0.0 and t > 0.0 else 0.0
                got += w[i]
            scale = total / got
            for i in range(a, b):
                w[i] = min(w[i] * scale, total)
        if bounded:
            for i in range(a, b):
                s[i] = min(s[i] + w[i], s[p]) if w[i] > 0.0 else s[i]
