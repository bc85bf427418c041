"""Evaluation: methods × ε × τ × tree → one tidy table, exact and by simulation."""

from attributary.evaluate import estimators, splits
from attributary.evaluate.case import Case
from attributary.evaluate.comparison import Evaluation
from attributary.evaluate.grid import evaluate
from attributary.evaluate.grid_workers import Store
from attributary.evaluate.methods import METHODS, Method
from attributary.evaluate.private import private_prior
from attributary.evaluate.user_cases import log_periods, user_cases

__all__ = [
    "METHODS",
    "Case",
    "Evaluation",
    "Method",
    "Store",
    "estimators",
    "evaluate",
    "log_periods",
    "private_prior",
    "splits",
    "user_cases",
]
