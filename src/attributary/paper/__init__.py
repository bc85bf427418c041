"""The paper: two published datasets, their loaders and look-alikes, and its experiment. The product imports none of it.

>>> from attributary.paper import load
>>> log = load(connection, "criteo_attribution_dataset.tsv.gz", "camb")    # doctest: +SKIP
>>> connection.sql(log.sql)                                                # doctest: +SKIP
"""

from attributary.paper.generate import FORMATS, KINDS, Written, generate
from attributary.paper.load import DATASETS, Figure, ImpressionLog, load

__all__ = ["DATASETS", "FORMATS", "KINDS", "Figure", "ImpressionLog", "Written", "generate", "load"]
