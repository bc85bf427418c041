"""Plan: a split of the budget in whole numbers, the error to expect of it, and what it protects."""

from attributary.plan.make import expected, make_plan
from attributary.plan.plan import MeasurePlan, Plan
from attributary.plan.sections import Sharing
from attributary.plan.variants import Change, Coarser, Variant, what_if

__all__ = [
    "Change",
    "Coarser",
    "MeasurePlan",
    "Plan",
    "Sharing",
    "Variant",
    "expected",
    "make_plan",
    "what_if",
]
