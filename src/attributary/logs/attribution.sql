-- Last touch, single touch: two logs become counts of rows by fate and attributes. DuckDB and Spark run this as it
-- stands.
--
-- Events stand in order of time (events.sql), and an impression gets the conversion that comes right after it: then it is
-- the last impression before that conversion, and the conversion is its first. At one moment the attributes decide: the
-- last of the impressions gets the conversion, and the first of the conversions is got. A conversion that is not got is
-- told apart by the last impression before it.
WITH {events},
followed AS (
    SELECT
        moment % 2 = 0 AS is_impression,
        moment,
        path,
        LEAD(moment) OVER (PARTITION BY {keys} ORDER BY {in_order}) AS next_moment{next_unknown},
        MAX(CASE WHEN moment % 2 = 0 THEN moment END) OVER (
            PARTITION BY {keys} ORDER BY {in_order} ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
        ) AS last_touch
    FROM events
),
fates AS (
    SELECT
        CASE
            WHEN is_impression THEN {conversion}
            WHEN last_touch IS NULL THEN {unattributed}
            WHEN moment - last_touch < {window} THEN {within}
            ELSE {late}
        END AS fate,
        path{got_unknown}
    FROM followed
    WHERE (NOT is_impression OR (next_moment % 2 <> 0 AND next_moment - moment < {window})) AND {touch_in_period}
),
counted AS (
    SELECT fate, path{all_unknown}, COUNT(*) AS number
    FROM fates
    GROUP BY fate, path{all_unknown}
)
SELECT fate, {known}{all_unknown}, number
FROM counted LEFT JOIN paths USING (path)
UNION ALL
SELECT {impression} AS fate, {known}{nothing_unknown}, dated AS number
FROM paths
WHERE dated > 0
UNION ALL
SELECT {undated} AS fate, {known}{nothing_unknown}, not_dated AS number
FROM paths
WHERE not_dated > 0
UNION ALL
SELECT {incomplete} AS fate, {nothing_known}{nothing_unknown}, COUNT(*) AS number
FROM conversions
WHERE time IS NULL OR NOT ({joinable})
