"""File kind: what a file is, for every command that takes files: by its first bytes, its ending, and its columns.

>>> file_kind("shop/run/estimates.parquet")
KnownFile(path='shop/run/estimates.parquet', kind='estimates', names=('node', 'parent', 'level', …))
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, NoReturn

from attributary.errors import InputError
from attributary.estimates import NODE, is_estimates
from attributary.ratio import is_ratios
from attributary.tables.table_reader import column_names, read_table
from attributary.tables.table_source import BINARY, by_name, packing_of, readable, shards
from attributary.types import Arrow

Kind = Literal[
    "plan", "estimates", "ratios", "evaluation", "counts", "table", "spec", "JSON", "reports", "folder", "other"
]
KINDS: dict[Kind, str] = {
    "plan": "is a plan",
    "estimates": "is a table of estimates",
    "ratios": "holds ratios",
    "evaluation": "is an evaluation",
    "counts": "holds true counts",
    "table": "is another table",
    "spec": "is a spec",
    "JSON": "is JSON, but not a plan",
    "reports": "holds reports, a summary report or a domain",
    "folder": "is a folder",
    "other": "is neither a table nor a plan",
}
TABLES = ("estimates", "ratios", "evaluation", "counts", "table")
TAKES = {
    "report": "a report is made of a plan, a table of estimates, an evaluation, or a folder of them",
    "explore": "explore takes estimates, noisy figures, a plan, a spec, or a folder that `attributary run` wrote",
    "aggregate": "aggregate takes a plan, then reports; without a plan, give `epsilon` and `l1`",
    "tree": "a tree is read from a table of impressions, counts or nodes",
}
EVALUATION = ("method", "epsilon", "tau", "rmsre")
FIRST_BYTES = 2**20
BLANK = b"\xef\xbb\xbf \t\r\n"


@dataclass(frozen=True)
class KnownFile:
    """A file, what it is, and what was read to find out: the columns of a table."""

    path: str
    kind: Kind
    names: tuple[str, ...] = ()
    separator: str | None = None
    sheet: str | None = None

    @cached_property
    def table(self) -> Arrow:
        """The table in it, read once."""
        return read_table(self.path, separator=self.separator, sheet=self.sheet)

    def holding(self, table: Arrow) -> "KnownFile":
        """The same file with these rows of its table."""
        made = replace(self, names=tuple(table.column_names))
        made.__dict__["table"] = table
        return made

    def refuse(self, command: str, remedy: str = "") -> NoReturn:
        """Refuses the file: what it is, what the command takes, and what to do instead."""
        more = f"; its columns are {', '.join(self.names)[:200]}" if self.kind == "table" else ""
        more = "; tables end in .parquet, .csv, .tsv or .arrow" if self.kind == "other" else more
        raise InputError(f"{self.path} {KINDS[self.kind]}{more}; {TAKES[command]}{remedy and '; ' + remedy}")


def file_kind(
    path: str,
    command: str = "report",
    levels: list[str] | None = None,
    separator: str | None = None,
    sheet: str | None = None,
) -> KnownFile:
    """What is at a path; one that is not there or cannot be read is refused with what the `command` takes.

    `levels` are the columns that name a node, where a user says so; a table's cells may need a `separator`, too.
    """
    if parts := shards(path):
        return replace(file_kind(parts[0], command, levels, separator, sheet), path=path)
    if os.path.isdir(path):
        return KnownFile(path, "folder")
    with readable(path, TAKES[command]), open(path, "rb") as file:
        beginning = file.read(FIRST_BYTES)
    if not beginning.strip(BLANK):
        raise InputError(f"{path} is empty; {TAKES[command]}")
    text = beginning.lstrip(BLANK)
    kind: Kind | None = None
    sure = by_name(path).format is not None or beginning.startswith(BINARY) or packing_of(beginning) is not None
    if path.endswith(".toml"):
        kind = "spec"
    elif beginning.startswith(b"Obj\x01"):  # Avro
        kind = "reports"
    elif text.startswith((b"{", b"[")) or (path.endswith(".json") and not sure):
        kind = "plan" if b'"format"' in text else "reports" if b'"shared_info"' in text else "JSON"
    elif not (sure or _is_text(beginning)):
        kind = "other"
    if kind is not None:
        return KnownFile(path, kind)
    try:
        names = tuple(column_names(path, separator, sheet))
    except InputError:
        if sure:
            raise
        return KnownFile(path, "other")
    kind = table_kind(names, levels)
    return KnownFile(path, "other" if kind == "table" and not sure else kind, names, separator, sheet)


def _is_text(beginning: bytes) -> bool:
    try:
        beginning[: max(len(beginning) - 4, 0)].decode()
    except UnicodeError:
        return False
    return b"\0" not in beginning


def table_kind(names: Sequence[str], levels: list[str] | None = None) -> Kind:
    """What a table is, by its columns."""
    if set(EVALUATION) <= set(names):
        return "evaluation"
    if is_ratios(list(names), levels):
        return "ratios"
    if is_estimates(list(names)):
        return "estimates"
    return "counts" if "conversions" in names else "table"


def has_nodes(names: Sequence[str]) -> bool:
    """Whether a table has a row for each node, and not for each impression."""
    return any(set(names) >= columns for columns in (set(NODE), {"estimate", "variance"}))


def files_in(folder: str) -> list[str]:
    """The files of a folder that may be tables or plans, by name; the nodes of a plan belong to it."""
    with readable(folder, TAKES["report"]):
        names = sorted(os.listdir(folder))
    shown = [name for name in names if not name.startswith(".") and not name.endswith(".nodes.parquet")]
    paths = [os.path.join(folder, name) for name in shown if name.endswith(".json") or by_name(name).format]
    return [path for path in paths if os.path.isfile(path) or shards(path)]
