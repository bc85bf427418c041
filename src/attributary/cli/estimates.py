"""estimates: the user's table, or that of the nodes, with the estimates beside it."""

from collections.abc import Collection
from typing import Any

import numpy as np

from attributary.denoising import Estimate
from attributary.denoising.prediction import Prediction
from attributary.errors import InputError
from attributary.tables import shown
from attributary.tables.floats import is_text_type, number_cells
from attributary.tables.not_private import mark
from attributary.tree import Tree

ADDED = ("estimate", "variance", "low", "high", "correction")
FROM_PRIOR = "from_prior"  # one more where a prior had a part in the estimates
KEPT_AS = "noise_variance"  # what the user's variance column is called where its name is taken
NOISY = "noisy"  # where a report looks for the figures


def kept_names(
    table: Any, variance: str | None, prefix: str, path: str, prior: bool = False, value: str = NOISY
) -> list[str]:
    """The names of the user's columns in the output; refuses those that an added column would hide."""
    taken = {prefix + name for name in (*ADDED, *([FROM_PRIOR] if prior else []))}
    names = [KEPT_AS if name == variance and name in taken else name for name in table.column_names]
    taken |= {prefix + name for name in measured_names(table, names, variance, value)}
    clash = next((name for name in names if name in taken or names.count(name) > 1), None)
    if clash is not None:
        raise InputError(
            f"{shown(path)} already has a column {clash!r}, which the output would hold twice; rename it, or put "
            "something before the added names with --prefix, as in --prefix denoised_"
        )
    return names


def measured_names(table: Any, names: list[str], variance: str | None, value: str) -> list[str]:
    """Columns to add where the user's has another name: a report would not find the figures and their noise."""
    if value == NOISY:
        return []
    told = (name for name, old in zip(names, table.column_names, strict=True) if old == variance)
    return [NOISY] if KEPT_AS in told else [NOISY, KEPT_AS]


def filled(table: Any, tree: Tree) -> Any:
    """The table with a row for every node of its tree; those it lacked come last, empty but for their path."""
    import pyarrow as pa
    import pyarrow.compute as pc

    nodes = tree.table().slice(table.num_rows)
    if len(nodes) == 0:
        return table
    columns = []
    for field in table.schema:
        if field.name not in tree.attributes:
            columns.append(pa.nulls(len(nodes), field.type))
            continue
        labels = nodes.column(field.name)
        labels = labels.cast(labels.type.value_type)
        if pa.types.is_dictionary(field.type):
            labels = pc.dictionary_encode(labels.cast(field.type.value_type))
        columns.append(labels.cast(field.type))
    schema = pa.schema([field.with_nullable(True) for field in table.schema], table.schema.metadata)
    return pa.concat_tables([table.cast(schema), pa.table(columns, schema=schema)])


def with_numbers(table: Any, columns: list[str | None]) -> Any:
    """The table with these columns as numbers, where they are text and there are such: text has no place in Parquet."""
    for place, name in enumerate(table.column_names):
        if name in columns and is_text_type(table.column(name).type):
            table = table.set_column(place, name, number_cells(table.column(name)))
    return table


def estimates(
    table: Any, names: list[str], est: Estimate, confidence: float, prefix: str, measured: Collection[str] = ()
) -> Any:
    """The table under these names, with the added columns; node i is row i, and nodes without rows are left out."""
    import pyarrow as pa

    interval, rows = est.interval(confidence), table.num_rows
    table = table.rename_columns(names)
    values = (est.count, est.variance, interval.low, interval.high, est.correction)
    more = {name: values for name, values in _measured(est).items() if name in measured}
    for name, whole in {**dict(zip(ADDED, values, strict=True)), **_from_prior(est), **more}.items():
        cells = whole[:rows]
        table = table.append_column(
            prefix + name, pa.array(cells, mask=np.isnan(cells))
        )  # no measurement, no correction
    return mark(noted(table, confidence=confidence, shape=est.measurements.shape), est.not_private)


def of_nodes(est: Estimate, confidence: float) -> Any:
    """The nodes, what was measured of each, and what came of it; empty where nothing was."""
    import pyarrow as pa

    interval, table = est.interval(confidence), est.tree.table()
    columns = {
        **_measured(est),
        "estimate": est.count,
        "variance": est.variance,
        "low": interval.low,
        "high": interval.high,
        "correction": est.correction,
        **_from_prior(est),
    }
    for name, values in columns.items():
        table = table.append_column(name, pa.array(values, mask=np.isnan(values)))
    return mark(noted(table, confidence=confidence, shape=est.measurements.shape), est.not_private)


def noted(table: Any, **notes: object) -> Any:
    """The table with notes beside what it has; they stand in Parquet and Arrow files, not in text."""
    added = {name.encode(): str(value).encode() for name, value in notes.items()}
    return table.replace_schema_metadata({**(table.schema.metadata or {}), **added})


def _measured(est: Estimate) -> dict[str, Any]:
    noisy, variance = est.measurements.noisy, est.measurements.variance
    return {NOISY: np.where(variance < np.inf, noisy, np.nan), KEPT_AS: variance}


def _from_prior(est: Estimate) -> dict[str, Any]:
    return {FROM_PRIOR: est.from_prior} if isinstance(est, Prediction) else {}


def by_measure(tables: dict[str, Any]) -> Any:
    """The tables of several measures one after the other, with a column that tells them apart; one as it is."""
    import pyarrow as pa

    if len(tables) == 1:
        return next(iter(tables.values()))
    told = []
    for name, table in tables.items():
        names = pa.DictionaryArray.from_arrays(np.zeros(len(table), np.int32), pa.array([name]))
        told.append(table.add_column(0, "measure", names))
    # Whole counts stand in one column with values, which are not whole.
    return pa.concat_tables(told, promote_options="permissive").unify_dictionaries()
