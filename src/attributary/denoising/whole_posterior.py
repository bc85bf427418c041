"""whole_posterior: the posterior over whole counts, compiled: up and down by convolutions, root by root.

Children given their parent are Dirichlet-multinomial with weights α. With w_α(c) = Γ(c + α) / (Γ(α)·c!) and A = Σα,

    up:    f_u(c) = w_α(c)·t^c·L_u(c),  F_p = f_1 ∗ … ∗ f_K,  L_p(c) = P(noisy_p | c)·F_p(c) / (w_A(c)·t^c)
    down:  g_p = P(c_p) / F_p,  and P(c_u) = f_u(c)·(g_p correlated with the f of its siblings)

L is the likelihood of all figures at and below a node, and P the posterior given all figures under its root. The tilt t
changes nothing but the range of numbers. The K messages of a family are convolved in pairs, pairs of pairs, and so on:
its items are its children, then the merges; merge j joins items 2j and 2j + 1, and the last one is F_p. A sum of counts
has a narrower window than its parts together, so that this costs K·log K windows squared where a chain costs K·√K.
Counts outside the windows, and messages below TRIM of their largest, are left out.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attributary.kernel import kernel
from attributary.types import Floats, Ints

LOG_TRIM = math.log(1e-14)  # of a message: left out if it is so small whatever its parent has
FAR = 745.0  # exp(-FAR) is 0
NEAR = 5.0  # standard deviations that the sum of messages may be off the window that it is for
WIDEST = 1 << 22  # counts in a window, and in a message once it is trimmed: with more, a root is left out
LONGEST = 1 << 13
ZERO = np.int64(0)  # of one type with other places: a literal 0 would have kernels compiled twice
PAD = 3  # zeros before and after each message in the buffer: four of its numbers are taken at a time


class WholeFigures(NamedTuple):
    """Figures of a forest in level order, and the whole counts that are considered."""

    first: NDArray[np.int64]
    x: Floats
    linear: Floats  # log P(x | c) = −linear·|x − c| − square·(x − c)², up to a constant
    square: Floats
    z: Floats  # z⇑ and var⇑: from the node and all below it
    v: Floats
    blue: Floats
    wide: Floats  # its variance
    settled: Ints  # whole counts that add up, each within its window
    low: Ints  # the window of each node
    high: Ints
    reach: float  # standard deviations that windows extend beyond the estimates


class Weights(NamedTuple):
    """The Dirichlet-multinomial prior of each family."""

    alpha: Floats  # of each node
    total: Floats  # of its children together
    free: float  # the logarithm of the roots' tilt: they are negative binomial with α


class WholeMarginals(NamedTuple):
    """The posterior of each node's count in a few numbers, in level order; nan where no counts are possible."""

    mean: Floats
    variance: Floats
    zero: Floats  # the probability of 0
    low: Floats  # whole numbers: the count is below with at most half of a given probability,
    high: Floats  # and above with what is left of it
    slope: Floats  # E[ψ(c + α) − ψ(α)]: what the derivative of the evidence by α is made of
    bend: Floats  # E[ψ′(α) − ψ′(c + α)], for its second derivative
    slope_below: Floats  # the same for a parent and the sum of its children's α
    bend_below: Floats


class _Places(NamedTuple):
    """Where messages stand in the buffer: of nodes, then of merges; what is known of merges; tilts of parents."""

    start: Ints
    low: Ints
    size: Ints
    z: Floats
    v: Floats
    settled: Ints
    tilt: Floats


@kernel(nogil=True, error_model="numpy")
def marginals_of_roots(figures, weights, tail, told, roots):  # type: ignore[no-untyped-def]
    """Fills `told` for all nodes under these roots."""
    first, places = figures.first, _places(len(figures.x))
    buffer, one, two, levels = np.empty(1 << 16), np.empty(64), np.empty(64), np.empty((64, 2), np.int64)
    for root in roots:
        levels, depth = _levels(first, root, levels)
        buffer, one, used = _up(root, figures, weights, places, levels, depth, buffer, one)
        if used < 0:
            for i in range(depth):
                for u in range(levels[i, 0], levels[i, 1]):
                    told.mean[u] = np.nan
            continue
        if len(one) < places.size[root]:
            one = np.empty(2 * places.size[root])
        for k in range(places.size[root]):
            one[k] = 1.0
        _tell(root, first, weights, tail, places, buffer, one, told)
        for i in range(depth):
            for p in range(levels[i, 0], levels[i, 1]):
                if first[p] < first[p + 1]:
                    one, two = _down(p, first, weights, tail, places, buffer, one, two, told)


@kernel(nogil=True, error_model="numpy")
def moments_of_roots(figures, weights, weight, centre, mean, variance, roots):  # type: ignore[no-untyped-def]
    """Fills `mean` and `variance` of Σ weight·(count − centre) over the nodes under each of these roots."""
    first, places, nodes = figures.first, _places(len(figures.x)), len(figures.x)
    buffer, one, levels = np.empty(1 << 16), np.empty(64), np.empty((64, 2), np.int64)
    needed = np.zeros(2 * nodes, np.bool_)
    for root in roots:
        levels, depth = _levels(first, root, levels)
        buffer, one, used = _up(root, figures, weights, places, levels, depth, buffer, one)
        if used < 0:
            mean[root], variance[root] = np.nan, np.nan
            continue
        s, q = np.zeros(used), np.zeros(used)  # E[sum | c] and E[sum² | c] of what is at and below a node, or a merge
        for i in range(depth - 1, -1, -1):
            for u in range(levels[i, 0], levels[i, 1]):
                a, family = np.int64(first[u]), np.int64(first[u + 1]) - np.int64(first[u])
                for j in range(family - 1):
                    left, right, m = _item(nodes, a, family, 2 * j), _item(nodes, a, family, 2 * j + 1), nodes + a + j
                    needed[m] = needed[left] or needed[right]
                    if needed[m]:
                        _joined(buffer, s, q, places, left, right, m)
                F = _last(nodes, a, family)
                if family == 1:
                    needed[F] = needed[a]
                    _copy(s, places.start[a], s, places.start[F], places.size[a])
                    _copy(q, places.start[a], q, places.start[F], places.size[a])
                needed[u] = weight[u] != 0.0 or (family > 0 and needed[F])
                if needed[u]:
                    for k in range(places.size[u]):
                        own = weight[u] * (places.low[u] + k - centre[u])
                        at, below, square = places.start[u] + k, 0.0, 0.0
                        if family > 0:
                            from_ = places.start[F] + places.low[u] + k - places.low[F]
                            below, square = s[from_], q[from_]
                        s[at], q[at] = own + below, own * own + 2.0 * own * below + square
        whole, first_moment, second = 0.0, 0.0, 0.0
        for k in range(places.start[root], places.start[root] + places.size[root]):
            whole += buffer[k]
            first_moment += buffer[k] * s[k]
            second += buffer[k] * q[k]
        mean[root] = first_moment / whole
        variance[root] = max(second / whole - mean[root] * mean[root], 0.0)


@kernel(nogil=True)
def _places(nodes):  # type: ignore[no-untyped-def]
    start, low, size = np.empty(2 * nodes, np.int64), np.empty(2 * nodes, np.int64), np.empty(2 * nodes, np.int64)
    return _Places(start, low, size, np.empty(nodes), np.empty(nodes), np.empty(nodes, np.int64), np.empty(nodes))


@kernel(nogil=True)
def _levels(first, root, levels):  # type: ignore[no-untyped-def]
    """The nodes under a root, level by level, and how many levels there are."""
    a, b, depth = np.int64(root), np.int64(root) + 1, 0
    while a < b:
        if depth == len(levels):
            more = np.empty((2 * depth, 2), np.int64)
            for i in range(depth):
                more[i, 0], more[i, 1] = levels[i, 0], levels[i, 1]
            levels = more
        levels[depth, 0], levels[depth, 1] = a, b
        a, b = first[a], first[b]
        depth += 1
    return levels, depth


@kernel(nogil=True)
def _item(nodes, a, family, i):  # type: ignore[no-untyped-def]
    """The place of item i of the family that begins with node a."""
    return a + i if i < family else nodes + a + i - family


@kernel(nogil=True)
def _last(nodes, a, family):  # type: ignore[no-untyped-def]
    """The place of F, that of the family which begins with node a; a family of one has a copy of its message there."""
    return nodes + a + max(family - 2, 0)


@kernel(nogil=True)
def _room(buffer, used, size):  # type: ignore[no-untyped-def]
    """The buffer with room for a message of this size after what is used, and where it begins: zeros are around it."""
    start, needed = used + PAD, used + size + 2 * PAD
    if needed > len(buffer):
        larger = np.empty(max(needed, 2 * len(buffer)))
        _copy(buffer, ZERO, larger, ZERO, used)
        buffer = larger
    for k in range(PAD):
        buffer[used + k] = 0.0
        buffer[start + size + k] = 0.0
    return buffer, start


@kernel(nogil=True)
def _copy(given, at, out, to, size):  # type: ignore[no-untyped-def]
    for k in range(size):
        out[to + k] = given[at + k]


# Up.


@kernel(nogil=True, error_model="numpy")
def _up(root, figures, weights, places, levels, depth, buffer, one):  # type: ignore[no-untyped-def]
    """All messages under a root, to the buffer; how much of it is used, or -1 where no counts are possible."""
    first, used = figures.first, ZERO
    if not figures.wide[root] < np.inf:
        return buffer, one, -1
    for i in range(depth - 1, -1, -1):
        for p in range(levels[i, 0], levels[i, 1]):
            if first[p] < first[p + 1]:
                buffer, one, used = _family(p, figures, weights, places, buffer, one, used)
                if used < 0:
                    return buffer, one, used
    return _message(root, figures, weights, weights.free, weights.free, weights.free, places, buffer, one, used)


@kernel(nogil=True, error_model="numpy")
def _family(p, figures, weights, places, buffer, one, used):  # type: ignore[no-untyped-def]
    """The messages of the children of p, and their merges up to F_p."""
    start, low, size, nodes = places.start, places.low, places.size, len(figures.x)
    a, b = figures.first[p], figures.first[p + 1]
    family, A, least, most = b - a, weights.total[p], figures.low[p], figures.high[p]
    tilt, z_all, v_all = _tilt(least, most, A), 0.0, 0.0
    for u in range(a, b):
        buffer, one, used = _message(
            u, figures, weights, tilt, _mode(least, A), _mode(most, A), places, buffer, one, used
        )
        if used < 0:
            return buffer, one, used
        z_all += figures.z[u]
        v_all += figures.v[u]
    places.tilt[p] = tilt + _centre(places, buffer, a, b, 0.5 * (least + most), 0.25 * (most - least) + 1.0)
    if family == 1:
        m = nodes + a
        buffer, start[m] = _room(buffer, used, size[a])
        low[m], size[m] = low[a], size[a]
        _copy(buffer, start[a], buffer, start[m], size[a])
        return buffer, one, start[m] + size[a]
    for j in range(family - 1):
        z, v, settled = 0.0, 0.0, np.int64(0)
        for i in (2 * j, 2 * j + 1):
            if i < family:
                z, v, settled = z + figures.z[a + i], v + figures.v[a + i], settled + figures.settled[a + i]
            else:
                k = a + i - family
                z, v, settled = z + places.z[k], v + places.v[k], settled + places.settled[k]
        places.z[a + j], places.v[a + j], places.settled[a + j] = z, v, settled
        left, right, m = _item(nodes, a, family, 2 * j), _item(nodes, a, family, 2 * j + 1), nodes + a + j
        begin, end = low[left] + low[right], min(low[left] + size[left] + low[right] + size[right] - 2, most)
        if j == family - 2:
            begin = max(begin, least)
        else:
            if 0.0 < v_all < np.inf:  # what is known of the sum, as of any child (Algorithm 2)
                share = v / v_all
                z += share * (figures.blue[p] - z_all)
                v = (1.0 - share) * v + share * share * figures.wide[p]
            if v < np.inf:
                far = figures.reach * math.sqrt(max(v, 0.0))
                begin = max(begin, np.int64(math.floor(min(z, float(settled)) - far)))
                end = min(end, np.int64(math.ceil(max(z, float(settled)) + far)))
        if end < begin:
            return buffer, one, -1
        n, skip = end - begin + 1, begin - low[left] - low[right]
        buffer, start[m] = _room(buffer, used, n)
        top = _convolve(buffer, start[left], size[left], start[right], size[right], skip, start[m], n)
        if not top > 0.0:
            return buffer, one, -1
        for k in range(start[m], start[m] + n):
            buffer[k] /= top
        low[m], size[m] = begin, n
        used = start[m] + n
    return buffer, one, used


@kernel(nogil=True, error_model="numpy")
def _tilt(low, high, total):  # type: ignore[no-untyped-def]
    """The logarithm of the t that makes w_A(c)·t^c equal at both ends of a window."""
    if high == low:
        return _mode(high, total)
    rise = math.lgamma(high + total) - math.lgamma(high + 1.0) - math.lgamma(low + total) + math.lgamma(low + 1.0)
    return -rise / (high - low)


@kernel(nogil=True, error_model="numpy")
def _centre(places, buffer, a, b, aim, near):  # type: ignore[no-untyped-def]
    """Tilts the messages of the children a:b until their means sum to about `aim`; the logarithm of the tilt.

    Else F would be tiny all over the window of the parent, where many children are each expected to have a little more.
    A few standard deviations off are no matter: sums of positive numbers stay exact however small they are.
    """
    moved, most, before = 0.0, 0.5, 0.0
    for _ in range(40):
        mean, variance, widest = 0.0, 0.0, 1
        for u in range(a, b):
            whole, first_moment, second = 0.0, 0.0, 0.0
            for k in range(places.size[u]):
                chance = buffer[places.start[u] + k]
                whole += chance
                first_moment += chance * k
                second += chance * k * k
            first_moment /= whole
            mean += places.low[u] + first_moment
            variance += second / whole - first_moment * first_moment
            widest = max(widest, places.size[u])
        off = aim - mean
        if abs(off) < near + NEAR * math.sqrt(max(variance, 0.0)) or not variance > 1e-9:
            break
        if off * before < 0.0:  # too far: what is most probable is apart from what is next
            most *= 0.5
        before = off
        step = min(max(off / variance, -most), most)
        step = min(max(step, -FAR / widest), FAR / widest)
        moved += step
        for u in range(a, b):
            top, factor, rise = 0.0, math.exp(-0.5 * step * places.size[u]), math.exp(step)
            for at in range(places.start[u], places.start[u] + places.size[u]):
                buffer[at] *= factor
                factor *= rise
                top = max(top, buffer[at])
            for at in range(places.start[u], places.start[u] + places.size[u]):
                buffer[at] /= top
    return moved


@kernel(nogil=True, error_model="numpy")
def _mode(count, total):  # type: ignore[no-untyped-def]
    """The logarithm of the t with which w_A(c)·t^c has this mean."""
    return -np.log1p(total / max(count, 1e-3))


@kernel(nogil=True, error_model="numpy")
def _message(u, figures, weights, tilt, least_tilt, most_tilt, places, buffer, one, used):  # type: ignore[no-untyped-def]
    """f_u, without what is next to nothing even if the parent has the least or the most that it may have."""
    first, low, high, settled = figures.first, figures.low[u], figures.high[u], figures.settled[u]
    inner, at, own, a, A = first[u] < first[u + 1], np.int64(0), 0.0, weights.alpha[u], 0.0
    if inner:
        F, A = _last(len(figures.x), first[u], first[u + 1] - first[u]), weights.total[u]
        own, at = places.tilt[u], places.start[F]
        low, high = places.low[F], places.low[F] + places.size[F] - 1
    n = high - low + 1
    if n > WIDEST:
        return buffer, one, -1
    if len(one) < n:
        one = np.empty(2 * n)
    rise, top, top_low, top_high = 0.0, -np.inf, -np.inf, -np.inf
    for k in range(n):
        c = float(low + k)
        if k > 0:
            rise += np.log((c - 1.0 + a) / c) + tilt
            if inner:
                rise -= np.log((c - 1.0 + A) / c) + own
        off = abs(figures.x[u] - c)
        value = rise - figures.linear[u] * off - figures.square[u] * off * off
        if inner:
            value += np.log(buffer[at + k])
        one[k] = value
        top = max(top, value)
        top_low, top_high = max(top_low, value + k * (least_tilt - tilt)), max(top_high, value + k * (most_tilt - tilt))
    if not top > -np.inf:
        return buffer, one, -1
    end, begin = n, 0
    while low + end - 1 > settled and one[end - 1] + (end - 1) * (most_tilt - tilt) < top_high + LOG_TRIM:
        end -= 1
    while low + begin < settled and one[begin] + begin * (least_tilt - tilt) < top_low + LOG_TRIM:
        begin += 1
    top = -np.inf
    for k in range(begin, end):
        top = max(top, one[k])
    n = end - begin
    if not top > -np.inf or n > LONGEST:
        return buffer, one, -1
    buffer, used = _room(buffer, used, n)
    for k in range(n):
        value = one[begin + k] - top
        buffer[used + k] = math.exp(value) if value > -FAR else 0.0
    places.start[u], places.low[u], places.size[u] = used, low + begin, n
    return buffer, one, used + n


@kernel(nogil=True, fastmath={"reassoc", "contract"})
def _convolve(buffer, f, n, g, m, skip, out, size):  # type: ignore[no-untyped-def]
    """The convolution of n numbers at f and m at g without its first `skip`, to `out`; the largest of them."""
    for k in range(out, out + size):
        buffer[k] = 0.0
    for i in range(0, n, 4):
        f0, f1, f2, f3 = buffer[f + i], buffer[f + i + 1], buffer[f + i + 2], buffer[f + i + 3]
        a, b = max(0, i - skip), min(size, m + PAD + i - skip)
        if a < b:
            s, t = np.uint64(out + a), np.uint64(g + skip + a - i - PAD)
            t1, t2, t3 = t + np.uint64(1), t + np.uint64(2), t + np.uint64(3)
            for j in range(np.uint64(b - a)):
                buffer[s + j] += f0 * buffer[t3 + j] + f1 * buffer[t2 + j] + f2 * buffer[t1 + j] + f3 * buffer[t + j]
    top = 0.0
    for k in range(out, out + size):
        top = max(top, buffer[k])
    return top


# Down.


@kernel(nogil=True, error_model="numpy")
def _down(p, first, weights, tail, places, buffer, one, two, told):  # type: ignore[no-untyped-def]
    """The posterior of the children of p, whose g stands where F_p was."""
    start, low, size, nodes, a = places.start, places.low, places.size, len(weights.alpha), first[p]
    family = first[p + 1] - a
    if family == 1:
        m = nodes + a
        if len(one) < size[m]:
            one = np.empty(2 * size[m])
        _copy(buffer, start[m], one, ZERO, size[m])
        _tell(a, first, weights, tail, places, buffer, one, told)
        return one, two
    for j in range(family - 2, -1, -1):
        left, right, m = _item(nodes, a, family, 2 * j), _item(nodes, a, family, 2 * j + 1), nodes + a + j
        if len(one) < size[left] + PAD:
            one = np.empty(2 * size[left] + PAD)
        if len(two) < size[right]:
            two = np.empty(2 * size[right])
        skip = low[m] - low[left] - low[right]
        _correlate(buffer, start[left], size[left], start[right], size[right], skip, start[m], size[m], one, two)
        for i in range(2):
            item, adjoint = (left, one) if i == 0 else (right, two)
            if item >= nodes:  # a merge: g takes its place
                _copy(adjoint, ZERO, buffer, start[item], size[item])
            else:
                _tell(item, first, weights, tail, places, buffer, adjoint, told)
    return one, two


@kernel(nogil=True, fastmath={"reassoc", "contract"})
def _correlate(buffer, f, n, h, m, skip, g, size, one, two):  # type: ignore[no-untyped-def]
    """one[i] = Σ_j g[i + j]·h[j] and two[j] = Σ_i g[i + j]·f[i]; of g, `size` numbers are there from g[skip] on."""
    for j in range(m):
        two[j] = 0.0
    for i in range(0, n, 4):
        f0, f1, f2, f3 = buffer[f + i], buffer[f + i + 1], buffer[f + i + 2], buffer[f + i + 3]
        o0, o1, o2, o3 = 0.0, 0.0, 0.0, 0.0
        a, b = max(0, skip - i - PAD), min(m, skip + size - i)
        if a < b:
            s, t, k = np.uint64(g + i + a - skip), np.uint64(h + a), np.uint64(a)
            s1, s2, s3 = s + np.uint64(1), s + np.uint64(2), s + np.uint64(3)
            for j in range(np.uint64(b - a)):
                g0, g1, g2, g3, other = buffer[s + j], buffer[s1 + j], buffer[s2 + j], buffer[s3 + j], buffer[t + j]
                o0, o1, o2, o3 = o0 + g0 * other, o1 + g1 * other, o2 + g2 * other, o3 + g3 * other
                two[k + j] += f0 * g0 + f1 * g1 + f2 * g2 + f3 * g3
        one[i], one[i + 1], one[i + 2], one[i + 3] = o0, o1, o2, o3


@kernel(nogil=True, error_model="numpy")
def _tell(u, first, weights, tail, places, buffer, chance, told):  # type: ignore[no-untyped-def]
    """What the posterior, f_u times what comes as `chance`, says of node u; for a parent, g goes where F_u was."""
    at, n, low, a, A = places.start[u], places.size[u], places.low[u], weights.alpha[u], weights.total[u]
    inner, whole = first[u] < first[u + 1], 0.0
    for k in range(n):
        chance[k] *= buffer[at + k]
        whole += chance[k]
    mean = 0.0
    for k in range(n):
        chance[k] /= whole
        mean += k * chance[k]
    variance = 0.0
    for k in range(n):
        variance += (k - mean) * (k - mean) * chance[k]
    least, most, below, above = 0, n - 1, 0.0, 0.0
    while below + chance[least] <= tail and least < n - 1:
        below += chance[least]
        least += 1
    while above + chance[most] <= 2.0 * tail - below and most > least:  # what the lower tail leaves
        above += chance[most]
        most -= 1
    told.mean[u], told.variance[u], told.zero[u] = low + mean, variance, chance[0] if low == 0 else 0.0
    told.low[u], told.high[u] = low + least, low + most
    told.slope[u], told.bend[u] = _derivatives(chance, n, low, a)
    if inner:
        told.slope_below[u], told.bend_below[u] = _derivatives(chance, n, low, A)
        F = _last(len(weights.alpha), first[u], first[u + 1] - first[u])
        s, shift = places.start[F], low - places.low[F]
        for k in range(places.size[F]):
            there = 0 <= k - shift < n and buffer[s + k] > 0.0
            buffer[s + k] = chance[k - shift] / buffer[s + k] if there else 0.0


@kernel(nogil=True, error_model="numpy")
def _derivatives(chance, n, low, a):  # type: ignore[no-untyped-def]
    """E[ψ(c + a) − ψ(a)] and E[ψ′(a) − ψ′(c + a)] of a count that is low, low + 1, … with these chances."""
    grown, fallen, slope, bend = 0.0, 0.0, 0.0, 0.0
    if low > 0:
        (one, two), (three, four) = _polygammas(a + low), _polygammas(a)
        grown, fallen = one - three, four - two
    for k in range(n):
        slope += chance[k] * grown
        bend += chance[k] * fallen
        step = 1.0 / (a + low + k)
        grown += step
        fallen += step * step
    return slope, bend


@kernel(nogil=True, error_model="numpy")
def _polygammas(a):  # type: ignore[no-untyped-def]
    """ψ(a) and ψ′(a)."""
    one, two = 0.0, 0.0
    while a < 8.0:
        one -= 1.0 / a
        two += 1.0 / (a * a)
        a += 1.0
    q = 1.0 / (a * a)
    one += math.log(a) - 0.5 / a - q * (1.0 / 12 - q * (1.0 / 120 - q * (1.0 / 252 - q / 240)))
    two += 1.0 / a + 0.5 * q + q / a * (1.0 / 6 - q * (1.0 / 30 - q * (1.0 / 42 - q / 30)))
    return one, two


# Moments of a sum.


@kernel(nogil=True, fastmath={"reassoc", "contract"}, error_model="numpy")
def _joined(buffer, s, q, places, left, right, m):  # type: ignore[no-untyped-def]
    """E[sum | c] and E[sum² | c] of merge m from those of the items that it joins."""
    f, g, n = places.start[left], places.start[right], places.size[left]
    for k in range(places.size[m]):
        c = places.low[m] + k - places.low[left] - places.low[right]
        whole, first_moment, second = 0.0, 0.0, 0.0
        for i in range(max(0, c - places.size[right] + 1), min(n, c + 1)):
            j = g + c - i
            weight = buffer[f + i] * buffer[j]
            whole += weight
            first_moment += weight * (s[f + i] + s[j])
            second += weight * (q[f + i] + 2.0 * s[f + i] * s[j] + q[j])
        if whole > 0.0:
            s[places.start[m] + k], q[places.start[m] + k] = first_moment / whole, second / whole
