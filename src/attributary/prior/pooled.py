"""pooled: the shares of a family, from its cousins, from all families, and from its own past.

A chain of four guesses, each a correction of the one before: equal shares; times the ratio of what nodes of this label
have to what was expected of them; times the same ratio among cousins under one root; mixed with the family's own shares
in the earlier period. A node's own figures are never in the pool that predicts it, or they would count double. How
far each correction is trusted, a number of conversions, is what predicts today's figures best, and none at all (∞) is
one of the choices: shares of a past that says nothing are left out.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attributary.denoising.linear import Family
from attributary.prior.kin import Codes, Kin

Floats = NDArray[np.float64]

TRUST = (1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1e3, 1e4)  # conversions' worth of the guess before; beyond the last: ∞
UNTESTED = 100.0  # where no figure of today can tell


class Level(NamedTuple):
    """What is known of the children of a level, in level order; all but z and v may be biased."""

    kin: Kin
    z: Floats  # z⇑: from the node and all below it
    v: Floats  # var⇑
    parent: Floats  # the parent's estimate, handed to each child
    today: Floats  # estimates ≥ 0
    past: Floats | None  # of the earlier period, ≥ 0
    weight: Floats  # of each node in the judgement; 0 where it cannot judge


def pooled(level: Level) -> Floats:
    """The shares that predict the level's figures best."""
    family = level.kin.family
    even: Floats = 1.0 / family.spread(family.count.astype(np.float64))
    pools = [level.today] if level.past is None else [level.today, level.today + level.past]
    found = [_chain(level, even, pool) for pool in pools]
    return min(found, key=lambda guess: guess.loss).share


class _Guess(NamedTuple):
    share: Floats
    loss: float


def _chain(level: Level, even: Floats, pool: Floats) -> _Guess:
    family = level.kin.family
    total = family.spread(family.sum(pool))
    guess = _Guess(even, _loss(level, even))
    for group in (level.kin.label, level.kin.cousins):
        before, ratio = guess.share, _Ratio(group, pool, guess.share * total)
        guess = _best(level, guess, lambda trust, s=before, r=ratio: s * r.shrunk(trust))  # type: ignore[misc]
    if level.past is None:
        return guess
    past, then = level.past, family.spread(family.sum(level.past))
    before = guess.share
    return _best(level, guess, lambda trust: (past + trust * before) / (then + trust))


class _Ratio:
    """What the others of a group have, over what was expected of them."""

    def __init__(self, group: Codes, pool: Floats, expected: Floats) -> None:
        self.have = np.maximum(np.bincount(group, pool)[group] - pool, 0.0)
        self.expected = np.maximum(np.bincount(group, expected)[group] - expected, 0.0)

    def shrunk(self, trust: float) -> Floats:
        ratio: Floats = (self.have + trust) / (self.expected + trust)
        return ratio


def _best(level: Level, before: _Guess, make: Callable[[float], Floats]) -> _Guess:
    """The correction with the trust that predicts best, or the guess before it."""
    if not level.weight.any():
        return _Guess(_summing_to_1(level.kin.family, make(UNTESTED)), before.loss)
    best = before
    for trust in TRUST:
        share = _summing_to_1(level.kin.family, make(trust))
        loss = _loss(level, share)
        if loss < best.loss:
            best = _Guess(share, loss)
    return best


def _loss(level: Level, share: Floats) -> float:
    return float(np.dot(level.weight, (level.z - share * level.parent) ** 2))


def _summing_to_1(family: Family, share: Floats) -> Floats:
    sums = family.sum(share)
    out: Floats = share / family.spread(np.where(sums > 0, sums, 1.0))
    return np.where(family.spread(sums) > 0, out, 1.0 / family.spread(family.count.astype(np.float64)))
