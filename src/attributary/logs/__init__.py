"""Logs become counts: files of impressions and conversions in, one row per leaf out, on DuckDB or Spark.

>>> from attributary.logs import count
>>> counts = count(spec, "folder of the logs")    # doctest: +SKIP
"""

from attributary.logs.count import count
from attributary.logs.counts import Counts
from attributary.logs.duckdb import DuckDB
from attributary.logs.spark import Spark

__all__ = ["Counts", "DuckDB", "Spark", "count"]
