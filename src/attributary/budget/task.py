"""Task: what is to be split over which tree, for whom, checked once at the door."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Self, TypedDict

import numpy as np
from numpy.typing import ArrayLike

from attributary.budget.classes import classes
from attributary.budget.objective import Objective
from attributary.budget.weights import class_weights
from attributary.noise import NoiseModel
from attributary.noise import model as noise_model
from attributary.tree import Tree
from attributary.types import Floats

Levels = Mapping[str, float] | ArrayLike


class Options(TypedDict, total=False):
    """What every way to split takes besides tree, prior counts, ε and τ."""

    phases: int  # of greedy, which optimal and per_node start from; 20
    noise: str  # "api" (the default) or "unit"
    weights: ArrayLike | None  # one for each node, in place of 1/|L_i|
    levels: Levels | None  # ε that is fixed, by level's name or one for each level (nan: free); 0 leaves a level out
    by_root: bool  # a split for each root (the default), or one for all that has the least sum of their errors
    total: bool  # level 0 is a total above the heads, which get the splits; False
    denoised: bool  # plan for denoised figures (the default), or for raw ones
    l1: int  # what an impression may contribute in all; 65536


@dataclass(frozen=True, eq=False)
class Task:
    tree: Tree
    count: Floats  # prior counts, in level order
    epsilon: float
    tau: float
    model: NoiseModel
    l1: int
    phases: int
    weights: Floats | None  # in level order
    levels: Floats  # the ε of a fixed level, nan of a free one
    by_root: bool
    total: bool
    denoised: bool

    @classmethod
    def of(
        cls,
        tree: Tree,
        prior_count: ArrayLike,
        epsilon: float,
        tau: float,
        phases: int = 20,
        noise: str = "api",
        weights: ArrayLike | None = None,
        levels: Levels | None = None,
        by_root: bool = True,
        total: bool = False,
        denoised: bool = True,
        l1: int = 65536,
    ) -> Self:
        chosen = noise_model(noise, epsilon, l1)
        if not 0 < tau < np.inf:
            raise ValueError(f"tau is a positive number; got {tau}")
        if not 1 <= phases < np.inf or phases != int(phases):
            raise ValueError(f"phases are a whole number, 1 or more; got {phases}: the paper takes 20")
        if total and not (tree.first[0] == 1 and tree.depth > 1):
            raise ValueError(
                f"a total is one node above the heads; this tree has {tree.first[0]} roots and {tree.depth} level(s): "
                "leave out total=True, or put a node above them"
            )
        return cls(
            tree,
            _counts(tree, prior_count),
            float(epsilon),
            float(tau),
            chosen,
            int(l1),
            int(phases),
            _weights(tree, weights),
            _fixed(tree, levels, epsilon),
            by_root,
            total,
            denoised,
        )

    def objective(self, apart: int | Literal["nodes"]) -> Objective:
        """The errors to make small, on classes that are kept apart down to a level, or node by node."""
        forest = classes(self.tree, apart)
        weight = class_weights(self.tree, forest, self.count, self.tau, self.weights)
        if not self.denoised:  # a level left out has no raw figures to be judged
            weight[(self.levels[forest.level] == 0) & ~forest.leaf] = 0.0
        return Objective(forest, weight, self.model, self.denoised, joint=self.total or not self.by_root)


def _counts(tree: Tree, given: ArrayLike) -> Floats:
    count = np.asarray(given, np.float64)
    if count.shape not in ((), (len(tree),)):
        raise ValueError(
            f"one prior count for each of the {len(tree)} nodes is needed, or one for all; got shape {count.shape}"
        )
    finite = np.isfinite(count)
    if not finite.all():
        raise ValueError(f"prior counts are finite numbers; got {count[~finite].flat[0]}: leave 0 where there is none")
    spread: Floats = tree.to_level_order(np.broadcast_to(count, len(tree)))
    return spread


def _weights(tree: Tree, given: ArrayLike | None) -> Floats | None:
    if given is None:
        return None
    weight = np.asarray(given, np.float64)
    if weight.shape != (len(tree),) or not (weight >= 0).all() or not 0 < weight.sum() < np.inf:
        raise ValueError(
            f"weights are one number, 0 or more, for each of the {len(tree)} nodes, and not all 0; "
            f"got {weight.size} numbers that sum to {weight.sum()}"
        )
    ordered: Floats = tree.to_level_order(weight)
    return ordered


def _fixed(tree: Tree, given: Levels | None, epsilon: float) -> Floats:
    """The ε of each level that is fixed, nan for the others."""
    fixed = np.full(tree.depth, np.nan)
    if isinstance(given, Mapping):
        names = tree.level_names
        for name, share in given.items():
            if name not in names:
                raise ValueError(f"levels are named {', '.join(names)}; got {name!r}")
            fixed[names.index(name)] = share
            if not share >= 0:
                raise ValueError(f"the epsilon of a level is 0 or more; {name!r} has {share}: leave it out to be free")
    elif given is not None:
        fixed = np.array(given, np.float64)
    if fixed.shape != (tree.depth,) or (fixed < 0).any():
        raise ValueError(
            f"levels are one epsilon, 0 or more, for each of the {tree.depth} levels, nan for a free one; got {given!r}"
        )
    if not np.nansum(fixed) <= epsilon * (1 + 1e-12):
        raise ValueError(
            f"the epsilons of fixed levels sum to at most epsilon = {epsilon}; got {np.nansum(fixed)}: "
            "lower some, or raise epsilon"
        )
    return fixed
