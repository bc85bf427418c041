"""match: which node of a tree each row of a table stands for, by its path."""

from typing import Any, NamedTuple

import numpy as np

from attributary.tree.paths import RowError, codes, describe, text_labels
from attributary.tree.tree import Tree
from attributary.types import Bools, Ints


class Match(NamedTuple):
    """Where the rows of a table stand in a tree; places are in level order."""

    node: Ints  # -1 for a path that is not there
    last: Ints  # the last node of its path that is there, -1 if none is
    complete: Bools  # the path goes down to the last attribute
    leaf: Bools  # the node is there, and a leaf

    @property
    def gone(self) -> Bools:
        """Rows of the last level that are not there."""
        return (self.node < 0) & self.complete


def match(tree: Tree, table: Any) -> Match:
    """The nodes of a table's rows; labels are compared as text, and a path ends where its labels do."""
    if not tree.attributes:
        raise ValueError(
            "nodes are matched by their paths; this tree has no labels: make it with Tree.from_paths or Spec.tree"
        )
    rows = table.num_rows
    last = np.full(rows, 0 if tree.total else -1)
    there, labelled = np.ones(rows, bool), np.ones(rows, bool)
    for j, attribute in enumerate(tree.attributes):
        labels = text_labels(table, attribute)
        code = codes(labels)
        gap = ~labelled & (code >= 0)
        if gap.any():
            rule = f"{tree.attributes[j - 1]!r} is empty but {attribute!r} below it is not"
            raise RowError(int(np.argmax(gap)), f"{rule}; a path is empty only from some level downwards")
        labelled &= code >= 0
        there &= ~labelled | _down(tree, j, labels, code, last, there & labelled)
    node = np.where(there, last, -1)
    is_leaf = np.append(tree.in_level_order.is_leaf, False)
    return Match(node, last, labelled, is_leaf[node])


def nodes_of_level(tree: Tree, table: Any, attributes: int) -> Ints:
    """The node that the first so many attributes of each row name, in the tree's order; -1 where there is none."""
    import pyarrow as pa

    below = tree.attributes[attributes:]
    paths = table.drop_columns([name for name in below if name in table.column_names])
    for name in below:
        paths = paths.append_column(name, pa.nulls(table.num_rows, pa.string()))
    place = match(tree, paths).node
    there = (place >= 0) & (tree.in_level_order.level[place] == attributes - 1 + tree.total)
    return np.where(there, place if tree.order is None else tree.order[place], -1)


def refuse_other_tree(tree: Tree, table: Any, match: Match) -> None:
    """Raises ValueError where not a single row is a leaf of the tree."""
    if match.leaf.any():
        return
    theirs, ours = path_of(tree, table, int(np.argmax(match.complete))), tree.name(int(np.argmax(tree.is_leaf)))
    raise ValueError(
        f"none of its {table.num_rows:,} rows is a leaf of the tree; it has {theirs}, and the tree has {ours}"
    )


def path_of(tree: Tree, table: Any, row: int) -> str:
    """The path of a row in words."""
    return describe(list(tree.attributes), [table.column(name)[row].as_py() for name in tree.attributes])


def _down(tree: Tree, j: int, labels: Any, code: Ints, last: Ints, rows: Bools) -> Bools:
    """Moves `last` of these rows one attribute down, where there is such a node, and says where there is."""
    import pyarrow as pa
    import pyarrow.compute as pc

    moved = np.zeros(len(last), bool)
    level = j + tree.total
    if level >= tree.depth:
        return moved
    here = tree.slice(level)
    names = tree.labels[j].dictionary.cast(pa.string())
    key = (tree.family[here] + 1) * len(names) + tree.labels[j].indices.to_numpy()
    order = np.arange(len(key)) if (key[1:] > key[:-1]).all() else np.argsort(key, kind="stable")
    same = pc.fill_null(pc.index_in(labels.dictionary, value_set=names), -1).to_numpy().astype(np.int64)
    rows = rows & (np.append(same, -1)[code] >= 0)
    wanted = (last[rows] + 1) * len(names) + same[code[rows]]
    place = np.minimum(np.searchsorted(key[order], wanted), len(key) - 1)
    hit = key[order][place] == wanted
    at = np.flatnonzero(rows)[hit]
    last[at] = order[place[hit]] + here.start
    moved[at] = True
    return moved
