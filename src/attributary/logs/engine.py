"""engine: what counting asks of DuckDB or Spark. Both run the same SQL; an engine adds what they do not share."""

from collections.abc import Callable
from typing import Literal, NamedTuple, Protocol

from attributary.logs.log_files import Files
from attributary.types import Arrow

Kind = Literal["text", "whole", "number", "bool", "date", "time", "zoned", "other"]  # time: without a zone
Report = Callable[[str, float | None], None]  # told what is being done, and which share of it is, if that is known


class Relation(NamedTuple):
    """The rows of a log, as an engine reads them."""

    sql: str  # what stands after FROM
    kinds: dict[str, Kind]  # of its columns; those of text files are all text
    types: dict[str, str]  # the same in the engine's words
    files: Files

    @property
    def name(self) -> str:
        return self.files.name


class CastError(ValueError):
    """A CAST failed: some text is not what its column is taken for. Who asked knows where to look for it."""


class Engine(Protocol):
    """Reads files and runs portable SQL: what DuckDB and Spark understand in the same way."""

    types: dict[Kind, str]  # what the kinds date, time and zoned are called in SQL

    def open(self, files: Files) -> Relation:
        """The rows of these files; an InputError where they cannot be read, or do not go together."""

    def column(self, name: str) -> str:
        """A column's name in SQL, whatever it is made of."""

    def text(self, value: str) -> str:
        """A text in SQL, whatever it is made of."""

    def micros(self, value: str, kind: Kind) -> str:
        """SQL for the microseconds from 1970 to a value of kind date, time or zoned."""

    def run(self, sql: str, stage: str = "") -> Arrow:
        """The result as an Arrow table; a CastError where a CAST failed, an InputError where reading did.

        `stage` says in words what this is for.
        """

    def place(self, relation: Relation, condition: str) -> str | None:
        """Where the first row is for which this holds, as in `sales.csv: row 5`; None where it is not known."""
