"""Evaluation: a table of errors, which shows itself in notebooks."""

from dataclasses import dataclass
from typing import Any

from attributary.evaluate.compare import tree_errors
from attributary.html import html_table


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The Arrow `table` of errors: a row for each method, ε, τ and level, and one for the tree, whose level is null.

    Whatever reads Arrow reads it: `pa.table(evaluation)`, `polars.DataFrame(evaluation)`.
    """

    table: Any

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.table.__arrow_c_stream__(requested_schema)

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def equals(self, other: "Evaluation") -> bool:
        """Whether the tables are the same to the last digit."""
        return bool(self.table.equals(other.table))

    def to_pylist(self) -> list[dict[str, Any]]:
        """The rows as dictionaries."""
        rows: list[dict[str, Any]] = self.table.to_pylist()
        return rows

    def _repr_html_(self) -> str:
        """The tree errors: a table for each tree, noise model and τ, a row for each method, a column for each ε.

        Measures have tables of their own, in which a method has a row for all limits that it was tried under.
        """
        panels: dict[tuple[str, str, str, float], dict[str, dict[float, float]]] = {}
        for row in tree_errors(self.table):
            limits = row.get("limits")
            tree = row["tree"] if limits is None else f"{row['tree']}, {row['measure'] or 'all measures'}"
            panel = panels.setdefault((row["dataset"], tree, row["noise"], row["tau"]), {})
            method = row["method"] if limits is None else f"{row['method']}, {limits}"
            panel.setdefault(method, {})[row["epsilon"]] = row["rmsre"]
        return "".join(_panel(*names, methods) for names, methods in panels.items())


def _panel(dataset: str, tree: str, noise: str, tau: float, methods: dict[str, dict[float, float]]) -> str:
    epsilons = sorted({epsilon for errors in methods.values() for epsilon in errors})
    rows = [(name, *(f"{errors[e]:.4f}" if e in errors else "" for e in epsilons)) for name, errors in methods.items()]
    caption = f"{dataset}, {tree}: tree error under {noise} noise, τ = {tau:g}"
    return html_table(caption, ("method", *(f"ε = {epsilon:g}" for epsilon in epsilons)), rows)
