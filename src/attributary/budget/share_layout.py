"""ShareLayout: what shares of a budget may be, and the best of them if errors were linear in noise variances."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from attributary.types import Bools, Floats


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
        """argmin of Σ q_u / x_u^p: the best shares if errors are linear in noise; as before in a row without any."""
        root = np.cbrt if self.exponent == 2 else np.sqrt
        z = root(np.maximum(q, 0.0)) * self.open  # gains are never negative, but for rounding
        if self.held is not None:
            z[..., self.held[0]] = self.held[1][..., None]
        inside = self._within(z, old)
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

    def like(self, share: Floats, old: Floats) -> Floats:
        """Shares in the proportions of these, as far as may be; as before in a row without any."""
        part = share.sum(axis=2, keepdims=True)
        z = np.divide(share, part, out=np.zeros_like(share), where=part > 0) * self.open
        z[:, :, : int(self.total)] *= share.shape[3] ** (1 / (self.exponent + 1))
        if self.held is not None:
            z[..., self.held[0]] = self.held[1][..., None]
        shares: Floats = part / part.sum(axis=1, keepdims=True) * self._within(z, old)
        return shares

    def _within(self, z: Floats, old: Floats) -> Floats:
        """Shares of each measure's part, in proportion to z where they are free; as in `old` in a row without any."""
        free, top = 1.0 - self.fixed.sum(), int(self.total)
        every = z[:, :, top:].sum(axis=2, keepdims=True)
        left = np.full_like(every, free)
        if self.total:
            left = left - self._common(z[:, :, :1, :1], every, z, free)
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
