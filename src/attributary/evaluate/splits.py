"""How the budget is split over a tree, one function each, all of one signature.

A way sees the spec, the tree and the prior, and gives the share of the budget of every node, in level order. With
`split_by` every root has a split of its own; a root that is new takes the one split that is best for all known ones.
"""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from attributary.plan.level_shares import Question, Shares, shares, under
from attributary.prior import Prior
from attributary.spec import Spec
from attributary.tree import Tree
from attributary.types import Floats

Way = Callable[[Spec, Tree, Prior], Floats]


def equal(spec: Spec, tree: Tree, prior: Prior) -> Floats:
    """The same for each level."""
    return _nodes(Question.of(spec, tree, prior), "equal")


def leaves(spec: Spec, tree: Tree, prior: Prior) -> Floats:
    """All on the leaves."""
    return _nodes(Question.of(spec, tree, prior), "leaves")


def greedy(spec: Spec, tree: Tree, prior: Prior) -> Floats:
    """Algorithm 3, for figures that will be denoised."""
    return _nodes(Question.of(spec, tree, prior), "greedy")


def greedy_raw(spec: Spec, tree: Tree, prior: Prior) -> Floats:
    """Algorithm 3, for figures that will not be denoised: their error is that of the noise alone.

    The paper does not say which split its fourth method takes. One made for denoising leaves levels without budget,
    whose raw figures would be worth nothing.
    """
    return _nodes(replace(Question.of(spec, tree, prior), denoised=False), "greedy")


def optimal(spec: Spec, tree: Tree, prior: Prior) -> Floats:
    """The best split by level."""
    return _nodes(Question.of(spec, tree, prior), "optimal")


def planned(spec: Spec, tree: Tree, prior: Prior) -> Floats:
    """The best split by level for estimates that use what the prior foresees; hedged."""
    return _nodes(Question.of(spec, tree, prior, learn=True), "optimal")


def per_node(spec: Spec, tree: Tree, prior: Prior) -> Floats:
    """A share of its own for every node."""
    return _nodes(Question.of(spec, tree, prior), "per-node")


def _nodes(question: Question, method: str) -> Floats:
    """The shares of a method, node by node."""
    found = shares(question, method)
    by_level = _by_level(question, found)
    if found.nodes is None:
        return by_level
    if question.spec.split_by is None:
        return found.nodes
    return np.where(under(question.tree, question.new), by_level, found.nodes)


def _by_level(question: Question, found: Shares) -> Floats:
    rows = found.default[None] if found.roots is None else found.roots
    return question.tree.spread(rows, int(question.spec.total), rest=True)
