"""read_tree: the tree that a spec asks for, and the prior on it, from files."""

from typing import Any, NamedTuple

from attributary.api.query_tree import known_columns, queried_tree
from attributary.errors import InputError
from attributary.logs.log_files import files, partition
from attributary.pipeline.level_columns import level_columns, refuse_sums, refused
from attributary.pipeline.read_prior import earlier, of_measure
from attributary.prior import Prior, none
from attributary.spec import Spec
from attributary.tables import read_table
from attributary.tables.table_columns import column
from attributary.tree import Tree


class TreeAndPrior(NamedTuple):
    """What a plan is made for."""

    tree: Tree
    prior: Prior


def read_tree_and_prior(spec: Spec, tree_path: str | None, prior_path: str | None, protected: bool) -> TreeAndPrior:
    """The tree that will be queried, and the prior on it; where no paths are given, they are the prior's."""
    known = [attribute.name for attribute in spec.known]
    if known and tree_path is None and prior_path is None:
        raise InputError(
            f"a plan needs the values of {', '.join(known)} that will be queried; give counts of an earlier period "
            "with --prior, or a table of them with --tree"
        )
    history = None if prior_path is None else of_measure(read_table(prior_path), spec, prior_path)
    tree = _tree(spec, known, history, prior_path or "") if tree_path is None else read_tree(spec, (tree_path,))
    if history is None or prior_path is None:
        return TreeAndPrior(tree, none(tree))
    prior = earlier(tree, known, history, prior_path, protected)
    refuse_sums(tree, prior.mean, prior_path, "leave its rows out, or rename it")
    return TreeAndPrior(tree, prior)


def _tree(spec: Spec, known: list[str], table: Any, path: str) -> Tree:
    if not known:
        return spec.tree()
    rows = level_columns(table, known, path)
    with refused(path):
        return spec.tree(rows)


def read_tree(spec: Spec, given: tuple[str, ...]) -> Tree:
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
