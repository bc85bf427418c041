"""Aggregate results become measurements; whatever is wrong with a batch costs that batch alone."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from attributary import Estimate, Measurements, Plan, Tree, api, denoise, noise
from attributary.api.w3c.histogram_results import FIELD128, Batch
from attributary.api.w3c.page_calls import W3cClients
from attributary.errors import InputError
from attributary.measurements import chance_of_equal
from support.command import attributary
from support.effort import first_of
from support.w3c_devices import browse, ready, spec

SHARE = {"campaign": 0.2, "location": 0.3}


def laid_out(scheme: str = "B") -> tuple[W3cClients, Tree, list[dict[str, Any]]]:
    """A plan, and good results of its three batches."""
    clients, tree = ready(spec(scheme, day=True), SHARE)
    results = browse(clients, tree).results(np.random.default_rng(5), 2)
    assert [item["task"] for item in results] == ["location-v243105793", "day-v243105793", "day-v243105793"]
    return clients, tree, results


def measured(clients: W3cClients, tree: Tree, results: Any, folder: Path) -> tuple[Measurements, tuple[str, ...]]:
    path = folder / "results.json"
    path.write_text(json.dumps(results))
    answer = api.answer(clients.plan, [str(path)], tree)
    return answer.measures["count"], answer.notes


def test_sums_are_read_as_vectors_as_text_modulo_the_prime_or_in_shares(tmp_path: Path) -> None:
    clients, tree, results = laid_out()
    assert any(number < 0 for item in results for number in item["vector"])
    expected, notes = measured(clients, tree, results, tmp_path)
    assert notes == ("3 batches added up",)
    wrapped = [{**item, "vector": [number % FIELD128 for number in item["vector"]]} for item in results]
    text = [{**item, "vector": list(map(str, item["vector"]))} for item in wrapped]
    rng = np.random.default_rng(1)
    shares = []
    for item in results:
        first = [int.from_bytes(rng.bytes(16)) % FIELD128 for _ in item["vector"]]
        second = [(number - one) % FIELD128 for number, one in zip(item["vector"], first, strict=True)]
        shares.append(
            {**{key: item[key] for key in item if key != "vector"}, "shares": [first, list(map(str, second))]}
        )
    for form in (wrapped, text, shares, {"results": wrapped}):
        np.testing.assert_array_equal(measured(clients, tree, form, tmp_path)[0].noisy, expected.noisy)


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"report_count": 19}, "has a report_count of 19; a batch has at least 20 reports"),
    ({"report_count": None}, "has a report_count of"),
    ({"report_count": True}, "has a report_count of"),
    ({"task": "location-v2"}, "is of task 'location-v2'; the plan has location-v243105793, day-v243105793"),
    ({"task": ["day-v243105793"]}, "is of task"),
    ({"task": None}, "is of task"),
    ({"vector": [1, 2]}, "has 2 sums; its task has 24"),
    ({"vector": "1"}, "where a list of whole numbers is needed"),
    ({"vector": [0.5] * 24}, "where a whole number is needed"),
    ({"vector": ["x"] * 24}, "where a whole number is needed"),
    ({"vector": [FIELD128] * 23 + [-FIELD128]}, "shares must be from 0"),
    ({"vector": [2**100] * 24}, "has sums beyond"),
    ({"shares": [[1], [2]]}, "has neither a vector nor two shares, or has both"),
    ({"batch": {"day": "sun"}}, "has day = 'sun', which is not in its domain"),
    ({"batch": {"week": "1"}}, "batches of its task have day"),
    ({"batch": {}}, "batches of its task have day"),
    ({"batch": 7}, "batches of its task have day"),
]


@pytest.mark.parametrize(("change", "reason"), first_of(WRONG))
def test_a_batch_that_cannot_be_used_costs_itself_alone(change: dict[str, Any], reason: str, tmp_path: Path) -> None:
    clients, tree, results = laid_out()
    good, _ = measured(clients, tree, results, tmp_path)
    found, notes = measured(clients, tree, [*results[:2], {**results[2], **change}], tmp_path)
    (note,) = (note for note in notes if "result 3 is left out" in note)
    assert reason in note
    lost = found.variance == np.inf
    assert lost.sum() == 20  # the leaves of that day
    np.testing.assert_array_equal(found.noisy[~lost], good.noisy[~lost])
    np.testing.assert_array_equal(found.variance[~lost], good.variance[~lost])
    assert np.isfinite(denoise(tree, found.noisy, found.variance).count).all()


def test_batches_of_the_same_nodes_add_up_with_their_noise_and_copies_are_counted_once(tmp_path: Path) -> None:
    clients, tree, results = laid_out()
    again = [{**item, "vector": [number + 1 for number in item["vector"]]} for item in results]
    one, _ = measured(clients, tree, results, tmp_path)
    both, _ = measured(clients, tree, results + again, tmp_path)
    np.testing.assert_allclose(both.variance, 2 * one.variance)
    steps = clients.plan.spec.noise_model.steps(clients.plan.budget(tree))
    np.testing.assert_allclose(both.noisy, 2 * one.noisy + 1 / steps)
    copied, notes = measured(clients, tree, [*results, results[1]], tmp_path)
    np.testing.assert_array_equal(copied.noisy, one.noisy)
    assert "holds the same noisy sums as result 2 of " in notes[-1]


def test_a_batch_is_a_copy_by_its_noise_whatever_its_form(tmp_path: Path) -> None:
    clients, tree, results = laid_out()
    one, _ = measured(clients, tree, results, tmp_path)
    vector = results[1]["vector"]
    without = {key: value for key, value in results[1].items() if key != "vector"}
    ones = [1] * len(vector)
    for copy in (
        {**results[1], "vector": list(map(str, vector))},
        {**results[1], "vector": [number % FIELD128 for number in vector]},
        {**without, "shares": [ones, [(number - 1) % FIELD128 for number in vector]]},
        {**results[1], "id": 7},
        {**results[1], "report_count": results[1]["report_count"] + 1},
        {**results[1], "batch": results[2]["batch"]},
        {**results[1], "vector": [vector[0] + 1, *vector[1:]]},
    ):
        copied, notes = measured(clients, tree, [*results, copy], tmp_path)
        np.testing.assert_array_equal(copied.noisy, one.noisy)
        assert "result 4 is left out: it holds the same noisy sums as result 2 of " in notes[-1], (copy, notes)


def test_batches_of_few_equal_sums_with_little_noise_are_no_copies() -> None:
    def batch(*sums: float, day: int = 0) -> Batch:
        return Batch("", "t", np.arange(len(sums)) + day * len(sums), np.array(sums, float))

    for variance, number, copy in ((0.1, 20, False), (50.0, 3, False), (50.0, 20, True), (1e6, 4, True)):
        chance = np.full(2 * number, chance_of_equal(variance))
        one, other = batch(*[3.0] * number), batch(*[3.0] * number, day=1)
        assert one.repeats(other, chance) is copy and one.repeats(one, chance)


def test_a_small_vector_with_another_number_of_reports_is_the_same_one(tmp_path: Path) -> None:
    clients, tree, results = laid_out()
    tiny = [{**result, "vector": [2] * len(result["vector"])} for result in results[1:2]]
    _, notes = measured(clients, tree, [*tiny, {**tiny[0], "report_count": tiny[0]["report_count"] + 1}], tmp_path)
    assert "result 2 is left out: it holds the same noisy sums as result 1 of " in notes[-1]


def test_equal_noisy_numbers_are_as_likely_as_the_bound_says() -> None:
    rng = np.random.default_rng(4)
    for rate in (0.2, 1.0, 3.0):
        one, other = (noise.sample_dlap(rate, 200_000, rng) for _ in range(2))
        mode = chance_of_equal(noise.dlap_variance(rate))
        assert mode == pytest.approx((one == 0).mean(), rel=0.03)
        assert (one == other).mean() < mode


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ("7", "is not a list of results"),
        ("{}", "is not a list of results"),
        ("[]", "has no results"),
        ("[1]", "is not a JSON object"),
    ],
)
def test_files_without_a_usable_result_are_refused(text: str, words: str, tmp_path: Path) -> None:
    clients, tree, _ = laid_out()
    path = tmp_path / "results.json"
    path.write_text(text)
    with pytest.raises(InputError, match=words):
        api.answer(clients.plan, [str(path)], tree)


def test_what_does_not_go_with_the_plan_is_refused(tmp_path: Path) -> None:
    clients, tree, _ = laid_out()
    with pytest.raises(InputError, match="cannot be read"):
        api.answer(clients.plan, [str(tmp_path / "none.json")], tree)
    with pytest.raises(InputError, match="leave `noise` out"):
        api.answer(clients.plan, [], tree, (1.0, 1))
    with pytest.raises(InputError, match="has no indexes"):
        api.answer(clients.plan.model_copy(update={"layout": None}), [], tree)
    other = clients.plan.model_copy(update={"spec": clients.plan.spec.model_copy(update={"noise": "unit"})})
    with pytest.raises(InputError, match='has noise = "two-aggregators"; this one has "unit"'):
        api.answer(other, [], tree)


def test_from_results_to_estimates_and_a_page(tmp_path: Path) -> None:
    clients, tree, results = laid_out()
    plan, table, answer = tmp_path / "plan.json", tmp_path / "impressions.csv", tmp_path / "results.json"
    clients.plan.save(str(plan))
    table.write_text("campaign,location\n" + "".join(f"campaign{i},location{j}\n" for i in range(4) for j in range(5)))
    answer.write_text(json.dumps([*results, {**results[0], "report_count": 3}]))
    attributary("keys", plan, "--impressions", table, "-o", tmp_path / "keys")
    assert Plan.load(str(plan)).layout == clients.plan.layout  # all of them had an index
    out = tmp_path / "estimates.parquet"
    said = attributary("denoise", plan, answer, "--tree", tmp_path / "keys" / "tree.parquet", "-o", out).output
    assert "3 batches added up" in said and "result 4 is left out: it has a report_count of 3" in said
    page = tmp_path / "report.html"
    attributary("report", plan, out, "-o", page)
    words = page.read_text(encoding="utf-8")
    assert "Individual ε-DP for the impressions of one device" in words
    assert "Conversions are public" in words and "collude" in words
    assert "of ε\u00a0=\u00a02 per device, site and epoch" in words
    assert "counted conversion" not in words and "logged purchase" not in words
    loaded = Measurements.from_summary(clients.plan, str(answer), tree)
    estimate = denoise(loaded)
    assert isinstance(estimate, Estimate) and np.isfinite(estimate.variance).all()
