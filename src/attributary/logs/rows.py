"""Rows: rows to count, as SQL."""

from typing import NamedTuple


class Rows(NamedTuple):
    """A SELECT that gives rows with a `fate` and these attributes."""

    sql: str
    attributes: list[str]  # known_0, …, unknown_0, …
    stage: str  # what counting them is, in words
