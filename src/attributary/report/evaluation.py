"""Evaluation: the errors of methods at several budgets, as a table tells them."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from attributary.errors import InputError
from attributary.tables import place
from attributary.tables.floats import floats

NEEDED = ("method", "epsilon", "tau", "rmsre")
WORDS = ("dataset", "tree", "method", "noise", "level", "measure", "limits")
OWN = ("chosen", "given")  # the limits of the spec or of its plan; others are there to compare, in the table


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


def is_evaluation(names: list[str]) -> bool:
    return set(NEEDED) <= set(names)


def read_evaluation(table: Any, path: str) -> list[Point]:
    """The points of an evaluation, in the table's order; measures are questions of their own, under its limits."""
    import pyarrow as pa

    words = {}
    for name in WORDS:
        if name not in table.column_names:
            words[name] = [None] * table.num_rows
            continue
        cells = table.column(name)
        if pa.types.is_dictionary(cells.type):
            cells = cells.cast(cells.type.value_type)
        words[name] = cells.cast(pa.string()).to_pylist()
    numbers = {name: floats(table, name, path) for name in ("epsilon", "tau", "rmsre")}
    absent = np.full(table.num_rows, np.nan)
    spread = floats(table, "standard_error", path) if "standard_error" in table.column_names else absent
    generated = [False] * table.num_rows
    if "generated" in table.column_names:
        generated = [word == "true" for word in table.column("generated").cast(pa.string()).to_pylist()]
    for name in ("epsilon", "tau"):
        fine = numbers[name] > 0
        if not fine.all():
            row = int(np.argmin(fine))
            raise InputError(f"{place(path, row)}: {name} is a number above 0; got {numbers[name][row]:g}")
    measured = "measure" in table.column_names
    return [
        Point(
            dataset=words["dataset"][i] or "",
            tree=", ".join([words["tree"][i] or "", *([words["measure"][i] or "all measures"] if measured else [])]),
            method=words["method"][i] or "",
            noise=words["noise"][i] or "",
            level=words["level"][i],
            epsilon=float(numbers["epsilon"][i]),
            tau=float(numbers["tau"][i]),
            rmsre=float(numbers["rmsre"][i]),
            standard_error=float(spread[i]),
            generated=generated[i],
        )
        for i in range(table.num_rows)
        if words["limits"][i] in (None, *OWN)
    ]
