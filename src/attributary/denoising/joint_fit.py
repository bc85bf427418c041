"""joint_fit: the counts of several breakdowns that are never negative, agree wherever two meet, and fit figures best.

    argmin Σ (x_v − s_v)² / var_v  over all figures of all breakdowns, leaves ≥ 0, shared sums equal, exact figures kept

An interior-point method (Mehrotra's predictor and corrector) finds which leaves are 0. With these as exact figures the
rest is `crossed`, whose digits are good. Each step solves for all leaves at once, which is why their number is limited.
"""

from collections.abc import Sequence

import numpy as np

from attributary.denoising.crossed import crossed, inverse_of
from attributary.denoising.meeting import Breakdown, Meeting
from attributary.errors import InputError
from attributary.types import Bools, Floats

LEAVES = 1_000  # of all breakdowns: dense matrices of that size are inverted at every step
STEPS = 100
DONE = 1e-11  # of the figures' size: what conditions may be missed by
FIRM = 1e6  # the precision of exact figures, beside that of the most precise noisy one
STEEP = 1e12  # of a price to its count, where exact figures leave a count no room
SAFE = 0.9995  # of the way to the nearest bound


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
