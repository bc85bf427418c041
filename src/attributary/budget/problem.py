"""BudgetProblem: the budget to split and its tree, checked once, and the error that a split is to minimise.

A node's variance has the weight w_v in its root's tree error, added up over the members of a class (`class_weights`).
`Objective` is that error for denoised or raw figures, `Learned` for estimates that use a prior.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self, TypedDict, Unpack

import numpy as np
from numpy.typing import ArrayLike

from attributary import rmsre
from attributary.budget import tree_error
from attributary.budget.classes import Classes, CondensedTree, classes
from attributary.denoising.prior import ROUNDING
from attributary.noise import NoiseModel
from attributary.noise import model as noise_model
from attributary.tree import Tree
from attributary.types import Floats, Ints


def class_weights(problem: "BudgetProblem", forest: Classes) -> Floats:
    """w_v = 1/((d+1) · |L_i| · max(τ, c_v)²), with d + 1 and |L_i| of the root's own tree (the paper's section 3.2).

    If pooled, of the whole tree: as if there were a node above all roots that is not asked for.
    The problem's weights replace 1/|L_i|, normalised within each level; a level without weight does not count. As in
    `rmsre`.
    """
    tree, weights = problem.tree, problem.weights
    score = problem.metric(problem.count, problem.tau)
    score = score if weights is None else weights * score
    root = np.zeros(len(forest), np.int64) if problem.pooled else forest.under(0)
    cell = root * forest.depth + forest.level
    mass = np.bincount(cell, forest.add_up(tree, weights), (int(root.max()) + 1) * forest.depth)
    levels = (mass.reshape(-1, forest.depth) > 0).sum(axis=1)
    norm = mass[cell] * levels[root]
    share: Floats = np.divide(forest.add_up(tree, score), norm, out=np.zeros(len(forest)), where=norm > 0)
    return share


@dataclass(frozen=True, eq=False)
class Objective:
    """E from the budgets of the classes, many splits at a time: arrays are (splits, classes)."""

    forest: Classes
    weight: Floats  # w_v, added up over the members of a class
    model: NoiseModel
    denoised: bool = True
    joint: bool = False  # one error, summed over all roots, instead of one for each

    def errors(self, budget: Floats) -> Floats:
        """(splits, roots), or (splits, 1) where they are judged together."""
        judge: Callable[..., tuple[Floats, ...]] = tree_error.denoised if self.denoised else tree_error.raw
        return self._judged(judge(self.forest, self.weight, self.model.precision(budget))[0])

    def gains(self, budget: Floats) -> tuple[Floats, Floats]:
        """The errors, and what a little more budget takes off them: −∂E/∂ε of each class."""
        precision = self.model.precision(budget)
        if self.denoised:
            sweep = tree_error.denoised(self.forest, self.weight, precision)
            errors, gain = sweep.error, tree_error.gain(self.forest, self.weight, sweep)
        else:
            errors, gain = tree_error.raw(self.forest, self.weight, precision)
        return self._judged(errors), gain * self.model.slope(budget)

    def errors_by(self, budget: Floats, weights: Floats) -> Floats:
        """The errors of all roots together under other weights, (splits, weights)."""
        errors: Floats = tree_error.variances(self.forest, self.model.precision(budget)) @ weights.T
        return errors

    def gains_by(self, budget: Floats, weights: Floats) -> tuple[Floats, Floats]:
        """The same, and the gains of each class, (splits, weights, classes)."""
        sweep = tree_error.denoised(self.forest, weights, self.model.precision(budget)[:, None])
        gain = tree_error.gain(self.forest, weights, sweep)
        return sweep.error.sum(axis=2), gain * self.model.slope(budget)[:, None]

    def heads(self) -> "Objective":
        """The same without the level on top: each head for itself, as if there were no total."""
        return replace(self, forest=self.forest.below(), weight=self.weight[self.forest.offsets[1] :], joint=False)

    def _judged(self, errors: Floats) -> Floats:
        return errors.sum(axis=1, keepdims=True) if self.joint else errors


Levels = Mapping[str, float] | ArrayLike


class PlainOptions(TypedDict, total=False):
    """Options that a problem holds as they are; their defaults are those of `BudgetProblem`."""

    phases: int  # of greedy, which optimal and per_node start from
    noise: str | NoiseModel  # a name in the registry of noise models, or a model
    l1: int  # what an impression may contribute in all
    by_root: bool  # a split for each root, or one for all that has the least sum of their errors
    pooled: bool  # one error, of levels over the nodes of all roots, instead of each root's own
    total: bool  # level 0 is a total above the heads, which get the splits
    denoised: bool  # plan for denoised figures, or for raw ones
    metric: rmsre.Metric  # the weight of each node's squared error, from its count and tau


class Options(PlainOptions, total=False):
    """What every way to split takes besides tree, prior counts, ε and τ."""

    weights: ArrayLike | None  # one for each node, in place of 1/|L_i|
    levels: Levels | None  # ε that is fixed, by level's name or one for each level (nan: free); 0 leaves a level out


@dataclass(frozen=True, eq=False)
class BudgetProblem:
    tree: Tree
    count: Floats  # prior counts, in level order
    epsilon: float
    tau: float
    weights: Floats | None  # in level order
    levels: Floats  # the ε of a fixed level, nan of a free one
    phases: int = 20
    noise: str | NoiseModel = "api"
    l1: int = 65536
    by_root: bool = True
    pooled: bool = False
    total: bool = False
    denoised: bool = True
    metric: rmsre.Metric = rmsre.weights

    @classmethod
    def of(
        cls,
        tree: Tree,
        prior_count: ArrayLike,
        epsilon: float,
        tau: float,
        weights: ArrayLike | None = None,
        levels: Levels | None = None,
        **plain: Unpack[PlainOptions],
    ) -> Self:
        """A problem that was checked, from arrays in the tree's order."""
        noise_model(plain.get("noise", cls.noise), epsilon, plain.get("l1", cls.l1))  # refuses an ε that is none
        in_order = _counts(tree, prior_count), float(epsilon), float(tau), _weights(tree, weights)
        return cls(tree, *in_order, _fixed(tree, levels, epsilon), **plain)

    def __post_init__(self) -> None:
        if not 0 < self.tau < np.inf:
            raise ValueError(f"tau is a positive number; got {self.tau}")
        if not 1 <= self.phases < np.inf or self.phases != int(self.phases):
            raise ValueError(f"phases are a whole number, 1 or more; got {self.phases}: the paper takes 20")
        if self.total and not (self.tree.first[0] == 1 and self.tree.depth > 1):
            raise ValueError(
                f"a total is one node above the heads; this tree has {self.tree.first[0]} roots and "
                f"{self.tree.depth} level(s): leave out total=True, or put a node above them"
            )

    @cached_property
    def model(self) -> NoiseModel:
        return noise_model(self.noise, self.epsilon, self.l1)

    @property
    def joint(self) -> bool:
        """Whether there is one error, summed over all roots."""
        return self.total or self.pooled or not self.by_root

    def objective(self, by_node: bool = False) -> Objective:
        """The errors to make small, on classes of nodes that have the same budget and the same variance."""
        apart = int(self.total) if self.by_root or not self.pooled else -1
        forest = classes(self.tree, "nodes" if by_node else apart)
        weight = class_weights(self, forest)
        if not self.denoised:  # a level left out has no raw figures to be judged
            weight[(self.levels[forest.level] == 0) & ~forest.leaf] = 0.0
        return Objective(forest, weight, self.model, self.denoised, self.joint)


def _counts(tree: Tree, counts: ArrayLike) -> Floats:
    count = np.asarray(counts, np.float64)
    if count.shape not in ((), (len(tree),)):
        raise ValueError(
            f"one prior count for each of the {len(tree)} nodes is needed, or one for all; got shape {count.shape}"
        )
    finite = np.isfinite(count)
    if not finite.all():
        raise ValueError(f"prior counts are finite numbers; got {count[~finite].flat[0]}: leave 0 where there is none")
    spread: Floats = tree.to_level_order(np.broadcast_to(count, len(tree)))
    return spread


def _weights(tree: Tree, weights: ArrayLike | None) -> Floats | None:
    if weights is None:
        return tree.number if isinstance(tree, CondensedTree) else None
    ordered: Floats = tree.to_level_order(rmsre.checked_weights(tree, weights))
    return ordered


def _fixed(tree: Tree, levels: Levels | None, epsilon: float) -> Floats:
    """The ε of each level that is fixed, nan for the others."""
    fixed = np.full(tree.depth, np.nan)
    if isinstance(levels, Mapping):
        names = tree.level_names
        for name, share in levels.items():
            if name not in names:
                raise ValueError(f"levels are named {', '.join(names)}; got {name!r}")
            fixed[names.index(name)] = share
            if not share >= 0:
                raise ValueError(f"the epsilon of a level is 0 or more; {name!r} has {share}: leave it out to be free")
    elif levels is not None:
        fixed = np.array(levels, np.float64)
    if fixed.shape != (tree.depth,) or (fixed < 0).any():
        raise ValueError(
            f"levels are one epsilon, 0 or more, for each of the {tree.depth} levels, nan if free; got {levels!r}"
        )
    if not np.nansum(fixed) <= epsilon * (1 + 1e-12):
        raise ValueError(
            f"the epsilons of fixed levels sum to at most epsilon = {epsilon}; got {np.nansum(fixed)}: "
            "lower some, or raise epsilon"
        )
    return fixed


FINEST = 1e-6  # the least spread that is told from none
LEAST_SHARE = 1e-4  # that is told from none
UNMEASURED = 1e-10  # of what the whole budget gives a leaf: its precision without any


@dataclass(frozen=True, eq=False, kw_only=True)
class Learned(Objective):
    """The same for estimates that use a prior; nodes are classes, and siblings of like spread one."""

    share: Floats  # of each class, of its parent's count
    firm: Floats  # 1 / spread; 0 where nothing is expected
    nothing: float  # the precision of a leaf without budget

    @classmethod
    def of(cls, problem: BudgetProblem, share: Floats, spread: Floats) -> Self:
        """Share and spread are in level order."""
        tree = problem.tree
        kind = _kinds(share, spread)
        if problem.total:  # heads have budgets of their own, also those that are leaves
            kind[tree.slice(1)] = np.arange(tree.offsets[2] - tree.offsets[1])
        forest = classes(tree, "nodes", kind)
        size, known = forest.add_up(tree), spread < np.inf
        wide = forest.add_up(tree, np.where(known, spread, 0.0)) / size
        firm = np.divide(1.0, wide, out=np.zeros(len(forest)), where=forest.add_up(tree, known.astype(np.float64)) > 0)
        nothing = UNMEASURED * min(1.0, float(problem.model.precision(np.array([problem.epsilon]))[0]))
        weight = class_weights(problem, forest)
        part = forest.add_up(tree, share) / size
        return cls(forest, weight, problem.model, joint=problem.joint, share=part, firm=firm, nothing=nothing)

    def errors(self, budget: Floats) -> Floats:
        return self._judged(self._sweep(budget).error)

    def gains(self, budget: Floats) -> tuple[Floats, Floats]:
        sweep = self._sweep(budget)
        gain = tree_error.predicted_gain(self.forest, self.share, self.firm, sweep)
        return self._judged(sweep.error), gain * self.model.slope(budget)

    def _sweep(self, budget: Floats) -> tree_error.PredictedSweep:
        precision = self.model.precision(budget)
        return tree_error.predicted(self.forest, self.weight, precision, self.share, self.firm, self.nothing)


def expectations(tree: Tree, share: ArrayLike | None, spread: ArrayLike | None) -> tuple[Floats, Floats] | None:
    """Share and spread, checked, in level order; None where nothing is expected of any node. Roots have no parent."""
    if share is None and spread is None:
        return None
    if share is None or spread is None:
        raise ValueError("shares and their spread go together; give both, with a spread of inf where nothing is known")
    part, wide = np.asarray(share, np.float64), np.asarray(spread, np.float64)
    if part.shape != (len(tree),) or wide.shape != (len(tree),):
        raise ValueError(f"one share and one spread for each of the {len(tree)} nodes are needed; got {wide.shape}")
    part, wide = tree.to_level_order(part).copy(), tree.to_level_order(wide).copy()
    part[tree.slice(0)], wide[tree.slice(0)] = 1.0, np.inf
    if not (wide >= 0).all():
        raise ValueError("a spread is 0 or more, or inf where nothing is known; got one that is negative or nan")
    if not wide.min() < np.inf:
        return None
    for family in tree.families():
        c = family.children
        measured = family.spread(family.sum((wide[c] < np.inf).astype(np.float64))) > 0
        part[c] = np.where(measured, part[c], 1.0 / family.spread(family.count.astype(np.float64)))
        if not (part[c] >= 0).all() or not (np.abs(family.sum(part[c]) - 1) <= ROUNDING).all():
            raise ValueError("shares are 0 or more and sum to 1 in each family of which anything is expected")
    return part, np.maximum(wide, FINEST)


def _kinds(share: Floats, spread: Floats) -> Ints:
    """A number for nodes of which much the same is expected: spreads within a factor of 2, shares of 4; 0 for none."""
    known = spread < np.inf
    kind = np.zeros(len(spread), np.int64)
    like = np.floor(np.log2(spread[known])).astype(np.int64)
    part = np.floor(-0.5 * np.log2(np.maximum(share[known], LEAST_SHARE))).astype(np.int64)
    kind[known] = 1 + part - part.min() + (part.max() - part.min() + 1) * (like - like.min())
    return kind
