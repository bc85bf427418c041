"""foreseen: the shares and their spread that `learn` will find, as far as an earlier period tells: for the plan."""

from dataclasses import replace

import numpy as np

from attributary.denoising.family_shares import predict
from attributary.denoising.passes import engine
from attributary.denoising.prior import Prior
from attributary.prior.kin import kin, label_codes
from attributary.prior.learn import TAU, learned
from attributary.prior.spread import spread
from attributary.tree import Tree

EXACT = 1e-9  # the variance of an earlier count that has no noise, next to none


def foreseen(tree: Tree, earlier: Prior, *, tau: float = TAU) -> Prior:
    """What will be expected of each node, given its parent's count: a share, give or take a spread.

    As `learn` finds it from the earlier leaves alone. The spread is that of a count one standard deviation above what
    the earlier period says, since one that looks empty need not be; it is inf for what is new, and for roots.
    """
    if not 0 < tau < np.inf:
        raise ValueError(f"tau is a positive number; got {tau}")
    if earlier.new is None:
        raise ValueError("nothing is foreseen without an earlier period; give one, or plan without it")
    order, leaf = tree.to_level_order, tree.in_level_order.is_leaf
    x = order(earlier.mean)
    var = np.full(len(tree), EXACT) if earlier.variance is None else np.maximum(order(earlier.variance), EXACT)
    var = np.where(leaf, var, np.inf)
    label = label_codes(tree) if earlier.label is None else order(earlier.label)
    share, wide, count = learned(tree, x, var, label, None, tau)
    z, v = engine(tree).upward(tree, x, var)
    known = np.minimum(predict(tree, x, var, share, wide)[1], v)
    more = count + np.sqrt(np.where(known < np.inf, known, 0.0))
    found = np.full(len(tree), np.inf)
    for i, near in enumerate(kin(tree, label), 1):
        nodes, family = tree.slice(i), near.family
        parent = tree.family[nodes]
        alone = family.spread(family.count.astype(np.float64)) == 1
        weight = np.where((v[nodes] < np.inf) & ~alone, 1.0 / np.maximum(count[nodes], tau) ** 2, 0.0)
        s = share[nodes]
        later = np.maximum(s * more[parent], more[nodes])
        found[nodes] = np.where(alone, np.inf, spread(s * count[parent], s, z[nodes], v[nodes], weight, later))
    found[order(earlier.new)] = np.inf
    back = tree.from_level_order
    return replace(earlier, share=back(share), spread=back(found))
