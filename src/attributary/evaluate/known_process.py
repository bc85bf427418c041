"""known_process: what is known of generated counts beside a prior: the process that drew them."""

from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from attributary.datasets.forest import ForestProcess
from attributary.denoising.posterior import KnownFamilies
from attributary.prior import Prior, from_counts
from attributary.tree import Tree
from attributary.types import Floats


@dataclass(frozen=True, eq=False)
class KnownProcess(Prior):
    """A prior, and beside it α of each node: of the process itself, and given the earlier counts as they were.

    Methods do not see them; the limit of what any method can reach is made of them.
    """

    alpha: Floats | None = None
    alpha_with_past: Floats | None = None
    tilt: float = 0.0  # the logarithm of the roots' tilt: they are negative binomial
    tilt_with_past: float = 0.0


def with_process(tree: Tree, prior: Prior, counts: Any, before: Any) -> Prior:
    """The prior with the process that the counts say they were drawn by, if they do; `before` is a table of counts."""
    of = ForestProcess.read(counts)
    if of is None:
        return prior
    alpha = np.full(len(tree), of.shape)
    for level, (kappa, share) in enumerate(zip(of.kappa, of.share, strict=True), 1):
        place = [int(name.rpartition(" ")[2]) - 1 for name in tree.labels[level].to_pylist()]
        alpha[tree.slice(level)] = kappa * np.array(share)[place]
    alpha, rate = tree.from_level_order(alpha), of.shape / of.mean
    same = ForestProcess.read(before) == of and before is not counts
    past = alpha + from_counts(tree, before).mean if same else None
    known = {field.name: getattr(prior, field.name) for field in fields(prior)}
    return KnownProcess(
        **known, alpha=alpha, alpha_with_past=past, tilt=-np.log1p(rate), tilt_with_past=-np.log(2 + rate)
    )


def known_families(prior: Prior, past: bool) -> KnownFamilies:
    """How families share under the process, without the earlier period or with it."""
    assert isinstance(prior, KnownProcess)
    alpha, tilt = (prior.alpha_with_past, prior.tilt_with_past) if past else (prior.alpha, prior.tilt)
    assert alpha is not None
    return KnownFamilies(alpha, tilt)
