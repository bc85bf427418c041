"""Printing: tables and numbers for the eye, to standard error."""

import os
import re
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import click

from attributary.cli.command_errors import with_options
from attributary.cli.summary_file import current, log_line
from attributary.facts.numerals import PERCENT, Numeral, Table
from attributary.types import Record

WIDTH = 160  # of what goes to a file
GAP = 2  # between columns
NUMBER = re.compile(r"[-+]?[0-9]+(\.[0-9]+)?")


def say(line: str, always: bool = False) -> None:
    """Prints a line to standard error; `always` also where -q is given, as for what is not private."""
    summary, line = current(), _as_said(line)
    if summary is not None:
        summary.messages += [part for part in line.split("\n") if part]
    if not (always and log_line("warning", message=line)) and (always or not muted()):
        click.echo(line, err=True)


def warn_first(words: str) -> None:
    """Prints a warning that stands before all else, if there is one."""
    if words:
        say(f"warning: {words}")


def muted() -> bool:
    """Whether -q is given beside --summary: then lines are noted, but not shown."""
    summary = current()
    return summary is not None and summary.muted


class Out:
    """Standard error for lines and tables."""

    def __init__(self) -> None:
        from rich.console import Console

        wide = None if sys.stderr.isatty() or "COLUMNS" in os.environ else WIDTH
        options: Record = {"highlight": False, "markup": False, "emoji": False, "soft_wrap": True}
        self.summary = current()
        self._console = Console(stderr=True, quiet=muted(), width=wide, **options)
        self.width = self._console.width

    def print(self, line: Any = "") -> None:
        if isinstance(line, str):
            line = _as_said(line)
        elif hasattr(line, "plain"):
            line.plain = _as_said(line.plain)
        text = getattr(line, "plain", line)
        if self.summary is not None and isinstance(text, str):
            self.summary.messages += [part for part in text.split("\n") if part]
        self._console.print(line)


def _as_said(line: str) -> str:
    """A line as this command says it: with its options, and with figures as terminals show them."""
    ctx = click.get_current_context(silent=True)
    return with_options(plain(line), ctx.command if ctx else None)


def plain(text: str) -> str:
    """Words and figures as terminals show them: 5.0%, and no spaces that only a page needs."""
    return text.replace(PERCENT, "%").replace("\u00a0", " ")


def styled(line: str, warning: bool = False) -> Any:
    """A line as it is, in colour if it warns."""
    from rich.text import Text

    return Text(line, "yellow" if warning else "")


def place_of(output: str) -> str:
    return "standard output" if output == "-" else output


def console() -> Out:
    """Standard error, with colours if that is a terminal; nothing in a label is taken for markup."""
    return Out()


def print_table(out: Out, rows: Sequence[Sequence[str]], together: int = 0, *, space: bool = True) -> None:
    """Prints heads and rows, words in the first column and figures in the others.

    Where they do not fit, the columns after the first `together` have a table of their own.
    """
    if out.summary is not None:
        title = out.summary.messages[-1] if out.summary.messages else ""
        out.summary.tables.append({"title": title, "columns": rows[0], "rows": [[*map(_data, r)] for r in rows[1:]]})
    if space:
        out.print()
    if not together or sum(max(map(len, column)) + GAP for column in zip(*rows, strict=True)) <= out.width + GAP:
        out.print(_table(rows))
        return
    out.print(_table([row[:together] for row in rows]))
    out.print()
    out.print(_table([[row[0], *row[together:]] for row in rows]))


def print_tables(tables: Iterable[Table]) -> None:
    """Prints each table under its caption."""
    out = console()
    for table in tables:
        out.print(table.caption)
        print_table(out, [table.heads, *table.rows], table.together)
        out.print()


def _data(cell: str) -> Any:
    """A cell as data: the number that a figure shows, and of other cells those that read as one."""
    if isinstance(cell, Numeral):
        return cell.value
    bare = cell.replace(",", "")
    return float(bare) if "." in bare and NUMBER.fullmatch(bare) else int(bare) if NUMBER.fullmatch(bare) else cell


def _table(rows: Sequence[Sequence[str]]) -> Any:
    from rich.table import Table

    made = Table(box=None, padding=(0, GAP, 0, 0), pad_edge=False)
    made.add_column(rows[0][0], overflow="fold")
    for head in rows[0][1:]:
        made.add_column(plain(head), justify="right")
    for row in rows[1:]:
        made.add_row(*map(plain, row))
    return made
