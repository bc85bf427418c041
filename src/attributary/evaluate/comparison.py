"""Evaluation: the table of errors and what can be made of it: differences of methods, figures and tables."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from attributary.errors import InputError
from attributary.facts.evaluation import Point, error_tables, method_tables, paired, read_evaluation, tree_errors
from attributary.html import html_table
from attributary.report.charts import Chart, VegaLite, alone, to_file
from attributary.report.curves import chart
from attributary.types import Arrow, Record

WIDE = 760  # of a figure

KEYS = ("dataset", "tree", "measure", "limits", "method", "noise", "epsilon", "tau", "level")


def keys(table: Arrow) -> list[str]:
    """The columns that say what a row is of."""
    return [name for name in KEYS if name in table.column_names]


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The Arrow `table` of errors: a row for each method, ε, τ and level, and one for the tree, whose level is null.

    Whatever reads Arrow reads it: `pa.table(evaluation)`, `polars.DataFrame(evaluation)`. `draws` has the squared error
    of every draw of noise, for each simulated row.
    """

    table: Arrow
    draws: Any = None

    def __arrow_c_stream__(self, requested_schema: object = None) -> Any:
        return self.table.__arrow_c_stream__(requested_schema)

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def __repr__(self) -> str:
        methods = self.table.column("method").unique()
        return f"Evaluation({len(self):,} errors of {len(methods)} methods)"

    def equals(self, other: "Evaluation") -> bool:
        """Whether the tables are the same to the last digit."""
        return bool(self.table.equals(other.table))

    def to_pylist(self) -> list[Record]:
        """The rows as dictionaries."""
        rows: list[Record] = self.table.to_pylist()
        return rows

    @cached_property
    def _by_point(self) -> dict[tuple[object, ...], list[float]]:
        names = keys(self.table)
        rows = [] if self.draws is None else self.draws.to_pylist()
        return {tuple(row[name] for name in names): row["squared"] for row in rows}

    @property
    def points(self) -> list[Point]:
        """The errors as values, one for each row."""
        return read_evaluation(self.table, "the evaluation")

    def squared(self, point: Point) -> list[float]:
        """The squared errors of an error's draws; none where nothing was drawn."""
        return self._by_point.get(tuple(getattr(point, name) for name in keys(self.table)), [])

    def compare(self, method: str, against: str) -> list[Record]:
        """How much larger or smaller a method's error is than another's, at every point where both were simulated.

        `change` is relative (−0.1: a tenth less), and `standard_error` is that of the paired difference: both met the
        same draws of noise.
        """
        points, names, found = self._by_point, keys(self.table), []
        place = names.index("method")
        for name in (method, against):
            if not any(point[place] == name for point in points):
                with_draws = ", ".join(dict.fromkeys(str(point[place]) for point in points)) or "none"
                raise InputError(f"methods with draws are {with_draws}; got {name!r}")
        for point, draws in points.items():
            other = points.get((*point[:place], against, *point[place + 1 :]))
            if point[place] == method and other is not None:
                change, error = paired(draws, other)
                found.append(dict(zip(names, point, strict=True)) | {"change": change, "standard_error": error})
        return found

    def chart(self, dataset: str | None = None, noise: str | None = None) -> Chart:
        """The tree errors of all methods: a panel for each tree and τ."""
        points = [p for p in tree_errors(self.points) if dataset in (None, p.dataset) and noise in (None, p.noise)]
        if not points:
            raise InputError(f"there are no errors of dataset {dataset!r} under noise {noise!r}; choose others")
        return chart(points)

    def figure(self, dataset: str | None = None, noise: str | None = None) -> VegaLite:
        """The chart as a Vega-Lite specification."""
        return alone(self.chart(dataset, noise), WIDE)

    def save_figure(self, path: str, dataset: str | None = None, noise: str | None = None) -> None:
        """Writes the chart to a file, as its name says: .pdf, .svg or .png."""
        from attributary.whole_files import save

        save(to_file(self.chart(dataset, noise), os.path.splitext(path)[1].removeprefix("."), WIDE), path)

    def latex(self) -> str:
        """The tree errors as LaTeX tables, of the package booktabs; standard errors of simulated ones behind ±."""
        return "\n".join(_latex(*table[:3]) for table in method_tables(tree_errors(self.points), _exact))

    def _repr_html_(self) -> str:
        """The tree errors: a table for each tree, noise model and τ, a row for each method, a column for each ε.

        Where limits were tried, there is a row for each kind of them with the best method.
        """
        return "".join(html_table(*table[:3]) for table in error_tables(self.points))


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


def _latex(caption: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    def line(cells: Sequence[str]) -> str:
        return " & ".join(_escaped(cell) for cell in cells[:-1]) + r" \\"  # the names are for commands

    body = "\n".join(map(line, rows))
    columns = "l" + "r" * (len(heads) - 2)
    return (
        "\\begin{table}\n\\caption{" + _escaped(caption) + "}\n\\begin{tabular}{" + columns + "}\n\\toprule\n"
        f"{line(heads)}\n\\midrule\n{body}\n\\bottomrule\n\\end{{tabular}}\n\\end{{table}}\n"
    )


def _exact(p: Point) -> str:
    """An error as papers print it: 0.0701 ± 0.0003."""
    return f"{p.rmsre:.4f}" + (f" ± {p.standard_error:.4f}" if p.standard_error >= 0 else "")


def _escaped(text: str) -> str:
    return "".join(SYMBOLS.get(letter, letter) for letter in text)
