"""summary: what denoising did, in words, for standard error."""

from math import log, sqrt
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attributary.denoising import Estimate
from attributary.measurements import Measurements

Floats = NDArray[np.float64]
FALSE_ALARMS = 0.05  # the chance that noise alone makes any correction of the table implausible
Z_FINE = 3.0
LISTED = 5


class Level(NamedTuple):
    name: str
    nodes: int
    measured: int
    noise: float  # average variance of the noise, over its measured nodes
    estimate: float  # average variance of the estimates, over its measured nodes, or over all if there are none

    @property
    def fell(self) -> float:
        """By which share the variance fell."""
        return 1 - self.estimate / self.noise if self.noise > 0 else 0.0


def levels(est: Estimate) -> list[Level]:
    """The average variance of each level, before and after."""
    tree = est.tree
    noise, after = (tree.to_level_order(v) for v in (est.measurements.variance, est.variance))
    found = []
    for i, name in enumerate(tree.level_names):
        here = tree.slice(i)
        measured = noise[here] < np.inf
        count = int(measured.sum())
        before = float(noise[here][measured].mean()) if count else np.inf
        found.append(Level(name, len(measured), count, before, float(after[here][measured if count else ...].mean())))
    return found


def implausible(est: Estimate) -> tuple[NDArray[np.int64], float]:
    """The nodes with corrections that noise hardly makes, the largest first, and how many standard deviations it takes.

    A correction's tail is taken to be no heavier than the noise's own; Bonferroni allows for the number of nodes.
    """
    size = np.abs(np.nan_to_num(est.correction))
    chance = FALSE_ALARMS / max(int((size > 0).sum()), 1)
    limit = _limit(est.measurements, chance)
    beyond = np.flatnonzero(size > limit)
    return beyond[np.argsort(-size[beyond], kind="stable")], float(np.min(limit))


def _limit(measured: Measurements, chance: float) -> Floats | float:
    """The standard deviations that the noise exceeds with this chance at most."""
    if measured.shape == "normal":
        return NormalDist().inv_cdf(1 - chance / 2)
    if measured.shape == "laplace":
        return -log(chance) / sqrt(2)
    var = np.where((measured.variance > 0) & (measured.variance < np.inf), measured.variance, 1.0)
    rate = 2 * np.arcsinh(1 / np.sqrt(2 * var))
    whole: Floats = np.ceil(log(2 / chance) / rate)  # P(|X| ≥ k) < 2·exp(−rate·k)
    return whole / np.sqrt(var)


def print_summary(est: Estimate, rows: int, output: str, notes: list[str]) -> None:
    """Prints the summary to standard error, with colours if that is a terminal."""
    from rich.console import Console
    from rich.text import Text

    console = Console(stderr=True, highlight=False, markup=False, emoji=False, soft_wrap=True)
    parts = levels(est)
    console.print(f"{len(est.tree):,} nodes in {len(parts)} level{'s' if len(parts) > 1 else ''}")
    console.print(_table(parts))
    for line in [_fit(est), *(_corrections(est) if est.fit.df else []), *_below_zero(est)]:
        warning = line.startswith("!")
        console.print(Text(line.removeprefix("!"), style="yellow" if warning else ""))
    where = "standard output" if output == "-" else output
    console.print("; ".join([f"{rows:,} rows written to {where}", *notes]))


def _table(parts: list[Level]) -> object:
    from rich.table import Table

    some_missing = any(level.measured < level.nodes for level in parts)
    heads = ["nodes", *(["measured"] if some_missing else []), "noise variance", "estimate variance", "fell by"]
    table = Table(box=None, padding=(0, 1), pad_edge=False)
    table.add_column("level", overflow="fold")
    for head in heads:
        table.add_column(head, justify="right", no_wrap=True)
    for level in parts:
        noise, fell = (figure(level.noise), f"{level.fell:.1%}") if level.measured else ("not measured", "")
        counts = [f"{level.nodes:,}", *([f"{level.measured:,}"] if some_missing else [])]
        table.add_row(level.name, *counts, noise, figure(level.estimate), fell)
    return table


def _fit(est: Estimate) -> str:
    fit = est.fit
    if fit.df == 0:
        return (
            "noise: nothing to judge it by, since no figure is measured twice; estimates of measured rows are as given"
        )
    z = f"z = {fit.z:.1f}"
    if abs(fit.z) <= Z_FINE:
        return f"noise: as much as was claimed ({z})"
    ratio = float(np.sqrt(fit.q / fit.df))
    if fit.z > 0:
        return f"!noise: more than was claimed ({z}): its standard deviation looks like {ratio:.2g} times as much"
    return f"!noise: less than was claimed ({z}): its standard deviation looks like {ratio:.2g} times as much"


def _corrections(est: Estimate) -> list[str]:
    nodes, limit = implausible(est)
    if len(nodes) == 0:
        return [f"corrections: none is implausible (beyond {limit:.1f} standard deviations)"]
    many = f"{len(nodes):,} are" if len(nodes) > 1 else "1 is"
    lines = [f"!corrections: {many} implausible (beyond {limit:.1f} standard deviations):"]
    noisy, blue, correction = est.measurements.noisy, est.blue, est.correction
    lines += [
        f"!  {est.tree.name(v)}: noisy {figure(noisy[v])} → estimate {figure(blue[v])} ({correction[v]:+.1f})"
        for v in map(int, nodes[:LISTED])
    ]
    return lines + (
        [f"!  and {len(nodes) - LISTED:,} more; sort by the column correction"] if len(nodes) > LISTED else []
    )


def _below_zero(est: Estimate) -> list[str]:
    below = 0 if est.nonnegative else int((est.count < 0).sum())
    if below == 0:
        return []
    return [
        f"{below:,} of {len(est.count):,} estimates are below 0; --nonnegative makes counts of them that still add up"
    ]


def figure(x: float) -> str:
    """A number for the eye."""
    return f"{x:,.0f}" if 10_000 <= abs(x) < 1e15 else f"{x:.4g}"
