"""BigQuery's differential privacy: a query for each level."""
