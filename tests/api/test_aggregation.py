"""Aggregation: sums by arrays are sums one by one; published batches; counts of all that was left out; noise."""

from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import attributary
from attributary.api.ara.service import aggregation, summary_report
from attributary.api.ara.service.summary_report import Index, distinct, grouped, measured, read_summary
from attributary.api.ara.wire import avro
from attributary.api.ara.wire.aggregatable_report import Report
from attributary.api.ara.wire.shared_info import shared_id
from attributary.errors import InputError
from attributary.noise import dlap_variance, sample_dlap
from attributary.noise.model import OnSums
from support.browser_reports import HOUR, PRIVATE, batch, info, report
from support.vectors import vectors

some_keys = st.sampled_from([0, 1, 2, 2**63, 2**64, 2**64 + 1, 2**127, 2**128 - 1])
values = st.sampled_from([0, 1, 65536, 2**32 - 1])
rows = st.lists(st.tuples(some_keys, values, st.integers(0, 2)), max_size=8)


def halves(keys: Any) -> Any:
    return np.array([(key >> 64, key & 2**64 - 1) for key in keys], np.uint64).reshape(-1, 2)


def big(keys: Any) -> list[int]:
    return [(int(high) << 64) | int(low) for high, low in keys]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "reports.avro"


@given(
    st.lists(st.tuples(st.integers(0, 6), rows), max_size=10),
    st.lists(some_keys, max_size=6),
    st.sets(st.integers(0, 2), min_size=1),
    st.booleans(),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_sums_are_those_of_one_by_one(path: Path, given: Any, domain: list[int], ids: set[int], sealed: bool) -> None:
    avro.write_reports(str(path), [report(number, found, sealed) for number, found in given])
    sums = aggregation.add_up([str(path)], halves(domain), PRIVATE if sealed else None, ids, outside=True)
    first: dict[int, Any] = {}
    for number, found in given:
        first.setdefault(number, found)
    real = [row for found in first.values() for row in found if row[:2] != (0, 0)]
    expected: Counter[int] = Counter()
    for key, value, filtering_id in real:
        if filtering_id in ids:
            expected[key] += value
    assert big(sums.keys) == list(dict.fromkeys(domain))
    assert sums.total.tolist() == [expected[key] for key in big(sums.keys)]
    assert sums.in_reports.tolist() == [key in expected for key in big(sums.keys)]
    outside = {key: total for key, total in expected.items() if key not in domain}
    assert dict(zip(big(sums.outside_keys), sums.outside_total.tolist(), strict=True)) == outside
    tally = sums.tally
    assert (tally.reports, tally.used, tally.repeated) == (len(given), len(first), len(given) - len(first))
    assert tally.nulls == sum(20 - len([row for row in found if row[:2] != (0, 0)]) for found in first.values())
    assert tally.filtered == sum(row[2] not in ids for row in real)
    assert tally.summed + tally.outside + tally.filtered == len(real)
    hours = {HOUR + 3600 * number for number in first}
    assert set(sums.shared) == {(shared_id(info().origin, hour, k), hour) for hour in hours for k in ids}


SAMPLE = ("sample-batch/output_debug_reports.avro", "sample-batch/output_domain.avro")
BATCHES = [
    ("batch-1/batch.avro", "batch-1/domain.avro", "batch-1/output.json", 6),
    (*SAMPLE, "sample-batch/aggregate_result.json", 2),
    (*SAMPLE, "sample-batch/output_reports.avro", 2),
]


@pytest.mark.parametrize(("reports", "domain", "expected", "number"), BATCHES)
def test_published_batches_sum_to_the_published_results(reports: str, domain: str, expected: str, number: int) -> None:
    folder = vectors("batch-1").parent
    sums = aggregation.add_up([str(folder / reports)], avro.read_domain(str(folder / domain)))
    known = read_summary(str(folder / expected))
    assert sums.tally.faulty == sums.tally.outside == 0 and len(known.keys) == number
    wanted = dict(zip(big(known.keys), known.metric.tolist(), strict=True))
    assert dict(zip(big(sums.keys), sums.total.tolist(), strict=True)) == wanted


@pytest.mark.parametrize("reports", ["batch-1/batch.avro", SAMPLE[0]])
@pytest.mark.parametrize("domain", ["batch-1/domain.avro", SAMPLE[1]])
def test_published_batches_are_answered_whatever_the_domain(reports: str, domain: str, tmp_path: Path) -> None:
    """As the service does: a domain that has no key of any report gets noise, and the batch is spent."""
    folder, ledger = vectors("batch-1").parent, str(tmp_path / "ledger.sqlite")
    how: dict[str, Any] = {"output": str(tmp_path / "summary.avro"), "epsilon": 4.0, "l1": 65536}
    done = attributary.aggregate(None, str(folder / reports), str(folder / domain), ledger, **how)
    assert len(done.sums) == len(done.keys) > 0 and done.shared_ids > 0 and not done.answered
    with pytest.raises(InputError, match="reports are aggregated once"):
        attributary.aggregate(None, str(folder / reports), done.keys[1:], ledger, **how)


def test_bad_reports_are_counted_and_the_first_told(path: Path) -> None:
    good = batch([[(1, 1)]] * 3)
    avro.write_reports(str(path), [Report("{", b"")] * 9 + good)
    sums = aggregation.add_up([str(path)], halves([1]))
    assert sums.total.tolist() == [3] and sums.tally.faulty == 9 and sums.tally.reports == 12
    assert len(sums.faults) == aggregation.FAULTS_KEPT and "report 1:" in sums.faults[0]


def test_a_bad_report_does_not_hide_a_good_one_of_its_id(path: Path) -> None:
    good = report(0, [(1, 7)])
    avro.write_reports(str(path), [Report(good.shared_info, b"\xff"), good, good])
    sums = aggregation.add_up([str(path)], halves([1]))
    assert sums.total.tolist() == [7] and (sums.tally.faulty, sums.tally.repeated) == (1, 1)


def test_sums_go_beyond_32_bits_and_never_wrap(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    avro.write_reports(str(path), batch([[(1, 2**32 - 1)] * 20] * 4))
    assert aggregation.add_up([str(path)], halves([1])).total.tolist() == [80 * (2**32 - 1)]
    monkeypatch.setattr(aggregation, "MOST", 80 * (2**32 - 1) - 1)
    with pytest.raises(ValueError, match="split the batch"):
        aggregation.add_up([str(path)], halves([1]))
    with pytest.raises(ValueError, match="does not fit 64 bits"):
        aggregation.noisy(np.array([0, 2**63 - 1]), np.array([0, 1]))
    with pytest.raises(ValueError, match="does not fit 64 bits"):
        aggregation.noisy(np.array([-(2**63)]), np.array([-1]))
    assert aggregation.noisy(np.array([5, 5, 5]), np.array([0, -7, 7])).tolist() == [5, -2, 12]


def test_every_key_of_the_domain_gets_the_noise_of_the_library(path: Path) -> None:
    avro.write_reports(str(path), batch([[(1, 5)]]))
    sums = aggregation.add_up([str(path)], halves(range(50)))
    noise = aggregation.draw(sums, 4, 65536, np.random.default_rng(1))
    assert np.array_equal(noise, sample_dlap(Fraction(4, 65536), 50, np.random.default_rng(1)))
    assert not np.array_equal(aggregation.draw(sums, 4, 65536), noise)


def test_keys_outside_the_domain_are_summed_over_many_parts(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aggregation.batch, "SHARE", 3)
    monkeypatch.setattr(avro, "REPORTS_IN_BLOCK", 2)
    avro.write_reports(str(path), batch([[(1, 1), (i % 7 + 2, i)] for i in range(40)]))
    sums = aggregation.add_up([str(path)], halves([1]), outside=True)
    wanted = {k + 2: sum(range(k, 40, 7)) for k in range(7)}
    assert dict(zip(big(sums.outside_keys), sums.outside_total.tolist(), strict=True)) == wanted
    assert sums.total.tolist() == [40] and sums.tally.outside == 40


def test_debug_results_hold_all_keys(path: Path) -> None:
    avro.write_reports(str(path), batch([[(1, 5), (9, 2)], [(9, 1)]]))
    sums = aggregation.add_up([str(path)], halves([1, 2]), outside=True)
    found = aggregation.debug_results(sums, np.array([10, -10]))
    assert (
        big(found.keys) == [1, 2, 9] and found.unnoised.tolist() == [5, 0, 3] and found.noise.tolist() == [10, -10, 0]
    )
    assert found.in_domain.tolist() == [True, True, False] and found.in_reports.tolist() == [True, False, True]


@given(st.lists(st.integers(0, 2**128 - 1) | some_keys, max_size=50), st.lists(some_keys, max_size=20))
def test_an_index_finds_what_a_dict_finds(keys: list[int], asked: list[int]) -> None:
    index = Index.of(halves(keys))
    once = list(dict.fromkeys(keys))
    assert big(index.keys) == once
    place = {key: i for i, key in enumerate(once)}
    assert index.find(halves(asked + keys)).tolist() == [place.get(key, -1) for key in asked + keys]
    found, where = distinct(halves(keys))
    assert big(found) == once and where.tolist() == [place[key] for key in keys]


def test_keys_that_share_a_hash_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    seeds = [7, 7, 8]
    monkeypatch.setattr(summary_report.secrets, "randbits", lambda _: seeds.pop(0))
    one = halves([5 << 64, 6 << 64])
    apart = summary_report._hashes(one, np.uint64(7))
    twins = np.array([[5, 0], [6, (int(apart[0]) - int(apart[1])) % 2**64]], np.uint64)
    assert len(set(summary_report._hashes(twins, np.uint64(7)).tolist())) == 1
    assert Index.of(twins[:1]).find(twins).tolist() == [0, -1]
    assert Index.of(twins).find(twins).tolist() == [0, 1] and not seeds


def test_simulation_equals_the_report_path_before_noise(path: Path) -> None:
    rng = np.random.default_rng(5)
    keys, contribution, count = list(range(1, 31)), rng.integers(1, 3000, 30), rng.poisson(4, 30)
    conversions = [k for k in range(30) for _ in range(count[k])]
    avro.write_reports(str(path), batch([[(keys[k], int(contribution[k]))] for k in conversions]))
    sums = aggregation.add_up([str(path)], halves(keys))
    assert np.array_equal(contribution * count, sums.total)
    noise = aggregation.draw(sums, 2, 65536, np.random.default_rng(3))
    simulated = OnSums(2, 65536).measure(count * 1.0, contribution * 2 / 65536, np.random.default_rng(3))
    assert np.array_equal(np.rint(simulated * contribution), aggregation.noisy(sums.total, noise))


def test_nodes_without_a_key_have_no_noise() -> None:
    found = OnSums(1).measure(np.array([3.0, 3, 3, 0]), np.array([0, 0.2, 0, 0.3]), np.random.default_rng(0))
    assert found[[0, 2]].tolist() == [0, 0] and found[1] != 3 and found[3] != 0


def written(path: Path, **found: int) -> Any:
    avro.write_results(str(path), halves([int(key[1:]) for key in found]), np.array(list(found.values()), np.int64))
    return read_summary(str(path))


def test_a_summary_report_measures_nodes(tmp_path: Path) -> None:
    one = written(tmp_path / "a.avro", k1=100, k2=-30, k8=5)
    two = written(tmp_path / "b.avro", k1=20, k2=10, k3=9)
    keys, contribution = halves([1, 2, 3, 0]), np.array([10, 5, 1, 0])
    var = dlap_variance(4 / 65536)
    found = measured(keys, contribution, [one], 4, 65536)
    assert found.noisy.tolist() == [10, -6, 0, 0]
    assert found.variance.tolist() == [var / 100, var / 25, np.inf, np.inf]
    assert (found.notes.missing, found.notes.unknown, found.notes.contradicted) == (1, 1, 0)
    both = measured(keys, contribution, [one, two], 4, 65536)  # different conversions: both add
    assert both.noisy.tolist() == [12, -4, 0, 0]
    assert both.variance.tolist() == [2 * var / 100, 2 * var / 25, np.inf, np.inf]
    assert both.notes.missing == 1  # node 3 is in one of them alone


def test_contradictions_are_counted_and_not_used(tmp_path: Path) -> None:
    written(tmp_path / "a-1-of-2.avro", k1=1, k2=2, k3=3)
    written(tmp_path / "a-2-of-2.avro", k3=4, k2=2, k4=4)
    both = read_summary(str(tmp_path))
    assert big(both.keys) == [1, 2, 4] and big(both.contradicted) == [3] and both.repeated == 1
    found = measured(halves([3, 4]), np.array([1, 1]), [both], 1, 65536)
    assert found.variance[0] == np.inf and found.noisy[1] == 4
    assert (found.notes.contradicted, found.notes.repeated, found.notes.unknown) == (1, 1, 2)


def test_shards_are_one_report_and_other_files_are_batches(tmp_path: Path) -> None:
    folder = tmp_path / "c"
    folder.mkdir()
    names = ["a-1-of-2.avro", "a-2-of-2.avro", "b.avro", "d.avro", "c/x.avro", "c/y.avro"]
    for name in names:
        (tmp_path / name).write_bytes(b"")
    given = [str(tmp_path / name) for name in ("a-1-of-2.avro", "b.avro", "a-2-of-2.avro", "d.avro", "c")]
    found = [[Path(path).name for path in report] for report in grouped(given)]
    assert found == [["a-1-of-2.avro", "a-2-of-2.avro"], ["b.avro"], ["d.avro"], ["x.avro", "y.avro"]]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "neither Avro nor JSON"),
        ("[" * 100_000, "neither Avro nor JSON"),
        ("{}", "its JSON is not a list"),
        ("[1]", "item 1 is not a result"),
        ('[{"bucket": "a", "metric": 1}, {"bucket": "a"}]', "item 2 is not a result"),
        ('[{"bucket": "a", "metric": 1.5}]', "item 1"),
        ('[{"bucket": "a", "metric": 9223372036854775808}]', "item 1"),
        ('[{"bucket": "ā", "metric": 1}]', "item 1"),
        ('[{"bucket": "12345678901234567", "metric": 1}]', "item 1"),
    ],
)
def test_json_that_is_no_summary_report_is_refused(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=message):
        read_summary(str(tmp_path / "s.json"))


def test_measuring_needs_a_report_and_keys_of_their_own(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="there is no summary report"):
        measured(halves([1]), np.array([1]), [], 1, 65536)
    with pytest.raises(ValueError, match="a key of its own"):
        measured(halves([1, 1]), np.array([1, 1]), [written(tmp_path / "a.avro", k1=1)], 1, 65536)


def test_aggregate_is_a_call_with_a_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the command does, from Python: written once, told in full, never answered twice."""
    monkeypatch.chdir(tmp_path)
    avro.write_reports("reports.avro", batch([[(1, 300), (9, 1)], [(2, 65536)]]))
    keys = halves([1, 2, 3])
    avro.write_domain("domain.avro", keys)
    how: dict[str, Any] = {"output": "summary.avro", "epsilon": 4.0, "l1": 65536}
    done = attributary.aggregate(None, "reports.avro", "domain.avro", "ledger.sqlite", **how)
    assert np.array_equal(done.keys, keys) and done.new_ledger and done.ledger == "ledger.sqlite"
    assert done.tally.used == 2 and not done.answered and not done.not_private
    told = (done.tally.summed, done.tally.nulls, done.tally.filtered, done.tally.outside)
    assert told == (None,) * 4  # exact numbers of contributions are for runs that are not private
    assert read_summary("summary.avro").metric.tolist() == done.sums.tolist()
    again = attributary.aggregate(None, ["reports.avro"], keys, "ledger.sqlite", **how)
    assert again.answered and len(again.sums) == 0 and not again.new_ledger
    with pytest.raises(InputError, match="reports are aggregated once"):
        attributary.aggregate(None, "reports.avro", keys, "ledger.sqlite", **{**how, "epsilon": 1.0})
    exact = attributary.aggregate(None, "reports.avro", keys, no_noise=True, **how)
    assert (
        exact.sums.tolist() == [300, 65536, 0]
        and exact.tally.outside == 1
        and exact.ledger is None
        and "NOT PRIVATE" in exact.not_private
    )
