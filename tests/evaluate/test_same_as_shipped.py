"""What is evaluated is what ships: `evaluate`, handed the noisy figures of a finished run, gets the run's counts."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import attributary
from attributary import Plan, Spec
from attributary.estimators import offered
from attributary.evaluate import Case, Method, evaluate
from attributary.evaluate.simulation import Copies, SimulatedNoise
from attributary.pipeline.read_prior import read_prior, under_plan
from attributary.prior import none
from attributary.read_estimates import read_estimates
from attributary.tables import read_table

pytestmark = pytest.mark.usefixtures("undrawn")


@pytest.fixture(scope="module")
def earlier(shop_of: Callable[[int], Path], tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("earlier")
    attributary.run(str(shop_of(6_000) / "spec.toml"), rng=np.random.default_rng(1)).save(str(folder))
    return str(folder / "estimates.parquet")


def errors_of_evaluate(folder: Path, estimator: str, prior: str | None, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The errors of evaluate's own path, level by level, where the run's noisy figures are the only draw.

    The run's counts are taken as the truth: the errors are 0 if the counts are the same.
    """
    plan = Plan.load(str(folder / "plan.json"))
    est = read_estimates(read_table(str(folder / "estimates.parquet")), "estimates")
    past = none(est.tree) if prior is None else under_plan(read_prior(plan.spec, est.tree, prior), plan, est.tree)
    case = Case.of("run", "tree", plan.spec, est.tree, np.ones(len(est.tree)), past)
    case = replace(case, count=est.estimate)
    variance = np.where(np.isnan(est.noise_variance), np.inf, est.noise_variance)

    def drawn(values: Any) -> Callable[..., Any]:
        return lambda noise, *_: Copies.of(case.tree, len(noise.share) // case.nodes).spread(values)

    monkeypatch.setattr(SimulatedNoise, "added", drawn(np.nan_to_num(est.noisy)))
    monkeypatch.setattr(SimulatedNoise, "variance", property(drawn(variance)))
    options: Any = {"epsilons": [plan.spec.epsilon], "taus": [plan.spec.tau], "draws": 2}
    table = evaluate([case], [Method.of("equal", estimator)], **options)
    return [row["rmsre"] for row in table.to_pylist() if row["kind"] == "simulated"]


@pytest.mark.parametrize("past", [False, True], ids=["no past", "past"])
@pytest.mark.parametrize("tau", [5, 20])
@pytest.mark.parametrize("estimator", offered())
def test_evaluate_makes_of_figures_what_run_makes_of_them(
    estimator: str,
    tau: int,
    past: bool,
    earlier: str,
    shop_of: Callable[[int], Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    place = shop_of(6_000) / "spec.toml"
    spec = Spec.load(str(place)).model_copy(update={"tau": float(tau)})
    prior = earlier if past else None
    run = attributary.run(
        spec, str(place.parent), prior=prior, protected=past, estimator=estimator, rng=np.random.default_rng(2)
    )
    run.save(str(tmp_path))
    errors = errors_of_evaluate(tmp_path, estimator, prior, monkeypatch)
    assert len(errors) == len(spec.levels) + 1 and max(errors) < 1e-9


def test_the_law_sees_another_tau(
    earlier: str, shop_of: Callable[[int], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Estimators that were tried with a tau of their own would not pass."""
    place = shop_of(6_000) / "spec.toml"
    spec = Spec.load(str(place)).model_copy(update={"tau": 20.0})
    attributary.run(spec, str(place.parent), estimator="learned", rng=np.random.default_rng(2)).save(str(tmp_path))
    text = (tmp_path / "plan.json").read_text()
    assert '"tau": 20.0' in text
    (tmp_path / "plan.json").write_text(text.replace('"tau": 20.0', '"tau": 5.0'))
    assert max(errors_of_evaluate(tmp_path, "learned", None, monkeypatch)) > 1e-4
