"""Reports: JSON and back, encryption bound to its shared info, published ones, and files of them with faults."""

import base64
import builtins
import json
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from attributary.ara.service.batch import parts
from attributary.ara.wire import avro, encryption, payload
from attributary.ara.wire.contribution import Contribution
from attributary.ara.wire.private_key import read_private_key
from attributary.ara.wire.report import Report, build, from_json, to_json
from attributary.ara.wire.shared_info import SharedInfo, identity, parse, shared_id
from attributary.errors import InputError
from browser_reports import HOUR, PRIVATE, batch, info, report
from vectors import vectors

PUBLIC = encryption.public_key(PRIVATE)
texts = st.text(st.characters(codec="utf-8"), max_size=20)
times = st.integers(0, 2**40)
later = st.sampled_from(["0.1", "1.0"])
infos = st.one_of(
    st.builds(SharedInfo, texts, texts, times, texts, st.none() | times, later, st.booleans()),
    st.builds(SharedInfo, texts, texts, times, version=st.just(""), api=st.just(""), privacy_budget_key=texts),
)


@given(infos)
def test_shared_info_goes_to_json_and_back(given: SharedInfo) -> None:
    text = given.to_json()
    assert parse(text) == given and list(json.loads(text)) == sorted(json.loads(text))
    assert identity(text) == (given.report_id, given.version, given.origin, given.hour)
    spaced = json.dumps(json.loads(text))
    assert identity(spaced) == identity(text)


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


GOLDEN = [
    *(("latest", n) for n in (1, 3, 5, 7, 9)),
    *(("version_", n) for n in (1, 3, 5)),
    *(("version_0.1", n) for n in (1, 3, 5, 7, 9)),
]


@pytest.mark.parametrize(("version", "number"), GOLDEN)
def test_golden_reports_decrypt_and_come_back_as_they_were(version: str, number: int) -> None:
    folder = vectors("golden-reports")
    key = base64.b64decode(json.loads((folder / "GOLDEN_TEST_KEY.json").read_text())["private_key_base64"])
    text = (folder / version / f"report_{number}.json").read_text()
    [clear] = json.loads((folder / version / f"report_{number}_cleartext_payloads.json").read_text())
    one = from_json(text)
    known = parse(one.shared_info)
    assert encryption.decrypt(one.payload, one.shared_info, key, known.version) == base64.b64decode(clear)
    assert json.loads(to_json(one)) == json.loads(text)
    assert known.to_json() == one.shared_info


def test_all_golden_reports_are_tried() -> None:
    there = {(path.parent.name, int(path.stem[7:])) for path in vectors("golden-reports").glob("*/report_?.json")}
    assert there == set(GOLDEN)


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
    ]
    assert len({same, *others}) == len(others) + 1 and len(same) == 32


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "shared_info is not JSON"),
        ("[" * 100_000, "shared_info is not JSON"),
        ("[]", "shared_info is an object; got list"),
        ('{"version": 1}', "version, a text; got 1"),
        ('{"version": "3"}', "one of '', '0.1', '1.0'; got '3'"),
        ('{"version": "1.0"}', "report_id, a text; got None"),
        ('{"report_id": "a", "reporting_origin": "b", "scheduled_report_time": "x"}', "in seconds since 1970; got 'x'"),
        ('{"report_id": "a", "reporting_origin": "b", "scheduled_report_time": true}', "got True"),
        ('{"report_id": "a", "reporting_origin": "b", "scheduled_report_time": NaN}', "got nan"),
        ('{"report_id": "a", "reporting_origin": "b", "scheduled_report_time": -1}', "got -1"),
        ('{"report_id": "a", "reporting_origin": "b", "scheduled_report_time": 1' + "0" * 400 + "}", "since 1970"),
    ],
)
def test_shared_info_that_is_none_is_refused(text: str, message: str) -> None:
    for read in (parse, identity):
        with pytest.raises(ValueError, match=message):
            read(text)


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
    for text in ("{", b"\xff", "[" * 100_000):
        with pytest.raises(ValueError, match="the report is not JSON"):
            from_json(text)


@given(st.data())
@settings(max_examples=200)
def test_mutated_reports_are_read_or_refused(data: st.DataObject) -> None:
    text = bytearray(to_json(report(1, [(1, 2)], sealed=True, debug_mode=True)).encode())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(text)))
        text[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    with suppress(ValueError):  # and nothing else
        one = from_json(bytes(text))
        encryption.decrypt(one.payload, one.shared_info, PRIVATE, parse(one.shared_info).version)


@given(st.data())
@settings(max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_mutated_line_costs_itself_alone(tmp_path: Path, data: st.DataObject) -> None:
    lines = [to_json(one) for one in batch([[(1, 10 + i)] for i in range(3)], debug_mode=True)]
    cut = lines[1][: data.draw(st.integers(1, len(lines[1]) - 1))]
    lines[1] = cut + data.draw(st.text(st.characters(codec="ascii", exclude_characters="\n\r}"), max_size=3))
    (tmp_path / "r.jsonl").write_text("\n".join(lines))
    values, faults = read_all(tmp_path / "r.jsonl")
    assert values == [10, 12] and len(faults) == 1 and "r.jsonl: line 2: " in faults[0]


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


def test_processes_give_what_one_gives(tmp_path: Path) -> None:
    path = str(tmp_path / "r.avro")
    text = info().to_json()
    sealed = encryption.encrypt(payload.encode([Contribution(1, 2)]), text, PUBLIC)
    many = [Report(text, sealed)] * 8400
    many[4000] = Report(text, b"")
    avro.write_reports(path, many)
    one, two = (list(parts([path], PRIVATE, processes)) for processes in (1, 2))
    assert (
        [len(part.report_ids) for part in one]
        == [len(part.report_ids) for part in two]
        == [2048, 2047, 2048, 2048, 208]
    )
    assert [part.faults for part in one] == [part.faults for part in two]
    assert "report 4001" in two[1].faults[0]
    assert all(a.columns.value.tolist() == b.columns.value.tolist() for a, b in zip(one, two, strict=True))


def test_keys_are_read_from_files(tmp_path: Path) -> None:
    path = tmp_path / "key"
    for content in (PRIVATE, base64.b64encode(PRIVATE) + b"\n", PRIVATE.hex().encode()):
        path.write_bytes(content)
        assert read_private_key(str(path)) == PRIVATE
    for content in (b"", b"x" * 31, b"\xc3\xa9" * 33, b"g" * 64, base64.b64encode(b"x" * 33)):
        path.write_bytes(content)
        with pytest.raises(InputError, match="is no private key"):
            read_private_key(str(path))
    with pytest.raises(InputError, match="cannot be read: No such file"):
        read_private_key(str(tmp_path / "none"))


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
