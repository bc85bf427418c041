"""camb_questions: the figures of Criteo's Attribution Modeling for Bidding dataset."""

from attributary.logs.criteo.answers import Answer, Question

POSITIONS = [400_152, 139_933, 73_191, 44_990, 30_527, 21_932, 16_275, 12_460, 9_769, 7_828]
RATES = {10: 0.012, 25: 0.023, 50: 0.051, 75: 0.086, 90: 0.117}  # published with two or three digits

CAMB = [
    Question(
        """
SELECT
    COUNT(*) * {scale}, COUNT(DISTINCT campaign), COUNT(DISTINCT user) * {scale}, SUM(click) * {scale},
    COUNT(conversion_id) * {scale}, COUNT(DISTINCT conversion_id) * {scale}, SUM(conversion) * {scale},
    MIN(time) + 1, MAX(time), MAX(conversion_time - time) / 86400, COUNT(DISTINCT cat1), COUNT(DISTINCT cat8)
FROM {log} AS l
""",
        [
            Answer("rows", 16_468_027),
            Answer("campaigns", 675, 0, 5e-4),
            Answer("users", 6_142_256, 1e-4, 5e-5),
            Answer("clicks", 5_947_563, 2e-4, 4e-4),
            Answer("rows with a conversion", 806_196, 0, 5e-5),
            Answer("conversions", 400_152, 0, 2e-6),
            Answer("conversions at their last touch", 400_152, 0, 2e-6),
            Answer("first second, counted from 1", 1),
            Answer("last second", 2_671_199),
            Answer("longest delay, days", 30, 1e-3, 3e-4),
            Answer("values of cat1", 9),
            Answer("values of cat8", 11),
        ],
    ),
    Question(
        """
SELECT COUNT(*) * {scale} FROM {log} AS l WHERE click_pos < 10 GROUP BY click_pos ORDER BY click_pos
""",
        [Answer(f"rows at click position {position}", rows, 0, 1 / rows) for position, rows in enumerate(POSITIONS)],
    ),
    Question(
        """
SELECT AVG(LN(n)), STDDEV(LN(n)), MIN(n), MEDIAN(n), MAX(n)
FROM (SELECT COUNT(*) * {scale} AS n FROM {log} AS l GROUP BY campaign) AS c
""",
        [
            Answer("impressions of a campaign, mean of logs", 9.285, 5e-4, 2e-4),
            Answer("impressions of a campaign, sd of logs", 1.262, 2e-3, 2e-3),
            Answer("impressions of the smallest campaign", 20, 0, 0.05),
            Answer("impressions of a campaign, median", 10_357, 0, 2e-4),
            Answer("impressions of the largest campaign", 437_385, 1e-5, 1e-5),
        ],
    ),
    Question(
        """
SELECT UNNEST(QUANTILE_CONT(rate, [0.1, 0.25, 0.5, 0.75, 0.9]))
FROM (SELECT COUNT(conversion_id) / COUNT(*) AS rate FROM {log} AS l GROUP BY campaign) AS c
""",
        [Answer(f"conversion rate of a campaign, {part} %", rate, 0.0006 / rate, 0.02) for part, rate in RATES.items()],
    ),
    Question(
        """
SELECT MIN(n), MAX(n)
FROM (SELECT COUNT(*) * {scale} AS n FROM {log} AS l GROUP BY time // 86400) AS d
""",
        [
            Answer("impressions on the emptiest day", 436_000, 0.003, 5e-4),
            Answer("impressions on the fullest day", 638_000, 0.003, 5e-4),
        ],
    ),
]
