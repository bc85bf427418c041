"""implausible: the corrections that noise hardly makes."""

from typing import NamedTuple

import numpy as np

from attributary.denoising import Estimate
from attributary.denoising.limit import FALSE_ALARMS, limit


class Suspect(NamedTuple):
    """A node that was moved further than noise explains, or the leaves of one, which are always moved alike."""

    name: str
    noisy: float
    estimate: float
    correction: float  # in standard deviations


class Implausible(NamedTuple):
    nodes: int  # how many
    limit: float  # how many standard deviations it takes
    suspects: int  # how many, leaves of one parent taken together
    worst: list[Suspect]


def implausible(est: Estimate, listed: int) -> Implausible:
    """The nodes with implausible corrections, the worst first.

    A correction's tail is taken to be no heavier than the noise's own; Bonferroni allows for the number of nodes. The
    leaves under one parent share one correction, since only their sum is measured twice: they are one suspect.
    """
    tree = est.tree
    size = np.abs(np.nan_to_num(est.correction))
    beyond_noise = limit(est.measurements, FALSE_ALARMS / max(int((size > 0).sum()), 1))
    beyond = np.flatnonzero(size > beyond_noise)
    leaf = tree.is_leaf[beyond]
    _, one_of_each = np.unique(tree.parent[beyond[leaf]], return_index=True)
    suspects = np.concatenate([beyond[~leaf], beyond[leaf][one_of_each]])
    order = np.lexsort((tree.level[suspects], -np.round(size[suspects], 6)))
    worst = [_suspect(est, int(v)) for v in suspects[order[:listed]]]
    return Implausible(len(beyond), float(np.min(beyond_noise)), len(suspects), worst)


def _suspect(est: Estimate, node: int) -> Suspect:
    tree, noisy = est.tree, est.measurements.noisy
    name, nodes = tree.name(node), np.array([node])
    if tree.is_leaf[node]:
        measured = est.measurements.variance < np.inf
        nodes = np.flatnonzero((tree.parent == tree.parent[node]) & tree.is_leaf & measured)
        if len(nodes) > 1:
            name = f"the {len(nodes):,} leaves of {tree.name(int(tree.parent[node]))} together"
    return Suspect(name, float(noisy[nodes].sum()), float(est.blue[nodes].sum()), float(est.correction[node]))
