"""Learned shares and their spread: they help where there is something to learn, and do no harm where there is not."""

from dataclasses import replace
from functools import cache
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import isotonic_regression

from attributary import Measurements, Prior, Tree, denoise, prior, rmsre
from attributary.prior.doubt import doubt
from attributary.prior.kin import kin, label_codes
from attributary.prior.pooled import Level, pooled
from attributary.prior.spread import FEWEST, forgiving, rising, spread
from attributary.prior.together import together

TAU = 5.0
DAYS, CAMPAIGNS = 8, 6


class World(NamedTuple):
    tree: Tree
    now: np.ndarray
    earlier: Prior


@cache
def world(seed: int, roots: int = 40, drift: float = 0.3) -> World:
    """Partners whose campaigns and delays share conversions alike, in two periods; the second is what is measured."""
    rng = np.random.default_rng(seed)
    paths = [(f"p{r}", f"c{c}", f"d{d}") for r in range(roots) for c in range(CAMPAIGNS) for d in range(DAYS)]
    table = {name: [path[i] for path in paths] for i, name in enumerate(("partner", "campaign", "day"))}
    tree = Tree.from_paths(table, list(table), fill=True)
    size = rng.lognormal(5, 1.2, roots)
    campaigns = rng.dirichlet(np.full(CAMPAIGNS, 2.0), roots)
    days = np.stack([rng.dirichlet(40 * 0.6 ** np.arange(DAYS)) for _ in range(roots)])
    rate = size[:, None, None] * campaigns[:, :, None] * days[:, None, :]
    later = rate * rng.lognormal(0, 2 * drift, (roots, 1, 1)) * rng.lognormal(0, drift, (roots, CAMPAIGNS, 1))
    then, now = rng.poisson(rate).ravel(), rng.poisson(later).ravel()
    earlier = prior.from_counts(tree, {**table, "conversions": then}, protected=True)
    return World(tree, prior.from_counts(tree, {**table, "conversions": now}).mean, earlier)


def measured(of: World, variance: float, seed: int) -> Measurements:
    noise = np.random.default_rng((seed, 9)).laplace(0, np.sqrt(variance / 2), len(of.tree))
    return Measurements(of.now + noise, np.full(len(of.tree), variance))


def error(of: World, count: np.ndarray) -> float:
    return rmsre.tree(of.tree, of.now, np.square(count - of.now), TAU)


def ratio(of: World, variance: float, known: object) -> float:
    """The tree error with a prior, over that without, over a few draws; `known` makes the prior from figures."""
    found = []
    for seed in range(4):
        given_ = measured(of, variance, seed)
        made = denoise(of.tree, given_, prior=known(given_), nonnegative=True)  # type: ignore[operator]
        found.append((error(of, made.count) ** 2, error(of, denoise(of.tree, given_, nonnegative=True).count) ** 2))
    with_, without = np.mean(found, axis=0)
    return float(np.sqrt(with_ / without))


NOISE = (2.0, 50.0, 200.0)  # from figures that hardly need it to figures worth little


@pytest.mark.parametrize(("variance", "most"), [(2.0, 0.95), (50.0, 0.8), (200.0, 0.75)])
def test_it_lowers_the_error_the_more_the_noise(variance: float, most: float) -> None:
    of = world(1)
    assert ratio(of, variance, lambda m: prior.learn(of.tree, m, None, of.earlier)) < most
    assert ratio(of, variance, lambda m: prior.learn(of.tree, m)) < most  # today's figures alone


@pytest.mark.parametrize("variance", NOISE)
def test_a_useless_prior_does_no_harm(variance: float) -> None:
    of = world(2)
    shuffled = replace(of.earlier, mean=np.random.default_rng(0).permutation(of.earlier.mean))
    for make in (prior.learn, prior.drifted):
        assert ratio(of, variance, lambda m, make=make: make(of.tree, m, None, shuffled)) < 1.03


@pytest.mark.parametrize("variance", NOISE)
def test_a_root_that_tripled_does_no_harm(variance: float) -> None:
    of = world(3)
    largest = int(np.argmax(np.where(of.tree.parent < 0, of.now, -1)))
    below = of.tree.root == of.tree.root[largest]
    tripled = replace(of.earlier, mean=np.where(below, of.now / 3, of.now))
    for make in (prior.learn, prior.drifted):
        assert ratio(of, variance, lambda m, make=make: make(of.tree, m, None, tripled)) < 1.03


@pytest.mark.parametrize("variance", NOISE)
def test_a_prior_that_is_tenfold_too_sure_is_doubted(variance: float) -> None:
    of = world(4)

    def shares(m: Measurements) -> Prior:
        known = prior.learn(of.tree, m, None, of.earlier)
        return prior.doubted(of.tree, m, None, replace(known, spread=known.spread / 10))

    def means(m: Measurements) -> Prior:
        known = prior.drifted(of.tree, m, None, of.earlier)
        return prior.doubted(of.tree, m, None, replace(known, variance=known.variance / 10))

    assert ratio(of, variance, shares) < 1.03
    assert ratio(of, variance, means) < 1.03


@pytest.mark.parametrize("drift", [0.1, 0.6])
@pytest.mark.parametrize("variance", NOISE)
def test_intervals_cover_at_their_rate(variance: float, drift: float) -> None:
    covered = []
    for seed in range(6):
        of = world(10 + seed, drift=drift)
        given_ = measured(of, variance, seed)
        known = prior.learn(of.tree, given_, None, of.earlier)
        low, high = denoise(of.tree, given_, prior=known, nonnegative=True).interval(0.95)
        inside = (low - 1e-9 <= of.now) & (of.now <= high + 1e-9)
        covered.append([inside[of.tree.level == i].mean() for i in range(3)])
    rate = np.mean(covered, axis=0)
    assert (rate > 0.93 - 2 * np.sqrt(0.05 / 240)).all() and (rate < 0.985).all(), rate


def test_what_came_from_the_prior_falls_as_figures_get_better() -> None:
    of = world(5)
    shares = []
    for variance in NOISE:
        given_ = measured(of, variance, 0)
        est = denoise(of.tree, given_, prior=prior.learn(of.tree, given_, None, of.earlier))
        shares.append(est.from_prior.mean())
        assert ((est.from_prior >= 0) & (est.from_prior <= 1)).all()
    assert shares == sorted(shares)


def test_levels_that_were_not_measured_take_shares_from_the_past() -> None:
    of = world(6)
    given_ = measured(of, 1.0, 0)
    given_ = Measurements(given_.noisy, np.where(of.tree.level == 2, np.inf, given_.variance))
    known = prior.learn(of.tree, given_, None, of.earlier)
    est, plain = denoise(of.tree, given_, prior=known), denoise(of.tree, given_)
    assert np.isinf(plain.variance).any() and np.isfinite(est.variance).all()
    assert error(of, est.count) < 0.7 * error(of, plain.count)


def test_too_few_figures_teach_nothing() -> None:
    tree = Tree.from_parents([-1, 0, 0, 0])
    known = prior.learn(tree, [30, 9, 11, 10], 4.0)
    assert np.isinf(known.spread).all()
    assert (denoise(tree, [30, 9, 11, 10], 4.0, prior=known).count == denoise(tree, [30, 9, 11, 10], 4.0).count).all()


def test_nodes_in_any_order_learn_the_same() -> None:
    of, rng = world(7), np.random.default_rng(0)
    given_ = measured(of, 50.0, 0)
    rows = of.tree.table()
    place = rng.permutation(len(of.tree))
    moved = Tree.from_paths(rows.take(place).select(list(of.tree.attributes)), list(of.tree.attributes))
    ours, theirs = prior.learn(of.tree, given_), prior.learn(moved, given_.noisy[place], given_.variance[place])
    assert np.allclose(ours.share[place], theirs.share) and np.allclose(ours.spread[place], theirs.spread)


# The parts


def test_a_nodes_own_figures_are_not_in_the_pool_that_predicts_it() -> None:
    of = world(8)
    tree = Tree(of.tree.parent, of.tree.first, of.tree.offsets, of.tree.order)
    label = np.arange(len(tree), dtype=np.int32)  # no two alike
    order = tree.to_level_order
    now = order(of.now)
    for i, near in enumerate(kin(tree, label), 1):
        nodes = tree.slice(i)
        parent = now[tree.family[nodes]]
        share = pooled(Level(near, now[nodes], np.ones(len(parent)), parent, now[nodes], None, np.ones(len(parent))))
        assert np.allclose(share, 1 / near.family.spread(near.family.count.astype(float)))


def test_labels_are_alike_whatever_their_root() -> None:
    of = world(9)
    codes = of.tree.from_level_order(label_codes(of.tree))
    days = of.tree.table().column("day").to_pylist()
    assert {(d, c) for d, c, level in zip(days, codes, of.tree.level, strict=True) if level == 2} == {
        (f"d{d}", next(c for e, c in zip(days, codes, strict=True) if e == f"d{d}")) for d in range(DAYS)
    }


@given(st.lists(st.tuples(st.floats(-9, 9), st.floats(0.1, 9)), min_size=1, max_size=20))
def test_rising_is_isotonic_regression(pairs: list[tuple[float, float]]) -> None:
    values, weight = np.array(pairs).T
    assert np.allclose(rising(values, weight), isotonic_regression(values, weights=weight).x)


def test_spread_is_found_again() -> None:
    rng = np.random.default_rng(0)
    n, v = 60_000, 3.0
    expected = 10 ** rng.uniform(-1, 3, n)
    truth = expected + 0.5 * expected  # beyond a draw: q = m + m/2 · …
    z = expected + rng.normal(0, np.sqrt(truth + v))
    found = spread(expected, np.zeros(n), z, np.full(n, v), np.ones(n))
    assert np.median(np.abs(np.log(found / truth))[expected > 1]) < 0.25
    order = np.argsort(expected)
    assert (np.diff(found[order]) >= -1e-9).all()
    assert (found >= expected).all()  # never below that of a draw


def test_spread_where_figures_cannot_tell() -> None:
    m = np.full(FEWEST, 4.0)
    assert (spread(m, m / 8, m, np.full(FEWEST, np.inf), np.zeros(FEWEST)) == 4 * 0.5 + 16).all()
    assert np.isinf(spread(m[1:], m[1:] / 8, m[1:], m[1:], np.ones(FEWEST - 1))).all()


def test_a_node_that_jumps_keeps_its_figures() -> None:
    q, m, v = np.ones(3), np.full(3, 10.0), np.array([1.0, 1.0, np.inf])
    grown = forgiving(q, m, np.array([10.0, 100.0, 0.0]), v)
    assert grown[0] == 1 and grown[1] > 1e5 and grown[2] == 1


@pytest.mark.parametrize("factor", [1.0, 10.0])
def test_doubt_is_the_factor_that_is_lacking(factor: float) -> None:
    rng = np.random.default_rng(1)
    n = 50_000
    q, v, m = rng.uniform(1, 5, n), rng.uniform(0, 3, n), rng.uniform(0, 9, n)
    z = m + rng.normal(0, np.sqrt(factor * q + v))
    group = np.arange(n) % 2
    assert doubt(group, m, q, z, v, 2) == pytest.approx([factor] * 2, rel=0.15)
    one = np.where(np.arange(n) == 0, m + 1e4, m)  # one node that jumped
    assert doubt(group, m, q, one, v, 2) == pytest.approx([1, 1])
    assert doubt(group, m, np.full(n, np.inf), z, v, 2).tolist() == [1, 1]


def test_nodes_that_moved_together_are_told_by_their_sum() -> None:
    tree = Tree.from_parents([-1, -1, *[0] * 50, *[1] * 50])
    mean, claimed = np.array([0, 0, *[10.0] * 100]), np.array([np.inf, np.inf, *[4.0] * 100])
    z = np.array([500.0, 1000.0, *[10.0] * 50, *[20.0] * 50])
    grown = together(tree, mean, claimed, z, np.ones(102))
    assert (grown[52:] > 100).all() and np.isinf(grown[:2]).all()
    assert (together(tree, mean, claimed, np.array([500, 500, *[10.0] * 100]), np.ones(102)) == claimed).all()


# Refused


def test_what_makes_no_sense_is_refused() -> None:
    of = world(9)
    given_ = measured(of, 1.0, 0)
    for make in (prior.learn, prior.drifted):
        with pytest.raises(ValueError, match="tau is a positive number; got nan"):
            make(of.tree, given_, None, of.earlier, tau=float("nan"))
    for nothing in (None, prior.none(of.tree)):
        with pytest.raises(ValueError, match="no drift without an earlier period"):
            prior.drifted(of.tree, given_, None, nothing)
