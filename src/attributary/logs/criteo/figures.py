"""figures: what a file holds, next to what was published, to tell a wrong or truncated file apart."""

from typing import Any, NamedTuple

from attributary.logs.criteo.dataset import Dataset

SLACK = {"partners": 1, "campaigns": 1}  # whether `missing` was counted as one is not known


class Figure(NamedTuple):
    name: str
    found: int
    published: int

    @property
    def agrees(self) -> bool:
        return abs(self.found - self.published) <= SLACK.get(self.name, 0)

    def __str__(self) -> str:
        return f"{self.name} {self.found:,} instead of {self.published:,}"


def figures(connection: Any, attributed: str, of: Dataset) -> list[Figure]:
    """The figures of an attributed table, given as SQL; this reads all of it once."""
    found = connection.sql(of.measured.format(attributed=attributed)).fetchall()[0]
    return [Figure(name, int(value), of.published[name]) for name, value in zip(of.published, found, strict=True)]
