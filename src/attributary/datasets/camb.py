"""camb: Criteo's Attribution Modeling for Bidding dataset (Diemert et al. 2017), a file with a header.

A row is an impression. All impressions of a user that led to a conversion carry it; last touch leaves it to one of
them: the last click, or, where none was clicked, the last impression before it.
"""

from attributary.datasets.dataset import Dataset, FigureQuery, PublishedFigure

COLUMNS = {
    "timestamp": "BIGINT",
    "uid": "BIGINT",
    "campaign": "VARCHAR",
    "conversion": "TINYINT",
    "conversion_timestamp": "BIGINT",
    "conversion_id": "BIGINT",
    "attribution": "VARCHAR",
    "click": "TINYINT",
    "click_pos": "SMALLINT",
    "click_nb": "SMALLINT",
    "cost": "VARCHAR",
    "cpo": "VARCHAR",
    "time_since_last_click": "VARCHAR",
    **{f"cat{number}": "VARCHAR" for number in range(1, 10)},
}

IMPRESSION = """
    COALESCE(NULLIF(campaign, '-1'), 'missing') AS campaign,
    COALESCE(NULLIF(cat1, '-1'), 'missing') AS cat1,
    COALESCE(NULLIF(cat8, '-1'), 'missing') AS cat8,
    timestamp AS time,
    uid AS user,
    CAST(CASE WHEN {last} THEN 1 ELSE 0 END AS TINYINT) AS conversion,
    CASE WHEN {last} THEN conversion_timestamp - timestamp END AS delay,
    click,
    CASE WHEN conversion = 1 AND click_pos >= 0 THEN click_pos END AS click_pos,
    CASE WHEN conversion = 1 AND click_nb >= 0 THEN click_nb END AS click_nb,
    CASE WHEN conversion = 1 THEN conversion_id END AS conversion_id,
    CASE WHEN conversion = 1 THEN conversion_timestamp END AS conversion_time
"""

# In the published file every impression of a conversion was clicked. Then a row says by itself whether it is the last.
LAST_CLICK = "SELECT" + IMPRESSION.format(last="conversion = 1 AND click_pos = click_nb - 1") + "FROM {published}"

# Elsewhere the impressions of a conversion are looked at together, the last click before those that came before it
# and those before any that came after it. Ties are broken by what a row says.
LAST_TOUCH = (
    "SELECT"
    + IMPRESSION.format(last="FALSE")
    + "FROM {published} WHERE conversion <> 1 UNION ALL SELECT"
    + IMPRESSION.format(last="place = 1 AND rank < 2 AND (rank = 0 OR clicks <= 0)")
    + """FROM (
    SELECT *, ROW_NUMBER() OVER (
        PARTITION BY conversion_id ORDER BY rank, timestamp DESC, campaign, uid, cat1, cat8
    ) AS place
    FROM (
        SELECT *, CASE
            WHEN clicks > 0 AND click_pos = clicks - 1 THEN 0
            WHEN timestamp <= conversion_timestamp THEN 1
            ELSE 2
        END AS rank
        FROM (
            SELECT *, MAX(click_nb) OVER (PARTITION BY conversion_id) AS clicks FROM {published} WHERE conversion = 1
        ) AS converted
    ) AS ranked
) AS placed"""
)

PUBLISHED = {
    "rows": 16_468_027,
    "rows with a conversion": 806_196,
    "rows at click position 0": 400_152,
    "campaigns": 675,
    "rows with a conversion that were not clicked": 0,
}
MEASURED = """
SELECT
    COUNT(*),
    COUNT(conversion_id),
    COALESCE(SUM(CASE WHEN click_pos = 0 THEN 1 ELSE 0 END), 0),
    COUNT(DISTINCT NULLIF(campaign, 'missing')),
    COALESCE(SUM(CASE WHEN conversion_id IS NOT NULL AND COALESCE(click_nb, 0) = 0 THEN 1 ELSE 0 END), 0)
FROM ({impressions}) AS impressions
"""

POSITIONS = [400_152, 139_933, 73_191, 44_990, 30_527, 21_932, 16_275, 12_460, 9_769, 7_828]
RATES = {10: 0.012, 25: 0.023, 50: 0.051, 75: 0.086, 90: 0.117}  # published with two or three digits

QUERIES = [
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
]

CAMB = Dataset(
    name="camb",
    file="criteo_attribution_dataset.tsv.gz",
    columns=COLUMNS,
    header=True,
    impressions=LAST_CLICK,
    measured=MEASURED,
    published=PUBLISHED,
    queries=QUERIES,
    last_touch=LAST_TOUCH,
    unknown_delay={},
)
