"""camb: Criteo's Attribution Modeling for Bidding dataset (Diemert et al. 2017), a file with a header.

A row is an impression. All impressions of a user that led to a conversion carry it; last touch leaves it to one of
them: the last click, or, where none was clicked, the last impression before it.
"""

NAME = "camb"
FILE = "criteo_attribution_dataset.tsv.gz"
HEADER = True
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
FROM ({attributed}) AS impressions
"""
