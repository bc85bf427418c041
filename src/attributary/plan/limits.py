"""choose_limits: how many conversions of an impression count, where values are clipped, and each measure's part.

For a root and limits m and C_k the error to expect is

    E = Σ_k w_k · (bias_k(m, C_k)² + m² · C_k² · V_k / s_k²)

relative as RMSRE_τ, with s_k the part of measure k, and V_k the squared error of its tree with all of the budget, m = 1
and C = 1. Limits cut off the same conversions at every level, so that denoising leaves the bias as it is. How a
measure's part is best split by level does not depend on the part's size, nor on limits (under the API's noise), and the
parts that make E smallest are in proportion to (w_k · C_k² · V_k)^⅓; under Gaussian noise, where s_k is not squared, to
the square root. What is left to search is m, for each root, and C, for all.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from attributary import budget
from attributary.budget import Split
from attributary.plan.problem import Problem, Shares
from attributary.types import Floats, Ints

COARSE = 5  # of a measure's clips, every so many are tried first
ROUNDS = 4  # over the measures, each clip being best for the others'


@dataclass(frozen=True, eq=False)
class MeasureErrors:
    """One measure, as errors see it; all arrays are by root."""

    weight: float
    clips: Sequence[float]  # to choose from, in order
    noise: Callable[[int], Floats]  # of m: the squared error of noise with all of the budget and a clip of 1
    bias: Callable[[int, float], Floats]  # of m and the clip: the squared error of what they cut off
    exponent: int = 2  # of s_k


@dataclass(frozen=True, eq=False)
class ChosenLimits:
    """Where each measure is clipped, and how many conversions of an impression count."""

    clips: tuple[float, ...]
    most: Ints  # m, of each root, or one for all
    trades: dict[int, list[tuple[float, float, float]]]  # by measure (-1: m): limit, squared bias and noise over roots

    def same(self, other: "ChosenLimits") -> bool:
        """Whether the limits are those of another choice."""
        return self.clips == other.clips and np.array_equal(self.most, other.most)


def measure_errors(q: Problem, share: Shares) -> MeasureErrors:
    """The squared errors of a measure under limits, each worked out once."""

    @cache
    def noise(m: int) -> Floats:
        if m > 1 and q.spec.noise_model.proportional:
            return noise(1) * m**2
        return _squared(q, _noise_variance(q, share, m))

    @cache
    def bias(m: int, clip: float) -> Floats:
        return _squared(q, cut_off(q, m, clip) ** 2)

    limit = q.measure.limit
    clips = [limit] if limit is not None else q.profile.clips(q.measure) if q.profile else []
    return MeasureErrors(q.measure.weight, clips, noise, bias, q.spec.noise_model.exponent)


def cut_off(q: Problem, most: int | Ints, clip: float) -> Floats:
    """What limits cut off each node's sum, as far as is known."""
    if q.profile is None:
        return np.zeros(len(q.tree))
    return q.profile.limited(q.measure, most, clip) - q.prior.mean


def _squared(q: Problem, variance: Floats) -> Floats:
    """Squared errors by root, or of the whole tree, from variances or squared biases of nodes."""
    errors = budget.Expected.of(q.tree, q.prior.mean, variance, q.tau, q.weights, q.spec.weigh)
    return np.nan_to_num(errors.roots**2) if q.by_root else np.array([errors.tree**2])


def _noise_variance(q: Problem, share: Shares, m: int) -> Floats:
    """The noise variance of estimates, with all of the budget and a clip of 1."""
    spec, top = q.spec, int(q.spec.total)
    rows = share.rows(q.tree) * spec.epsilon / spec.noise_model.repeats(m)
    split = Split(q.tree, rows[:, top:], spec.epsilon, spec.noise_model, spec.l1, float(rows[0, 0]) if top else None)
    return budget.expected(q.tree, q.prior.mean, split, q.tau, weights=q.weights).variance


def choose(measures: Sequence[MeasureErrors], most: Sequence[int]) -> ChosenLimits:
    """The limits of least error, summed over roots; m of each root is best for it."""
    if len(most) == 1 and all(len(measure.clips) == 1 for measure in measures):
        return ChosenLimits(tuple(measure.clips[0] for measure in measures), np.array(most), {})
    chosen = [len(measure.clips) - 1 for measure in measures]
    tried: dict[tuple[int, ...], tuple[float, Ints]] = {}

    def judged(places: Sequence[int]) -> float:
        key = tuple(places)
        if key not in tried:
            tried[key] = _best_most(measures, [m.clips[i] for m, i in zip(measures, key, strict=True)], most)
        return tried[key][0]

    for _ in range(ROUNDS):
        before = list(chosen)
        for k, measure in enumerate(measures):
            chosen[k] = _along(len(measure.clips), lambda i, k=k: judged([*chosen[:k], i, *chosen[k + 1 :]]))  # type: ignore[misc]
        if chosen == before:
            break
    judged(chosen)
    clips = tuple(m.clips[i] for m, i in zip(measures, chosen, strict=True))
    best = tried[tuple(chosen)][1]
    return ChosenLimits(clips, best, _trades(measures, clips, best, most))


def best_parts(measures: Sequence[MeasureErrors], limits: ChosenLimits) -> Floats:
    """The part of each measure, (measures, roots), that makes the error smallest; (measures, 1) for the whole tree."""
    if len(measures) == 1:
        return np.ones((1, len(limits.most)))
    each = {m: _parts(measures, limits.clips, m) for m in np.unique(limits.most).tolist()}
    width = max(len(limits.most), *(parts.shape[1] for parts in each.values()))
    most = np.broadcast_to(limits.most, width).tolist()
    return np.column_stack([each[m][:, r] for r, m in enumerate(most)])


def _parts(measures: Sequence[MeasureErrors], clips: Sequence[float], m: int) -> Floats:
    need = np.array([s.weight * c**2 * s.noise(m) for s, c in zip(measures, clips, strict=True)])
    parts = np.where(np.isfinite(need), need, 0.0) ** (1 / (measures[0].exponent + 1))
    total = parts.sum(axis=0)
    equal = 1 / len(measures)
    shares: Floats = np.divide(parts, total, out=np.full_like(parts, equal), where=total > 0)
    return shares


def _errors(measures: Sequence[MeasureErrors], clips: Sequence[float], m: int) -> tuple[Floats, Floats]:
    """The squared bias and the squared noise to expect, by root."""
    bias = np.sum([s.weight * s.bias(m, c) for s, c in zip(measures, clips, strict=True)], axis=0)
    return bias / sum(s.weight for s in measures), _noise(measures, clips, m)


def _noise(measures: Sequence[MeasureErrors], clips: Sequence[float], m: int) -> Floats:
    need = [s.weight * c**2 * s.noise(m) for s, c in zip(measures, clips, strict=True)]
    power = measures[0].exponent + 1
    noise: Floats = np.sum(np.power(need, 1 / power), axis=0) ** power
    return noise / sum(s.weight for s in measures)


def _best_most(measures: Sequence[MeasureErrors], clips: list[float], most: Sequence[int]) -> tuple[float, Ints]:
    """The summed error, and for each root the m that is best for it."""
    best, least = np.array([]), np.array([])
    for m in most:
        if len(least) and (_noise(measures, clips, m) >= least).all():
            break  # more conversions would only add to the noise
        error = np.add(*_errors(measures, clips, m))
        if not len(least):
            best, least = np.full(len(error), m), error
        better = error < least
        best, least = np.where(better, m, best), np.where(better, error, least)
    return float(least.sum()), best.astype(np.int64)


def _along(number: int, error: Callable[[int], float]) -> int:
    """The place of least error: looked for on a coarse grid first, then around the best of it."""
    coarse = sorted({*range(number - 1, -1, -COARSE), 0})
    at = min(coarse, key=error)
    near = range(max(0, at - COARSE), min(number, at + COARSE + 1))
    return min(near, key=error)


def _trades(
    measures: Sequence[MeasureErrors], clips: tuple[float, ...], best: Ints, most: Sequence[int]
) -> dict[int, list[tuple[float, float, float]]]:
    trades = {}
    if len(most) > 1:
        trades[-1] = [(float(m), *_means(_errors(measures, clips, m))) for m in most]
    for k, measure in enumerate(measures):
        if len(measure.clips) > 1:
            tries = [(c, [*clips[:k], c, *clips[k + 1 :]]) for c in _some(measure.clips, clips[k])]
            trades[k] = [(c, *_means(_mixed(measures, each, best))) for c, each in tries]
    return trades


def _mixed(measures: Sequence[MeasureErrors], clips: Sequence[float], best: Ints) -> tuple[Floats, Floats]:
    """Squared bias and noise where each root has its m."""
    bias, noise = np.zeros(len(best)), np.zeros(len(best))
    for m in np.unique(best).tolist():
        here = best == m
        one, other = _errors(measures, clips, m)
        bias[here], noise[here] = one[here], other[here]
    return bias, noise


def _means(squared: tuple[Floats, Floats]) -> tuple[float, float]:
    return float(squared[0].mean()), float(squared[1].mean())


def _some(clips: Sequence[float], chosen: float) -> list[float]:
    """The chosen clip and some on either side, about a factor of 1.8 apart."""
    at = clips.index(chosen)
    return [clips[i] for i in range(at % COARSE, len(clips), COARSE)]
