"""Forest: who stands below whom, by the columns node, parent and level of a table, read block by block."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attributary.errors import InputError

BLOCK = 2**18  # rows
COLUMNS = ("node", "parent", "level")
LEVELS = 2**7  # the most that a level's number has room for
Progress = Callable[[float], None]


class Kept(NamedTuple):
    """Rows of a table that are looked at."""

    column: str
    value: str
    rows: int  # how many there are

    def of(self, batch: Any) -> Any:
        import pyarrow as pa
        import pyarrow.compute as pc

        return batch.filter(pc.equal(batch.column(self.column).cast(pa.string()), self.value))


class Forest(NamedTuple):
    """Nine bytes a node; arrays are indexed by a node's number."""

    parent: NDArray[np.int32]  # -1 for a root
    level: NDArray[np.int8]
    children: NDArray[np.int32]  # how many
    sizes: tuple[int, ...]  # how many nodes each level has

    def above(self, node: int) -> list[int]:
        """The nodes from the root down to this one."""
        path = []
        while node >= 0:
            path.append(node)
            node = int(self.parent[node])
        return path[::-1]


def read_forest(file: Any, name: str, progress: Progress, kept: Kept | None = None) -> Forest:
    """The forest in a Parquet file; a number that is there twice, a parent that is not there or a cycle is refused.

    Of a table of several measures, `kept` names the column and the value of the rows that are looked at.
    """
    rows = file.metadata.num_rows if kept is None else kept.rows
    parent, level = np.full(rows, -2, np.int32), np.full(rows, -1, np.int8)
    done = 0
    for batch in file.iter_batches(BLOCK, columns=[*COLUMNS, *([] if kept is None else [kept.column])]):
        if kept is not None:
            batch = kept.of(batch)
        node, up, depth = (_whole(batch.column(column), column, name) for column in COLUMNS)
        _refuse(~((node >= 0) & (node < rows)), node, name, f"nodes are numbered from 0 to {rows - 1}; one is")
        _refuse(~((up >= -1) & (up < rows)), up, name, f"a parent is a node from 0 to {rows - 1}, or -1; one is")
        _refuse(~((depth >= 0) & (depth < LEVELS)), depth, name, f"a level is from 0 to {LEVELS - 1}; one is")
        parent[node], level[node] = up, depth
        done += len(node)
        progress(done / max(rows, 1))
    if (level < 0).any():
        raise InputError(f"{name}: each node has a row; node {int(np.argmax(level < 0))} has none, another has two")
    children = np.bincount(parent[parent >= 0], minlength=rows).astype(np.int32)
    odd = np.where(parent < 0, level != 0, level != level[parent] + 1)  # so that there is no cycle, either
    if odd.any():
        v = int(np.argmax(odd))
        raise InputError(f"{name}: a node stands one level below its parent; node {v} is of level {level[v]}")
    return Forest(parent, level, children, tuple(np.bincount(level).tolist()))


def _whole(column: Any, name: str, path: str) -> NDArray[np.int64]:
    import pyarrow as pa

    if not pa.types.is_integer(column.type) or column.null_count:
        what = f"{column.null_count} empty cells" if column.null_count else str(column.type)
        raise InputError(f"{path}: column {name!r} holds whole numbers; got {what}")
    found: NDArray[np.int64] = column.to_numpy().astype(np.int64)
    return found


def _refuse(bad: NDArray[np.bool_], values: NDArray[np.int64], name: str, rule: str) -> None:
    if bad.any():
        raise InputError(f"{name}: {rule} {int(values[np.argmax(bad)])}")
