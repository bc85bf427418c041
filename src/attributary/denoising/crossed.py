"""crossed: several breakdowns of the same conversions, and one answer: a sum that two of them reach is one number.

Each breakdown is a tree with figures of its own. Two of them meet in the attributes that both have: campaign > location
> day and location > device meet at location, which the first reaches by adding up nodes. Let m be the sums of all
breakdowns that others have, too. Denoised by themselves, they have estimates x̂ and Cov(x̂, m). The sums must agree,
G·m = 0, so the best linear unbiased answer is

    x̂ − Cov(x̂, m)·Gᵀ·S⁻¹·G·m̂,    variance − diag Cov(x̂, m)·P·Cov(m, x̂),    S = G·Cov(m)·Gᵀ,  P = Gᵀ·S⁻¹·G.

Cov(x̂, m) has a row for each node, which is never made for leaves. With u_v = var⇑_v, U_p the sum of u over p's
children, k_v = u_v / U_p, and h_v what m gains when v gains 1 (a leaf's own sums; Σ k_c·h_c above them),

    Cov(m) = Σ over leaves u·h·hᵀ − Σ over inner nodes (U_v − u_v)·h_v·h_vᵀ
    Cov(x̂_v, m) = k_v·Cov(x̂_p, m) + u_v·(h_v − h_p) = u_v·(h_v + q_p),    q_p = Cov(x̂_p, m) / U_p − h_p,

so a leaf takes a few numbers, an inner node a row as long as m, and S is solved once. A leaf that was not measured gets
a figure with a finite variance, which is then taken away again as a figure of negative precision.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from attributary.denoising.meeting import Breakdown, Meeting, common_top, joined_above, refuse_clash
from attributary.denoising.passes import engine
from attributary.errors import InputError
from attributary.tree import Tree
from attributary.types import Floats, Ints

LARGEST = 5_000  # sums that meet, with leaves that were not measured: S and its inverse take 400 MB
BLOCK = 2**24  # numbers in the rows of inner nodes that are held at once
BLIND = 1e-7  # of a variance: what depends on figures that are not there by more is not known
CLOSE = 1e-5  # of its terms: a difference below that has lost too many digits
SPANNED = 1e-10  # of a sum's scaled variance, what the others do not imply: then its inverse is plain
TINY = 1e-4  # of what is below a node, its own estimate's variance: then their difference has lost it
IMPLIED = 1e-13  # of a sum's scaled variance, for each sum: what is left of one that others imply


@dataclass(frozen=True, eq=False)
class JointCounts:
    """Estimates and their variances, in the tree's order."""

    count: Floats
    variance: Floats


def crossed(breakdowns: Sequence[Breakdown], meetings: Sequence[Meeting]) -> list[JointCounts]:
    """The best linear unbiased counts of all breakdowns, which agree wherever two of them meet."""
    tops = common_top([b.tree for b in breakdowns], meetings)
    if tops is not None:
        return [JointCounts(*each) for each in joined_above(breakdowns, tops)]
    known = [b.variance[(b.variance > 0) & (b.variance < np.inf)] for b in breakdowns]
    stand_in = max((float(v.max()) for v in known if v.size), default=1.0)
    sums = [_Sums.of(b, [(m, m.of_leaves(i, b.tree)) for m in meetings if i in (m.one, m.other)], stand_in)
            for i, b in enumerate(breakdowns)]  # fmt: skip
    joint = _joint(sums, meetings, stand_in)
    return [each.corrected(*change) for each, change in zip(sums, joint, strict=True)]


class _Change(NamedTuple):
    """How a breakdown's sums m change its estimates: x̂ + Cov(x̂, m)·gain, its variance less that of `taken`."""

    gain: Floats
    taken: Floats
    lost: Floats  # directions of m that no figure tells, as columns


def _joint(sums: "Sequence[_Sums]", meetings: Sequence[Meeting], stand_in: float) -> list[_Change]:
    """S solved: what the agreement of all sums, and the removal of figures that only stood in, change."""
    first = np.cumsum([0, *(m.size for m in meetings)])  # of each meeting's rows of G
    unknown = np.cumsum([0, *(each.width - each.shared for each in sums)])
    rows, size = int(first[-1]), int(first[-1] + unknown[-1])
    if size > LARGEST:
        raise InputError(
            f"breakdowns meet in {rows:,} sums and have {unknown[-1]:,} cells that were not measured; to solve for all "
            f"of them takes {32e-9 * size**2:,.1f} GB; up to {LARGEST:,} are solved"
        )
    at, sign = [], []  # the row of G and the sign of each of a breakdown's shared sums
    for i in range(len(sums)):
        met = [(m, n) for m, n in zip(meetings, first, strict=False) if i in (m.one, m.other)]
        at.append(np.concatenate([n + np.arange(m.size) for m, n in met] or [np.zeros(0, np.int64)]))
        sign.append(np.concatenate([np.full(m.size, 1.0 if i == m.one else -1.0) for m, _ in met] or [np.zeros(0)]))
    square, off = np.zeros((rows, rows)), np.zeros(rows)  # S and G·m̂
    stands, told = np.zeros((unknown[-1], unknown[-1])), np.zeros((rows, unknown[-1]))  # Cov(z), G·Cov(m, z)
    stood = np.zeros(unknown[-1])
    for each, here, s, z in zip(sums, at, sign, unknown, strict=False):
        covariance, mean, own = each.covariance(), each.mean, slice(z, z + each.width - each.shared)
        square[np.ix_(here, here)] += s * covariance[: each.shared, : each.shared] * s[:, None]
        off[here] += s * mean[: each.shared]
        told[here, own] += s[:, None] * covariance[: each.shared, each.shared :]
        stands[own, own], stood[own] = covariance[each.shared :, each.shared :], mean[each.shared :]
    inverse, implied = inverse_of(square)
    refuse_clash(implied.T @ off, off)
    moved, passed = inverse @ off, inverse @ told
    precision, lost = inverse_of(stand_in * np.eye(len(stood)) - (stands - told.T @ passed))
    back = precision @ (stood - told.T @ moved)
    changes = []
    for each, here, s, z in zip(sums, at, sign, unknown, strict=False):
        through = np.zeros((each.width, len(stood)))
        through[: each.shared] = -s[:, None] * passed[here]
        through[np.arange(each.shared, each.width), z + np.arange(each.width - each.shared)] = 1.0
        taken = -through @ precision @ through.T if len(stood) else np.zeros((each.width, each.width))
        taken[: each.shared, : each.shared] += s * inverse[np.ix_(here, here)] * s[:, None]
        gain = through @ back
        gain[: each.shared] -= s * moved[here]
        changes.append(_Change(gain, taken, through @ lost))
    return changes


def inverse_of(square: Floats) -> tuple[Floats, Floats]:
    """The inverse of a matrix without negative eigenvalues, on what it spans; and the directions that it does not."""
    scale = np.sqrt(np.maximum(np.diag(square), 0))
    scale = np.where(scale > 0, scale, 1.0)
    scaled = square / scale / scale[:, None]
    try:
        plain = np.linalg.inv(scaled)
        left = np.diag(plain)  # 1 / what of a sum the others do not imply
        if (left > 0).all() and left.max(initial=1.0) * SPANNED < 1:
            made: Floats = plain / scale / scale[:, None]
            return (made + made.T) / 2, np.zeros((len(scale), 0))
    except np.linalg.LinAlgError:
        pass  # some sums are implied by others
    values, vectors = np.linalg.eigh(scaled)
    there = values > IMPLIED * len(values)
    spanned = vectors[:, there] / scale[:, None]
    return (spanned / values[there]) @ spanned.T, vectors[:, ~there] / scale[:, None]


class _Level(NamedTuple):
    """Nodes of a level below some roots, whose parents they are children of, and the rows h of those with children."""

    nodes: slice
    parent: Ints  # its place among the inner nodes of the level above
    inner: Ints  # places in `nodes`
    h: Floats
    below: Floats  # U


class _Sums(NamedTuple):
    """A breakdown denoised by itself, in level order, and the sums of it that others have, too."""

    tree: Tree
    blue: Floats
    variance: Floats
    up: Floats  # u
    column: Ints  # (nodes, meetings and one more): the sums that a leaf is part of, and itself if it was not measured
    shared: int  # the length of m without the leaves that were not measured
    width: int

    @classmethod
    def of(cls, breakdown: Breakdown, met: Sequence[tuple[Meeting, Ints]], stand_in: float) -> "_Sums":
        tree, leaf = breakdown.tree, breakdown.tree.is_leaf
        columns, width = [], 0
        for meeting, of in met:
            columns.append(np.full(len(tree), -1))
            columns[-1][leaf] = np.where(of < 0, -1, of + width)
            width += meeting.size
        unknown = np.flatnonzero(leaf & (breakdown.variance == np.inf))
        columns.append(np.full(len(tree), -1))
        columns[-1][unknown] = width + np.arange(len(unknown))
        noisy, variance = breakdown.noisy.copy(), breakdown.variance.copy()
        noisy[unknown], variance[unknown] = 0.0, stand_in
        passes = engine(tree)
        made, up = passes.upward(tree, tree.to_level_order(noisy), tree.to_level_order(variance))
        spread = up.copy()
        passes.downward(tree, made, spread)
        column = tree.to_level_order(np.stack(columns, 1))
        return cls(tree, made, spread, up, column, width, width + len(unknown))

    @property
    def mean(self) -> Floats:
        """The sums m̂."""
        return sum((self._binned(c, self.blue) for c in self.column.T), np.zeros(self.width))

    def _binned(self, column: Ints, values: Floats) -> Floats:
        there = column >= 0
        made: Floats = np.bincount(column[there], values[there], self.width).astype(np.float64)
        return made

    def covariance(self) -> Floats:
        """Cov(m)."""
        made = np.zeros((self.width, self.width))
        for one in self.column.T:
            for other in self.column.T:
                both = (one >= 0) & (other >= 0)
                place = one[both] * self.width + other[both]
                made += np.bincount(place, self.up[both], self.width**2).reshape(made.shape)
        for level in chain.from_iterable(self._blocks()):
            u = self.up[level.nodes][level.inner]
            small = u < TINY * level.below  # would be lost in the difference
            half = level.h * np.sqrt(np.where(small, level.below, np.maximum(level.below - u, 0)))[:, None]
            made -= half.T @ half
            if small.any():
                half = level.h[small] * np.sqrt(u[small])[:, None]
                made += half.T @ half
        return made

    def corrected(self, change: Floats, taken: Floats, lost: Floats) -> JointCounts:
        """The estimates after a change of the sums."""
        count, variance, blind = self.blue.copy(), self.variance.copy(), np.zeros(len(self.blue))
        alone = np.diag(taken)
        for block in self._blocks():
            q = squared = np.zeros((1, self.width))  # above the roots, whose rows are u·h; and q·taken
            for nodes, parent, inner, h, below in block:
                u, columns = self.up[nodes], self.column[nodes].T
                moved, dark = (q @ change)[parent], (q @ lost)[parent]
                drop = np.einsum("ij,ij->i", q, squared)[parent]
                size = np.abs(drop)
                for i, one in enumerate(columns):
                    there: Any = np.flatnonzero(one >= 0)
                    there = slice(None) if len(there) == len(one) else there
                    at = one[there]
                    moved[there] += change[at]
                    dark[there] += lost[at]
                    cross = squared[parent[there], at]
                    size[there] += np.abs(cross)
                    drop[there] += 2 * cross + alone[at]
                    for other in columns[i + 1 :]:
                        both = np.flatnonzero((one >= 0) & (other >= 0))
                        drop[both] += 2 * taken[one[both], other[both]]
                small = np.flatnonzero(drop < CLOSE * size)  # a difference of nearly equal numbers: row by row instead
                for v in np.setdiff1d(small, inner):
                    row = q[parent[v]].copy()
                    np.add.at(row, columns[:, v][columns[:, v] >= 0], 1.0)
                    moved[v], dark[v], drop[v] = row @ change, row @ lost, row @ taken @ row
                rows, through = h + q[parent[inner]], h @ taken
                onward = through + squared[parent[inner]]
                moved[inner], dark[inner] = rows @ change, rows @ lost
                drop[inner] = np.einsum("ij,ij->i", rows, onward)
                k = (u[inner] / np.where(below > 0, below, np.inf))[:, None]
                q, squared = rows * k - h, onward * k - through
                count[nodes] += u * moved
                variance[nodes] -= u**2 * drop
                blind[nodes] = u * np.abs(dark).max(axis=1, initial=0)
        variance = np.where(blind > BLIND * self.up.max(initial=0), np.inf, np.maximum(variance, 0))
        return JointCounts(self.tree.from_level_order(count), self.tree.from_level_order(variance))

    def _blocks(self) -> Iterator[list[_Level]]:
        """Levels from top to bottom, for as many roots at a time as memory allows."""
        first = self.tree.first.astype(np.int64)
        inner = (first[1:] > first[:-1]).astype(np.float64)
        roots = int(first[0])
        cost = np.cumsum(self.tree.to_level_order(self.tree.sum_up(self.tree.from_level_order(inner)))[:roots])
        at = np.searchsorted(cost * max(self.width, 1), np.arange(BLOCK, cost[-1] * max(self.width, 1) + BLOCK, BLOCK))
        ends = np.unique(np.append(at, roots))
        for begin, end in zip([0, *ends[:-1]], ends, strict=True):
            if end > begin:
                yield self._levels(slice(int(begin), int(end)), first)

    def _levels(self, roots: slice, first: Ints) -> list[_Level]:
        parts, parent = [], np.zeros(roots.stop - roots.start, np.int64)
        while roots.stop > roots.start:
            count = np.diff(first[roots.start : roots.stop + 1])
            inner = np.flatnonzero(count)
            parts.append((roots, parent, inner))
            parent = np.repeat(np.arange(len(inner)), count[inner])
            roots = slice(int(first[roots.start]), int(first[roots.stop]))
        levels: list[_Level] = []
        for (nodes, above, inner), of in zip(parts[::-1], [parent, *(p for _, p, _ in parts[:0:-1])], strict=True):
            h: Floats = np.zeros((len(inner), self.width))
            below: Floats = np.zeros(len(inner))
            if len(inner):
                under = levels[-1]
                u = self.up[under.nodes]
                below = np.bincount(of, u, len(inner)).astype(np.float64)
                k = np.where(below[of] > 0, u / np.where(below > 0, below, 1.0)[of], 1 / np.bincount(of)[of])
                for column in self.column[under.nodes].T:
                    there = column >= 0
                    h += np.bincount(of[there] * self.width + column[there], k[there], h.size).reshape(h.shape)
                if len(under.inner):
                    top = of[under.inner]
                    start = np.flatnonzero(np.diff(top, prepend=-1))
                    h[top[start]] += np.add.reduceat(under.h * k[under.inner][:, None], start)
            levels.append(_Level(nodes, above, inner, h, below))
        return levels[::-1]
