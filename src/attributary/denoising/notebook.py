"""Notebook: an estimate as a notebook shows it."""

import numpy as np

from attributary.denoising.estimate import Estimate
from attributary.denoising.prediction import Prediction
from attributary.html import html_alarm, html_table

ROWS = 10
HEADS = ("node", "noisy", "estimate", "95 % interval", "correction")


def estimate_html(est: Estimate) -> str:
    """The first nodes, level by level, with their intervals, and how the noise fits."""
    tree, (low, high) = est.tree, est.interval(0.95)
    share = est.from_prior if isinstance(est, Prediction) else None
    with np.errstate(divide="ignore"):
        correction = est.correction
    some = tree.to_level_order(np.arange(len(tree)))[:ROWS].tolist()
    rows = [
        (
            " › ".join(map(str, tree.path(v))) or "total" if tree.attributes else f"node {v}",
            _count(est.measurements.noisy[v]) if est.measurements.variance[v] < np.inf else "not measured",
            _count(est.count[v]),
            f"{_count(low[v])} to {_count(high[v])}",
            "" if np.isnan(correction[v]) else f"{correction[v]:+.1f}",
            *(() if share is None else (f"{share[v]:.0%}",)),
        )
        for v in some
    ]
    more = len(tree) - len(rows)
    kind = "non-negative " if est.nonnegative else ""
    notes = [f"and {more:,} more"] if more else []
    notes += [f"fit of the noise: z = {est.fit.z:.2f}, about standard normal if it is as claimed"] if est.fit.df else []
    notes += [] if share is None else [f"{share.mean():.0%} came from what was expected: no longer unbiased"]
    heads = HEADS if share is None else (*HEADS, "from prior")
    caption = f"Estimate: {len(tree):,} {kind}counts in {tree.depth} levels"
    return html_alarm(est.not_private) + html_table(caption, heads, rows, notes)


def _count(x: float) -> str:
    return f"{x:,.0f}" if abs(x) >= 100 or float(x).is_integer() else f"{x:,.1f}"
