-- What happened to each user, in order: the common tables that both ways to attribute begin with. DuckDB and Spark run
-- this as it stands.
--
-- The events of a user (or of whatever joins the two logs) stand in order of time. Impressions stand at even moments and
-- conversions at odd ones, so that at one instant impressions come first. The known attributes of an impression are its
-- path; events carry its number, in the order of the attributes.
conversions AS (
    {conversions}
),
last_conversions AS (
    SELECT {keys}, MAX(time) AS last_time
    FROM conversions
    WHERE {joinable}
    GROUP BY {keys}
),
paths AS (
    SELECT
        {known},
        ROW_NUMBER() OVER (ORDER BY {known_in_order}) AS path,
        COUNT(CASE WHEN time IS NOT NULL AND {time_in_period} THEN 1 END) AS dated,
        COUNT(CASE WHEN time IS NULL THEN 1 END) AS not_dated
    FROM (
        {impressions}
    ) AS impressions
    GROUP BY {known}
),
events AS (
    SELECT {keys}, 2 * time AS moment, path{no_unknown}
    FROM (
        {impressions}
    ) AS impressions
    JOIN last_conversions USING ({keys})
    JOIN paths ON {same_path}
    WHERE time <= last_time
    UNION ALL
    SELECT {keys}, 2 * time + 1 AS moment, NULL AS path{unknown}
    FROM conversions
    WHERE time IS NOT NULL AND {joinable}
)
