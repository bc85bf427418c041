"""answers: published figures, and how near to them a look-alike has to come."""

from typing import NamedTuple


class Answer(NamedTuple):
    name: str
    published: float
    tolerance: float = 0  # relative
    error: float = 0  # the relative standard error that rows drawn at random add, at the published number of them


class Question(NamedTuple):
    """SQL over the table {log} whose values, row by row, are the answers; {scale} is published rows per row."""

    sql: str
    answers: list[Answer]


def shares(name: str, published: list[float], of: int) -> list[Answer]:
    """Shares of so many rows, published with three digits."""
    return [
        Answer(f"{name} {number + 1}", share, 0.0006 / share, ((1 - share) / share / of) ** 0.5)
        for number, share in enumerate(published)
    ]
