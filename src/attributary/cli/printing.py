"""Printing: tables and numbers for the eye, to standard error."""

import os
import sys
from collections.abc import Callable
from math import isinf, isnan
from typing import Any

WIDTH = 160  # of what goes to a file
GAP = 2  # between columns


def console() -> Any:
    """Standard error, with colours if that is a terminal; nothing in a label is taken for markup."""
    from rich.console import Console

    wide = None if sys.stderr.isatty() or "COLUMNS" in os.environ else WIDTH
    return Console(stderr=True, highlight=False, markup=False, emoji=False, soft_wrap=True, width=wide)


def print_table(out: Any, rows: list[list[str]], together: int = 0) -> None:
    """Prints heads and rows, words in the first column and figures in the others.

    Where they do not fit, the columns after the first `together` have a table of their own.
    """
    out.print()
    if not together or sum(max(map(len, column)) + GAP for column in zip(*rows, strict=True)) <= out.width + GAP:
        out.print(_table(rows))
        return
    out.print(_table([row[:together] for row in rows]))
    out.print()
    out.print(_table([[row[0], *row[together:]] for row in rows]))


def _table(rows: list[list[str]]) -> Any:
    from rich.table import Table

    made = Table(box=None, padding=(0, GAP, 0, 0), pad_edge=False)
    made.add_column(rows[0][0], overflow="fold")
    for head in rows[0][1:]:
        made.add_column(head, justify="right")
    for row in rows[1:]:
        made.add_row(*row)
    return made


def percent(part: float) -> str:
    """A part as a percentage; ∞ stays, and nan is nothing."""
    if isnan(part):
        return ""
    if isinf(part):
        return "∞"
    return f"{part:.1%}" if part < 10 else f"{part:,.0%}"


def change(part: float) -> str:
    """By how much something became better, in words."""
    if abs(part) < 0.0005:
        return "–"
    return f"{part:.1%}" if part > 0 else f"{-part:.1%} worse"


def key(contribution: float) -> str:
    """A contribution; 0 means that there is no key."""
    return f"{contribution:,.0f}" if contribution else "no key"


def span(values: Any, shown: Callable[[float], str]) -> str:
    """The median, and the least and the largest value where they differ."""
    import numpy as np

    low, middle, high = (shown(float(x)) for x in (values.min(), np.median(values), values.max()))
    return middle if low == high else f"{middle} ({low} to {high})"


def one_line(words: str) -> str:
    """The words with line breaks, escapes and the like spelt out."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in words)
