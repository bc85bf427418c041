"""Generated logs: look-alikes of the two published datasets, and a little shop; every file says what it is."""

from attributary.logs.generate.fixed import VERSION
from attributary.logs.generate.generate import FORMATS, KINDS, Written, generate
from attributary.logs.generate.label import GENERATED

__all__ = ["FORMATS", "GENERATED", "KINDS", "VERSION", "Written", "generate"]
