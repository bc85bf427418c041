"""within_bounds: the split of least error under which other errors, such as those of single levels, stay below bounds.

An error after denoising is the least of all linear estimates', each linear in the noise variances: it is concave in
them. So with Q_cu = ∂E_c/∂var_u, for budgets x and any others x',

    E_c(x') ≤ E_c(x) + Σ_u Q_cu · (var(x'_u) − var(x_u))

where the right side is convex in x'. Each round takes the x' that minimises it for the goal while it is within the
bounds for the errors that have one. For multipliers λ, the minimum for Q_0 + Σ λ_c · Q_c has the closed form of
`improve`; λ_c is raised while an error is above its bound, and lowered while it is below.

No set of levels leads to another by small steps, so the search starts from several. Where rows or measures have splits
of their own, λ tells what their errors count for, and `optimal` finds the split that is best for each of them.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from attributary.budget.split import LevelBudgets
from attributary.types import Bools, Floats, Ints

CLOSE = 1e-4  # an error is within its bound if its square is at most this part above it
IDLE = 1e-5  # rounds that gain less than this part of the error are not worth taking
SIEVE = 4  # rounds that all starts take
FINALISTS = 3  # of which the best go on
ROUNDS = 40
INNER = 12  # times that multipliers are adjusted in a round
LEAST, MOST = 1e-5, 1e12  # multipliers: one of 0 could not grow
SMALL = 1e-3  # of a row's largest share: too small to be worth a key
LONGEST = 8.0  # step
AGAIN = 12  # times that a common total is adjusted to rows at their limits
EXCHANGES = 6  # times that rows and measures get the splits that are best for them, for as long as it gains ...
ENOUGH = 5e-4  # ... this part of the error
MOST_GROUPS = 32  # of rows that change together, in all at most ...
MOST_CHANGES = 256  # ... times
MIXES = 32  # splits at random, with other sets in each row, where there are few rows


@dataclass(frozen=True, eq=False)
class ShareLayout:
    """What shares may be: (splits, measures, levels, rows), which sum to 1 over a row, a common total in all rows."""

    open: Bools  # (levels, rows): where shares may be chosen
    fixed: Floats  # the share of each level in a measure's part; 0 where it is free
    total: bool  # level 0 is common to all rows
    exponent: int  # of the budget in the precision
    unknown: int  # levels from here on have at most ...
    limit: float  # ... this share of a measure's part
    least: Floats  # the least share of each level in a measure's part
    held: tuple[Bools, Floats] | None = None  # rows that keep these proportions, (measures, levels)

    def spend(self, q: Floats, old: Floats) -> Floats:
        """argmin of Σ q_u / x_u^p: the best shares if errors are linear in noise; as before in a row without any."""
        inside = self._inside(self._root(np.maximum(q, 0.0)), old)  # gains are never negative, but for rounding
        if q.shape[1] == 1:
            return inside
        with np.errstate(divide="ignore", invalid="ignore"):
            cost = np.where(q > 0, q / inside**self.exponent, 0.0).sum(axis=2, keepdims=True)
        part = self._root(cost.sum(axis=3, keepdims=True) if self.total else cost) + np.zeros_like(q[:, :, :1])
        whole = part.sum(axis=1, keepdims=True)
        shares: Floats = inside * np.divide(part, whole, out=np.full_like(part, 1 / q.shape[1]), where=whole > 0)
        return shares

    def like(self, share: Floats, old: Floats) -> Floats:
        """Shares in the proportions of these, as far as may be; as before in a row without any."""
        part = share.sum(axis=2, keepdims=True)
        z = share / np.where(part > 0, part, 1.0)
        rows = share.shape[3] if self.held is None else np.count_nonzero(~self.held[0])
        z[:, :, : int(self.total)] *= rows ** (1 / (self.exponent + 1))
        shares: Floats = part / part.sum(axis=1, keepdims=True) * self._inside(z, old)
        return shares

    def _root(self, q: Floats) -> Floats:
        root: Floats = np.cbrt(q) if self.exponent == 2 else np.sqrt(q)
        return root

    def _inside(self, z: Floats, old: Floats) -> Floats:
        """Shares of each measure's part, in proportion to z where they are free; as in `old` in a row without any."""
        z, free, top = z * self.open, np.ones(z.shape[3], bool), int(self.total)
        if self.held is not None:
            z[..., self.held[0]], free = self.held[1][..., None], ~self.held[0]
        some = z[:, :, top:].any(axis=2, keepdims=True)
        z[:, :, top:] = np.where(some, z[:, :, top:], old[:, :, top:] * self.open[top:])
        least = self._floors
        if not self.total:
            return self._below(z, least, np.ones_like(some, np.float64))[0]
        first, power = z[:, :, :1, :1], self.exponent + 1
        low = np.full_like(first, least[0].max())
        high = np.full_like(first, 1.0 - least[1:].sum(axis=0).max())
        common = low
        limited = self.limit < 1 or bool(least.any())
        for _ in range(AGAIN if limited else 1):  # the first is exact where nothing limits rows
            need = self._below(z[:, :, 1:], least[1:], np.broadcast_to(1.0 - common, some.shape))[1]
            need = (((1.0 - common) * need * free * some) ** power).sum(axis=3, keepdims=True) ** (1 / power)
            best = np.divide(first, first + need, out=np.zeros_like(first), where=first > 0)
            low, high = np.where(best > common, common, low), np.where(best > common, high, common)
            before, common = common, np.where((best > low) & (best < high) | (not limited), best, 0.5 * (low + high))
            if np.abs(common - before).max() < IDLE:
                break
        whole = np.broadcast_to(common, z[:, :, :1].shape)
        return np.concatenate([whole, self._below(z[:, :, 1:], least[1:], 1.0 - whole)[0]], axis=2)

    def raised(self, share: Floats) -> Floats:
        """Shares of a measure's part with what each level has at least, taken from the others in proportion."""
        top, z = int(self.total), share * self.open
        common = np.maximum(share[:, :, :top], self._floors[:top])
        below = self._below(z[:, :, top:], self._floors[top:], 1.0 - common.sum(axis=2, keepdims=True))[0]
        return np.concatenate([common, below], axis=2)

    def _below(self, z: Floats, least: Floats, whole: Floats) -> tuple[Floats, Floats]:
        """Shares that sum to `whole` within the limit, and what a row needs for a share of 1: z / share."""
        at = z.shape[2] - (len(self.open) - self.unknown)
        share, need = _fill(z, least, whole)
        over = share[:, :, at:].sum(axis=2, keepdims=True) > self.limit * (1 + 1e-12)
        if over.any():
            upper, need_upper = _fill(z[:, :, :at], least[:at], whole - self.limit)
            lower = _fill(z[:, :, at:], least[at:], np.full_like(whole, self.limit))[0]
            share = np.where(over, np.concatenate([upper, lower], axis=2), share)
            need = np.where(over, need_upper, need)
        return share, need

    @cached_property
    def _floors(self) -> Floats:
        """The least share of each level in a measure's part, (levels, rows)."""
        floors: Floats = np.maximum(self.least[:, None] * self.open, self.fixed[:, None])
        return floors


def _fill(z: Floats, least: Floats, whole: Floats) -> tuple[Floats, Floats]:
    """Shares that sum to `whole`, as z : 1, but none below the least, which those with z = 0 have; and z / share."""
    free = z > 0
    while True:
        every = (z * free).sum(axis=2, keepdims=True)
        left = whole - np.where(free, 0.0, least).sum(axis=2, keepdims=True)
        share = np.where(free, z * np.divide(left, every, out=np.zeros_like(left), where=every > 0), least)
        short = free & (share < least)
        if not short.any():
            return share, np.divide(every, left, out=np.zeros_like(left), where=(every > 0) & (left > 0))
        free &= ~short


class BoundedMeasure(NamedTuple):
    """One measure: its tree, the weights that errors are judged by, and the budget of a share of 1 in each row."""

    rows: LevelBudgets
    scale: Floats  # (rows,)
    weights: Floats  # (errors, classes): of the classes in the error to make small, and in each that has a bound
    error: Ints  # which of them each bound is for
    most: Floats  # the bounds, of squared errors
    soft: Bools  # bounds that give way together where not all can be kept


class Found(NamedTuple):
    share: Floats  # (measures, levels, rows)
    error: float  # the goal
    ratio: Floats  # of each squared error to its bound, measure by measure


class Candidates(NamedTuple):
    """Several splits on their way; all arrays are by split."""

    share: Floats
    error: Floats  # the goal
    ratio: Floats  # (splits, bounds): of each error to its bound
    gain: Floats  # (splits, 1 + bounds, ...): what a little more of each share takes off the goal, and off each ratio
    multiplier: Floats  # (splits, bounds)
    step: Floats  # the length of the next one

    def where(self, some: Bools, other: "Candidates") -> "Candidates":
        """These splits, and the others' in place of some."""
        pairs = zip(other, self, strict=True)
        return Candidates(*(np.where(some.reshape(-1, *[1] * (new.ndim - 1)), new, old) for new, old in pairs))

    def best(self, merit: Floats, number: int) -> "Candidates":
        some = np.argsort(merit, kind="stable")[:number]
        return Candidates(*(each[some] for each in self))


@dataclass(frozen=True, eq=False)
class Bounded:
    """The measures that share a budget."""

    layout: ShareLayout
    measures: tuple[BoundedMeasure, ...]

    def least(self, starts: Floats, goal: bool = True, sets: Floats | None = None) -> Found:
        """The shares of least error within the bounds, as far as that can be.

        Without the goal, the largest ratio of an error to a soft bound is made as small as it can be within the others.
        With `sets`, splits that a row or a measure may be better off with, they are given them in turn.
        """
        if sets is not None and sets[:, :, 0].size <= MOST_CHANGES:
            chosen = np.random.default_rng(0).integers(len(sets), size=(MIXES, sets.shape[1], 1, sets.shape[3]))
            mixed = np.take_along_axis(sets, chosen, axis=0)
            starts = np.concatenate([starts, self.layout.like(mixed, mixed)])
        tried = self._sieved(starts, goal)
        for _ in range(EXCHANGES):
            if sets is None:
                break
            one, before = tried.best(self._merit(tried, goal), 1), self._merit(tried, goal).min()
            tried = self._sieved(np.concatenate([tried.share, self._exchanged(one, sets, goal)]), goal)
            if not self._merit(tried, goal).min() < (1 - ENOUGH) * before:
                break
        tried = self._improved(tried, goal, ROUNDS)
        small = tried.share < SMALL * tried.share.max(axis=2, keepdims=True)
        pruned = self.judge(self.layout.like(np.where(small, 0.0, tried.share), tried.share))
        fine = self._merit(pruned, goal) <= (1 + IDLE) * self._merit(tried, goal)
        tried = tried.where(fine & goal, pruned)
        first = int(np.argmin(self._merit(tried, goal)))
        return Found(tried.share[first], float(tried.error[first]), tried.ratio[first])

    def judge(self, share: Floats, gains: bool = True) -> Candidates:
        """What comes of shares, (splits, measures, levels, rows)."""
        error, ratio = np.zeros(len(share)), np.empty((len(share), len(self.soft)))
        gain = np.zeros((len(share), 1 + len(self.soft), *share.shape[1:]) if gains else (len(share), 0))
        once = np.ones(share.shape[2:])
        once[0, 1:] = not self.layout.total
        first = 0
        for k, one in enumerate(self.measures):
            budget, mine = one.rows.pack(share[:, k] * one.scale), slice(first, first + len(one.most))
            if gains:
                errors, by_place = one.rows.gains_by(budget, one.weights)
                table = one.rows.table(by_place.reshape(-1, by_place.shape[2])).reshape(*errors.shape, *once.shape)
                table *= one.scale * once
                gain[:, 0, k] = table[:, 0]
                gain[:, 1:][:, mine, k] = table[:, one.error] / one.most[:, None, None]
            else:
                errors = one.rows.errors_by(budget, one.weights)
            error += errors[:, 0]
            ratio[:, mine] = errors[:, one.error] / one.most
            first = mine.stop
        return Candidates(share, error, ratio, gain, np.clip(ratio, LEAST, 1.0), np.ones(len(share)))

    @cached_property
    def soft(self) -> Bools:
        """Mask of the soft bounds; if none is soft, all are."""
        soft: Bools = np.concatenate([one.soft for one in self.measures])
        return soft if soft.any() else ~soft

    def _merit(self, tried: Candidates, goal: bool) -> Floats:
        """What is to be small: first what is above bounds, then the goal."""
        hard = tried.ratio if goal else tried.ratio[:, ~self.soft]
        worst = hard.max(axis=1, initial=0.0)
        return np.where(worst > 1 + CLOSE, 1e30 * worst, tried.error if goal else tried.ratio[:, self.soft].max(axis=1))

    def _sieved(self, starts: Floats, goal: bool) -> Candidates:
        """The best of many, after a few rounds."""
        tried = self.judge(starts)
        if len(starts) <= FINALISTS:
            return tried
        tried = self._improved(tried, goal, SIEVE)
        return tried.best(self._merit(tried, goal), FINALISTS)

    def _improved(self, tried: Candidates, goal: bool, rounds: int) -> Candidates:
        idle = 0
        for _ in range(rounds):
            to, multiplier = self._foreseen(tried, goal)
            moved = self.judge(self._moved(tried, to))
            before, after = self._merit(tried, goal), self._merit(moved, goal)
            better = after < before
            idle = idle + 1 if not after.min() < (1 - IDLE) * before.min() else 0
            step = np.where(better, np.minimum(1.5 * tried.step, LONGEST), np.minimum(1.0, 0.5 * tried.step))
            tried = tried.where(better, moved)._replace(multiplier=multiplier, step=step)
            if idle == 4:
                break
        return tried

    def _foreseen(self, tried: Candidates, goal: bool) -> tuple[Floats, Floats]:
        """The best shares, as far as can be foreseen from these, and the multipliers that gave them."""
        share, multiplier, p = tried.share, tried.multiplier, self.layout.exponent
        soft, there = self.soft & (not goal), share > 0
        q = (share ** (p + 1) / p)[:, None] * tried.gain
        q = q.reshape(*q.shape[:2], -1)
        of_goal = q[:, 0] * goal / np.maximum(tried.error, 1e-300)[:, None]
        now = _inverse(share, there, p)
        for _ in range(INNER):
            to = self.layout.spend((of_goal + (multiplier[:, None] @ q[:, 1:])[:, 0]).reshape(share.shape), share)
            change = (_inverse(to, there, p) - now).reshape(len(share), -1, 1)
            foreseen = np.maximum(tried.ratio + (q[:, 1:] @ change)[:, :, 0], 1e-12)
            bound = np.where(soft, foreseen.max(axis=1, keepdims=True, where=soft, initial=1e-12), 1.0)
            grown = np.clip(multiplier * np.clip(foreseen / bound, 0.05, 20.0) ** ((p + 1) / p), LEAST, MOST)
            if not goal:
                grown = np.clip(grown / grown.max(axis=1, keepdims=True, where=soft, initial=LEAST), LEAST, MOST)
            still = (np.abs(grown - multiplier) <= IDLE * grown.max(axis=1, keepdims=True, initial=0.0)).all()
            multiplier = grown
            if still:
                break
        return to, multiplier

    def _moved(self, tried: Candidates, to: Floats) -> Floats:
        """Shares so far on the way; a longer step leaves something of every share."""
        share, furthest = tried.share, np.ones(len(to))
        if not (self.layout.limit < 1 or self.layout.least.any()):
            with np.errstate(divide="ignore", invalid="ignore"):
                room = np.where(to < share, 0.9 * share / (share - to), np.inf)
            furthest = np.maximum(room.min(axis=(1, 2, 3)), 1.0)
        moved = share + np.minimum(tried.step, furthest)[:, None, None, None] * (to - share)
        spent: Floats = to.sum(axis=(1, 2)) / moved.sum(axis=(1, 2))  # 1, but rounding errors would grow
        return moved * spent[:, None, None]

    def _exchanged(self, one: Candidates, sets: Floats, goal: bool) -> Floats:
        """Splits in which rows of measures have what is best for them if errors count for as much as they do now.

        In the first all rows have; in the others only some.
        """
        priced = []
        price = np.split(one.multiplier[0], np.cumsum([len(each.most) for each in self.measures])[:-1])
        for each, mine in zip(self.measures, price, strict=True):
            weight = goal * each.weights[0] / one.error[0] + (mine / each.most) @ each.weights[each.error]
            priced.append(
                BoundedMeasure(each.rows, each.scale, weight[None], each.error[:0], each.most[:0], each.soft[:0])
            )
        alone = Bounded(self.layout, tuple(priced))
        share = alone._improved(alone.judge(np.concatenate([sets, one.share])), True, SIEVE).share
        errors = np.stack([_by_row(each, share[:, k]) for k, each in enumerate(priced)], axis=1)
        order = np.argsort(errors * share.sum(axis=2) ** self.layout.exponent, axis=0)  # whatever the part's size
        ranks = np.array([np.take_along_axis(share, order[i][None, :, None], axis=0)[0] for i in range(len(order))])
        place = np.arange(errors[0].size).reshape(errors.shape[1], 1, -1)
        groups = min(place.size, MOST_GROUPS)
        deep = max(1, min(len(ranks), MOST_CHANGES // groups))
        some = [np.where(place % groups == i, ranks[rank], one.share[0]) for rank in range(deep) for i in range(groups)]
        changed = np.array([ranks[0], *some])
        changed[:, :, : int(self.layout.total)] = one.share[:, :, : int(self.layout.total)]
        return self.layout.like(changed, changed)


def _by_row(measure: BoundedMeasure, share: Floats) -> Floats:
    """The error of each row alone, (splits, rows)."""
    rows = replace(measure.rows, objective=replace(measure.rows.objective, weight=measure.weights[0], joint=False))
    rows, top = (rows.heads, 1) if rows.total else (rows, 0)
    errors = rows.errors(rows.pack(share[:, top:] * measure.scale))
    return errors if share.shape[2] > 1 else errors.sum(axis=1, keepdims=True)


def _inverse(share: Floats, where: Bools, power: int) -> Floats:
    """share^-power where there was one; very much where there is none any more."""
    with np.errstate(divide="ignore", over="ignore"):
        return np.where(where, np.minimum(share ** -float(power), 1e100), 0.0)
