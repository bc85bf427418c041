"""known_process: what is known of generated counts beside a prior: the process that drew them."""

from dataclasses import fields
from typing import Any

import numpy as np

from attributary.datasets.forest import ForestProcess
from attributary.estimators import KnownProcess
from attributary.prior import Prior, from_counts
from attributary.tree import Tree


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
