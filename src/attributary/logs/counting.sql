-- Impressions that have their conversions beside them become counts of rows by fate and attributes. DuckDB and Spark
-- run this as it stands.
SELECT fate{known}{all_unknown}{all_bins}, COUNT(*) AS number{sums}
FROM (
    SELECT
        CASE
            WHEN time IS NULL THEN {undated}
            WHEN NOT is_converted THEN {impression}
            WHEN delay < 0 OR delay >= {window} THEN {late}
            ELSE {conversion}
        END AS fate{known}{got_unknown}{got_values}
    FROM (
        {impressions}
    ) AS impressions
    WHERE {in_period}
) AS fates
GROUP BY fate{known}{all_unknown}{all_bins}
