"""Spec: what is asked, read from TOML."""

from attributary.spec.attribute import Attribute, Logs
from attributary.spec.measure import Measure
from attributary.spec.spec import Spec

__all__ = ["Attribute", "Logs", "Measure", "Spec"]
