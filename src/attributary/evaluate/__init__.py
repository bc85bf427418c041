"""Evaluation: methods × ε × τ × tree → one tidy table, exact and by simulation."""

from attributary.evaluate import estimators, splits
from attributary.evaluate.case import Case
from attributary.evaluate.comparison import Evaluation
from attributary.evaluate.grid import evaluate
from attributary.evaluate.grid_workers import Store
from attributary.evaluate.methods import METHODS, Method
from attributary.evaluate.paper_experiment import PaperLog, paper
from attributary.evaluate.user_cases import log_periods, private_prior, user_cases

__all__ = [
    "METHODS",
    "Case",
    "Evaluation",
    "Method",
    "PaperLog",
    "Store",
    "estimators",
    "evaluate",
    "log_periods",
    "paper",
    "private_prior",
    "splits",
    "user_cases",
]
