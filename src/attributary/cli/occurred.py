"""occurred: the tree of the values that occurred, from files."""

from attributary.ara.keys.domain import known_columns, queried_tree
from attributary.cli.column import column
from attributary.cli.refused import refused
from attributary.logs.files import files
from attributary.spec import Spec
from attributary.tables import read_table
from attributary.tree import Tree


def occurred(spec: Spec, given: tuple[str, ...]) -> Tree:
    """The tree of the impressions, or counts, in some files; names, patterns and folders."""
    tables = []
    paths = given if "-" in given else files(given).paths
    for path in paths if spec.known else ():
        table = read_table(path)
        for name in known_columns(spec, table):
            column(table, name, path)  # or an error that tells what there is
        tables.append(table)
    with refused(paths[0] if len(paths) == 1 else f"{paths[0]} and {len(paths) - 1} more"):
        return queried_tree(spec, tables)
