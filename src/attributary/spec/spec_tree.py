"""spec_tree: the tree that is queried, from the paths that occur and the domains of what is unknown."""

import numpy as np
from numpy.typing import NDArray

from attributary.errors import InputError
from attributary.tables.table_columns import arrow_table
from attributary.tree import Tree
from attributary.tree.paths import codes, depths, read_paths, text_labels
from attributary.tree.tree import level_order
from attributary.types import Arrow, Cells

LARGEST = 2**31  # nodes of a tree


def queried(table: Arrow, names: list[str], domains: dict[str, tuple[str, ...]], total: bool) -> Tree:
    """Known attributes as they occur in the table, the full domain of unknown ones under whatever stands above them."""
    import pyarrow as pa

    known = [name for name in names if name not in domains]
    tops, texts = _known(table, known) if known else ([], [])
    _refuse_too_many(len(tops[-1]) if known else 1, domains)
    parents, labels = [np.array([-1])] if total else list[NDArray[np.int64]](), list[Cells]()
    held, passed = np.zeros(1, np.int64), 0  # which known path each node above has, and how many attributes it has
    for name in names:
        if name in domains:
            each = np.full(len(held), len(domains[name]))
            code = np.tile(np.arange(len(domains[name]), dtype=np.int32), len(held))
            held, text = np.repeat(held, each), pa.DictionaryArray.from_arrays(code, pa.array(domains[name]))
        else:  # the children of each known path, once for each node that has it
            number = np.bincount(tops[passed]) if passed else np.array([len(tops[0])])
            each, first = number[held], (np.cumsum(number) - number)[held]
            held = np.repeat(first - (np.cumsum(each) - each), each) + np.arange(each.sum())
            text, passed = texts[passed].take(pa.array(held)), passed + 1
        above = np.repeat(np.arange(len(each)), each)
        parents.append(above if parents else np.full(len(above), -1))
        labels.append(text)
    start = np.concatenate([[0], np.cumsum([len(level) for level in parents])])
    parent = np.concatenate([level + start[i - 1] if i else level for i, level in enumerate(parents)])
    layout = level_order(parent)
    return Tree(parent.astype(np.int32), layout.first, layout.offsets, None, tuple(names), tuple(labels), total)


def occurring(table: Arrow, name: str) -> list[str]:
    """The labels of a column; those of conversions, whose impressions have none there."""
    if table is None or name not in arrow_table(table).column_names:
        raise InputError(f"{name!r} takes the values that occur, and the table has no column {name!r}; give a domain")
    labels = text_labels(arrow_table(table), name).dictionary_decode().unique().to_pylist()
    if not any(labels):
        raise InputError(f"{name!r} takes the values that occur, and none does; give a domain")
    return [label for label in labels if label]


def _known(table: Arrow, known: list[str]) -> tuple[list[NDArray[np.int64]], list[Cells]]:
    """The parents of each level, counted within the level above, and its labels."""
    if table is None:
        raise InputError(f"the tree needs a table of the known attributes, {', '.join(known)}, as they occur; got none")
    paths = read_paths(_distinct(arrow_table(table), known), known, fill=True)
    layout = level_order(paths.parent)
    _refuse_short_paths(
        Tree(paths.parent.astype(np.int32), layout.first, layout.offsets, None, tuple(known), paths.labels)
    )
    parents = np.split(paths.parent, layout.offsets[1:-1])
    return [level - layout.offsets[i - 1] if i else level for i, level in enumerate(parents)], list(paths.labels)


def _distinct(table: Arrow, known: list[str]) -> Arrow:
    """Every path once, in order of appearance, as text; rows without any label, such as a total's, are passed over."""
    import pyarrow as pa

    if table.num_rows == 0:
        raise InputError("the table of known attributes is empty; give the paths that will be queried")
    columns = [text_labels(table, name) for name in known]
    code = {name: codes(column) for name, column in zip(known, columns, strict=True)}
    depths(list(code.values()), known)  # refuses gaps
    keys = pa.table(code).filter(pa.array(code[known[0]] >= 0))
    if keys.num_rows == 0:
        raise InputError(f"no row has a label in column {known[0]!r}; give the paths that will be queried")
    keys = keys.group_by(known, use_threads=False).aggregate([])  # threads would shuffle them
    numbers = {name: keys.column(name).to_numpy().astype(np.int32) for name in known}
    return pa.table(
        {
            name: pa.DictionaryArray.from_arrays(pa.array(numbers[name], mask=numbers[name] < 0), column.dictionary)
            for name, column in zip(known, columns, strict=True)
        }
    )


def _refuse_short_paths(tree: Tree) -> None:
    """A known path goes down to the last known attribute; rows that end above are nodes that stand above others."""
    short = tree.is_leaf & (tree.level < len(tree.attributes) - 1)
    if short.any():
        node = int(np.argmax(short))
        lacking = tree.attributes[int(tree.level[node]) + 1]
        raise InputError(f"{tree.name(node)} has no {lacking!r} in any row; give a missing value a label, as in 'none'")


def _refuse_too_many(leaves: int, domains: dict[str, tuple[str, ...]]) -> None:
    nodes = leaves
    for name, domain in domains.items():
        leaves *= len(domain)
        nodes += leaves
        if nodes >= LARGEST:
            raise InputError(
                f"a tree holds fewer than 2**31 nodes; the domains down to {name!r} make {nodes:,}: use fewer values"
            )
