"""profiled: what a prior tells of values and ranks, from a file."""

from typing import Any

import numpy as np

from attributary.cli.labels import labels
from attributary.cli.reading import refused
from attributary.errors import InputError
from attributary.prior import from_estimates
from attributary.profile import Profile, profile
from attributary.spec import Spec
from attributary.spec.measure import BEYOND, COUNT, FROM
from attributary.tables import read_table, shown
from attributary.tables.table_columns import floats
from attributary.tree import Tree

MEASURE = "measure"  # the column that tells the measures of a report apart
SHOWN = 5  # names of them in a message


def of_measure(table: Any, spec: Spec, path: str, name: str | None = None) -> Any:
    """The rows of one measure in a report that has several; without a name, of counts, or else of the first."""
    import pyarrow as pa
    import pyarrow.compute as pc

    names = [measure.name for measure in spec.asked]
    wanted = name or (COUNT if COUNT in names else names[0])
    if MEASURE not in table.column_names or MEASURE in spec.levels:
        if len(names) > 1 and "estimate" in table.column_names:
            raise InputError(
                f"{shown(path)} has estimates but no column {MEASURE!r}, and the spec has several measures "
                f"({', '.join(names)}); add the column, with one of these names in each row"
            )
        return table
    rows = table.filter(pc.equal(table.column(MEASURE).cast(pa.string()), wanted))
    if rows.num_rows == 0:
        raise InputError(
            f"{shown(path)} has no rows of measure {wanted!r}, only of {measures_in(table)}; give a report that has it"
        )
    return rows


def measures_in(table: Any) -> str:
    """The names of the first few measures that a table has rows of."""
    import pyarrow as pa

    names = [f"{name!s:.40}" for name in table.column(MEASURE).cast(pa.string()).unique().to_pylist()]
    return ", ".join(names[:SHOWN]) + (", …" if len(names) > SHOWN else "") if names else "none"


def profiled(spec: Spec, tree: Tree, path: str | None) -> Profile | None:
    """The profile in a prior's file; None without one, or where conversions are counted once each, and nothing else."""
    if path is None or not spec.has_limits:
        return None
    table = read_table(path)
    if "estimate" in table.column_names:
        return _of_estimates(spec, tree, table, path)
    for measure in spec.values:
        if measure.name not in table.column_names:
            raise InputError(
                f"{shown(path)} has no column {measure.name!r}, which the spec measures; count the earlier period by "
                "this spec"
            )
    wanted = ["conversions", "rank", "conversions" + BEYOND]
    wanted += [measure.name + end for measure in spec.values for end in ("", BEYOND, FROM)]
    import pyarrow as pa

    rows = pa.table({name: labels(table, name, path).column(0) for name in tree.attributes})
    for name in wanted:
        if name in table.column_names:
            rows = rows.append_column(name, [floats(table, name, path)])
    with refused(path):
        return profile(tree, spec, rows)


def _of_estimates(spec: Spec, tree: Tree, table: Any, path: str) -> Profile:
    """Sums of an earlier report; it does not tell what limits cut off."""
    import pyarrow as pa

    leaf = tree.in_level_order.leaves
    found = {}
    for measure in spec.asked:
        own = of_measure(table, spec, path, measure.name)
        rows = pa.table({name: labels(own, name, path).column(0) for name in tree.attributes})
        for name in ("estimate", "variance"):
            rows = rows.append_column(name, [floats(own, name, path)])
        with refused(path):
            known = [attribute.name for attribute in spec.known]
            mean = from_estimates(tree, rows, known=known).mean
        found[measure.name] = np.maximum(tree.to_level_order(mean)[leaf], 0.0)
    number = found.pop(COUNT, np.zeros(len(leaf)))
    return Profile(tree, leaf, number, found)
