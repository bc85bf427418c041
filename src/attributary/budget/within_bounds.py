"""within_bounds: the split of least error under which other errors, such as those of single levels, stay below bounds.

An error after denoising is the least of all linear estimates', each linear in the noise variances: it is concave in
them. So with Q_cu = ∂E_c/∂var_u, for budgets x and any others x',

    E_c(x') ≤ E_c(x) + Σ_u Q_cu · (var(x'_u) − var(x_u))

where the right side is convex in x'. Each round takes the x' that minimises it for the goal while it is within the
bounds for the errors that have one. For multipliers λ, the minimum for Q_0 + Σ λ_c · Q_c has the closed form of
`improve`; λ_c is raised while an error is above its bound, and lowered while it is below.

No set of levels leads to another by small steps. With one split for all, the search starts from all sets. Where rows
or measures have splits of their own, λ tells what their errors count for, and so which set is best for each: nearly
right if there are many of them. If there are few, single ones are tried with other sets, too.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from attributary.budget.split import LevelBudgets
from attributary.types import Bools, Floats, Ints

CLOSE = 1e-4  # an error is within its bound if its square is at most this part above it
IDLE = 1e-5  # rounds that gain less than this part of the error are not worth taking
SIEVE = 4  # rounds that all starts take
FINALISTS = 3  # of which the best go on
PROMISING = 8  # splits at random that join the starts, the best of ...
LEAST_TRIES, MOST_TRIES = 32, 512  # ... so many, which have in all about ...
MOST_CLASSES = 2**19  # ... where the other starts are many, and a 64th where they are few, as while a slider moves
ROUNDS = 40
INNER = 12  # times that multipliers are adjusted in a round
LEAST, MOST = 1e-5, 1e12  # multipliers: one of 0 could not grow
SMALL = 1e-3  # of a row's largest share: too small to be worth a key
LONGEST = 8.0  # step
EXCHANGES = 6  # times that rows or measures change their sets of levels, for as long as it gains ...
ENOUGH = 5e-4  # ... so much
MOST_SINGLE = 256  # single rows of a measure with other sets: tried if there are no more of them ...
MIXES = 64  # ... beside as many even and uneven splits, at random ...
MORE_FINALISTS = 8  # ... of which more go on


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
    held: tuple[Bools, Floats] | None = None  # rows that keep these shares, (measures, levels, 1), but for a total

    def spend(self, q: Floats, old: Floats) -> Floats:
        """argmin of Σ q_u / x_u^p: the best shares if errors are linear in noise; as before in a row without any."""
        root = np.cbrt if self.exponent == 2 else np.sqrt
        inside = self._within(root(np.maximum(q, 0.0)), old)  # gains are never negative, but for rounding
        if q.shape[1] == 1:
            return inside
        with np.errstate(divide="ignore", invalid="ignore"):
            cost = np.where((q > 0) & (inside > 0), q / inside**self.exponent, 0.0).sum(axis=2, keepdims=True)
        part = root(cost.sum(axis=3, keepdims=True) if self.total else cost)
        whole = part.sum(axis=1, keepdims=True)
        part = np.divide(part, whole, out=np.full_like(part, 1 / q.shape[1]), where=whole > 0)
        return self._in_parts(part, inside)

    def like(self, share: Floats, old: Floats) -> Floats:
        """Shares in the proportions of these, as far as may be; as before in a row without any."""
        part = share.sum(axis=2, keepdims=True)
        z = np.divide(share, part, out=np.zeros_like(share), where=part > 0)
        z[:, :, : int(self.total)] *= share.shape[3] ** (1 / (self.exponent + 1))
        return self._in_parts(part / part.sum(axis=1, keepdims=True), self._within(z, old))

    def _in_parts(self, part: Floats, inside: Floats) -> Floats:
        """Shares of the whole, from those of each measure's part; of rows that are held, with parts of their own."""
        if self.held is not None:
            held, own = self.held[0], self.held[1].sum(axis=1, keepdims=True)
            if self.total and not held.all():  # one key, with the same share in all rows
                own = part[..., ~held].mean(axis=3, keepdims=True) if part.shape[3] > 1 else part
            part = np.where(held, own, part)
        return part * inside

    def _within(self, z: Floats, old: Floats) -> Floats:
        """Shares of each measure's part, in proportion to z where they are free; as in `old` in a row without any."""
        z, free, top = z * self.open, 1.0 - self.fixed.sum(), int(self.total)
        if self.held is not None:
            z[..., self.held[0]] = self.held[1] / self.held[1].sum(axis=1, keepdims=True)
        every = z[:, :, top:].sum(axis=2, keepdims=True)
        left = np.full_like(every, free)
        if self.total:
            free_row = 0 if self.held is None else int(np.argmin(self.held[0]))  # where the total is not held
            left = left - self._common(z[:, :, :1, free_row : free_row + 1], every, z, free)
        share = np.divide(z * left, every, out=np.zeros_like(z), where=every > 0)
        if self.limit < 1:
            low, room = slice(self.unknown, None), self._room
            over = share[:, :, low].sum(axis=2, keepdims=True) > room
            lower = z[:, :, low].sum(axis=2, keepdims=True)
            upper = every - lower
            share = np.where(over, np.divide(z * (left - room), upper, out=np.zeros_like(z), where=upper > 0), share)
            limited = np.divide(z[:, :, low] * room, lower, out=np.zeros_like(z[:, :, low]), where=lower > 0)
            share[:, :, low] = np.where(over, limited, share[:, :, low])
        share += self.fixed[:, None]
        if not every.all():
            share = np.where(every > 0, share, old / np.maximum(old.sum(axis=2, keepdims=True), 1e-300))
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

    @property
    def _room(self) -> float:
        """What the unknown levels may have besides what is fixed."""
        return self.limit - float(self.fixed[self.unknown :].sum())

    def _common(self, top: Floats, every: Floats, z: Floats, free: float) -> Floats:
        """The share of a total that all rows have in common."""
        power, room, lower = self.exponent + 1, self._room, z[:, :, self.unknown :].sum(axis=2, keepdims=True)
        if self.held is not None:
            every, lower = (np.where(self.held[0], 0.0, each) for each in (every, lower))
        below = (every**power).sum(axis=3, keepdims=True) ** (1 / power)
        common: Floats = np.divide(free * top, top + below, out=np.zeros_like(top), where=top > 0)
        if not (self.limit < 1 and ((free - common) * lower > room * every).any()):
            return common
        low, high, upper = np.zeros_like(common), np.full_like(common, free), every - lower
        with np.errstate(divide="ignore", invalid="ignore"):
            for _ in range(16):  # rows at their limit gain by what is left for their upper levels alone
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
        With `sets`, splits that a row, or a measure, may be better off with, they are given them in turn.
        """
        if sets is None:
            starts = np.concatenate([starts, self._promising(starts, goal)])
            tried = self._sieved(starts, goal, FINALISTS) if len(starts) > FINALISTS else self.judge(starts)
        else:
            tried = self._with_sets(starts, goal, sets)
        tried = self._pruned(self._improved(tried, goal, ROUNDS), goal)
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

    def _pruned(self, tried: Candidates, goal: bool) -> Candidates:
        """The same without shares so small that leaving them out hardly changes anything."""
        some = np.where(tried.share < SMALL * tried.share.max(axis=2, keepdims=True), 0.0, tried.share)
        whole = tried.share.sum(axis=(1, 2), keepdims=True) / some.sum(axis=(1, 2), keepdims=True)
        if self.layout.total or self.layout.fixed.any() or self.layout.least.any() or (whole == 1).all():
            return tried
        pruned = self.judge(some * whole)
        return tried.where(self._merit(pruned, goal) <= (1 + IDLE) * self._merit(tried, goal), pruned)

    def _merit(self, tried: Candidates, goal: bool) -> Floats:
        """What is to be small: first what is above bounds, then the goal."""
        hard = tried.ratio if goal else tried.ratio[:, ~self.soft]
        worst = hard.max(axis=1, initial=0.0)
        return np.where(worst > 1 + CLOSE, 1e30 * worst, tried.error if goal else tried.ratio[:, self.soft].max(axis=1))

    def _sieved(self, starts: Floats, goal: bool, number: int) -> Candidates:
        """The best of many, after a few rounds."""
        tried = self._improved(self.judge(starts), goal, SIEVE)
        return tried.best(self._merit(tried, goal), number)

    def _promising(self, starts: Floats, goal: bool) -> Floats:
        """The best of many splits for all rows alike, at random; none where these take longer than few starts do."""
        classes = MOST_CLASSES if len(starts) > FINALISTS else MOST_CLASSES // 64
        number = min(classes // sum(len(one.rows.row) for one in self.measures), MOST_TRIES)
        if number < LEAST_TRIES:
            return starts[:0]
        tried = self.layout.like(*np.broadcast_arrays(_uneven(np.ones((number, *starts.shape[1:3], 1))), starts[:1]))
        merit = self._merit(self.judge(tried, gains=False), goal)
        return tried[np.argsort(merit, kind="stable")[:PROMISING]]

    def _improved(self, tried: Candidates, goal: bool, rounds: int) -> Candidates:
        idle = 0
        for _ in range(rounds):
            to, multiplier = self._foreseen(tried, goal)
            moved = self.judge(self._moved(tried, to))
            before, after = self._merit(tried, goal), self._merit(moved, goal)
            better = after < before
            idle = idle + 1 if not after.min() < (1 - IDLE) * before.min() else 0
            shorter = np.where(tried.step > 1, 1.0, 0.5 * tried.step)
            step = np.where(better, np.minimum(1.5 * tried.step, LONGEST), shorter)
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

    # Rows and measures, each with the set of levels that suits it.

    def _with_sets(self, starts: Floats, goal: bool, sets: Floats) -> Candidates:
        """From splits for all rows alike to such as give each row its own set of levels, for as long as that gains."""
        few = len(sets) * sets.shape[1] * sets.shape[3] <= MOST_SINGLE
        number = MORE_FINALISTS if few else FINALISTS
        tried = self._sieved(np.concatenate([starts, self._mixed(sets)]) if few else starts, goal, number)
        for _ in range(EXCHANGES):
            best = tried.best(self._merit(tried, goal), 1)
            changed = [self._by_row(np.concatenate([sets, best.share]), best, goal)]
            changed += self._one_by_one(best.share, sets) if few else []
            others = self._with_total_of(best.share, np.concatenate(changed))
            tried = self._sieved(np.concatenate([best.share, others]), goal, number)
            if not self._merit(tried, goal).min() < (1 - ENOUGH) * self._merit(best, goal)[0]:
                break
        return tried

    def _by_row(self, share: Floats, best: Candidates, goal: bool) -> Floats:
        """For each row of a measure the best of several splits, if errors count for as much as they do now in all."""
        priced, errors = [], []
        price = np.split(best.multiplier[0], np.cumsum([len(one.most) for one in self.measures])[:-1])
        for one, mine in zip(self.measures, price, strict=True):
            weight = goal * one.weights[0] / best.error[0] + (mine / one.most) @ one.weights[one.error]
            priced.append(one._replace(weights=weight[None], error=one.error[:0], most=one.most[:0], soft=one.soft[:0]))
        alone = Bounded(self.layout, tuple(priced))
        share = alone._improved(alone.judge(share), True, SIEVE).share
        for k, one in enumerate(priced):
            rows = replace(one.rows, objective=replace(one.rows.objective, weight=one.weights[0], joint=False))
            rows, top = (rows.heads, 1) if self.layout.total else (rows, 0)
            by_root = rows.errors(rows.pack(share[:, k, top:] * one.scale))
            errors.append(by_root if share.shape[3] > 1 else by_root.sum(axis=1, keepdims=True))
        of_part = np.stack(errors, axis=1) * share.sum(axis=2) ** self.layout.exponent  # whatever the part's size
        return np.take_along_axis(share, np.argmin(of_part, axis=0)[None, :, None], axis=0)

    def _one_by_one(self, share: Floats, sets: Floats) -> list[Floats]:
        """The split with each set for each row of each measure."""
        sets = sets * share.sum(axis=2, keepdims=True) / sets.sum(axis=2, keepdims=True)
        place = np.arange(sets[0, :, 0].size).reshape(sets.shape[1], 1, sets.shape[3])
        return [np.where(place == one, sets, share) for one in range(place.size)]

    def _mixed(self, sets: Floats) -> Floats:
        """Splits that differ from row to row and from measure to measure, at random: even ones and uneven ones."""
        chosen = np.random.default_rng(0).integers(len(sets), size=(MIXES, sets.shape[1], 1, sets.shape[3]))
        even = np.take_along_axis(sets, chosen, axis=0)
        mixed = np.concatenate([even, _uneven(even)])
        return self._with_total_of(mixed.mean(axis=3, keepdims=True), mixed)

    def _with_total_of(self, share: Floats, others: Floats) -> Floats:
        """Other splits with the total of this one, where it is common to all rows."""
        top = slice(0, int(self.layout.total))
        others[:, :, top] = share[:, :, top]
        return self.layout.like(others, others)


def _uneven(share: Floats) -> Floats:
    """Shares at random, many of them small."""
    rng = np.random.default_rng(1)
    drawn: Floats = rng.standard_gamma(0.7, share.shape) * (rng.random(share.shape) < 0.6) + 1e-3 * share
    return drawn


def _inverse(share: Floats, where: Bools, power: int) -> Floats:
    """share^-power where there was one; very much where there is none any more."""
    with np.errstate(divide="ignore", over="ignore"):
        return np.where(where, np.minimum(share ** -float(power), 1e100), 0.0)
