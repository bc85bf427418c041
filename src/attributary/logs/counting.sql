-- How many rows there are of each fate and with each value of the attributes. DuckDB and Spark run this as it stands.
SELECT fate{attributes}, COUNT(*) AS number
FROM (
    {rows}
) AS rows_to_count
GROUP BY fate{attributes}
