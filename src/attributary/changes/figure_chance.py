"""figure_chance: how far figures vary by chance, beside the privacy noise, where nothing changed.

Counts vary by their number (Poisson). A sum of values x varies by Σx², which is at most C times the sum if no event
adds more than C. Where nobody states C, the courses of four periods or more tell; else noise alone is tested.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from attributary.changes.change_test import TESTS, Difference
from attributary.changes.what_changed import SeriesPeriod
from attributary.errors import InputError
from attributary.types import Floats

STEPS = 3  # from which the courses of periods tell
CUT, CUT_MEAN, CUT_SD = 4.0, 0.9205, 1.110  # of a squared normal figure, and what it is then
COUNTED = (
    "n|num|number|counts?|cnt|visits|visitors|users|orders|conversions|purchases|clicks|sessions|events|customers|views"
    "|anzahl|besuche|besucher|nutzer|kunden|klicks|bestellungen|visites|clients|commandes|visitas|clientes|pedidos"
)  # words in names of counts
VALUED = "value|amount|revenue|spend|sales|price|minutes|seconds|hours|eur|usd|gbp|umsatz|wert|betrag"
COUNTS = "Chance is that of counts."
ASSUMED_COUNTS = "Chance is that of counts, assuming that each event adds 1; for sums of values, state --largest."
UNKNOWN = "not known; state the most that one event adds (--largest, 1 for counts), or compare four periods or more"


def with_chance(
    periods: tuple[SeriesPeriod, ...], test: str | None, called: str, largest: float | None
) -> tuple[str, tuple[SeriesPeriod, ...], str]:
    """The test, the periods with the variance by chance per unit of their figures, and what was assumed, in a sentence.

    `called` is what figures are of, where something tells; `largest` is the most that one event adds.
    """
    if test is not None and not TESTS[test].poisson:
        return test, periods, "Chance is not included: noise alone is tested."
    counted, valued = (re.search(rf"(?<![^\W_])({w})(?![^\W_])", called.casefold()) for w in (COUNTED, VALUED))
    if largest is None and (not called or (counted and not valued)):
        return test or "rates", periods, COUNTS if called else ASSUMED_COUNTS
    if largest is not None:
        units: Sequence[Floats | float] = [largest] * (len(periods) - 1)
        said = "that of counts" if largest == 1 else f"at most that of events that add {largest:g} each"
    else:
        steps = [TESTS[test or "rates"].difference(b.figures, a.figures) for a, b in pairwise(periods)]
        units = _units(steps) if len(steps) >= STEPS else []
        said = f"estimated from the courses of {len(periods)} periods"
    if largest is None and not (units and all(np.isfinite(unit).all() for unit in units)):
        if test is not None:
            raise InputError(f"sums of {called} are tested for noise alone: how far they vary by chance is {UNKNOWN}")
        return "counts", periods, f"Chance is not included: how far {called} varies by itself is {UNKNOWN}."
    later = [p._replace(figures=replace(p.figures, unit=unit)) for p, unit in zip(periods[1:], units, strict=True)]
    return test or "rates", (*periods[:1], *later), f"Chance is {said}."


def _units(steps: Sequence[Difference]) -> list[Floats]:
    """For each step, the variance by chance per unit of each node's figure, from the other steps at a unit of 1.

    A sum of values x varies by Σx², which grows with the sum. One unit for all nodes makes noise and chance explain
    what the other steps have, at the upper end of what they leave open; a node that varied more by itself has its own.
    """
    change, noise, size = (
        np.stack([getattr(step, name) for step in steps]) for name in ("change", "noise", "sampling")
    )
    good, units = np.isfinite(change) & (size > 0) & np.isfinite(noise), []
    for t in range(len(steps)):
        others = good & (np.arange(len(steps)) != t)[:, None]
        beyond, by = (np.where(others, values, 0.0).sum(axis=0) for values in (change**2 - noise, size))
        pooled = _pooled_unit(change[others] ** 2, noise[others], size[others])
        few = 1 + 4 / np.maximum(others.sum(axis=0), 1)  # a node's own variance is hardly known from few steps
        units.append(np.maximum(few * beyond / np.where(by > 0, by, 1.0), pooled))
    return units


def _pooled_unit(square: Floats, noise: Floats, size: Floats) -> float:
    """The unit at which squares, cut at CUT so that true changes weigh little, are as large as chance makes them."""
    low, high = 0.0, 100 * float(np.max(square / size, initial=0.0)) + 1e-9

    def above(unit: float) -> bool:
        weight = size / np.maximum(noise + unit * size, 1e-300)
        cut = np.minimum(square / np.maximum(noise + unit * size, 1e-300), CUT)
        return bool(np.sum(weight * (cut - CUT_MEAN)) > -2 * CUT_SD * np.sqrt(np.sum(weight**2)))

    if not len(square) or above(high):
        return float("inf")  # too few to tell
    for _ in range(60):
        low, high = ((low + high) / 2, high) if above((low + high) / 2) else (low, (low + high) / 2)
    return high
