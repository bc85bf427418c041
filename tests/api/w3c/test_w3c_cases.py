"""The published cases of w3c/attribution: calls in, histograms or errors out."""

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest

from attributary.api.w3c import COMMIT, AttributionError, ConversionOptions, ImpressionOptions
from attributary.browsers import UserAgent, UserAgentSettings
from fetch_vectors import ORIGINS
from support.vectors import found, vectors

FOLDER = found("w3c")
OURS = Path(__file__).parents[3] / "examples" / "w3c_cases"
OTHERS = ("CONFIG", "e2e.schema")
CASES = sorted(file.stem for file in FOLDER.glob("*.json") if file.stem not in OTHERS) if FOLDER else ["no cases"]
SETTINGS = {
    "maxHistogramSize": "histogram_size",
    "maxLookbackDays": "lookback_days",
    "maxConversionSitesPerImpression": "conversion_sites",
    "maxConversionCallersPerImpression": "conversion_callers",
    "maxImpressionSitesForConversion": "impression_sites",
    "maxImpressionCallersForConversion": "impression_callers",
    "maxCreditSize": "credits",
    "maxMatchValues": "match_values",
    "perSitePrivacyBudget": "site_budget",
    "globalPrivacyBudgetPerEpoch": "global_budget",
    "impressionSiteQuotaPerEpoch": "impression_site_quota",
    "privacyBudgetEpochDays": "epoch_days",
}
DOM_EXCEPTIONS = ("SyntaxError", "NotAllowedError")


class Fixed(Random):
    """Draws what the cases state: first where the epochs start, then how credit is rounded."""

    def __init__(self, start: float, rounding: float) -> None:
        self.start, self.rounding = [start], rounding
        super().__init__(0)

    def random(self) -> float:
        return self.start.pop() if self.start else self.rounding


def result(agent: UserAgent, event: dict[str, Any]) -> Any:
    """What comes of an event: a histogram, the error that is stated so, or None."""
    call = {"site": event.get("site"), "caller": event.get("intermediarySite", ""), "time": event["seconds"]}
    try:
        match event["event"]:
            case "saveImpression":
                agent.save_impression(ImpressionOptions.from_json(event["options"]), **call)
            case "measureConversion":
                return list(agent.measure_conversion(ConversionOptions.from_json(event["options"]), **call))
            case "clearImpressionsForSite":
                agent.clear_impressions(event["site"])
            case "clearBrowsingHistoryForAttribution":
                agent.clear_history(event["sites"], forget_visits=event["forgetVisits"], time=event["seconds"])
            case "enableAPI" | "disableAPI" as switch:
                agent.enabled = switch == "enableAPI"
            case other:
                pytest.fail(f"an event that is not known: {other}")
    except AttributionError as error:
        return {"error": "DOMException", "name": error.name} if error.name in DOM_EXCEPTIONS else error.name
    return None


@pytest.mark.parametrize("name", CASES)
def test_published_cases(name: str) -> None:
    run_case(vectors("w3c"), name)


@pytest.mark.parametrize("name", sorted(file.stem for file in OURS.glob("*.json") if file.stem not in OTHERS))
def test_our_cases(name: str) -> None:
    """Cases in the same form for what the published ones do not touch: quotas, exhaustion and clearing."""
    run_case(OURS, name)


def run_case(folder: Path, name: str) -> None:
    config, events = (read(folder / f"{file}.json") for file in ("CONFIG", name))
    chosen: dict[str, Any] = {ours: config[theirs] for theirs, ours in SETTINGS.items()}
    services = tuple(config["aggregationServices"])
    settings = UserAgentSettings(aggregation_services=services, activation_seconds=None, **chosen)
    agent = UserAgent(settings, Fixed(config["epochStart"], config["fairlyAllocateCreditFraction"]))
    for event in events["events"]:
        expected = event.get("expected", event.get("expectedError"))
        assert result(agent, event) == expected, event


def test_our_cases_have_the_published_form() -> None:
    """By the group's schema, and with the settings of its cases."""
    folder, schemas = vectors("w3c"), pytest.importorskip("jsonschema")
    assert read(OURS / "CONFIG.json") == {k: v for k, v in read(folder / "CONFIG.json").items() if k != "$comment"}
    schema = schemas.Draft202012Validator(read(folder / "e2e.schema.json"))
    for file in OURS.glob("*.json"):
        schema.validate(read(file))


def test_the_cases_are_of_the_commit_that_is_followed() -> None:
    (origin,) = (origin for origin in ORIGINS if origin.repository == "w3c/attribution")
    assert origin.commit.startswith(COMMIT)


def read(path: Path) -> dict[str, Any]:
    value = json.loads(path.read_text(encoding="utf-8"))
    assert isinstance(value, dict)
    return value
