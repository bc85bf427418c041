"""Evaluation: the table of errors, and in it the paper's best method beside ours, and the paper's stated figures."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from attributary import __version__
from attributary.errors import InputError
from attributary.evaluate.methods import GREEDY, ZEROS, whose
from attributary.html import html_table
from attributary.report.chart import drawn_as
from attributary.report.evaluation_curves import figure, read_evaluation

Row = dict[str, Any]
SURE = 5e-4  # of an error: a change that is shown
VAGUE = 0.1  # a standard error, as a share of the error
NOTHING = 1e-6  # what rounding alone may leave of an error
STATED_EPSILON = 4.0
STATED: dict[
    tuple[str, str, float], float
] = {  # figures of the paper's text, of greedy-unbiased at that epsilon, by dataset, tree and tau
    ("csscl", "depth 5", 10): 0.10,
    ("csscl", "depth 4", 5): 0.17,
    ("camb", "depth 4", 10): 0.19,
    ("camb", "depth 3", 5): 0.20,
    ("camb", "depth 3", 10): 0.12,
}


class Best(NamedTuple):
    """The least tree error among the paper's methods and among the others, for one tree at one ε and τ."""

    dataset: str
    tree: str
    noise: str
    tau: float
    epsilon: float
    paper_method: str
    paper: float
    our_method: str
    ours: float
    zeros: float  # the error of answering 0 everywhere; nan where it is not in the table
    limit: float  # the least error of any method on a generated forest, where it was tried; else nan
    change: float  # our error relative to the paper's, minus 1: on the same draws, where ours is simulated
    change_error: float  # the paired standard error of the change; nan where both errors are exact


class Beside(NamedTuple):
    """A figure that the paper states, and the same on these rows."""

    dataset: str
    tree: str
    noise: str
    tau: float
    epsilon: float
    stated: float
    greedy: float  # the method that the paper's figure is of
    our_method: str
    ours: float
    generated: bool


def tree_errors(table: Any) -> list[Row]:
    """The tree errors of an evaluation table, one for each method: the exact one, or else the simulated one."""
    rows = [row for row in table.to_pylist() if row["level"] is None]
    exact = {_point(row) for row in rows if row["kind"] == "exact"}
    return [row for row in rows if row["kind"] == "exact" or _point(row) not in exact]


def best(evaluation: "Evaluation") -> list[Best]:
    """The best of both at every point where there are both, the paper's greedy among them; limits are left out.

    A simulated error whose standard error is above a tenth of it is not taken, nor one that is as good as 0: where
    mistakes are rare, few draws may have had none.
    """
    points: dict[Any, list[Row]] = {}
    for row in filter(_sure, tree_errors(evaluation.table)):
        if row.get("limits") is not None:
            continue
        points.setdefault(_point(row)[:-1], []).append(row)
    every = []
    for point, rows in points.items():
        sides: dict[str, list[Row]] = {"paper": [], "ours": [], "baseline": []}
        for row in rows:
            sides[whose(row["method"])].append(row)
        if sides["ours"] and GREEDY in {row["method"] for row in sides["paper"]}:
            paper, ours = (min(sides[side], key=lambda row: row["rmsre"]) for side in ("paper", "ours"))
            known = {row["method"]: row["rmsre"] for row in sides["baseline"]}
            zeros = known.pop(ZEROS, float("nan"))
            limit = min(known.values(), default=float("nan"))
            found = (paper["method"], paper["rmsre"], ours["method"], ours["rmsre"], zeros, limit)
            change = (ours["rmsre"] / paper["rmsre"] - 1 if paper["rmsre"] > 0 else 0.0, float("nan"))
            draws = [evaluation.squared(row) for row in (ours, paper)]
            if "simulated" in (ours["kind"], paper["kind"]) and all(draws):
                change = paired(*draws)
            every.append(Best(*(*point, *found, *change)))
    return every


def paired(draws: Any, against: Any) -> tuple[float, float]:
    """The change of the error against another's on the same draws (−0.1: a tenth less), and its standard error.

    Squared errors of draws go up and down together, so that the difference is known far better than either.
    """
    one, other = np.asarray(draws, np.float64), np.asarray(against, np.float64)
    if not (one.mean() > 0 and other.mean() > 0):
        return (0.0 if one.mean() == other.mean() else float(np.sign(one.mean() - other.mean()))), 0.0
    ratio = float(np.sqrt(one.mean() / other.mean()))
    influence = ratio / 2 * (one / one.mean() - other / other.mean())
    return ratio - 1, float(influence.std(ddof=1) / np.sqrt(len(one)))


def beside(evaluation: "Evaluation") -> list[Beside]:
    """The paper's stated figures, where the table has their points."""
    errors = {_point(row): row for row in tree_errors(evaluation.table)}
    figures = []
    for our in best(evaluation):
        figure = STATED.get((our.dataset, our.tree, our.tau))
        greedy = errors.get((*our[:5], GREEDY))
        if figure is not None and greedy is not None and our.epsilon == STATED_EPSILON:
            figures.append(Beside(*our[:5], figure, greedy["rmsre"], our.our_method, our.ours, greedy["generated"]))
    return figures


def _sure(row: Row) -> bool:
    if row["kind"] == "exact":
        return True
    return bool(row["rmsre"] > NOTHING and (row["standard_error"] or 0.0) < VAGUE * row["rmsre"])


def _point(row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in ("dataset", "tree", "noise", "tau", "epsilon", "method"))


KEYS = ("dataset", "tree", "measure", "limits", "method", "noise", "epsilon", "tau", "level")


def keys(table: Any) -> list[str]:
    """The columns that say what a row is of."""
    return [name for name in KEYS if name in table.column_names]


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The Arrow `table` of errors: a row for each method, ε, τ and level, and one for the tree, whose level is null.

    Whatever reads Arrow reads it: `pa.table(evaluation)`, `polars.DataFrame(evaluation)`. `draws` has the squared error
    of every draw of noise, for each simulated row.
    """

    table: Any
    draws: Any = None

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.table.__arrow_c_stream__(requested_schema)

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def __repr__(self) -> str:
        methods = self.table.column("method").unique()
        return f"Evaluation({len(self):,} errors of {len(methods)} methods)"

    def equals(self, other: "Evaluation") -> bool:
        """Whether the tables are the same to the last digit."""
        return bool(self.table.equals(other.table))

    def to_pylist(self) -> list[dict[str, Any]]:
        """The rows as dictionaries."""
        rows: list[dict[str, Any]] = self.table.to_pylist()
        return rows

    @property
    def _by_point(self) -> dict[tuple[Any, ...], list[float]]:
        names = keys(self.table)
        rows = [] if self.draws is None else self.draws.to_pylist()
        return {tuple(row[name] for name in names): row["squared"] for row in rows}

    def squared(self, row: Row) -> list[float]:
        """The squared errors of a row's draws; none where nothing was drawn."""
        return self._by_point.get(tuple(row[name] for name in keys(self.table)), [])

    def compare(self, method: str, against: str) -> list[Row]:
        """How much larger or smaller a method's error is than another's, at every point where both were simulated.

        `change` is relative (−0.1: a tenth less), and `standard_error` is that of the paired difference: both met the
        same draws of noise.
        """
        points, names, found = self._by_point, keys(self.table), []
        place = names.index("method")
        for name in (method, against):
            if not any(point[place] == name for point in points):
                known = ", ".join(dict.fromkeys(str(point[place]) for point in points)) or "none"
                raise InputError(f"methods with draws are {known}; got {name!r}")
        for point, draws in points.items():
            other = points.get((*point[:place], against, *point[place + 1 :]))
            if point[place] == method and other is not None:
                change, error = paired(draws, other)
                found.append(dict(zip(names, point, strict=True)) | {"change": change, "standard_error": error})
        return found

    def figure(self, dataset: str | None = None, noise: str | None = None) -> dict[str, Any]:
        """The tree errors of all methods, by ε, as a Vega-Lite chart: a panel for each tree and τ."""
        shown = self.table.from_pylist(tree_errors(self.table), self.table.schema)
        points = read_evaluation(shown, "the evaluation")
        points = [p for p in points if dataset in (None, p.dataset) and noise in (None, p.noise)]
        if not points:
            raise InputError(f"there are no errors of dataset {dataset!r} under noise {noise!r}; choose others")
        return figure(points, {p.method: whose(p.method) for p in points})

    def save_figure(self, path: str, dataset: str | None = None, noise: str | None = None) -> None:
        """Writes the figure to a file, as its name says: .pdf, .svg or .png."""
        from attributary.whole_files import save

        save(drawn_as(self.figure(dataset, noise), os.path.splitext(path)[1].removeprefix(".")), path)

    def latex(self) -> str:
        """The tree errors as LaTeX tables, of the package booktabs; standard errors of simulated ones behind ±."""
        return "\n".join(_latex(*panel) for panel in panels(self.table, spread=True))

    def _repr_html_(self) -> str:
        """The tree errors: a table for each tree, noise model and τ, a row for each method, a column for each ε.

        Measures have tables of their own, in which a method has a row for all limits that it was tried under.
        """
        return "".join(html_table(*panel) for panel in panels(self.table))


Panel = tuple[str, tuple[str, ...], list[tuple[str, ...]]]


def panels(table: Any, spread: bool = False) -> Iterator[Panel]:
    """For each tree, noise model and τ: a caption, heads, and a row for each method with its tree error at every ε."""
    methods_of: dict[str, dict[tuple[str, str], dict[float, str]]] = {}
    for row in tree_errors(table):
        limits = row.get("limits")
        tree = row["tree"] if limits is None else f"{row['tree']}, {row['measure'] or 'all measures'}"
        caption = f"{row['dataset']}, {tree}: tree error under {row['noise']} noise, τ = {row['tau']:g}"
        key = row["method"] if limits is None else f"{row['method']}, {limits}"
        error, sure = f"{row['rmsre']:.4f}", row["standard_error"]
        shown = f"{error} ± {sure:.4f}" if spread and sure is not None else error
        title = row.get("title") or row["method"]
        named = (title if limits is None else f"{title}, {limits}", key)
        methods_of.setdefault(caption, {}).setdefault(named, {})[row["epsilon"]] = shown
    for caption, methods in methods_of.items():
        epsilons = sorted({epsilon for errors in methods.values() for epsilon in errors})
        rows = [(name, *(of.get(e, "") for e in epsilons), key) for (name, key), of in methods.items()]
        yield caption, ("method", *(f"ε = {epsilon:g}" for epsilon in epsilons), "name"), rows


SYMBOLS = {letter: f"\\{letter}" for letter in "&%_#${}"} | {
    "\\": r"\textbackslash{}",
    "^": r"\^{}",
    "~": r"\~{}",
    ">": "$>$",
    "<": "$<$",
    "|": "$|$",
    '"': "''",
    "ε": r"$\varepsilon$",
    "τ": r"$\tau$",
    "±": r"$\pm$",
    "−": "$-$",
}


def _latex(caption: str, heads: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    def line(cells: tuple[str, ...]) -> str:
        return " & ".join(map(_escaped, cells[:-1])) + r" \\"  # the names are for commands

    body = "\n".join(map(line, rows))
    columns = "l" + "r" * (len(heads) - 2)
    return (
        "\\begin{table}\n\\caption{" + _escaped(caption) + "}\n\\begin{tabular}{" + columns + "}\n\\toprule\n"
        f"{line(heads)}\n\\midrule\n{body}\n\\bottomrule\n\\end{{tabular}}\n\\end{{table}}\n"
    )


def _escaped(text: str) -> str:
    return "".join(SYMBOLS.get(letter, letter) for letter in text)


SMALL = 1e-4  # an error that is as good as none


def best_panels(evaluation: Evaluation) -> Iterator[Panel]:
    """For each tree, noise model and τ, the paper's best method beside ours at every ε."""
    compared = best(evaluation)
    by_panel: dict[Any, list[tuple[str, ...]]] = {}
    limits = any(row.limit > 0 for row in compared)
    for row in compared:
        sure = "" if np.isnan(row.change_error) else f" ± {100 * row.change_error:.1f}"
        by = "–" if abs(row.change) < SURE else f"{row.change:+,.1%}".replace("-", "−")
        words = (f"{row.epsilon:g}", f"{row.paper:.4f}", row.paper_method, f"{row.ours:.4f}", row.our_method)
        change = "" if max(row.paper, row.ours) < SMALL else by + sure
        cells = (*words, change, f"{row.zeros:.4f}", *[f"{row.limit:.4f}"] * limits)
        by_panel.setdefault(row[:4], []).append(cells)
    heads = ("epsilon", "paper's best", "method", "our best", "method", "change", "zeros", *["limit"] * limits)
    for (dataset, tree, noise, tau), rows in by_panel.items():
        yield f"{dataset}, {tree}: the paper's best and ours, {noise} noise, tau = {tau:g}", heads, rows


def stated_panels(evaluation: Evaluation) -> Iterator[Panel]:
    """The figures that the paper states beside those of this run, if it has any of them."""
    stated, rows = beside(evaluation), list[tuple[str, ...]]()
    for row in stated:
        figures = (f"{row.stated:.2f}", f"{row.greedy:.3f}", f"{row.ours:.3f}", row.our_method)
        rows.append((f"{row.dataset}, {row.tree}", f"{row.tau:g}", row.noise, *figures))
    if stated:
        on = "generated" if stated[0].generated else "these"
        heads = ("tree", "tau", "noise", "the paper", GREEDY, "our best", "method")
        yield f"stated by the paper at epsilon = {STATED_EPSILON:g}, and on {on} rows", heads, rows


POOLED = {
    "nodes": "Nodes of all roots are pooled level by level.",
    "roots": "Each root has its own error, and the figure is their root mean square.",
}


def page(evaluation: Evaluation, title: str) -> str:
    """The page of an evaluation: its figures, what the paper states, and the paper's best method beside ours."""
    from attributary.report.page import render

    rows = evaluation.to_pylist()
    pairs = dict.fromkeys((row["dataset"], row["noise"]) for row in rows)
    context = {
        "title": title,
        "generated": any(row["generated"] for row in rows),
        "pooled": POOLED[rows[0]["pool"]],
        "draws": max(row["draws"] for row in rows),
        "charts": [drawn_as(evaluation.figure(*pair), "svg").decode() for pair in pairs],
        "tables": [*stated_panels(evaluation), *best_panels(evaluation)],
        "version": __version__,
    }
    return render("evaluation.html.jinja", context, ())
