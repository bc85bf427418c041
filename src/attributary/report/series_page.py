"""Series page: periods side by side as one HTML file: did it change, or is it noise?"""

from typing import Any

import numpy as np

from attributary import __version__
from attributary.changes import TESTS, Changes, Series
from attributary.changes.change_test import COUNTS
from attributary.changes.what_changed import FELL, GONE, GREW, NEW, WithInterval
from attributary.facts import numerals
from attributary.facts.privacy import not_private, title
from attributary.facts.quantity import rate
from attributary.plan import Plan
from attributary.report.course_svg import course_svg
from attributary.report.page import Page, render
from attributary.report.page_data import cut

NODES = 2_000
NAMED = 4  # changes that a sentence names
LISTED = 60  # changes that are listed one by one


def series_page(
    series: Series, plans: list[Plan] | None = None, nodes: int = NODES, heading: str | None = None
) -> Page:
    """The page, which answers in its first sentence; at most so many `nodes` are in it. `plans` state what ε was."""
    last, tree = series.steps[-1], series.tree
    called = series.called
    kept = cut(tree, np.nan_to_num(series.sum.count), last.changed, nodes)
    changed = sorted(np.flatnonzero(last.changed), key=lambda v: last.chance[v])
    first, final = series.periods[0].name, series.periods[-1].name
    between = f"{final} against {first}" if len(series.steps) == 1 else f"{first} to {final}"
    context: dict[str, Any] = {
        "title": heading or title(tree.level_names, [called]),
        "between": between,
        "lead": lead(series, called, plans or []),
        "not_private": not_private(series.not_private),
        "generated": series.generated,
        "version": __version__,
        "total": _row(series.total, 0, f"All {called}") | {"svg": course_svg(series.total, 0, large=True)},
        "sum": _figure(series.total.interval(series.total.sum), 0),
        "changed": [_row(series, int(v), path(series, int(v))) for v in changed[:LISTED]],
        "more": max(len(changed) - LISTED, 0),
        "periods": [_period(series, i) for i in range(len(series.periods))],
        "tree": _below(series, kept.keep, -1),
        "left": len(tree) - kept.nodes,
        "called": called,
        "test": TESTS[series.test],
        "chance": series.chance,
        "rate": _percent(series.false_discoveries),
        "proven": series.proven,
        "confidence": _percent(series.confidence),
        "dependent": series.whole is not None,
        "recomputed": any(period.recomputed for period in series.periods),
        "impressions": bool(np.isfinite(series.total.sum.impressions).all()),
    }
    return Page(render("series.html.jinja", context, ()), [], len(tree) - kept.nodes, context["lead"])


def lead(series: Series, called: str, plans: list[Plan]) -> list[str]:
    """Whether the whole changed, then what did among the nodes of the first level, in sentences.

    The order of the periods comes first where it is assumed, and what is assumed about chance unless they are counts.
    """
    whole, last, tree = series.total.steps[-1], series.steps[-1], series.tree
    called, since = called + TESTS[series.test].per, f"from {last.before.name} to {last.now.name}"
    shown = change(whole, 0).replace("(", f"({_percent(series.confidence)} interval ", 1)
    explained = "noise and chance explain" if TESTS[series.test].poisson else "noise explains"
    if whole.changed[0]:
        said = [f"{called.capitalize()} {whole.verdict[0]} {since}: {shown}, more than {explained}."]
    else:
        said = [f"No clear change in {called} {since}: {shown}, which {explained}."]
    order = (
        f"Periods, oldest first: {numerals.listed(numerals.few([p.name for p in series.periods]))} ({series.order})."
    )
    said = [order, *said] if series.order.startswith("as") else [*said, order]
    said += [series.chance] if series.chance != COUNTS else []
    level = min(int(tree.total), tree.depth - 1)
    here = np.arange(len(tree))[tree.slice(level)]
    moved = sorted(here[last.changed[here]], key=lambda v: last.chance[v])
    tested = int(np.isfinite(last.chance[here]).sum())
    of = f"Of {tested:,} {tree.level_names[level]} {'node' if tested == 1 else 'nodes'}, {len(moved) or 'none'} changed"
    named = [f"{path(series, int(v))} {last.verdict[v]}, {change(last, int(v))}" for v in moved[:NAMED]]
    named += [f"{len(moved) - NAMED:,} more"] * (len(moved) > NAMED)
    said.append(f"{of}: {'; '.join(named)}." if moved else f"{of}.")
    below = int(last.changed[tree.offsets[level + 1] :].sum())
    said += [f"Below, {numerals.many(below, 'node')} changed."] if below else []
    for verdict in (NEW, GONE):
        some = [path(series, int(v)) for v in here if last.verdict[v] == verdict]
        said += [f"{verdict.capitalize()}: {numerals.listed(numerals.few(some))}."] if some else []
    odd = [period.name for period in series.periods if period.doubtful]
    said += [f"The noise of {numerals.listed(numerals.few(odd))} is not as stated: doubt these figures."] if odd else []
    if plans and not series.not_private:
        budgets = " to ".join(numerals.number(e) for e in sorted({plan.spec.epsilon for plan in plans}))
        units = ", or ".join(dict.fromkeys(plan.privacy_words.unit for plan in plans))
        said.append(f"Privacy budget of each period: ε = {budgets} ({units}).")
    return said


def change(changes: Changes, node: int) -> str:
    """A change in percent with its interval, or as a difference where percentages make no sense."""
    figures = changes.relative if np.isfinite(changes.relative.low[node]) else changes.change
    per = TESTS[changes.test].per
    shown = numerals.signed_percent if per or figures is changes.relative else _signed
    x, low, high = (shown(float(values[node])) for values in figures)
    return f"{x} ({low} to {high})" + (" points" if per and figures is changes.change else "")


def _signed(x: float) -> str:
    return f"+{numerals.count(x)}" if x > 0 else numerals.count(x)


def _percent(part: float) -> str:
    return f"{100 * part:g}{numerals.PERCENT}"


def path(series: Series, node: int) -> str:
    """The labels down to a node, by its place in level order."""
    labels = series.tree.path(node if series.tree.order is None else int(series.tree.order[node]))
    return " › ".join(numerals.short(str(label)) for label in labels) or "total"


def _row(series: Series, node: int, name: str) -> dict[str, Any]:
    """What a line says of a node: its figures of the last two periods, the change, and the course."""
    last = series.steps[-1]
    seen = float(last.now.figures.impressions[node])
    now = WithInterval(*(values[-1] for values in series.course))
    verdict = str(last.verdict[node])
    return {
        "name": name,
        "now": numerals.count(now.estimate[node]),
        "interval": _figure(now, node)["interval"],
        "before": numerals.count(last.before.figures.count[node]),
        "change": change(last, node) if verdict not in (NEW, GONE, "") else "",
        "verdict": verdict,
        "kind": {GREW: "grew", FELL: "fell"}.get(verdict, "same"),
        "rate": rate(now.estimate[node], now.low[node], now.high[node], seen),
        "seen": numerals.number(seen),
        "svg": course_svg(series, node),
        "below": [],
    }


def _figure(figures: WithInterval, node: int) -> dict[str, str]:
    x, low, high = (numerals.count(float(values[node])) for values in figures)
    return {"estimate": x, "interval": f"{low} to {high}"}


def _below(series: Series, keep: np.ndarray, parent: int) -> list[dict[str, Any]]:
    """The rows under a node, -1 for the roots, each with those under it."""
    tree = series.tree
    rows = (
        np.arange(int(tree.first[0])) if parent < 0 else np.arange(int(tree.first[parent]), int(tree.first[parent + 1]))
    )
    order = sorted(rows[keep[rows]], key=lambda v: -np.nan_to_num(series.periods[-1].figures.count[v]))
    return [
        _row(series, int(v), path(series, int(v)).rsplit(" › ", 1)[-1]) | {"below": _below(series, keep, int(v))}
        for v in order
    ]


def _period(series: Series, i: int) -> dict[str, Any]:
    """The line of a period: the whole, what changed, what is new or gone, and whether the noise is as stated."""
    period, total = series.periods[i], series.total
    row = {
        "name": period.name,
        **_figure(WithInterval(*(values[i] for values in total.course)), 0),
        "z": "not measured twice",
    }
    if period.fit is not None and period.fit.df > 0:
        row["z"] = f"z = {period.fit.z:z.1f}" + (", not as stated" if period.doubtful else "")
    if not i:
        return row | {"change": "", "calls": [], "doubtful": period.doubtful}
    step, whole = series.steps[i - 1], total.steps[i - 1]
    calls = [
        f"{int((step.verdict == word).sum()):,} {word}"
        for word in (GREW, FELL, NEW, GONE)
        if (step.verdict == word).any()
    ]
    return row | {"change": change(whole, 0), "calls": calls, "doubtful": period.doubtful, "kind": whole.verdict[0]}
