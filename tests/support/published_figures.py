"""More published figures of the two datasets, by which a look-alike is judged."""

from typing import Any, NamedTuple

from attributary.paper import DATASETS

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


def compare(connection: Any, impressions: str, name: str) -> list[Comparison]:
    """All published figures of a dataset, next to those of a table given as SQL."""
    rows = connection.sql(f"SELECT COUNT(*) FROM ({impressions})").fetchall()[0][0]
    share = rows / DATASETS[name].published["rows"]
    comparisons = []
    for query in QUERIES[name]:
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


# csscl: figures about partners, converting users, amounts and delays were published for the rows with product data,
# which in the look-alike are those with a country.

SALES = 1_279_493  # with product data
EURO = 122.5  # of a sale on average
CONVERTING = [477_888, 52_064, 46_732, 45_704, 26_280, 22_103, 19_246]
REVENUE = [72.1, 39.7, 20.5, 17.6, 4.0, 0.89, 0.60, 0.41, 0.25, 0.16, 0.078, 0.039]
TWO_DAYS = [0.652, 0.066, 0.044, 0.038, 0.031, 0.025, 0.024, 0.023, 0.017, 0.017, 0.017, 0.013, 0.013, 0.013, 0.008]
SIX_DAYS = [0.761, 0.094, 0.064, 0.047, 0.034]
SHARE_OF_DELAYS = """
SELECT COUNT(*) / SUM(COUNT(*)) OVER () FROM {{log}} AS l WHERE delay IS NOT NULL
GROUP BY delay // {width} ORDER BY delay // {width}
"""
POSITIONS = [400_152, 139_933, 73_191, 44_990, 30_527, 21_932, 16_275, 12_460, 9_769, 7_828]
RATES = {10: 0.012, 25: 0.023, 50: 0.051, 75: 0.086, 90: 0.117}  # published with two or three digits
QUERIES = {
    "csscl": [
        FigureQuery(
            """
SELECT
    COUNT(*) * {scale}, SUM(conversion) * {scale},
    SUM(CASE WHEN conversion = 1 AND delay IS NULL THEN 1 ELSE 0 END) * {scale}, COUNT(DISTINCT user) * {scale},
    COUNT(DISTINCT NULLIF(partner, 'missing')), COUNT(DISTINCT NULLIF(country, 'missing')),
    COUNT(DISTINCT NULLIF(device, 'missing')), COUNT(DISTINCT NULLIF(age_group, 'missing')),
    AVG(CASE WHEN country = 'missing' THEN 1 ELSE 0 END), AVG(CASE WHEN device = 'missing' THEN 1 ELSE 0 END),
    AVG(CASE WHEN age_group = 'missing' THEN 1 ELSE 0 END), (MAX(time) - MIN(time)) // 86400
FROM {log} AS l
""",
            [
                PublishedFigure("rows", 15_995_634),
                PublishedFigure("rows with a sale", 1_732_721, 1e-5),
                PublishedFigure("sales without a delay", 5_380, 0.005),
                PublishedFigure("users", 13_708_490, 1e-4),
                PublishedFigure("partners", 312),
                PublishedFigure("countries", 23, 0, 0.01),
                PublishedFigure("devices", 8),
                PublishedFigure("age groups", 11),
                PublishedFigure("country missing", 0.2397, 2e-4, 5e-5),
                PublishedFigure("device missing", 0.0002, 0.05, 0.018),
                PublishedFigure("age group missing", 0.7352, 5e-4, 2e-4),
                PublishedFigure("last click day", 90),
            ],
        ),
        FigureQuery(
            """
SELECT AVG(n), MAX(n)
FROM (SELECT COUNT(*) AS n FROM {log} AS l WHERE conversion = 1 AND country <> 'missing' GROUP BY user) AS u
""",
            [
                PublishedFigure("conversions of a converting user", 1.073, 0.001),
                PublishedFigure("most conversions of a user", 39),
            ],
        ),
        FigureQuery(
            """
SELECT COUNT(DISTINCT user) * {scale} AS n FROM {log} AS l WHERE conversion = 1 AND country <> 'missing'
GROUP BY partner ORDER BY n DESC LIMIT 7
""",
            [
                PublishedFigure(f"converting users of partner {rank + 1}", count, 1e-4, 1 / count)
                for rank, count in enumerate(CONVERTING)
            ],
        ),
        FigureQuery(
            """
SELECT MAX(n) / SUM(n), MIN(n) * {scale}
FROM (
    SELECT COUNT(DISTINCT user) AS n FROM {log} AS l WHERE conversion = 1 AND country <> 'missing' GROUP BY partner
) AS p
""",
            [
                PublishedFigure("share of the largest partner", 0.40, 0.005),
                PublishedFigure("converting users of the smallest partner", 33, 0.05, 0.05),
            ],
        ),
        FigureQuery(
            """
SELECT SUM(amount) / 1e6 * {scale} AS euros FROM {log} AS l WHERE country <> 'missing'
GROUP BY country ORDER BY euros DESC LIMIT 12
""",
            [
                PublishedFigure(f"revenue of country {rank + 1}, M EUR", euros, 0.01, 2.4 * (EURO / 1e6 / euros) ** 0.5)
                for rank, euros in enumerate(REVENUE)
            ],
        ),
        FigureQuery(
            """
SELECT
    AVG(amount), STDDEV(amount), QUANTILE_CONT(amount, 0.25), QUANTILE_CONT(amount, 0.5), QUANTILE_CONT(amount, 0.75),
    MAX(amount)
FROM {log} AS l
""",
            [
                PublishedFigure("amount, mean", 122.5, 0.001, 0.0017),
                PublishedFigure("amount, standard deviation", 271.1, 0.001, 0.035),
                PublishedFigure("amount, first quartile", 25.9, 0.002, 0.002),
                PublishedFigure("amount, median", 56.7, 0.002, 0.002),
                PublishedFigure("amount, third quartile", 133.3, 0.002, 0.002),
                PublishedFigure("amount, largest", 62_459, 0.001, 0.15),
            ],
        ),
        FigureQuery(
            """
SELECT
    AVG(delay), QUANTILE_CONT(delay, 0.25), QUANTILE_CONT(delay, 0.5), QUANTILE_CONT(delay, 0.75), MAX(delay)
FROM {log} AS l
""",
            [
                PublishedFigure("delay, mean", 359_581, 0.001, 0.0013),
                PublishedFigure("delay, first quartile", 707, 0.002, 0.005),
                PublishedFigure("delay, median", 7_260, 0.001, 0.008),
                PublishedFigure("delay, third quartile", 463_808, 0.001, 0.003),
                PublishedFigure("delay, longest", 2_588_699, 1e-4, 1e-4),
            ],
        ),
        FigureQuery(SHARE_OF_DELAYS.format(width=172_800), share_figures("delay in 2-day bucket", TWO_DAYS, SALES)),
        FigureQuery(SHARE_OF_DELAYS.format(width=518_400), share_figures("delay in 6-day bucket", SIX_DAYS, SALES)),
        FigureQuery(
            """
SELECT MIN(days), MEDIAN(days), AVG(days), MAX(days)
FROM (SELECT AVG(delay) / 86400 AS days FROM {log} AS l WHERE delay IS NOT NULL GROUP BY partner) AS p
""",
            [
                PublishedFigure("a partner's mean delay in days, least", 0.005, 0.02, 0.25),
                PublishedFigure("a partner's mean delay in days, median", 1.68, 0.01, 0.03),
                PublishedFigure("a partner's mean delay in days, mean", 2.18, 0.01, 0.03),
                PublishedFigure("a partner's mean delay in days, greatest", 26.2, 0.01, 0.02),
            ],
        ),
    ],
    "camb": [
        FigureQuery(
            """
SELECT
    COUNT(*) * {scale}, COUNT(DISTINCT campaign), COUNT(DISTINCT user) * {scale}, SUM(click) * {scale},
    COUNT(conversion_id) * {scale}, COUNT(DISTINCT conversion_id) * {scale}, SUM(conversion) * {scale},
    MIN(time) + 1, MAX(time), MAX(conversion_time - time) / 86400, COUNT(DISTINCT cat1), COUNT(DISTINCT cat8)
FROM {log} AS l
""",
            [
                PublishedFigure("rows", 16_468_027),
                PublishedFigure("campaigns", 675, 0, 5e-4),
                PublishedFigure("users", 6_142_256, 1e-4, 5e-5),
                PublishedFigure("clicks", 5_947_563, 2e-4, 4e-4),
                PublishedFigure("rows with a conversion", 806_196, 0, 5e-5),
                PublishedFigure("conversions", 400_152, 0, 2e-6),
                PublishedFigure("conversions at their last touch", 400_152, 0, 2e-6),
                PublishedFigure("first second, counted from 1", 1),
                PublishedFigure("last second", 2_671_199),
                PublishedFigure("longest delay, days", 30, 1e-3, 3e-4),
                PublishedFigure("values of cat1", 9),
                PublishedFigure("values of cat8", 11),
            ],
        ),
        FigureQuery(
            """
SELECT COUNT(*) * {scale} FROM {log} AS l WHERE click_pos < 10 GROUP BY click_pos ORDER BY click_pos
""",
            [
                PublishedFigure(f"rows at click position {position}", rows, 0, 1 / rows)
                for position, rows in enumerate(POSITIONS)
            ],
        ),
        FigureQuery(
            """
SELECT AVG(LN(n)), STDDEV(LN(n)), MIN(n), MEDIAN(n), MAX(n)
FROM (SELECT COUNT(*) * {scale} AS n FROM {log} AS l GROUP BY campaign) AS c
""",
            [
                PublishedFigure("impressions of a campaign, mean of logs", 9.285, 5e-4, 2e-4),
                PublishedFigure("impressions of a campaign, sd of logs", 1.262, 2e-3, 2e-3),
                PublishedFigure("impressions of the smallest campaign", 20, 0, 0.05),
                PublishedFigure("impressions of a campaign, median", 10_357, 0, 2e-4),
                PublishedFigure("impressions of the largest campaign", 437_385, 1e-5, 1e-5),
            ],
        ),
        FigureQuery(
            """
SELECT UNNEST(QUANTILE_CONT(rate, [0.1, 0.25, 0.5, 0.75, 0.9]))
FROM (SELECT COUNT(conversion_id) / COUNT(*) AS rate FROM {log} AS l GROUP BY campaign) AS c
""",
            [
                PublishedFigure(f"conversion rate of a campaign, {part} %", rate, 0.0006 / rate, 0.02)
                for part, rate in RATES.items()
            ],
        ),
        FigureQuery(
            """
SELECT MIN(n), MAX(n)
FROM (SELECT COUNT(*) * {scale} AS n FROM {log} AS l GROUP BY time // 86400) AS d
""",
            [
                PublishedFigure("impressions on the emptiest day", 436_000, 0.003, 5e-4),
                PublishedFigure("impressions on the fullest day", 638_000, 0.003, 5e-4),
            ],
        ),
    ],
}
