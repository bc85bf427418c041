"""summary: what denoising did, in words, for standard error."""

from typing import Any, NamedTuple

import numpy as np

from attributary.cli.printing import one_line
from attributary.denoising import Estimate
from attributary.denoising.prediction import Prediction
from attributary.estimates import Z_FINE, plausibility, suspects

Line = tuple[str, str]  # words and their style
PLAIN, WARNING = "", "yellow"
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


def print_measures(measures: dict[str, Estimate], rows: int, output: str, notes: list[str]) -> None:
    """Prints the summary of each measure, and last where the rows went."""
    from rich.console import Console

    console = Console(stderr=True, highlight=False, markup=False, emoji=False, soft_wrap=True)
    for name, est in measures.items():
        console.print(one_line(f"{name}:"))
        _print(console, est)
        console.print()
    where = "standard output" if output == "-" else output
    console.print("; ".join([f"{rows:,} rows written to {where}, told apart by measure", *notes]))


def print_summary(est: Estimate, rows: int, output: str, notes: list[str]) -> None:
    """Prints the summary to standard error, with colours if that is a terminal."""
    from rich.console import Console

    console = Console(stderr=True, highlight=False, markup=False, emoji=False, soft_wrap=True)
    _print(console, est)
    where = "standard output" if output == "-" else output
    console.print("; ".join([f"{rows:,} rows written to {where}", *notes]))


def _print(console: Any, est: Estimate) -> None:
    from rich.text import Text

    parts = levels(est)
    console.print(f"{len(est.tree):,} nodes in {len(parts)} level{'s' if len(parts) > 1 else ''}")
    console.print(_table(parts))
    for words, style in [_fit(est), *(_corrections(est) if est.fit.df else []), *_below_zero(est), *_expected(est)]:
        console.print(Text(one_line(words), style))


def _table(parts: list[Level]) -> object:
    from rich.table import Table

    some_missing = any(level.measured < level.nodes for level in parts)
    heads = ["nodes", *(["measured"] if some_missing else []), "noise variance", "estimate variance", "reduction"]
    table = Table(box=None, padding=(0, 1), pad_edge=False)
    table.add_column("level", overflow="fold")
    for head in heads:
        table.add_column(head, justify="right", no_wrap=True)
    for level in parts:
        noise, fell = (figure(level.noise), f"{level.fell:.1%}") if level.measured else ("not measured", "")
        counts = [f"{level.nodes:,}", *([f"{level.measured:,}"] if some_missing else [])]
        table.add_row(one_line(level.name), *counts, noise, figure(level.estimate), fell)
    return table


def _fit(est: Estimate) -> Line:
    fit = est.fit
    if fit.df == 0:
        return "noise level cannot be checked: no figure was measured twice, and all stay as they are", PLAIN
    if abs(fit.z) <= Z_FINE:
        return f"noise level as stated (z = {fit.z:.1f})", PLAIN
    ratio = float(np.sqrt(fit.q / fit.df))
    words = f"noise level {'higher' if fit.z > 0 else 'lower'} than stated (z = {fit.z:.1f}): "
    if not 0.1 < ratio < 10:
        return f"{words}the noise looks far {'larger' if fit.z > 0 else 'smaller'}; is the scale right?", WARNING
    return f"{words}its standard deviation looks {ratio:.2g} times the stated one", WARNING


def _corrections(est: Estimate) -> list[Line]:
    doubt = plausibility(est)
    beyond = f"threshold {doubt.threshold:.1f} standard deviations"
    if not doubt.nodes:
        return [(f"no implausible correction ({beyond})", PLAIN)]
    number, worst = suspects(est, doubt.implausible, LISTED)
    lines = [f"implausible corrections: {doubt.nodes:,} ({beyond}):"]
    lines += [
        f"  {name}: noisy {figure(noisy)} → estimate {figure(estimate)} ({correction:+.1f})"
        for name, noisy, estimate, correction in worst
    ]
    more = number - len(worst)
    lines += [f"  and {more:,} more; see the column correction"] if more else []
    return [(line, WARNING) for line in lines]


def _below_zero(est: Estimate) -> list[Line]:
    below = 0 if est.nonnegative else int((est.count < 0).sum())
    if below == 0:
        return []
    words = f"{below:,} of {len(est.count):,} estimates are negative"
    return [(f"{words} (normal for small noisy counts; --nonnegative gives none)", PLAIN)]


def _expected(est: Estimate) -> list[Line]:
    if not isinstance(est, Prediction):
        return []
    share = est.tree.to_level_order(est.from_prior)
    each = [f"{name} {share[est.tree.slice(i)].mean():.0%}" for i, name in enumerate(est.tree.level_names)]
    return [(f"weight of the prior: {', '.join(each)} (estimates are no longer unbiased)", PLAIN)]


def figure(x: float) -> str:
    """A number for the eye."""
    return f"{x:,.0f}" if 10_000 <= abs(x) < 1e15 else f"{x:.4g}"
