"""Plan: a split of the budget in whole numbers, the error to expect of it, and what it protects."""

from attributary.plan.make import expected, make_plan
from attributary.plan.plan import MeasurePlan, Plan

__all__ = ["MeasurePlan", "Plan", "expected", "make_plan"]
