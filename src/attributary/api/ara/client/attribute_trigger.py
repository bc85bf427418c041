"""attribute_trigger: the source of a trigger, and its report if everything allows it."""

from collections.abc import Mapping, Set
from random import Random

from attributary.api.ara.client.pending_report import Attribution, attribution
from attributary.api.ara.client.source_storage import Place, Storage, Stored
from attributary.api.ara.parse import Trigger
from attributary.api.ara.parse.filter_rules import matches
from attributary.api.ara.parse.trigger_header import EventTriggerDatum
from attributary.api.ara.wire.payload import Contribution

SUCCESS, NOT_REGISTERED = "success", "not-registered"


def attribute(
    trigger: Trigger,
    destination: str,
    reporting_origin: str,
    time: int,
    debug_key: int | None,
    storage: Storage,
    rng: Random,
) -> tuple[str, Attribution | None, Stored | None]:
    """What became of a trigger, by the API's name for it; and where it has a report, that and its source.

    The order is that of the specification. Once the filters of the whole trigger match, the other sources are gone,
    whatever comes of it. Event-level reports are not made; that one would be made counts for the reporting origins.
    """
    why, stored = _matching(trigger, (destination, reporting_origin), time, storage)
    if stored is None:
        return why, None, None
    age = (time - stored.time) / 1000
    event = _event(stored, age, trigger)
    once = next((d.key for d in trigger.aggregatable_deduplication_keys if matches(stored.data, age, d.filters)), None)
    made = contributions(stored.source.aggregation_keys, stored.data, age, trigger)
    why = _unsuited(stored, trigger, destination, time, once, made, storage)
    if (event or not why) and storage.too_many_reporters(stored, destination, time):
        why = "trigger-reporting-origin-limit" if why in ("", NOT_REGISTERED) else why
    elif event and _event_fits(stored, age, event):
        storage.hold_event(stored, destination)
    name = next((b.name for b in trigger.named_budgets if matches(stored.data, age, b.filters)), None)
    spent = sum(contribution.value for contribution in made)
    why = why or _unaffordable(stored, trigger, name, spent, storage)
    if why:
        return why, None, None
    stored.budget -= spent
    if name in stored.named_budgets:
        stored.named_budgets[name] -= spent
    stored.reports += 1
    if once is not None:
        stored.deduplication_keys.add(once)
    keys = (stored.debug_key, debug_key)
    real = attribution(trigger, destination, reporting_origin, time, made, stored.time, keys, storage.limits, rng)
    storage.hold(real, stored)
    return SUCCESS, real, stored


def asks(trigger: Trigger) -> bool:
    """Whether a trigger asks for an aggregatable report."""
    return bool(trigger.aggregatable_trigger_data) or any(one.values for one in trigger.aggregatable_values)


def _matching(trigger: Trigger, place: Place, time: int, storage: Storage) -> tuple[str, Stored | None]:
    """The source that a trigger is attributed to, where it passes the filters; or why there is none."""
    if not asks(trigger) and not trigger.event_trigger_data:
        return NOT_REGISTERED, None
    stored = storage.best(place)
    if stored is None:
        return "trigger-no-matching-source", None
    if not matches(stored.data, (time - stored.time) / 1000, trigger.filters):
        return "trigger-no-matching-filter-data", None
    storage.keep_only(stored, place)
    return "", stored


def _unsuited(
    stored: Stored,
    trigger: Trigger,
    destination: str,
    time: int,
    once: int | None,
    made: tuple[Contribution, ...],
    storage: Storage,
) -> str:
    """Why a source gives no report for a trigger, apart from what its budget and other reporters leave."""
    refused = (
        (NOT_REGISTERED, not asks(trigger)),
        ("trigger-aggregate-report-window-passed", time >= stored.window_ends),
        ("trigger-aggregate-deduplicated", once in stored.deduplication_keys),
        ("trigger-aggregate-no-contributions", not made),
        ("trigger-aggregate-storage-limit", storage.crowded(destination)),
        (
            "trigger-aggregate-attributions-per-source-destination-limit",
            storage.exhausted(stored, destination, time),
        ),
    )
    return next((why for why, is_refused in refused if is_refused), "")


def _unaffordable(stored: Stored, trigger: Trigger, name: str | None, spent: int, storage: Storage) -> str:
    """Why a source has nothing left for a report; it is dropped whole, and nothing of the budget is spent.

    Reports with a context id come for every trigger, so their number reveals nothing and is not limited.
    """
    counted = trigger.trigger_context_id is None
    refused = (
        ("excessive-reports", counted and stored.reports >= storage.limits.reports_per_source),
        ("insufficient-budget", spent > stored.budget),
        ("insufficient-named-budget", name in stored.named_budgets and spent > stored.named_budgets[name]),
    )
    return next((f"trigger-aggregate-{why}" for why, is_refused in refused if is_refused), "")


def _event(stored: Stored, age: float, trigger: Trigger) -> EventTriggerDatum | None:
    """What an event-level report of this age would tell, if the source would have one."""
    source, windows = stored.source, stored.source.event_report_windows
    datum = next((d for d in trigger.event_trigger_data if matches(stored.data, age, d.filters)), None)
    if datum is None or datum.deduplication_key in stored.event_deduplication_keys:
        return None
    exact = source.trigger_data_matching == "exact"
    if not source.trigger_data or (exact and datum.trigger_data not in source.trigger_data):
        return None
    return datum if windows.start_time <= age < windows.end_times[-1] else None


def _event_fits(stored: Stored, age: float, datum: EventTriggerDatum) -> bool:
    """Whether a source has room for an event-level report, which a lower priority in the same window makes."""
    end = next(end for end in stored.source.event_report_windows.end_times if age < end)
    if len(stored.event_reports) >= stored.source.max_event_level_reports:
        lowest = min((report for report in stored.event_reports if report[0] == end), default=None)
        if lowest is None or datum.priority <= lowest[1]:
            return False
        stored.event_reports.remove(lowest)
    stored.event_reports.append((end, datum.priority))
    if datum.deduplication_key is not None:
        stored.event_deduplication_keys.add(datum.deduplication_key)
    return True


def contributions(
    keys: Mapping[str, int], data: Mapping[str, Set[str]], age: float, trigger: Trigger
) -> tuple[Contribution, ...]:
    """One contribution for each of the source's keys that has a value, in the order of their names, as in Chromium.

    Each key is the source's piece OR the pieces of all trigger data that name it and whose filters the source, with
    this filter data and age in seconds, passes. Of several lists of values the first match counts.
    """
    values = next((v.values for v in trigger.aggregatable_values if matches(data, age, v.filters)), {})
    if not values:
        return ()
    whole = dict(keys)
    for datum in trigger.aggregatable_trigger_data:
        if matches(data, age, datum.filters):
            for name in datum.source_keys:
                if name in whole:
                    whole[name] |= datum.key_piece
    return tuple(
        Contribution(key, values[name].value, values[name].filtering_id)
        for name, key in sorted(whole.items())
        if name in values
    )
