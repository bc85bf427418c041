-- What happened on every device that converted, as numbers in order of time; the views and the kinds of conversions that
-- the numbers stand for; and what stands before either (events.sql). DuckDB and Spark run this as it stands.
--
-- A view is what two impressions may have in common, a kind what two conversions may. Those of one moment stand in the
-- order of their numbers, which is that of their columns.
WITH {events},
devices AS (
    SELECT {keys}, ROW_NUMBER() OVER (ORDER BY {keys}) AS device
    FROM last_conversions
),
kinds AS (
    SELECT {kind}, ROW_NUMBER() OVER (ORDER BY {kind_in_order}) - 1 AS code, COUNT(*) AS number
    FROM conversions
    WHERE time IS NOT NULL AND {joinable}
    GROUP BY {kind}
)
{wanted}
