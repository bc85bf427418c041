"""choice: how many conversions of an impression count, where values are clipped, and each measure's part of the budget.

For a root and limits m and C_k the error to expect is

    E = Σ_k w_k · (bias_k(m, C_k)² + m² · C_k² · V_k / s_k²)

relative as RMSRE_τ, with s_k the part of measure k, and V_k the squared error of its tree with all of the budget, m = 1
and C = 1. Limits cut off the same conversions at every level, so that denoising leaves the bias as it is. How a
measure's part is best split by level does not depend on the part's size, nor on limits (under the API's noise), and the
parts that make E smallest are in proportion to (w_k · C_k² · V_k)^⅓. What is left to search is m, for each root, and C,
for all.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from attributary.types import Floats, Ints

COARSE = 5  # of a measure's clips, every so many are tried first
ROUNDS = 4  # over the measures, each clip being best for the others'


@dataclass(frozen=True, eq=False)
class Sums:
    """One measure, as errors see it; all arrays are by root."""

    weight: float
    clips: Sequence[float]  # to choose from, in order
    noise: Callable[[int], Floats]  # of m: the squared error of noise with all of the budget and a clip of 1
    bias: Callable[[int, float], Floats]  # of m and the clip: the squared error of what they cut off


@dataclass(frozen=True, eq=False)
class Chosen:
    clips: tuple[float, ...]
    most: Ints  # m, by root
    error: Floats  # squared, by root
    trades: dict[int, list[tuple[float, float, float]]]  # by measure (-1: m): limit, squared bias and noise over roots


def choose(measures: Sequence[Sums], most: Sequence[int]) -> Chosen:
    """The limits of least error, summed over roots; m of each root is best for it."""
    chosen = [len(measure.clips) - 1 for measure in measures]
    tried: dict[tuple[int, ...], tuple[float, Ints, Floats]] = {}

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
    _, best, error = tried[tuple(chosen)]
    return Chosen(clips, best, error, _trades(measures, clips, best, most))


def split(measures: Sequence[Sums], clips: Sequence[float], m: int) -> Floats:
    """The part of each measure, (measures, roots)."""
    need = np.array([s.weight * c**2 * s.noise(m) for s, c in zip(measures, clips, strict=True)])
    parts = np.cbrt(np.where(np.isfinite(need), need, 0.0))
    total = parts.sum(axis=0)
    equal = 1 / len(measures)
    found: Floats = np.divide(parts, total, out=np.full_like(parts, equal), where=total > 0)
    return found


def errors(measures: Sequence[Sums], clips: Sequence[float], m: int) -> tuple[Floats, Floats]:
    """The squared bias and the squared noise to expect, by root."""
    whole = sum(s.weight for s in measures)
    need = [s.weight * c**2 * s.noise(m) for s, c in zip(measures, clips, strict=True)]
    noise = np.sum(np.cbrt(need), axis=0) ** 3
    bias = np.sum([s.weight * s.bias(m, c) for s, c in zip(measures, clips, strict=True)], axis=0)
    return bias / whole, noise / whole


def _best_most(measures: Sequence[Sums], clips: list[float], most: Sequence[int]) -> tuple[float, Ints, Floats]:
    """The summed error, and for each root the m that is best for it and its error."""
    best, least = np.array([]), np.array([])
    for m in most:
        if len(least) and (_noise(measures, clips, m) >= least).all():
            break  # more conversions would only add to the noise
        error = np.add(*errors(measures, clips, m))
        if not len(least):
            best, least = np.full(len(error), m), error
        better = error < least
        best, least = np.where(better, m, best), np.where(better, error, least)
    return float(least.sum()), best.astype(np.int64), least


def _noise(measures: Sequence[Sums], clips: list[float], m: int) -> Floats:
    whole = sum(s.weight for s in measures)
    noise: Floats = (
        np.sum(np.cbrt([s.weight * c**2 * s.noise(m) for s, c in zip(measures, clips, strict=True)]), 0) ** 3
    )
    return noise / whole


def _along(number: int, error: Callable[[int], float]) -> int:
    """The place of least error: looked for on a coarse grid first, then around the best of it."""
    coarse = sorted({*range(number - 1, -1, -COARSE), 0})
    at = min(coarse, key=error)
    near = range(max(0, at - COARSE), min(number, at + COARSE + 1))
    return min(near, key=error)


def _trades(
    measures: Sequence[Sums], clips: tuple[float, ...], best: Ints, most: Sequence[int]
) -> dict[int, list[tuple[float, float, float]]]:
    found = {}
    if len(most) > 1:
        found[-1] = [(float(m), *_means(errors(measures, clips, m))) for m in most]
    for k, measure in enumerate(measures):
        if len(measure.clips) > 1:
            tries = [(c, [*clips[:k], c, *clips[k + 1 :]]) for c in _some(measure.clips, clips[k])]
            found[k] = [(c, *_means(_mixed(measures, each, best))) for c, each in tries]
    return found


def _mixed(measures: Sequence[Sums], clips: Sequence[float], best: Ints) -> tuple[Floats, Floats]:
    """Squared bias and noise where each root has its m."""
    bias, noise = np.zeros(len(best)), np.zeros(len(best))
    for m in np.unique(best).tolist():
        here = best == m
        one, other = errors(measures, clips, m)
        bias[here], noise[here] = one[here], other[here]
    return bias, noise


def _means(found: tuple[Floats, Floats]) -> tuple[float, float]:
    return float(found[0].mean()), float(found[1].mean())


def _some(clips: Sequence[float], chosen: float) -> list[float]:
    """The chosen clip and some on either side, about a factor of 1.8 apart."""
    at = clips.index(chosen)
    return [clips[i] for i in range(at % COARSE, len(clips), COARSE)]
