"""Kin: which nodes of a level are alike, and the shares that they predict.

Nodes of one level are alike if they have the same label; those of them under one root are called cousins. The shares
of a family (`pooled`) are predicted from such nodes, from all families, and from the family's own past.

The prediction is a chain of four guesses, each a correction of the one before: equal shares; times the ratio of actual
to expected counts of nodes with this label; times the same ratio among cousins; mixed with the family's own shares in
the earlier period. A node's own figures are never part of the pool that predicts it, since they would count twice.
Pools are sums of unbiased estimates, which may be negative: non-negative ones would give empty nodes too large shares,
and make all shares too equal. The weight of each correction, a number of conversions, is the one that predicts today's
figures best. It may be none at all (∞), so an earlier period without information is not used.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attributary.tree import Family, Tree
from attributary.types import Floats

Codes = NDArray[np.int64]

DENSE = 4  # numbers for each node, up to which groups without members cost less than sorting them out


class Kin(NamedTuple):
    """The families under the parents of a level, and the groups that their members belong to."""

    family: Family
    label: Codes  # of each child: nodes with the same label
    cousins: Codes  # and under the same root


def label_codes(tree: Tree) -> NDArray[np.int32]:
    """A number for the label of each node, in level order, equal for equal labels of a level; 0 without labels."""
    codes = np.zeros(len(tree), np.int32)
    for j, labels in enumerate(tree.labels):
        if j + tree.total < tree.depth:
            codes[tree.slice(j + tree.total)] = labels.indices.to_numpy()
    return codes


def roots(tree: Tree) -> Codes:
    """The root that each node stands under, in level order; under a total, a node below it."""
    level = int(tree.total)
    return tree.in_level_order.ancestor(level).astype(np.int64) + int(tree.offsets[level])


def kin(tree: Tree, label: NDArray[np.int32]) -> list[Kin]:
    """The kin of each level below the roots; `label` in level order."""
    root, levels = roots(tree), []
    for i in range(1, tree.depth):
        nodes = tree.slice(i)
        codes = label[nodes].astype(np.int64)
        pairs = root[nodes] * (int(codes.max()) + 1) + codes
        few = int(pairs.max()) < DENSE * len(pairs)
        levels.append(Kin(Family(tree, i - 1), codes, pairs if few else np.unique(pairs, return_inverse=True)[1]))
    return levels


TRUST = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1e3, 1e4)  # conversions' worth of the guess before; beyond the last: ∞
UNTESTED = 100.0  # where no figure of today can tell


class PooledLevel(NamedTuple):
    """What is known of the children of a level, in level order."""

    kin: Kin
    z: Floats  # z⇑: from the node and all below it
    parent: Floats  # the parent's estimate, handed to each child
    pools: list[Floats]  # linear estimates: of today, and of both periods
    counted: Floats  # how much of each counts where no root may outweigh the others
    past: Floats | None  # of the earlier period, ≥ 0
    weight: Floats  # of each node in the judgement; 0 where it cannot judge
    many: bool = False  # nodes in the tree, so that sums are compiled


def pooled(level: PooledLevel) -> Floats:
    """The shares that predict the level's figures best."""
    family = level.kin.family
    even: Floats = 1.0 / family.spread(family.count.astype(np.float64))
    guesses = [_chain(level, even, pool, None) for pool in level.pools]
    best = min(range(len(guesses)), key=lambda i: guesses[i].loss)
    alike = _chain(level, even, level.pools[best], level.counted)
    return min(guesses[best], alike, key=lambda guess: guess.loss).share


class _Guess(NamedTuple):
    share: Floats
    loss: float


class _Step(NamedTuple):
    """A correction of the guess before: (have + trust · before) / (of + trust), made to sum to 1 in each family."""

    have: Floats
    before: Floats
    of: Floats

    def shares(self, family: Family, trust: float) -> Floats:
        return _summing_to_1(family, (self.have + trust * self.before) / (self.of + trust))


def _chain(level: PooledLevel, even: Floats, pool: Floats, counted: Floats | None) -> _Guess:
    """The guesses from equal shares to those of the past; `counted` limits the weight of large roots in a pool."""
    family = level.kin.family
    total = family.spread(np.maximum(family.sum(pool), 0.0))
    guess = _Guess(even, _loss(level, even))
    for group in (level.kin.label, level.kin.cousins):
        part = 1.0 if counted is None or group is level.kin.cousins else counted
        have, expected = _others(group, part * pool, part * guess.share * total, level.many)
        guess = _best(level, guess, _Step(guess.share * have, guess.share, expected))
    if level.past is None:
        return guess
    return _best(level, guess, _Step(level.past, guess.share, family.spread(family.sum(level.past))))


def _others(group: Codes, pool: Floats, expected: Floats, many: bool) -> tuple[Floats, Floats]:
    """The sums of the other members of a group: actual and expected."""
    if many:
        from attributary.prior.compiled_sums import others

        have, of = others(group, pool, expected)
        return have, of
    have, of = (np.maximum(np.bincount(group, values)[group] - values, 0.0) for values in (pool, expected))
    return have, of


def _best(level: PooledLevel, before: _Guess, step: _Step) -> _Guess:
    """The correction with the weight that predicts best, or the guess before it."""
    family = level.kin.family
    if not level.weight.any():
        return _Guess(step.shares(family, UNTESTED), before.loss)
    losses = _losses(level, step)
    best = int(np.argmin(losses))
    return _Guess(step.shares(family, TRUST[best]), float(losses[best])) if losses[best] < before.loss else before


def _losses(level: PooledLevel, step: _Step) -> Floats:
    """The loss of a correction for each weight."""
    if not level.many:
        return np.array([_loss(level, step.shares(level.kin.family, trust)) for trust in TRUST])
    from attributary.prior.compiled_sums import losses

    first = np.append(level.kin.family.start, len(level.z))
    found: Floats = losses(first, level.z, level.parent, level.weight, *step, np.array(TRUST))
    return found


def _loss(level: PooledLevel, share: Floats) -> float:
    return float(np.dot(level.weight, (level.z - share * level.parent) ** 2))


def _summing_to_1(family: Family, share: Floats) -> Floats:
    sums = family.sum(share)
    out: Floats = share / family.spread(np.where(sums > 0, sums, 1.0))
    return np.where(family.spread(sums) > 0, out, 1.0 / family.spread(family.count.astype(np.float64)))
