"""The errors of any method, by drawing noise again and again; nothing here is for release.

A draw is two exponential numbers for each node, of which each noise model makes its noise: all methods, budgets and
noise models of a tree are tried on the same draws, and differ by what they do."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, Self, get_args
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from attributary import rmsre
from attributary.denoising import Estimate
from attributary.errors import InputError
from attributary.estimators import Background, Estimator, EstimatorKind
from attributary.evaluate.case import Case, changed, fixed
from attributary.evaluate.methods import Method
from attributary.facts.evaluation import ZEROS
from attributary.measurements import Measurements
from attributary.noise import NoiseModel, model
from attributary.pipeline.denoise_summary import estimate_measures
from attributary.plan import Plan
from attributary.plan.make import each_asked, solve
from attributary.plan.proposals import Wishes
from attributary.plan.together import plan_together
from attributary.spec.measure import COUNT
from attributary.tree import Tree
from attributary.types import Floats, Values

Pool = Literal["nodes", "roots"]
SMALL = 0.1  # an RMSRE to be below


@dataclass(frozen=True, eq=False)
class Pooling:
    """RMSRE_τ of a tree in level order (the paper's section 3.2).

    The paper leaves open how the roots of a forest are pooled. "nodes": all nodes of a level count alike, whatever
    their root, as in `rmsre.tree`. "roots": all roots count alike, whatever their size, and the tree's error is the
    root mean square of the roots' own.
    """

    tree: Tree
    weight: Floats  # of each node's squared error in its level's; 1 for each level together
    relative: Floats  # what its error is multiplied by: 1 / max(τ, c)

    @classmethod
    def of(
        cls, tree: Tree, count: Floats, tau: float, pool: Pool = "nodes", metric: rmsre.Metric = rmsre.weights
    ) -> Self:
        if pool not in get_args(Pool):
            raise InputError(f"errors are pooled by {' or by '.join(get_args(Pool))}; got {pool!r}")
        if not 0 < tau < np.inf:
            raise InputError(f"tau is a positive number; got {tau}")
        sizes = np.diff(tree.offsets)
        level = np.repeat(np.arange(tree.depth), sizes)
        if pool == "nodes":
            weight = np.repeat(1.0 / sizes, sizes)
        else:
            cell = tree.root.astype(np.int64) * tree.depth + level
            nodes_in = np.bincount(cell, minlength=int(tree.first[0]) * tree.depth)
            roots = (nodes_in.reshape(-1, tree.depth) > 0).sum(axis=0)
            weight = 1.0 / nodes_in[cell] / roots[level]
        return cls(tree, weight, np.sqrt(metric(count, tau)))

    def levels(self, squared: Floats) -> Floats:
        """The squared error of each level, from the nodes' squared errors relative to max(τ, c)."""
        total: Floats = np.add.reduceat(squared * self.weight, self.tree.offsets[:-1])
        return total

    def below(self, squared: Floats) -> Floats:
        """The share of each level's nodes whose RMSRE is below 0.1, and of all nodes."""
        small = (squared < SMALL**2).astype(np.float64)
        by_level: Floats = np.add.reduceat(small, self.tree.offsets[:-1]) / np.diff(self.tree.offsets)
        return np.append(by_level, small.mean())


class PooledErrors(NamedTuple):
    """The errors of each level and, last, of the tree."""

    rmsre: Floats
    standard_error: Floats  # nan where the error is exact
    below: Floats  # the share of nodes whose own RMSRE is below 0.1
    coverage: Floats | None = None  # the share of nodes whose interval holds the true count; last, of all nodes
    coverage_error: Floats | None = None  # its standard error
    draws: Floats | None = None  # the squared error of each draw: (draws, levels and tree)


def with_tree(levels: Floats) -> Floats:
    """Squared errors of levels, along the last axis, and behind them the tree's, which is their mean."""
    return np.concatenate([levels, levels.mean(axis=-1, keepdims=True)], axis=-1)


def exact(measure: Pooling, variance: Floats, bias: Floats | float = 0.0) -> PooledErrors:
    """The errors of estimates with these variances, in level order; unbiased but for what limits cut off."""
    squared = (variance + np.square(bias)) * measure.relative**2
    rmsre: Floats = np.sqrt(with_tree(measure.levels(squared)))
    return PooledErrors(rmsre, np.full(len(rmsre), np.nan), measure.below(squared))


class Draws(NamedTuple):
    plus: Floats
    minus: Floats

    @property
    def even(self) -> Floats:
        """Draws with mean 0 and variance 1, of whatever shape: for what is too small for its shape to matter."""
        drawn: Floats = (self.plus - self.minus) / np.sqrt(2)
        return drawn


def draws_of(seed: int, name: str, batch: int, size: int) -> Draws:
    """A batch of draws for the tree of this name; the same whoever asks, and when."""
    key = (crc32(name.encode()), batch)
    rng = np.random.Generator(np.random.SFC64(np.random.SeedSequence(seed, spawn_key=key)))
    return Draws(rng.standard_exponential(size), rng.standard_exponential(size))


class SimulatedNoise(NamedTuple):
    """The noise of nodes that have some shares of a budget ε; a node without a share is not measured."""

    model: str
    epsilon: float
    l1: int
    share: Floats
    delta: float = 0.0

    @property
    def page(self) -> NoiseModel:
        return model(self.model, self.epsilon, self.l1, self.delta)

    @property
    def shape(self) -> str:
        return self.page.shape.name

    @property
    def scale(self) -> float:
        """What all variances are proportional to, whatever ε is."""
        return self.page.factor

    @property
    def variance(self) -> Floats:
        return self.page.variance(self.epsilon * self.share)

    def added(self, count: Floats, drawn: Draws) -> Floats:
        """The counts with noise; 0 where nothing is measured, so that nothing is given away."""
        page, budget = self.page, self.epsilon * self.share
        return np.where(budget > 0, count + page.replay(budget, *drawn) / page.steps(budget), 0.0)


BATCH = 250_000  # nodes at a time: compiled passes pay, and one thread is enough


@dataclass(frozen=True, eq=False)
class Copies:
    """The forest of `number` copies of a tree; level by level, one copy after the other."""

    one: Tree
    forest: Tree
    number: int

    @classmethod
    def of(cls, tree: Tree, number: int) -> Self:
        """So many copies of a tree that is in level order."""
        if number == 1:
            return cls(tree, tree, 1)
        offsets = tree.offsets * number
        first = [np.zeros(0, np.int64)]
        for i in range(tree.depth):
            here = tree.slice(i)
            size = int(tree.offsets[i + 2] - tree.offsets[i + 1]) if i + 1 < tree.depth else 0
            start = tree.first[here].astype(np.int64) - tree.offsets[i + 1]
            copy = np.arange(number)[:, None] * size
            first.append((offsets[i + 1] + copy + start).ravel())
        flat = np.concatenate([*first, offsets[-1:]]).astype(np.uint32)
        parent = np.repeat(np.arange(len(flat) - 1, dtype=np.int32), np.diff(flat))
        roots = np.full(int(flat[0]), -1, np.int32)
        return cls(tree, Tree(np.concatenate([roots, parent]), flat, offsets), number)

    def spread(self, values: Values) -> Values:
        return np.concatenate([np.tile(values[self.one.slice(i)], self.number) for i in range(self.one.depth)])

    def apart(self, values: Floats) -> list[Floats]:
        return list(np.concatenate(self._levels(values), axis=1))

    def joined(self, copies: list[Floats]) -> Floats:
        """The values of all copies, from those of each, or of the forest itself."""
        if len(copies) == 1:
            return copies[0]
        rows = np.stack(copies)
        return np.concatenate([rows[:, self.one.slice(i)].ravel() for i in range(self.one.depth)])

    def levels(self, values: Floats) -> Floats:
        """The sum of values over each level of each copy: (copies, levels)."""
        return np.stack([level.sum(axis=1) for level in self._levels(values)], axis=1)

    def nodes(self, values: Floats) -> Floats:
        """The sum of values over the copies, node by node."""
        return np.concatenate([level.sum(axis=0) for level in self._levels(values)])

    def _levels(self, values: Floats) -> list[Floats]:
        return [values[self.forest.slice(i)].reshape(self.number, -1) for i in range(self.one.depth)]


def batches(nodes: int, draws: int) -> list[int]:
    """How many draws to make at a time, for a tree of so many nodes; it depends on nothing else."""
    at_a_time = max(1, min(draws, BATCH // nodes))
    return [at_a_time] * (draws // at_a_time) + ([draws % at_a_time] if draws % at_a_time else [])


def simulate(
    case: Case,
    noises: Sequence[SimulatedNoise],
    kinds: Sequence[EstimatorKind],
    measure: Pooling,
    draws: int,
    seed: int,
    background: Background,
    coverage: bool = False,
) -> list[list[PooledErrors]]:
    """The errors of each estimator under each noise, all on the same draws.

    `known` is what estimators know besides the figures, but for the prior, which is the case's. With `coverage`, the
    intervals of those that have some are tried, too.
    """
    pairs = [(i, j) for i in range(len(noises)) for j in range(len(kinds))]
    squared, covered = ({pair: list[Floats]() for pair in pairs} for _ in range(2))
    nodes = {pair: np.zeros(case.nodes) for pair in pairs}
    copies: Copies | None = None
    for batch, number in enumerate(batches(case.nodes, draws)):
        if copies is None or copies.number != number:
            copies = Copies.of(case.tree, number)
            count, relative, weight = map(copies.spread, (case.count, measure.relative, measure.weight))
            truth, shaken = copies.spread(case.truth), copies.spread(np.sqrt(case.rounding + np.zeros(case.nodes)))
            here = background._replace(earlier=changed(changed(case.prior, copies.spread), fixed))
            spread = [noise._replace(share=copies.spread(noise.share)) for noise in noises]
            variances = [fixed(noise.variance) for noise in spread]
        drawn = draws_of(seed, f"{case.dataset}/{case.name}", batch, len(count))
        rounded = count
        if shaken.any():
            rounded = count + shaken * draws_of(seed, f"{case.dataset}/{case.name}/rounding", batch, len(count)).even
        for i, (noise, variance) in enumerate(zip(spread, variances, strict=True)):
            measured = Measurements(fixed(noise.added(rounded, drawn)), variance, noise.shape)
            for j, kind in enumerate(kinds):
                made = estimates(kind, copies, measured, here)
                estimate = copies.joined([_counts(est) for est in made])
                if coverage and not (kind.baseline and kind.linear):
                    of_each = case.truth if len(made) > 1 else truth
                    covered[i, j].append(copies.levels(copies.joined([inside(est, of_each) for est in made])))
                off = estimate - truth
                off *= relative
                off *= off
                nodes[i, j] += copies.nodes(off)
                off *= weight
                squared[i, j].append(with_tree(copies.levels(off)))

    def errors(i: int, j: int) -> PooledErrors:
        made = of_draws(np.concatenate(squared[i, j]), nodes[i, j] / draws, measure)
        return made._replace(**_coverage(covered[i, j], np.diff(case.tree.offsets)))

    return [[errors(i, j) for j in range(len(kinds))] for i in range(len(noises))]


def estimates(kind: EstimatorKind, copies: Copies, measured: Measurements, background: Background) -> list[Estimate]:
    """What an estimator makes of figures: of all copies at once, if it treats each root on its own, or one by one."""
    if kind.batched or copies.number == 1:
        return [kind.make(copies.forest, measured, background)]
    assert background.earlier is not None
    one = background._replace(earlier=changed(background.earlier, lambda values: fixed(copies.apart(values)[0])))
    figures = zip(copies.apart(measured.noisy), copies.apart(measured.variance), strict=True)
    return [kind.make(copies.one, Measurements(fixed(x), fixed(v), measured.shape), one) for x, v in figures]


def _counts(est: Estimate) -> Floats:
    counts, nodes = np.asarray(est.count, np.float64), len(est.tree)
    if counts.shape != (nodes,) or np.isnan(counts).any():
        wrong = "nan" if counts.shape == (nodes,) else f"shape {counts.shape}"
        raise InputError(f"an estimator gives a count for each of the {nodes:,} nodes that it is handed; got {wrong}")
    return counts


LEVEL = 0.95
ROUNDING = 1e-9  # of counts that are known exactly


def inside(estimate: Estimate, count: Floats) -> Floats:
    """1 for each node whose 95 % interval holds the true count, else 0."""
    low, high = estimate.interval(LEVEL)
    slack = ROUNDING * np.maximum(count, 1.0)
    held: Floats = ((low - slack <= count) & (count <= high + slack)).astype(np.float64)
    return held


def of_draws(squared: Floats, nodes: Floats, measure: Pooling) -> PooledErrors:
    """The standard error is that of the mean over draws, carried over to its root."""
    rmsre: Floats = np.sqrt(squared.mean(axis=0))
    spread = squared.std(axis=0, ddof=1) / np.sqrt(len(squared))
    error = np.divide(spread, 2 * rmsre, out=np.zeros_like(spread), where=rmsre > 0)
    return PooledErrors(rmsre, error, measure.below(nodes), draws=squared)


def _coverage(held: list[Floats], sizes: NDArray[np.int64]) -> dict[str, Floats]:
    """The share of intervals that held the true count, of each level and of all, and its standard error over draws."""
    if not held:
        return {}
    levels = np.concatenate(held)
    share = np.concatenate([levels / sizes, levels.sum(axis=1, keepdims=True) / sizes.sum()], axis=1)
    return {"coverage": share.mean(axis=0), "coverage_error": share.std(axis=0, ddof=1) / np.sqrt(len(share))}


# Several breakdowns, whose budget is divided by one plan of all or by plans of each


def joint_plan(case: Case, split: str) -> Plan:
    """The plan that divides the budget by "optimal", as `run` does, or plans each by itself: "apart", "equal-parts"."""
    trees, priors = [one.labelled or one.tree for one in case.breakdowns], [one.prior for one in case.breakdowns]
    parts = [1 / len(trees)] * len(trees) if split == "equal-parts" else None
    each = each_asked(case.spec, trees, priors)
    return plan_together(case.spec, each, Wishes("optimal"), solve, join=split == "optimal", parts=parts)


def joint_errors(case: Case, method: Method, draws: int, seed: int, pool: Pool) -> Iterator[list[PooledErrors]]:
    """The errors of each breakdown, exact and simulated; draw i is `run` with the generator default_rng([seed, i])."""
    trees, truth = [one.labelled or one.tree for one in case.breakdowns], [one.count for one in case.breakdowns]
    poolings = [Pooling.of(t, c, case.spec.tau, pool, case.spec.weigh) for t, c in zip(trees, truth, strict=True)]
    if method.name == ZEROS:
        yield [exact(pooling, 0 * count, count) for pooling, count in zip(poolings, truth, strict=True)]
        return
    plan = joint_plan(case, method.split.name)
    each = list(zip(plan.parts, trees, truth, strict=True))

    def measured(draw: int) -> list[Measurements]:
        rng = np.random.default_rng([seed, draw])
        return [Measurements.simulate(one, tree, count, rng) for one, tree, count in each]

    def estimates(figures: list[Measurements]) -> list[Estimate]:
        measures = [{COUNT: m} for m in figures]
        if method.split.name == "optimal":
            made = estimate_measures(plan, trees, measures, Estimator())
        else:
            alone = zip(each, measures, strict=True)
            made = [estimate_measures(one, [tree], [m], Estimator())[0] for (one, tree, _), m in alone]
        return [one[COUNT] for one in made]

    still = estimates([replace(m, noisy=count) for m, count in zip(measured(0), truth, strict=True)])
    yield [exact(p, est.variance, est.count - c) for p, est, c in zip(poolings, still, truth, strict=True)]
    squared, nodes = [list[Floats]() for _ in truth], [0 * count for count in truth]
    for draw in range(draws):
        for k, est in enumerate(estimates(measured(draw))):
            off = np.square((est.count - truth[k]) * poolings[k].relative)
            squared[k].append(with_tree(poolings[k].levels(off)))
            nodes[k] += off / draws
    if draws:
        yield [of_draws(np.array(s), n, pooling) for s, n, pooling in zip(squared, nodes, poolings, strict=True)]
