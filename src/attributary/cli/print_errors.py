"""Print errors: the best methods of an evaluation table, to standard error."""

from typing import Any

import numpy as np

from attributary.cli.printing import PrintedFigure, change, console, percent, print_table
from attributary.evaluate.comparison import Best, Evaluation, beside, best, panels, tree_errors
from attributary.evaluate.methods import GREEDY, ZEROS
from attributary.spec.measure import COUNT

SMALL = 1e-4  # an error that is as good as none


def print_errors(evaluation: Evaluation) -> None:
    """Prints the error of every method and, where the paper's greedy method was tried, its best method beside ours.

    Where limits were tried, prints the best method for each kind of them instead.
    """
    table, out = evaluation.table, console()
    _print_limits(table)
    for caption, heads, rows in () if "limits" in table.column_names else panels(table):
        out.print(caption)
        print_table(out, [list(heads), *map(list, rows)])
        out.print()
    _print_best(best(evaluation))


def _print_best(compared: list[Best]) -> None:
    by_panel: dict[Any, list[list[str]]] = {}
    limits = any(row.limit > 0 for row in compared)
    for row in compared:
        small = max(row.paper, row.ours) < SMALL
        words = [f"{row.epsilon:g}", f"{row.paper:.4f}", row.paper_method, f"{row.ours:.4f}", row.our_method]
        sure = "" if np.isnan(row.change_error) else f" ± {100 * row.change_error:.1f}"
        words += ["" if small else change(row.ours, row.paper) + sure, f"{row.zeros:.4f}"]
        words += [f"{row.limit:.4f}"] * limits
        by_panel.setdefault(row[:4], []).append(words)
    out = console()
    for (dataset, tree, noise, tau), rows in by_panel.items():
        out.print(f"{dataset}, {tree}: the paper's best and ours, {noise} noise, tau = {tau:g}")
        heads = ["epsilon", "paper's best", "method", "our best", "method", "change", "zeros", *["limit"] * limits]
        print_table(out, [heads, *rows])
        out.print()


def _print_limits(table: Any) -> None:
    """The method of least error over all measures under each kind of limits, and its errors of each measure."""
    by_panel: dict[Any, dict[str, list[dict[str, Any]]]] = {}
    for row in tree_errors(table):
        if row.get("limits") is None:
            continue
        panel = by_panel.setdefault(tuple(row[name] for name in ("dataset", "tree", "noise", "tau", "epsilon")), {})
        panel.setdefault(ZEROS if row["method"] == ZEROS else row["limits"], []).append(row)
    out = console()
    for (dataset, tree, noise, tau, epsilon), limits in by_panel.items():
        names = list(dict.fromkeys(row["measure"] for rows in limits.values() for row in rows if row["measure"]))
        values = [name for name in names if name != COUNT]
        heads = ["limits", "method", *(["together"] if len(names) > 1 else [])]
        heads += [head for name in names for head in (name, "cut off")]
        more = ["m", *(f"{name} clip" if len(values) > 1 else "clip" for name in values)]
        lines = [_line(rows, names, values) for rows in limits.values()]
        out.print(f"{dataset}, {tree}: tree error under {noise} noise, tau = {tau:g}, epsilon = {epsilon:g}")
        print_table(out, [[*heads, *more], *lines], len(heads))
        out.print()


def _line(rows: list[dict[str, Any]], names: list[str], values: list[str]) -> list[str]:
    whole = None if len(names) > 1 else names[0]
    least = min((row for row in rows if row["measure"] == whole), key=lambda row: row["rmsre"])
    by_measure = {row["measure"]: row for row in rows if row["method"] == least["method"]}
    line = [least["limits"], least["method"], *([percent(least["rmsre"])] if whole is None else [])]
    line += [percent(by_measure[name][column]) for name in names for column in ("rmsre", "bias")]
    most = least["conversions_per_impression"]
    clips = [by_measure[name]["clip"] for name in values]
    return [*line, PrintedFigure(f"{most:.3g}", most), *(PrintedFigure(f"{clip:,.2f}", clip) for clip in clips)]


def print_stated(evaluation: Evaluation) -> None:
    """Prints the figures that the paper states beside those of this run."""
    stated = beside(evaluation)
    if not stated:
        return
    rows = [["tree", "tau", "noise", "the paper", GREEDY, "our best", "method"]]
    for row in stated:
        figures = (f"{row.stated:.2f}", f"{row.greedy:.3f}", f"{row.ours:.3f}", row.our_method)
        rows += [[f"{row.dataset}, {row.tree}", f"{row.tau:g}", row.noise, *figures]]
    out = console()
    out.print(f"stated by the paper at epsilon = 4, and on {'generated' if stated[0].generated else 'these'} rows")
    print_table(out, rows)
    out.print()
