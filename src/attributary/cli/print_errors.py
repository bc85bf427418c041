"""Print errors: the best methods of an evaluation table, to standard error."""

from collections.abc import Iterable
from typing import Any

from attributary.cli.printing import console, print_table
from attributary.evaluate.comparison import Evaluation, Panel, best_panels, panels, tree_errors
from attributary.evaluate.methods import ZEROS
from attributary.facts.numerals import Numeral, percent
from attributary.spec.measure import COUNT


def print_errors(evaluation: Evaluation) -> None:
    """Prints the error of every method and, where the paper's greedy method was tried, its best method beside ours.

    Where limits were tried, prints the best method for each kind of them instead.
    """
    _print_limits(evaluation.table)
    print_panels(() if "limits" in evaluation.table.column_names else panels(evaluation.table))
    print_panels(best_panels(evaluation))


def print_panels(tables: Iterable[Panel]) -> None:
    """Prints tables, each under its caption."""
    out = console()
    for caption, heads, rows in tables:
        out.print(caption)
        print_table(out, [list(heads), *map(list, rows)])
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
    return [*line, Numeral(f"{most:.3g}", most), *(Numeral(f"{clip:,.2f}", clip) for clip in clips)]
