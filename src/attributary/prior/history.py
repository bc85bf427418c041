"""history: several earlier reports as one earlier period, in which each counts less than the one after it.

The unbiased figures x̂ of each period and their variances v̂ar are folded, from the first period to the last, with a
discount ℓ: M ← ℓ·M + x̂ and V ← ℓ²·V + v̂ar. A node's count is its M by the sum of the ℓʲ of the periods that had it, so
that neither a new nor a paused node looks smaller than it is. The discount is the one with which each period would have
been predicted best by those before it.
"""

from collections.abc import Collection
from typing import Any

import numpy as np

from attributary import rmsre
from attributary.changes.series import Series, periods
from attributary.denoising.nonnegative import settled
from attributary.denoising.prior import Prior
from attributary.errors import InputError
from attributary.estimates import noted, with_columns
from attributary.prior.earlier import PERIODS, from_estimates
from attributary.tables.table_columns import mark
from attributary.tree import Tree
from attributary.types import Arrow, Floats, Frame

DISCOUNTS = (0.0, 0.3, 0.5, 0.65, 0.8, 0.9, 1.0)
USUAL = 0.8  # where there are too few periods to tell
LATEST = "latest"  # a column


def from_periods(
    tree: Tree, source: Frame, *, known: Collection[str] | None = None, discount: float | None = None, **options: Any
) -> Prior:
    """Several earlier reports as one prior: a folder of them, a mapping by name, or a `Series`.

    `known` is as in `from_estimates`, a `discount` takes the place of the one that predicts best, and options are those
    of `attributary.periods`.
    """
    series = source if isinstance(source, Series) else periods(source, least=1, **options)
    return from_estimates(tree, history(series, discount), known=known)


def history(series: Series, discount: float | None = None) -> Arrow:
    """The periods of a series as one Arrow table of estimates, by node; the discount is `best_discount` by default.

    `estimate` and `variance` are those of an average period, `periods` is how many periods' worth of conversions that
    is an average of (Σℓʲ), and `latest` whether the last period has the node. The metadata tell which periods these are
    (`history`), and the fingerprints of their noisy figures (`reports`). A period without noisy figures is refused.
    """
    for period in series.periods:
        if period.fit is None:
            raise InputError(
                f"{period.name}: a history is made of noisy figures, and its table lacks noisy and noise_variance, or "
                "they are not those that its estimates were made of; denoise it again, or leave it out"
            )
    tree, (x, var) = series.tree, _figures(series)
    ell = best_discount(series) if discount is None else discount
    power = ell ** np.arange(len(x) - 1, -1, -1.0)[:, None]
    there = var < np.inf
    weight = np.where(there, power, 0.0).sum(axis=0)
    by = np.where(weight > 0, weight, 1.0)
    M, V = (power * x).sum(axis=0), (power**2 * np.where(there, var, 0.0)).sum(axis=0)
    estimate = tree.in_level_order.sum_up(np.where(tree.in_level_order.is_leaf, M / by, 0.0))
    columns = {"estimate": estimate, "variance": _variance(tree, V / by**2, weight), PERIODS: weight}
    table = with_columns(tree.table(), {name: tree.from_level_order(values) for name, values in columns.items()})
    table = table.append_column(LATEST, [tree.from_level_order(there[-1])])
    names, reports = zip(*((period.name, period.fingerprint) for period in series.periods), strict=True)
    order = f", order {series.order}" if series.order.startswith("as") else ""
    words = f"{len(names)} periods ({names[0]} to {names[-1]}{order}), discount {ell:g}"
    words = words if len(names) > 1 else f"1 period ({names[0]})"
    table = noted(table.filter(tree.from_level_order(weight > 0)), history=words, reports=",".join(reports))
    return mark(table, series.not_private)


def _figures(series: Series) -> tuple[Floats, Floats]:
    """The unbiased counts, 0 where a period lacks a node, and their variances, inf there: periods by nodes."""
    x, var = (np.stack([getattr(p.figures, name) for p in series.periods]) for name in ("count", "variance"))
    there = np.isfinite(x) & (var < np.inf)
    return np.where(there, x, 0.0), np.where(there, var, np.inf)


def _variance(tree: Tree, var: Floats, weight: Floats) -> Floats:
    """The variance of each average; of a node whose leaves came or went, the sum of its children's, never too small."""
    found, alike = var.copy(), np.ones(len(tree), bool)
    for level in range(tree.depth - 1, 0, -1):
        here, parent = tree.slice(level), tree.family[tree.slice(level)]
        np.logical_and.at(alike, parent, alike[here] & (weight[here] == weight[parent]))
        inner = np.unique(parent)
        sums = np.bincount(parent, found[here], len(tree))
        found[inner] = np.where(alike[inner], found[inner], sums[inner])
    return found


def best_discount(series: Series) -> float:
    """The discount with which shares of the periods so far predict the next period best."""
    x, var = _figures(series)
    if len(x) < 3:  # one earlier period predicts the same with any
        return USUAL
    losses = [_loss(series.tree, x, var, discount) for discount in DISCOUNTS]
    return DISCOUNTS[int(np.argmin(losses))]


def _loss(tree: Tree, x: Floats, var: Floats, discount: float) -> float:
    """Σ (x̂ − share·x̂ of the parent)², relative to the mean count, over all periods from the third on.

    The noise of a period is independent of the periods before, so that its part is the same for all discounts.
    """
    roots, parent, loss = int(tree.first[0]), tree.family[int(tree.first[0]) :], 0.0
    weight = rmsre.weights(x.sum(axis=0) / np.maximum((var < np.inf).sum(axis=0), 1), rmsre.TAU)[roots:]
    M, V = np.zeros(len(tree)), np.zeros(len(tree))
    for t, (now, noise) in enumerate(zip(x, var, strict=True)):
        there = (noise < np.inf)[roots:]
        if t >= 2:
            past = np.where(there, settled(tree, M.copy(), V.copy(), M, None)[roots:], 0.0)
            siblings, total = (np.bincount(parent, values, len(tree))[parent] for values in (there, past))
            share = (past + 1.0 / np.maximum(siblings, 1.0)) / (total + 1.0)  # one conversion is shared equally
            off = np.where(there, now[roots:] - share * np.maximum(now, 0.0)[parent], 0.0)
            loss += float(np.dot(off, weight * off))
        M, V = discount * M + now, discount**2 * V + np.where(noise < np.inf, noise, 0.0)
    return loss
