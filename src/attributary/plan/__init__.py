"""Plan: a split of the budget in whole numbers, the error to expect of it, and what it protects."""

from attributary.plan.joint import JointPlan, load_plan, make_joint_plan
from attributary.plan.make import expected, make_plan
from attributary.plan.plan import MeasurePlan, Plan
from attributary.plan.variants import Change, Coarser, Variant, what_if

__all__ = [
    "Change",
    "Coarser",
    "JointPlan",
    "MeasurePlan",
    "Plan",
    "Variant",
    "expected",
    "load_plan",
    "make_joint_plan",
    "make_plan",
    "what_if",
]
