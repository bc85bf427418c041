"""Evaluation: methods × ε × τ × tree → one tidy table, exact and by simulation."""

from attributary.evaluate.case import Case
from attributary.evaluate.comparison import Evaluation
from attributary.evaluate.grid import Store, evaluate
from attributary.evaluate.methods import Method, methods
from attributary.evaluate.user_cases import log_periods, private_prior, user_cases

__all__ = ["Case", "Evaluation", "Method", "Store", "evaluate", "log_periods", "methods", "private_prior", "user_cases"]
