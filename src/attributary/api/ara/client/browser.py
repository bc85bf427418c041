"""Client: what a browser does with registrations, in memory: sources in, triggers in, reports out."""

from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from random import Random, SystemRandom

from attributary.api.ara import parse
from attributary.api.ara.client.attribute_trigger import asks, attribute
from attributary.api.ara.client.pending_report import Attribution, nulls
from attributary.api.ara.client.source_limits import Admission
from attributary.api.ara.client.source_storage import Storage, store
from attributary.api.ara.parse import Parsed, Source, Trigger
from attributary.api.ara.parse.browser_limits import DEFAULT, BrowserLimits
from attributary.api.sites import Url, parse_url
from attributary.errors import InputError, brief

INVALID = "header-parsing-error"
STORED = "source-success"
LONGEST_KEPT = 8192  # characters


@dataclass(frozen=True, slots=True)
class SourceResult:
    """What became of a source: "source-success", "header-parsing-error", or the API's name of the limit it met."""

    outcome: str
    parsed: Parsed[Source]


@dataclass(frozen=True, slots=True)
class TriggerResult:
    """What became of a trigger: "success", "header-parsing-error", or the API's name of what stood in the way.

    "not-registered" is one that asks for no aggregatable report.
    `attributions` are the reports that came of it, null reports included; each is sent when it is due.
    """

    outcome: str
    parsed: Parsed[Trigger]
    attributions: tuple[Attribution, ...] = ()


class Client:
    """One browser. Times are whole milliseconds since 1970 and never go back; chance is drawn from `rng`.

    `outcomes` counts what became of triggers; "trigger-aggregate-no-contributions" is one whose values are not for its
    source, such as an impression that was registered under another plan.
    """

    __slots__ = ("_admission", "_limits", "_rng", "_storage", "_time", "outcomes")

    def __init__(self, limits: BrowserLimits = DEFAULT, rng: Random | None = None) -> None:
        self._limits, self._rng, self._time = limits, rng or SystemRandom(), 0
        self._storage, self._admission = Storage(limits), Admission(limits)
        self.outcomes: Counter[str] = Counter()

    def source(
        self,
        header: str,
        *,
        page: str,
        reporter: str,
        time: int,
        source_type: str = "navigation",
        debug: bool = False,
    ) -> SourceResult:
        """Register an impression: the JSON of its header, the page it was on, the server that sent it.

        `source_type` is "navigation" for a click, "event" for a view; `debug` says whether debug keys are allowed.
        """
        on, by = _url(page), _url(reporter)
        self.advance(time)
        parsed = _read_source(header, source_type, self._limits)
        if parsed.value is None:
            return SourceResult(parsed.limit or INVALID, parsed)
        self._storage.number += 1
        number = self._storage.number
        stored = store(parsed.value, number, time, on.origin, on.site, by.origin, by.site, debug)
        return SourceResult(self._admission.admit(stored, self._storage) or STORED, parsed)

    def trigger(self, header: str, *, page: str, reporter: str, time: int, debug: bool = False) -> TriggerResult:
        """Register a conversion: the JSON of its header, the page it was on, the server that sent it."""
        on, by = _url(page), _url(reporter)
        self.advance(time)
        parsed = _read_trigger(header, self._limits)
        trigger = parsed.value
        if trigger is None:
            return TriggerResult(INVALID, parsed)
        key = trigger.debug_key if debug else None
        outcome, real, stored = attribute(trigger, on.site, by.origin, time, key, self._storage, self._rng)
        self.outcomes[outcome] += 1
        if not asks(trigger):
            return TriggerResult(outcome, parsed)
        source_time = stored.time if stored else None
        null = nulls(trigger, on.site, by.origin, time, source_time, self._limits, self._rng)
        for value in null:
            self._storage.hold(value, None)
        return TriggerResult(outcome, parsed, (*([real] if real else []), *null))

    def advance(self, time: int) -> None:
        """Let time pass: sources expire, and reports that are due are sent."""
        if not time >= self._time:
            raise ValueError(f"time must not go back: it is {self._time} ms; got {time}")
        self._time = time
        self._storage.advance(time)

    def sent(self, until: int | None = None) -> list[Attribution]:
        """The reports sent since the last call, in the order they were due: until a time, or else all that wait.

        Time passes with it: what is registered later must not come before the last report.
        """
        last = self._storage.last if until is None else until
        if last is not None:
            self.advance(max(last, self._time) if until is None else until)
        return self._storage.take_sent()


def _read_source(header: str, source_type: str, limits: BrowserLimits) -> Parsed[Source]:
    """A source registration; the same headers come again and again, and those that are not huge are kept."""
    return (_kept_source if len(header) <= LONGEST_KEPT else parse.source)(header, source_type, limits)


def _read_trigger(header: str, limits: BrowserLimits) -> Parsed[Trigger]:
    return (_kept_trigger if len(header) <= LONGEST_KEPT else parse.trigger)(header, limits)


_kept_source = lru_cache(maxsize=4096)(parse.source)
_kept_trigger = lru_cache(maxsize=4096)(parse.trigger)


def _url(text: str) -> Url:
    url = parse_url(text)
    if url is None or not url.trustworthy:
        raise InputError(f"a page or server must be an https address, as in https://shop.example; got {brief(text)}")
    return url
