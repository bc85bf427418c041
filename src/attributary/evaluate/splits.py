"""Splits: how the budget is divided over a tree. One function each, all of one signature.

A split sees the spec, the tree and the prior, and gives every node's share of the budget, in level order; no path from
a root to a leaf has more than 1. With `split_by` every root has its own split; a root that the prior does not have
takes the split that is best for all roots that it has.
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
    """The same share for each level."""
    return _nodes(Question.of(spec, tree, prior), "equal")


def leaves(spec: Spec, tree: Tree, prior: Prior) -> Floats:
    """The whole budget on the leaves."""
    return _nodes(Question.of(spec, tree, prior), "leaves")


def greedy(spec: Spec, tree: Tree, prior: Prior) -> Floats:
    """Algorithm 3, for noisy values that will be denoised."""
    return _nodes(Question.of(spec, tree, prior), "greedy")


def greedy_raw(spec: Spec, tree: Tree, prior: Prior) -> Floats:
    """Algorithm 3, for noisy values that will not be denoised: their error is that of the noise alone.

    The paper does not say which split its fourth method takes. One made for denoising leaves levels without budget,
    whose raw values would be worth nothing.
    """
    return _nodes(replace(Question.of(spec, tree, prior), denoised=False), "greedy")


def optimal(spec: Spec, tree: Tree, prior: Prior) -> Floats:
    """The best split by level."""
    return _nodes(Question.of(spec, tree, prior), "optimal")


def planned(spec: Spec, tree: Tree, prior: Prior) -> Floats:
    """The best split by level for estimates that use the prior, hedged against a prior that is wrong.

    Without an earlier period it is that of `optimal`.
    """
    return _nodes(Question.of(spec, tree, prior, learn=prior.history), "optimal")


def per_node(spec: Spec, tree: Tree, prior: Prior) -> Floats:
    """A separate share for every node."""
    return _nodes(Question.of(spec, tree, prior), "per-node")


def _nodes(question: Question, method: str) -> Floats:
    """The shares of a method, node by node."""
    by_method = shares(question, method)
    by_level = _by_level(question, by_method)
    if by_method.nodes is None:
        return by_level
    if question.spec.split_by is None:
        return by_method.nodes
    return np.where(under(question.tree, question.new), by_level, by_method.nodes)


def _by_level(question: Question, by_method: Shares) -> Floats:
    rows = by_method.default[None] if by_method.roots is None else by_method.roots
    return question.tree.spread(rows, int(question.spec.total), rest=True)
