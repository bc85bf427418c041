"""The command as a test calls it, and a small table."""

import csv
import io
import sys
from typing import Any

import pyarrow as pa
from click.testing import CliRunner, Result

from attributary.cli import main
from attributary.tables.table_writer import text

ADDED = ["estimate", "variance", "low", "high", "correction"]
PYTHON = [sys.executable, "-m", "attributary.cli"]


def attributary(*args: object, code: int | None = 0) -> Result:
    """What the command did with these arguments; it must end with this code, whichever with None."""
    result = CliRunner().invoke(main, [str(arg) for arg in args])
    assert code is None or result.exit_code == code, result.output
    return result


def run(*options: str, table: str = "-", levels: str = "a,b,c", value: str = "noisy", data: Any = None) -> Result:
    args = ["denoise", "--table", table, "--levels", levels, "--value", value, *options]
    return CliRunner().invoke(main, args, input=data)


def answer(*options: str, **given: Any) -> list[dict[str, str]]:
    """The rows that the command prints as CSV."""
    result = run("--quiet", *options, **given)
    assert (result.exit_code, result.stderr) == (0, ""), result.output
    return list(csv.DictReader(io.StringIO(result.stdout, newline="")))


def numbers(rows: list[dict[str, str]], name: str) -> list[float]:
    return [float(row[name] or "nan") for row in rows]


SMALL = """a,b,c,noisy,v,note
x,,,103.25,8,007
x,p,,58,4,"a, b"
x,q,*,51.5,4,
x,p,1,30.5,2,"two
lines"
x,p,2,25.5,2,
x,q,1,20.5,2,é
x,q,2,35,2,"say ""hi""!"
"""
TREE = {"a": ["x"] * 7, "b": [None, "p", "q", "p", "p", "q", "q"], "c": [None] * 3 + ["1", "2", "1", "2"]}
NOISY, VAR = [103.25, 58, 51.5, 30.5, 25.5, 20.5, 35], [8.0, 4, 4, 2, 2, 2, 2]


def csv_of(table: pa.Table) -> str:
    return b"".join(bytes(block) for block in text(table, ",")).decode()
