"""A prior that is useless, or lies, does no harm: not more than 3 % worse than without it on these awkward trees."""

from collections.abc import Callable
from functools import cache
from itertools import product
from typing import NamedTuple

import numpy as np
import pytest

from attributary import Measurements, Prior, Tree, denoise, prior, rmsre

pytestmark = pytest.mark.sweep  # many draws on many trees

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


@pytest.mark.parametrize("name", list(AWKWARD))
def test_a_useless_prior_does_no_harm(name: str) -> None:
    of = world(name)
    known = earlier(of, shuffled(of))
    assert worst(of, lambda m: prior.learn(of.tree, m, None, known, tau=TAU)) < 1.03


@pytest.mark.parametrize("name", list(AWKWARD))
def test_a_root_that_tripled_does_no_harm(name: str) -> None:
    of = world(name)
    known = earlier(of, tripled(of))
    assert worst(of, lambda m: prior.learn(of.tree, m, None, known, tau=TAU)) < 1.03


def labelled(sizes: tuple[int, ...], roots: int, seed: int, size: float, skew: float, drift: float) -> World:
    """Few roots whose families share at random; nodes of a label have nothing else in common."""
    names = [f"a{i}" for i in range(len(sizes) + 1)]
    paths = list(product(*map(range, (roots, *sizes))))
    table = {name: [f"{name}{path[i]}" for path in paths] for i, name in enumerate(names)}
    tree = Tree.from_paths(table, names, fill=True)
    rng, rate = np.random.default_rng(seed), np.zeros(len(tree))
    rate[tree.parent < 0] = rng.lognormal(size, skew, roots)
    for depth, many in enumerate(sizes, 1):
        here = np.flatnonzero(tree.level == depth)
        for parent in np.unique(tree.parent[here]):
            rate[here[tree.parent[here] == parent]] = rate[parent] * rng.dirichlet(np.full(many, 0.3))
    leaf = np.where(tree.is_leaf, rate, 0.0)
    then, now = rng.poisson(leaf), rng.poisson(leaf * rng.lognormal(0, drift, len(tree)))
    return World(tree, _summed(tree, now), _summed(tree, then))


def flat(of: World) -> np.ndarray:
    """All leaves had the same."""
    return _summed(of.tree, np.where(of.tree.is_leaf, max(1.0, of.now[of.tree.is_leaf].mean()), 0.0))


EARLIER: dict[str, Callable[[World], np.ndarray | None]] = {
    "none": lambda of: None,
    "flat": flat,
    "honest": lambda of: of.then,
    "shuffled": shuffled,
}


def cost(of: World, mean: np.ndarray | None, epsilon: float, tau: float, draws: int) -> tuple[float, np.ndarray]:
    """The error with what is learned over that without, of the tree and of each level; ε is split equally."""
    tree, depth = of.tree, int(of.tree.level.max()) + 1
    variance = 2 * (depth / epsilon) ** 2
    found = []
    for seed in range(draws):
        noise = np.random.default_rng((seed, 7)).laplace(0, np.sqrt(variance / 2), len(tree))
        given = Measurements(of.now + noise, np.full(len(tree), variance))
        known = prior.learn(tree, given, None, None if mean is None else earlier(of, mean), tau=tau)
        both = (denoise(tree, given, prior=said, nonnegative=True).count for said in (known, None))
        found.append([rmsre.levels(tree, of.now, np.square(count - of.now), tau) ** 2 for count in both])
    with_, without = np.mean(found, axis=0)
    return float(np.sqrt(with_.sum() / without.sum())), np.sqrt(with_ / without)


@pytest.mark.parametrize(
    ("sizes", "roots", "seed", "size", "skew", "drift", "kind", "epsilon", "draws"),
    [  # found by trying hundreds of trees: two of them cost 5 and 6 %, a level 9 %, when only linear errors were judged
        ((3, 30), 12, 141, 3.0, 0.5, 0.1, "shuffled", 0.5, 24),
        ((8,), 3, 969, 5.0, 1.0, 1.0, "honest", 1.0, 24),
        ((4, 4, 6), 3, 661, 3.0, 1.0, 0.5, "honest", 0.5, 90),
    ],
)
def test_few_roots_are_not_worse_off(
    sizes: tuple[int, ...],
    roots: int,
    seed: int,
    size: float,
    skew: float,
    drift: float,
    kind: str,
    epsilon: float,
    draws: int,
) -> None:
    of = labelled(sizes, roots, seed, size, skew, drift)
    tree, levels = cost(of, EARLIER[kind](of), epsilon, TAU, draws)
    assert tree < 1.03 and (levels < 1.05).all(), (tree, levels)


@pytest.mark.parametrize("kind", list(EARLIER))
@pytest.mark.parametrize("roots", [1, 2, 3, 5, 12])
def test_a_prior_costs_little_with_few_roots(roots: int, kind: str) -> None:
    """Over trees of different fan-out, ε and τ together, since one draw of one small tree says little."""
    cases = list(
        zip([(8,), (40,), (3, 4), (5, 6), (2, 3, 4)], [0.5, 4.0, 1.0, 16.0, 2.0], [5, 10, 10, 5, 5], strict=True)
    )
    found = []
    for i, (sizes, epsilon, tau) in enumerate(cases):
        of = labelled(sizes, roots, 10 * roots + i, 4.0, 1.0, 0.3)
        found.append(cost(of, EARLIER[kind](of), epsilon, float(tau), 5)[0])
    assert np.mean(found) < 1.02 and max(found) < 1.1, found
