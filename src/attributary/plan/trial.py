"""Trial: budgets tried out on one tree and prior; what they have in common is kept from one to the next.

Figures are those of `make_plan` with these shares. They are computed by class of nodes that share a variance, not by
node, so that they follow a slider on trees of any size. `example_draws` are what a report might say under a split.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import numpy as np

from attributary import rmsre
from attributary.budget import METHODS, tree_error
from attributary.budget.classes import Classes, classes
from attributary.budget.problem import BudgetProblem, class_weights
from attributary.denoising import denoise
from attributary.errors import InputError
from attributary.plan.bounds import MARGIN, BoundedCase
from attributary.plan.contributions import contributions
from attributary.plan.errors import Compared, LevelErrors, of_nodes
from attributary.plan.limits import ChosenLimits
from attributary.plan.make import BESIDE
from attributary.plan.privacy import PrivacyWords, privacy_words, spent
from attributary.plan.problem import Problem, Shares, shares
from attributary.prior import Prior
from attributary.spec import Spec
from attributary.spec.measure import EQUAL
from attributary.spec.privacy_unit import PrivacyLoss
from attributary.tree import Tree
from attributary.types import Floats, Ints, Record

KEPT = 64  # answers to earlier questions
MOST_BY_NODE = 1_000_000  # nodes whose errors are compared one by one
Path = Callable[[int], Sequence[str]]
T = TypeVar("T")


class Tried(NamedTuple):
    """A split in whole contributions, the errors to expect of it, and its privacy loss."""

    contribution: tuple[int, ...]  # of each level
    levels: tuple[LevelErrors, ...]
    tree: Compared
    raw: tuple[float, ...]  # RMSRE_τ of each level's noisy figures
    zeros: tuple[float, ...]  # RMSRE_τ of each level if every estimate were 0
    zeros_of_tree: float
    loss: PrivacyLoss
    privacy: PrivacyWords


class _Weights(NamedTuple):
    """What the squared error of each class counts for, (levels, classes), and the errors of answering 0 everywhere."""

    of_levels: Floats
    zeros: Floats  # of each level, squared


@dataclass(frozen=True, eq=False)
class Trial:
    """A tree with the counts to expect on it; `path` names nodes where the tree has no labels."""

    tree: Tree
    prior: Prior
    path: Path | None = None

    def tried(self, spec: Spec, share: Floats) -> Tried:
        """What comes of a split, beside equal shares and leaves alone."""
        split = [self.contribution(spec, each) for each in (share, *(self.shares(spec, name) for name in BESIDE))]
        variance, squared = self._squared(spec, split)
        by_level, of_tree = np.sqrt(squared).T.tolist(), _over_levels(squared)
        levels = tuple(
            LevelErrors(level=name, error=Compared.of(*errors), **nodes)
            for name, errors, nodes in zip(spec.levels, by_level, self._nodes(spec, variance[0]), strict=True)
        )
        raw = self._errors(spec, 1.0 / np.maximum(self._precision(spec, split[:1]), tree_error.NOTHING))
        zeros, chosen = self._weights(spec).zeros, split[0]
        most, noise = spec.given_limit or 1, spec.noise_model
        known, unknown = (np.array([[part.sum()]]) for part in np.split(chosen, [spec.first_varied]))
        loss = PrivacyLoss.of(*spent(spec, known, unknown, np.array([noise.repeats(most)])), noise)
        return Tried(
            tuple(chosen.tolist()),
            levels,
            Compared.of(*of_tree),
            tuple(np.sqrt(raw[0]).tolist()),
            tuple(np.sqrt(zeros).tolist()),
            _over_levels(zeros[None])[0],
            loss,
            privacy_words(spec, loss, most > 1),
        )

    def levels(self, spec: Spec, contribution: Ints) -> Floats:
        """RMSRE_τ of each level under one split."""
        errors: Floats = np.sqrt(self._squared(spec, [contribution])[1][0])
        return errors

    def contribution(self, spec: Spec, share: Floats) -> Ints:
        """Shares as the whole numbers that a plan would contribute."""
        row: Ints = contributions([self._question(spec)], [Shares(share)])[0].default
        return row

    def shares(self, spec: Spec, method: str = "optimal") -> Floats:
        """The shares that a method gives; the optimal ones meet the targets, or come near, and keep to the guard."""
        if METHODS[method].fixed:  # looks at the levels only: a chain has them, too

            def of_chain() -> Floats:
                chain = Tree.from_parents(np.arange(self.tree.depth) - 1)
                return shares(Problem.of(spec, chain, Prior(np.ones(len(chain)))), method).default

            return self._kept((method, spec.neighbours), of_chain)
        epsilon = None if spec.noise_model.proportional else spec.epsilon  # if so, the best split is the same at any ε
        case = (spec.neighbours, spec.tau, spec.weights, spec.noise)
        free = self._kept((method, *case, epsilon), lambda: shares(self._question(spec), method).default)
        last = ("near", method, spec.guard, *case)

        def bounded() -> Floats:
            within = self._bounded(spec).within(free[None, :, None], spec.epsilon, near=self._keeping.get(last)).share
            self._keeping[last] = within  # where the next ones will not be far
            share: Floats = within[0, :, 0]
            return share

        return self._kept((method, spec.guard, *case, spec.targets, spec.epsilon if spec.targets else epsilon), bounded)

    def least_epsilon(self, spec: Spec) -> float | None:
        """The least ε that meets the targets, with a margin for whole contributions; None without any."""
        if not any(target.half_width or isinstance(target.error, float) for target in spec.targets):
            return None
        last = ("least", spec.guard, spec.neighbours, spec.tau, spec.weights, spec.noise)

        def found() -> float:
            epsilon, within = self._bounded(spec).least_epsilon(*self._keeping.get(last, (spec.epsilon, None)))
            self._keeping[last] = epsilon, within.share
            return epsilon * (1 + MARGIN)

        return self._kept((*last, spec.targets), found)

    def _bounded(self, spec: Spec) -> BoundedCase:
        """The bounds of a spec. What goes over all nodes is kept: only the bounds move with the sliders.

        No slider moves a target for half-widths, which is of large counts only.
        """

        def bounded(asked: Spec) -> BoundedCase:
            one = ChosenLimits((1.0,), np.array([spec.given_limit or 1]), {})
            return BoundedCase.of([self._question(asked)], one, [Shares(self.shares(spec, "equal"))])

        def every_level() -> BoundedCase:
            return bounded(spec.without_targets().with_targets(dict.fromkeys(spec.levels, 1.0)))

        if any(target.half_width for target in spec.targets):
            return bounded(spec)
        case = self._kept(("case", spec.guard, spec.neighbours, spec.tau, spec.weights, spec.noise), every_level)
        wanted, bounds = {target.name: target for target in spec.targets}, []
        for bound in case.bounds[0]:
            target = wanted.get(spec.levels[bound.level]) if bound.level is not None else None
            if bound.target is None:
                bounds.append(bound)
            elif target is not None and target.error == EQUAL:
                bounds.append(bound._replace(target=target, most=np.inf, times=1.0))
            elif target is not None and isinstance(target.error, float):
                bounds.append(bound._replace(target=target, most=target.error**2))
        return replace(case, bounds=(tuple(bounds),))

    def _squared(self, spec: Spec, split: list[Ints]) -> tuple[Floats, Floats]:
        """Of each split the variance of each class and the squared error of each level."""
        variance = tree_error.variances(self._forest, self._precision(spec, split))
        return np.where(variance > tree_error.ENDLESS, np.inf, variance), self._errors(spec, variance)

    def _errors(self, spec: Spec, variance: Floats) -> Floats:
        """The squared error of each level, (splits, levels); nan of a level without weight."""
        weight = self._weights(spec).of_levels
        squared = np.where(weight.any(axis=1), variance @ weight.T, np.nan)
        return np.where(squared > tree_error.ENDLESS, np.inf, squared)

    def _precision(self, spec: Spec, split: list[Ints]) -> Floats:
        """1 / variance of the figure of each class; a leaf above the last level takes what is below it, too."""
        forest, row = self._forest, np.array(split, np.float64)
        down = np.cumsum(row[:, ::-1], axis=1)[:, ::-1]
        part = np.where(forest.leaf, down[:, forest.level], row[:, forest.level])
        return spec.noise_model.precision(part * (spec.epsilon / spec.l1))

    def _weights(self, spec: Spec) -> _Weights:
        def made() -> _Weights:
            q, forest = self._question(spec), self._forest
            problem = BudgetProblem.of(
                self.tree, q.prior.mean, spec.epsilon, q.tau, q.weights, pooled=True, metric=spec.weigh
            )
            weight = class_weights(problem, forest)
            square = replace(problem, metric=lambda count, tau: spec.weigh(count, tau) * count**2)
            by_level = np.where(np.arange(forest.depth)[:, None] == forest.level, weight, 0.0)
            there = by_level.any(axis=1)
            zeros = np.bincount(forest.level, class_weights(square, forest), forest.depth) * there.sum()
            return _Weights(by_level * there.sum(), np.where(there, zeros, np.nan))

        return self._kept(("weights", spec.tau, spec.weights), made)

    def _nodes(self, spec: Spec, variance: Floats) -> list[Record]:
        """How many nodes each level has, and its median, largest and worst ones, unless the tree is very large."""
        tree, q = self.tree, self._question(spec)
        if len(tree) > MOST_BY_NODE:
            return [{"nodes": nodes} for nodes in np.diff(tree.offsets).tolist()]
        of_nodes_ = tree.from_level_order(self._forest.spread(tree, variance))
        error = rmsre.nodes(q.prior.mean, of_nodes_, q.tau, spec.weigh)
        return list(of_nodes(tree, q.prior.mean, error, self.path))

    def _question(self, spec: Spec) -> Problem:
        return Problem.of(spec, self.tree, self.prior)

    @cached_property
    def _forest(self) -> Classes:
        return classes(self.tree, -1)

    @cached_property
    def _keeping(self) -> dict[tuple[object, ...], Any]:
        return {}

    def _kept(self, key: tuple[object, ...], make: Callable[[], T]) -> T:
        """What was made for this key, which is all that it depends on; the oldest of many is forgotten."""
        if key not in self._keeping:
            made = make()
            while len(self._keeping) >= KEPT:
                self._keeping.pop(next(iter(self._keeping)), None)
            self._keeping[key] = made
            return made
        found: T = self._keeping[key]
        return found


def _over_levels(squared: Floats) -> list[float]:
    """RMSRE_τ over the levels that have weight, of each split."""
    errors: list[float] = np.sqrt(np.nanmean(squared, axis=1)).tolist()
    return errors


def number_targets(spec: Spec) -> dict[str, float]:
    """The targets that are numbers, by level."""
    return {target.name: target.error for target in spec.targets if isinstance(target.error, float)}


def normal_shares(spec: Spec, parts: Sequence[float]) -> Floats:
    """The part of ε that each level gets, from numbers that sum to anything; what is none is refused."""
    share, number = np.array(parts, np.float64), len(spec.levels)
    if share.shape != (number,) or not (share >= 0).all() or not 0 < share.sum() < np.inf:
        raise InputError(f"shares are {number} numbers, 0 or more and not all 0; got {str(list(parts))[1:-1][:60]}")
    if not share[-1] > 0:
        raise InputError(f"{spec.levels[-1]!r} cannot be estimated without a key; give it a share")
    normal: Floats = share / share.sum()
    return normal


# Example draws: the noise is drawn from a seed, and not for release.

DRAWS = 3
SIBLINGS = 3  # children that are shown of each node on the way down
MOST = 50_000  # nodes that are drawn for


@dataclass(frozen=True, eq=False)
class Sample:
    """The largest root of a tree with all below it; of a very large one, the largest nodes of each level."""

    tree: Tree
    count: Floats
    whole: bool  # nothing below the root is left out
    shown: Ints  # the root, its largest children, the largest children of the first of these, and so on
    number: Ints  # of the shown nodes, in the tree that the sample is of

    @classmethod
    def of(cls, tree: Tree, counts: Floats) -> "Sample":
        count = np.asarray(tree.to_level_order(counts), np.float64)
        nodes = _largest(tree, count, MOST)
        place = np.full(len(tree), -1)
        place[nodes] = np.arange(len(nodes))
        part = Tree.from_parents(np.where(tree.family[nodes] < 0, -1, place[tree.family[nodes]]))
        count = part.roll_up(count[nodes][part.leaves])
        whole = bool((np.diff(part.first) == np.diff(tree.first.astype(np.int64))[nodes]).all())
        shown = _shown(part, count)
        return cls(part, count, whole, shown, nodes[shown] if tree.order is None else tree.order[nodes[shown]])


class Draw(NamedTuple):
    """Of each node that is shown."""

    noisy: Floats  # nan where nothing is measured
    estimate: Floats


def example_draws(sample: Sample, spec: Spec, contribution: Ints, seed: int) -> list[Draw]:
    """Some draws of the noisy figures and of the estimates.

    The noise of a seed is made of the same random numbers whatever the budget: figures move with the budget only.
    """
    tree, model = sample.tree, spec.noise_model
    by_level = contribution[: tree.depth].astype(np.float64)
    by_level[-1] += contribution[tree.depth :].sum()  # a tree that ends early takes the rest, as its leaves do
    budget: Floats = spec.epsilon * tree.spread(by_level[None], rest=True) / spec.l1
    variance, steps = model.variance(budget), model.steps(budget)
    draws = []
    for i in range(DRAWS):
        rng = np.random.default_rng([seed, i])
        drawn = model.replay(budget, rng.standard_exponential(len(tree)), rng.standard_exponential(len(tree)))
        noisy = np.where(budget > 0, sample.count + drawn / steps, 0.0)
        estimate = np.asarray(denoise(tree, noisy, variance).count, np.float64)
        draws.append(Draw(np.where(budget > 0, noisy, np.nan)[sample.shown], estimate[sample.shown]))
    return draws


def _largest(tree: Tree, count: Floats, most: int) -> Ints:
    """In level order: the largest root and all below it, or the largest of each level that stand below kept ones."""
    kept = [np.array([int(np.argmax(count[: int(tree.first[0])]))])]
    room = most // tree.depth
    for _ in range(1, tree.depth):
        above = kept[-1]
        begin, end = tree.first[above].astype(np.int64), tree.first[above + 1].astype(np.int64)
        size = end - begin
        below = np.repeat(begin - np.concatenate([[0], np.cumsum(size)[:-1]]), size) + np.arange(int(size.sum()))
        if not len(below):
            break
        if len(below) > room:
            below = np.sort(below[np.argsort(-count[below], kind="stable")[:room]])
        kept.append(below)
    return np.concatenate(kept)


def _shown(tree: Tree, count: Floats) -> Ints:
    shown, v = [0], 0
    while tree.first[v + 1] > tree.first[v]:
        children = np.arange(tree.first[v], tree.first[v + 1]).astype(np.int64)
        order = children[np.argsort(-count[children], kind="stable")[:SIBLINGS]]
        shown += order.tolist()
        v = int(order[0])
    return np.array(shown)
