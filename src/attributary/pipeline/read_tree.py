"""read_tree: the tree to query, from the impressions that occurred or from counts, and the prior on it."""

from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa

from attributary.errors import InputError
from attributary.file_kind import TABLES, file_kind, has_nodes
from attributary.logs.log_columns import label_codes
from attributary.logs.log_files import files, partition
from attributary.pipeline.breakdowns import by_breakdown
from attributary.pipeline.level_columns import level_columns
from attributary.pipeline.read_prior import of_measure, prior_table, read_prior
from attributary.plan import Plan
from attributary.plan.file import refuse_other_plan
from attributary.prior import Prior, none
from attributary.prior.earlier import HISTORY
from attributary.prior.history import LATEST
from attributary.spec import Logs, Spec
from attributary.spec.breakdown import BREAKDOWN
from attributary.tables import read_table
from attributary.tables.table_columns import arrow_table, column, of_label
from attributary.tree import Tree
from attributary.tree.paths import refused, text_labels
from attributary.types import Arrow

COVERS = "impressions"  # in the metadata of a tree: "all", if all that its reports may hold conversions of are in it


class TreeAndPrior(NamedTuple):
    """The tree that a plan is made for, and its prior."""

    tree: Tree
    prior: Prior


def read_tree_and_prior(
    spec: Spec,
    tree_path: str | None,
    prior_path: str | None,
    protected: bool,
    table: Arrow = None,
    breakdown: str = "",
) -> TreeAndPrior:
    """The tree that will be queried, and the prior on it; where no paths are given, they are the prior's.

    A `table` has what was read from the prior's file, of several breakdowns the rows of the one named.
    """
    known = [attribute.name for attribute in spec.known]
    if protected and prior_path is None:
        raise InputError("`protected` describes the counts in `prior`; give those, or leave it out")
    if known and tree_path is None and prior_path is None:
        raise InputError(
            f"a plan needs the values of {', '.join(known)} that will be queried; give counts of an earlier period "
            "with `prior`, or a table of them with `tree`"
        )
    table = prior_table(prior_path) if table is None and prior_path is not None else table
    if tree_path is not None:
        tree = read_tree(spec, (tree_path,), breakdown)
    else:
        rows = None if prior_path is None else of_measure(table, spec, prior_path)
        tree = _tree(spec, known, rows, prior_path or "")
    if prior_path is None:
        return TreeAndPrior(tree, none(tree))
    return TreeAndPrior(tree, read_prior(spec, tree, prior_path, protected, table))


def trees_and_priors(spec: Spec, tree_path: str | None, prior_path: str | None, protected: bool) -> list[TreeAndPrior]:
    """The tree of each breakdown, and the prior on it; the tree is a table with the known attributes of all."""
    table = None if prior_path is None else prior_table(prior_path)
    rows = [None] * len(spec.parts) if table is None else by_breakdown(spec, table, str(prior_path))
    return [
        read_tree_and_prior(part, tree_path, prior_path, protected, own, name)
        for part, own, name in zip(spec.parts, rows, spec.called or ("",), strict=True)
    ]


def _tree(spec: Spec, known: list[str], table: Arrow, path: str) -> Tree:
    if not known:
        return spec.tree()
    if HISTORY.encode() in (table.schema.metadata or {}):  # what is queried is what the last period had
        table = table.filter(table.column(LATEST))
    rows = level_columns(table, [*known, *(attribute.name for attribute in spec.unknown if attribute.occurs)], path)
    with refused(path):
        return spec.tree(rows)


def read_tree(spec: Spec, names: tuple[str, ...], breakdown: str = "") -> Tree:
    """The tree of the impressions, or counts, in some files; names, patterns and folders.

    Of counts of several breakdowns, only the rows of this one.
    """
    paths = names if "-" in names else tuple(files(names).paths)
    return _tree_of(spec, _tables(spec, paths, breakdown)) if spec.known else spec.tree()


class QueriedTrees(NamedTuple):
    """The tree of each breakdown that reports were queried by."""

    trees: list[Tree]
    covers: bool = False  # whether all impressions that the reports may hold conversions of are in them


def read_queried(plan: Plan, path: str, name: str = "the plan") -> QueriedTrees:
    """The trees in a file that `keys --impressions` wrote; refuses those of another plan."""
    trees, covers = [], True
    for part, breakdown in zip(plan.spec.parts, plan.names, strict=True):
        tables = _tables(part, tuple(files((path,)).paths), breakdown)
        for file, table in tables.items():
            said = table.schema.metadata or {}
            refuse_other_plan(file, said.get(b"plan", b""), plan.fingerprint, name)
            covers &= said.get(COVERS.encode()) == b"all"
            if breakdown and not table.num_rows:
                raise InputError(f"{file} has no rows of the breakdown {breakdown!r}; make it by this plan")
        trees.append(_tree_of(part, tables))
    return QueriedTrees(trees, covers)


def _tables(spec: Spec, paths: tuple[str, ...], breakdown: str = "") -> dict[str, Arrow]:
    tables = {}
    for path in paths:
        if "://" in path:
            raise InputError(f"{path} is an address, which only counting reads; copy the file, or give counts of it")
        known = None if path == "-" else file_kind(path, "tree")
        if known is not None and known.kind not in (*TABLES, "other"):
            known.refuse("tree")
        table = read_table(path) if known is None else known.table
        for name, cell in partition(path).items():  # columns that folders are named after, as counting reads them
            if name not in table.column_names:
                table = table.append_column(name, pa.array([cell] * table.num_rows, pa.string()))
        table = of_label(table, BREAKDOWN, breakdown, ()) if breakdown and BREAKDOWN in table.column_names else table
        for name in known_columns(spec, table.column_names):
            column(table, name, path)  # or an error that tells what there is
        tables[path] = table
    return tables


def _tree_of(spec: Spec, tables: dict[str, Arrow]) -> Tree:
    paths = list(tables)
    with refused(paths[0] if len(paths) == 1 else f"{paths[0]} and {len(paths) - 1} more"):
        return queried_tree(spec, list(tables.values()))


def queried_tree(spec: Spec, tables: Sequence[Arrow]) -> Tree:
    """The tree of the impressions in some tables, or of counts; known attributes as they occur, unknown ones in full.

    Rows of impressions are labelled as in counts: what is missing is `missing`. In a table of nodes, an empty cell
    means that the node is above.
    """
    if not spec.known:
        return spec.tree()
    labels = [_labels(spec, arrow_table(table)) for table in tables]
    return spec.tree(pa.concat_tables(labels).unify_dictionaries())


def known_columns(spec: Spec, columns: Sequence[str]) -> tuple[str, ...]:
    """The columns of the known attributes: their names in the logs, if the table has these, or in the spec."""
    called = {} if spec.logs is None else spec.logs.impression_columns
    names = (called.get(a.name, a.name) for a in spec.known)
    return tuple(name if name in columns else a.name for a, name in zip(spec.known, names, strict=True))


def _labels(spec: Spec, table: Arrow) -> Arrow:
    """The known attributes of a table's rows, as text, dictionary-coded."""
    each = list(zip(spec.known, known_columns(spec, table.column_names), strict=True))
    if has_nodes(table.column_names):
        return pa.table({a.name: text_labels(table, name) for a, name in each})
    labelled = {a.name: label_codes(table, name, a, spec.logs or Logs()) for a, name in each}
    return pa.table({name: column.coded for name, column in labelled.items()})
