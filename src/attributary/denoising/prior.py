"""Prior: what is known of the counts before they are measured."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from attributary.denoising import linear
from attributary.denoising.passes import engine
from attributary.measurements import Measurements
from attributary.tree import Family, Tree
from attributary.types import Bools, Floats

ROUNDING = 1e-6  # how far the shares of a family may be from 1 together


@dataclass(frozen=True, eq=False)
class Prior:
    """A count for each node of a tree, in the tree's order, and where it comes from.

    It can be used in an estimate in two ways, or both. With `variance`, the mean of each node is one more measurement,
    independent of all others. With `share` and `spread`, a node is expected to have that share of its parent's count,
    with that variance; the shares of a family sum to 1, and those of roots are ignored.
    """

    mean: Floats
    variance: Floats | None = None  # of the mean; inf where nothing is known. None: not known at all
    protected: bool = False  # made of figures that were protected themselves
    new: Bools | None = None  # nodes that the earlier period did not have; None: there was no earlier period
    gone: int = 0  # leaves of the earlier period that are not in the tree
    lost: float = 0.0  # and their counts together
    example: str = ""  # the first of them
    share: Floats | None = None  # of the parent's count
    spread: Floats | None = None  # variance of the count around share · parent's; inf where nothing is known
    not_private: str = ""  # why estimates that use it are not private, if they are not
    periods: Floats | None = None  # of each node: how many periods' worth of conversions the mean is an average of
    source: str = ""  # which periods these are, in words
    label: NDArray[np.int32] | None = None  # equal for equal labels of a level, where the tree does not hold them
    noisy: Floats | None = None  # the figures that the mean was made of, where a report has them; nan where it has none

    @property
    def history(self) -> bool:
        """Whether there was an earlier period; without one, a plan depends on the tree's structure alone."""
        return self.new is not None or bool(np.any(self.mean))

    def misfit(self, tree: Tree) -> str:
        """What to say first where less than half of the earlier conversions are in the tree; else nothing."""
        kept = max(float(np.asarray(self.mean)[tree.parent < 0].sum()), 0.0)
        if not self.lost > kept:
            return ""
        part = f"{self.lost / (kept + self.lost):.0%} of the prior's conversions are not in this tree"
        return f"the prior hardly fits: {part}{self.example and f', such as those of {self.example}'}"

    def times(self, factor: float) -> "Prior":
        """The same in another unit."""
        variance, spread = (None if v is None else v * factor**2 for v in (self.variance, self.spread))
        return replace(self, mean=self.mean * factor, variance=variance, spread=spread) if factor != 1.0 else self

    def new_roots(self, tree: Tree) -> Bools:
        """Which values of the first attribute are new, in level order; none where there is no history."""
        heads = tree.slice(int(tree.total))
        if self.new is None:
            return np.zeros(heads.stop - heads.start, bool)
        new: Bools = tree.to_level_order(self.new)[heads]
        return new


def shares_of(tree: Tree, prior: Prior) -> tuple[Floats, Floats] | None:
    """Share and spread in level order; None where no spread is finite. The bottom-up pass checks the rest."""
    if prior.share is None and prior.spread is None:
        return None
    if prior.share is None or prior.spread is None:
        raise ValueError("shares and their spread go together; give both, with a spread of inf where nothing is known")
    share, spread = _of_nodes(tree, prior.share, "share"), _of_nodes(tree, prior.spread, "spread")
    below = spread[tree.slice(0).stop :]
    return None if not below.size or below.min() == np.inf else (share, spread)


def refuse_shares(tree: Tree, share: Floats, spread: Floats) -> None:
    """Raises ValueError for invalid shares and spreads, in level order."""
    if not (spread[tree.slice(0).stop :] >= 0).all():
        raise ValueError("a spread is 0 or more, or inf where nothing is known; got one that is negative or nan")
    for level in range(tree.depth - 1):
        family = Family(tree, level)
        if family.size:
            c = family.children
            expected = family.sum((spread[c] < np.inf).astype(np.float64)) > 0
            sums = family.sum(share[c])
            bad = expected & ~(np.abs(sums - 1) <= ROUNDING)
            if bad.any() or (share[c][spread[c] < np.inf] < 0).any():
                wrong = sums[np.argmax(bad)]
                raise ValueError(f"shares are 0 or more and sum to 1 in each family; one sums to {wrong}")


def with_means(tree: Tree, given: Measurements, prior: Prior) -> Measurements:
    """What was measured, with the prior's means as one more measurement; the same where none has a finite variance."""
    if prior.variance is None or np.min(prior.variance, initial=np.inf) == np.inf:
        return given
    if (passes := engine(tree)) is not linear and np.shape(prior.mean) == np.shape(prior.variance) == (len(tree),):
        both = passes.combined(
            given.noisy, given.variance, *(np.asarray(a, np.float64) for a in (prior.mean, prior.variance))
        )
        if both is not None:
            return given.with_noise(*both)
    expected = measured(tree, prior)
    return given if expected is None else given.again(Measurements(*expected))


def measured(tree: Tree, prior: Prior) -> tuple[Floats, Floats] | None:
    """Mean and variance, in the tree's order, as one more measurement; None where no variance is finite."""
    if prior.variance is None:
        return None
    mean, variance = (np.asarray(values, np.float64) for values in (prior.mean, prior.variance))
    if mean.shape != (len(tree),) or variance.shape != (len(tree),):
        raise ValueError(f"a prior has a mean and a variance for each of the {len(tree)} nodes; got {mean.size}")
    if not (variance >= 0).all():
        raise ValueError("a prior's variance is 0 or more, or inf where nothing is known; got one negative or nan")
    known = variance < np.inf
    if not np.isfinite(mean[known]).all():
        raise ValueError("a prior's mean is a finite number where its variance is; got nan or inf")
    return (np.where(known, mean, 0.0), variance) if known.any() else None


def _of_nodes(tree: Tree, values: Floats, name: str) -> Floats:
    given = np.asarray(values, np.float64)
    if given.shape != (len(tree),):
        raise ValueError(f"one {name} for each of the {len(tree)} nodes is needed; got shape {given.shape}")
    return np.ascontiguousarray(tree.to_level_order(given))
