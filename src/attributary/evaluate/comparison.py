"""Evaluation: the table of errors, and in it the paper's best method beside ours, and the paper's stated figures."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from attributary.evaluate.methods import METHODS, ZEROS
from attributary.evaluate.paper_trees import PAPER, STATED_EPSILON, STATED_METHOD
from attributary.html import html_table

Row = dict[str, Any]
VAGUE = 0.1  # a standard error, as a share of the error
NOTHING = 1e-6  # what rounding alone may leave of an error


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

    @property
    def change(self) -> float:
        """Our error relative to the paper's, minus 1: negative where ours is lower."""
        return self.ours / self.paper - 1 if self.paper > 0 else 0.0


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


def best(table: Any) -> list[Best]:
    """The best of both at every point where there are both; rows of limits are left out.

    A simulated error whose standard error is above a tenth of it is not taken, nor one that is as good as 0: where
    mistakes are rare, few draws may have had none.
    """
    points: dict[Any, list[Row]] = {}
    for row in filter(_sure, tree_errors(table)):
        if row.get("limits") is not None:
            continue
        points.setdefault(_point(row)[:-1], []).append(row)
    every = []
    for point, rows in points.items():
        sides: dict[str, list[Row]] = {"paper": [], "ours": [], "beside": []}
        for row in rows:
            sides[whose(row["method"])].append(row)
        if sides["paper"] and sides["ours"]:
            paper, ours = (min(sides[side], key=lambda row: row["rmsre"]) for side in ("paper", "ours"))
            known = {row["method"]: row["rmsre"] for row in sides["beside"]}
            zeros = known.pop(ZEROS.name, float("nan"))
            limit = min(known.values(), default=float("nan"))
            found = (paper["method"], paper["rmsre"], ours["method"], ours["rmsre"], zeros, limit)
            every.append(Best(*(*point, *found)))
    return every


def whose(method: str) -> str:
    """Whether a method is the paper's, ours, or stands beside both to compare with."""
    known = METHODS.get(method)
    return "ours" if known is None else "paper" if known.paper else "beside" if known.beside else "ours"


def beside(table: Any) -> list[Beside]:
    """The paper's stated figures, where the table has their points."""
    errors = {_point(row): row for row in tree_errors(table)}
    figures = []
    for our in best(table):
        stated = PAPER[our.dataset].stated if our.dataset in PAPER else ()
        figure = next((s.rmsre for s in stated if (s.tree, s.tau) == (our.tree, our.tau)), None)
        greedy = errors.get((*our[:5], STATED_METHOD))
        if figure is not None and greedy is not None and our.epsilon == STATED_EPSILON:
            figures.append(Beside(*our[:5], figure, greedy["rmsre"], our.our_method, our.ours, greedy["generated"]))
    return figures


def _sure(row: Row) -> bool:
    if row["kind"] == "exact":
        return True
    return bool(row["rmsre"] > NOTHING and (row["standard_error"] or 0.0) < VAGUE * row["rmsre"])


def _point(row: Row) -> tuple[Any, ...]:
    return tuple(row[name] for name in ("dataset", "tree", "noise", "tau", "epsilon", "method"))


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
        return "".join(html_table(*panel) for panel in panels(self.table))


def panels(table: Any) -> Iterator[tuple[str, tuple[str, ...], list[tuple[str, ...]]]]:
    """For each tree, noise model and τ: a caption, heads, and a row for each method with its tree error at every ε."""
    methods_of: dict[str, dict[str, dict[float, float]]] = {}
    for row in tree_errors(table):
        limits = row.get("limits")
        tree = row["tree"] if limits is None else f"{row['tree']}, {row['measure'] or 'all measures'}"
        caption = f"{row['dataset']}, {tree}: tree error under {row['noise']} noise, τ = {row['tau']:g}"
        method = row["method"] if limits is None else f"{row['method']}, {limits}"
        methods_of.setdefault(caption, {}).setdefault(method, {})[row["epsilon"]] = row["rmsre"]
    for caption, methods in methods_of.items():
        epsilons = sorted({epsilon for errors in methods.values() for epsilon in errors})
        shown = [(name, *(f"{of[e]:.4f}" if e in of else "" for e in epsilons)) for name, of in methods.items()]
        yield caption, ("method", *(f"ε = {epsilon:g}" for epsilon in epsilons)), shown
