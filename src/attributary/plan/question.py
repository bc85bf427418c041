"""Question: what is to be split, over which tree, within which limits."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from attributary.budget import Split
from attributary.errors import InputError
from attributary.plan.methods import METHODS
from attributary.prior import Prior
from attributary.spec import Spec
from attributary.tree import Tree
from attributary.types import Bools, Floats


@dataclass(frozen=True, eq=False)
class Question:
    """A spec, a tree and a prior for it; shares are parts of ε, by level, a total included."""

    spec: Spec
    tree: Tree
    prior: Prior
    fixed: Floats  # the share of a level that is fixed, nan of a free one
    phases: int = 20
    expects: Prior | None = None  # shares and spread that estimates will use; None for unbiased ones

    @property
    def limit(self) -> float:
        """What part the unknown levels may have together."""
        return 0.5 if self.spec.neighbours == "definition-1" else 1.0

    @property
    def new(self) -> Bools:
        """Heads that take the default split: those without history, or without weight."""
        new = self.prior.new_roots(self.tree)
        if self.spec.weights == "counts":
            heads = self.tree.slice(int(self.tree.total))
            new = new | ~(self.tree.to_level_order(self.prior.mean)[heads] > 0)
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

    def of_known_heads(self, weights: Floats | None) -> Floats | None:
        """The weights without those of heads that are new."""
        new = self.new
        if not new.any() or new.all():
            return weights
        drop = self.tree.from_level_order(under(self.tree, new))
        return np.where(drop, 0.0, 1.0 if weights is None else weights)

    def split(self, method: str, fixed: Floats, weights: Floats | None, **options: Any) -> Split:
        """What a method makes of the tree."""
        options |= self._expected(method)
        return self._ask(self.tree, self.prior.mean, method, fixed, weights, **options)

    def split_together(self, method: str, fixed: Floats) -> Split:
        """The same for the whole tree at once: as if a node stood above all roots that is not asked for."""
        tree = self.tree
        if tree.first[0] == 1:
            return self.split(method, fixed, self.weights)
        weights = np.ones(len(tree)) if self.weights is None else tree.to_level_order(self.weights)
        mean = tree.to_level_order(self.prior.mean)
        above, below = np.zeros(1), np.concatenate
        topped = Tree.from_parents(np.concatenate([[-1], tree.family + 1]))
        share = self._expected(method)
        more = {name: below([above + np.inf, tree.to_level_order(values)]) for name, values in share.items()}
        return self._ask(topped, below([above, mean]), method, below([above, fixed]), below([above, weights]), **more)

    def _expected(self, method: str) -> dict[str, Any]:
        """Share and spread, for a method that plans for them; the others go by noise alone."""
        if self.expects is None or method != "optimal":
            return {}
        return {"share": self.expects.share, "spread": self.expects.spread}

    def _ask(
        self, tree: Tree, mean: Floats, method: str, fixed: Floats, weights: Floats | None, **options: Any
    ) -> Split:
        spec = self.spec
        options |= {"phases": self.phases, "noise": spec.noise, "l1": spec.l1}
        levels = fixed * spec.epsilon
        try:
            return METHODS[method](tree, mean, spec.epsilon, spec.tau, weights=weights, levels=levels, **options)
        except ValueError as error:  # of what the user fixed
            raise InputError(str(error)) from error


def under(tree: Tree, heads: Bools) -> Bools:
    """All nodes at or below some values of the first attribute, in level order."""
    return tree.in_level_order.hand_down(heads, int(tree.total), above=False)
