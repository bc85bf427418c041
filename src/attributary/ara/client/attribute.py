"""Attribute: find the source of a trigger, and make its report if everything allows it."""

from random import Random

from attributary.ara.client.attribution import Attribution, attribution
from attributary.ara.client.filters import matches
from attributary.ara.client.histogram import contributions
from attributary.ara.client.storage import Place, Storage
from attributary.ara.client.stored import Stored
from attributary.ara.parse import Trigger

SUCCESS = "success"


def attribute(
    trigger: Trigger,
    destination: str,
    reporting_origin: str,
    time: int,
    debug_key: int | None,
    storage: Storage,
    rng: Random,
) -> tuple[str, Attribution | None, Stored | None]:
    """What became of a trigger, by the API's name for it; and where it has a report, that and its source."""
    place = (destination, reporting_origin)
    stored = storage.best(place)
    if stored is None:
        return "trigger-no-matching-source", None, None
    age = (time - stored.time) / 1000
    if not matches(stored.data, age, trigger.filters):
        return "trigger-no-matching-filter-data", None, None
    if not asks(trigger):
        return "trigger-aggregate-not-registered", None, None
    once = next((d.key for d in trigger.aggregatable_deduplication_keys if matches(stored.data, age, d.filters)), None)
    name = next((b.name for b in trigger.named_budgets if matches(stored.data, age, b.filters)), None)
    made = contributions(stored.source.aggregation_keys, stored.data, age, trigger)
    spent = sum(contribution.value for contribution in made)
    why = _refusal(stored, place, time, once, name, spent, storage)
    if why:
        return f"trigger-{why}", None, None
    stored.budget -= spent
    if name in stored.named_budgets:
        stored.named_budgets[name] -= spent
    stored.reports += 1
    if once is not None:
        stored.deduplication_keys.add(once)
    storage.attribution_reporters.add((stored.site, destination), [reporting_origin], time)
    storage.keep_only(stored, place)
    keys = (stored.debug_key, debug_key)
    real = attribution(trigger, destination, reporting_origin, time, made, stored.time, keys, storage.limits, rng)
    storage.hold(real, stored)
    return SUCCESS, real, stored


def _refusal(
    stored: Stored, place: Place, time: int, once: int | None, name: str | None, spent: int, storage: Storage
) -> str | None:
    """Why a source gives no report for a trigger; the report is dropped whole, and nothing of the budget is spent."""
    destination, reporting_origin = place
    sites = (stored.site, destination)
    refused = (
        ("aggregate-report-window-passed", time >= stored.window_ends),
        ("aggregate-deduplicated", once in stored.deduplication_keys),
        ("aggregate-no-contributions", not spent),
        ("aggregate-excessive-reports", stored.reports >= storage.limits.reports_per_source),
        ("aggregate-storage-limit", storage.crowded(destination)),
        ("aggregate-attributions-per-source-destination-limit", storage.exhausted(stored, destination, time)),
        ("reporting-origin-limit", not storage.attribution_reporters.allows(sites, [reporting_origin], time)),
        ("aggregate-insufficient-budget", spent > stored.budget),
        ("aggregate-insufficient-named-budget", name in stored.named_budgets and spent > stored.named_budgets[name]),
    )
    return next((why for why, is_refused in refused if is_refused), None)


def asks(trigger: Trigger) -> bool:
    """Whether a trigger asks for an aggregatable report."""
    return bool(trigger.aggregatable_trigger_data) or any(one.values for one in trigger.aggregatable_values)
