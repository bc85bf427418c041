"""Evaluation: methods × ε × τ × tree → one tidy table, exact and by simulation."""

from attributary.evaluate.case import Case
from attributary.evaluate.comparison import Evaluation
from attributary.evaluate.grid import evaluate
from attributary.evaluate.grid_workers import Store
from attributary.evaluate.measure_cases import MeasureCase
from attributary.evaluate.methods import METHODS, Method
from attributary.evaluate.private import private_prior

__all__ = ["METHODS", "Case", "Evaluation", "MeasureCase", "Method", "Store", "evaluate", "private_prior"]
