-- Impressions, with their conversions where the log has them: rows to count, each with its fate. DuckDB and Spark run
-- this as it stands.
SELECT
    CASE
        WHEN time IS NULL THEN {undated}
        WHEN NOT is_converted THEN {impression}
        WHEN delay < 0 OR delay >= {window} THEN {late}
        ELSE {conversion}
    END AS fate{known}{unknown}
FROM (
    {impressions}
) AS impressions
WHERE {in_period}
