"""Logs apart from the product: two published datasets, their loaders and look-alikes, and a little shop.

>>> from attributary.datasets import load
>>> log = load(connection, "criteo_attribution_dataset.tsv.gz", "camb")    # doctest: +SKIP
>>> connection.sql(log.sql)                                                # doctest: +SKIP
"""

from attributary.datasets.dataset import DATASETS, Comparison, Figure, compare
from attributary.datasets.draws import VERSION
from attributary.datasets.generate import FORMATS, KINDS, Written, generate
from attributary.datasets.load import ImpressionLog, load
from attributary.datasets.stream import GENERATED

__all__ = [
    "DATASETS",
    "FORMATS",
    "GENERATED",
    "KINDS",
    "VERSION",
    "Comparison",
    "Figure",
    "ImpressionLog",
    "Written",
    "compare",
    "generate",
    "load",
]
