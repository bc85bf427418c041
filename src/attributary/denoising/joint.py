"""joint: the estimates of several breakdowns of the same conversions, each with all that is asked of an estimate.

Those that are never negative agree wherever two breakdowns meet, and fit the figures best:

    argmin Σ (x_v − s_v)² / var_v  over all figures of all breakdowns, leaves ≥ 0, shared sums equal, exact figures kept

An interior-point method (Mehrotra's predictor and corrector) finds which leaves are 0. With these as exact figures the
rest is `crossed`, whose digits are good. Each step solves for all leaves at once, which is why their number is limited.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike

from attributary.denoising.crossed import crossed, inverse_of
from attributary.denoising.estimate import Estimate, Fit, unbiased, weights_of
from attributary.denoising.meeting import Breakdown, Meeting
from attributary.denoising.total import Total
from attributary.errors import InputError
from attributary.measurements import Measurements
from attributary.tree import Family, Tree
from attributary.types import Bools, Floats, Ints

LEAVES = 1_000  # of all breakdowns: dense matrices of that size are inverted at every step
STEPS = 100
DONE = 1e-11  # of the figures' size: what conditions may be missed by
FIRM = 1e6  # the precision of exact figures, beside that of the most precise noisy one
STEEP = 1e12  # of a price to its count, where exact figures leave a count no room
SAFE = 0.9995  # of the way to the nearest bound


@dataclass(frozen=True, eq=False, repr=False)
class Joint(Estimate):
    """Unbiased counts of one breakdown that use the figures of the others, too.

    `fit` is that of `plain`, this breakdown denoised by itself; `correction` is how far all figures moved each.
    """

    breakdowns: tuple[Breakdown, ...] = field(default=())
    figures: tuple[Measurements, ...] = field(default=())
    meetings: tuple[Meeting, ...] = field(default=())
    number: int = 0  # of this breakdown
    other: str = ""  # what the others are sums by

    @property
    def beside(self) -> str:
        """What the other breakdowns are sums by."""
        return self.other

    @cached_property
    def plain(self) -> Estimate:
        """The unbiased estimate from the figures of this breakdown alone."""
        return unbiased(self.tree, self.measurements)

    @cached_property
    def fit(self) -> Fit:
        """The fit of the noise, from the figures of this breakdown alone."""
        return self.plain.fit

    @cached_property
    def _excess(self) -> Floats:
        """Of a sum that an earlier breakdown has as a node, too, that of the first: intervals are the same there."""
        made, trees = joint_excess(self.plain, self.variance), [b.tree for b in self.breakdowns]
        for i in reversed(range(self.number)):
            for at, levels in enumerate(_prefixes(trees[i])):
                if levels not in (ours := _prefixes(self.tree)):
                    continue
                same = _meeting(trees, [self.other] * len(trees), (i, self.number), sorted(levels))
                of_one, of_other = (np.argsort(of) for of in (same.of_one, same.of_other))
                there, here = trees[i].slice(at), self.tree.slice(ours.index(levels))
                theirs, mine = np.full(len(trees[i]), np.inf), self.tree.to_level_order(made).copy()
                theirs[there.start + of_one] = self.tree.to_level_order(self.variance)[here.start + of_other]
                excess = joint_excess(unbiased(trees[i], self.figures[i]), trees[i].from_level_order(theirs))
                mine[here.start + of_other] = trees[i].to_level_order(excess)[there.start + of_one]
                made = self.tree.from_level_order(mine)
        return made

    def total(self, nodes_or_weights: ArrayLike) -> Total:
        """A sum of counts with its exact variance; with that of `plain`, at least as large, if it rests on leaves that
        were not measured.

        An estimate's covariance with a figure x is its variance times what the estimate gains with x. So figures of
        weight · variance, and 0 elsewhere, are denoised to the covariances of all estimates with the sum.
        """
        weights = weights_of(len(self.tree), nodes_or_weights)
        count = float(np.dot(weights, self.blue))
        for i, wanted in self._measured_as(weights):
            own = self.figures[i].variance
            used = wanted != 0
            if np.isinf(own[used]).any():
                continue
            probes = [b._replace(noisy=np.zeros(len(b.tree))) for b in self.breakdowns]
            probes[i] = probes[i]._replace(noisy=np.where(used, wanted * np.where(used, own, 0.0), 0.0))
            shared = [made.count for made in crossed(probes, self.meetings)]
            variance = max(float(wanted @ shared[i]), 0.0)
            excess = sum(_excess_of(m, c, variance) for m, c in zip(self.figures, shared, strict=True))
            return self._shown(Total(count, variance, excess, count, variance), weights)
        plain = self.plain.total(weights)
        return self._shown(replace(plain, unbiased=count), weights)

    def _measured_as(self, weights: Floats) -> Iterator[tuple[int, Floats]]:
        """The sum by weights of nodes that were measured, of this breakdown; if it is all, of the others, too."""
        yield self.number, _on_measured(self.tree, weights, self.measurements.variance)
        pull = self.tree.sum_down(weights)[self.tree.is_leaf]
        if (pull == pull[0]).all():
            for i, (tree, _, variance) in enumerate(self.breakdowns):
                yield i, _on_measured(tree, np.where(tree.parent < 0, pull[0], 0.0), variance)


def _prefixes(tree: Tree) -> list[frozenset[str]]:
    """The attributes that nodes of each level are sums by; nothing of a tree without labels."""
    names = tree.level_names if tree.attributes else ()
    return [frozenset(names[: i + 1]) - ({names[0]} if tree.total else set()) for i in range(len(names))]


def _on_measured(tree: Tree, weights: Floats, variance: Floats) -> Floats:
    """Weights of the same sum on nodes that were measured, or on leaves."""
    w, var = tree.to_level_order(weights).copy(), tree.to_level_order(variance)
    for level in range(tree.depth - 1):
        family = Family(tree, level)
        if family.size:
            p = family.parent
            down = np.where(var[p] == np.inf, w[p], 0.0)
            w[family.children] += family.spread(down)
            w[p] -= down
    made: Floats = tree.from_level_order(w)
    return made


def _excess_of(measured: Measurements, shared: Floats, variance: float) -> float:
    """What figures add to the kurtosis of a sum, from their covariances with it."""
    use = (measured.variance > 0) & (measured.variance < np.inf)
    if not variance > 0:
        return 0.0
    share = shared[use] ** 2 / measured.variance[use] / variance
    return float(np.sum(measured.excess()[use] * share**2))


def joint_excess(plain: Estimate, variance: Floats) -> Floats:
    """The excess kurtosis of joint estimates with these variances.

    They are means of the estimate from one breakdown and what the others say, whose tails are those of one figure.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        share = np.where(plain.variance > 0, np.clip(variance / plain.variance, 0, 1), 1.0)
    share = np.where(plain.variance < np.inf, share, 0.0)
    made: Floats = plain._excess * share**2 + _largest_excess(plain.measurements) * (1 - share) ** 2
    return np.where(variance < np.inf, made, 0.0)


def _largest_excess(measured: Measurements) -> float:
    known = (measured.variance > 0) & (measured.variance < np.inf)
    return float(measured.excess()[known].max(initial=0))


def meetings_of(
    trees: Sequence[Tree], names: Sequence[str], remedy: str = "give both the same impressions"
) -> list[Meeting]:
    """Where the trees of breakdowns meet: in the sums by the attributes that both have, or in their totals.

    What other meetings imply is left out. A value that one tree has and the other has not contradicts that both count
    the same conversions; the `remedy` is part of the message.
    """
    shared = {(i, j): [a for a in trees[i].attributes if a in trees[j].attributes]
              for i, j in combinations(range(len(trees)), 2)}  # fmt: skip
    kept: list[tuple[int, int]] = []
    for pair in sorted(shared, key=lambda pair: -len(shared[pair])):
        wider = [other for other in kept if set(shared[pair]) <= set(shared[other])]
        reached, before = {pair[0]}, 0
        while len(reached) > before:
            before = len(reached)
            reached |= {k for link in wider if reached & set(link) for k in link}
        if pair[1] not in reached:
            kept.append(pair)
    return [_meeting(trees, names, pair, shared[pair], remedy) for pair in kept]


def _meeting(
    trees: Sequence[Tree], names: Sequence[str], pair: tuple[int, int], shared: Sequence[str], remedy: str = ""
) -> Meeting:
    one, other = pair
    places = [[trees[i].level_names.index(attribute) for attribute in shared] for i in (one, other)]
    levels = [max(at, default=0) for at in places]
    here = [trees[i].slice(level) for i, level in zip((one, other), levels, strict=True)]
    number: list[Ints] = [np.zeros(nodes.stop - nodes.start, np.int64) for nodes in here]
    for k in range(len(shared)):
        known: dict[str, int] = {}
        codes = []
        for i, at, nodes in zip((one, other), places, here, strict=True):
            tree, level = trees[i].in_level_order, at[k]
            labels = tree.labels[level - tree.total]
            code = np.array([known.setdefault(x, len(known)) for x in labels.dictionary.cast("string").to_pylist()])
            codes.append(tree.hand_down(code[labels.indices.to_numpy()], level)[nodes])
        both = [n * len(known) + code for n, code in zip(number, codes, strict=True)]
        _, made = np.unique(np.concatenate(both), return_inverse=True)
        number = [made[: len(both[0])], made[len(both[0]) :]]
    sides = zip((one, other), levels, number, number[::-1], strict=True)
    for i, level, mine, theirs in sides:
        lone: Bools = ~np.isin(np.asarray(mine), np.asarray(theirs))
        if lone.any():
            tree = trees[i].in_level_order
            labels = dict(zip(tree.attributes, tree.path(tree.slice(level).start + int(np.argmax(lone))), strict=False))
            what, lacks = ", ".join(f"{name} {labels[name]}" for name in shared), names[one + other - i]
            raise InputError(
                f"breakdowns are of the same conversions; {names[i]} has {what}, and {lacks} has not: {remedy}"
            )
    return Meeting(one, other, number[0], number[1], (levels[0], levels[1]))


def joint(
    each: Sequence[tuple[Tree, Measurements]],
    meetings: Sequence[Meeting],
    names: Sequence[str],
    nonnegative: bool = False,
) -> list[Joint]:
    """The best linear unbiased estimates of all breakdowns together, or the best that are never negative.

    `names` say for each what the others are.
    """
    breakdowns = tuple(Breakdown(tree, m.noisy, m.variance) for tree, m in each)
    best, figures = crossed(breakdowns, meetings), tuple(m for _, m in each)
    counts = nonnegative_fit(breakdowns, meetings) if nonnegative else [c.count for c in best]
    return [
        Joint(tree, m, count, c.variance, c.count, nonnegative, breakdowns, figures, tuple(meetings), i, names[i])
        for i, ((tree, m), c, count) in enumerate(zip(each, best, counts, strict=True))
    ]


# Never negative


def nonnegative_fit(breakdowns: Sequence[Breakdown], meetings: Sequence[Meeting]) -> list[Floats]:
    """The counts of all nodes of each breakdown, in the order of its tree."""
    leaves = [len(b.tree.leaves) for b in breakdowns]
    if sum(leaves) > LEAVES:
        raise InputError(
            f"the non-negative fit of several breakdowns is solved for up to {LEAVES:,} leaves of all of them; these "
            f"have {sum(leaves):,}: take unbiased"
        )
    for b in breakdowns:
        if ((b.variance == 0) & (b.noisy < 0)).any():
            node = int(np.argmax((b.variance == 0) & (b.noisy < 0)))
            raise InputError(
                f"an exact figure (variance 0) is 0 or more where counts are never negative; {b.tree.name(node)} is "
                f"{b.noisy[node]:.17g}"
            )
    zero = np.split(_zeros(breakdowns, meetings), np.cumsum(leaves)[:-1])
    for _ in range(10):  # a leaf that was as good as 0 may come out below it
        fixed = []
        for b, some in zip(breakdowns, zero, strict=True):
            held = np.zeros(len(b.tree), bool)
            held[b.tree.leaves] = some & (b.variance[b.tree.leaves] > 0)
            fixed.append(b._replace(noisy=np.where(held, 0.0, b.noisy), variance=np.where(held, 0.0, b.variance)))
        made = [each.count for each in crossed(fixed, meetings)]
        low = [count[b.tree.leaves] < 0 for b, count in zip(breakdowns, made, strict=True)]
        size = max(1.0, *(float(np.abs(count).max()) for count in made))
        if not any((count[b.tree.leaves] < -1e-9 * size).any() for b, count in zip(breakdowns, made, strict=True)):
            break
        zero = [a | b for a, b in zip(zero, low, strict=True)]
    return [np.maximum(count, 0.0) + 0.0 for count in made]


def _zeros(breakdowns: Sequence[Breakdown], meetings: Sequence[Meeting]) -> Bools:
    """Which leaves of all breakdowns, one after the other, are 0 at the optimum."""
    start = np.cumsum([0, *(len(b.tree.leaves) for b in breakdowns)])
    n = int(start[-1])
    pull, aim, bound = np.zeros((n, n)), np.zeros(n), []
    least = min((float(b.variance[b.variance > 0].min(initial=np.inf)) for b in breakdowns), default=1.0)
    firm = (least if least < np.inf else 1.0) / FIRM  # of exact figures, which may leave no room for counts above 0
    for b, at, end in zip(breakdowns, start, start[1:], strict=False):
        sums, use = b.tree.roll_up(np.eye(end - at)), b.variance < np.inf
        weight = 1 / np.maximum(b.variance[use], firm)
        pull[at:end, at:end] = (sums[use] * weight[:, None]).T @ sums[use]
        aim[at:end] = sums[use].T @ (b.noisy[use] * weight)
    for m in meetings:
        rows = np.zeros((m.size, n))
        for i, sign in ((m.one, 1.0), (m.other, -1.0)):
            of = m.of_leaves(i, breakdowns[i].tree)
            there = np.flatnonzero(of >= 0)
            rows[of[there], start[i] + there] += sign
        bound.append(rows)
    stiff = max(float(np.diag(pull).max()), 1e-300)
    figures = [np.abs(b.noisy[b.variance < np.inf]).max(initial=0) for b in breakdowns]
    return _interior(pull / stiff, aim / stiff, np.vstack(bound), max(1.0, *figures))


def _interior(pull: Floats, aim: Floats, bound: Floats, size: float) -> Bools:
    """argmin ½xᵀPx − aᵀx with Bx = 0 and x ≥ 0: which x are 0, their prices being larger than they."""
    x, z, y = np.full(len(aim), size), np.full(len(aim), size * 0.1), np.zeros(len(bound))
    for _ in range(STEPS):
        slope, off, gap = pull @ x - aim - bound.T @ y - z, bound @ x, float(x @ z) / len(x)
        missed = max(float(np.abs(slope).max()), float(np.abs(off).max(initial=0)))
        if (missed < DONE * size and gap < (DONE * size) ** 2 * 1e4) or gap < (DONE * size) ** 2 * 1e-4:
            break
        each = pull + np.diag(np.clip(z / x, 1 / STEEP, STEEP))
        # K·dx − Bᵀ·dy = −slope + (μσ − dxdz)/x − z, and B·dx = −off
        solved = np.linalg.inv(each)
        across = solved @ bound.T
        inverse = inverse_of(bound @ across)[0]

        def moved(toward: Floats) -> tuple[Floats, Floats, Floats]:
            direct = solved @ (toward / x - slope)  # noqa: B023
            dy = inverse @ (-off - bound @ direct)  # noqa: B023
            dx = direct + across @ dy  # noqa: B023
            return dx, dy, (toward - z * dx) / x  # noqa: B023

        dx, dy, dz = moved(-x * z)
        far = min(_far(x, dx), _far(z, dz))
        after = float((x + far * dx) @ (z + far * dz)) / len(x)
        dx, dy, dz = moved(gap * (after / gap) ** 3 - x * z - dx * dz)
        far = min(1.0, SAFE * min(_far(x, dx), _far(z, dz)))
        x, y, z = x + far * dx, y + far * dy, z + far * dz
    return x < z


def _far(values: Floats, step: Floats) -> float:
    down = step < 0
    return min(1.0, float((values[down] / -step[down]).min(initial=1.0)))
