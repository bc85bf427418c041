"""foreseen: the shares and the spread that a plan goes by, from an earlier period alone."""

import numpy as np
import pytest

from attributary import Tree, prior
from attributary.prior import Prior
from support.effort import first_of
from support.forests import grown


def earlier(seed: int, *, noise: float = 0.0) -> tuple[Tree, Prior]:
    """A forest of a few thousand nodes, its earlier counts, and the variance of their noise."""
    rng = np.random.default_rng(seed)
    tree = grown(4000, seed, depth=4)
    count = np.zeros(len(tree))
    count[tree.is_leaf] = rng.poisson(rng.lognormal(0, 2, int(tree.is_leaf.sum())))
    count[tree.is_leaf] += np.sqrt(noise) * rng.normal(size=int(tree.is_leaf.sum()))
    for level in reversed(range(1, tree.depth)):
        below = tree.level == level
        count += np.bincount(tree.parent[below], count[below], len(tree))
    variance = np.full(len(tree), noise) if noise else None
    new = rng.random(len(tree)) < 0.1
    return tree, Prior(count, variance, True, new)


@pytest.mark.parametrize("noise", first_of([0.0, 9.0]))
@pytest.mark.parametrize("seed", first_of(range(3)))
def test_shares_sum_to_1_and_no_spread_is_below_that_of_a_draw(seed: int, noise: float) -> None:
    tree, then = earlier(seed, noise=noise)
    found = prior.foreseen(tree, then)
    assert found.share is not None and found.spread is not None and then.new is not None
    below = tree.parent >= 0
    sums = np.bincount(tree.parent[below], found.share[below], len(tree))
    assert np.allclose(sums[~tree.is_leaf], 1)
    assert (found.spread[~below] == np.inf).all() and (found.spread[then.new] == np.inf).all()
    siblings = np.bincount(tree.parent[below], minlength=len(tree))
    told = below & ~then.new & (siblings[tree.parent] > 1)
    assert np.isfinite(found.spread[told]).mean() > 0.5
    count = np.maximum(then.mean, 0)
    if not noise:  # then counts are what is expected
        assert (found.spread[told] >= (count * (1 - found.share))[told] * (1 - 1e-6)).all()


def test_noise_makes_it_wider() -> None:
    """What looks empty need not be, if the earlier figures were noisy."""
    tree, exact = earlier(1)
    _, noisy = earlier(1, noise=30.0)
    empty = (exact.mean == 0) & tree.is_leaf
    widths = [prior.foreseen(tree, then).spread for then in (exact, noisy)]
    assert widths[0] is not None and widths[1] is not None
    both = empty & np.isfinite(widths[0]) & np.isfinite(widths[1])
    assert both.sum() > 100 and np.median(widths[1][both]) > np.median(widths[0][both])


def test_the_order_of_nodes_does_not_matter() -> None:
    tree, then = earlier(2)
    order = np.random.default_rng(0).permutation(len(tree))
    place = np.argsort(order)
    other = Tree.from_parents(np.where(tree.parent[order] >= 0, place[tree.parent[order]], -1))
    assert then.new is not None
    moved = prior.foreseen(other, Prior(then.mean[order], None, True, then.new[order]))
    found = prior.foreseen(tree, then)
    assert found.share is not None and moved.share is not None and moved.spread is not None
    assert np.isfinite(moved.spread).any()
    assert np.allclose(np.sort(found.share), np.sort(moved.share), atol=1e-6)


def test_what_cannot_be_foreseen_is_refused() -> None:
    tree, then = earlier(0)
    with pytest.raises(ValueError, match="without an earlier period"):
        prior.foreseen(tree, prior.none(tree))
    with pytest.raises(ValueError, match="tau is a positive number"):
        prior.foreseen(tree, then, tau=float("nan"))
