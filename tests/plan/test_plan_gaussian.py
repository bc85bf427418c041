"""Plans under Gaussian noise: what they protect, what they say, and what other commands make of them."""

import json
from typing import Any

import numpy as np
import pytest

from attributary import Measurements, Plan, Spec, api, denoise, make_plan, noise, prior
from attributary.errors import InputError
from attributary.spec.mistakes import Mistakes
from attributary.tables import read_table
from support.command import attributary as invoke

ATTRIBUTES: list[dict[str, Any]] = [
    {"name": "campaign"},
    {"name": "day", "unknown": True, "domain": ["mon", "tue", "wed"]},
]
TABLE = {
    "campaign": ["a", "a", "b", "b", "c"],
    "day": ["mon", "tue", "mon", "tue", "wed"],
    "conversions": [90, 40, 7, 0, 3],
}


def asked(**more: Any) -> Spec:
    return Spec(**{"epsilon": 2, "noise": "gaussian", "delta": 1e-6, "attribute": ATTRIBUTES, **more})


@pytest.mark.parametrize("method", ["equal", "leaves", "greedy", "optimal", "per-node"])
def test_precisions_on_a_path_sum_to_mu_squared(method: str) -> None:
    spec = asked()
    tree = spec.tree(TABLE)
    plan = make_plan(spec, tree, prior.from_counts(tree, TABLE), method)
    precision = 1 / plan.variance(tree)
    paths = tree.sum_down(precision)
    mu = noise.gaussian_mu(2, 1e-6)
    assert paths.max() == pytest.approx(mu**2, rel=1e-8) and paths.max() <= mu**2
    assert plan.privacy_loss.conversion == 2 and "conversion" in plan.guarantees
    account = json.loads(plan.to_json())["privacy"]
    assert account["mu"] == pytest.approx(mu) and account["rho"] == pytest.approx(mu**2 / 2)
    assert (account["epsilon"], account["delta"]) == (2, 1e-6)
    if method != "per-node":
        assert Plan.from_json(plan.to_json()) == plan.to_hand_on


def test_several_measures_and_conversions_share_one_account() -> None:
    measures = [{"name": "count"}, {"name": "revenue", "clip": 20.0}]
    spec = asked(measure=measures, conversions_per_impression=3)
    tree = spec.tree(TABLE)
    plan = make_plan(spec, tree)
    mu2 = spec.noise_model.account["mu"] ** 2
    spent = 0.0
    for part in plan.by_measure:  # three conversions of an impression may add 3, or 3 · clip, to one key of each level
        moved = 3 * part.clip
        spent += (moved**2 / part.variance(tree))[tree.parent < 0].max()
        spent += (moved**2 / part.variance(tree))[tree.parent >= 0].max()
    assert spent <= mu2 * (1 + 1e-9) and spent > 0.999 * mu2
    assert plan.spent[0] <= 1 and plan.privacy_loss.conversion <= 2
    shares = [sum(part.share.default) / sum(plan.default) for part in plan.by_measure]
    assert min(shares) > 0.2


def test_definition_1_moves_two_keys_of_unknown_levels() -> None:
    spec = asked(neighbours="definition-1")
    tree = spec.tree(TABLE)
    plan = make_plan(spec, tree, prior.from_counts(tree, TABLE), "leaves")
    day = 1 / plan.variance(tree)[tree.parent >= 0].max()
    mu2 = spec.noise_model.account["mu"] ** 2
    assert 2 * day <= mu2 * (1 + 1e-9)
    assert plan.guarantees == ("conversion", "definition-1")


def test_another_epsilon_scales_the_errors_by_mu() -> None:
    spec = asked()
    tree = spec.tree(TABLE)
    before = prior.from_counts(tree, TABLE)
    plan = make_plan(spec, tree, before)
    other = make_plan(spec.at(8), tree, before)
    assert plan.at(8).expected.tree.plan == pytest.approx(other.expected.tree.plan, rel=1e-6)
    assert other.epsilon()[0] < 8 and sum(other.epsilon()) > 8  # each level alone, at the same δ


def test_figures_are_measured_and_denoised() -> None:
    spec = asked()
    tree = spec.tree(TABLE)
    count = prior.from_counts(tree, TABLE).mean
    plan = make_plan(spec, tree, method="equal")
    rng = np.random.default_rng(4)
    offs = []
    for _ in range(400):
        measured = Measurements.simulate(plan, tree, count, rng)
        assert measured.shape == "normal"
        offs.append(denoise(measured).count - count)
    est = denoise(Measurements.simulate(plan, tree, count, rng))
    np.testing.assert_allclose(np.mean(np.square(offs), axis=0), est.variance, rtol=0.35)
    assert np.abs(np.mean(offs, axis=0) / np.sqrt(est.variance / 400)).max() < 4.5


def test_laplace_noise_is_better_at_few_keys_and_gaussian_at_many() -> None:
    spec = asked()
    tree = spec.tree(TABLE)
    plan = make_plan(spec, tree)
    other = make_plan(spec.with_noise("api"), tree)
    assert other.other_noise is None  # two keys per conversion: not worth the time
    assert plan.other_noise is not None and plan.other_noise.error == other.expected.tree.plan < plan.expected.tree.plan
    assert "2 keys per conversion Laplace is better" in plan.other_noise.words(plan.expected.tree.plan)
    deep = [{"name": f"level {i}"} for i in range(60)]
    for name in ("api", "unit", "gaussian"):
        many = Spec(epsilon=2, noise=name, attribute=deep, **({"delta": 1e-6} if name == "gaussian" else {}))
        chain = many.tree({f"level {i}": ["x", "y"] for i in range(60)})
        made = make_plan(many, chain, method="equal")
        assert made.other_noise is not None and made.other_noise.keys == 60
        words = made.other_noise.words(made.expected.tree.plan)
        assert words.endswith("Gaussian is better") and (made.other_noise.delta is None) == (name == "gaussian")


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"noise": "unit"}, 'delta: noise = "unit" holds without delta: leave it out'),
        ({"noise": "api"}, 'delta: noise = "api" holds without delta'),
        ({"delta": 0.0}, "delta: a chance above 0 and below 1"),
        ({"delta": 1.0}, "delta: a chance above 0 and below 1"),
        ({"delta": float("nan")}, "delta: a chance above 0 and below 1"),
        ({"delta": "small"}, "delta: a chance above 0 and below 1"),
    ],
)
def test_a_delta_that_is_missing_or_wrong_is_refused(more: dict[str, Any], message: str) -> None:
    with pytest.raises(Mistakes, match=message):
        asked(**more)


def test_no_delta_no_gaussian_noise() -> None:
    with pytest.raises(Mistakes, match='delta: noise = "gaussian" needs delta, .*add delta = 1e-6'):
        Spec(epsilon=2, noise="gaussian", attribute=ATTRIBUTES)
    with pytest.raises(InputError, match='noise = "gaussian" needs delta'):
        Spec(epsilon=2, attribute=ATTRIBUTES).with_noise("gaussian")
    assert asked().with_noise("unit").delta is None


def test_no_attribution_api_gives_gaussian_noise(tmp_path: Any) -> None:
    spec = asked()
    tree = spec.tree(TABLE)
    plan = make_plan(spec, tree)
    with pytest.raises(InputError, match='this one has "gaussian": make a new plan, as its answers get no other noise'):
        api.clients(plan)
    path = tmp_path / "plan.json"
    plan.save(str(path))
    refused = invoke("keys", path, code=2)
    assert 'plan.json: a plan for the Attribution Reporting API has noise = "api"' in refused.stderr
    with pytest.raises(InputError, match="answers get no other noise"):
        api.aggregate(plan, str(tmp_path), [1], output=str(tmp_path / "summary.avro"))


def test_evaluate_tries_it_beside_laplace_noise(tmp_path: Any) -> None:
    (tmp_path / "counts.csv").write_text("campaign,day,conversions\na,mon,90\na,tue,40\nb,mon,7\n")
    rule = '[[attribute]]\nname = "campaign"\n[[attribute]]\nname = "day"\n'
    (tmp_path / "pure.toml").write_text(f"epsilon = 2\n{rule}")
    (tmp_path / "spec.toml").write_text(f'epsilon = 2\nnoise = "gaussian"\ndelta = 1e-6\n{rule}')
    options = ["--counts", tmp_path / "counts.csv", "--noise", "gaussian,api", "--draws", 40, "-o", tmp_path / "e.csv"]
    refused = invoke("evaluate", tmp_path / "pure.toml", *options, code=2)
    assert 'noise = "gaussian" needs delta' in refused.stderr
    invoke("evaluate", tmp_path / "spec.toml", *options, "--method", "equal-unbiased", "--epsilon", "2")
    rows = read_table(str(tmp_path / "e.csv")).to_pylist()
    errors = {
        (row["noise"], row["kind"]): float(row["rmsre"])
        for row in rows
        if not row["level"] and row["method"] != "zeros"
    }
    spec = Spec.load(str(tmp_path / "spec.toml"))
    tree = spec.tree(read_table(str(tmp_path / "counts.csv")))
    before = prior.from_counts(tree, read_table(str(tmp_path / "counts.csv")))
    made = make_plan(spec, tree, before, "equal")
    assert made.other_noise is not None
    assert errors["gaussian", "exact"] == pytest.approx(made.expected.tree.plan, rel=1e-3)
    assert errors["api", "exact"] == pytest.approx(made.other_noise.error, rel=1e-3)
    assert errors["gaussian", "simulated"] == pytest.approx(errors["gaussian", "exact"], rel=0.3)


def test_the_commands_and_the_page_say_what_it_protects_and_how_much_noise_to_add(tmp_path: Any) -> None:
    spec, tree, page = tmp_path / "spec.toml", tmp_path / "tree.csv", tmp_path / "page.html"
    measures = '[[measure]]\nname = "count"\n[[measure]]\nname = "revenue"\nclip = 100\n'
    levels = '[[attribute]]\nname = "region"\n[[attribute]]\nname = "store"\n'
    spec.write_text(f'epsilon = 1\nnoise = "gaussian"\ndelta = 1e-6\n{levels}{measures}')
    tree.write_text("region,store\nnorth,a\nnorth,b\nsouth,c\n")
    plan, summary = tmp_path / "plan.json", tmp_path / "summary.json"
    printed = invoke("plan", spec, "--tree", tree, "-o", plan, "--summary", summary).stderr
    assert "with delta = 1e-06, mu = 0.2367, rho = 0.02801" in printed
    assert "sigma of count: 10.35 (region), 7.317 (store)" in printed
    assert "sigma of revenue: 1035 (region), 731.7 (store)" in printed
    assert "at 4 keys per conversion Laplace is better" in printed
    facts = json.loads(summary.read_text())["plan"]
    assert facts["delta"] == 1e-6 and facts["other_noise"]["keys"] == 4
    invoke("report", plan, "-o", page)
    shown = page.read_text()
    assert "δ\u00a0=\u00a01e-06" in shown and "at 4 keys per conversion Laplace is better" in shown
    assert "but for a chance of 1e-06" in shown and "DLap" not in shown
    html = make_plan(asked(), asked().tree(TABLE))._repr_html_()
    assert "delta = 1e-06, mu = 0.4483" in html
