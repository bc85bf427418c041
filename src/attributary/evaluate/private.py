"""private: a prior that gives nothing away, as in the paper: an earlier period's counts, measured and denoised."""

from typing import Any

from attributary.budget import equal
from attributary.denoising import denoise
from attributary.noise import Entropy, model
from attributary.prior import Prior, from_counts, from_estimates
from attributary.spec import Spec
from attributary.tree import Tree

EPSILON = 1.0  # the paper's


def private_prior(spec: Spec, tree: Tree, before: Any, rng: Entropy | None, epsilon: float = EPSILON) -> Prior:
    """What a table of counts of an earlier period says of a tree's counts, measured with ε split equally and denoised.

    The noise is the spec's model.
    """
    earlier = spec.tree(before)
    count = from_counts(earlier, before).mean
    split = equal(earlier, count, epsilon, spec.tau, noise=spec.noise, l1=spec.l1)
    noisy = model(spec.noise, epsilon, spec.l1).measure(count, split.nodes(), rng)
    est = denoise(earlier, noisy, split.variance())
    table = earlier.table().append_column("estimate", [est.count]).append_column("variance", [est.variance])
    return from_estimates(tree, table, known=[attribute.name for attribute in spec.known])
