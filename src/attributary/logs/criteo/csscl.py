"""csscl: the Criteo Sponsored Search Conversion Log (Tallis and Yadav 2018), a file without a header or with one.

A row is a click, already attributed. −1 is missing, and so is time 0. The rows are in no order.
"""

NAME = "csscl"
FILE = "CriteoSearchData"
HEADER = False
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

ATTRIBUTED = """
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
    "keep": "SELECT * FROM ({attributed}) AS clicks",
    "drop": """
SELECT
    partner, country, device, age_group, time, user,
    CASE WHEN delay IS NULL THEN CAST(0 AS TINYINT) ELSE conversion END AS conversion,
    delay,
    CASE WHEN delay IS NOT NULL THEN amount END AS amount
FROM ({attributed}) AS clicks
""",
    "first": """
SELECT
    partner, country, device, age_group, time, user, conversion,
    CASE WHEN conversion = 1 THEN COALESCE(delay, 0) END AS delay,
    amount
FROM ({attributed}) AS clicks
""",
}

PUBLISHED = {"rows": 15_995_634, "rows with a sale": 1_732_721, "sales without a delay": 5_380, "partners": 312}
MEASURED = """
SELECT
    COUNT(*),
    COALESCE(SUM(conversion), 0),
    COALESCE(SUM(CASE WHEN conversion = 1 AND delay IS NULL THEN 1 ELSE 0 END), 0),
    COUNT(DISTINCT NULLIF(partner, 'missing'))
FROM ({attributed}) AS clicks
"""
