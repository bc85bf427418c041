"""Trial: a budget tried out on a tree, before a single conversion is measured.

Errors are exact, not simulated, and cost classes of nodes that share a variance, not nodes: so that they follow a
slider on trees of any size.
"""

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from attributary.budget import error
from attributary.budget.classes import Classes, classes
from attributary.explore.start import Start
from attributary.plan.contributions import contributions
from attributary.plan.question import Question
from attributary.plan.shares import Shares, shares
from attributary.spec import Spec
from attributary.types import Floats, Ints


@dataclass(frozen=True, eq=False)
class Errors:
    """RMSRE_τ to expect: of each level, denoised and as measured, and of the tree, denoised."""

    levels: Floats
    raw: Floats
    tree: float


class Trial:
    """A start, and what is worth keeping between one position of a slider and the next."""

    def __init__(self, start: Start) -> None:
        self.start = start
        self._weights = lru_cache(8)(self._class_weights)
        self._shares = lru_cache(64)(self._method_shares)

    @cached_property
    def forest(self) -> Classes:
        return classes(self.start.tree, 0)

    @cached_property
    def count(self) -> Floats:
        return np.asarray(self.start.tree.to_level_order(self.start.count), np.float64)

    def contribution(self, spec: Spec, share: Floats) -> Ints:
        """Shares as the whole numbers that a plan would contribute."""
        found = contributions(self._question(spec), Shares(share), "largest-remainder", ())
        return found.default

    def best(self, spec: Spec) -> Floats:
        """The shares of least error."""
        at = None if spec.noise_model.proportional else spec.epsilon  # if so, the best split is the same at any ε
        return self._shares("optimal", spec.neighbours, (spec.tau, spec.noise, at), _Held(spec))

    def shares(self, spec: Spec, method: str) -> Floats:
        """The shares of a simple method, equal or leaves, which look at the levels only."""
        return self._shares(method, spec.neighbours, (), _Held(spec))

    def errors(self, spec: Spec, rows: list[Ints]) -> list[Errors]:
        """What to expect of each row of contributions."""
        forest, weight = self.forest, self._weights(spec.tau, spec.weights)
        level = forest.level
        precision = np.array([self._precision(spec, row) for row in rows])
        with np.errstate(divide="ignore", invalid="ignore"):
            raw = np.where(weight > 0, weight / precision, 0.0)
        found, measured = [], []
        for i in range(forest.depth):
            here = np.where(level == i, weight, 0.0)
            found.append(error.denoised(forest, here, precision).error.sum(axis=1))
            measured.append(raw[:, level == i].sum(axis=1))
        squared = np.array(found).T
        squared = np.where(squared > error.ENDLESS, np.inf, squared)
        squared[:, np.bincount(level, weight, forest.depth) == 0] = np.nan  # a level without weight has no error
        plain = np.array(measured).T
        return [
            Errors(np.sqrt(squared[i]), np.sqrt(plain[i]), float(np.sqrt(np.nanmean(squared[i]))))
            for i in range(len(rows))
        ]

    def _precision(self, spec: Spec, row: Ints) -> Floats:
        """1 / variance of the figure of each class; 0 without a key."""
        down = np.cumsum(row[::-1])[::-1]  # a leaf above the last level takes what is below it, too
        own = np.where(self.forest.leaf, down[self.forest.level], row[self.forest.level]).astype(np.float64)
        return spec.noise_model.precision(own * spec.epsilon / spec.l1)

    def _class_weights(self, tau: float, weights: str) -> Floats:
        """What a class's variance counts for in the error of its level."""
        tree, forest = self.start.tree, self.forest
        relative = 1.0 / np.square(np.maximum(self.count, tau))
        by_count = np.maximum(self.count, 0.0) if weights == "counts" else None
        mass = np.bincount(forest.level, forest.add_up(tree, by_count), forest.depth)
        summed = forest.add_up(tree, relative if by_count is None else relative * by_count)
        level_mass = mass[forest.level]
        return np.divide(summed, level_mass, out=np.zeros(len(summed)), where=level_mass > 0)

    def _method_shares(self, method: str, neighbours: str, looked_at: tuple[Any, ...], held: "_Held") -> Floats:
        return shares(self._question(held.spec), method).default

    def _question(self, spec: Spec) -> Question:
        start = self.start
        return Question(spec, start.tree, start.prior, np.full(len(spec.levels), np.nan))


class _Held:
    """A spec that goes along without being part of what is looked up."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Held)

    def __hash__(self) -> int:
        return 0
