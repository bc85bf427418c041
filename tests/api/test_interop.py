"""The published interop cases: registrations in, the aggregatable reports that browsers made of them out."""

import base64
import json
import os
import random
import re
from pathlib import Path
from typing import Any

import pytest

from attributary.api.ara.parse.both_headers import BrowserLimits
from attributary.api.ara.wire import payload
from attributary.api.ara.wire.aggregatable_report import from_json, to_json
from attributary.browsers import report
from attributary.browsers.ara_client import Client, SourceResult, TriggerResult
from support.vectors import found

FOLDERS = ("interop", "interop-more")
ELIGIBLE = "Attribution-Reporting-Eligible"
SOURCE, TRIGGER = "Attribution-Reporting-Register-Source", "Attribution-Reporting-Register-Trigger"
AGGREGATABLE = "/.well-known/attribution-reporting/report-aggregate-attribution"
VERBOSE = "/.well-known/attribution-reporting/debug/verbose"
# Reports that are not aggregatable attribution reports are passed over, in whichever case they stand.
OTHER_REPORTS = {
    "/.well-known/attribution-reporting/report-event-attribution": "event-level reports are not made",
    "/.well-known/attribution-reporting/debug/report-aggregate-debug": "debug reports in aggregate are not made",
    VERBOSE: "verbose debug reports are not made; their types are compared with the outcomes",
}
# Cases whose expected reports are all of another kind: nothing must come of them here.
NO_AGGREGATABLE_REPORT = {
    "aggregatable_debug_reports_with_filtering_ids": "debug reports in aggregate",
    "attribution_scopes_max_event_states_limit": "attribution scopes",
    "rate_limit_max_attribution_reporting_endpoints": "event-level reports",
    "source_deactivation": "event-level reports",
    "source_destination_limit_fifo_and_destination_rate_limit": "event-level reports",
}
# Types of verbose debug reports that tell of what the client passes over.
OTHER_TYPES = re.compile("trigger-event-.*|source-noised")
# BrowserLimits that other reporting sites have a part in: to a server they look like success.
HIDDEN = ("source-destination-global-rate-limit", "source-reporting-origin-limit")
CONFIG = {
    "max_sources_per_origin": "sources_per_origin",
    "max_destinations_per_source_site_reporting_site": "destinations",
    "max_destinations_per_rate_limit_window": "destinations_per_window",
    "max_destinations_per_rate_limit_window_reporting_site": "destinations_per_window_and_reporter",
    "max_destinations_per_reporting_site_per_day": "destinations_per_day",
    "rate_limit_max_source_registration_reporting_origins": "source_reporters",
    "rate_limit_max_attribution_reporting_origins": "attribution_reporters",
    "rate_limit_max_attributions": "attributions",
    "rate_limit_max_reporting_origins_per_source_reporting_site": "reporters_per_site",
    "max_aggregatable_reports_per_destination": "reports_per_destination",
    "max_aggregatable_reports_per_source": "reports_per_source",
    "max_trigger_state_cardinality": "trigger_states",
}
IN_MINUTES, IN_DAYS = 60, 86_400


class Chosen(random.Random):
    """Chance as a case chooses it: null reports for the days it names, the i-th draw being for i days ago."""

    days: list[int] = []  # noqa: RUF012
    drawn = -1

    def random(self) -> float:
        self.drawn += 1
        return 0.0 if self.drawn in self.days else 0.999

    def uniform(self, a: float, b: float) -> float:
        return b

    def choose(self, days: list[int]) -> None:
        self.days, self.drawn = days, -1


def commented(text: str) -> Any:
    """JSON with // comments and trailing commas."""
    string = r'"(?:[^"\\]|\\.)*"'
    text = re.sub(rf"({string})|//[^\n]*", lambda found: found[1] or "", text)
    return json.loads(re.sub(rf"({string})|,(?=\s*[\]}}])", lambda found: found[1] or "", text))


def names() -> list[Any]:
    if found("interop") is None and not os.environ.get("CI"):
        return [
            pytest.param("", marks=pytest.mark.skip(reason="no published interop cases: `make vectors` brings them"))
        ]
    files = [file for folder in FOLDERS if (path := found(folder)) for file in path.iterdir()]
    return sorted(file.stem for file in files if file.stem != "default_config")


def read(name: str) -> Any:
    file = next(file for folder in FOLDERS if (file := found(f"{folder}/{name}.json")))
    return commented(file.read_text(encoding="utf-8"))


def limits(case: dict[str, Any]) -> BrowserLimits:
    """The published limits, with those of the case."""
    config = {**read("default_config"), **case.get("api_config", {})}
    return BrowserLimits(
        coordinators=tuple(config["aggregation_coordinator_origins"]),
        destination_window=IN_MINUTES * int(config["destination_rate_limit_window_in_minutes"]),
        rate_window=IN_DAYS * int(config["rate_limit_time_window_in_days"]),
        reporters_window=IN_DAYS * int(config["rate_limit_origins_per_site_window_in_days"]),
        minimum_delay=IN_MINUTES * int(config["aggregatable_report_min_delay"]),
        delay_span=IN_MINUTES * int(config["aggregatable_report_delay_span"]),
        event_level_epsilon=float(config["max_settable_event_level_epsilon"]),
        channel_capacity_navigation=float(config["max_event_level_channel_capacity_navigation"]),
        channel_capacity_event=float(config["max_event_level_channel_capacity_event"]),
        scopes_channel_capacity_navigation=float(config["max_event_level_channel_capacity_scopes_navigation"]),
        scopes_channel_capacity_event=float(config["max_event_level_channel_capacity_scopes_event"]),
        **{name: int(config[key]) for key, name in CONFIG.items()},
    )


def registered(client: Client, chance: Chosen, registration: dict[str, Any]) -> list[tuple[dict[str, Any], Any]]:
    """Register what a case's page does at a time; each response and what became of it."""
    page, eligible = (registration["registration_request"].get(k) for k in ("context_origin", ELIGIBLE))
    results: list[tuple[dict[str, Any], Any]] = []
    for response in registration["responses"]:
        about: dict[str, Any] = {
            "page": page,
            "reporter": response["url"],
            "time": int(response.get("timestamp", registration["timestamp"])),
            "debug": response.get("debug_permission", False),
        }
        headers = response["response"]
        chance.choose(response.get("null_aggregatable_reports_days", []))
        if SOURCE in headers:
            kind = str(eligible).removesuffix("-source")
            results.append((response, client.source(json.dumps(headers[SOURCE]), source_type=kind, **about)))
        if TRIGGER in headers:
            results.append((response, client.trigger(json.dumps(headers[TRIGGER]), **about)))
    return results


def told(case: dict[str, Any]) -> list[dict[str, Any]]:
    """The aggregatable attribution reports that a case expects."""
    reports: list[dict[str, Any]] = case["output"]["reports"]
    paths = {re.sub("^https://[^/]+", "", one["report_url"]) for one in reports}
    assert paths <= {AGGREGATABLE, *OTHER_REPORTS}, "a kind of report that nobody has thought about"
    return [one for one in reports if one["report_url"].endswith(AGGREGATABLE)]


@pytest.mark.parametrize("name", names())
def test_the_reports_are_those_published(name: str) -> None:
    case = read(name)
    chance = Chosen(1)
    client = Client(limits(case), chance)
    for registration in case["input"]["registrations"]:
        registered(client, chance, registration)
    made = client.sent()
    expected = told(case)
    assert bool(expected) != (name in NO_AGGREGATABLE_REPORT)
    assert [shown(one) for one in made] == expected


def shown(value: Any) -> dict[str, Any]:
    """A report as the cases tell it, from the bytes that are sent."""
    sent = from_json(to_json(report(value)))
    info = json.loads(sent.shared_info)
    assert list(info) == sorted(info)
    assert info.pop("report_id") == value.report_id
    found = payload.decode(sent.payload)
    assert len(found) == 20, "padded"
    real = [c for c in found if c.value] or found[:1]
    histograms = [{"id": str(c.filtering_id), "key": f"{c.key:#x}", "value": c.value} for c in real]
    body = {**sent.others, "histograms": histograms, "shared_info": info}
    return {"payload": body, "report_time": str(value.due), "report_url": value.url}


@pytest.mark.parametrize("name", names())
def test_the_outcomes_are_those_that_debug_reports_tell(name: str) -> None:
    case = read(name)
    chance = Chosen(1)
    client = Client(limits(case), chance)
    expected = [
        (one["report_time"], one["report_url"].removesuffix(VERBOSE), body["type"])
        for one in case["output"]["reports"]
        if one["report_url"].endswith(VERBOSE)
        for body in one["payload"]
        if not OTHER_TYPES.fullmatch(body["type"])
    ]
    outcomes = [
        (registration["timestamp"], re.sub("(?<=[a-z])/.*", "", response["url"]), told_as(result.outcome))
        for registration in case["input"]["registrations"]
        for response, result in registered(client, chance, registration)
        if isinstance(result, SourceResult | TriggerResult)
    ]
    assert set(expected) <= set(outcomes)


def told_as(outcome: str) -> str:
    return "source-success" if outcome in HIDDEN else outcome


def test_a_payload_is_base64_in_the_report() -> None:
    client = Client(rng=random.Random(1))
    about = {"page": "https://a.test", "reporter": "https://r.test"}
    client.source('{"destination": "https://a.test", "aggregation_keys": {"k": "0x1"}}', time=0, **about)
    (value,) = client.trigger('{"aggregatable_values": {"k": 7}}', time=1, **about).attributions
    body = json.loads(to_json(report(value)))["aggregation_service_payloads"][0]
    assert payload.decode(base64.b64decode(body["payload"]))[0].value == 7


@pytest.mark.parametrize("name", names()[:1])
def test_the_table_in_the_docs_counts_these_cases(name: str) -> None:
    page = (Path(__file__).parents[2] / "docs" / "client.md").read_text(encoding="utf-8")
    reports = [one for name in names() for one in read(name)["output"]["reports"]]
    of = {kind: sum(one["report_url"].endswith(kind) for one in reports) for kind in (AGGREGATABLE, *OTHER_REPORTS)}
    events, debugs, verbose = (of[kind] for kind in OTHER_REPORTS)
    types = [body["type"] for one in reports if one["report_url"].endswith(VERBOSE) for body in one["payload"]]
    ours = [one for one in types if not OTHER_TYPES.fullmatch(one)]
    assert verbose
    for row in (
        f"| interop cases | {len(names())} | {len(names())} |",
        f"| aggregatable attribution reports in these | {of[AGGREGATABLE]} | {of[AGGREGATABLE]} |",
        f"| event-level reports in these | {events} | |",
        f"| debug reports in aggregate in these | {debugs} | |",
        f"| types in verbose debug reports in these | {len(types)} | {len(ours)} |",
        *(f"`{name}`" for name in NO_AGGREGATABLE_REPORT),
    ):
        assert row in page
