-- Last touch, single touch: two logs become rows to count, each with its fate. DuckDB and Spark run this as it stands.
--
-- The events of a user (or of whatever joins the two logs) stand in order of time, and an impression gets the
-- conversion that comes right after it: then it is the last impression before that conversion, and the conversion is
-- its first. Impressions stand at even moments and conversions at odd ones, so that at one instant impressions come
-- first. At one moment the attributes decide: the last of the impressions gets the conversion, and the first of the
-- conversions is got. A conversion that is not got is told apart by the last impression before it.
WITH conversions AS (
    {conversions}
),
last_conversions AS (
    SELECT {keys}, MAX(time) AS last_time
    FROM conversions
    WHERE {joinable}
    GROUP BY {keys}
),
events AS (
    SELECT {keys}, 2 * time AS moment{known}{no_unknown}
    FROM (
        {impressions}
    ) AS impressions JOIN last_conversions USING ({keys})
    WHERE time <= last_time
    UNION ALL
    SELECT {keys}, 2 * time + 1 AS moment{no_known}{unknown}
    FROM conversions
    WHERE time IS NOT NULL AND {joinable}
),
followed AS (
    SELECT
        moment % 2 = 0 AS is_impression,
        moment{known},
        LEAD(moment) OVER (PARTITION BY {keys} ORDER BY moment{ties}) AS next_moment{next_unknown},
        MAX(CASE WHEN moment % 2 = 0 THEN moment END) OVER (
            PARTITION BY {keys} ORDER BY moment{ties} ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
        ) AS last_touch
    FROM events
)
SELECT
    CASE
        WHEN is_impression THEN {conversion}
        WHEN last_touch IS NULL THEN {unattributed}
        WHEN moment - last_touch < {window} THEN {within}
        ELSE {late}
    END AS fate{known}{got_unknown}
FROM followed
WHERE (NOT is_impression OR (next_moment % 2 <> 0 AND next_moment - moment < {window})) AND {in_period}
UNION ALL
SELECT {incomplete} AS fate{nothing}
FROM conversions
WHERE time IS NULL OR NOT ({joinable})
