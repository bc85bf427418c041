"""Aggregatable reports before they are sent, in the clear: real ones, and the null reports that hide them."""

import uuid
from dataclasses import dataclass
from random import Random

from attributary.api.ara.parse import Trigger
from attributary.api.ara.parse.both_headers import DAY, BrowserLimits
from attributary.api.ara.wire.aggregatable_report import IN_THE_CLEAR, Report, build
from attributary.api.ara.wire.payload import Contribution
from attributary.api.ara.wire.shared_info import SharedInfo

WELL_KNOWN = "/.well-known/attribution-reporting/report-aggregate-attribution"
DAYS = 31  # a source is at most 30 days old: it may have come on each of these days


@dataclass(frozen=True, slots=True)
class Attribution:
    """What a report will say, and when it is due in milliseconds; a null report has no contributions."""

    report_id: str
    due: int
    destination: str
    reporting_origin: str
    contributions: tuple[Contribution, ...]
    coordinator: str
    id_bytes: int = 1
    source_registration_time: int | None = None  # in seconds, by the day
    source_debug_key: int | None = None
    trigger_debug_key: int | None = None
    trigger_context_id: str | None = None

    @property
    def is_null(self) -> bool:
        return not self.contributions

    @property
    def url(self) -> str:
        """Where the report is sent."""
        return self.reporting_origin + WELL_KNOWN

    @property
    def debug(self) -> bool:
        """Whether both sides asked for a report in the clear, and were allowed to."""
        return self.source_debug_key is not None and self.trigger_debug_key is not None


@dataclass(frozen=True, slots=True)
class Conversion:
    """A trigger, and where and when it was registered, in milliseconds."""

    trigger: Trigger
    destination: str
    reporting_origin: str
    time: int


def attribution(
    of: Conversion,
    contributed: tuple[Contribution, ...],
    source_time: int | None,
    debug_keys: tuple[int | None, int | None],
    limits: BrowserLimits,
    rng: Random,
) -> Attribution:
    """The report of a trigger; it includes the day of the source only if the trigger asks for it."""
    trigger, wait = of.trigger, 0
    if not at_once(trigger):
        wait = 1000 * limits.minimum_delay + round(rng.uniform(0, 1000 * limits.delay_span))
    with_time = trigger.aggregatable_source_registration_time == "include" and source_time is not None
    return Attribution(
        str(uuid.UUID(int=rng.getrandbits(128), version=4)),
        of.time + wait,
        of.destination,
        of.reporting_origin,
        contributed,
        trigger.aggregation_coordinator_origin,
        trigger.aggregatable_filtering_id_max_bytes,
        day(source_time) if with_time and source_time is not None else None,
        *((None, None) if None in debug_keys else debug_keys),
        trigger.trigger_context_id,
    )


def nulls(of: Conversion, source_time: int | None, limits: BrowserLimits, rng: Random) -> list[Attribution]:
    """The null reports beside the real one (from a source of this time) or in its place, which hide whether it is real.

    If reports include the day of the source, there may be one for each other day; otherwise only a missing report is
    replaced, always so if its absence would be noticed.
    """
    if of.trigger.aggregatable_source_registration_time == "include":
        shown = None if source_time is None else day(source_time)
        days = (of.time - 1000 * DAY * i for i in range(DAYS))
        rate = limits.null_rate_per_day
        times = [t for t in days if rng.random() < rate and day(t) != shown] if rate > 0 else []
    else:
        rate = 1.0 if at_once(of.trigger) else limits.null_rate
        times = [of.time] if source_time is None and rng.random() < rate else []
    return [attribution(of, (), time, (None, None), limits, rng) for time in times]


def at_once(trigger: Trigger) -> bool:
    """Whether a report is sent for every trigger without delay, so that its presence and its time reveal nothing."""
    return trigger.trigger_context_id is not None or trigger.aggregatable_filtering_id_max_bytes != 1


def day(time: int) -> int:
    """The first second of the day that a time in milliseconds falls into."""
    return time // (1000 * DAY) * DAY


def report(value: Attribution, public_key: bytes | None = None, key_id: str = IN_THE_CLEAR) -> Report:
    """The report as it is sent: encrypted for a key, or without one in the clear."""
    info = SharedInfo(
        value.report_id,
        value.reporting_origin,
        value.due // 1000,
        value.destination,
        value.source_registration_time,
        debug_mode=value.debug,
    )
    members = {
        "aggregation_coordinator_origin": value.coordinator,
        "source_debug_key": value.source_debug_key,
        "trigger_context_id": value.trigger_context_id,
        "trigger_debug_key": value.trigger_debug_key,
    }
    others = {name: str(member) for name, member in members.items() if member is not None}
    return build(value.contributions, info, public_key, key_id, value.id_bytes, others)
