"""SharedInfo: what a report says in the clear, and the id under which its budget is kept."""

import hashlib
import json
import re
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from attributary.ara.wire.payload import VERSIONS

API = "attribution-reporting"
HOUR = 3600
Origin = tuple[str, str, str, str, str, int | None]
_TEXT, _SECONDS = r'"([^"\\\x00-\x1f]*)"', '"([0-9]{1,15})"'
AS_BROWSERS_WRITE = re.compile(  # versions 0.1 and 1.0; matching is several times faster than reading JSON
    rf'{{"api":{_TEXT},"attribution_destination":{_TEXT},(?:"debug_mode":"enabled",)?"report_id":{_TEXT},'
    rf'"reporting_origin":{_TEXT},"scheduled_report_time":{_SECONDS},(?:"source_registration_time":{_SECONDS},)?'
    rf'"version":"(0\.1|1\.0)"}}'
)


@dataclass(frozen=True, slots=True)
class SharedInfo:
    """The members of `shared_info`; times are seconds since 1970."""

    report_id: str
    reporting_origin: str
    scheduled_report_time: int
    attribution_destination: str = ""
    source_registration_time: int | None = None
    version: str = "1.0"
    debug_mode: bool = False
    api: str = API
    privacy_budget_key: str = ""  # of version "", which has neither api nor destination

    def to_json(self) -> str:
        """The text that a browser writes: members by name, times as text, no blanks."""
        first = {"privacy_budget_key": self.privacy_budget_key}
        later = {"api": self.api, "attribution_destination": self.attribution_destination}
        members = {
            **(later if self.version else first),
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
        """What reports of one shared id have in common, besides the hour and the filtering id."""
        return (
            self.api,
            self.version,
            self.reporting_origin,
            self.attribution_destination,
            self.privacy_budget_key,
            self.source_registration_time,
        )


def parse(text: str) -> SharedInfo:
    """The members of a report's `shared_info`; whatever is wrong with it is a ValueError.

    Times may be text or numbers: browsers write the one, test tools the other.
    """
    try:
        members = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"shared_info is not JSON: {error}") from None
    if not isinstance(members, dict):
        raise ValueError(f"shared_info is an object; got {type(members).__name__}")
    version = _text(members, "version", "")
    if version not in VERSIONS:
        raise ValueError(f"the version of a report is one of {', '.join(map(repr, VERSIONS))}; got {version!r}")
    return SharedInfo(
        _text(members, "report_id"),
        _text(members, "reporting_origin"),
        _time(members, "scheduled_report_time"),
        _text(members, "attribution_destination", "" if version == "" else None),
        _time(members, "source_registration_time") if "source_registration_time" in members else None,
        version,
        members.get("debug_mode") == "enabled",
        _text(members, "api", "" if version == "" else None),
        _text(members, "privacy_budget_key", ""),
    )


def identity(text: str) -> tuple[str, str, Origin, int]:
    """The report's id, its version, its origin and its hour: what `parse` says, but fast where browsers wrote it."""
    match = AS_BROWSERS_WRITE.fullmatch(text)
    if match is None:
        info = parse(text)
        return info.report_id, info.version, info.origin, info.hour
    api, destination, report_id, reporting_origin, due, registered, version = match.groups()
    origin = (api, version, reporting_origin, destination, "", None if registered is None else int(registered))
    return report_id, version, origin, int(due) // HOUR * HOUR


def shared_id(origin: Origin, hour: int, filtering_id: int) -> bytes:
    """The id that may be queried once: SHA-256 over what its reports have in common."""
    return hashlib.sha256(json.dumps([*origin, hour, filtering_id]).encode()).digest()


def _text(members: dict[str, Any], name: str, default: str | None = None) -> str:
    value = members.get(name, default)
    if not isinstance(value, str):
        raise ValueError(f"shared_info needs {name}, a text; got {value!r:.60}")
    return value


def _time(members: dict[str, Any], name: str) -> int:
    value = members.get(name)
    seconds = float("nan")
    if isinstance(value, (str, int, float)) and not isinstance(value, bool):
        with suppress(ValueError, OverflowError):
            seconds = float(value)
    if not 0 <= seconds < 2**53:
        raise ValueError(f"shared_info needs {name} in seconds since 1970; got {value!r:.60}")
    return int(seconds)
