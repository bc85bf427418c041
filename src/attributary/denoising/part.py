"""Part: what one worker holds of a forest too large for one machine: some nodes of a cut, and all below them."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attributary.measurements import Measurements
from attributary.tree import Tree
from attributary.tree.paths import RowError, describe


@dataclass(frozen=True, eq=False)
class Part:
    rows: Any  # Arrow, sorted by path, so that it does not matter in which order they arrived
    forest: Tree  # of whole paths; above the cut it has no rows
    tree: Tree  # from the cut downwards: its roots are the forest's nodes there
    measured: Measurements  # of the tree's nodes

    @property
    def has_row(self) -> NDArray[np.bool_]:
        """Of each node, in the tree's order."""
        return np.arange(len(self.tree)) < len(self.rows)

    def paths(self) -> Any:
        """The labels of the tree's nodes, in its order, as an Arrow table."""
        import pyarrow as pa

        table, rows = self.forest.table().select(self.forest.attributes), len(self.rows)
        above = len(self.forest) - len(self.tree)
        return pa.concat_tables([table.slice(0, rows), table.slice(rows + above)])


def read_part(table: Any, levels: list[str], cut: int, noisy: str, variance: str, shape: str) -> Part:
    """The part that the rows of an Arrow table make; all of them have a label at level `cut`."""
    rows = by_path(table, levels)
    forest = read_forest(rows, levels)
    tree = _below(forest, cut)
    x, var = np.full(len(tree), np.nan), np.full(len(tree), np.inf)
    x[: len(rows)], var[: len(rows)] = rows.column(noisy).to_numpy(), rows.column(variance).to_numpy()
    return Part(rows, forest, tree, Measurements(x, var, shape))


def by_path(rows: Any, levels: list[str]) -> Any:
    """The rows of an Arrow table sorted by path; labels repeat, so that sorting their ranks is faster."""
    import pyarrow.compute as pc

    ranks = []
    for name in levels:
        labels = pc.dictionary_encode(rows.column(name)).combine_chunks()
        order = pc.sort_indices(labels.dictionary).to_numpy()
        rank = np.full(len(order) + 1, -1)  # the last one is for null
        rank[order] = np.arange(len(order))
        ranks.append(rank[labels.indices.fill_null(-1).to_numpy()])
    return rows.take(np.lexsort(ranks[::-1]))


def read_forest(rows: Any, levels: list[str]) -> Tree:
    """The forest of these rows, nodes without one added; mistakes are told by path, since rows have no numbers."""
    try:
        return Tree.from_paths(rows, levels, fill=True, totals=None)
    except RowError as error:
        paths = list(zip(*(rows.column(name).to_pylist() for name in levels), strict=True))
        path = paths[error.row]
        depth = max((i + 1 for i, label in enumerate(path) if label is not None), default=0)
        name = describe(levels, list(path[:depth]))
        if paths.count(path) > 1:
            raise ValueError(f"a path has one row; {name} has {paths.count(path)}: combine them, or keep one") from None
        raise ValueError(f"{name}: {error.rule}") from None


def gap(tree: Tree, has_row: NDArray[np.bool_]) -> tuple[str | None, bool]:
    """A node whose parent has no row, by name, if there is one; and whether any inner node has its row."""
    orphan = np.flatnonzero(has_row & (tree.parent >= 0) & ~has_row[tree.parent])
    return tree.name(int(orphan[0])) if len(orphan) else None, bool((has_row & ~tree.is_leaf).any())


@dataclass(frozen=True, eq=False, repr=False)
class Below(Tree):
    """A forest from some level downwards; nodes keep their whole names."""

    forest: Tree | None = None

    def name(self, node: int) -> str:
        assert self.forest is not None
        above = len(self.forest) - len(self)
        return self.forest.name(node if node < _rows(self.forest) else node + above)


def _below(forest: Tree, level: int) -> Tree:
    """The forest without the nodes above a level, none of which has a row."""
    if level == 0:
        return forest
    assert forest.order is not None  # it begins with a node that has no row
    above = int(forest.offsets[level])
    order = forest.order[above:] - above * (forest.order[above:] >= _rows(forest))
    family = np.maximum(forest.family[above:] - above, -1)
    parent = np.empty(len(order), np.int32)
    parent[order] = np.where(family < 0, -1, order[family])
    first = forest.first[above:] - np.uint32(above)
    return Below(parent, first, forest.offsets[level:] - above, order, forest=forest)


def _rows(forest: Tree) -> int:
    """How many rows made a forest that begins with a node without one: those are numbered from there on."""
    assert forest.order is not None
    return int(forest.order[0])
