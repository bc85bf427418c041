"""Evaluation facts: what is told of an evaluation: each method's tree error, the paper's best beside ours, and limits.

A method's error is the exact one, or else the simulated one, whatever shows it.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np

from attributary.errors import InputError
from attributary.estimators import ESTIMATORS
from attributary.facts.numerals import NOTHING, PERCENT, Numeral, Table, percent, signed_percent
from attributary.spec.measure import COUNT
from attributary.tables import place
from attributary.tables.table_columns import floats, plain
from attributary.types import Arrow

PAPER = ("equal-raw", "equal-unbiased", "leaves-unbiased", "greedy-raw", "greedy-unbiased")
GREEDY = "greedy-unbiased"  # the paper's own
ZEROS = "zeros"
WORDS = ("dataset", "tree", "method", "title", "noise", "level", "measure", "limits", "generated", "kind", "pool")
NUMBERS = ("standard_error", "bias", "clip", "conversions_per_impression", "draws")  # where a table has them
SURE = 5e-4  # of an error: a change that is shown
VAGUE = 0.1  # a standard error, as a share of the error
AS_GOOD_AS_0 = 1e-6  # what rounding alone may leave of an error
SMALL = 1e-4  # an error that is as good as none
OWN = ("chosen", "given")  # the limits of the spec or of its plan; others are there to compare


def whose(method: str) -> str:
    """Whether a method is the paper's, ours, or a baseline that both are compared with."""
    if method in PAPER:
        return "paper"
    kind = ESTIMATORS.get(method.rpartition("-")[2])
    return "baseline" if kind and kind.baseline and kind.denoises else "ours"


@dataclass(frozen=True)
class Point:
    """The error of one method, for one question at one budget."""

    dataset: str
    tree: str
    method: str
    noise: str
    level: str | None  # None for the whole tree
    epsilon: float
    tau: float
    rmsre: float
    standard_error: float  # nan where the error is exact
    generated: bool = False
    title: str = ""  # what readers call the method
    exact: bool = False
    measured: bool = False  # whether the table tells measures apart
    measure: str | None = None  # None for all together
    limits: str | None = None
    bias: float = np.nan  # what limits cut off
    clip: float = np.nan
    conversions_per_impression: float = np.nan  # that count
    draws: float = np.nan
    pool: str = ""

    @property
    def question(self) -> str:
        """The tree, and the measure where there are several."""
        return ", ".join([self.tree, *([self.measure or "all measures"] if self.measured else [])])

    @property
    def called(self) -> str:
        return self.title or self.method

    @property
    def point(self) -> tuple[str, str, str, float, float]:
        """What an error is of, but for the method."""
        return (self.dataset, self.question, self.noise, self.tau, self.epsilon)


def read_evaluation(table: Arrow, path: str) -> list[Point]:
    """The points of an evaluation, in the table's order."""
    import pyarrow as pa

    cells: dict[str, list[Any]] = {name: [None] * table.num_rows for name in WORDS}
    for name in set(WORDS) & set(table.column_names):
        cells[name] = plain(table.column(name)).cast(pa.string()).to_pylist()
    for name in ("epsilon", "tau", "rmsre", *NUMBERS):
        there = name in table.column_names or name not in NUMBERS
        figures = floats(table, name, path) if there else np.full(table.num_rows, np.nan)
        if name in ("epsilon", "tau") and not (figures > 0).all():
            row = int(np.argmin(figures > 0))
            raise InputError(f"{place(path, row)}: {name} is a number above 0; got {figures[row]:g}")
        cells[name] = figures.tolist()
    for name in ("dataset", "tree", "method", "noise", "title", "pool"):
        cells[name] = [cell or "" for cell in cells[name]]
    cells["generated"] = [cell == "true" for cell in cells["generated"]]
    cells["exact"] = [cell == "exact" for cell in cells.pop("kind")]
    cells["measured"] = ["measure" in table.column_names] * table.num_rows
    return [Point(**dict(zip(cells, row, strict=True))) for row in zip(*cells.values(), strict=True)]


def one_each(points: Sequence[Point]) -> list[Point]:
    """One error for each method, kind of limits and level: the exact one, or else the simulated one."""
    exact = {(p.point, p.method, p.limits, p.level) for p in points if p.exact}
    return [p for p in points if p.exact or (p.point, p.method, p.limits, p.level) not in exact]


def tree_errors(points: Sequence[Point]) -> list[Point]:
    return [p for p in one_each(points) if p.level is None]


# The paper's best beside ours


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


def best(evaluation: Any) -> list[Best]:
    """The best of both at every point where there are both, the paper's greedy among them; limits are left out.

    A simulated error whose standard error is above a tenth of it is not taken, nor one that is as good as 0: where
    mistakes are rare, few draws may have had none.
    """
    groups: dict[Any, dict[str, list[Point]]] = {}
    for p in tree_errors(evaluation.points):
        if p.limits is None:
            sides = groups.setdefault(p.point, {"paper": [], "ours": [], "baseline": []})
            sure = p.exact or (p.rmsre > AS_GOOD_AS_0 and np.nan_to_num(p.standard_error) < VAGUE * p.rmsre)
            sides[whose(p.method)] += [p] if sure else []
    found = []
    for sides in groups.values():
        if not sides["ours"] or GREEDY not in {p.method for p in sides["paper"]}:
            continue
        paper, ours = (min(sides[side], key=lambda p: p.rmsre) for side in ("paper", "ours"))
        baselines = {p.method: p.rmsre for p in sides["baseline"]}
        zeros = baselines.pop(ZEROS, np.nan)
        change = (ours.rmsre / paper.rmsre - 1 if paper.rmsre > 0 else 0.0, np.nan)
        draws = [evaluation.squared(p) for p in (ours, paper)]
        if not (ours.exact and paper.exact) and all(draws):
            change = paired(*draws)
        both = (paper.method, paper.rmsre, ours.method, ours.rmsre)
        limit = min(baselines.values(), default=np.nan)
        found.append(Best(*paper.point, *both, zeros, limit, change[0], change[1]))
    return found


def paired(draws: object, against: object) -> tuple[float, float]:
    """The change of the error against another's on the same draws (−0.1: a tenth less), and its standard error.

    Squared errors of draws go up and down together, so that the difference is known far better than either.
    """
    one, other = np.asarray(draws, np.float64), np.asarray(against, np.float64)
    if not (one.mean() > 0 and other.mean() > 0):
        return (0.0 if one.mean() == other.mean() else float(np.sign(one.mean() - other.mean()))), 0.0
    ratio = float(np.sqrt(one.mean() / other.mean()))
    influence = ratio / 2 * (one / one.mean() - other / other.mean())
    return ratio - 1, float(influence.std(ddof=1) / np.sqrt(len(one)))


# Tables: a caption, heads and rows


def error_tables(points: Sequence[Point]) -> Iterator[Table]:
    """The error of every method; where limits were tried, the best method for each kind of them instead."""
    errors = tree_errors(points)
    yield from limit_tables([p for p in errors if p.limits is not None])
    yield from method_tables([p for p in errors if p.limits is None])


def method_tables(errors: Sequence[Point], cell: Callable[[Point], str] | None = None) -> Iterator[Table]:
    """For each tree, noise model and τ, a row for each method, and for all limits, with its tree error at every ε."""
    cell = cell or (lambda p: shown(p.rmsre))
    by_table: dict[str, dict[tuple[str, str], dict[float, Point]]] = {}
    for p in errors:
        caption = f"{p.dataset}, {p.question}: tree error under {p.noise} noise, τ = {p.tau:g}"
        names = [name if p.limits is None else f"{name}, {p.limits}" for name in (p.called, p.method)]
        by_table.setdefault(caption, {}).setdefault((names[0], names[1]), {})[p.epsilon] = p
    for caption, methods in by_table.items():
        epsilons = sorted({epsilon for cells in methods.values() for epsilon in cells})
        heads = ["method", *(f"ε = {epsilon:g}" for epsilon in epsilons), "name"]
        rows = [
            [called, *(cell(cells[e]) if e in cells else NOTHING for e in epsilons), name]
            for (called, name), cells in methods.items()
        ]
        yield Table(caption, heads, rows)


def shown(part: float) -> Numeral:
    """An error in percent, with two digits behind the point, so that methods can be told apart."""
    if not np.isfinite(part) or part < 1e-3:
        return percent(part)
    return Numeral(f"{100 * part:,.2f}{PERCENT}", part)


def limit_tables(errors: Sequence[Point]) -> Iterator[Table]:
    """The method of least error over all measures under each kind of limits, and its errors of each measure."""
    by_table: dict[Any, dict[str, list[Point]]] = {}
    for p in errors:
        kinds = by_table.setdefault((p.dataset, p.tree, p.noise, p.tau, p.epsilon), {})
        kinds.setdefault(ZEROS if p.method == ZEROS else p.limits or "", []).append(p)
    for (dataset, tree, noise, tau, epsilon), kinds in by_table.items():
        names = list(dict.fromkeys(p.measure for points in kinds.values() for p in points if p.measure))
        values = [name for name in names if name != COUNT]
        heads = ["limits", "method", *(["together"] if len(names) > 1 else [])]
        heads += [head for name in names for head in (name, "cut off")]
        more = ["m", *(f"{name} clip" if len(values) > 1 else "clip" for name in values)]
        rows = [_limit_row(points, names, values) for points in kinds.values()]
        caption = f"{dataset}, {tree}: tree error under {noise} noise, τ = {tau:g}, ε = {epsilon:g}"
        yield Table(caption, [*heads, *more], rows, len(heads))


def _limit_row(points: list[Point], names: list[str], values: list[str]) -> list[str]:
    whole = None if len(names) > 1 else names[0]
    least = min((p for p in points if p.measure == whole), key=lambda p: p.rmsre)
    by_measure = {p.measure: p for p in points if p.method == least.method and p.limits == least.limits}
    row = [least.limits or "", least.method, *([percent(least.rmsre)] if whole is None else [])]
    if least.method == ZEROS:  # nothing is measured, so that no limits cut anything off
        row += [cell for name in names for cell in (percent(by_measure[name].rmsre), NOTHING)]
        return ["any", *row[1:], NOTHING, *[NOTHING] * len(values)]
    row += [cell for name in names for cell in (percent(by_measure[name].rmsre), percent(by_measure[name].bias))]
    clips = [by_measure[name].clip for name in values]
    conversions = Numeral(f"{least.conversions_per_impression:.3g}", least.conversions_per_impression)
    return [*row, conversions, *(Numeral(f"{clip:,.2f}", clip) for clip in clips)]


def best_tables(evaluation: object) -> Iterator[Table]:
    """For each tree, noise model and τ, the paper's best method beside ours at every ε."""
    compared = best(evaluation)
    limits = any(row.limit > 0 for row in compared)
    heads = ["ε", "paper's best", "method", "our best", "method", "change", "zeros", *["limit"] * limits]
    for (dataset, tree, noise, tau), rows in groupby(compared, lambda row: row[:4]):
        cells = []
        for row in rows:
            spread = "" if np.isnan(row.change_error) else f" ± {100 * row.change_error:.1f}"
            by = NOTHING if abs(row.change) < SURE else signed_percent(row.change)
            change = Numeral("" if max(row.paper, row.ours) < SMALL else by + spread, row.change)
            sides = [shown(row.paper), row.paper_method, shown(row.ours), row.our_method]
            last = [change, shown(row.zeros), *[shown(row.limit)] * limits]
            cells.append([Numeral(f"{row.epsilon:g}", row.epsilon), *sides, *last])
        yield Table(f"{dataset}, {tree}: the paper's best and ours, {noise} noise, τ = {tau:g}", heads, cells)


def stated_tables(evaluation: Any, stated: Iterable[tuple[str, float, float]], epsilon: float) -> Iterator[Table]:
    """Figures that the paper states at an ε, of (tree, τ, error), beside those of this evaluation, if it has any."""
    figures = {(tree, tau): rmsre for tree, tau, rmsre in stated}
    greedy = {p.point: p for p in tree_errors(evaluation.points) if p.method == GREEDY and p.limits is None}
    rows, generated = list[list[str]](), False
    for our in best(evaluation):
        if our.epsilon == epsilon and (our.tree, our.tau) in figures:
            paper, point = greedy[our[:5]], (f"{our.dataset}, {our.tree}", f"{our.tau:g}", our.noise)
            said = figures[our.tree, our.tau]
            errors = (Numeral(f"{100 * said:.0f}{PERCENT}", said), shown(paper.rmsre), shown(our.ours))
            rows.append([*point, *errors, our.our_method])
            generated = paper.generated
    if rows:
        heads = ["tree", "τ", "noise", "the paper", GREEDY, "our best", "method"]
        rows_of = "generated" if generated else "these"
        yield Table(f"stated by the paper at ε = {epsilon:g}, and on {rows_of} rows", heads, rows)


POOLED = {
    "nodes": " Nodes of all roots are pooled level by level.",
    "roots": " Each root has its own error, and the figure is their root mean square.",
}


def explanation(points: Sequence[Point]) -> str:
    """What the errors of an evaluation are, in sentences."""
    draws = max((p.draws for p in points if p.draws > 0), default=0)
    mean = f"the mean of {draws:.0f} simulated draws of noise" if draws else "the mean of simulated draws of noise"
    return (
        "The error of each method over the whole tree (RMSRE: root mean square over levels, and over the nodes of a "
        "level, relative to the count, or to τ): exact where there is a closed form, otherwise "
        f"{mean}, with two standard errors to either side.{POOLED.get(points[0].pool, '')} Lower is better: a method "
        "above zeros, which answers 0 everywhere, is worse than not measuring."
    )
