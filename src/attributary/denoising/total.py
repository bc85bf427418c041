"""total: any weighted sum of a tree's estimates, with its exact variance.

Push the weights down to the leaves. Let h_v say how much the sum grows with x̂_v: a leaf's weight, or the mean of its
children's h weighted by k. What a family adds to the variance, given its parent, is Σ var⇑_u · (h_u − h_p)², and the
roots add h² · var⇑. This takes one pass without differences of nearly equal numbers, and figures that were not measured
do not matter unless the sum needs them.
"""

from dataclasses import dataclass

import numpy as np

from attributary.denoising.passes import engine
from attributary.denoising.prior import Prior, shares_of, upward, with_means
from attributary.denoising.quantile import quantile
from attributary.measurements import Measurements
from attributary.tree import Family, Tree
from attributary.types import Floats


@dataclass(frozen=True)
class Total:
    """A sum of counts with its uncertainty, and the same sum of unbiased counts."""

    count: float  # as shown
    variance: float  # of the unbiased sum; with a prior the count's mean squared error, if the prior is right
    excess: float  # kurtosis of its noise: 0 if normal, 3 if Laplace
    unbiased: float
    noise: float  # variance of the unbiased sum
    freedom: float = np.inf  # degrees of freedom of that variance, where the noise level was estimated
    least: float = -np.inf  # what the true sum is known to reach: 0 where no count and no weight is negative

    @property
    def std(self) -> float:
        return float(np.sqrt(self.variance))

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """The interval that holds the true sum with this probability, for the shape of the noise.

        Around the unbiased sum, since biases of counts that are shown add up; cut at 0 if counts are non-negative, and
        widened to include the count that is shown.
        """
        half = float(quantile(level, np.array([self.excess]), self.freedom)[0]) * float(np.sqrt(self.noise))
        low, high = max(self.unbiased - half, self.least), max(self.unbiased + half, self.least)
        return min(low, self.count), max(high, self.count)


def total(tree: Tree, measured: Measurements, blue: Floats, weights: Floats) -> Total:
    """Σ weights · blue with its variance, in the tree's order."""
    pull, up, variance = _parts(tree, measured, weights)
    whole = float(variance.sum())
    value = float(np.dot(weights, blue))
    return Total(value, whole, _excess(tree, measured.independent, pull, up, whole), value, whole)


def subtree_variance(tree: Tree, measured: Measurements, variance: Floats, weights: Floats) -> Floats:
    """The variance of Σ weights · blue over the leaves below each node, in the tree's order.

    `variance` is that of blue, and leaves alone have weights. Given x̂_v, the rest of its tree says nothing of what is
    below v; so the families below v add what they add to any sum, and v itself h² times its variance.
    """
    pull, _, part = (tree.from_level_order(a) for a in _parts(tree, measured, weights))
    child = tree.parent >= 0
    families = np.bincount(tree.parent[child], part[child], len(tree))
    return tree.sum_up(families) + _square(pull, variance)


def _parts(tree: Tree, measured: Measurements, weights: Floats) -> tuple[Floats, Floats, Floats]:
    """h, var⇑, and what each node adds to the variance of the sum, given its parent; in level order."""
    families, measured = measured.families, measured.independent
    var = tree.to_level_order(measured.variance)
    _, up = engine(tree).upward(tree, tree.to_level_order(measured.noisy), var)
    pull = tree.in_level_order.sum_down(tree.to_level_order(weights))  # h
    variance = np.zeros(len(tree))
    for family in tree.families(upwards=True):
        c, p = family.children, family.parent
        pull[p] = _mean(family, pull[c], up[c])
        variance[c] = _square(pull[c] - family.spread(pull[p]), up[c])
    if families:
        variance = tree.from_level_order(variance)
        for each in families:
            variance[each.nodes] = each.quadratic(tree.from_level_order(pull))
        variance = tree.to_level_order(variance)
    roots = tree.slice(0)
    variance[roots] = _square(pull[roots], up[roots])
    return pull, up, variance


def _square(h: Floats, variance: Floats) -> Floats:
    """h² · variance; what has no weight adds nothing, even if it was not measured."""
    return np.where(h == 0, 0.0, variance * np.where(h == 0, 1.0, h) ** 2)


def _mean(family: Family, pull: Floats, up: Floats) -> Floats:
    """The mean of the children's h, weighted by k; of the unmeasured children alone (∞) where there are any."""
    missing = up == np.inf
    any_missing = family.spread(family.sum(missing.astype(np.float64))) > 0
    weight = np.where(any_missing, missing.astype(np.float64), up)
    all_exact = family.spread(family.sum(weight)) == 0
    weight = np.where(all_exact, 1.0, weight)
    share = weight / family.spread(family.sum(weight))
    # A reference member keeps equal values exactly equal, so that what cancels costs exactly nothing.
    anchor = family.spread(pull[family.anchor(weight)])
    return pull[family.anchor(weight)] + family.sum(share * (pull - anchor))


def _excess(tree: Tree, measured: Measurements, pull: Floats, up: Floats, variance: float) -> float:
    """The sum's fourth cumulant over its variance²: from the weight a_u = Cov(x̂_u, sum) / var_u of each figure."""
    if not 0 < variance < np.inf:
        return 0.0
    shared = np.zeros(len(tree))  # Cov(x̂_u, sum)
    roots = tree.slice(0)
    with np.errstate(invalid="ignore"):
        shared[roots] = np.where(pull[roots] == 0, 0.0, pull[roots] * up[roots])
    for family in tree.families():
        c, p = family.children, family.parent
        v = up[c]
        missing = v == np.inf
        v_known = np.where(missing, 0.0, v)
        holes, v_sum = family.sum(missing.astype(np.float64)), family.sum(v_known)
        k = v_known / family.spread(np.where((holes == 0) & (v_sum > 0), v_sum, np.inf))
        moved = k * family.spread(shared[p]) + v_known * (pull[c] - family.spread(pull[p]))
        rest = (shared[p] - family.sum(moved)) / np.maximum(holes, 1)
        shared[c] = np.where(missing, family.spread(rest), moved)
    var, excess = (tree.to_level_order(a) for a in (measured.variance, measured.excess()))
    use = (var > 0) & (var < np.inf)
    share = (shared[use] / np.sqrt(var[use]) / np.sqrt(variance)) ** 2  # of the variance that a figure contributes
    return float(np.sum(excess[use] * share**2))


def predicted_variance(tree: Tree, measured: Measurements, prior: Prior, weights: Floats) -> float:
    """The mean squared error of Σ weights · count, in the tree's order, if the prior is as good as it states.

    Let h_v say how much the sum grows with x̂_v: its own weight, and what its children pass on of it, Σ g_u·h_u. Given
    its parent, a family then adds Σ t_u·(h_u − h̄)² to the variance, h̄ the mean weighted by t; the roots add h²·var⇑.
    """
    used, shares = with_means(tree, measured, prior), shares_of(tree, prior)
    if shares is None:
        return total(tree, used, np.zeros(len(tree)), weights).variance
    x, var = tree.to_level_order(used.noisy), tree.to_level_order(used.variance)
    up = upward(tree, x, var, *shares)
    h: Floats = tree.to_level_order(weights).copy()
    variance = np.zeros(len(tree))
    for family in tree.families(upwards=True):
        c, p = family.children, family.parent
        mean = _mean(family, h[c], up.v[c])
        variance[c] = _square(h[c] - family.spread(mean), up.v[c])
        h[p] += family.sum(up.pull[c] * h[c]) + (1 - family.sum(up.pull[c])) * mean
    roots = tree.slice(0)
    variance[roots] = _square(h[roots], up.v[roots])
    return float(variance.sum())
