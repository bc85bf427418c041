"""Change facts: what is told of periods side by side: the answer, each node's verdict, sums, and how they are tested.

The sum of all roots is the root where there is one: the first sentence and the root's row are one verdict.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from attributary.changes import TESTS, Changes, Series
from attributary.changes.what_changed import COUNTS, FELL, GONE, GREW, NEW, NOISE, WithInterval
from attributary.facts import numerals
from attributary.facts.numerals import ISO, PERCENT, Numeral, date_words, few, listed, many, span_words
from attributary.facts.quantity import rate
from attributary.plan import Plan

NAMED = 4  # changes that a sentence names
LISTED = 60  # changes that are listed one by one


class NodeFact(NamedTuple):
    """A node in the last two periods; there is no change where one of them lacks it."""

    name: str
    verdict: str
    now: Numeral
    interval: Numeral
    before: Numeral
    change: Numeral
    rate: list[str]  # conversions per impression, and its interval
    impressions: Numeral


class PeriodFact(NamedTuple):
    """The sum of all roots in a period, and what changed since the one before."""

    name: str
    estimate: Numeral
    interval: Numeral
    change: Numeral
    verdict: str
    calls: list[str]  # how many nodes have which verdict
    noise: Numeral
    doubtful: bool


class ChangeFacts(NamedTuple):
    """What is told of a series, apart from the nodes that did not change."""

    lead: list[str]
    total: NodeFact
    sum: Numeral  # over all periods
    changed: list[NodeFact]  # the surest first
    more: int  # changed nodes that are not listed
    periods: list[PeriodFact]
    method: list[str]


def change_facts(series: Series, plans: list[Plan] | None = None) -> ChangeFacts:
    """The facts of a series; `plans` state what ε was."""
    last, total = series.last, whole(series)
    changed = surest_first(last, np.flatnonzero(last.changed))
    return ChangeFacts(
        lead(series, plans or []),
        node_fact(total, 0, f"All {series.called}"),
        sum_over_periods(total, 0),
        [node_fact(series, node) for node in changed[:LISTED]],
        max(len(changed) - LISTED, 0),
        [period_fact(series, i) for i in range(len(series.periods))],
        method(series),
    )


def whole(series: Series) -> Series:
    """A series whose node 0 is the sum of all roots: of one root, itself, which is then called as its row is."""
    return series if int(series.tree.first[0]) == 1 else series.total


def surest_first(changes: Changes, nodes: Any) -> list[int]:
    return [int(node) for node in sorted(nodes, key=lambda node: changes.chance[node])]


def explanation(test: str) -> str:
    """What a test lets explain a difference, with its verb."""
    return "noise and chance explain" if TESTS[test].poisson else "noise explains"


def lead(series: Series, plans: list[Plan]) -> list[str]:
    """Whether the sum changed, then which nodes of the first level did, in sentences.

    Trouble comes first, and the order of the periods where it is assumed.
    """
    total, last, tree = whole(series).last, series.last, series.tree
    called, names = series.called + TESTS[series.test].per, [date_words(period.name) for period in series.periods]
    since = f"from {date_words(last.before.name)} to {date_words(last.now.name)}"
    shown = change(total, 0).replace("(", f"({share(series.confidence)} interval ", 1)
    said = f"No clear change in {called} {since}: {shown}, which {explanation(series.test)}."
    if total.changed[0]:
        said = f"{called.capitalize()} {total.verdict[0]} {since}: {shown}, more than {explanation(series.test)}."
    doubtful = [name for name, period in zip(names, series.periods, strict=True) if period.doubtful]
    doubt = [f"The noise of {listed(few(doubtful))} is not as stated: doubt these figures."] * bool(doubtful)
    order = f"Periods, oldest first: {listed(few(names))} ({series.order})."
    if len(names) > 2 and all(map(ISO.fullmatch, (period.name for period in series.periods))):
        order = f"{len(names):,} periods: {span_words([period.name for period in series.periods])} ({series.order})."
    lines = [*doubt, order, said] if series.order.startswith("as") else [*doubt, said, order]
    lines += [series.chance] if series.chance != COUNTS else []
    level = min(int(tree.total), tree.depth - 1)
    here = np.arange(len(tree))[tree.slice(level)]
    changed = surest_first(last, here[last.changed[here]])
    tested = int(np.isfinite(last.chance[here]).sum())
    nodes = f"Of {many(tested, 'row')} of {tree.level_names[level]}"
    named = [f"{path(series, node)} {last.verdict[node]}, {change(last, node)}" for node in changed[:NAMED]]
    named += [f"{len(changed) - NAMED:,} more"] * (len(changed) > NAMED)
    number = "none" if not changed else "all" if 1 < len(changed) == tested else f"{len(changed):,}"
    lines.append(f"{nodes}, {number} changed{': ' * bool(named)}{'; '.join(named)}.")
    below = int(last.changed[tree.offsets[level + 1] :].sum())
    lines += [f"Below, {many(below, 'row')} changed."] if below else []
    for verdict in (NEW, GONE):
        names = [path(series, int(node)) for node in here if last.verdict[node] == verdict]
        lines += [f"{verdict.capitalize()}: {listed(few(names))}."] if names else []
    if plans and not series.not_private:
        budgets = " to ".join(numerals.number(e) for e in sorted({plan.spec.epsilon for plan in plans}))
        units = ", or ".join(dict.fromkeys(plan.privacy_words.unit for plan in plans))
        lines.append(f"Privacy budget of each period: ε = {budgets} ({units}).")
    return lines


def change(changes: Changes, node: int) -> Numeral:
    """A change in percent with its interval, or as a difference where percentages make no sense."""
    relative = bool(np.isfinite(changes.relative.low[node]))
    x, low, high = (float(values[node]) for values in (changes.relative if relative else changes.change))
    per = TESTS[changes.test].per

    def shown(x: float) -> str:
        return numerals.signed_percent(x) if per or relative else "+" * (x > 0) + numerals.count(x)

    points = " points" if per and not relative else ""
    value = {"relative" if relative else "difference": x, "low": low, "high": high}
    if np.isinf(low) and np.isinf(high):
        return Numeral("not measured", value)
    return Numeral(f"{shown(x)} ({_between(low, high, shown)}){points}", value)


def share(part: float) -> str:
    """A level of confidence or an error rate."""
    return f"{100 * part:g}{PERCENT}"


def path(series: Series, node: int) -> str:
    """The labels down to a node, by its place in level order."""
    labels = series.tree.path(int(series.tree.at(node)))
    return " › ".join(numerals.short(str(label)) for label in labels) or "total"


def node_fact(series: Series, node: int, name: str = "") -> NodeFact:
    """What is told of a node: its figures in the last two periods, the change, and the verdict."""
    last, verdict = series.last, str(series.last.verdict[node])
    now = WithInterval(*(values[-1] for values in series.course))
    impressions = float(last.now.figures.impressions[node])
    return NodeFact(
        name or path(series, node),
        verdict,
        *estimate_and_interval(now, node),
        count(last.before.figures.mean[node]),
        change(last, node) if verdict in (GREW, FELL, NOISE) else Numeral("", None),
        rate(now.estimate[node], now.low[node], now.high[node], impressions),
        Numeral(numerals.number(impressions), impressions),
    )


def sum_over_periods(series: Series, node: int) -> Numeral:
    """A node's sum over the periods, in a sentence."""
    x, low, high = (count(values[node]) for values in series.interval(series.sum))
    value = {"estimate": x.value, "low": low.value, "high": high.value}
    return Numeral(f"{len(series.periods)} periods together: {x}, between {low} and {high}.", value)


def estimate_and_interval(figures: WithInterval, node: int) -> tuple[Numeral, Numeral]:
    x, low, high = (count(values[node]) for values in figures)
    return x, Numeral(_between(low.value, high.value, numerals.count), [low.value, high.value])


def _between(low: float, high: float, shown: Callable[[float], str]) -> str:
    """An interval; one without an end where parts were not measured."""
    if np.isinf(low) and np.isinf(high):
        return "not measured"
    if np.isinf(high):
        return f"at least {shown(low)}"
    return f"at most {shown(high)}" if np.isinf(low) else f"{shown(low)} to {shown(high)}"


def count(x: float) -> Numeral:
    return Numeral(numerals.count(float(x)), float(x))


def period_fact(series: Series, i: int) -> PeriodFact:
    """What is told of a period: the sum, what changed, what is new or gone, and whether the noise is as stated."""
    period, total = series.periods[i], whole(series)
    figures = estimate_and_interval(WithInterval(*(values[i] for values in total.course)), 0)
    noise = Numeral("not measured twice", "not measured twice")
    if period.fit is not None and period.fit.df > 0:
        more = ", not as stated" * period.doubtful
        noise = Numeral(more[2:] or "as stated", f"z = {period.fit.z:z.1f}{more}")
    if i == 0:
        return PeriodFact(date_words(period.name), *figures, Numeral("", None), "", [], noise, period.doubtful)
    step, of_total = series.steps[i - 1], total.steps[i - 1]
    number = {verdict: int((step.verdict == verdict).sum()) for verdict in (GREW, FELL, NEW, GONE)}
    calls = [f"{n:,} {verdict}" for verdict, n in number.items() if n]
    changed = (change(of_total, 0), str(of_total.verdict[0]))
    return PeriodFact(date_words(period.name), *figures, *changed, calls, noise, period.doubtful)


HYPOTHESIS = (
    "Figures vary by chance, so that two periods differ even where nothing changed and nothing was hidden: the "
    "variance of a difference is that of the noise of both periods, and that of chance."
)
NOISE_ALONE = (
    "A difference has the variance of the noise of both periods. That figures vary by chance, too, is not taken into "
    "account: the test says that the figures of these periods differ, not that anything will last."
)
FALSE_DISCOVERIES = {
    True: "Benjamini and Yekutieli, proven for any dependence of the rows",
    False: "Benjamini and Hochberg: proven for independent or positively dependent rows; rows under one parent are "
    "slightly negatively dependent",
}
RECOMPUTED = (
    "The estimates of some periods are rounded, use a prior or are never negative: their noisy values were denoised "
    "again without that, so that they may differ from those that were published."
)
DEPENDENT = {
    True: "The periods are parts of one table and were made to add up together: the variance of a change or a sum "
    "allows for what they share.",
    False: "A sum over periods has the sum of their variances, as each has noise of its own.",
}
IMPRESSIONS = (
    "Impressions are known exactly; a row below the last attribute known at the impression has those of the row "
    "above, since no impression has such an attribute."
)


def method(series: Series) -> list[str]:
    """How changes are tested and what figures are, in paragraphs."""
    test, wrong = TESTS[series.test], share(series.false_discoveries)
    calls = f"Of the rows called changed in a period, at most {wrong} are expected to be wrong calls, over all rows"
    calls += f" ({FALSE_DISCOVERIES[series.proven]}). A change's interval is of its row alone, so that a row that "
    calls += "could be noise among many may have an interval without 0."
    if int(series.tree.first[0]) > 1:
        calls += f" The sum of all {series.called} is tested by itself, and called changed at a chance of {wrong}."
    figures = ["Figures are unbiased estimates, which may be negative where counts are small."]
    figures += [RECOMPUTED] if any(period.recomputed for period in series.periods) else []
    also = "those of changes for noise and chance" if test.poisson else "so do those of changes"
    figures += [f"Intervals of figures allow for noise alone, {also}."]
    figures += [DEPENDENT[series.whole is not None]]
    figures += [IMPRESSIONS] if np.isfinite(whole(series).sum.impressions[0]) else []
    hypothesis = f"The hypothesis is “{test.words}”. {HYPOTHESIS if test.poisson else NOISE_ALONE} {series.chance}"
    return [hypothesis, calls, " ".join(figures)]
