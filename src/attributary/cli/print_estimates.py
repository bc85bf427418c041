"""print_estimates: what denoising did, in words, for standard error and for --summary."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from attributary import Estimate
from attributary.cli.printing import Out, console, print_table
from attributary.cli.summary_file import fact
from attributary.errors import one_line
from attributary.estimates import Z_FINE, Plausibility, plausibility, suspects
from attributary.facts.numerals import Numeral

Line = tuple[str, str]  # words and their style
PLAIN, WARNING = "", "yellow"
LISTED = 5


class LevelVariance(NamedTuple):
    """The average variance of a level, before and after."""

    name: str
    nodes: int
    measured: int
    noise: float  # average variance of the noise, over its measured nodes
    estimate: float  # average variance of the estimates, over its measured nodes, or over all if there are none

    @property
    def reduction(self) -> float:
        """By which share denoising reduced the variance."""
        return 1 - self.estimate / self.noise if self.noise > 0 else 0.0


def level_variances(est: Estimate) -> list[LevelVariance]:
    """Of each level, top to bottom."""
    tree = est.tree
    noise, after = (tree.to_level_order(v) for v in (est.measurements.variance, est.variance))
    levels = []
    for i, name in enumerate(tree.level_names):
        here = tree.slice(i)
        measured = noise[here] < np.inf
        count = int(measured.sum())
        before = float(noise[here][measured].mean()) if count else np.inf
        variance = float(after[here][measured if count else ...].mean())
        levels.append(LevelVariance(name, len(measured), count, before, variance))
    return levels


def print_estimates(estimates: dict[str, Estimate], rows: int, output: str, notes: list[str]) -> None:
    """Prints what denoising did to each measure, and last where the rows went, to standard error."""
    out = console()
    for name, est in estimates.items():
        if len(estimates) > 1:
            out.print(one_line(f"{name}:"))
        _print(out, name, est)
        if len(estimates) > 1:
            out.print()
    where = "standard output" if output == "-" else output
    apart = ", one per node and measure" if len(estimates) > 1 else ""
    fact("rows", rows)
    out.print("; ".join([f"{rows:,} rows written to {where}{apart}", *notes]))


def print_form(recognised: Sequence[str], doubts: Sequence[str]) -> None:
    """Prints what a table was taken for, and what its figures say against it."""
    from rich.text import Text

    out = console()
    fact("recognised", list(recognised))
    fact("doubts", list(doubts))
    for note in recognised:
        out.print(Text(one_line(f"recognised: {note}")))
    for doubt in doubts:
        out.print(Text(one_line(doubt), WARNING))


def _print(out: Out, name: str, est: Estimate) -> None:
    from rich.text import Text

    levels, doubt = level_variances(est), plausibility(est)
    out.print(f"{len(est.tree):,} nodes in {len(levels)} level{'s' if len(levels) > 1 else ''}")
    _print_levels(out, levels)
    fit = [_fit(doubt)] if est.measurements.freedom is None else []  # an estimated noise level fits by itself
    lines = [*fit, *(_corrections(est, doubt) if doubt.z is not None else []), *_negative(est), *_prior(est)]
    lines += [(est.remark, PLAIN)] if est.remark else []
    for words, style in lines:
        out.print(Text(one_line(words), style))
    fact("estimates", {"measure": name, "nodes": len(est.tree), "levels": levels, **_figures(est, doubt)})


def _figures(est: Estimate, doubt: Plausibility) -> dict[str, Any]:
    """The figures of the lines."""
    return {
        "fit": {"z": doubt.z, "ratio": doubt.ratio},
        "implausible": {
            "nodes": doubt.nodes,
            "threshold": doubt.threshold,
            "worst": suspects(est, doubt.implausible, LISTED)[1],
        },
        "negative": int((est.count < 0).sum()),
        "from_prior": dict(_weights(est)) or None,
    }


def _print_levels(out: Out, levels: list[LevelVariance]) -> None:
    some_missing = any(level.measured < level.nodes for level in levels)
    heads = ["level", "nodes", *(["measured"] if some_missing else [])]
    rows = [[*heads, "noise variance", "estimate variance", "reduction"]]
    for level in levels:
        noise, reduction = Numeral("not measured", None), Numeral("", None)
        if level.measured:
            noise, reduction = figure(level.noise), Numeral(f"{level.reduction:.1%}", level.reduction)
        counts = [f"{level.nodes:,}", *([f"{level.measured:,}"] if some_missing else [])]
        rows.append([one_line(level.name), *counts, noise, figure(level.estimate), reduction])
    print_table(out, rows, space=False)


def _fit(doubt: Plausibility) -> Line:
    if doubt.z is None:
        return "noise level cannot be checked: no figure was measured twice, and all stay as they are", PLAIN
    if abs(doubt.z) <= Z_FINE:
        return f"noise level as stated (z = {doubt.z:z.1f})", PLAIN
    words = f"noise level {'higher' if doubt.z > 0 else 'lower'} than stated (z = {doubt.z:z.1f}): "
    if not 0.1 < doubt.ratio < 10:
        return f"{words}the noise looks far {'larger' if doubt.z > 0 else 'smaller'}; is the scale right?", WARNING
    return f"{words}its standard deviation looks {doubt.ratio:.2g} times the stated one", WARNING


def _corrections(est: Estimate, doubt: Plausibility) -> list[Line]:
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


def _negative(est: Estimate) -> list[Line]:
    below = 0 if est.nonnegative else int((est.count < 0).sum())
    if below == 0:
        return []
    words = f"{below:,} of {len(est.count):,} estimates are negative"
    return [(f"{words} (normal for small noisy counts; --estimator nonnegative)", PLAIN)]


def _prior(est: Estimate) -> list[Line]:
    each = [f"{name} {share:.0%}" for name, share in _weights(est)]
    return [(f"weight of the prior: {', '.join(each)} (estimates are no longer unbiased)", PLAIN)] if each else []


def _weights(est: Estimate) -> list[tuple[str, float]]:
    """The average weight of the prior in the estimates of each level; none without a prior."""
    if est.plain is est:
        return []
    share = est.tree.to_level_order(est.from_prior)
    return [(name, float(share[est.tree.slice(i)].mean())) for i, name in enumerate(est.tree.level_names)]


def figure(x: float) -> Numeral:
    """A number for the eye."""
    return Numeral(f"{x:,.0f}" if 10_000 <= abs(x) < 1e15 else f"{x:.4g}", x)
