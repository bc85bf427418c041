"""occurred: the tree of the values that occurred, from files."""

from typing import Any

from attributary.api.query_tree import known_columns, queried_tree
from attributary.errors import InputError
from attributary.logs.log_files import files, partition
from attributary.pipeline.level_columns import refused
from attributary.spec import Spec
from attributary.tables import read_table
from attributary.tables.table_columns import column
from attributary.tree import Tree


def occurred(spec: Spec, given: tuple[str, ...]) -> Tree:
    """The tree of the impressions, or counts, in some files; names, patterns and folders."""
    tables = []
    paths = given if "-" in given else files(given).paths
    for path in paths if spec.known else ():
        if "://" in path:
            raise InputError(f"{path} is an address, which only counting reads; copy the file, or give counts of it")
        table = _partitioned(read_table(path), path)
        for name in known_columns(spec, table):
            column(table, name, path)  # or an error that tells what there is
        tables.append(table)
    with refused(paths[0] if len(paths) == 1 else f"{paths[0]} and {len(paths) - 1} more"):
        return queried_tree(spec, tables)


def _partitioned(table: Any, path: str) -> Any:
    """The table with the columns that the file's folders are named after, as counting reads them."""
    import pyarrow as pa

    for name, cell in partition(path).items():
        if name not in table.column_names:
            table = table.append_column(name, pa.array([cell] * table.num_rows, pa.string()))
    return table
