"""few_contributions: the best whole numbers where a conversion has few to give, such as ten credits.

A split rounded to 65,536 parts is as good as before; one rounded to ten may not be. From the rounded split on, single
contributions move from one level to another as long as the error to expect falls, for each root by itself.
"""

from collections.abc import Callable, Collection
from dataclasses import replace

import numpy as np

from attributary import budget
from attributary.plan.contributions import Contributions, Rounding, contributions
from attributary.plan.level_shares import Question, Shares
from attributary.spec import Spec
from attributary.spec.w3c_schemes import MICRO, micro_of
from attributary.types import Floats, Ints

FEW = 64
NEXT = 1.005  # times the least error
LESS = 1 - 1e-9  # an error that is smaller, and not by rounding alone


def improved(q: Question, whole: Contributions, keep: Collection[str] = ()) -> Contributions:
    """The same contributions, or better ones where they are few; levels with fixed shares stay as they are."""
    if q.spec.budget > FEW or whole.nodes is not None:
        return whole
    free = np.isnan(q.fixed)
    free[0] &= not (q.spec.total and q.spec.split_by is not None)  # one key that all roots feed
    least = np.array([level in (*keep, q.spec.levels[-1]) for level in q.spec.levels], np.int64)
    weights = q.weights if whole.roots is None else q.of_known_heads(q.weights)
    most = q.limit, q.spec.first_unknown
    default = _descend(whole.default, lambda rows: np.array([_expected(q, rows, weights).tree]), free, least, most)
    if whole.roots is None or not q.by_root:
        return replace(whole, default=default)
    roots = _descend(whole.roots[0], lambda rows: _expected(q, rows, q.weights).roots, free, least, most)
    return replace(whole, default=default, roots=roots[None])


def with_best_credits(
    q: Question, share: Shares, most: int, rounding: Rounding, keep: Collection[str], improve: bool
) -> Spec:
    """The spec with the fewest credits, up to `most`, whose error is next to the least.

    Fewer make shorter reports, or fewer impressions. Where shares are fixed, or are not to be improved, only numbers
    count that tell them best.
    """
    tried: dict[int, tuple[float, float]] = {}
    stated = q.fixed if improve else share.rows(q.tree)
    for number in range(min(len({*keep, q.spec.levels[-1]}), most), most + 1):
        spec = with_credits(q.spec, number)
        asked = replace(q, spec=spec)
        whole = contributions([asked], [share], rounding=rounding, keep=keep)
        whole = improved(asked, whole, keep) if improve else whole
        rows = whole.default if whole.roots is None else whole.roots[0]
        errors = _expected(asked, rows, q.weights)
        error = float(np.nanmedian(errors.roots)) if q.by_root else errors.tree
        missed = np.nansum(np.abs(rows / number - stated), axis=1).max()
        tried[number] = round(float(missed), 9), error
    best = min(tried.values())
    return with_credits(
        q.spec, min(n for n, (missed, error) in tried.items() if missed == best[0] and error <= NEXT * best[1])
    )


def with_credits(spec: Spec, number: int) -> Spec:
    """The spec with so many credits; where they are shared among reports, each is a whole number of µε."""
    micro = micro_of(spec) // number * number if spec.unknown else micro_of(spec)
    return spec.model_copy(update={"l1": number, "epsilon_or_auto": micro / MICRO})


def _expected(q: Question, rows: Ints, weights: Floats | None) -> budget.Expected:
    """What to expect of contributions by level, of one row for all heads or of one for each."""
    spec, top = q.spec, int(q.spec.total)
    heads = q.tree.slice(top)
    every = np.broadcast_to(rows, (heads.stop - heads.start, rows.shape[1]))
    noise = spec.noise_model.variance(q.tree.spread(every, top, rest=True) * (spec.epsilon / spec.l1))
    return q.expected(noise, weights)


def _descend(rows: Ints, errors: Callable[[Ints], Floats], free: Floats, least: Ints, most: tuple[float, int]) -> Ints:
    """Rows of which no single move between levels makes the error of one smaller.

    `most` is what part the levels from the first unknown one on may have, as Definition 1 has it, and that level.
    """
    levels, error, (part, unknown) = np.flatnonzero(free).tolist(), errors(rows), most
    while True:
        better, best = rows.copy(), error.copy()
        for giver in levels:
            has = rows[:, giver] > least[giver]
            for taker in levels if has.any() else ():
                more = rows[:, unknown:].sum(axis=1) + (taker >= unknown) - (giver >= unknown)
                can = has & ((taker < unknown) | (giver >= unknown) | (more <= part * rows.sum(axis=1)))
                moved = rows.copy()
                moved[can, giver] -= 1
                moved[can, taker] += 1
                then = errors(moved)
                gains = can & (then < best * LESS)
                better[gains], best[gains] = moved[gains], then[gains]
        if not (best < error).any():
            return rows
        rows, error = better, best
