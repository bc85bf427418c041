"""Algorithms 1 and 2 compiled: the sweeps of linear.py, fused.

Two sweeps over flat arrays in level order. The last level is read straight from the input, so that z⇑ and var⇑ are
stored for the levels above it only, in the arrays that will hold the answer. Families are independent, so threads
share the parents of a level. Indices are unsigned: a signed one might wrap around, and LLVM would not vectorise.
"""

from collections.abc import Callable

import numpy as np

from attributary.denoising.linear import LARGEST, contradiction, refuse
from attributary.denoising.threads import shared, spans
from attributary.kernel import kernel
from attributary.tree import Tree
from attributary.types import Floats

INF = np.inf
ONE = np.uint64(1)
TWO = np.uint64(2)


def blue(tree: Tree, x: Floats, var: Floats) -> tuple[Floats, Floats]:
    """The best linear unbiased counts and their variances, in level order (Algorithm 2)."""
    if tree.depth == 1:
        return upward(tree, x, var)
    order = spans(tree)
    with shared(tree) as run:
        count, variance = _upward(tree, x, var, order, run)
        for span in order[:-1]:
            run(span, _down, count, variance, variance.view(np.int64), False, count, variance)
        run(order[-1], _down, x, var, var.view(np.int64), True, count, variance)
    return count, variance


def downward(
    tree: Tree, count: Floats, variance: Floats, start: int = 0, figures: tuple[Floats, Floats] | None = None
) -> None:
    """Makes z⇑ and var⇑ of every node x̂ and v̂ar, in place and in level order; down to level `start`, they are so.

    With `figures`, those of the last level are read from them.
    """
    with shared(tree) as run:
        for lo, hi in spans(tree):
            span, raw = (max(lo, int(tree.offsets[start])), hi), figures is not None and hi == tree.offsets[-2]
            z, v = figures if figures is not None and raw else (count, variance)
            if span[0] < hi:
                run(span, _down, z, v, v.view(np.int64), raw, count, variance)


def upward(tree: Tree, x: Floats, var: Floats, last: bool = True) -> tuple[Floats, Floats]:
    """z⇑ and var⇑ of every node, in level order: the best estimate from the node and all below it.

    Without `last`, those of the last level are not written.
    """
    if tree.depth == 1:
        refuse(tree, x, var)
        return np.where(var == INF, 0.0, x), var.copy()
    with shared(tree) as run:
        z, v = _upward(tree, x, var, spans(tree), run)
    if last:
        nodes = tree.slice(tree.depth - 1)
        z[nodes], v[nodes] = x[nodes], var[nodes]
        unknown = v[nodes] == INF
        if unknown.any():
            z[nodes][unknown] = 0.0
    return z, v


def combined(x: Floats, var: Floats, mean: Floats, wide: Floats) -> tuple[Floats, Floats] | None:
    """Two measurements of each node as one (Algorithm 1); None where a figure makes no sense or is exact."""
    both, variance = np.empty_like(x), np.empty_like(x)
    return (both, variance) if _combine(x, var, mean, wide, both, variance) else None


def _upward(
    tree: Tree, x: Floats, var: Floats, order: list[tuple[int, int]], run: Callable[..., list[int]]
) -> tuple[Floats, Floats]:
    """z⇑ and var⇑ of all levels but the last; NumPy makes the arrays, since it asks for huge pages."""
    z, v = np.empty_like(x), np.empty_like(var)
    for span in reversed(order):
        raw = span == order[-1]
        cz, cv = (x, var) if raw else (z, v)
        trouble = max(run(span, _up, x, var, cz, cv, cv.view(np.int64), raw, z, v))
        if trouble >= 0:
            refuse(tree, x, var)
            contradiction(tree, x, cz, trouble)
    return z, v


# Kernels. A family is a:b; z and v hold z⇑ and var⇑ of its members (raw: the input itself, for the last level), and
# bits are those of v, whose order as integers is that of non-negative numbers and whose sign tells negative ones.


@kernel(nogil=True, fastmath={"reassoc"})
def _family(z, v, bits, a, b):  # type: ignore[no-untyped-def]
    zs, vs, signs, top = 0.0, 0.0, np.int64(0), np.int64(0)
    for i in range(a, b):
        zs += z[i]
        vs += v[i]
        signs |= bits[i]
        top = max(top, bits[i])
    return zs, vs, signs, top


@kernel(nogil=True)
def _up(first, x, var, cz, cv, bits, raw, z, v, lo, hi):  # type: ignore[no-untyped-def]
    """The bottom-up pass over the parents lo:hi; the node where the input is at fault, or -1."""
    trouble = np.int64(-1)
    p = hi
    while p > lo:
        p -= ONE
        a, b = np.uint64(first[p]), np.uint64(first[p + ONE])
        if a == b:
            z[p] = x[p]
            v[p] = var[p]
            if not (var[p] >= 0.0 and var[p] <= LARGEST and abs(x[p]) < INF):
                if var[p] == INF:
                    z[p] = 0.0
                else:
                    trouble = np.int64(p)
            continue
        if b - a == TWO:
            zs, vs, signs = cz[a] + cz[a + ONE], cv[a] + cv[a + ONE], bits[a] | bits[a + ONE]
        else:
            zs, vs, signs, _ = _family(cz, cv, bits, a, b)
        both = var[p] + vs
        if signs >= 0 and var[p] >= 0.0 and both > 0.0 and both <= LARGEST and abs(zs) < INF and abs(x[p]) < INF:
            trust, rest = vs / both, var[p] / both  # in the node itself, and in the sum below it
            z[p] = trust * x[p] + rest * zs
            v[p] = rest * vs
        elif not _up_with_care(x, var, cz, cv, raw, z, v, p, a, b, zs):
            trouble = np.int64(p)
    return trouble


@kernel(nogil=True)
def _up_with_care(x, var, cz, cv, raw, z, v, p, a, b, below):  # type: ignore[no-untyped-def]
    """One node of the bottom-up pass where a variance is 0 or ∞; False where the input is at fault."""
    zs, vs, size = 0.0, 0.0, 0.0
    for i in range(a, b):
        if not cv[i] >= 0.0 or (raw and LARGEST < cv[i] < INF):
            return False
        vs += cv[i]
        if not (raw and cv[i] == INF):
            if not abs(cz[i]) < INF:
                return False
            zs += cz[i]
            size += abs(cz[i])
    if not var[p] >= 0.0 or (var[p] < INF and not (abs(x[p]) < INF and var[p] <= LARGEST)):
        return False
    if var[p] == INF:
        z[p], v[p] = zs if vs == INF else below, vs  # the sum that _down will take, to the last digit
    elif vs == INF:
        z[p], v[p] = x[p], var[p]
    elif var[p] + vs > 0.0:
        both = var[p] + vs
        z[p], v[p] = vs / both * x[p] + var[p] / both * zs, var[p] / both * vs
    else:
        z[p], v[p] = x[p], 0.0
        return abs(x[p] - zs) <= (8.0 + (b - a)) * 2.3e-16 * max(size, abs(x[p]))
    return True


@kernel(nogil=True)
def _down(first, cz, cv, bits, raw, count, variance, lo, hi):  # type: ignore[no-untyped-def]
    """The top-down pass from the parents lo:hi to their children."""
    for p in range(lo, hi):
        a, b = np.uint64(first[p]), np.uint64(first[p + ONE])
        if a == b:
            continue
        xp, vp = count[p], variance[p]
        if b - a == ONE:
            count[a], variance[a] = xp, vp
            continue
        if b - a == TWO:
            c = a + ONE
            za, zc, va, vc = cz[a], cz[c], cv[a], cv[c]
            vs = va + vc
            if va > 0.0 and vc > 0.0 and vs < INF:
                precision = 1.0 / vs
                ka, kc = va * precision, vc * precision  # 1 - ka is kc
                variance[a], variance[c] = kc * va + ka * ka * vp, ka * vc + kc * kc * vp
                if xp == za + zc:  # nothing to correct: to the last digit
                    count[a], count[c] = za, zc
                else:
                    count[a], count[c] = kc * za + ka * (xp - zc), ka * zc + kc * (xp - za)
            elif vs > 0.0 and vs < INF:  # one is exact, and the other takes what is left
                count[a], variance[a] = (za, 0.0) if va == 0.0 else (xp - zc, vp)
                count[c], variance[c] = (zc, 0.0) if vc == 0.0 else (xp - za, vp)
            else:
                _down_with_care(cz, cv, raw, count, variance, a, b, xp, vp)
            continue
        zs, vs, _, top = _family(cz, cv, bits, a, b)
        if not (vs > 0.0 and vs < INF):
            _down_with_care(cz, cv, raw, count, variance, a, b, xp, vp)
            continue
        if np.int64(top).view(np.float64) <= 0.5 * vs:
            _spread(cz, cv, count, variance, a, b, 1.0 / vs, xp - zs, vp)
        else:  # one child holds most of the uncertainty: 1 - k by adding up its siblings, to lose no digits
            biggest = a
            while bits[biggest] != top:
                biggest += ONE
            zb, vb = cz[biggest], cv[biggest]
            rest_z, rest_v = _without(cz, cv, a, b, biggest)
            _spread(cz, cv, count, variance, a, b, 1.0 / vs, xp - zs, vp)
            k, rest = vb / vs, rest_v / vs
            count[biggest] = zb if xp == zs else rest * zb + k * (xp - rest_z)
            variance[biggest] = rest * vb + k * k * vp
    return -1


@kernel(nogil=True)
def _without(z, v, a, b, skipped):  # type: ignore[no-untyped-def]
    zs, vs = 0.0, 0.0
    for i in range(a, b):
        if i != skipped:
            zs += z[i]
            vs += v[i]
    return zs, vs


@kernel(nogil=True)
def _spread(cz, cv, count, variance, a, b, precision, surplus, vp):  # type: ignore[no-untyped-def]
    for i in range(a, b):
        k = cv[i] * precision  # its share of its siblings' uncertainty (paper's proof, app. A)
        count[i] = cz[i] + k * surplus
        variance[i] = (1.0 - k) * cv[i] + k * k * vp


@kernel(nogil=True)
def _down_with_care(cz, cv, raw, count, variance, a, b, xp, vp):  # type: ignore[no-untyped-def]
    """One family of the top-down pass with variances of ∞, or of nothing but 0."""
    unknown, zs, vs = 0, 0.0, 0.0
    for i in range(a, b):
        if cv[i] == INF:
            unknown += 1
        else:
            zs += cz[i]
            vs += cv[i]
    for i in range(a, b):
        if cv[i] == INF:
            count[i] = (xp - zs) / unknown
            variance[i] = vp + vs if unknown == 1 else INF
        else:
            count[i], variance[i] = cz[i], cv[i]


@kernel(nogil=True)
def _combine(x, var, mean, wide, both, variance):  # type: ignore[no-untyped-def]
    for i in range(len(x)):
        v, w = var[i], wide[i]
        if not (v > 0.0 and w > 0.0) or (v < INF and not abs(x[i]) < INF) or (w < INF and not abs(mean[i]) < INF):
            return False
        if w == INF:
            both[i], variance[i] = x[i] if v < INF else 0.0, v
        elif v == INF:
            both[i], variance[i] = mean[i], w
        else:
            trust = v / (v + w)
            both[i] = w / (v + w) * x[i] + trust * mean[i]
            variance[i] = trust * w
    return True
