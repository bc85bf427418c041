"""Plan: a split of the budget made whole numbers, the error to expect of it, and what it protects."""

from attributary.plan.make import expected, make_plan
from attributary.plan.methods import METHODS
from attributary.plan.neighbours import Costs
from attributary.plan.plan import Plan

__all__ = ["METHODS", "Costs", "Plan", "expected", "make_plan"]
