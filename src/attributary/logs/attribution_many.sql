-- Last touch, several conversions per impression, with their values: two logs become counts of rows by fate,
-- attributes, rank and bins of values. DuckDB and Spark run this as it stands.
--
-- Events stand in order of time (events.sql). A conversion belongs to the last impression before it, and its rank says
-- how many of them the impression has by then: those at one moment are ranked by their attributes, then by their
-- values. Ranks above the limit are one.
--
-- The last impression's path comes down to a conversion beside its moment: both in one number, as engines have no
-- common way to say "the last that is not null".
WITH {events},
followed AS (
    SELECT
        {keys},
        moment{unknown},
        MAX(CASE WHEN moment % 2 = 0 THEN moment END) OVER (
            PARTITION BY {keys} ORDER BY {in_order} ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
        ) AS last_touch,
        MAX(CASE WHEN moment % 2 = 0 THEN CAST(moment AS DECIMAL(38, 0)) * 10000000000 + path END) OVER (
            PARTITION BY {keys} ORDER BY {in_order} ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
        ) AS last_touch_and_path,
        COUNT(path) OVER (
            PARTITION BY {keys} ORDER BY {in_order} ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
        ) AS touches
    FROM events
),
ranked AS (
    SELECT
        moment{unknown},
        last_touch,
        CAST(last_touch_and_path - CAST(last_touch AS DECIMAL(38, 0)) * 10000000000 AS BIGINT) AS path,
        ROW_NUMBER() OVER (PARTITION BY {keys}, touches ORDER BY {ranked_in_order}) AS rank
    FROM followed
    WHERE moment % 2 <> 0 AND {touch_in_period}
),
fates AS (
    SELECT
        CASE
            WHEN last_touch IS NULL THEN {unattributed}
            WHEN moment - last_touch < {window} THEN {conversion}
            ELSE {late}
        END AS fate,
        path,
        CASE WHEN rank > {last_rank} THEN {last_rank} + 1 ELSE rank END AS rank{got_unknown}{got_values}
    FROM ranked
),
counted AS (
    SELECT fate, path, rank{all_unknown}{all_bins}, COUNT(*) AS number{sums}
    FROM fates
    GROUP BY fate, path, rank{all_unknown}{all_bins}
)
SELECT fate, {known}, rank{all_unknown}{all_bins}, number{all_sums}
FROM counted LEFT JOIN paths USING (path)
UNION ALL
SELECT {impression} AS fate, {known}, NULL AS rank{nothing_unknown}{nothing_valued}, dated AS number{no_sums}
FROM paths
WHERE dated > 0
UNION ALL
SELECT {undated} AS fate, {known}, NULL AS rank{nothing_unknown}{nothing_valued}, not_dated AS number{no_sums}
FROM paths
WHERE not_dated > 0
UNION ALL
SELECT
    {incomplete} AS fate, {nothing_known}, NULL AS rank{nothing_unknown}{nothing_valued}, COUNT(*) AS number{no_sums}
FROM conversions
WHERE time IS NULL OR NOT ({joinable})
