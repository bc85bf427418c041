"""Reports: JSON and back, encryption bound to its shared info, published ones, and files of them with faults."""

import base64
import builtins
import io
import json
import re
import sys
import tracemalloc
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch
from uuid import UUID

import cbor2
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from attributary.api.ara.service import batch as batches
from attributary.api.ara.service.batch import FAULTS_KEPT, ReportIds, Rules, parts
from attributary.api.ara.wire import avro, encryption, payload
from attributary.api.ara.wire.aggregatable_report import Report, build, from_json, to_json
from attributary.api.ara.wire.encryption import read_private_keys
from attributary.api.ara.wire.payload import Contribution
from attributary.api.ara.wire.shared_info import APIS, Fault, SharedInfo, identity, parse, shared_id
from attributary.errors import InputError
from support.browser_reports import HOUR, PRIVATE, batch, info, report
from support.effort import examples
from support.vectors import found, vectors

PUBLIC = encryption.public_key(PRIVATE)
TOO_OLD = "ORIGINAL_REPORT_TIME_TOO_OLD"
texts = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20)
times = st.integers(0, 2**40)
later = st.sampled_from(["0.1", "0.7", "1.0", "1.12"])
ids = st.uuids().map(str)
origins = st.sampled_from(
    ["https://report.test", "https://a.b.example:8080", "http://127.0.0.1", "adtech.com", "https://[::1]/"]
)
infos = st.one_of(
    st.builds(
        SharedInfo, ids, origins, times, texts, st.none() | times, later, st.booleans(), st.sampled_from([*APIS][:2])
    ),
    st.builds(
        SharedInfo, ids, origins, times, version=later, debug_mode=st.booleans(), api=st.sampled_from([*APIS][2:])
    ),
    st.builds(SharedInfo, ids, origins, times, version=st.just(""), api=st.just(""), privacy_budget_key=texts),
)


@given(infos)
def test_shared_info_goes_to_json_and_back(given: SharedInfo) -> None:
    text = given.to_json()
    assert parse(text) == given and list(json.loads(text)) == sorted(json.loads(text))
    assert identity(text) == (given.report_id, given.origin, given.scheduled_report_time, given.debug_mode)
    spaced = json.dumps(json.loads(text))
    assert identity(spaced) == identity(text) == identity(text.replace(given.report_id, given.report_id.upper()))


@given(infos, st.binary(max_size=50), st.none() | st.binary(max_size=50), texts)
def test_a_report_goes_to_json_and_back(given: SharedInfo, data: bytes, clear: bytes | None, key_id: str) -> None:
    one = Report(given.to_json(), data, key_id, clear, {"source_debug_key": "7"})
    assert from_json(to_json(one)) == one


@given(infos, st.binary(max_size=300), st.data())
def test_decrypting_inverts_encrypting_and_notices_any_change(
    given: SharedInfo, clear: bytes, data: st.DataObject
) -> None:
    text = given.to_json()
    sealed = encryption.encrypt(clear, text, PUBLIC, given.version)
    assert encryption.decrypt(sealed, text, PRIVATE, given.version) == clear
    changed = bytearray(sealed)
    changed[data.draw(st.integers(0, len(sealed) - 1))] ^= data.draw(st.integers(1, 127))  # bit 255 of a key is no part
    wrong = [
        (bytes(changed), text, PRIVATE, given.version),
        (sealed, text + " ", PRIVATE, given.version),
        (sealed, text, bytes(31) + b"\1", given.version),
        (sealed, text, PRIVATE, "" if given.version else "1.0"),
        (sealed[: data.draw(st.integers(0, len(sealed) - 1))], text, PRIVATE, given.version),
    ]
    for args in wrong:
        with pytest.raises(ValueError, match="does not decrypt|48 bytes at least"):
            encryption.decrypt(*args)


def test_a_built_report_is_what_a_browser_sends() -> None:
    rows = [Contribution(5, 3, 1), Contribution(2**127, 7)]
    one = build(rows, info(debug_mode=True), PUBLIC, "the-key", others={"source_debug_key": "1"})
    clear = encryption.decrypt(one.payload, one.shared_info, PRIVATE)
    assert clear == one.debug_cleartext_payload == payload.encode(rows)
    members = json.loads(to_json(one))
    assert members["aggregation_service_payloads"][0]["key_id"] == "the-key" and members["source_debug_key"] == "1"
    assert '"debug_mode":"enabled"' in members["shared_info"]
    plain = build(rows, info())
    assert plain.payload == clear and plain.debug_cleartext_payload is None and "debug_mode" not in plain.shared_info


def golden() -> list[Path]:
    """The golden reports of all APIs and versions that are there."""
    folders = ("golden-reports", "golden-private-aggregation")
    there = [path for folder in folders if (path := found(folder))]
    return sorted(path for folder in there for path in folder.rglob("report_*.json") if "_c" not in path.stem)


@pytest.mark.parametrize("path", golden(), ids=lambda path: "/".join(path.parts[-3:]))
def test_golden_reports_decrypt_and_come_back_as_they_were(path: Path) -> None:
    keys = str(vectors("golden-reports") / "GOLDEN_TEST_KEY.json")
    [clear] = json.loads(path.with_name(f"{path.stem}_cleartext_payloads.json").read_text())
    one = from_json(path.read_text())
    known = parse(one.shared_info)
    (key,) = read_private_keys([keys]).values()
    assert encryption.decrypt(one.payload, one.shared_info, key, known.version) == base64.b64decode(clear)
    assert json.loads(to_json(one)) == json.loads(path.read_text())
    assert known.to_json() == one.shared_info
    [part] = parts([str(path)], read_private_keys([keys]))
    rows = [row for row in payload.decode(base64.b64decode(clear)) if (row.key, row.value) != (0, 0)]
    assert part.report_ids == [known.report_id] and not part.categories
    assert part.columns.value.tolist() == [row.value for row in rows]
    assert part.shared == {(known.origin, known.hour)}


def test_golden_reports_of_every_api_and_version_are_there() -> None:
    vectors("golden-reports"), vectors("golden-private-aggregation")
    known = {(info.api, info.version) for path in golden() for info in [parse(from_json(path.read_text()).shared_info)]}
    versions = ("0.1", "1.0")
    assert known == {("", "")} | {(api, v) for v in versions for api in APIS if api != "attribution-reporting-debug"}
    assert len(golden()) >= 23


def test_reports_of_one_hour_share_an_id_and_others_do_not() -> None:
    def ident(filtering_id: int = 0, number: int = 0, **members: Any) -> bytes:
        one = info(number, **members)
        return shared_id(one.origin, one.hour, filtering_id)

    same = ident()
    assert ident(report_id="another", scheduled_report_time=HOUR + 3599, debug_mode=True) == same
    others = [
        ident(1),
        ident(scheduled_report_time=HOUR + 3600),
        ident(scheduled_report_time=HOUR - 1),
        ident(source_registration_time=None),
        ident(source_registration_time=0),
        ident(version="0.1"),
        ident(attribution_destination="https://other.test"),
        ident(reporting_origin="https://other.test"),
        ident(api="protected-audience"),
        ident(api="shared-storage"),
    ]
    assert len({same, *others}) == len(others) + 1 and len(same) == 32


@pytest.mark.parametrize("api", ["protected-audience", "shared-storage"])
def test_reports_of_private_aggregation_share_an_id_whatever_their_destination(api: str) -> None:
    plain = SharedInfo(info().report_id, info().reporting_origin, HOUR, api=api)
    with_more = info(api=api)
    assert "attribution_destination" not in plain.to_json() and "attribution_destination" in with_more.to_json()
    assert shared_id(plain.origin, plain.hour, 0) == shared_id(with_more.origin, with_more.hour, 0)
    assert identity(with_more.to_json())[1] == identity(plain.to_json())[1] == plain.origin


def changed(**members: Any) -> str:
    """The shared info of a good report with some members changed; None takes one away."""
    found = {**json.loads(info().to_json()), **members}
    return json.dumps({name: value for name, value in found.items() if value is not None})


LONG = "1" + "0" * 400
REFUSED: list[tuple[str, str, str]] = [
    ("{", "shared_info is not JSON", "DECRYPTION_ERROR"),
    ("[" * 100_000, "shared_info is not JSON", "DECRYPTION_ERROR"),
    ("9" * 10_000, "shared_info is not JSON", "DECRYPTION_ERROR"),
    ("[]", "shared_info is an object; got list", "DECRYPTION_ERROR"),
    *(
        (changed(version=v), f"begins with 0 or 1, as in 0.1 and 1.0; got {v!r}", "UNSUPPORTED_SHAREDINFO_VERSION")
        for v in (1, "3", "2.0", "0.0", "00.00", "1", "1.", "-1.0", "1.0\n", "10.0", [], {})
    ),
    *(
        (changed(report_id=v), "report_id of a report is a UUID; got", "INVALID_REPORT_ID")
        for v in (None, "", 1, "an-id", "21abd97f-73e8-4b88-9389-a9fee6abda5", "21abd97f73e84b889389a9fee6abda5e", [[]])
    ),
    *(
        (changed(api=v), "the api of a report is one of attribution-", "UNSUPPORTED_REPORT_API_TYPE")
        for v in ("x", "fledge", "Attribution-Reporting", "x" * 10_000)
    ),
    *((changed(api=v), "api, a text; got", "REQUIRED_SHAREDINFO_FIELD_INVALID") for v in (None, "", 3)),
    *(
        (
            changed(attribution_destination=v),
            "attribution_destination, a text; got",
            "REQUIRED_SHAREDINFO_FIELD_INVALID",
        )
        for v in (None, "", 3, "\ud800")
    ),
    *(
        (changed(reporting_origin=v), "reporting_origin, a text; got", "REQUIRED_SHAREDINFO_FIELD_INVALID")
        for v in (None, "", 3)
    ),
    *(
        (changed(reporting_origin=v), "is the address of a host; got", "ATTRIBUTION_REPORT_TO_MALFORMED")
        for v in ("https://", "a b", "https://x/path", "ftp://x", "https://\x01", "https://" + "a." * 1000, "x..y")
    ),
    *(
        (changed(scheduled_report_time=v), "in seconds since 1970; got", "REQUIRED_SHAREDINFO_FIELD_INVALID")
        for v in (None, "x", True, float("nan"), -1, 10**400, LONG, [], "1e400")
    ),
    (changed(source_registration_time="x"), "source_registration_time in seconds", "REQUIRED_SHAREDINFO_FIELD_INVALID"),
]


@pytest.mark.parametrize(("text", "message", "category"), REFUSED)
def test_shared_info_that_is_none_is_refused(text: str, message: str, category: str) -> None:
    for read in (parse, identity):
        with pytest.raises(Fault, match=re.escape(message)) as raised:
            read(text)
        assert raised.value.category == category and len(str(raised.value)) < 250


@pytest.mark.parametrize("sealed", [False, True])
def test_refused_reports_are_counted_by_category(tmp_path: Path, sealed: bool) -> None:
    good = batch([[(1, 10 + i)] for i in range(3)], sealed=sealed)
    text, sum_up = info(7).to_json(), payload.encode([]).replace(b"histogram", b"summation")
    bad = [Report(shared, good[0].payload, good[0].key_id) for shared, _, _ in REFUSED]
    bad.append(Report(text, encryption.encrypt(sum_up, text, PUBLIC) if sealed else sum_up))
    other = info(8, reporting_origin="https://other.test").to_json()
    bad.append(Report(other, good[0].payload))
    path = tmp_path / "r.jsonl"
    path.write_text("\n".join(map(to_json, [*good, *bad])))
    found = list(parts([str(path)], PRIVATE if sealed else None))
    counted = sum((part.categories for part in found), Counter())
    expected = Counter(category for _, _, category in REFUSED)
    assert counted == expected + Counter(["UNSUPPORTED_OPERATION", "REPORTING_SITE_MISMATCH"])
    assert [v for part in found for v in part.columns.value.tolist()] == [10, 11, 12]
    assert all(len(part.faults) <= FAULTS_KEPT for part in found)


def test_rules_choose_reports_by_site_age_and_debug_mode(tmp_path: Path) -> None:
    origins = ["https://a.adtech.test", "https://b.adtech.test", "https://other.test"]
    some = [
        report(number, [(1, 2**number)], reporting_origin=origin, debug_mode=number % 2 == 0)
        for number, origin in enumerate([origins[2], *origins[:2] * 2, origins[2]])
    ]
    (tmp_path / "r.jsonl").write_text("\n".join(map(to_json, some)))

    def values(**rules: Any) -> tuple[list[int], dict[str, int]]:
        [part] = parts([str(tmp_path)], rules=Rules(**rules))
        return part.columns.value.tolist(), dict(part.categories)

    assert values() == ([2, 4, 8, 16], {"REPORTING_SITE_MISMATCH": 2})
    assert values(reporting_site="https://other.test") == ([1, 32], {"REPORTING_SITE_MISMATCH": 4})
    assert values(reporting_site="https://c.adtech.test/")[0] == [2, 4, 8, 16]
    assert values(debug=True) == ([4, 16], {"REPORTING_SITE_MISMATCH": 2, "DEBUG_NOT_ENABLED": 2})
    assert values(since=HOUR + 3 * 3600)[0] == [8, 16] and values(since=HOUR + 3 * 3600)[1][TOO_OLD] == 2


def test_one_report_of_another_site_does_not_cost_the_others_wherever_it_is(tmp_path: Path) -> None:
    avro.write_reports(str(tmp_path / "a.avro"), [report(99, [(1, 1)], reporting_origin="https://other.test")])
    avro.write_reports(str(tmp_path / "b.avro"), batch([[(1, 10)]] * 30))
    found = list(parts([str(tmp_path)]))
    assert sum(part.columns.value.sum() for part in found) == 300
    assert sum((part.categories for part in found), Counter()) == {"REPORTING_SITE_MISMATCH": 1}


def test_ids_in_capitals_are_the_same_ids(tmp_path: Path) -> None:
    one = report(0xABC, [(1, 5)])
    again = Report(one.shared_info.replace("abc", "ABC"), one.payload)
    avro.write_reports(str(tmp_path / "r.avro"), [one, again])
    [part] = parts([str(tmp_path / "r.avro")])
    assert ReportIds().add(part.report_ids).tolist() == [True, False]


BODY = {"payload": "AAAA", "key_id": "k"}


def with_body(*bodies: Any) -> dict[str, Any]:
    return {"shared_info": "", "aggregation_service_payloads": list(bodies)}


@pytest.mark.parametrize(
    ("members", "message"),
    [
        ([], "a report is an object; got list"),
        ({}, "shared_info, a text of JSON; got None"),
        ({"shared_info": {}}, "shared_info, a text of JSON"),
        ({"shared_info": ""}, "a list of one object; got None"),
        (with_body(), "a list of one object"),
        (with_body(1), "a list of one object"),
        (with_body(BODY, BODY), "a list of one object"),
        (with_body({"key_id": "k"}), "the payload of a report is base64; got None"),
        (with_body({**BODY, "payload": "A"}), "the payload of a report is base64:"),
        (with_body({**BODY, "payload": "AA*="}), "is base64"),
        (with_body({**BODY, "payload": "ü"}), "is base64"),
        (with_body({**BODY, "key_id": 1}), "the key_id of a report is a text; got 1"),
        (with_body({**BODY, "debug_cleartext_payload": 1}), "the debug_cleartext_payload of a report is base64; got 1"),
    ],
)
def test_what_is_no_report_is_refused(members: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        from_json(json.dumps(members))


def test_what_is_no_json_is_refused() -> None:
    words = ("Expecting property name", "'utf-8' codec", "it is nested too deeply", "a number has thousands of digits")
    for text, why in zip(("{", b"\xff", "[" * 100_000, '{"a": ' + "9" * 5000), words, strict=True):
        with pytest.raises(ValueError, match=f"the report is not JSON: {why}"):
            from_json(text)


@given(st.data())
@settings(max_examples=examples(200))
def test_mutated_reports_are_read_or_refused(data: st.DataObject) -> None:
    text = bytearray(to_json(report(1, [(1, 2)], sealed=True, debug_mode=True)).encode())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(text)))
        text[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    with suppress(ValueError):  # and nothing else
        one = from_json(bytes(text))
        encryption.decrypt(one.payload, one.shared_info, PRIVATE, parse(one.shared_info).version)


@given(st.data())
@settings(max_examples=examples(50), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_mutated_line_costs_itself_alone(tmp_path: Path, data: st.DataObject) -> None:
    lines = [to_json(one) for one in batch([[(1, 10 + i)] for i in range(3)], debug_mode=True)]
    cut = lines[1][: data.draw(st.integers(1, len(lines[1]) - 1))]
    lines[1] = cut + data.draw(st.text(st.characters(codec="ascii", exclude_characters="\n\r}"), max_size=3))
    (tmp_path / "r.jsonl").write_text("\n".join(lines))
    values, faults = read_all(tmp_path / "r.jsonl")
    assert values == [10, 12] and len(faults) == 1 and "r.jsonl: line 2: " in faults[0]


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text('ab"\\\\[]{},é\n\ud83d', max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text('a"]}', max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(st.lists(json_values, max_size=6), st.integers(3, 40), st.sampled_from([None, 1]), st.booleans())
@example([{"": ["\ud83d"]}, None], 17, None, False)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_items_of_a_list_are_those_that_json_reads(
    monkeypatch: pytest.MonkeyPatch, items: list[Any], chunk: int, indent: int | None, ascii_only: bool
) -> None:
    monkeypatch.setattr(batches, "CHUNK", chunk)
    text = json.dumps(items, indent=indent, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    found = list(batches._items(io.BytesIO(b"\n " + text + b" \n"), "r.json"))
    read = [item if isinstance(item, dict) else json.loads(item.encode("utf-8", "surrogateescape")) for item in found]
    assert read == json.loads(text)


@pytest.mark.parametrize("chunk", [5, 64, 10**6])
def test_one_bad_item_of_a_list_costs_itself_alone(tmp_path: Path, chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "CHUNK", chunk)
    monkeypatch.setattr(batches, "MOST_REPORT", 5000)
    good = [to_json(one) for one in batch([[(1, 10 + i)] for i in range(3)])]
    long = '{"a": "' + "x\\\\" * 4000 + '\\""}'
    bad = [
        "1",
        "",
        '"a, ]b"',
        "[[1, 2], {}]",
        "nonsense",
        '{"a": \xff}',
        "[" * 2000 + "]" * 2000,
        '{"a": "\\ud800"}',
        long,
    ]
    path = tmp_path / "r.json"
    for place in range(3):
        texts = [*good[:place], *bad, *good[place:]]
        path.write_bytes(("[" + " ,\n".join(texts) + "]").encode("latin-1"))
        [part] = parts([str(path)])
        assert part.columns.value.tolist() == [10, 11, 12] and part.categories == {"DECRYPTION_ERROR": len(bad)}
        assert part.faults[0].startswith(f"{path}: report {place + 1}: a report is an object; got int")
    path.write_text("[" + ",".join([long, good[0]]) + "]")
    [part] = parts([str(path)])
    assert part.columns.value.tolist() == [10]
    assert ("5,000 bytes at most" if chunk < 5000 else "shared_info") in part.faults[0]


def test_a_long_text_is_looked_through_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each part that is read has a text searched for its end from its beginning: as many as it has bits, not bytes."""
    monkeypatch.setattr(batches, "CHUNK", 16)
    reads: list[int] = []

    class File(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            reads.append(size or 0)
            return super().read(size)

    text = json.dumps(["x" * 2**16, 1]).encode()
    assert [len(str(item)) for item in batches._items(File(text), "r.json")] == [2**16 + 2, 2]
    assert len(reads) < 20


@pytest.mark.parametrize("layout", ["{0}", "[{0}, {1}]", "{0}\n{1}"])
def test_a_byte_order_mark_before_json_is_passed_over(tmp_path: Path, layout: str) -> None:
    texts = [to_json(one) for one in batch([[(1, 10)], [(1, 11)]])]
    path = tmp_path / "r.json"
    path.write_text(layout.format(*texts), encoding="utf-8-sig")
    [part] = parts([str(path)])
    assert part.columns.value.tolist() == [10, 11][: 1 + ("{1}" in layout)] and not part.categories


def test_a_long_list_takes_little_memory(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    one = json.dumps({**json.loads(to_json(report(0, [(1, 1)]))), "more": "x" * 3000})
    path.write_text("[" + ",".join([one] * 5000) + "]")
    assert path.stat().st_size > 2**24
    tracemalloc.start()
    try:
        assert sum(1 for _ in batches.reports_of(str(path))) == 5000
        assert tracemalloc.get_traced_memory()[1] < 2**22
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", ["r.json", "r.jsonl", "r"])
def test_a_bad_first_line_costs_itself_alone(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "MOST_REPORT", 5000)
    lines = [to_json(one) for one in batch([[(1, 10 + i)] for i in range(2)])]
    for bad in (lines[0][:-5], "{", "{" + "x" * 20_000, *(["nonsense", "[1, 2"] if name == "r.jsonl" else [])):
        (tmp_path / name).write_text("\n".join([bad, "", *lines]))
        values, [fault] = read_all(tmp_path / name)
        assert values == [10, 11] and f"{name}: line 1: " in fault


odd_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.binary(max_size=20) | st.text(max_size=9),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["data", "operation", "bucket", "value", "id"]), inner, max_size=3)
    ),
    max_leaves=8,
)
odd_payloads = st.one_of(
    st.binary(max_size=100),
    odd_values.map(cbor2.dumps),
    odd_values.map(lambda data: cbor2.dumps({"operation": "histogram", "data": data})),
    st.builds(
        lambda at, more: (good := payload.encode([Contribution(5, 7)]))[:at] + more + good[at + len(more) :],
        st.integers(0, 950),
        st.binary(min_size=1, max_size=4),
    ),
)
odd_members = st.dictionaries(
    st.sampled_from([*json.loads(info().to_json())]), json_values | st.just("https://report.test"), max_size=2
)
odd_infos = odd_members.map(lambda members: json.dumps({**json.loads(info(77).to_json()), **members})) | st.text(
    max_size=20
)


@given(
    odd_payloads,
    odd_infos,
    st.text(max_size=5),
    st.integers(0, 3),
    st.booleans(),
    st.sampled_from(["r.avro", "r.jsonl", "r.json"]),
)
@settings(max_examples=examples(300), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_one_report_in_a_batch_costs_itself_alone(
    tmp_path: Path, clear: bytes, text: str, key_id: str, place: int, sealed: bool, name: str
) -> None:
    good = batch([[(1, 2**40 // 2**9 + i)] for i in range(3)], sealed=sealed)
    bad = Report(text, encryption.encrypt(clear, text, PUBLIC) if sealed else clear, key_id)
    batched = [*good[:place], bad, *good[place:]]
    path = tmp_path / name
    if name == "r.avro":
        avro.write_reports(str(path), batched)
    else:
        texts = [to_json(one) for one in batched]
        path.write_text("\n".join(texts) if name == "r.jsonl" else f"[{', '.join(texts)}]")
    [part] = parts([str(path)], PRIVATE if sealed else None)
    assert {2**31, 2**31 + 1, 2**31 + 2} <= set(part.columns.value.tolist())
    usable = [number for number, report_id in enumerate(part.report_ids) if report_id is not None]
    assert len(usable) + part.categories.total() == 4 and part.categories.total() == len(part.faults)
    assert all(len(fault) < 400 + len(str(path)) for fault in part.faults)


def read_all(*paths: Path, key: bytes | None = None) -> tuple[list[int], list[str]]:
    """The values of all contributions, and what was wrong."""
    found = list(parts([str(path) for path in paths], key))
    return [v for part in found for v in part.columns.value.tolist()], [f for part in found for f in part.faults]


def test_every_kind_of_file_is_read(tmp_path: Path) -> None:
    reports = batch([[(1, 10 + i)] for i in range(4)], debug_mode=True)
    avro.write_reports(str(tmp_path / "a.avro"), reports)
    (tmp_path / "one.json").write_text(to_json(reports[0]))
    (tmp_path / "indented.json").write_text(json.dumps(json.loads(to_json(reports[1])), indent=2))
    (tmp_path / "list.json").write_text("[" + ",\n".join(map(to_json, reports)) + "]")
    (tmp_path / "lines.jsonl").write_text("\n".join(map(to_json, reports)) + "\n\n")
    for name, values in {
        "a.avro": [10, 11, 12, 13],
        "one.json": [10],
        "indented.json": [11],
        "list.json": [10, 11, 12, 13],
        "lines.jsonl": [10, 11, 12, 13],
    }.items():
        assert read_all(tmp_path / name) == (values, []), name
    assert len(read_all(tmp_path)[0]) == 14  # a folder
    assert read_all(tmp_path / "*.avro", tmp_path / "a.avro") == ([10, 11, 12, 13], [])  # a pattern; no file twice


def test_without_a_key_what_is_in_the_clear_is_read(tmp_path: Path) -> None:
    one = report(0, [(1, 5)], sealed=True, debug_mode=True)
    (tmp_path / "r.json").write_text(to_json(one))
    assert read_all(tmp_path / "r.json") == ([5], []) == read_all(tmp_path / "r.json", key=PRIVATE)
    avro.write_reports(str(tmp_path / "r.avro"), [one])  # which holds no cleartext
    values, [fault] = read_all(tmp_path / "r.avro")
    assert values == [] and "r.avro: report 1: the payload " in fault and "give their key" in fault


def test_a_bad_report_costs_itself_alone(tmp_path: Path) -> None:
    good = batch([[(1, 10 + i)] for i in range(3)], sealed=True)
    bad = {
        "shared_info is not JSON": Report("{", good[0].payload),
        "does not decrypt": Report(good[0].shared_info, good[1].payload),
        "48 bytes at least": Report(good[0].shared_info, b"short"),
        "not CBOR": Report(t := info(9).to_json(), encryption.encrypt(b"\xff", t, PUBLIC)),
    }
    avro.write_reports(str(tmp_path / "r.avro"), [good[0], *bad.values(), *good[1:]])
    values, faults = read_all(tmp_path / "r.avro", key=PRIVATE)
    assert values == [10, 11, 12] and len(faults) == 4
    for number, words in enumerate(bad, 2):
        assert any(f"r.avro: report {number}: " in fault and words in fault for fault in faults), words
    lines = [to_json(good[0]), "nonsense", '{"a": 1}', to_json(good[1])]
    (tmp_path / "r.jsonl").write_text("\n".join(lines))
    values, faults = read_all(tmp_path / "r.jsonl", key=PRIVATE)
    assert values == [10, 11] and [fault.split(": ")[1] for fault in faults] == ["line 2", "line 3"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty; reports are Avro or JSON"),
        (b"id,value\n", "neither Avro nor JSON"),
        (b"[1, 2", "is not JSON"),
        (b"Obj\x01", "its header is damaged"),
        (None, "there is no file"),
    ],
)
def test_files_that_hold_no_reports_are_refused(content: bytes | None, message: str, tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError, match=message):
        list(parts([str(path)]))


def test_a_folder_without_reports_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("x")
    with pytest.raises(InputError, match="has no file that ends in .avro"):
        list(parts([str(tmp_path)]))
    with pytest.raises(InputError, match="no file is"):
        list(parts([str(tmp_path / "*.avro")]))


@settings(max_examples=examples(60), deadline=None)
@given(numbers=st.lists(st.lists(st.none() | st.integers(0, 30), max_size=9), max_size=9), few=st.integers(0, 9))
def test_report_ids_are_told_apart_and_kept_in_order(numbers: list[list[int | None]], few: int) -> None:
    """As a set of texts would; some ids begin or end with zeros."""
    seen, known = ReportIds(), set[str]()
    with patch.object(batches, "FEW", few):
        for some in numbers:
            ids = [None if i is None else str(UUID(int=i << (8 * (i % 16)))) for i in some]
            new = [one is not None and one not in {*known, *ids[:i]} for i, one in enumerate(ids)]
            assert seen.add(ids).tolist() == new
            known |= {one for one in ids if one is not None}
            assert len(seen) == len(known)
    assert list(seen) == sorted(known)


@pytest.mark.sweep
@pytest.mark.parametrize("sealed", [True, False])
def test_processes_give_what_one_gives(sealed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "IN_CLEAR", 0)
    path = str(tmp_path / "r.avro")
    text = info().to_json()
    clear = payload.encode([Contribution(1, 2)])
    many = [Report(text, encryption.encrypt(clear, text, PUBLIC) if sealed else clear)] * 8400
    many[4000] = Report(text, b"")
    avro.write_reports(path, many)
    one, two = (list(parts([path], PRIVATE if sealed else None, processes)) for processes in (1, 2))
    assert (
        [len(part.report_ids) for part in one]
        == [len(part.report_ids) for part in two]
        == [2048, 2048 - sealed, 2048, 2048, 208]
    )
    assert [part.faults for part in one] == [part.faults for part in two]
    assert "report 4001" in two[1].faults[0]
    assert all(a.columns.value.tolist() == b.columns.value.tolist() for a, b in zip(one, two, strict=True))


OTHER = bytes(range(1, 33))
IN_BASE64 = base64.b64encode(PRIVATE).decode()
IN_URL = base64.urlsafe_b64encode(OTHER).decode().rstrip("=")
KEY_FILES: list[tuple[Any, dict[str, bytes]]] = [
    (PRIVATE, {"": PRIVATE}),
    (base64.b64encode(PRIVATE) + b"\n", {"": PRIVATE}),
    (PRIVATE.hex().encode(), {"": PRIVATE}),
    ({"private_key_base64": IN_BASE64, "comment": "a test"}, {"": PRIVATE}),
    ({"private_key_base64": IN_BASE64, "key_id": "k"}, {"k": PRIVATE}),
    ([{"private_key": IN_BASE64, "key_id": "k"}, {"private_key": IN_URL, "id": "l"}], {"k": PRIVATE, "l": OTHER}),
    ({"keys": [{"kty": "OKP", "crv": "X25519", "d": IN_URL, "kid": "k", "x": "y"}]}, {"k": OTHER}),
    ({"k": IN_BASE64, "l": OTHER.hex()}, {"k": PRIVATE, "l": OTHER}),
]
NO_KEYS: list[Any] = [
    *(b"", b"x" * 31, b"\xc3\xa9" * 33, b"g" * 64, base64.b64encode(b"x" * 33), b"{", b"[" * 10**5, b"[" + b"9" * 5000),
    *({}, [], [1], [[]], {"keys": []}, {"keys": {}}, {"k": 1}, {"k": IN_BASE64, "l": "x"}, {"private_key": 3}),
    {"keys": [{"id": "k", "key": IN_BASE64}]},  # which are public ones
]


def test_keys_are_read_from_files(tmp_path: Path) -> None:
    path = tmp_path / "the-key.json"
    for content, expected in KEY_FILES:
        path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
        assert read_private_keys([str(path)]) == expected
        named = {name or "the-key": key for name, key in expected.items()}
        assert read_private_keys([str(tmp_path)]) == read_private_keys([str(path), str(path)]) == named
    for content in NO_KEYS:
        path.write_bytes(content if isinstance(content, bytes) else json.dumps(content).encode())
        with pytest.raises(InputError, match="is not a private key"):
            read_private_keys([str(path)])
    with pytest.raises(InputError, match="cannot be read: No such file"):
        read_private_keys([str(tmp_path / "none")])
    (tmp_path / "k").write_bytes(PRIVATE)
    path.write_text(json.dumps({"k": OTHER.hex()}))
    with pytest.raises(InputError, match="two private keys have the id 'k'"):
        read_private_keys([str(tmp_path)])
    path.unlink(), (tmp_path / "k").unlink()
    with pytest.raises(InputError, match="has no file in it"):
        read_private_keys([str(tmp_path)])


def test_reports_are_opened_with_the_key_that_they_name(tmp_path: Path) -> None:
    def sealed(number: int, key: bytes, key_id: str) -> Report:
        return build([Contribution(1, 2**number)], info(number), encryption.public_key(key), key_id)

    some = [sealed(0, PRIVATE, "k"), sealed(1, OTHER, "l"), sealed(2, OTHER, "k"), sealed(3, OTHER, "m")]
    avro.write_reports(str(tmp_path / "r.avro"), some)
    (tmp_path / "r.jsonl").write_text("\n".join(map(to_json, some)))
    for name in ("r.avro", "r.jsonl"):
        [part] = parts([str(tmp_path / name)], {"k": PRIVATE, "l": OTHER})
        assert part.columns.value.tolist() == [1, 2]
        assert part.categories == {"DECRYPTION_ERROR": 1, "DECRYPTION_KEY_NOT_FOUND": 1}
        assert "there is no private key with its key_id 'm'" in part.faults[1]
        [part] = parts([str(tmp_path / name)], {"k": PRIVATE, "": OTHER})  # one for all others
        assert part.columns.value.tolist() == [1, 2, 8] and part.categories == {"DECRYPTION_ERROR": 1}


def test_a_key_of_another_size_is_refused() -> None:
    for call in (lambda: encryption.encrypt(b"", "", b"1"), lambda: encryption.public_key(b"1")):
        with pytest.raises(InputError, match="key has 32 bytes"):
            call()


def test_without_cryptography_the_remedy_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def missing(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.startswith("cryptography"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    for name in [name for name in sys.modules if name.startswith("cryptography.hazmat.primitives.hpke")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(builtins, "__import__", missing)
    encryption._suite.cache_clear()
    with pytest.raises(InputError, match=r"pip install 'attributary\[decrypt\]'"):
        encryption.encrypt(b"", "", PUBLIC)
