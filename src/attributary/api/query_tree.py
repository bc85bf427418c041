"""query_tree: the tree to query, of the impressions that occurred."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from attributary.logs.attribute_labels import label_codes
from attributary.spec import Attribute, Logs, Spec
from attributary.tables.user_frames import arrow_table
from attributary.tree import Tree
from attributary.tree.labels import text_labels

OF_NODES = ({"node", "parent", "level"}, {"estimate", "variance"})  # columns of tables that have a row for each node


def queried_tree(spec: Spec, tables: Sequence[Any]) -> Tree:
    """The tree of the impressions in some tables, or of counts; known attributes as they occur, unknown ones in full.

    Rows of impressions are labelled as in counts: what is missing is `missing`. In a table of nodes, an empty cell
    means that the node is above.
    """
    import pyarrow as pa

    if not spec.known:
        return spec.tree()
    labels = [_labels(spec, arrow_table(table)) for table in tables]
    return spec.tree(pa.concat_tables(labels).unify_dictionaries())


def known_columns(spec: Spec, table: Any) -> tuple[str, ...]:
    """What a table calls the known attributes: as the logs do, if it is one of them, or as the spec does."""
    called = {} if spec.logs is None else spec.logs.impression_columns
    names = (called.get(a.name, a.name) for a in spec.known)
    return tuple(name if name in table.column_names else a.name for a, name in zip(spec.known, names, strict=True))


def _labels(spec: Spec, table: Any) -> Any:
    """The known attributes of a table's rows, as text, dictionary-coded."""
    import pyarrow as pa

    each = zip(spec.known, known_columns(spec, table), strict=True)
    if any(set(table.column_names) >= columns for columns in OF_NODES):
        return pa.table({a.name: text_labels(table, name) for a, name in each})
    return pa.table({a.name: _column(table, name, a, spec.logs or Logs()) for a, name in each})


def _column(table: Any, name: str, attribute: Attribute, logs: Logs) -> Any:
    import pyarrow as pa

    labels, code = label_codes(table, name, attribute, logs)
    return pa.DictionaryArray.from_arrays(pa.array(code.astype(np.int32)), pa.array(labels, pa.string()))
