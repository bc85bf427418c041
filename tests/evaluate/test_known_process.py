"""Generated forests, whose process is known, and the limit of what any estimator can reach on them."""

from itertools import product
from math import lgamma
from pathlib import Path

import numpy as np
import pytest

from attributary import Measurements, Tree
from attributary.errors import InputError
from attributary.estimators import Background, KnownProcess, limit
from attributary.evaluate import Case, evaluate, user_cases
from attributary.evaluate.user_cases import with_process
from attributary.generated import ForestProcess
from attributary.logs.log_files import is_generated
from attributary.paper import generate
from attributary.paper.generate import FANS, forest
from attributary.prior import from_counts
from attributary.spec import Spec
from attributary.tables import read_table


def cases(folder: Path, rows: int = 1000) -> list[Case]:
    generate("forest", str(folder / "forest"), rows, 3)
    tables = [read_table(str(folder / "forest" / f"{name}.parquet")) for name in ("counts", "earlier")]
    return user_cases(Spec.load(str(folder / "forest" / "spec.toml")), *tables)


def test_a_forest_is_counts_of_two_periods_with_their_process(tmp_path: Path) -> None:
    (case,) = cases(tmp_path)
    assert is_generated(str(tmp_path / "forest" / "counts.parquet"))
    assert case.nodes == sum(5 * np.cumprod([1, *FANS]))  # whole campaigns: 5 of 210 leaves
    again, other = forest(1000, 3), forest(1000, 4)
    assert again.counts.equals(read_table(str(tmp_path / "forest" / "counts.parquet")))
    assert not again.counts.equals(other.counts) and not again.counts.equals(again.earlier)
    of = ForestProcess.read(again.counts)
    assert of is not None and [len(share) for share in of.share] == list(FANS)
    with pytest.raises(InputError, match="the forest is written as parquet"):
        generate("forest", str(tmp_path / "f"), format="published")


def test_counts_follow_the_process() -> None:
    of = ForestProcess(4.0, 50.0, (2.0,))
    made = forest(12_000, 1, (3,), of)
    told = ForestProcess.read(made.counts)
    assert told is not None
    now, then = (table.column("conversions").to_numpy().reshape(-1, 3).astype(float) for table in made)
    n, share, kappa = now.sum(axis=1), np.array(told.share[0]), 2.0
    assert n.mean() == pytest.approx(50, rel=0.05) and n.var() == pytest.approx(50 + 50**2 / 4, rel=0.1)
    off = ((now - np.outer(n, share)) ** 2).mean(axis=0)
    wanted = (n * (n + kappa) / (1 + kappa)).mean() * share * (1 - share)
    assert off == pytest.approx(wanted, rel=0.1)
    expected = (kappa * share + then) / (kappa + then.sum(axis=1, keepdims=True)) * n[:, None]  # given the past
    assert (now - expected).mean(axis=0) == pytest.approx(np.zeros(3), abs=0.3)
    assert np.mean((now - expected) ** 2) < 0.2 * off.mean()


@pytest.mark.parametrize("past", [False, True])
def test_limits_are_the_mean_over_all_counts_by_their_probability(past: bool) -> None:
    """Against enumeration: one campaign of two locations."""
    made = forest(2, 5, (2,), ForestProcess(1.5, 4.0, (3.0,)))
    spec = Spec(epsilon=1, attribute=[{"name": "campaign"}, {"name": "location"}])
    tree = Tree.from_paths(made.counts.select(["campaign", "location"]), ["campaign", "location"], fill=True)
    known = with_process(tree, from_counts(tree, made.earlier), made.counts, made.earlier)
    assert isinstance(known, KnownProcess) and spec.levels == tree.level_names
    of, before = ForestProcess.read(made.counts), tree.to_level_order(from_counts(tree, made.earlier).mean)
    assert of is not None
    alpha = np.array([3.0 * share for share in of.share[0]]) + (before[1:] if past else 0.0)
    shape, rate = of.shape + (before[0] if past else 0.0), of.shape / of.mean + past
    noisy, scale, total, mean = np.array([4.2, 3.9, -0.7]), np.array([1.0, 2.0, 1.5]), 0.0, np.zeros(3)
    for a, b in product(range(60), repeat=2):
        n = a + b
        log = lgamma(n + shape) - lgamma(n + 1) - n * np.log(1 + rate)
        log += lgamma(n + 1) - lgamma(n + alpha.sum())
        log += sum(lgamma(c + w) - lgamma(c + 1) for c, w in zip((a, b), alpha, strict=True))
        weight = np.exp(log - np.sum(np.abs(noisy - [n, a, b]) / scale))
        total, mean = total + weight, mean + weight * np.array([n, a, b])
    back = tree.from_level_order
    found = limit(tree, Measurements(back(noisy), back(2 * scale**2)), Background(known), past=past).count
    assert tree.to_level_order(found) == pytest.approx(mean / total, rel=1e-6)


def test_nothing_is_closer_than_the_limit_and_zeros_are_beside(tmp_path: Path) -> None:
    names = ["optimal-nonnegative", "optimal-posterior", "optimal-limit0", "optimal-limit1"]
    table = evaluate(cases(tmp_path, 2000), names, zeros=True, epsilons=[1], taus=[5], draws=3)
    errors = {row["method"]: row["rmsre"] for row in table.to_pylist() if row["level"] is None}
    assert errors["optimal-limit1"] < errors["optimal-posterior"] < 1.25 * errors["optimal-limit1"]
    assert errors["optimal-limit1"] < errors["optimal-limit0"] < 0.8 * errors["optimal-nonnegative"]
    assert errors["optimal-nonnegative"] < errors["zeros"] < 1


def test_limits_need_a_process_and_the_earlier_counts(tmp_path: Path) -> None:
    (case,) = cases(tmp_path)
    same = user_cases(case.spec, read_table(str(tmp_path / "forest" / "counts.parquet")))
    with pytest.raises(InputError, match="optimal-limit1 knows the process"):
        evaluate(same, ["optimal-limit1"], draws=2)
    assert len(evaluate(same, ["optimal-limit0"], epsilons=[1], taus=[5], draws=2)) == 5
