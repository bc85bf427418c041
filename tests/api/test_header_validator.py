"""The published header validator's cases: each is accepted or refused as it says, with its values and findings."""

import json
import math
import os
from pathlib import Path
from typing import Any

import pytest

from attributary.api.ara import parse
from attributary.api.ara.parse import Parsed
from attributary.api.ara.parse.both_headers import BrowserLimits, FilterConfig, FilterPair
from attributary.browsers.ara_client import matches
from support.vectors import found

LIMIT_NAMES = {
    "aggregationCoordinatorOrigins": "coordinators",
    "maxEventLevelChannelCapacityPerSource": "channel_capacity",
    "maxEventLevelAttributionScopesChannelCapacityPerSource": "scopes_channel_capacity",
    "maxSettableEventLevelEpsilon": "event_level_epsilon",
    "maxTriggerStateCardinality": "trigger_states",
}


def cases(kind: str) -> list[Any]:
    file = found(f"header-validator/{kind}.json")
    if file is None:
        assert not os.environ.get("CI"), f"the published cases header-validator/{kind}.json are missing"
        return [pytest.param(None, marks=pytest.mark.skip(reason=f"{kind}.json of the published cases is absent"))]
    return [pytest.param(case, id=case["name"]) for case in json.loads(file.read_text(encoding="utf-8"))]


def unwrapped(value: Any) -> Any:
    """What a case's value means: $bigint, $map, $set and $maybe stand for what JSON lacks."""
    match value:
        case list():
            found: Any = tuple(map(unwrapped, value))
        case {"$bigint": digits}:
            found = int(digits)
        case {"$map": items}:
            found = {key: unwrapped(item) for key, item in items}
        case {"$set": items}:
            found = frozenset(map(unwrapped, items))
        case {"$maybe": inner}:
            found = unwrapped(inner)
        case dict():
            found = {key: unwrapped(item) for key, item in value.items()}
        case _:
            found = value
    return found


def limits(case: dict[str, Any]) -> BrowserLimits:
    """Chromium's limits, with those of the case in their place; null stands for none."""
    own: dict[str, Any] = {}
    for name, value in case.get("vsv", {}).items():
        if isinstance(value, dict):
            for kind, most in value.items():
                own[f"{LIMIT_NAMES[name]}_{kind}"] = math.inf if most is None else most
        else:
            own[LIMIT_NAMES[name]] = tuple(value) if isinstance(value, list) else value
    return BrowserLimits(**own)


def check(case: dict[str, Any], found: Parsed[Any]) -> None:
    for kind in ("errors", "warnings", "notes"):
        expected = [(tuple(issue["path"]), issue["msg"]) for issue in case.get(f"expected{kind.title()}", [])]
        assert [(issue.path, issue.message) for issue in getattr(found, kind)] == expected
    assert (found.value is None) == bool(case.get("expectedErrors"))
    if "expected" in case:
        compare(found.value, unwrapped(case["expected"]))


def compare(value: Any, expected: Any) -> None:
    if isinstance(expected, dict) and not isinstance(value, dict):
        for name, want in expected.items():
            snake = "".join(f"_{c.lower()}" if c.isupper() else c for c in name)
            compare(getattr(value, snake), want)
    elif isinstance(expected, frozenset):
        assert frozenset(value) == expected
    elif isinstance(expected, tuple):
        assert len(value) == len(expected)
        for one, want in zip(value, expected, strict=True):
            compare(one, want)
    else:
        assert value == expected


@pytest.mark.parametrize("case", cases("source"))
def test_a_source_is_accepted_or_refused_as_published(case: dict[str, Any]) -> None:
    kind = case.get("sourceType", "navigation")
    check(case, parse.source(case["input"], kind, limits(case), note_gain=case.get("noteInfoGain", False)))


@pytest.mark.parametrize("case", cases("trigger"))
def test_a_trigger_is_accepted_or_refused_as_published(case: dict[str, Any]) -> None:
    check(case, parse.trigger(case["input"], limits(case)))


@pytest.mark.parametrize("case", cases("filters"))
def test_filters_match_as_published(case: dict[str, Any]) -> None:
    data = {**unwrapped(case.get("sourceData", {})), "source_type": {case.get("sourceType", "navigation")}}
    configs = tuple(FilterConfig(config["map"], config["lookbackWindow"]) for config in map(unwrapped, case["filters"]))
    age = 5  # the published test's trigger comes five seconds after its source
    assert matches(data, age, FilterPair(configs, ())) == case["expectedPositive"]
    assert matches(data, age, FilterPair((), configs)) == case["expectedNegative"]


@pytest.mark.parametrize("kind", ["source", "trigger", "filters"])
def test_the_table_in_the_docs_counts_these_cases(kind: str) -> None:
    page = (Path(__file__).parents[2] / "docs" / "client.md").read_text(encoding="utf-8")
    row = next(line for line in page.splitlines() if line.startswith(f"| header validator, {kind.removesuffix('s')}s"))
    count = len(cases(kind))
    if cases(kind)[0].marks:
        pytest.skip("the published cases are absent")
    assert row.split("|")[2:4] == [f" {count} "] * 2
