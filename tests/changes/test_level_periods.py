"""Weeks within one table are compared with exact variances, though they were made to add up together."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attributary import Tree, denoise, periods
from attributary.denoising.total import subtree_variance
from attributary.errors import InputError
from attributary.tables import write_table
from support.command import attributary
from support.forests import Case, cases

WEEKS = ["W2", "W10", "W1", "W9"]
STORES = [("North", "Oslo"), ("North", "Bergen"), ("South", "Rome"), ("South", "Bari"), ("South", "Pisa")]


def table_of(weeks: list[str] = WEEKS, lacking: tuple[str, str] = ("Bari", "W10")) -> Tree:
    rows = [(r, s, w) for r, s in STORES for w in weeks if (s, w) != lacking]
    rows += [(r, s, None) for r, s in STORES] + [("North", None, None), ("South", None, None)]
    return Tree.from_paths(dict(zip(("region", "store", "week"), zip(*rows, strict=True), strict=True)), LEVELS)


LEVELS = ["region", "store", "week"]


def below(tree: Tree, node: int) -> np.ndarray:
    """The nodes in the subtree of a node, by walking up from each."""
    inside = np.zeros(len(tree), bool)
    for v in range(len(tree)):
        u = v
        while u >= 0 and u != node:
            u = int(tree.parent[u])
        inside[v] = u == node
    return inside


@given(cases(special=(0.0, np.inf)), st.data())
def test_the_variance_of_a_sum_below_each_node_is_that_of_its_total(case: Case, data: st.DataObject) -> None:
    est = denoise(case.tree, case.noisy, case.variance)
    weight = st.sampled_from([-2.0, -1.0, 0.0, 0.0, 1.0, 3.0])
    weights = np.array(data.draw(st.lists(weight, min_size=len(case.tree), max_size=len(case.tree))))
    weights[~case.tree.is_leaf] = 0.0
    fast = subtree_variance(case.tree, est.measurements, est.variance, weights)
    slow = [est.total(np.where(below(case.tree, v), weights, 0.0)).variance for v in range(len(case.tree))]
    assert fast == pytest.approx(
        slow, rel=1e-7, abs=1e-9 * float(np.max(np.r_[1.0, est.variance[est.variance < np.inf]]))
    )


def test_changes_and_sums_of_weeks_have_the_variance_of_their_totals() -> None:
    rng, tree = np.random.default_rng(4), table_of()
    variance = rng.uniform(1, 30, len(tree))
    variance[[0, 7]] = 0.0, np.inf
    est = denoise(tree, rng.poisson(50, len(tree)) + rng.laplace(0, 3, len(tree)), variance)
    series = periods(est, by="week", test="counts")
    assert [period.name for period in series.periods] == ["W1", "W2", "W9", "W10"]
    rows, above = tree.table().to_pylist(), series.tree.table().to_pylist()
    leaves = np.array([row["week"] for row in rows])
    for i, path in enumerate(above):
        inside = np.array([all(row[name] == path[name] for name in ("region", "store") if path[name]) for row in rows])
        masks = [np.where(inside & (leaves == period.name), 1.0, 0.0) for period in series.periods]
        assert series.sum.variance[i] == pytest.approx(est.total(np.sum(masks, axis=0)).variance)
        for step, before, now in zip(series.steps, masks, masks[1:], strict=False):
            change = est.total(now - before)
            if before.any() and now.any():
                assert step.difference.change[i] == pytest.approx(change.count)
                assert step.difference.noise[i] == pytest.approx(change.variance)
            else:
                assert step.verdict[i] in ("new", "gone")
    roots = series.total
    everything = [np.where(leaves == period.name, 1.0, 0.0) for period in series.periods]
    assert roots.steps[0].difference.noise[0] == pytest.approx(est.total(everything[1] - everything[0]).variance)
    assert roots.sum.variance[0] == pytest.approx(est.total(np.sum(everything, axis=0)).variance)


def test_without_a_change_few_changes_within_a_table_are_called() -> None:
    rng, tree = np.random.default_rng(5), table_of(lacking=("", ""))
    chances = []
    for _ in range(200):
        counts = tree.roll_up(rng.poisson(40, int(tree.is_leaf.sum())))
        noisy = counts + rng.laplace(0, tree.by_level([2.0, 3.0, 6.0]))
        est = denoise(tree, noisy, 2 * tree.by_level([4.0, 9.0, 36.0]))
        chances.append(periods(est, by="week=W1..W2,W9..W10").steps[0].chance)
    assert 0.03 < np.mean(np.array(chances) < 0.05) < 0.065
    assert 0.45 < np.mean(chances) < 0.57  # no larger than they need be


def test_which_region_grew(tmp_path: Path) -> None:
    rng, lines = np.random.default_rng(6), ["region,store,week,visits"]
    for region, grows in (("North", 1.0), ("South", 1.15)):
        regions: list[str] = []
        for store in range(3):
            weeks = rng.poisson(60 * grows ** np.arange(8))
            cells = [max(round(x), 0) for x in (weeks + rng.laplace(0, 3, 8)).tolist()]
            regions.append(f"{region},{store},ALL,{round(weeks.sum() + rng.laplace(0, 3))}")
            regions += [f"{region},{store},W{w + 5},{'<5' if x < 5 else x}" for w, x in enumerate(cells)]
            lines += [] if store else [f"{region},ALL,ALL,0"]
            head = next(i for i, line in enumerate(lines) if line.startswith(f"{region},ALL"))
            total = int(lines[head].rsplit(",", 1)[1]) + int(weeks.sum())
            lines[head] = f"{region},ALL,ALL,{total}"
        lines += regions
    table, counts = tmp_path / "visits.csv", tmp_path / "counts.csv"
    table.write_text("\ufeff" + "\r\n".join(lines) + "\r\n", encoding="utf-8")
    noise = ("--noise", "laplace:scale=3,rounded")
    attributary("denoise", "--table", table, *noise, "--estimator", "nonnegative", "--whole", "-o", counts)
    page = tmp_path / "page.html"
    said = attributary("report", counts, "--periods", "week=W5..W8,W9..W12", "-o", page).stderr
    assert "Visits grew from W5..W8 to W9..W12" in said
    assert "Of 2 rows of region, 1 changed: South grew, +" in said
    html = page.read_text()
    assert "parts of one table" in html and "the noise of each is its own" not in html
    attributary("report", counts, "-o", page)
    assert "<h1>Visits by region, store and week" in page.read_text()


@pytest.mark.parametrize(
    ("by", "words"),
    [
        ("store", "labels of its last level"),
        ("month", "labels of its last level"),
        ("week=W1", "at least two periods"),
        ("week=W1,W3", "week has no 'W3'; it has W1, W2, W9, W10"),
        ("week=W9..W1,W10", "from its first to its last week"),
        ("week=W1..W9,W2..W10", "in one period only"),
        ("week=W1,W1", "in one period only"),
        ("week=W1..W2..W9,W10", "week has no"),
    ],
)
def test_what_is_no_period_is_refused(by: str, words: str) -> None:
    tree = table_of()
    with pytest.raises(InputError, match=words):
        periods(denoise(tree, np.ones(len(tree)), 1.0), by=by)


def test_nodes_without_weeks_and_tables_without_figures_are_refused(tmp_path: Path) -> None:
    tree = Tree.from_paths({"store": ["a", "a", "b"], "week": ["W1", "W2", None]}, ["store", "week"])
    with pytest.raises(InputError, match="every node needs its week to be compared; 1 have none, as store=b"):
        periods(denoise(tree, np.ones(len(tree)), 1.0), by="week")
    full = table_of()
    bare = denoise(full, np.ones(len(full)), 1.0).table().drop_columns(["noisy", "noise_variance"])
    write_table(bare, str(tmp_path / "bare.parquet"))
    with pytest.raises(InputError, match="which it lacks"):
        periods(tmp_path / "bare.parquet", by="week")
    raw = tmp_path / "raw.csv"
    raw.write_text("store,week,visits\na,W1,3\n", encoding="utf-8")
    said = attributary("report", raw, "--periods", "week", code=2).stderr
    assert "denoise a raw table first" in said


def test_labels_without_numbers_are_in_the_order_of_the_table() -> None:
    tree = table_of(["Thursday", "Friday"], ("", ""))
    assert [p.name for p in periods(denoise(tree, np.ones(len(tree)), 1.0), by="week").periods] == [
        "Thursday",
        "Friday",
    ]
