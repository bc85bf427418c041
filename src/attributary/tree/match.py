"""match: which node of a tree each row of a table stands for, by its path."""

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from attributary.tables.table_columns import is_text_type
from attributary.tree.paths import codes, depths, describe, text_labels
from attributary.tree.tree import Family, Tree
from attributary.types import Arrow, Bools, Cells, Ints


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


def match(tree: Tree, table: Arrow) -> Match:
    """The nodes of a table's rows; labels are compared as text, and a path ends where its labels do."""
    if not tree.attributes:
        raise ValueError(
            "nodes are matched by their paths; this tree has no labels: make it with Tree.from_paths or Spec.tree"
        )
    rows = table.num_rows
    each = [text_labels(table, attribute) for attribute in tree.attributes]
    coded = [codes(labels) for labels in each]
    depth = depths(coded, tree.attributes)
    last, there = np.full(rows, 0 if tree.total else -1), np.ones(rows, bool)
    for j, (labels, code) in enumerate(zip(each, coded, strict=True)):
        there &= (depth <= j) | _down(tree, j, labels, code, last, there & (depth > j))
    node = np.where(there, last, -1)
    is_leaf = np.append(tree.in_level_order.is_leaf, False)
    return Match(node, last, depth == len(each), is_leaf[node])


def nodes_of_level(tree: Tree, table: Arrow, attributes: int) -> Ints:
    """The node that the first so many attributes of each row name, in the tree's order; -1 where there is none."""
    import pyarrow as pa

    below = tree.attributes[attributes:]
    paths = table.drop_columns([name for name in below if name in table.column_names])
    for name in below:
        paths = paths.append_column(name, pa.nulls(table.num_rows, pa.string()))
    place = match(tree, paths).node
    there = (place >= 0) & (tree.in_level_order.level[place] == attributes - 1 + tree.total)
    return np.where(there, tree.at(place), -1)


def refuse_other_tree(tree: Tree, table: Arrow, match: Match) -> None:
    """Raises ValueError where not a single row is a leaf of the tree."""
    if match.leaf.any():
        return
    theirs, ours = path_of(tree, table, int(np.argmax(match.complete))), tree.name(int(np.argmax(tree.is_leaf)))
    raise ValueError(
        f"none of its {table.num_rows:,} rows is a leaf of the tree; it has {theirs}, and the tree has {ours}"
    )


def path_of(tree: Tree, table: Arrow, row: int) -> str:
    """The path of a row in words."""
    return describe(list(tree.attributes), [table.column(name)[row].as_py() for name in tree.attributes])


def _down(tree: Tree, j: int, labels: Cells, code: Ints, last: Ints, rows: Bools) -> Bools:
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


# missing_labels: the labels that a family lacks and others of its level have, and leaves for what is missing.

REST = "(rest)"  # the label of what is missing, where none is known
RECURS = 0.51  # of the families of a level, more than half: a label of so many may be missing in the others


def lacking(tree: Tree, share: float) -> tuple[Ints, Ints]:
    """Of the labels that this share of a level's families have, how many each family has and how many there are.

    Families below several nodes of one label, as all first quarters, are compared with each other, too; with these
    alone if any label counts (a share of 0). In level order, by the family's parent; 0 and 0 where there is none.
    """
    has, usual_labels = np.zeros(len(tree), np.int64), np.zeros(len(tree), np.int64)
    for level in range(1, tree.depth):
        code, usual, alike, pairs, often = _labels(tree, level, share)
        family, width = Family(tree, level - 1), len(usual) + 1
        of = alike[family.parent - tree.slice(level - 1).start]
        by_all, more = (share > 0) | (of < 0), often & ~(usual[pairs % width] & (share > 0))
        there = usual[code] & family.spread(by_all)
        if often.any():
            there |= np.isin(family.spread(of) * width + code, pairs[often])
        has[family.parent] = np.add.reduceat(there, family.start, dtype=np.int64)
        in_alike = np.bincount(pairs[more] // width, minlength=int(of.max(initial=0)) + 1)[of]
        usual_labels[family.parent] = usual.sum() * by_all + in_alike * (of >= 0)
    return has, usual_labels


def with_missing(tree: Tree, incomplete: Bools) -> Tree:
    """The tree with leaves behind its nodes for what is missing below these nodes, which are in level order.

    There is one for each label that they lack and most families of that level have, and one for the rest where they
    lack no such label, or the level has others. What is added has the usual labels of the levels below.
    """
    import pyarrow as pa

    own = tree.at(np.arange(len(tree)))
    coded = [np.zeros(int(tree.total), np.int64), *(codes(labels) for labels in tree.labels)]
    parents, code = [tree.parent.astype(np.int64)], [tree.from_level_order(np.concatenate(coded))]
    names = [labels.dictionary for labels in tree.labels]
    added, label, nodes = np.zeros(0, np.int64), np.zeros(0, np.int64), len(tree)
    for level in range(1, tree.depth):
        j, up = level - tree.total, tree.slice(level - 1)
        of_level, usual, alike, pairs, often = _labels(tree, level, RECURS)
        width = len(usual) + 1
        there = own[tree.family[tree.slice(level)]] * width + of_level
        short, of = own[up][incomplete[up]], alike[incomplete[up]]
        expected, each = often | usual[pairs % width], np.append(short, added)
        start, end = (np.searchsorted(pairs[often] // width, np.append(of, label), s) for s in ("left", "right"))
        more = [node * width + pairs[often][i:j] % width for node, i, j in zip(each, start, end, strict=True)]
        key = np.setdiff1d(np.concatenate([(each[:, None] * width + np.flatnonzero(usual)).ravel(), *more]), there)
        others = np.where(of < 0, not usual[np.unique(of_level)].all(), np.isin(of, pairs[~expected] // width))
        rest = short[others | ~np.isin(short, key // width)]
        if len(rest):
            text = names[j].cast(pa.string())
            place = text.index(REST).as_py()
            names[j] = text if place >= 0 else pa.concat_arrays([text, pa.array([REST])])
            key = np.append(key, np.setdiff1d(rest * width + place % width, there))  # -1 % width is the last
        parents, code = [*parents, key // width], [*code, key % width]
        added, label, nodes = np.arange(nodes, nodes + len(key)), key % width, nodes + len(key)
    made = Tree.from_parents(np.concatenate(parents))
    codes_of = made.to_level_order(np.concatenate(code)).astype(np.int32)
    ends = [*made.offsets, *[len(made)] * len(names)]
    of_nodes = [codes_of[ends[j + tree.total] : ends[j + tree.total + 1]] for j in range(len(names))]
    labels = tuple(pa.DictionaryArray.from_arrays(*each) for each in zip(of_nodes, names, strict=True))
    return replace(made, attributes=tree.attributes, labels=labels, total=tree.total)


def _labels(tree: Tree, level: int, share: float) -> tuple[Ints, Bools, Ints, Ints, Bools]:
    """The code of each node's label at a level, and whether each label is in this share of the families there.

    And the same of families below nodes of one label: the label's code for each node above, -1 where it has no other
    family, and the sorted pairs (label above × width + label), with whether each is in this share of these families.
    """
    coded, j = tree.labels[level - tree.total], level - tree.total
    family, up = Family(tree, level - 1), tree.slice(level - 1)
    code, parents = codes(coded), family.parent - up.start
    ordinary = np.ones(len(coded.dictionary), bool)
    if is_text_type(coded.dictionary.type):
        ordinary = coded.dictionary.to_numpy(zero_copy_only=False) != REST
    usual = ordinary & (np.bincount(code, minlength=len(ordinary)) >= _enough(share, len(parents)))
    above = codes(tree.labels[j - 1]).astype(np.int64) if j > 0 else np.zeros(up.stop - up.start, np.int64)
    families = np.bincount(above[parents], minlength=int(above.max(initial=0)) + 1)
    alike = np.where((families > 1)[above] & (len(parents) > families.max()), above, -1)
    of, width = alike[parents], len(ordinary) + 1
    pairs, count = np.zeros(0, np.int64), np.zeros(0, np.int64)
    if (of >= 0).any():
        of = family.spread(of)
        pairs, count = np.unique((of * width + code)[of >= 0], return_counts=True)
    return code, usual, alike, pairs, ordinary[pairs % width] & (count >= _enough(share, families[pairs // width]))


def _enough(share: float, families: Any) -> Any:
    return np.maximum(share * families - 1e-9, 1 + (share > 0))
