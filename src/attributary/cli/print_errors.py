"""Print errors: the tables of an evaluation, to standard error."""

from collections.abc import Iterable

from attributary.cli.printing import console, print_table
from attributary.evaluate.comparison import Evaluation
from attributary.facts.evaluation import best_tables, error_tables
from attributary.facts.numerals import Table


def print_errors(evaluation: Evaluation) -> None:
    """Prints each method's error and, where the paper's greedy method was tried, its best method beside ours."""
    print_error_tables(error_tables(evaluation.points))
    print_error_tables(best_tables(evaluation))


def print_error_tables(tables: Iterable[Table]) -> None:
    out = console()
    for table in tables:
        out.print(table.caption)
        print_table(out, [table.heads, *table.rows], table.together)
        out.print()
