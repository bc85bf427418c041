"""Level shares: what part of the budget each level gets, for each root, for roots not yet seen, or for each node.

Roots with splits of their own minimise their own error each; a single split minimises the error of the whole tree, all
roots pooled. Under Definition 1, the levels at or below the first unknown attribute may have half of the budget
together. A split that would give them more gives them exactly half, in the same proportions, and is made anew for the
other levels; where there are no others, the other half is not spent.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from attributary import budget
from attributary.budget import METHODS, BudgetMethod, Split
from attributary.errors import InputError
from attributary.prior import Prior, foreseen
from attributary.prior.earlier import Profile
from attributary.spec import Measure, Spec
from attributary.tree import Tree
from attributary.types import Bools, Floats, Values

CLOSE = 1e-9


@dataclass(frozen=True, eq=False)
class Problem:
    """One measure of a spec on a tree, and what is known of it beforehand; all in the measure's unit."""

    spec: Spec
    tree: Tree
    prior: Prior  # with the measure's sums as means, as if there were no limits
    measure: Measure
    tau: float
    worth: float  # what a conversion brings on average; 1 for counts
    fixed: Floats  # the share of a level that is fixed, nan of a free one
    profile: Profile | None = None  # what limits would cut off
    phases: int = 20
    expects: Prior | None = None  # shares and spread that estimates will use; None for unbiased ones
    denoised: bool = True  # whether figures will be denoised

    @classmethod
    def of(
        cls,
        spec: Spec,
        tree: Tree,
        prior: Prior,
        measure: Measure | None = None,
        profile: Profile | None = None,
        *,
        fixed: Floats | None = None,
        learn: bool = False,
    ) -> Self:
        """The question of a measure (by default the first); values have a tau of tau conversions' worth."""
        measure = measure or spec.asked[0]
        brings = float("nan") if profile is None else profile.mean(measure)
        worth = 1.0 if measure.is_count else brings if brings > 0 else measure.limit or 1.0
        asked = cls(
            spec,
            tree,
            replace(prior, mean=sums_known(measure, tree, prior, profile)),
            measure,
            measure.tau if measure.tau is not None else spec.tau * worth,
            worth,
            np.full(len(spec.levels), np.nan) if fixed is None else fixed,
            profile,
        )
        if not learn:
            return asked
        in_conversions = foreseen(tree, asked.prior.times(1 / worth), tau=asked.tau / worth)
        return replace(asked, expects=in_conversions.times(worth))

    @property
    def limit(self) -> float:
        """What part the unknown levels may have together."""
        return self.spec.privacy_unit.unknown_part

    @property
    def by_root(self) -> bool:
        """Whether roots have limits and parts of their own; a total above them is one key, fed by all alike."""
        return self.spec.split_by is not None and not self.spec.total

    @property
    def heads(self) -> slice:
        """The values of the first attribute, in level order."""
        return self.tree.slice(int(self.tree.total))

    @property
    def new(self) -> Bools:
        """Heads that take the default split: those without history, or without weight."""
        new = self.prior.new_roots(self.tree)
        if self.spec.weights == "counts":
            new = new | ~(self.tree.to_level_order(self.prior.mean)[self.heads] > 0)
        return new

    @property
    def weights(self) -> Floats | None:
        """Of each node, in the tree's order; None where all nodes of a level count alike."""
        if self.spec.weights == "nodes":
            return None
        counts = np.maximum(self.prior.mean, 0.0)
        if not counts.any():
            raise InputError('weights = "counts" needs a prior with conversions; give one, or take weights = "nodes"')
        return counts

    @property
    def epsilon(self) -> float:
        """The part of ε that is split: that of one conversion that brings 1, where it makes a difference."""
        noise = self.spec.noise_model
        if self.expects is None and noise.proportional:
            return self.spec.epsilon
        return self.spec.epsilon / noise.repeats(self.spec.given_limit or 1) / noise.repeats(self.measure.limit or 1.0)

    def expected(self, noise: Floats, weights: Floats | None) -> budget.Expected:
        """What to expect of noise variances, one per node: of unbiased estimates, or of those that use `expects`."""
        share, spread = (None, None) if self.expects is None else (self.expects.share, self.expects.spread)
        tree, count = self.tree, self.prior.mean
        return budget.expected(
            tree, count, noise, self.tau, weights=weights, share=share, spread=spread, metric=self.spec.weigh
        )

    def of_known_heads(self, weights: Floats | None) -> Floats | None:
        """The weights without those of heads that are new."""
        new = self.new
        if not new.any() or new.all():
            return weights
        drop = self.tree.from_level_order(under(self.tree, new))
        return np.where(drop, 0.0, 1.0 if weights is None else weights)

    def split(self, method: BudgetMethod, fixed: Floats, weights: Floats | None, **rows: bool) -> Split:
        """What a method makes of the tree; one that plans for shares and spread has them, the others go by noise."""
        spec, expects = self.spec, self.expects
        options: dict[str, object] = {"phases": self.phases, "noise": spec.noise_model, "l1": spec.l1}
        options |= {"weights": weights, "levels": fixed * self.epsilon, "metric": spec.weigh, "denoised": self.denoised}
        if expects is not None and method.learns:
            options |= {"share": expects.share, "spread": expects.spread}
        try:
            return method.split(self.tree, self.prior.mean, self.epsilon, self.tau, **options, **rows)
        except ValueError as error:  # of what the user fixed
            raise InputError(str(error)) from error


def sums_known(measure: Measure, tree: Tree, prior: Prior, profile: Profile | None) -> Floats:
    """The sums of a measure that are known beforehand, as if there were no limits; 0 where nothing is."""
    if profile is not None:
        return profile.full(measure)
    return prior.mean if measure.is_count else np.zeros(len(tree))


def under(tree: Tree, heads: Bools) -> Bools:
    """All nodes at or below some values of the first attribute, in level order."""
    return tree.in_level_order.hand_down(heads, int(tree.total), above=False)


@dataclass(frozen=True, eq=False)
class Shares:
    """What each level of a measure gets, a total included: parts of ε, none of which sums to more than 1, or, once
    rounded, the whole numbers that a conversion contributes; 0 means no key."""

    default: Values  # (levels,)
    roots: Values | None = None  # (heads, levels), in level order; None for one split
    nodes: Values | None = None  # of each node, in level order, where nodes have their own

    def rows(self, tree: Tree) -> Values:
        """(heads, levels), whether heads have splits of their own or not."""
        if self.roots is not None:
            return self.roots
        heads = tree.slice(int(tree.total))
        return np.repeat(self.default[None], heads.stop - heads.start, axis=0)

    def of_nodes(self, tree: Tree) -> Values:
        """What each node has, in the tree's order; a leaf above the last level takes what is below it, too."""
        if self.nodes is not None:
            return tree.from_level_order(self.nodes)
        return tree.spread(self.rows(tree), int(tree.total), rest=True)

    def parts(self, number: int) -> Self:
        """Whole contributions of so many as parts of them."""
        return replace(self, default=self.default / number, roots=None if self.roots is None else self.roots / number)

    def times(self, part: Floats, known: Bools) -> Self:
        """The same of a part of ε, one for all heads or one for each; the default split of their mean where known."""
        part = np.broadcast_to(part, known.shape)
        default = part[known if known.any() else ~known].mean() * self.default
        return replace(self, default=default, roots=None if self.roots is None else part[:, None] * self.roots)

    def same(self, other: Self) -> bool:
        """Whether all keys get as much."""
        return np.array_equal(self.default, other.default) and np.array_equal(
            () if self.roots is None else self.roots, () if other.roots is None else other.roots
        )


def in_parts(problems: Sequence[Problem], split: Sequence[Shares], parts: Floats | None = None) -> list[Shares]:
    """Shares of each measure's part as parts of ε; measures have equal parts unless told, (measures, heads)."""
    of_measures = [1 / len(problems)] * len(problems) if parts is None else parts
    return [s.times(part, ~problems[0].new) for s, part in zip(split, of_measures, strict=True)]


def shares(q: Problem, named: str | BudgetMethod) -> Shares:
    """The shares that a method gives."""
    method = METHODS[named] if isinstance(named, str) else named
    if method.by_node:
        return _per_node(q, method)
    if q.spec.split_by is None:
        return Shares(_one_split(q, method))
    rows = _limited(q, lambda fixed: _rows(q, q.split(method, fixed, q.weights, total=q.spec.total)), q.fixed)
    default = _one_split(q, method, rows[0, 0])
    rows[q.new] = default
    return Shares(default, rows)


def _one_split(q: Problem, method: BudgetMethod, total: float = 0.0) -> Floats:
    """The split that is best for the whole tree or, where roots have their own, for all known roots together.

    A key that all roots feed takes the same from all: `total`.
    """
    fixed, weights, options = q.fixed.copy(), q.weights, {"by_root": False, "pooled": True}
    if q.spec.split_by is not None:
        fixed[:1] = total if q.spec.total else fixed[:1]
        weights, options = q.of_known_heads(weights), {"by_root": False, "total": q.spec.total}
    row: Floats = _limited(q, lambda fixed: _rows(q, q.split(method, fixed, weights, **options))[:1], fixed)[0]
    return row


def _per_node(q: Problem, method: BudgetMethod) -> Shares:
    """Shares of nodes; those below the first unknown attribute go by level where they would have too much."""
    nodes = _nodes(q, method, q.fixed)
    default = _one_split(q, METHODS["optimal"], float(nodes[0]))
    unknown = np.where(np.arange(len(nodes)) < q.tree.offsets[q.spec.first_unknown], 0.0, nodes)
    unknown = q.tree.in_level_order.sum_down(unknown)
    if unknown.max() > q.limit * (1 + CLOSE):
        nodes = _nodes(q, method, np.where(np.arange(q.tree.depth) < q.spec.first_unknown, q.fixed, default))
        default = _one_split(q, METHODS["optimal"], float(nodes[0]))  # once more, as the total is common to all roots
    return Shares(default, None, nodes)


def _nodes(q: Problem, method: BudgetMethod, fixed: Floats) -> Floats:
    """The share of each node, in level order."""
    options = {"pooled": True} if q.spec.split_by is None else {"total": q.spec.total}
    nodes: Floats = q.tree.to_level_order(q.split(method, fixed, q.weights, **options).epsilon) / q.epsilon
    return nodes


def _rows(q: Problem, split: Split) -> Floats:
    """The split by level, with a common total in front of every row."""
    rows = split.epsilon / q.epsilon
    if split.total is None:
        return rows
    return np.column_stack([np.full(len(rows), split.total / q.epsilon), rows])


def _limited(q: Problem, solve: Callable[[Floats], Floats], fixed: Floats) -> Floats:
    """Rows whose unknown levels stay within their limit."""
    rows = solve(fixed)
    over = rows[:, q.spec.first_unknown :].sum(axis=1) > q.limit * (1 + CLOSE)
    if not over.any():
        return rows
    free = np.isnan(fixed) & (np.arange(len(fixed)) >= q.spec.first_unknown)
    wanted = np.where(free, rows[over].mean(axis=0), 0.0)
    room = q.limit - np.nansum(fixed[q.spec.first_unknown :])
    limited = solve(np.where(free, wanted / wanted.sum() * room, fixed))
    if q.spec.total and not over.all():  # once more, as the total is common to all rows
        with_total = fixed.copy()
        with_total[0] = limited[0, 0]
        rows = solve(with_total)
        over = rows[:, q.spec.first_unknown :].sum(axis=1) > q.limit * (1 + CLOSE)
    return np.where(over[:, None], limited, rows)
