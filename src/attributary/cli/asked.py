"""asked: the spec of a command, its tree and its prior, from files."""

from typing import Any, NamedTuple

import click

from attributary.cli.occurred import occurred
from attributary.errors import InputError
from attributary.pipeline.level_columns import level_columns, refuse_sums, refused
from attributary.pipeline.read_prior import earlier, of_measure
from attributary.prior import Prior, none
from attributary.spec import Spec
from attributary.spec.mistakes import Mistakes
from attributary.tables import read_table
from attributary.tree import Tree


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
    rows = level_columns(table, known, path)
    with refused(path):
        return spec.tree(rows)
