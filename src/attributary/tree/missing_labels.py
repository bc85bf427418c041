"""missing_labels: the labels that a family lacks and others of its level have, and leaves for what is missing."""

from dataclasses import replace

import numpy as np

from attributary.tables.table_columns import is_text_type
from attributary.tree.labels import codes
from attributary.tree.tree import Tree
from attributary.types import Bools, Ints

REST = "(rest)"  # the label of what is missing, where none is known
RECURS = 0.51  # of the families of a level, more than half: a label of so many may be missing in the others


def lacking(tree: Tree, share: float) -> tuple[Ints, Ints]:
    """Of the labels that this share of a level's families have, how many each family has and how many there are.

    In level order, by the family's parent; 0 and 0 for nodes without children.
    """
    has, usual_labels = np.zeros(len(tree), np.int64), np.zeros(len(tree), np.int64)
    for level in range(1, tree.depth):
        code, usual = _labels(tree, level, share)
        family = tree.family[tree.slice(level)]
        has += np.bincount(family, usual[code], len(tree)).astype(np.int64)
        usual_labels[family] = usual.sum()
    return has, usual_labels


def with_missing(tree: Tree, incomplete: Bools) -> Tree:
    """The tree with leaves behind its nodes for what is missing below these nodes, which are in level order.

    There is one for each label that they lack and most families of that level have, and one for the rest where they
    lack no such label, or the level has others. What is added has the usual labels of the levels below.
    """
    import pyarrow as pa

    own = np.arange(len(tree)) if tree.order is None else tree.order
    coded = [np.zeros(int(tree.total), np.int64), *(codes(labels) for labels in tree.labels)]
    parents, code = [tree.parent.astype(np.int64)], [tree.from_level_order(np.concatenate(coded))]
    names = [labels.dictionary for labels in tree.labels]
    added, nodes = np.zeros(0, np.int64), len(tree)
    for level in range(1, tree.depth):
        j, up = level - tree.total, tree.slice(level - 1)
        of_level, usual = _labels(tree, level, RECURS)
        width = len(usual) + 1
        there = own[tree.family[tree.slice(level)]] * width + of_level
        short = own[up][incomplete[up]]
        key = np.setdiff1d((np.append(short, added)[:, None] * width + np.flatnonzero(usual)).ravel(), there)
        rest = short[~np.isin(short, key // width)] if usual[np.unique(of_level)].all() else short
        if len(rest):
            text = names[j].cast(pa.string())
            place = text.index(REST).as_py()
            names[j] = text if place >= 0 else pa.concat_arrays([text, pa.array([REST])])
            key = np.append(key, np.setdiff1d(rest * width + place % width, there))  # -1 % width is the last
        parents, code = [*parents, key // width], [*code, key % width]
        added, nodes = np.arange(nodes, nodes + len(key)), nodes + len(key)
    made = Tree.from_parents(np.concatenate(parents))
    codes_of = made.to_level_order(np.concatenate(code)).astype(np.int32)
    ends = [*made.offsets, *[len(made)] * len(names)]
    of_nodes = [codes_of[ends[j + tree.total] : ends[j + tree.total + 1]] for j in range(len(names))]
    labels = tuple(pa.DictionaryArray.from_arrays(*each) for each in zip(of_nodes, names, strict=True))
    return replace(made, attributes=tree.attributes, labels=labels, total=tree.total)


def _labels(tree: Tree, level: int, share: float) -> tuple[Ints, Bools]:
    """The code of each node's label at a level, and whether each label is in this share of the families there."""
    coded = tree.labels[level - tree.total]
    code, families = codes(coded), len(np.unique(tree.family[tree.slice(level)]))
    usual: Bools = np.bincount(code, minlength=len(coded.dictionary)) >= max(share * families - 1e-9, 1 + (share > 0))
    if is_text_type(coded.dictionary.type):
        usual &= coded.dictionary.to_numpy(zero_copy_only=False) != REST
    return code, usual
