"""parts: a plan of several measures as one plan for each, in the measure's unit."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from attributary.plan.plan import Plan
from attributary.spec import Measure
from attributary.tree import Tree
from attributary.types import Floats, Ints


@dataclass(frozen=True, eq=False)
class Part:
    """One measure of a plan: what a conversion of `clip` or more contributes, and the noise of its sums."""

    measure: Measure
    plan: Plan  # its contributions alone
    clip: float
    tau: float

    @property
    def limited(self) -> bool:
        """Whether a value is clipped, or only the first of several conversions of an impression count."""
        return not self.measure.is_count or self.plan.spec.conversions_per_impression != 1

    def contribution(self, tree: Tree) -> Ints:
        """What such a conversion adds to each node's key, in the tree's order."""
        return self.plan.contribution(tree)

    def variance(self, tree: Tree) -> Floats:
        """The noise variance of each node's sum, in the measure's unit; inf for a node without a key."""
        return self.plan.variance(tree) * self.clip**2


def parts(plan: Plan) -> tuple[Part, ...]:
    """The parts of a plan, in the order of the spec's measures; of a plan of counts, the plan itself."""
    if plan.measures is None:
        return (Part(plan.spec.asked[0], plan, 1.0, plan.spec.tau),)
    nothing: dict[str, Any] = {"measures": None, "tradeoff": None}
    found = []
    for measure, part in zip(plan.spec.asked, plan.measures, strict=True):
        alone = nothing | {"default": part.default, "roots": part.roots}
        alone |= {"expected": part.expected} if part.expected is not None else {}
        found.append(Part(measure, plan.model_copy(update=alone), part.clip, part.tau))
    return tuple(found)


def most_by_head(plan: Plan, tree: Tree) -> Ints:
    """How many conversions of an impression count, for each value of the first attribute, in level order."""
    import pyarrow as pa

    if plan.per_impression is None or not tree.labels:
        heads = tree.slice(min(int(tree.total), tree.depth - 1))
        return np.full(heads.stop - heads.start, plan.most(), np.int64)
    labels = tree.labels[0].dictionary.cast(pa.string()).to_pylist()
    of_label = np.array([plan.most(label) for label in labels], np.int64)
    found: Ints = of_label[tree.labels[0].indices.to_numpy()]
    return found
