"""dataset: what is known of a published dataset before its file is opened, and how a log compares with it."""

from typing import Any, NamedTuple

SLACK = {"partners": 1, "campaigns": 1}  # whether `missing` was counted as one is not known
ROUNDING = 1e-9


class PublishedFigure(NamedTuple):
    """A published figure, and how near to it a look-alike has to come."""

    name: str
    published: float
    tolerance: float = 0  # relative
    error: float = 0  # the relative standard error that rows drawn at random add, at the published number of them


class FigureQuery(NamedTuple):
    """SQL over the table {log} whose values, row by row, are the figures; {scale} is published rows per row."""

    sql: str
    figures: list[PublishedFigure]


class Dataset(NamedTuple):
    name: str
    file: str  # what the publisher calls it
    columns: dict[str, str]  # in the file's order, with their SQL types
    header: bool  # whether the file must begin with their names
    impressions: str  # SQL over the file {published}, for one row per impression
    measured: str  # SQL over {impressions}, for the figures below
    published: dict[str, int]  # figures that tell a wrong or truncated file apart
    queries: list[FigureQuery]  # more published figures, by which a look-alike is judged
    last_touch: str  # as `impressions`, for a file in which some conversions have no click (the last figure)
    unknown_delay: dict[str, str]  # SQL over {impressions} for each way to treat a conversion without a delay


class Figure(NamedTuple):
    """A figure of a file, next to the published one."""

    name: str
    value: int
    published: int

    @property
    def agrees(self) -> bool:
        return abs(self.value - self.published) <= SLACK.get(self.name, 0)

    def __str__(self) -> str:
        return f"{self.name} {self.value:,} instead of {self.published:,}"


class Comparison(NamedTuple):
    """A figure of a log, scaled to the published number of rows, next to the published one."""

    figure: PublishedFigure
    value: float
    share: float  # of the published number of rows

    @property
    def agrees(self) -> bool:
        """Whether the figure is the published one, within its tolerance and four standard errors."""
        room = ROUNDING + self.figure.tolerance + 4 * self.figure.error / self.share**0.5
        return bool(abs(self.value / self.figure.published - 1) <= room)


def figures(connection: Any, impressions: str, dataset: Dataset) -> list[Figure]:
    """The figures that tell a wrong file apart, for a table given as SQL; this reads all of it once."""
    values = connection.sql(dataset.measured.format(impressions=impressions)).fetchall()[0]
    return [
        Figure(name, int(value), published)
        for (name, published), value in zip(dataset.published.items(), values, strict=True)
    ]


def compare(connection: Any, impressions: str, dataset: Dataset) -> list[Comparison]:
    """All published figures of a dataset, next to those of a table given as SQL."""
    rows = connection.sql(f"SELECT COUNT(*) FROM ({impressions})").fetchall()[0][0]
    share = rows / dataset.published["rows"]
    comparisons = []
    for query in dataset.queries:
        cells = connection.sql(query.sql.format(log=f"({impressions})", scale=f"({1 / share!r})")).fetchall()
        values = [value for row in cells for value in row][: len(query.figures)]
        values += [0] * (len(query.figures) - len(values))
        comparisons += [Comparison(f, float(value), share) for f, value in zip(query.figures, values, strict=True)]
    return comparisons


def share_figures(name: str, published: list[float], of: int) -> list[PublishedFigure]:
    """Shares of so many rows, published with three digits."""
    return [
        PublishedFigure(f"{name} {number + 1}", share, 0.0006 / share, ((1 - share) / share / of) ** 0.5)
        for number, share in enumerate(published)
    ]
