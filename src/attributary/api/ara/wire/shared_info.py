"""shared_info: what a report says in the clear, the id that its budget is kept under, and why it cannot be used."""

import hashlib
import json
import re
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from attributary.errors import brief, why_not_json
from attributary.types import Record

Category = Literal[  # the error categories of the aggregation service that a report can fall into here
    "ATTRIBUTION_REPORT_TO_MALFORMED",  # its reporting origin is none
    "DEBUG_NOT_ENABLED",
    "DECRYPTION_ERROR",  # and whatever cannot be taken apart
    "DECRYPTION_KEY_NOT_FOUND",
    "INVALID_REPORT_ID",
    "ORIGINAL_REPORT_TIME_TOO_OLD",
    "REPORTING_SITE_MISMATCH",
    "REQUIRED_SHAREDINFO_FIELD_INVALID",
    "UNSUPPORTED_OPERATION",
    "UNSUPPORTED_REPORT_API_TYPE",
    "UNSUPPORTED_SHAREDINFO_VERSION",
]


class Fault(ValueError):  # noqa: N818
    """What is wrong with one report, in words and as a category."""

    def __init__(self, words: str, category: Category = "DECRYPTION_ERROR") -> None:
        super().__init__(words)
        self.category = category


API = "attribution-reporting"
APIS = {  # those that the aggregation service takes, and whether their reports have a destination
    API: True,
    "attribution-reporting-debug": True,
    "protected-audience": False,
    "shared-storage": False,
}
VERSIONS = ("", "0.1", "1.0")
MAJOR = re.compile(r"(?!0+\.0+$)0*([01])\.[0-9]{1,9}")  # 0.0 is not a version
HOUR = 3600
Origin = tuple[str, str, str, str, str, int | None]
REPORT_ID = "[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
HOST = re.compile(r"(?:https?://)?(?:\[[0-9a-f:.]+\]|[a-z0-9_-]+(?:\.[a-z0-9_-]+)*\.?)(?::[0-9]{1,5})?/?")
LONGEST_HOST = 300
_TEXT, _SECONDS = r'"([^"\\\x00-\x1f]{1,300})"', '"([0-9]{1,15})"'
AS_BROWSERS_WRITE = re.compile(  # versions from 0.1 on; matching is several times faster than reading JSON
    rf'{{"api":{_TEXT},(?:"attribution_destination":{_TEXT},)?(?:"debug_mode":"(enabled)",)?'
    rf'"report_id":"({REPORT_ID.replace("A-F", "")})","reporting_origin":{_TEXT},"scheduled_report_time":{_SECONDS},'
    rf'(?:"source_registration_time":{_SECONDS},)?"version":{_TEXT}}}'
)


@dataclass(frozen=True, slots=True)
class SharedInfo:
    """The members of `shared_info`; times are seconds since 1970."""

    report_id: str
    reporting_origin: str
    scheduled_report_time: int
    attribution_destination: str = ""  # of attribution reporting alone
    source_registration_time: int | None = None
    version: str = "1.0"
    debug_mode: bool = False
    api: str = API
    privacy_budget_key: str = ""  # of version "", which has neither api nor destination

    def to_json(self) -> str:
        """The text that a browser writes: members by name, times as text, no blanks."""
        first = {"privacy_budget_key": self.privacy_budget_key}
        to = {"attribution_destination": self.attribution_destination} if self.attribution_destination else {}
        members = {
            **({"api": self.api, **to} if self.version else first),
            **({"debug_mode": "enabled"} if self.debug_mode else {}),
            "report_id": self.report_id,
            "reporting_origin": self.reporting_origin,
            "scheduled_report_time": str(self.scheduled_report_time),
            "version": self.version,
        }
        if self.source_registration_time is not None and self.version:
            members["source_registration_time"] = str(self.source_registration_time)
        return json.dumps(members, sort_keys=True, separators=(",", ":"), ensure_ascii=False)

    @property
    def hour(self) -> int:
        """The hour that the report was due in, by its first second."""
        return self.scheduled_report_time // HOUR * HOUR

    @property
    def origin(self) -> Origin:
        """What the service makes the shared id of, besides the hour and the filtering id.

        For reports of Private Aggregation, this is neither destination nor day.
        """
        to, registered = self.attribution_destination, self.source_registration_time
        if not APIS.get(self.api, True):
            to, registered = "", None
        return self.api, self.version, self.reporting_origin, to, self.privacy_budget_key, registered


def like(version: object) -> str:
    """Which of VERSIONS reports of a version are like, by its major number; a Fault if it cannot be read."""
    match = MAJOR.fullmatch(version) if isinstance(version, str) else None
    if match is None and version != "":
        words = f"the version of a report begins with 0 or 1, as in 0.1 and 1.0; got {brief(version)}"
        raise Fault(words, "UNSUPPORTED_SHAREDINFO_VERSION")
    return "" if match is None else VERSIONS[1 + int(match[1])]


def parse(text: str) -> SharedInfo:
    """The members of a report's `shared_info`; whatever is wrong with it is a Fault.

    Times may be text or numbers: browsers write the one, test tools the other.
    """
    try:
        members = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Fault(f"shared_info is not JSON: {why_not_json(error)}") from None
    if not isinstance(members, dict):
        raise Fault(f"shared_info is an object; got {type(members).__name__}")
    version = members.get("version", "")
    like(version)
    report_id = members.get("report_id")
    if not (isinstance(report_id, str) and re.fullmatch(REPORT_ID, report_id)):
        raise Fault(f"the report_id of a report is a UUID; got {brief(report_id)}", "INVALID_REPORT_ID")
    api = _text(members, "api", needed=version != "")
    if version != "" and api not in APIS:
        words = f"the api of a report is one of {', '.join(APIS)}; got {brief(api)}"
        raise Fault(words, "UNSUPPORTED_REPORT_API_TYPE")
    reporting_origin = _text(members, "reporting_origin")
    if not _is_origin(reporting_origin):
        words = f"the reporting_origin of a report is the address of a host; got {brief(reporting_origin)}"
        raise Fault(words, "ATTRIBUTION_REPORT_TO_MALFORMED")
    return SharedInfo(
        report_id,
        reporting_origin,
        _time(members, "scheduled_report_time"),
        _text(members, "attribution_destination", needed=version != "" and APIS[api]),
        _time(members, "source_registration_time") if "source_registration_time" in members else None,
        version,
        members.get("debug_mode") == "enabled",
        api,
        _text(members, "privacy_budget_key", needed=False),
    )


def identity(text: str) -> tuple[str, Origin, int, bool]:
    """The report's id, its origin, when it was due, and whether it is in debug mode: what `parse` says, but fast.

    The id is in small letters, since a UUID is the same in both.
    """
    match = AS_BROWSERS_WRITE.fullmatch(text)
    if match is not None:
        api, destination, debug, report_id, reporting_origin, due, registered, version = match.groups()
        origin = _origin(api, version, reporting_origin, destination, registered)
        if origin is not None:
            return report_id, origin, int(due), debug is not None
    info = parse(text)
    return info.report_id.lower(), info.origin, info.scheduled_report_time, info.debug_mode


@lru_cache(4096)  # the same few come again and again
def _origin(
    api: str, version: str, reporting_origin: str, destination: str | None, registered: str | None
) -> Origin | None:
    """The origin of a report with these members; None if one of them is not as it must be."""
    if APIS.get(api) not in (False, destination is not None) or not _is_origin(reporting_origin):
        return None
    if version != "" and not MAJOR.fullmatch(version):
        return None
    day = None if registered is None else int(registered)
    return SharedInfo("", reporting_origin, 0, destination or "", day, version, api=api).origin


def _is_origin(text: str) -> bool:
    return len(text) <= LONGEST_HOST and HOST.fullmatch(text.lower()) is not None


def shared_id(origin: Origin, hour: int, filtering_id: int) -> bytes:
    """The id that may be queried once: SHA-256 over what its reports have in common."""
    return hashlib.sha256(json.dumps([*origin, hour, filtering_id]).encode()).digest()


def _text(members: Record, name: str, needed: bool = True) -> str:
    value = members.get(name, "")
    if not isinstance(value, str) or (needed and not value) or not is_utf8(value):
        words = f"shared_info needs {name}, a text; got {brief(members.get(name))}"
        raise Fault(words, "REQUIRED_SHAREDINFO_FIELD_INVALID")
    return value


def is_utf8(text: str) -> bool:
    """Whether a text can be written: JSON can also spell halves of characters."""
    return text.isascii() or not any("\ud800" <= c <= "\udfff" for c in text)


def _time(members: Record, name: str) -> int:
    value = members.get(name)
    seconds = float("nan")
    if isinstance(value, (str, int, float)) and not isinstance(value, bool):
        with suppress(ValueError, OverflowError):
            seconds = float(value)
    if not 0 <= seconds < 2**53:
        words = f"shared_info needs {name} in seconds since 1970; got {brief(value)}"
        raise Fault(words, "REQUIRED_SHAREDINFO_FIELD_INVALID")
    return int(seconds)
