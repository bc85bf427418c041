"""ratio: what a conversion brings, a value's estimate over the count's, with its interval by the delta method.

Ratios stand in a table of their own: the tree's columns, and `estimate`, `variance`, `low` and `high` of each ratio,
told apart by a first column `measure` ("revenue per conversion").
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from attributary.denoising import Estimate
from attributary.denoising.quantile import quantile
from attributary.errors import InputError
from attributary.estimates import About, Estimates, has_measures, labelled, noted, with_columns
from attributary.read_estimates import aligned, measure_names, rows_of_measure, tree_of
from attributary.spec.measure import COUNT
from attributary.tables import shown
from attributary.tables.as_written import NEEDED
from attributary.tables.table_columns import floats
from attributary.tree import Tree
from attributary.types import Arrow, Floats

PER = " per conversion"  # how ratios are called: "revenue per conversion"
WITH_ESTIMATES = "give it with the estimates that it was made of, or the folder that `attributary run` wrote"
SURE = 3.0  # standard deviations that a count is above 0 before it divides anything


class Ratio(NamedTuple):
    """Of each node, in the tree's order; nan where the count is not well above 0."""

    ratio: Floats
    variance: Floats
    low: Floats
    high: Floats


def ratio(value: Estimate, count: Estimate, confidence: float = 0.95) -> Ratio:
    """The value of a conversion at each node.

    With independent noise in both, Var(v̂ / ĉ) is about (Var v̂ + r² · Var ĉ) / ĉ² for r = v̂ / ĉ. That holds where ĉ is
    well above 0: a node whose count is not three standard deviations above it has no ratio. Counts and values of one
    plan get noise of their own, so that they are independent. As those of counts, intervals are around the unbiased
    ratio, where there is one; cut at 0, and widened to hold the ratio shown, where counts were made non-negative.
    """
    if value.count.shape != count.count.shape:
        raise ValueError(f"estimates are of one tree; got {len(value.count):,} nodes and {len(count.count):,}")
    centre, variance = delta(value.count, value.variance, count.count, count.variance)
    around, spread = delta(value.blue, value.variance, count.blue, count.variance)
    none = np.isnan(around)
    around, spread = np.where(none, centre, around), np.where(none, variance, spread)
    reach = quantile(confidence, np.zeros(1)) * np.sqrt(spread)
    least = 0.0 if value.nonnegative and count.nonnegative else -np.inf
    low, high = np.maximum(around - reach, least), np.maximum(around + reach, least)
    return Ratio(centre, variance, np.minimum(low, centre), np.maximum(high, centre))


def delta(value: ArrayLike, of_value: ArrayLike, count: ArrayLike, of_count: ArrayLike) -> tuple[Floats, Floats]:
    """The ratio of two independent estimates with these variances, and its own; nan where the count is not sure."""
    value, of_value, count, of_count = (np.asarray(x, np.float64) for x in (value, of_value, count, of_count))
    below = np.where(count > SURE * np.sqrt(of_count), count, np.nan)
    with np.errstate(invalid="ignore"):
        quotient = value / below
        return quotient, (of_value + quotient**2 * of_count) / below**2


def ratios_table(estimates: dict[str, Estimate], confidence: float = 0.95) -> Arrow:
    """The Arrow table of what a conversion brings at each node, for each value; None without counts and values."""
    tables = {}
    for name, of in ratios_of(estimates, confidence).items():
        columns = {key: of.tree.from_level_order(getattr(of, key)) for key in NEEDED}
        tables[name] = with_columns(of.tree.table(), columns)
    return noted(labelled(tables), confidence=confidence) if tables else None


def ratios_of(estimates: Mapping[str, Estimate], confidence: float = 0.95) -> dict[str, Estimates]:
    """What a conversion brings at each node, for each value, as reading its table would give it."""
    count = estimates.get(COUNT)
    values = {} if count is None else {name: est for name, est in estimates.items() if name != COUNT}
    return {name + PER: _unmeasured(est.tree, ratio(est, count, confidence)) for name, est in values.items() if count}


def _unmeasured(tree: Tree, columns: Iterable[Floats]) -> Estimates:
    """Estimates of what is not measured itself, from their columns in the tree's order."""
    return Estimates.from_columns(tree, dict(zip(NEEDED, columns, strict=True)), About())


def is_ratios(names: list[str], levels: list[str] | None = None) -> bool:
    """Whether a table holds ratios: estimates of measures that were never measured themselves."""
    return has_measures(names, levels) and set(NEEDED) <= set(names) and not {"noisy", "correction"} & set(names)


def read_ratios(
    table: Arrow, path: str, levels: list[str] | None, measures: dict[str, Estimates]
) -> dict[str, Estimates]:
    """The ratios in a table, on the tree of the estimates that they were made of; nan where a node has none."""
    names, read = measure_names(table, path), dict[str, Estimates]()
    for name in names.unique().to_pylist():
        value = name.removesuffix(PER)
        if name == value or value not in measures or COUNT not in measures:
            known = f"the estimates are of {', '.join(measures)}" if measures else "there are no estimates of measures"
            raise InputError(f"{shown(path)} holds {name!r}, but {known}; {WITH_ESTIMATES}")
        rows, numbers = rows_of_measure(table, names, name)
        tree = tree_of(rows, path, levels, numbers)
        if len(tree) != rows.num_rows:
            raise InputError(
                f"{shown(path)}: {name!r} has rows for {rows.num_rows:,} of {len(tree):,} nodes; write it anew"
            )
        est = _unmeasured(tree, (floats(rows, key, path, numbers) for key in NEEDED))
        est = aligned(est, measures[COUNT].tree, name, COUNT, path)
        _check_ratio(est, measures[value], measures[COUNT], name, path)
        read[name] = est
    return read


def _check_ratio(ratio: Estimates, value: Estimates, count: Estimates, name: str, path: str) -> None:
    """Refuses ratios that make no sense, or are those of other estimates."""
    known = np.isfinite(ratio.estimate)
    cells = {key: getattr(ratio, key)[known] for key in NEEDED}
    order = (cells["low"] <= cells["estimate"]) & (cells["estimate"] <= cells["high"]) & (cells["variance"] >= 0)
    if not order.all():
        raise InputError(f"{shown(path)}: an interval of {name!r} does not hold its estimate; write it anew")
    whole = cells["estimate"] * count.estimate[known]
    if not np.allclose(whole, value.estimate[known], rtol=1e-6, atol=1e-6 * max(1.0, np.abs(value.estimate).max())):
        raise InputError(f"{shown(path)}: {name!r} is not that of these estimates; {WITH_ESTIMATES}")
