"""joint: the estimates of several breakdowns of the same conversions, each with all that is asked of an estimate."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike

from attributary.denoising.crossed import crossed
from attributary.denoising.estimate import Estimate, Fit, unbiased, weights_of
from attributary.denoising.joint_fit import nonnegative_fit
from attributary.denoising.meeting import Breakdown, Meeting
from attributary.denoising.total import Total
from attributary.errors import InputError
from attributary.measurements import Measurements
from attributary.tree import Family, Tree
from attributary.types import Bools, Floats, Ints


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
