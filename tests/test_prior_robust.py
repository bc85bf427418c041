"""A prior that is useless, or lies, does no harm: never more than 3 % worse than without it, on awkward trees too."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import NamedTuple

import numpy as np
import pytest

from attributary import Measurements, Prior, Tree, denoise, prior, rmsre

TAU, DRAWS = 5.0, 6
NOISE = (2.0, 50.0, 400.0)


class World(NamedTuple):
    tree: Tree
    now: np.ndarray
    then: np.ndarray


def grown(parent: list[int], seed: int, drift: float = 0.3, sparse: float = 1.0, skew: float = 1.5) -> World:
    """Counts of two periods on any forest: each family shares at random, and leaves drift."""
    tree = Tree.from_parents(parent)
    rng = np.random.default_rng(seed)
    rate = np.zeros(len(tree))
    for v in np.argsort(tree.level, kind="stable"):
        p = tree.parent[v]
        rate[v] = rng.lognormal(5, skew) if p < 0 else rate[p] * rng.beta(sparse, 4)
    leaf = np.where(tree.is_leaf, rate, 0.0)
    then, now = rng.poisson(leaf), rng.poisson(leaf * rng.lognormal(0, drift, len(tree)))
    return World(tree, _summed(tree, now), _summed(tree, then))


def _summed(tree: Tree, leaf: np.ndarray) -> np.ndarray:
    total = leaf.astype(float)
    for v in np.argsort(-tree.level, kind="stable"):
        if tree.parent[v] >= 0:
            total[tree.parent[v]] += total[v]
    return total


def families(*sizes: int, roots: int = 1) -> list[int]:
    """The parents of a forest all of whose nodes of a level have as many children."""
    parent, level = [-1] * roots, list(range(roots))
    for size in sizes:
        start = len(parent)
        parent += [p for p in level for _ in range(size)]
        level = list(range(start, len(parent)))
    return parent


def ragged(seed: int, n: int = 900) -> list[int]:
    """Leaves at every depth, families of all sizes, and nodes in any order."""
    rng = np.random.default_rng(seed)
    return [-1 if i < 12 else int(rng.integers(0, i) ** 2 // i) for i in range(n)]


AWKWARD: dict[str, Callable[[], World]] = {
    "one root": lambda: grown(families(6, 6, 8), 1),
    "star": lambda: grown(families(400), 2, sparse=0.3),
    "many small roots": lambda: grown(families(3, roots=150), 3, skew=0.5),
    "one root outweighs all": lambda: grown(families(5, 8, roots=25), 4, skew=3.0),
    "nearly empty": lambda: grown(families(6, 12, roots=15), 5, sparse=0.15),
    "ragged": lambda: grown(ragged(6), 6),
    "all has moved": lambda: grown(families(6, 8, roots=20), 7, drift=1.5),
    "few": lambda: grown(families(3, 3, roots=2), 8),
}


@cache
def world(name: str) -> World:
    return AWKWARD[name]()


def worst(of: World, known: Callable[[Measurements], Prior]) -> float:
    """The tree error with a prior over that without it, by draws of each noise: the largest."""
    found = []
    for variance in NOISE:
        pairs = []
        for seed in range(DRAWS):
            noise = np.random.default_rng((seed, 5)).laplace(0, np.sqrt(variance / 2), len(of.tree))
            given = Measurements(of.now + noise, np.full(len(of.tree), variance))
            made = denoise(of.tree, given, prior=known(given), nonnegative=True)
            plain = denoise(of.tree, given, nonnegative=True)
            pairs.append([rmsre.tree(of.tree, of.now, np.square(e.count - of.now), TAU) ** 2 for e in (made, plain)])
        with_, without = np.mean(pairs, axis=0)
        found.append(float(np.sqrt(with_ / without)))
    return max(found)


def earlier(of: World, mean: np.ndarray) -> Prior:
    return Prior(mean, protected=True, new=np.zeros(len(of.tree), bool))


def shuffled(of: World) -> np.ndarray:
    """The counts of before, given to other nodes of their level."""
    rng, mean = np.random.default_rng(0), of.then.copy()
    for i in range(int(of.tree.level.max()) + 1):
        here = np.flatnonzero(of.tree.level == i)
        mean[here] = rng.permutation(mean[here])
    return mean


def tripled(of: World) -> np.ndarray:
    """The largest root has three times what it had; all others have what they had."""
    largest = int(np.argmax(np.where(of.tree.parent < 0, of.now, -1)))
    return np.where(of.tree.root == of.tree.root[largest], of.now / 3, of.now)


@pytest.mark.parametrize("make", [prior.learn, prior.drifted])
@pytest.mark.parametrize("name", list(AWKWARD))
def test_a_useless_prior_does_no_harm(name: str, make: Callable[..., Prior]) -> None:
    of = world(name)
    known = earlier(of, shuffled(of))
    assert worst(of, lambda m: make(of.tree, m, None, known)) < 1.03


@pytest.mark.parametrize("make", [prior.learn, prior.drifted])
@pytest.mark.parametrize("name", list(AWKWARD))
def test_a_root_that_tripled_does_no_harm(name: str, make: Callable[..., Prior]) -> None:
    of = world(name)
    known = earlier(of, tripled(of))
    assert worst(of, lambda m: make(of.tree, m, None, known)) < 1.03


@pytest.mark.parametrize("make", [prior.learn, prior.drifted])
@pytest.mark.parametrize("name", list(AWKWARD))
def test_a_prior_that_is_tenfold_too_sure_does_no_harm(name: str, make: Callable[..., Prior]) -> None:
    of = world(name)
    known = earlier(of, of.then)

    def lying(m: Measurements) -> Prior:
        said = make(of.tree, m, None, known)
        wide = {part: getattr(said, part) for part in ("variance", "spread") if getattr(said, part) is not None}
        return prior.doubted(of.tree, m, None, replace(said, **{part: wide[part] / 10 for part in wide}))

    assert worst(of, lying) < 1.03
