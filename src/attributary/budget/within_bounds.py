"""within_bounds: the split of least error under which other errors, such as those of single levels, stay below bounds.

An error after denoising is the least of all linear estimates', each linear in the noise variances: it is concave in
them. So with Q_cu = ∂E_c/∂var_u, for budgets x and any others x',

    E_c(x') ≤ E_c(x) + Σ_u Q_cu · (var(x'_u) − var(x_u))

where the right side is convex in x'. Each round takes the x' that minimises it for the goal while it is within the
bounds for the errors that have one. For multipliers λ, the minimum for Q_0 + Σ λ_c · Q_c has the closed form of
`improve`; λ_c is raised while an error is above its bound, and lowered while it is below.
"""

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from attributary.budget.level_budgets import LevelBudgets
from attributary.types import Bools, Floats, Ints

CLOSE = 1e-4  # of a squared error: so little above its bound is within
IDLE = 1e-5  # of the error: rounds that gain less are not worth taking
SIEVE = 4  # rounds that all starts take
FINALISTS = 3
ROUNDS = 40
STILL = 2e-5  # of a multiplier: a move by less is none
INNER = 25  # moves of the multipliers in a round
LEAST, MOST = 1e-5, 1e12  # multipliers: one of 0 could not grow
SMALL = 1e-3  # of a row's largest share: worth no key
LONGEST = 8.0  # step
NEAR = 0.5  # of its bound: errors below it are left alone in a round


@dataclass(frozen=True, eq=False)
class ShareLayout:
    """What shares may be: (splits, measures, levels, rows), which sum to 1 over a row, a common total in all rows."""

    open: Bools  # (levels, rows): where shares may be chosen
    fixed: Floats  # of each level, of a measure's part
    total: bool  # level 0 is common to all rows
    exponent: int  # of the budget in the precision
    unknown: int  # levels from here on have at most ...
    limit: float  # ... this part of a measure's
    least: Floats  # of each level, of a measure's part
    held: tuple[Bools, Floats] | None = None  # rows that keep these proportions, (measures, levels)

    def spend(self, q: Floats, old: Floats) -> Floats:
        """argmin of Σ q_u / x_u^p; 0 where q is 0, and as before in a row without any."""
        root = np.cbrt if self.exponent == 2 else np.sqrt
        z = root(q) * self.open
        if self.held is not None:
            z[..., self.held[0]] = self.held[1][..., None]
        inside = self._within(z, old / np.maximum(old.sum(axis=2, keepdims=True), 1e-300))
        if q.shape[1] == 1:
            return inside
        with np.errstate(divide="ignore", invalid="ignore"):
            cost = np.where(q > 0, q / inside**self.exponent, 0.0).sum(axis=2, keepdims=True)
        cost = cost.sum(axis=3, keepdims=True) if self.total else cost
        part = root(cost)
        whole = part.sum(axis=1, keepdims=True)
        part = np.divide(part, whole, out=np.full_like(part, 1 / q.shape[1]), where=whole > 0)
        shares: Floats = part * inside
        return shares

    def _within(self, z: Floats, old: Floats) -> Floats:
        """Shares of each measure's part, in proportion to z where they are free."""
        free, room = 1.0 - self.fixed.sum(), self.limit - self.fixed[self.unknown :].sum()
        left = np.full_like(z[:, :, :1], free)
        top, low = int(self.total), slice(self.unknown, None)
        lower, every = z[:, :, low].sum(axis=2, keepdims=True), z[:, :, top:].sum(axis=2, keepdims=True)
        if self.total:
            left = left - self._common(z[:, :, :1, :1], every, lower, free, room)
        share = np.divide(z * left, every, out=np.zeros_like(z), where=every > 0)
        over = share[:, :, low].sum(axis=2, keepdims=True) > room
        if over.any():
            upper = every - lower
            share = np.where(over, np.divide(z * (left - room), upper, out=np.zeros_like(z), where=upper > 0), share)
            limited = np.divide(z[:, :, low] * room, lower, out=np.zeros_like(z[:, :, low]), where=lower > 0)
            share[:, :, low] = np.where(over, limited, share[:, :, low])
        share = np.where(every > 0, share + self.fixed[:, None], old)
        if self.total:
            share[:, :, :1] = free - left + self.fixed[0]
        return self.raised(share) if self.least.any() else share

    def raised(self, share: Floats) -> Floats:
        """Shares of a measure's part with what each level has at least; a total and unknown levels give way last."""
        least, top = np.maximum(self.least[:, None] * self.open, self.fixed[:, None]), int(self.total)
        ends = [0, *[1] * top, *[self.unknown] * (top < self.unknown and self.limit < 1), len(least)]
        kinds = [slice(*ends) for ends in pairwise(ends)]
        need = [least[kind].sum(axis=0) for kind in kinds]
        have = [np.maximum(share[:, :, kind].sum(axis=2), floor) for kind, floor in zip(kinds, need, strict=True)]
        above = [h - n for h, n in zip(have[top:], need[top:], strict=True)]
        over, spare = np.sum(have, axis=0) - share.sum(axis=2), np.sum(above, axis=0)
        keep = 1.0 - np.divide(over, spare, out=np.zeros_like(over), where=spare > 0)
        have = [*have[:top], *(n + a * keep for n, a in zip(need[top:], above, strict=True))]
        parts = []
        for kind, floor, whole in zip(kinds, need, have, strict=True):
            more = np.maximum(share[:, :, kind] - least[kind], 0.0)
            every = more.sum(axis=2)
            times = np.divide(whole - floor, every, out=np.zeros_like(whole), where=every > 0)
            parts.append(least[kind] + more * times[:, :, None])
        return np.concatenate(parts, axis=2)

    def _common(self, top: Floats, every: Floats, lower: Floats, free: float, room: float) -> Floats:
        """The share of a total that all rows have in common."""
        power = self.exponent + 1
        if self.held is not None:
            every, lower = (np.where(self.held[0], 0.0, each) for each in (every, lower))
        below = (every**power).sum(axis=3, keepdims=True) ** (1 / power)
        common: Floats = np.divide(free * top, top + below, out=np.zeros_like(top), where=top > 0)
        if not ((free - common) * lower > room * every).any():
            return common
        low, high, upper = np.zeros_like(common), np.full_like(common, free), every - lower
        with np.errstate(divide="ignore", invalid="ignore"):
            for _ in range(25):  # rows at their limit gain by what is left for their upper levels alone
                common = 0.5 * (low + high)
                left = free - common
                above = np.where(upper > 0, upper / np.maximum(left - room, 0.0), 0.0)
                need = np.where(left * lower > room * every, above, every / left) ** power
                more = (top / common) ** power > need.sum(axis=3, keepdims=True)
                low, high = np.where(more, common, low), np.where(more, high, common)
        return np.where(top > 0, common, 0.0)


class BoundedMeasure(NamedTuple):
    """One measure: its tree, the weights that errors are judged by, and the budget of a share of 1 in each row."""

    rows: LevelBudgets
    scale: Floats  # (rows,)
    goal: Floats  # weights of the classes in the error to make small
    weights: Floats  # (bounds, classes): in each error that has a bound
    most: Floats  # the bounds, of squared errors
    soft: Bools  # bounds that give way together where not all can be kept


class Found(NamedTuple):
    share: Floats  # (measures, levels, rows)
    error: float  # the goal
    ratio: Floats  # of each squared error to its bound, measure by measure


@dataclass(frozen=True, eq=False)
class Bounded:
    """The measures that share a budget."""

    layout: ShareLayout
    measures: tuple[BoundedMeasure, ...]

    def least(self, starts: Floats, goal: bool = True, sieve: int = SIEVE, rounds: int = ROUNDS) -> Found:
        """The shares of least error within the bounds, as far as that can be.

        Without the goal, the largest ratio of an error to a soft bound is made as small as it can be within the others.
        """
        state = self._start(starts)
        if len(starts) > FINALISTS:
            state = self._improve(state, goal, sieve)
            order = np.argsort(self._merit(state, goal), kind="stable")[:FINALISTS]
            state = _State(*(each[order] for each in state))
        state = self._improve(state, goal, rounds)
        state = self._pruned(state, goal)
        best = int(np.argmin(self._merit(state, goal)))
        return Found(state.share[best], float(state.error[best]), state.ratio[best])

    def judge(self, share: Floats) -> tuple[Floats, Floats]:
        """The goal (splits,), and the ratio of each bounded error to its bound (splits, bounds)."""
        error, ratio = np.zeros(len(share)), []
        for k, one in enumerate(self.measures):
            budget = one.rows.pack(share[:, k] * one.scale)
            found = one.rows.errors_by(budget, np.concatenate([one.goal[None], one.weights]))
            error += found[:, 0]
            ratio.append(found[:, 1:] / one.most)
        return error, np.concatenate(ratio, axis=1)

    def _pruned(self, state: "_State", goal: bool) -> "_State":
        """The same, and before it without shares so small that leaving them out hardly changes anything."""
        some = np.where(state.share < SMALL * state.share.max(axis=2, keepdims=True), 0.0, state.share)
        whole = state.share.sum(axis=(1, 2), keepdims=True) / some.sum(axis=(1, 2), keepdims=True)
        if self.layout.total or self.layout.fixed.any() or self.layout.least.any() or (whole == 1).all():
            return state
        pruned = self._start(some * whole)
        fine = self._merit(pruned, goal) <= (1 + IDLE) * self._merit(state, goal)
        return _State(*(np.concatenate([new[fine], old]) for new, old in zip(pruned, state, strict=True)))

    def _start(self, share: Floats) -> "_State":
        error, ratio = self.judge(share)
        return _State(share, error, ratio, np.clip(ratio, LEAST, 1.0), np.ones(len(share)))

    @cached_property
    def soft(self) -> Bools:
        """Of all bounds; all of them where there is none."""
        soft: Bools = np.concatenate([one.soft for one in self.measures])
        return soft if soft.any() else ~soft

    def _merit(self, state: "_State", goal: bool) -> Floats:
        """What is to be small: first what is above bounds, then the goal."""
        hard = state.ratio if goal else state.ratio[:, ~self.soft]
        worst = hard.max(axis=1, initial=0.0)
        return np.where(worst > 1 + CLOSE, 1e30 * worst, state.error if goal else state.ratio[:, self.soft].max(axis=1))

    def _improve(self, state: "_State", goal: bool, rounds: int) -> "_State":
        idle = 0
        for _ in range(rounds):
            moved = self._round(state, goal)
            before, after = self._merit(state, goal), self._merit(moved, goal)
            better, shorter = after < before, np.where(state.length > 1, 1.0, 0.5 * state.length)
            idle = idle + 1 if not after.min() < (1 - IDLE) * before.min() else 0
            kept = [
                np.where(better.reshape(-1, *[1] * (new.ndim - 1)), new, old)
                for new, old in zip(moved, state, strict=True)
            ]
            state = _State(*kept)._replace(
                multiplier=moved.multiplier,
                length=np.where(better, np.minimum(1.5 * state.length, LONGEST), shorter),
            )
            if idle == 4:
                break
        return state

    def _round(self, state: "_State", goal: bool) -> "_State":
        """The next shares, and the multipliers that gave them."""
        share, p = state.share, self.layout.exponent
        soft = np.zeros_like(self.soft) if goal else self.soft
        worst = np.where(soft, state.ratio.max(axis=1, keepdims=True, where=soft, initial=0.0), 1.0)
        near = np.flatnonzero((state.ratio > NEAR * worst).any(axis=0))
        by_goal, by_bound = self._gains(share, near, goal)
        power, flat = share ** (p + 1) / p, (len(share), -1)
        q0 = (power * by_goal).reshape(flat) / np.maximum(state.error, 1e-300)[:, None]
        q = (power[:, None] * by_bound).reshape(*by_bound.shape[:2], share[0].size)
        now = _inverse(share, share > 0, p).reshape(flat)
        multiplier, ratio, to = state.multiplier[:, near], state.ratio[:, near], share
        for _ in range(INNER):
            combined = goal * q0 + (multiplier[:, None] @ q)[:, 0]
            to = self.layout.spend(combined.reshape(share.shape), share)
            foreseen = ratio + (q @ (_inverse(to, share > 0, p).reshape(flat) - now)[:, :, None])[:, :, 0]
            worst = foreseen.max(axis=1, keepdims=True, where=soft[near], initial=1e-12)
            bound = np.where(soft[near], worst, 1.0)
            grow = np.clip(np.maximum(foreseen, 1e-12) / bound, 0.05, 20.0) ** ((p + 1) / p)
            before = multiplier
            multiplier = np.clip(multiplier * grow, LEAST, MOST)
            if not goal:
                largest = multiplier.max(axis=1, keepdims=True, where=soft[near], initial=LEAST)
                multiplier = np.clip(multiplier / largest, LEAST, MOST)
            if (np.abs(multiplier - before) <= STILL * before).all():
                break
        with np.errstate(divide="ignore", invalid="ignore"):  # a longer step leaves something of every share
            room = np.where(to < share, 0.9 * share / (share - to), np.inf).min(axis=(1, 2, 3))
        furthest = np.maximum(np.where(self.layout.limit < 1 or self.layout.least.any(), 1.0, room), 1.0)
        share = share + np.minimum(state.length, furthest)[:, None, None, None] * (to - share)
        error, found = self.judge(share)
        every = np.full_like(state.multiplier, LEAST)
        every[:, near] = multiplier
        return _State(share, error, found, every, state.length)

    def _gains(self, share: Floats, near: Ints, goal: bool) -> tuple[Floats, Floats]:
        """What a little more of each share takes off the goal, and off the ratio of each error near its bound."""
        by_goal, by_bound = np.zeros_like(share), np.zeros((len(share), len(near), *share.shape[1:]))
        once = np.ones(share.shape[2:])
        once[0, 1:] = not self.layout.total
        first = 0
        for k, one in enumerate(self.measures):
            budget = one.rows.pack(share[:, k] * one.scale)
            if goal:
                by_goal[:, k] = one.rows.table(one.rows.gains_by(budget, one.goal)) * one.scale * once
            for at, c in enumerate(near - first):
                if 0 <= c < len(one.most):
                    gain = one.rows.table(one.rows.gains_by(budget, one.weights[c]))
                    by_bound[:, at, k] = gain * one.scale * once / one.most[c]
            first += len(one.most)
        return by_goal, by_bound


def _inverse(share: Floats, where: Bools, power: int) -> Floats:
    """share^-power where there was one; very much where there is none any more."""
    with np.errstate(divide="ignore", over="ignore"):
        return np.where(where, np.minimum(share ** -float(power), 1e100), 0.0)


class _State(NamedTuple):
    """Several splits on their way; arrays are by split."""

    share: Floats
    error: Floats
    ratio: Floats
    multiplier: Floats
    length: Floats  # of the next step
