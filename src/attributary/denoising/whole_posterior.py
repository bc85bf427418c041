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
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attributary.kernel import kernel
from attributary.types import Floats, Ints, Values

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


# Kernels take one array of records for the figures, the places and the results of all nodes: compiling takes a third
# less than with an array for each of their fields.
RECORD = np.dtype(
    [
        (name, np.int64 if name in ("settled", "low", "high") else np.float64)
        for name in (*WholeFigures._fields[1:-1], *Weights._fields[:-1])
    ]
)
MARGINAL = np.dtype([(name, np.float64) for name in WholeMarginals._fields])
PLACE = np.dtype(  # where the message of a node or a merge is in the buffer; what is known of a merge; a parent's tilt
    [(name, np.int64) for name in ("start", "low", "size", "settled")] + [(n, np.float64) for n in ("z", "v", "tilt")]
)


class KnownNodes(NamedTuple):
    """`WholeFigures` and `Weights` as kernels take them."""

    first: NDArray[np.int64]
    node: Values  # of RECORD
    reach: float
    free: float


def known(figures: WholeFigures, weights: Weights) -> KnownNodes:
    """What is known of each node, beside each other."""
    node = np.empty(len(figures.x), RECORD)
    for name in RECORD.names or ():
        node[name] = getattr(weights if name in Weights._fields else figures, name)
    return KnownNodes(figures.first, node, figures.reach, weights.free)


def unknown(nodes: int) -> Values:
    """Records of MARGINAL, nan up to now."""
    return np.full((nodes, len(WholeMarginals._fields)), np.nan).view(MARGINAL)[:, 0]


@kernel(nogil=True, error_model="numpy")
def marginals_of_roots(figures, tail, told, roots):  # type: ignore[no-untyped-def]
    """Fills `told` for all nodes under these roots."""
    first, places = figures.first, np.empty(2 * len(figures.node), PLACE)
    buffer, one, two, levels = np.empty(1 << 16), np.empty(64), np.empty(64), np.empty((64, 2), np.int64)
    for root in roots:
        levels, depth = _levels(first, root, levels)
        buffer, one, used = _up(root, figures, places, levels, depth, buffer, one)
        if used < 0:
            for i in range(depth):
                for u in range(levels[i, 0], levels[i, 1]):
                    told[u].mean = np.nan
            continue
        if len(one) < places[root].size:
            one = np.empty(2 * places[root].size)
        for k in range(places[root].size):
            one[k] = 1.0
        _tell(root, figures, tail, places, buffer, one, told)
        for i in range(depth):
            for p in range(levels[i, 0], levels[i, 1]):
                if first[p] < first[p + 1]:
                    one, two = _down(p, figures, tail, places, buffer, one, two, told)


@kernel(nogil=True, error_model="numpy")
def moments_of_roots(figures, weight, centre, mean, variance, roots):  # type: ignore[no-untyped-def]
    """Fills `mean` and `variance` of Σ weight·(count − centre) over the nodes under each of these roots."""
    first, nodes = figures.first, len(figures.node)
    places: Any = np.empty(2 * nodes, PLACE)
    buffer, one, levels = np.empty(1 << 16), np.empty(64), np.empty((64, 2), np.int64)
    needed = np.zeros(2 * nodes, np.bool_)
    for root in roots:
        levels, depth = _levels(first, root, levels)
        buffer, one, used = _up(root, figures, places, levels, depth, buffer, one)
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
                    _copy(s, places[a].start, s, places[F].start, places[a].size)
                    _copy(q, places[a].start, q, places[F].start, places[a].size)
                needed[u] = weight[u] != 0.0 or (family > 0 and needed[F])
                if needed[u]:
                    for k in range(places[u].size):
                        own = weight[u] * (places[u].low + k - centre[u])
                        at, below, square = places[u].start + k, 0.0, 0.0
                        if family > 0:
                            from_ = places[F].start + places[u].low + k - places[F].low
                            below, square = s[from_], q[from_]
                        s[at], q[at] = own + below, own * own + 2.0 * own * below + square
        whole, first_moment, second = 0.0, 0.0, 0.0
        for k in range(places[root].start, places[root].start + places[root].size):
            whole += buffer[k]
            first_moment += buffer[k] * s[k]
            second += buffer[k] * q[k]
        mean[root] = first_moment / whole
        variance[root] = max(second / whole - mean[root] * mean[root], 0.0)


@kernel(nogil=True, inner=True)
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


@kernel(nogil=True, inner=True)
def _item(nodes, a, family, i):  # type: ignore[no-untyped-def]
    """The place of item i of the family that begins with node a."""
    return a + i if i < family else nodes + a + i - family


@kernel(nogil=True, inner=True)
def _last(nodes, a, family):  # type: ignore[no-untyped-def]
    """The place of F, that of the family which begins with node a; a family of one has a copy of its message there."""
    return nodes + a + max(family - 2, 0)


@kernel(nogil=True, inner=True)
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


@kernel(nogil=True, inner=True)
def _copy(given, at, out, to, size):  # type: ignore[no-untyped-def]
    for k in range(size):
        out[to + k] = given[at + k]


# Up.


@kernel(nogil=True, error_model="numpy", inner=True)
def _up(root, figures, places, levels, depth, buffer, one):  # type: ignore[no-untyped-def]
    """All messages under a root, to the buffer; how much of it is used, or -1 where no counts are possible."""
    first, used = figures.first, ZERO
    if not figures.node[root].wide < np.inf:
        return buffer, one, -1
    for i in range(depth - 1, -1, -1):
        for p in range(levels[i, 0], levels[i, 1]):
            if first[p] < first[p + 1]:
                buffer, one, used = _family(p, figures, places, buffer, one, used)
                if used < 0:
                    return buffer, one, used
    return _message(root, figures, figures.free, figures.free, figures.free, places, buffer, one, used)


@kernel(nogil=True, error_model="numpy", inner=True)
def _family(p, figures, places, buffer, one, used):  # type: ignore[no-untyped-def]
    """The messages of the children of p, and their merges up to F_p."""
    nodes = len(figures.node)
    a, b = figures.first[p], figures.first[p + 1]
    family, A, least, most = b - a, figures.node[p].total, figures.node[p].low, figures.node[p].high
    tilt, z_all, v_all = _tilt(least, most, A), 0.0, 0.0
    for u in range(a, b):
        buffer, one, used = _message(u, figures, tilt, _mode(least, A), _mode(most, A), places, buffer, one, used)
        if used < 0:
            return buffer, one, used
        z_all += figures.node[u].z
        v_all += figures.node[u].v
    places[p].tilt = tilt + _centre(places, buffer, a, b, 0.5 * (least + most), 0.25 * (most - least) + 1.0)
    if family == 1:
        m = nodes + a
        buffer, places[m].start = _room(buffer, used, places[a].size)
        places[m].low, places[m].size = places[a].low, places[a].size
        _copy(buffer, places[a].start, buffer, places[m].start, places[a].size)
        return buffer, one, places[m].start + places[a].size
    for j in range(family - 1):
        z, v, settled = 0.0, 0.0, np.int64(0)
        for i in (2 * j, 2 * j + 1):
            if i < family:
                own = figures.node[a + i]
                z, v, settled = z + own.z, v + own.v, settled + own.settled
            else:
                merge = places[nodes + a + i - family]
                z, v, settled = z + merge.z, v + merge.v, settled + merge.settled
        f, g = places[_item(nodes, a, family, 2 * j)], places[_item(nodes, a, family, 2 * j + 1)]
        made = places[nodes + a + j]
        made.z, made.v, made.settled = z, v, settled
        begin, end = f.low + g.low, min(f.low + f.size + g.low + g.size - 2, most)
        if j == family - 2:
            begin = max(begin, least)
        else:
            if 0.0 < v_all < np.inf:  # what is known of the sum, as of any child (Algorithm 2)
                share = v / v_all
                z += share * (figures.node[p].blue - z_all)
                v = (1.0 - share) * v + share * share * figures.node[p].wide
            if v < np.inf:
                far = figures.reach * math.sqrt(max(v, 0.0))
                begin = max(begin, np.int64(math.floor(min(z, float(settled)) - far)))
                end = min(end, np.int64(math.ceil(max(z, float(settled)) + far)))
        if end < begin:
            return buffer, one, -1
        n, skip = end - begin + 1, begin - f.low - g.low
        buffer, made.start = _room(buffer, used, n)
        top = _convolve(buffer, f.start, f.size, g.start, g.size, skip, made.start, n)
        if not top > 0.0:
            return buffer, one, -1
        for k in range(made.start, made.start + n):
            buffer[k] /= top
        made.low, made.size = begin, n
        used = made.start + n
    return buffer, one, used


@kernel(nogil=True, error_model="numpy", inner=True)
def _tilt(low, high, total):  # type: ignore[no-untyped-def]
    """The logarithm of the t that makes w_A(c)·t^c equal at both ends of a window."""
    if high == low:
        return _mode(high, total)
    rise = math.lgamma(high + total) - math.lgamma(high + 1.0) - math.lgamma(low + total) + math.lgamma(low + 1.0)
    return -rise / (high - low)


@kernel(nogil=True, error_model="numpy", inner=True)
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
            for k in range(places[u].size):
                chance = buffer[places[u].start + k]
                whole += chance
                first_moment += chance * k
                second += chance * k * k
            first_moment /= whole
            mean += places[u].low + first_moment
            variance += second / whole - first_moment * first_moment
            widest = max(widest, places[u].size)
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
            top, factor, rise = 0.0, math.exp(-0.5 * step * places[u].size), math.exp(step)
            for at in range(places[u].start, places[u].start + places[u].size):
                buffer[at] *= factor
                factor *= rise
                top = max(top, buffer[at])
            for at in range(places[u].start, places[u].start + places[u].size):
                buffer[at] /= top
    return moved


@kernel(nogil=True, error_model="numpy", inner=True)
def _mode(count, total):  # type: ignore[no-untyped-def]
    """The logarithm of the t with which w_A(c)·t^c has this mean."""
    return -np.log1p(total / max(count, 1e-3))


@kernel(nogil=True, error_model="numpy", inner=True)
def _message(u, figures, tilt, least_tilt, most_tilt, places, buffer, one, used):  # type: ignore[no-untyped-def]
    """f_u, without what is next to nothing even if the parent has the least or the most that it may have."""
    first, low, high, settled = figures.first, figures.node[u].low, figures.node[u].high, figures.node[u].settled
    inner, at, own, a, A = first[u] < first[u + 1], np.int64(0), 0.0, figures.node[u].alpha, 0.0
    if inner:
        F, A = _last(len(figures.node), first[u], first[u + 1] - first[u]), figures.node[u].total
        own, at = places[u].tilt, places[F].start
        low, high = places[F].low, places[F].low + places[F].size - 1
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
        off = abs(figures.node[u].x - c)
        value = rise - figures.node[u].linear * off - figures.node[u].square * off * off
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
    places[u].start, places[u].low, places[u].size = used, low + begin, n
    return buffer, one, used + n


@kernel(nogil=True, fastmath={"reassoc", "contract"}, inner=True)
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


@kernel(nogil=True, error_model="numpy", inner=True)
def _down(p, figures, tail, places, buffer, one, two, told):  # type: ignore[no-untyped-def]
    """The posterior of the children of p, whose g stands where F_p was."""
    nodes, a = len(figures.node), figures.first[p]
    family = figures.first[p + 1] - a
    if family == 1:
        m = nodes + a
        if len(one) < places[m].size:
            one = np.empty(2 * places[m].size)
        _copy(buffer, places[m].start, one, ZERO, places[m].size)
        _tell(a, figures, tail, places, buffer, one, told)
        return one, two
    for j in range(family - 2, -1, -1):
        left, right, m = _item(nodes, a, family, 2 * j), _item(nodes, a, family, 2 * j + 1), nodes + a + j
        f, g, made = places[left], places[right], places[m]
        if len(one) < f.size + PAD:
            one = np.empty(2 * f.size + PAD)
        if len(two) < g.size:
            two = np.empty(2 * g.size)
        skip = made.low - f.low - g.low
        _correlate(buffer, f.start, f.size, g.start, g.size, skip, made.start, made.size, one, two)
        for i in range(2):
            item, adjoint = (left, one) if i == 0 else (right, two)
            if item >= nodes:  # a merge: g takes its place
                _copy(adjoint, ZERO, buffer, places[item].start, places[item].size)
            else:
                _tell(item, figures, tail, places, buffer, adjoint, told)
    return one, two


@kernel(nogil=True, fastmath={"reassoc", "contract"}, inner=True)
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


@kernel(nogil=True, error_model="numpy", inner=True)
def _tell(u, figures, tail, places, buffer, chance, told):  # type: ignore[no-untyped-def]
    """What the posterior, f_u times what comes as `chance`, says of node u; for a parent, g goes where F_u was."""
    at, n, low, a, A = places[u].start, places[u].size, places[u].low, figures.node[u].alpha, figures.node[u].total
    first, inner, whole = figures.first, figures.first[u] < figures.first[u + 1], 0.0
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
    told[u].mean, told[u].variance, told[u].zero = low + mean, variance, chance[0] if low == 0 else 0.0
    told[u].low, told[u].high = low + least, low + most
    told[u].slope, told[u].bend = _derivatives(chance, n, low, a)
    if inner:
        told[u].slope_below, told[u].bend_below = _derivatives(chance, n, low, A)
        F = _last(len(figures.node), first[u], first[u + 1] - first[u])
        s, shift = places[F].start, low - places[F].low
        for k in range(places[F].size):
            there = 0 <= k - shift < n and buffer[s + k] > 0.0
            buffer[s + k] = chance[k - shift] / buffer[s + k] if there else 0.0


@kernel(nogil=True, error_model="numpy", inner=True)
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


@kernel(nogil=True, error_model="numpy", inner=True)
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


@kernel(nogil=True, fastmath={"reassoc", "contract"}, error_model="numpy", inner=True)
def _joined(buffer, s, q, places, left, right, m):  # type: ignore[no-untyped-def]
    """E[sum | c] and E[sum² | c] of merge m from those of the items that it joins."""
    f, g, n = places[left].start, places[right].start, places[left].size
    for k in range(places[m].size):
        c = places[m].low + k - places[left].low - places[right].low
        whole, first_moment, second = 0.0, 0.0, 0.0
        for i in range(max(0, c - places[right].size + 1), min(n, c + 1)):
            j = g + c - i
            weight = buffer[f + i] * buffer[j]
            whole += weight
            first_moment += weight * (s[f + i] + s[j])
            second += weight * (q[f + i] + 2.0 * s[f + i] * s[j] + q[j])
        if whole > 0.0:
            s[places[m].start + k], q[places[m].start + k] = first_moment / whole, second / whole
