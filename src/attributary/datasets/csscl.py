"""csscl: the Criteo Sponsored Search Conversion Log (Tallis and Yadav 2018), a file without a header or with one.

A row is a click, already attributed. −1 is missing, and so is time 0. The rows are in no order.

Figures about partners, converting users, amounts and delays were published for the rows with product data, which in
the look-alike are those with a country.
"""

from attributary.datasets.dataset import Dataset, FigureQuery, PublishedFigure, share_figures

COLUMNS = {
    "Sale": "TINYINT",
    "SalesAmountInEuro": "DOUBLE",
    "Time_delay_for_conversion": "BIGINT",
    "click_timestamp": "BIGINT",
    "nb_clicks_1week": "VARCHAR",
    "product_price": "VARCHAR",
    "product_age_group": "VARCHAR",
    "device_type": "VARCHAR",
    "audience_id": "VARCHAR",
    "product_gender": "VARCHAR",
    "product_brand": "VARCHAR",
    **{f"product_category{number}": "VARCHAR" for number in range(1, 8)},
    "product_country": "VARCHAR",
    "product_id": "VARCHAR",
    "product_title": "VARCHAR",
    "partner_id": "VARCHAR",
    "user_id": "VARCHAR",
}

IMPRESSIONS = """
SELECT
    COALESCE(NULLIF(partner_id, '-1'), 'missing') AS partner,
    COALESCE(NULLIF(product_country, '-1'), 'missing') AS country,
    COALESCE(NULLIF(device_type, '-1'), 'missing') AS device,
    COALESCE(NULLIF(product_age_group, '-1'), 'missing') AS age_group,
    NULLIF(click_timestamp, 0) AS time,
    user_id AS user,
    Sale AS conversion,
    CASE WHEN Sale = 1 AND Time_delay_for_conversion >= 0 THEN Time_delay_for_conversion END AS delay,
    CASE WHEN Sale = 1 THEN SalesAmountInEuro END AS amount
FROM {published}
"""

# What becomes of a sale whose delay is not known, −1 in the file. While it is kept, counts by delay can say how many.
UNKNOWN_DELAY = {
    "keep": "SELECT * FROM ({impressions}) AS clicks",
    "drop": """
SELECT
    partner, country, device, age_group, time, user,
    CASE WHEN delay IS NULL THEN CAST(0 AS TINYINT) ELSE conversion END AS conversion,
    delay,
    CASE WHEN delay IS NOT NULL THEN amount END AS amount
FROM ({impressions}) AS clicks
""",
    "first": """
SELECT
    partner, country, device, age_group, time, user, conversion,
    CASE WHEN conversion = 1 THEN COALESCE(delay, 0) END AS delay,
    amount
FROM ({impressions}) AS clicks
""",
}

PUBLISHED = {"rows": 15_995_634, "rows with a sale": 1_732_721, "sales without a delay": 5_380, "partners": 312}
MEASURED = """
SELECT
    COUNT(*),
    COALESCE(SUM(conversion), 0),
    COALESCE(SUM(CASE WHEN conversion = 1 AND delay IS NULL THEN 1 ELSE 0 END), 0),
    COUNT(DISTINCT NULLIF(partner, 'missing'))
FROM ({impressions}) AS clicks
"""

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

QUERIES = [
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
]

CSSCL = Dataset(
    name="csscl",
    file="CriteoSearchData",
    columns=COLUMNS,
    header=False,
    impressions=IMPRESSIONS,
    measured=MEASURED,
    published=PUBLISHED,
    queries=QUERIES,
    last_touch="",
    unknown_delay=UNKNOWN_DELAY,
)
