"""Measures: the estimates of each measure in one table, on one tree, and the ratios of values to counts."""

from dataclasses import fields, replace
from typing import Any

import numpy as np

from attributary.errors import InputError
from attributary.report.estimates import NEEDED, NODE, Estimates, read_estimates, tree_of
from attributary.spec.measure import COUNT
from attributary.tables import place, shown
from attributary.tables.floats import floats
from attributary.tree import Tree
from attributary.tree.match import match
from attributary.types import Ints

MEASURE = "measure"  # the column that tells measures apart
PER = " per conversion"  # how ratios are called: "revenue per conversion"
MANY = 100  # that are no measures any more
WITH_ESTIMATES = "give it with the estimates that it was made of, or the folder that `attributary run` wrote"


def has_measures(names: list[str], levels: list[str] | None = None) -> bool:
    """Whether a column tells measures apart; one of that name that is a level names nodes."""
    if MEASURE not in names or MEASURE in (levels or ()):
        return False
    return not set(NODE) <= set(names) or names.index(MEASURE) < names.index("node")


def is_ratios(names: list[str], levels: list[str] | None = None) -> bool:
    """Whether a table holds ratios: estimates of measures that were never measured themselves."""
    return has_measures(names, levels) and set(NEEDED) <= set(names) and not {"noisy", "correction"} & set(names)


def measure_names(table: Any, path: str) -> Any:
    """Which measure each row is of, as text."""
    import pyarrow as pa
    import pyarrow.compute as pc

    cells = table.column(MEASURE)
    if pa.types.is_nested(cells.type):
        raise InputError(f"{shown(path)}: column {MEASURE!r} is {cells.type}; measures have names")
    if pa.types.is_dictionary(cells.type):
        cells = cells.cast(cells.type.value_type)
    cells = pc.fill_null(cells.cast(pa.string()), "")
    empty = pc.index(cells, "").as_py()
    if empty >= 0:
        raise InputError(f"{place(path, empty)}: the measure is empty; each row names the one it is of")
    if (many := pc.count_distinct(cells).as_py()) > MANY:
        raise InputError(
            f"{shown(path)}: column {MEASURE!r} has {many:,} values, too many for measures; if it names nodes, say so "
            "with --levels"
        )
    return cells


def of_measure(table: Any, names: Any, name: str) -> tuple[Any, Ints]:
    """The rows of one measure without that column, and where they stood."""
    import pyarrow.compute as pc

    mask = pc.equal(names, name)
    return table.drop_columns([MEASURE]).filter(mask), np.flatnonzero(mask.to_numpy())


def read_measures(table: Any, path: str, levels: list[str] | None = None) -> dict[str, Estimates]:
    """The estimates of each measure, all on the tree of the first."""
    names, found = measure_names(table, path), dict[str, Estimates]()
    for name in names.unique().to_pylist():
        rows, numbers = of_measure(table, names, name)
        est = read_estimates(rows, path, levels, numbers)
        first = next(iter(found), name)
        found[name] = est if name == first else _aligned(est, found[first].tree, name, first, path)
    return found


def read_ratios(
    table: Any, path: str, levels: list[str] | None, measures: dict[str, Estimates]
) -> dict[str, Estimates]:
    """The ratios in a table, on the tree of the estimates that they were made of; nan where a node has none."""
    names, found = measure_names(table, path), dict[str, Estimates]()
    for name in names.unique().to_pylist():
        value = name.removesuffix(PER)
        if name == value or value not in measures or COUNT not in measures:
            told = f"the estimates are of {', '.join(measures)}" if measures else "there are no estimates of measures"
            raise InputError(f"{shown(path)} holds {name!r}, but {told}; {WITH_ESTIMATES}")
        rows, numbers = of_measure(table, names, name)
        tree = tree_of(rows, path, levels, numbers)
        if len(tree) != rows.num_rows:
            raise InputError(
                f"{shown(path)}: {name!r} has rows for {rows.num_rows:,} of {len(tree):,} nodes; write it anew"
            )
        columns: dict[str, Any] = {key: tree.to_level_order(floats(rows, key, path, numbers)) for key in NEEDED}
        absent = np.full(len(tree), np.nan)
        est = Estimates(tree, absent, absent, **columns, correction=absent)
        est = _aligned(est, measures[COUNT].tree, name, COUNT, path)
        _check_ratio(est, measures[value], measures[COUNT], name, path)
        found[name] = est
    return found


def _aligned(est: Estimates, tree: Tree, name: str, first: str, path: str) -> Estimates:
    """The same estimates on another tree that has the same nodes."""
    alike = len(est) == len(tree) and bool(est.tree.attributes) == bool(tree.attributes)
    if alike and tree.attributes:
        place_of = match(tree, est.tree.table()).node
        alike = bool((place_of >= 0).all())
    elif alike:
        place_of = np.arange(len(tree)) if tree.order is None else np.argsort(tree.order)
        alike = np.array_equal(tree.family, est.tree.family)
    if not alike:
        raise InputError(
            f"{shown(path)}: {name!r} has other nodes than {first!r}, {len(est):,} and {len(tree):,}; measures of one "
            "table have a row for each node"
        )
    moved: dict[str, Any] = {}
    for field in fields(est):
        values = getattr(est, field.name)
        if isinstance(values, np.ndarray):
            moved[field.name] = np.empty(len(tree))
            moved[field.name][place_of] = est.tree.from_level_order(values)
    return replace(est, tree=tree, **moved)


def _check_ratio(ratio: Estimates, value: Estimates, count: Estimates, name: str, path: str) -> None:
    """Refuses ratios that make no sense, or are those of other estimates."""
    known = np.isfinite(ratio.estimate)
    told = {key: getattr(ratio, key)[known] for key in NEEDED}
    order = (told["low"] <= told["estimate"]) & (told["estimate"] <= told["high"]) & (told["variance"] >= 0)
    if not order.all():
        raise InputError(f"{shown(path)}: an interval of {name!r} does not hold its estimate; write it anew")
    whole = told["estimate"] * count.estimate[known]
    if not np.allclose(whole, value.estimate[known], rtol=1e-6, atol=1e-6 * max(1.0, np.abs(value.estimate).max())):
        raise InputError(f"{shown(path)}: {name!r} is not that of these estimates; {WITH_ESTIMATES}")
