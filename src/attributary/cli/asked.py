"""asked: the spec of a command, its tree and its prior, from files."""

from typing import Any, NamedTuple

import click

from attributary.cli.labels import labels, refuse_sums
from attributary.cli.occurred import occurred
from attributary.cli.profiled import of_measure
from attributary.cli.reading import refused
from attributary.errors import InputError
from attributary.prior import Prior, from_counts, from_estimates, none
from attributary.spec import Spec
from attributary.spec.mistakes import Mistakes
from attributary.tables import read_table, shown
from attributary.tables.not_private import mark, words_of
from attributary.tables.table_columns import floats
from attributary.tree import Tree

COUNTS, ESTIMATES = ("conversions",), ("estimate", "variance")  # the columns that a prior is made of


class Asked(NamedTuple):
    tree: Tree
    prior: Prior


def load_spec(path: str) -> Spec:
    """The spec in a file; its mistakes are printed one to a line."""
    try:
        return Spec.load(path)
    except Mistakes as mistakes:
        if len(mistakes.lines) == 1:
            raise
        click.echo(f"error: {mistakes}", err=True)
        raise click.exceptions.Exit(2) from None


def asked(spec: Spec, tree_path: str | None, prior_path: str | None, protected: bool) -> Asked:
    """The tree that will be queried, and the prior on it; where no paths are given, they are the prior's."""
    known = [attribute.name for attribute in spec.known]
    if known and tree_path is None and prior_path is None:
        raise InputError(
            f"a plan needs the values of {', '.join(known)} that will be queried; give counts of an earlier period "
            "with --prior, or a table of them with --tree"
        )
    history = None if prior_path is None else of_measure(read_table(prior_path), spec, prior_path)
    tree = _tree(spec, known, history, prior_path or "") if tree_path is None else occurred(spec, (tree_path,))
    if history is None or prior_path is None:
        return Asked(tree, none(tree))
    prior = earlier(tree, known, history, prior_path, protected)
    refuse_sums(tree, prior.mean, prior_path, "leave its rows out, or rename it")
    return Asked(tree, prior)


def _tree(spec: Spec, known: list[str], table: Any, path: str) -> Tree:
    if not known:
        return spec.tree()
    rows = _labels(table, known, path)
    with refused(path):
        return spec.tree(rows)


def earlier(tree: Tree, known: list[str] | None, table: Any, path: str, protected: bool = False) -> Prior:
    """What a table of an earlier period, its counts or its estimates, says of a tree.

    One that is marked NOT PRIVATE is not protected, whatever the caller says.
    """
    estimates = ESTIMATES[0] in table.column_names
    if not estimates and COUNTS[0] not in table.column_names:
        raise InputError(
            f"{shown(path)} is no prior: it has neither conversions (counts of an earlier period) nor estimate and "
            f"variance (an earlier report); its columns are {', '.join(table.column_names)}"
        )
    rows = _labels(table, list(tree.attributes), path)
    for name in ESTIMATES if estimates else COUNTS:
        rows = rows.append_column(name, [floats(table, name, path)])
    rows = mark(rows, words_of(table))
    with refused(path):
        if estimates:
            return from_estimates(tree, rows, known=known)
        return from_counts(tree, rows, known=known, protected=protected)


def _labels(table: Any, names: list[str], path: str) -> Any:
    import pyarrow as pa

    return pa.table({name: labels(table, name, path).column(0) for name in names})
