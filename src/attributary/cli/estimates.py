"""estimates: the user's table, or that of the nodes, with the estimates beside it."""

from collections.abc import Collection
from typing import Any

from attributary.denoising import Estimate
from attributary.errors import InputError
from attributary.estimates import ADDED, FROM_PRIOR, MEASURED, figures_of, with_columns, with_metadata
from attributary.tables import shown
from attributary.tables.table_columns import is_text_type, number_cells
from attributary.tree import Tree

NOISY, KEPT_AS = MEASURED  # where a report looks for the figures; and what a variance column becomes that is in the way


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
    told = (name for name, old in zip(names, table.column_names, strict=True) if old == variance)
    return [*([] if value == NOISY else [NOISY]), *([] if KEPT_AS in told else [KEPT_AS])]


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
    rows = table.num_rows
    columns = figures_of(est, confidence)
    order = [name for name in columns if name not in MEASURED] + list(measured)
    added = {prefix + name: columns[name][:rows] for name in order}
    return with_metadata(with_columns(table.rename_columns(names), added), est, confidence)
