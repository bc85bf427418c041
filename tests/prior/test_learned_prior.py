"""Learned shares and their spread: they help where there is something to learn, and do no harm where there is not."""

import sys
from dataclasses import replace
from functools import cache
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import isotonic_regression

from attributary import Measurements, Prior, Tree, denoise, prior, rmsre
from attributary.prior.learn import (
    FEWEST,
    JUMP,
    PooledLevel,
    doubt,
    forgiving,
    kin,
    label_codes,
    pooled,
    rising,
    spread,
)
from support.effort import first_of

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


@pytest.mark.parametrize(("variance", "most"), first_of([(2.0, 0.95), (50.0, 0.8), (200.0, 0.75)]))
def test_it_lowers_the_error_the_more_the_noise(variance: float, most: float) -> None:
    of = world(1)
    assert ratio(of, variance, lambda m: prior.learn(of.tree, m, None, of.earlier, tau=TAU)) < most
    assert ratio(of, variance, lambda m: prior.learn(of.tree, m, tau=TAU)) < most  # today's figures alone


@pytest.mark.parametrize("variance", first_of(NOISE))
def test_a_useless_prior_does_no_harm(variance: float) -> None:
    of = world(2)
    shuffled = replace(of.earlier, mean=np.random.default_rng(0).permutation(of.earlier.mean))
    assert ratio(of, variance, lambda m: prior.learn(of.tree, m, None, shuffled, tau=TAU)) < 1.03


@pytest.mark.parametrize("variance", first_of(NOISE))
def test_a_root_that_tripled_does_no_harm(variance: float) -> None:
    of = world(3)
    largest = int(np.argmax(np.where(of.tree.parent < 0, of.now, -1)))
    below = of.tree.root == of.tree.root[largest]
    tripled = replace(of.earlier, mean=np.where(below, of.now / 3, of.now))
    assert ratio(of, variance, lambda m: prior.learn(of.tree, m, None, tripled, tau=TAU)) < 1.03


@pytest.mark.parametrize("drift", first_of([0.1, 0.6]))
@pytest.mark.parametrize("variance", first_of(NOISE))
def test_intervals_cover_at_their_rate(variance: float, drift: float) -> None:
    covered = []
    for seed in range(6):
        of = world(10 + seed, drift=drift)
        given_ = measured(of, variance, seed)
        known = prior.learn(of.tree, given_, None, of.earlier, tau=TAU)
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
        est = denoise(of.tree, given_, prior=prior.learn(of.tree, given_, None, of.earlier, tau=TAU))
        shares.append(est.from_prior.mean())
        assert ((est.from_prior >= 0) & (est.from_prior <= 1)).all()
    assert shares == sorted(shares)


def test_levels_that_were_not_measured_take_shares_from_the_past() -> None:
    of = world(6)
    given_ = measured(of, 1.0, 0)
    given_ = Measurements(given_.noisy, np.where(of.tree.level == 2, np.inf, given_.variance))
    known = prior.learn(of.tree, given_, None, of.earlier, tau=TAU)
    est, plain = denoise(of.tree, given_, prior=known), denoise(of.tree, given_)
    assert np.isinf(plain.variance).any() and np.isfinite(est.variance).all()
    assert error(of, est.count) < 0.7 * error(of, plain.count)


def test_too_few_figures_teach_nothing() -> None:
    tree = Tree.from_parents([-1, 0, 0, 0])
    known = prior.learn(tree, [30, 9, 11, 10], 4.0, tau=TAU)
    assert np.isinf(known.spread).all()
    assert (denoise(tree, [30, 9, 11, 10], 4.0, prior=known).count == denoise(tree, [30, 9, 11, 10], 4.0).count).all()


def test_nodes_in_any_order_learn_the_same() -> None:
    of, rng = world(7), np.random.default_rng(0)
    given_ = measured(of, 50.0, 0)
    rows = of.tree.table()
    place = rng.permutation(len(of.tree))
    moved = Tree.from_paths(rows.take(place).select(list(of.tree.attributes)), list(of.tree.attributes))
    ours, theirs = (
        prior.learn(of.tree, given_, tau=TAU),
        prior.learn(moved, given_.noisy[place], given_.variance[place], tau=TAU),
    )
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
        ones = np.ones(len(parent))
        share = pooled(PooledLevel(near, now[nodes], parent, [now[nodes]], ones, None, ones))
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
    q, m, v = np.ones(4), np.full(4, 10.0), np.array([1.0, 1.0, np.inf, 0.0])
    grown = forgiving(q, m, np.array([10.0, 100.0, 0.0, 60.0]), v)
    assert grown[0] == 1 and grown[1] > 1e3 and grown[2] == 1
    assert grown[3] == pytest.approx((JUMP + 50**2) / (JUMP + 1))  # without noise, at once
    noisy, wide = np.array([100.0, 100.0]), np.array([100.0**2, 1.0])
    assert forgiving(q[:2], m[:2], noisy, wide)[0] < 1.01  # noise may have done it


@pytest.mark.parametrize("history", [True, False])
def test_levels_compiled_are_pooled_as_in_numpy(history: bool) -> None:
    of = world(8)
    order = of.tree.to_level_order
    figures = order(measured(of, 20.0, 0).noisy)
    then = order(of.earlier.mean)
    for i, near in enumerate(kin(of.tree, label_codes(of.tree)), 1):
        nodes = of.tree.slice(i)
        z, past = figures[nodes], then[nodes] * (np.arange(nodes.stop - nodes.start) // DAYS % 3 > 0)  # some are empty
        pools = [z, z + past] if history else [z]
        counted = np.random.default_rng(0).uniform(0.1, 1, len(z))
        parent, weight = np.maximum(figures[of.tree.family[nodes]], 0), 1 / (9 + np.maximum(z, 5) ** 2)
        level = PooledLevel(near, z, parent, pools, counted, past if history else None, weight)
        assert np.allclose(pooled(level), pooled(level._replace(many=True)), rtol=1e-9)


def test_cousins_are_the_same_numbered_densely_or_not(monkeypatch: pytest.MonkeyPatch) -> None:
    of = world(8)
    dense = [near.cousins for near in kin(of.tree, label_codes(of.tree))]
    monkeypatch.setattr(sys.modules[kin.__module__], "DENSE", 0)
    for few, sorted_ in zip(dense, (near.cousins for near in kin(of.tree, label_codes(of.tree))), strict=True):
        pairs = set(zip(few.tolist(), sorted_.tolist(), strict=True))
        assert len(pairs) == len(set(few.tolist())) == len(set(sorted_.tolist()))


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


def test_one_root_does_not_outweigh_all_others() -> None:
    """One root has most of the conversions and days of its own; the others, too noisy to tell, are alike."""
    rng = np.random.default_rng(5)
    paths = [(f"p{r:02}", f"c{c}", f"d{d}") for r in range(60) for c in range(3) for d in range(4)]
    table = {name: [path[i] for path in paths] for i, name in enumerate(("partner", "campaign", "day"))}
    tree = Tree.from_paths(table, list(table), fill=True)
    days = np.where(np.arange(60)[:, None] == 0, [[0.1, 0.2, 0.3, 0.4]], [[0.7, 0.2, 0.1, 0.0]])
    rate = np.where(np.arange(60) == 0, 30_000, 60)[:, None, None] / 3 * days[:, None, :] * np.ones((1, 3, 1))
    now = prior.from_counts(tree, {**table, "conversions": rng.poisson(rate).ravel()}).mean
    off = []
    for seed in range(5):
        noisy = now + np.random.default_rng(seed).laplace(0, 8, len(tree))
        share = prior.learn(tree, noisy, 128.0, tau=TAU).share
        leaf = tree.is_leaf & (tree.root > 0)
        off.append(np.abs(share[leaf].reshape(-1, 4).mean(axis=0) - days[1]).max())
    assert np.mean(off) < 0.15  # 0.27 where all conversions count alike


def test_empty_nodes_do_not_make_shares_too_equal() -> None:
    """Half of the days are always empty: estimates that are never negative would see conversions there."""
    rng = np.random.default_rng(6)
    paths = [(f"p{r:02}", f"c{c}", f"d{d}") for r in range(80) for c in range(6) for d in range(8)]
    table = {name: [path[i] for path in paths] for i, name in enumerate(("partner", "campaign", "day"))}
    tree = Tree.from_paths(table, list(table), fill=True)
    rate = rng.gamma(0.5, 20, (80, 6, 1)) * np.array([0.5, 0.3, 0.15, 0.05, 0, 0, 0, 0])
    now = prior.from_counts(tree, {**table, "conversions": rng.poisson(rate).ravel()}).mean
    empty = []
    for seed in range(6):
        noisy = now + np.random.default_rng(seed).laplace(0, np.sqrt(20), len(tree))
        share = prior.learn(tree, noisy, 40.0, tau=TAU).share
        empty.append(share[tree.is_leaf].reshape(-1, 8)[:, 4:].sum(axis=1).mean())
    assert np.mean(empty) < 0.1  # 0.22 by estimates that are never negative


# Refused


def test_what_makes_no_sense_is_refused() -> None:
    of = world(9)
    given_ = measured(of, 1.0, 0)
    with pytest.raises(ValueError, match="tau is a positive number; got nan"):
        prior.learn(of.tree, given_, None, of.earlier, tau=float("nan"))


@pytest.mark.parametrize(("draws", "least"), [(30, 0.83), pytest.param(100, 0.9, marks=pytest.mark.sweep)])
@pytest.mark.parametrize("kind", first_of(["right", "flat", "lying"]))
def test_intervals_of_totals_cover_whatever_the_prior_says(kind: str, draws: int, least: float) -> None:
    of, variance = world(3, 8), 50.0
    leaves = np.flatnonzero(of.tree.is_leaf)
    mean = {"right": of.now, "flat": np.ones(len(of.tree)), "lying": of.now.max() - of.now}[kind]
    rng = np.random.default_rng(1)
    small = leaves[np.argsort(of.now[leaves], kind="stable")]
    sums = [rng.choice(small[:250], size, replace=False) for size in (1, 50, 200)]
    sums += [rng.choice(small[-220:], size, replace=False) for size in (1, 50, 200)]
    held = np.zeros(len(sums))
    for seed in range(draws):
        given_ = measured(of, variance, seed)
        if kind == "lying" and seed % 2:  # a prior that claims far more than it knows, and is not doubted
            known = Prior(mean, variance=np.where(of.tree.is_leaf, 4.0, np.inf))
        else:
            known = prior.learn(of.tree, given_, None, replace(of.earlier, mean=mean), tau=TAU)
        est = denoise(of.tree, given_, prior=known, nonnegative=True)
        for i, nodes in enumerate(sums):
            total = est.total(nodes)
            low, high = total.interval()
            assert low <= total.count <= high
            held[i] += low <= of.now[nodes].sum() <= high
    assert held.min() / draws >= least  # 2 to 3 standard errors below 0.95; by the prior's own variance 0.59 and less


def test_a_total_that_only_the_prior_tells_takes_all_errors_to_add_up() -> None:
    tree = Tree.from_parents([-1, 0, 0, 0])
    known = Prior(np.array([30.0, 10, 10, 10]), variance=np.array([np.inf, 4, 9, 16]))
    est = denoise(tree, [33, 0, 0, 0], [1, np.inf, np.inf, np.inf], prior=known)
    found = est.total([1, 2])
    assert found.noise == pytest.approx((est.std[1] + est.std[2]) ** 2) and found.noise > found.variance
    assert est.total([1, 2, 3]).noise == 1  # told by today's figures


def test_a_prior_of_mean_and_variance_counts_as_an_earlier_period_does() -> None:
    """As a report of that period would: its counts are the best estimate of these figures."""
    of = world(3, 8)
    given_, tree = measured(of, 50.0, 1), of.tree
    rng = np.random.default_rng(2)
    then, wide = of.earlier.mean + rng.normal(0, 1, len(tree)), rng.uniform(0.5, 2.0, len(tree))
    best = denoise(tree, then, wide)
    report = Prior(np.asarray(best.count), best.variance, new=np.zeros(len(tree), bool))
    raw, without = Prior(then, wide), prior.learn(tree, given_)
    np.testing.assert_allclose(*(prior.learn(tree, given_, None, period).mean for period in (raw, report)))
    np.testing.assert_allclose(prior.foreseen(tree, raw).spread, prior.foreseen(tree, report).spread)
    assert np.abs(prior.learn(tree, given_, None, raw).share - without.share).max() > 0.01
    several = [denoise(tree, given_, posterior=True, prior=each).count for each in (raw, report, None)]
    np.testing.assert_allclose(several[0], several[1])
    assert np.abs(several[0] - several[2]).max() > 0.1


def test_a_prior_that_says_nothing_changes_nothing_and_one_of_counts_counts() -> None:
    of = world(3, 8)
    given_, tree = measured(of, 50.0, 1), of.tree
    without = prior.learn(tree, given_).share
    for nothing in (prior.none(tree), Prior(of.earlier.mean, np.full(len(tree), np.inf))):
        np.testing.assert_array_equal(prior.learn(tree, given_, None, nothing).share, without)
    counts = prior.learn(tree, given_, None, Prior(of.earlier.mean)).share
    np.testing.assert_array_equal(counts, prior.learn(tree, given_, None, replace(of.earlier, variance=None)).share)
    leaves = Prior(np.where(tree.is_leaf, of.earlier.mean, 0.0), np.where(tree.is_leaf, 1.0, np.inf))
    np.testing.assert_allclose(prior.learn(tree, given_, None, leaves).share, counts, atol=1e-9)


def test_shares_that_were_learned_are_not_learned_from() -> None:
    of = world(3, 8)
    given_ = measured(of, 50.0, 1)
    with pytest.raises(ValueError, match="shares are learned here; give the earlier period"):
        prior.learn(of.tree, given_, None, prior.learn(of.tree, given_))
