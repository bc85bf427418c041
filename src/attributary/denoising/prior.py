"""Prior: what is known of the counts before they are measured."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attributary.denoising import linear
from attributary.denoising.linear import contradiction, refuse
from attributary.denoising.nonnegative import least, settled
from attributary.denoising.passes import engine, sweep
from attributary.measurements import Measurements
from attributary.tree import Tree
from attributary.types import Bools, Floats

ROUNDING = 1e-6  # how far the shares of a family may be from 1 together


@dataclass(frozen=True, eq=False)
class Prior:
    """A count for each node of a tree, in the tree's order, and where it comes from.

    It can be used in an estimate in two ways, or both. With `variance`, the mean of each node is one more measurement,
    independent of all others. With `share` and `spread`, a node is expected to have that share of its parent's count,
    with that variance; the shares of a family sum to 1, and those of roots are ignored.
    """

    mean: Floats
    variance: Floats | None = None  # of the mean; inf where nothing is known. None: not known at all
    protected: bool = False  # made of figures that were protected themselves
    new: Bools | None = None  # nodes that the earlier period did not have; None: there was no earlier period
    gone: int = 0  # leaves of the earlier period that are not in the tree
    lost: float = 0.0  # and their counts together
    example: str = ""  # the first of them
    share: Floats | None = None  # of the parent's count
    spread: Floats | None = None  # variance of the count around share · parent's; inf where nothing is known
    not_private: str = ""  # why estimates that use it are not private, if they are not
    periods: Floats | None = None  # of each node: how many periods' worth of conversions the mean is an average of
    source: str = ""  # which periods these are, in words
    label: NDArray[np.int32] | None = None  # equal for equal labels of a level, where the tree does not hold them
    noisy: Floats | None = None  # the figures that the mean was made of, where a report has them; nan where it has none
    profile: Any = None  # Profile: the sums of all measures, and what limits cut off of them, where that is known
    measures: Mapping[str, "Prior"] = field(default_factory=dict)  # by name, where measures have priors of their own
    path: str = ""  # of the file or folder that it was read from
    reports: frozenset[str] = frozenset()  # the fingerprints of the noisy figures in a folder of reports

    @property
    def history(self) -> bool:
        """True if there was an earlier period; without one, a plan depends on the tree's structure alone."""
        return self.new is not None or bool(np.any(self.mean))

    def of(self, measure: str) -> "Prior":
        """The prior of one measure."""
        return self.measures.get(measure, self)

    def misfit(self, tree: Tree) -> str:
        """A warning if less than half of the earlier conversions are in the tree; else empty."""
        kept = max(float((np.asarray(self.mean) * tree.number)[tree.parent < 0].sum()), 0.0)
        if not self.lost > kept:
            return ""
        part = f"{self.lost / (kept + self.lost):.0%} of the prior's conversions are not in this tree"
        return f"the prior hardly fits: {part}{self.example and f', such as those of {self.example}'}"

    def times(self, factor: float) -> "Prior":
        """This prior in another unit."""
        variance, spread = (None if v is None else v * factor**2 for v in (self.variance, self.spread))
        return replace(self, mean=self.mean * factor, variance=variance, spread=spread) if factor != 1.0 else self

    def new_roots(self, tree: Tree) -> Bools:
        """Which values of the first attribute are new, in level order; none where there is no history."""
        heads = tree.slice(int(tree.total))
        if self.new is None:
            return np.zeros(heads.stop - heads.start, bool)
        return tree.to_level_order(self.new)[heads]


def shares_of(tree: Tree, prior: Prior) -> tuple[Floats, Floats] | None:
    """Share and spread in level order; None where no spread is finite. The bottom-up pass checks the rest."""
    if prior.share is None and prior.spread is None:
        return None
    if prior.share is None or prior.spread is None:
        raise ValueError("shares and their spread go together; give both, with a spread of inf where nothing is known")
    share, spread = _of_nodes(tree, prior.share, "share"), _of_nodes(tree, prior.spread, "spread")
    below = spread[tree.slice(0).stop :]
    return None if not below.size or below.min() == np.inf else (share, spread)


def refuse_shares(tree: Tree, share: Floats, spread: Floats) -> None:
    """Raises ValueError for invalid shares and spreads, in level order."""
    if not (spread[tree.slice(0).stop :] >= 0).all():
        raise ValueError("a spread is 0 or more, or inf where nothing is known; got one that is negative or nan")
    for family in tree.families():
        c = family.children
        expected = family.sum((spread[c] < np.inf).astype(np.float64)) > 0
        sums = family.sum(share[c])
        bad = expected & ~(np.abs(sums - 1) <= ROUNDING)
        if bad.any() or (share[c][spread[c] < np.inf] < 0).any():
            wrong = sums[np.argmax(bad)]
            raise ValueError(f"shares are 0 or more and sum to 1 in each family; one sums to {wrong}")


def with_means(tree: Tree, given: Measurements, prior: Prior) -> Measurements:
    """The measurements combined with the prior's means, if any of these has a finite variance."""
    if prior.variance is None or np.min(prior.variance, initial=np.inf) == np.inf:
        return given
    if (passes := engine(tree)) is not linear and np.shape(prior.mean) == np.shape(prior.variance) == (len(tree),):
        both = passes.combined(
            given.noisy, given.variance, *(np.asarray(a, np.float64) for a in (prior.mean, prior.variance))
        )
        if both is not None:
            return given.with_noise(*both)
    expected = measured(tree, prior)
    return given if expected is None else given.again(Measurements(*expected))


def measured(tree: Tree, prior: Prior) -> tuple[Floats, Floats] | None:
    """Mean and variance, in the tree's order, as one more measurement; None where no variance is finite."""
    if prior.variance is None:
        return None
    mean, variance = (np.asarray(values, np.float64) for values in (prior.mean, prior.variance))
    if mean.shape != (len(tree),) or variance.shape != (len(tree),):
        raise ValueError(f"a prior has a mean and a variance for each of the {len(tree)} nodes; got {mean.size}")
    if not (variance >= 0).all():
        raise ValueError("a prior's variance is 0 or more, or inf where nothing is known; got one negative or nan")
    known = variance < np.inf
    if not np.isfinite(mean[known]).all():
        raise ValueError("a prior's mean is a finite number where its variance is; got nan or inf")
    return (np.where(known, mean, 0.0), variance) if known.any() else None


def _of_nodes(tree: Tree, values: Floats, name: str) -> Floats:
    given = np.asarray(values, np.float64)
    if given.shape != (len(tree),):
        raise ValueError(f"one {name} for each of the {len(tree)} nodes is needed; got shape {given.shape}")
    return np.ascontiguousarray(tree.to_level_order(given))


# family_shares: the best linear predictor where a family is expected to share its parent's count in known proportions.
#
# Given its parent's count x_p, a child's is about s_u·x_p, give or take a variance q_u, its spread; shares s sum to 1,
# as counts do to x_p. With z⇑, var⇑ from a child and all below it, weights k_u = q_u / (q_u + var⇑_u) on the figures
# and t_u = k_u·var⇑_u, what a family says of its parent has
#
#     precision  Σ s_u² / (var⇑_u + q_u) + (Σ k_u·s_u)² / T,    T = Σ t_u
#
# and given the parent's estimate, with μ_u = k_u·z⇑_u + (1 − k_u)·s_u·x̂_p, the children are
#
#     x̂_u = μ_u + (t_u / T)·(x̂_p − Σ μ)
#     v̂ar_u = t_u·(1 − t_u / T) + g_u²·v̂ar_p,    g_u = (1 − k_u)·s_u + (t_u / T)·Σ k·s
#
# Two sweeps, as in Algorithm 2, which this is where every spread is ∞.

INF = np.inf
ONE = np.uint64(1)


class Up(NamedTuple):
    """The bottom-up pass leaves these for the way down, in level order; z and v of a root are its z⇑ and var⇑."""

    z: Floats  # k·z⇑
    v: Floats  # t
    pull: Floats  # (1 − k)·s: how the expectation moves with the parent's count


def upward(tree: Tree, x: Floats, var: Floats, share: Floats, spread: Floats) -> Up:
    """The bottom-up pass: families hand up what they say of their parents, and keep what they need."""
    z, v, pull = np.empty_like(x), np.empty_like(x), np.empty_like(x)
    roots, trouble = tree.slice(0), np.full(2, -1.0)
    pull[roots] = 0.0
    if tree.depth > 1:
        sweep(tree, _up, x, var, share, spread, z, v, pull, trouble, upwards=True)
    alone = tree.first[1 : roots.stop + 1] == tree.first[roots]  # roots that are leaves
    z[roots][alone], v[roots][alone] = np.where(var[roots] == INF, 0.0, x[roots])[alone], var[roots][alone]
    if trouble[0] >= 0 or alone.any():
        refuse(tree, x, var)
        refuse_shares(tree, share, spread)
    if trouble[1] >= 0:
        contradiction(tree, x, z, int(trouble[1]))
    return Up(z, v, pull)


def downward(tree: Tree, up: Up) -> tuple[Floats, Floats]:
    """The top-down pass: the counts and their variances, in level order and in the place of what was handed up."""
    if tree.depth > 1:
        sweep(tree, _down, up.pull, up.z, up.v)
    return up.z, up.v


def predict(
    tree: Tree, x: Floats, var: Floats, share: Floats, spread: Floats, method: str | None = None
) -> tuple[Floats, Floats, Floats]:
    """The best linear predictions, their variances, and the counts: the same, or those made non-negative top-down.

    Then each family has the counts ≥ 0 that sum to its parent's and minimise Σ (s_u − μ_u)² / t_u.
    """
    if method == "joint":
        raise ValueError('shares go with non-negative counts "top-down"; "joint" takes a mean and a variance')
    up = upward(tree, x, var, share, spread)
    kept = Up(*(a.copy() for a in up)) if method else up
    blue, variance = downward(tree, up)
    if spread.min() == 0:
        _refuse_stuck(tree, blue)
    if method is None:
        return blue, variance, blue
    return blue, variance, settled(tree, kept.z, kept.v, blue, least(tree, x, var), kept.pull)


def _refuse_stuck(tree: Tree, count: Floats) -> None:
    """Where shares are known exactly (spread 0) and figures too, there may be no counts that go with both."""
    parents = np.flatnonzero(~tree.in_level_order.is_leaf)
    sums = np.add.reduceat(count, tree.first[parents])
    size = np.add.reduceat(np.abs(count), tree.first[parents])
    off = ~(np.abs(sums - count[parents]) <= 1e-9 * np.maximum(size, np.abs(count[parents])))
    if off.any():
        place = int(parents[np.argmax(off)])
        raise ValueError(
            "shares known exactly (spread 0) must agree with exact figures (variance 0); below "
            f"{tree.name_at(place)} they do not: give the shares some spread"
        )


# Kernels, run on lists or compiled, with the same digits. A family is a:b.


def _up(first, x, var, share, spread, z, v, pull, trouble, lo, hi):  # type: ignore[no-untyped-def]
    """Over the parents lo:hi, last first; trouble tells of a family that makes no sense, and of one that is at odds."""
    p = hi
    while p > lo:
        p -= ONE
        a, b = np.uint64(first[p]), np.uint64(first[p + ONE])
        if a == b:
            continue
        precision, pulled = 0.0, 0.0  # from the shares alone
        ks, kz, t_sum, size, s_sum, unknown, expected, fine = 0.0, 0.0, 0.0, 0.0, 0.0, 0, 0, True
        for i in range(a, b):
            if first[i] == first[i + 1]:
                vi, zi = var[i], x[i]
                zi = zi if vi < INF else 0.0
            else:
                vi, zi = v[i], z[i]
            q, s = spread[i], share[i]
            fine = fine and vi >= 0.0 and q >= 0.0 and abs(zi) < INF and (s >= 0.0 or q == INF)
            size += abs(zi)
            s_sum += s
            both = vi + q
            if both > 0.0 and both < INF:
                inverse = 1.0 / both
                k, rest = q * inverse, vi * inverse
                t = vi * k
                precision += s * s * inverse
                pulled += s * zi * inverse
            elif vi < INF:  # no spread to speak of, or an exact figure, which wins over an exact share
                k, rest, t = 1.0, 0.0, vi
            elif q < INF:
                k, rest, t = 0.0, 1.0, q
            else:
                k, rest, t = 0.0, 0.0, INF
                unknown += 1
            expected += 1 if q < INF else 0
            ks += k * s
            kz += k * zi
            t_sum += t if t < INF else 0.0
            z[i] = k * zi
            v[i] = t
            pull[i] = rest * s if rest > 0.0 else 0.0
        if expected == 0:  # the shares do not matter
            ks = 1.0
        elif not abs(s_sum - 1.0) <= ROUNDING:
            fine = False
        # Of the parent, from its children: both terms, brought to one denominator, so that T may be 0.
        below = ks * ks + precision * t_sum
        if unknown == 0 and below > 0.0:
            value, variance = (ks * kz + pulled * t_sum) / below, t_sum / below
        elif precision > 0.0:
            value, variance = pulled / precision, 1.0 / precision
        else:
            value, variance = 0.0, INF
        noise = var[p]
        if noise == INF:
            z[p], v[p] = value, variance
        elif variance == INF:
            z[p], v[p] = x[p], noise
        elif noise + variance > 0.0:
            both = noise + variance
            z[p] = variance / both * x[p] + noise / both * value
            v[p] = noise / both * variance
        else:
            z[p], v[p] = x[p], noise
            if abs(x[p] - value) > (8.0 + (b - a)) * 1e-15 * max(size, abs(x[p])):
                trouble[1] = p
        if not (fine and noise >= 0.0 and abs(z[p]) < INF):
            trouble[0] = p
            z[p], v[p] = 0.0, 1.0
    return 0


def _down(first, pull, z, v, lo, hi):  # type: ignore[no-untyped-def]
    """From the parents lo:hi, whose z and v are estimate and variance, to their children."""
    for p in range(lo, hi):
        a, b = np.uint64(first[p]), np.uint64(first[p + ONE])
        if a == b:
            continue
        xp, vp = z[p], v[p]
        if b - a == ONE:
            z[a], v[a] = xp, vp
            continue
        mu_sum, t_sum, pulls, unknown, most, biggest = 0.0, 0.0, 0.0, 0, -1.0, int(a)
        for i in range(a, b):
            z[i] += pull[i] * xp
            mu_sum += z[i] if v[i] < INF else 0.0
            pulls += pull[i]
            if v[i] == INF:
                unknown += 1
            else:
                t_sum += v[i]
                if v[i] > most:
                    most, biggest = v[i], i
        left = 1.0 - pulls  # Σ k·s
        if unknown == 0 and t_sum > 0.0:
            others_t, others_mu, mine = 0.0, 0.0, z[biggest]
            if most > 0.5 * t_sum:  # 1 − t / T by adding up its siblings, to lose no digits
                for i in range(a, b):
                    others_t += v[i] if i != biggest else 0.0
                    others_mu += z[i] if i != biggest else 0.0
            surplus, inverse = xp - mu_sum, 1.0 / t_sum
            for i in range(a, b):
                w = v[i] * inverse
                g = pull[i] + w * left
                z[i] += w * surplus
                v[i] = v[i] * (1.0 - w) + (g * g * vp if g != 0.0 else 0.0)
            if most > 0.5 * t_sum:
                w, rest = most * inverse, others_t * inverse
                g = pull[biggest] + w * left
                z[biggest] = rest * mine + w * (xp - others_mu)
                v[biggest] = most * rest + (g * g * vp if g != 0.0 else 0.0)
            continue
        for i in range(a, b):
            if v[i] == INF:
                z[i] = (xp - mu_sum) / unknown
                v[i] = t_sum + (left * left * vp if left != 0.0 else 0.0) if unknown == 1 else INF
            else:
                v[i] += pull[i] * pull[i] * vp if pull[i] != 0.0 else 0.0
    return 0
