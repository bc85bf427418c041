"""aggregatable_report: a report as a browser sends it, and its JSON."""

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from attributary.api.ara.wire import encryption, payload
from attributary.api.ara.wire.payload import Contribution
from attributary.api.ara.wire.shared_info import Fault, SharedInfo, is_utf8
from attributary.errors import brief, why_not_json

IN_THE_CLEAR = "cleartext"  # the key id of reports that are not encrypted
MEMBERS = ("aggregation_service_payloads", "shared_info")


@dataclass(frozen=True, slots=True)
class Report:
    """`shared_info` is a text of JSON that stays as it is to the byte: the payload is encrypted under it."""

    shared_info: str
    payload: bytes
    key_id: str = IN_THE_CLEAR
    debug_cleartext_payload: bytes | None = None
    others: Mapping[str, Any] = field(default_factory=dict)  # members such as source_debug_key


def build(
    contributions: Sequence[Contribution],
    info: SharedInfo,
    public_key: bytes | None = None,
    key_id: str = IN_THE_CLEAR,
    id_bytes: int = 1,
    others: Mapping[str, Any] | None = None,
) -> Report:
    """The report of some contributions, encrypted for a key; without one its payload is in the clear."""
    text = info.to_json()
    clear = payload.encode(contributions, info.version, id_bytes=id_bytes)
    sealed = clear if public_key is None else encryption.encrypt(clear, text, public_key, info.version)
    return Report(text, sealed, key_id, clear if info.debug_mode else None, others or {})


def to_json(report: Report) -> str:
    body = {"key_id": report.key_id, "payload": base64.b64encode(report.payload).decode()}
    if report.debug_cleartext_payload is not None:
        body["debug_cleartext_payload"] = base64.b64encode(report.debug_cleartext_payload).decode()
    members = {**report.others, MEMBERS[0]: [body], MEMBERS[1]: report.shared_info}
    return json.dumps(members, ensure_ascii=False, sort_keys=True)


def from_json(text: str | bytes) -> Report:
    """The report in a JSON text; whatever is wrong with it is a Fault."""
    try:
        members = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Fault(f"the report is not JSON: {why_not_json(error)}") from None
    return from_members(members)


def from_members(members: object) -> Report:
    """The report with these members, as JSON has them; whatever is wrong with them is a Fault."""
    if not isinstance(members, dict):
        raise Fault(f"a report is an object; got {type(members).__name__}")
    info, bodies = members.get("shared_info"), members.get("aggregation_service_payloads")
    if not isinstance(info, str) or not is_utf8(info):
        raise Fault(f"a report has shared_info, a text of JSON; got {brief(info)}")
    if not isinstance(bodies, list) or len(bodies) != 1 or not isinstance(bodies[0], dict):
        raise Fault(f"a report has aggregation_service_payloads, a list of one object; got {brief(bodies)}")
    body = bodies[0]
    key_id = body.get("key_id", "")
    if not isinstance(key_id, str) or not is_utf8(key_id):
        raise Fault(f"the key_id of a report is a text; got {brief(key_id)}")
    others = {name: value for name, value in members.items() if name not in MEMBERS}
    clear = None if body.get("debug_cleartext_payload") is None else _bytes(body, "debug_cleartext_payload")
    return Report(info, _bytes(body, "payload"), key_id, clear, others)


def _bytes(body: Mapping[str, object], name: str) -> bytes:
    text = body.get(name)
    if not isinstance(text, str):
        raise Fault(f"the {name} of a report is base64; got {brief(text)}")
    try:
        return base64.b64decode(text, validate=True)
    except ValueError as error:
        raise Fault(f"the {name} of a report is base64: {error}") from None
