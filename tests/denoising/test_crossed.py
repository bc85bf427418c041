"""Several breakdowns of the same conversions: the crossed estimates are dense least squares over all cells."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import nnls

from attributary import Tree, denoise
from attributary.denoising.crossed import JointCounts, crossed
from attributary.denoising.joint import nonnegative_fit
from attributary.denoising.meeting import Breakdown, Meeting, common_top
from attributary.errors import InputError

ATTRIBUTES = "wxyz"
QUESTIONS = [  # attributes from top to bottom, and whether a total stands above them
    [("xyzw", True), ("zx", False)],
    [("xyw", True), ("zx", False)],
    [("xyz", False), ("zw", True)],
    [("xz", False), ("z", False)],
    [("xyw", False), ("zx", True), ("wz", True)],
    [("xy", True), ("z", True), ("w", True)],
]


def drawn(
    seed: int, special: tuple[float, ...], questions: list[tuple[str, bool]] | None = None
) -> tuple[list[Breakdown], list[Meeting]]:
    """Breakdowns of generated cells, of which some are missing, with noise of uneven variances."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 5), 2, rng.integers(1, 4), rng.integers(1, 4)
    cells = [cell for cell in np.ndindex(*sizes) if rng.random() >= 0.2] or [(0, 0, 0, 0)]
    truth = {cell: int(rng.poisson(rng.choice([0.3, 5, 200]))) for cell in cells}
    breakdowns, leaves = [], []
    for names, total in questions or QUESTIONS[seed % len(QUESTIONS)]:
        tree, paths = grown(rng, {tuple(c[ATTRIBUTES.index(a)] for a in names) for c in cells}, total)
        count = np.zeros(len(tree))
        for cell, n in truth.items():
            path = tuple(cell[ATTRIBUTES.index(name)] for name in names)
            count += [n * (path[: len(node)] == node) for node in paths]
        variance = 10 ** rng.uniform(-1.5, 1.5, len(tree))
        for value in special:
            variance = np.where(rng.random(len(tree)) < 0.15, value, variance)
        noise = np.sqrt(np.where(variance < np.inf, variance, 0)) * rng.normal(size=len(tree))
        breakdowns.append(Breakdown(tree, np.where(variance < np.inf, count + noise, np.nan), variance))
        leaves.append([dict(zip(names, paths[v], strict=True)) for v in tree.leaves])
    return breakdowns, [meeting(leaves, one, other) for one, other in combinations(range(len(leaves)), 2)]


def grown(rng: np.random.Generator, paths: set[tuple[int, ...]], total: bool) -> tuple[Tree, list[tuple[int, ...]]]:
    """The tree with these paths to its leaves, its nodes in any order, and the path of each node."""
    nodes = sorted({path[:depth] for path in paths for depth in range(0 if total else 1, len(path) + 1)}, key=len)
    place = rng.permutation(len(nodes))
    number = dict(zip(nodes, place.tolist(), strict=True))
    parent, shuffled = np.empty(len(nodes), np.int64), [()] * len(nodes)
    for path, at in number.items():
        parent[at], shuffled[at] = number.get(path[:-1], -1) if path else -1, path
    return Tree.from_parents(parent), shuffled


def meeting(leaves: list[list[dict[str, int]]], one: int, other: int) -> Meeting:
    shared = sorted(set(leaves[one][0]) & set(leaves[other][0]))
    values = [[tuple(leaf[name] for name in shared) for leaf in leaves[i]] for i in (one, other)]
    number = {value: i for i, value in enumerate(sorted({*values[0], *values[1]}))}
    return Meeting(one, other, *(np.array([number[value] for value in each]) for each in values))


def above(breakdowns: list[Breakdown], meetings: list[Meeting], level: int) -> list[Meeting]:
    """The same meetings, told of the nodes of a level that all trees have."""
    made = []
    for m in meetings:
        sums = []
        for i, of in ((m.one, m.of_one), (m.other, m.of_other)):
            tree = breakdowns[i].tree
            place = np.zeros(len(tree), np.int64)
            place[tree.leaves] = of
            nodes = np.arange(len(tree))[tree.slice(level)] if tree.order is None else tree.order[tree.slice(level)]
            sums.append(tree.sum_up(place, np.maximum)[nodes])
        made.append(Meeting(m.one, m.other, *sums, (level, level)))
    return made


def dense(breakdowns: list[Breakdown], meetings: list[Meeting]) -> list[JointCounts]:
    """Least squares over the leaves of all breakdowns at once, under all that must agree; inf where nothing tells."""
    sizes = [int(b.tree.is_leaf.sum()) for b in breakdowns]
    start = np.cumsum([0, *sizes])
    rows = []
    for b, begin, size in zip(breakdowns, start, sizes, strict=False):
        rows.append(np.zeros((len(b.tree), start[-1])))
        rows[-1][:, begin : begin + size] = b.tree.roll_up(np.eye(size))
    x, variance = (np.concatenate([getattr(b, name) for b in breakdowns]) for name in ("noisy", "variance"))
    every = np.vstack(rows)
    agree = np.zeros((sum(m.size for m in meetings), start[-1]))
    row = 0
    for m in meetings:
        np.add.at(agree, (row + m.of_one, start[m.one] + np.arange(sizes[m.one])), 1)
        np.add.at(agree, (row + m.of_other, start[m.other] + np.arange(sizes[m.other])), -1)
        row += m.size
    exact = variance == 0
    bound = np.vstack([agree, every[exact]])
    at = np.linalg.pinv(bound) @ np.append(np.zeros(len(agree)), x[exact])
    _, values, directions = np.linalg.svd(bound)
    free = directions[int((values > 1e-9).sum()) :].T
    use = (variance > 0) & (variance < np.inf)
    scale = np.sqrt(variance[use])
    left, values, right = np.linalg.svd(every[use] @ free / scale[:, None], full_matrices=True)
    known = int((values > 1e-9 * values.max(initial=1e-30)).sum())
    solve = free @ (right[:known].T / values[:known])
    count = at + solve @ (left[:, :known].T @ ((x[use] - every[use] @ at) / scale))
    blind = free @ right[known:].T
    return [
        JointCounts(
            each @ count,
            np.where(np.abs(each @ blind).max(axis=1, initial=0) > 1e-7, np.inf, ((each @ solve) ** 2).sum(1)),
        )
        for each in rows
    ]


def check(breakdowns: list[Breakdown], meetings: list[Meeting], of_leaves: list[Meeting] | None = None) -> None:
    largest = max(float(b.variance[b.variance < np.inf].max(initial=0)) for b in breakdowns)
    for ours, slow in zip(crossed(breakdowns, meetings), dense(breakdowns, of_leaves or meetings), strict=True):
        assert (np.isinf(ours.variance) == np.isinf(slow.variance)).all()
        known = slow.variance < np.inf
        close = 1e-8 * slow.variance[known] + 1e-11 * largest
        assert (np.abs(ours.variance[known] - slow.variance[known]) <= close).all()
        assert (
            np.abs(ours.count[known] - slow.count[known]) <= 1e-8 * np.sqrt(slow.variance[known] + 1e-4 * largest)
        ).all()


@given(st.integers(0, 10**6), st.sampled_from([(), (np.inf,), (0.0,), (0.0, np.inf)]))
@settings(max_examples=60)
def test_it_is_dense_least_squares(seed: int, special: tuple[float, ...]) -> None:
    check(*drawn(seed, special))


@pytest.mark.sweep
def test_it_is_dense_least_squares_on_500_pairs_and_triples() -> None:
    for seed in range(500):
        check(*drawn(seed, ((), (np.inf,), (0.0,), (0.0, np.inf))[seed // 6 % 4]))


SHARED = [([("xy", False), ("xw", False)], 0), ([("xyz", False), ("xyw", False), ("xy", False)], 1),
          ([("zxy", True), ("zw", True)], 1), ([("wy", True), ("xz", True)], 0)]  # fmt: skip


@given(st.integers(0, 10**6), st.sampled_from([(), (np.inf,), (0.0,), (0.0, np.inf)]), st.sampled_from(SHARED))
@settings(max_examples=60)
def test_breakdowns_that_share_their_upper_levels_are_joined_there(
    seed: int, special: tuple[float, ...], shared: tuple[list[tuple[str, bool]], int]
) -> None:
    breakdowns, meetings = drawn(seed, special, shared[0])
    known = above(breakdowns, meetings, shared[1])
    assert common_top([b.tree for b in breakdowns], known) is not None
    assert common_top([b.tree for b in breakdowns], meetings) is None
    check(breakdowns, known, meetings)


def test_levels_in_another_order_are_no_common_top() -> None:
    breakdowns, meetings = drawn(5, (), [("xyw", False), ("yxz", False)])
    known = above(breakdowns, meetings, 1)
    assert common_top([b.tree for b in breakdowns], known) is None
    check(breakdowns, known, meetings)


def test_sums_agree_wherever_two_meet() -> None:
    for seed in range(30):
        breakdowns, meetings = drawn(seed, ())
        counts = crossed(breakdowns, meetings)
        for m in meetings:
            sums = [np.bincount(of, counts[i].count[breakdowns[i].tree.is_leaf], m.size)
                    for i, of in ((m.one, m.of_one), (m.other, m.of_other))]  # fmt: skip
            assert np.allclose(*sums, rtol=0, atol=1e-8)


def test_alone_it_is_denoise() -> None:
    (breakdown, *_), _ = drawn(3, (np.inf,))
    est = denoise(*breakdown)
    (counts,) = crossed([breakdown], [])
    known = est.variance < np.inf
    assert (np.isinf(counts.variance) == ~known).all()
    assert np.allclose(counts.count[known], est.count[known]) and np.allclose(
        counts.variance[known], est.variance[known]
    )


def test_exact_figures_that_contradict_each_other_are_refused() -> None:
    one = Breakdown(Tree.from_parents([-1, -1]), np.array([3.0, 4.0]), np.zeros(2))
    other = Breakdown(Tree.from_parents([-1]), np.array([8.0]), np.zeros(1))
    with pytest.raises(InputError, match="contradict"):
        crossed([one, other], [Meeting(0, 1, np.array([0, 0]), np.array([0]))])


def test_too_large_says_what_it_would_take() -> None:
    tree = Tree.from_parents(np.full(5001, -1))
    one = Breakdown(tree, np.zeros(5001), np.ones(5001))
    with pytest.raises(InputError, match=r"5,001 sums .* 0\.8 GB"):
        crossed([one, one], [Meeting(0, 1, np.arange(5001), np.arange(5001))])


@pytest.mark.parametrize("seed", range(48))
def test_counts_of_the_fit_are_the_best_that_are_never_negative(seed: int) -> None:
    breakdowns, meetings = drawn(seed, (), None)
    made = nonnegative_fit(breakdowns, meetings)
    sizes = [len(b.tree.leaves) for b in breakdowns]
    start = np.cumsum([0, *sizes])
    rows, aims = [], []
    for b, at, end in zip(breakdowns, start, start[1:], strict=False):
        sums = np.zeros((len(b.tree), start[-1]))
        sums[:, at:end] = b.tree.roll_up(np.eye(end - at))
        rows.append(sums / np.sqrt(b.variance)[:, None])
        aims.append(b.noisy / np.sqrt(b.variance))
    for m in meetings:  # as good as exact
        agree = np.zeros((m.size, start[-1]))
        np.add.at(agree, (m.of_one, start[m.one] + np.arange(sizes[m.one])), 1e5)
        np.add.at(agree, (m.of_other, start[m.other] + np.arange(sizes[m.other])), -1e5)
        rows.append(agree)
        aims.append(np.zeros(m.size))
    slow, _ = nnls(np.vstack(rows), np.concatenate(aims), maxiter=10_000)
    leaves = np.concatenate([count[b.tree.leaves] for b, count in zip(breakdowns, made, strict=True)])
    assert (leaves >= 0).all()
    size = max(1.0, float(np.abs(slow).max()))
    for b, count, at, end in zip(breakdowns, made, start, start[1:], strict=False):
        np.testing.assert_allclose(count, b.tree.roll_up(count[b.tree.leaves]), atol=1e-8 * size)
        np.testing.assert_allclose(count, b.tree.roll_up(slow[at:end]), atol=1e-4 * size)
    for m in meetings:
        sums = [np.bincount(of, made[i][breakdowns[i].tree.leaves], m.size)
                for i, of in ((m.one, m.of_one), (m.other, m.of_other))]  # fmt: skip
        np.testing.assert_allclose(*sums, atol=1e-8 * size)


@given(st.integers(0, 10**6), st.sampled_from([(np.inf,), (0.0,), (0.0, np.inf)]))
@settings(max_examples=30)
def test_a_fit_keeps_exact_figures_and_agrees_where_figures_are_missing(seed: int, special: tuple[float, ...]) -> None:
    breakdowns, meetings = drawn(seed, special)
    made = nonnegative_fit(breakdowns, meetings)
    size = max(1.0, *(float(np.abs(count).max()) for count in made))
    for b, count in zip(breakdowns, made, strict=True):
        assert (count >= 0).all()
        exact = b.variance == 0
        np.testing.assert_allclose(count[exact], b.noisy[exact], atol=1e-7 * size)
        np.testing.assert_allclose(count, b.tree.roll_up(count[b.tree.leaves]), atol=1e-7 * size)
    for m in meetings:
        sums = [np.bincount(of, made[i][breakdowns[i].tree.leaves], m.size)
                for i, of in ((m.one, m.of_one), (m.other, m.of_other))]  # fmt: skip
        np.testing.assert_allclose(*sums, atol=1e-7 * size)


def test_a_fit_of_too_many_leaves_is_refused() -> None:
    tree = Tree.from_parents(np.full(1001, -1))
    one = Breakdown(tree, np.zeros(1001), np.ones(1001))
    with pytest.raises(InputError, match="up to 1,000 leaves of all of them; these have 2,002"):
        nonnegative_fit([one, one], [Meeting(0, 1, np.arange(1001), np.arange(1001))])
    negative = Breakdown(Tree.from_parents([-1]), np.array([-1.0]), np.zeros(1))
    with pytest.raises(InputError, match="0 or more where counts are never negative"):
        nonnegative_fit([negative, negative], [Meeting(0, 1, np.zeros(1, np.int64), np.zeros(1, np.int64))])
