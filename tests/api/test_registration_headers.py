"""Registrations are read and checked: every rule, and whatever else comes in."""

import json
from math import comb, log2
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from attributary.api.ara import parse
from attributary.api.ara.parse import Issue, Parsed
from attributary.api.ara.parse.both_headers import BrowserLimits
from attributary.api.ara.parse.source_header import information_gain
from attributary.api.sites import parse_url, registrable_domain
from attributary.noise.randomised_response import response_rate

SITE = {"destination": "https://a.test"}
FULL_SOURCE: dict[str, Any] = {
    **SITE,
    "aggregation_keys": {"a": "0x1", "b": "0XfF"},
    "filter_data": {"class": ["1", "2"], "none": []},
    "expiry": "172800",
    "aggregatable_report_window": 7200,
    "priority": "-9223372036854775808",
    "source_event_id": "18446744073709551615",
    "debug_key": "7",
    "debug_reporting": True,
    "destination_limit_priority": "3",
    "event_report_windows": {"start_time": 1, "end_times": [3600, 7200]},
    "max_event_level_reports": 1,
    "trigger_data": [0, 1],
    "attribution_scopes": {"limit": 2, "values": ["x"], "max_event_states": 3},
    "named_budgets": {"n": 10},
    "aggregatable_debug_reporting": {
        "budget": 5,
        "key_piece": "0x1",
        "debug_data": [{"types": ["unspecified"], "key_piece": "0x1", "value": 5}],
    },
}
FULL_TRIGGER: dict[str, Any] = {
    "aggregatable_trigger_data": [{"key_piece": "0x1", "source_keys": ["a"], "filters": {"class": ["1"]}}],
    "aggregatable_values": [
        {"values": {"a": 1}, "filters": [{"class": ["1"], "_lookback_window": 60}]},
        {"values": {"a": {"value": 65536, "filtering_id": "65535"}}, "not_filters": {"class": ["1"]}},
    ],
    "aggregatable_deduplication_keys": [{"deduplication_key": "1"}],
    "aggregatable_filtering_id_max_bytes": 2.0,
    "aggregatable_source_registration_time": "exclude",
    "trigger_context_id": "context",
    "filters": {"source_type": ["navigation"]},
    "debug_key": "8",
    "named_budgets": [{"name": "n"}],
    "attribution_scopes": ["x"],
    "event_trigger_data": [{"trigger_data": "1", "priority": "2", "deduplication_key": "3"}],
}


def source(j: Any, **options: Any) -> Parsed[parse.Source]:
    return parse.source(json.dumps(j), **options)


def trigger(j: Any, **options: Any) -> Parsed[parse.Trigger]:
    return parse.trigger(json.dumps(j), **options)


def test_a_source_with_everything() -> None:
    found = source(FULL_SOURCE)
    assert found.errors == found.warnings == found.notes == ()
    value = found.value
    assert value
    assert value.aggregation_keys == {"a": 1, "b": 255}
    assert value.filter_data == {"class": {"1", "2"}, "none": set()}
    assert (value.expiry, value.aggregatable_report_window) == (172800, 7200)
    assert (value.priority, value.source_event_id) == (-(2**63), 2**64 - 1)
    assert (value.debug_key, value.debug_reporting, value.named_budgets) == (7, True, {"n": 10})
    assert value.aggregatable_debug_reporting and value.aggregatable_debug_reporting.budget == 5


def test_a_source_with_only_a_destination_has_its_defaults() -> None:
    value = source(SITE).value
    assert value
    assert value.destination == ("https://a.test",)
    assert value.expiry == value.aggregatable_report_window == 30 * 86_400
    assert (value.priority, value.source_event_id, value.debug_key, value.aggregation_keys) == (0, 0, None, {})


def test_a_trigger_with_everything() -> None:
    found = trigger(FULL_TRIGGER)
    assert found.errors == found.warnings == ()
    value = found.value
    assert value
    assert [{k: (v.value, v.filtering_id) for k, v in one.values.items()} for one in value.aggregatable_values] == [
        {"a": (1, 0)},
        {"a": (65536, 65535)},
    ]
    assert value.aggregatable_filtering_id_max_bytes == 2
    assert value.aggregatable_deduplication_keys[0].deduplication_key == 1
    assert (value.trigger_context_id, value.debug_key) == ("context", 8)


LONG = "x" * 26
REFUSED_SOURCES = [
    ({"destination": 1}, "destination", "must be a string or a list"),
    ({"destination": ["https://a.test", 1]}, "destination[1]", "must be a string"),
    ({"destination": "http://a.test"}, "destination", "URL must use HTTP/HTTPS and be potentially trustworthy"),
    ({"destination": "ftp://a.test"}, "destination", "URL must use HTTP/HTTPS and be potentially trustworthy"),
    ({"destination": "https://"}, "destination", "invalid URL"),
    ({"aggregation_keys": {"a": "1"}}, "aggregation_keys.a", "must be a hex128"),
    ({"aggregation_keys": {"a": "0x"}}, "aggregation_keys.a", "must be a hex128"),
    ({"aggregation_keys": {"a": "0x" + "1" * 33}}, "aggregation_keys.a", "must be a hex128"),
    ({"aggregation_keys": {"a": "0x1\n"}}, "aggregation_keys.a", "must be a hex128"),
    ({"aggregation_keys": {LONG: "0x1"}}, f"aggregation_keys.{LONG}", "key exceeds max length"),
    ({"aggregation_keys": []}, "aggregation_keys", "must be an object"),
    ({"filter_data": {"a": [LONG]}}, "filter_data.a[0]", "exceeds max length per filter string (26 > 25)"),
    ({"filter_data": {"_lookback_window": ["1"]}}, "filter_data._lookback_window", "is prohibited because"),
    ({"source_event_id": "18446744073709551616"}, "source_event_id", "must fit in an unsigned 64-bit integer"),
    ({"source_event_id": "9" * 5000}, "source_event_id", "must fit in an unsigned 64-bit integer"),
    ({"source_event_id": "１"}, "source_event_id", "string must represent a non-negative integer"),
    ({"source_event_id": None}, "source_event_id", "must be a string"),
    ({"priority": "9223372036854775808"}, "priority", "must fit in a signed 64-bit integer"),
    ({"priority": "-9223372036854775809"}, "priority", "must fit in a signed 64-bit integer"),
    ({"priority": "--1"}, "priority", "string must represent an integer"),
    ({"expiry": 86400.5}, "expiry", "must be an integer"),
    ({"expiry": 1e999}, "expiry", "is not JSON"),
    ({"expiry": "1", "x": 0, "event_report_window": []}, "event_report_window", "must be a number or a string"),
    ({"event_report_windows": 1}, "event_report_windows", "must be an object"),
    ({"event_report_windows": {"end_times": [0]}}, "event_report_windows.end_times[0]", "must be positive"),
    ({"event_report_windows": {"start_time": -1, "end_times": [9]}}, "event_report_windows.start_time", "must be non-"),
    ({"max_event_level_reports": 21}, "max_event_level_reports", "must be in the range [0, 20]"),
    ({"trigger_data": list(range(33))}, "trigger_data", "length must be in the range [0, 32]"),
    ({"trigger_data_matching": "x"}, "trigger_data_matching", "must be one of the following"),
    ({"attribution_scopes": {"limit": 1, "values": ["x" * 51]}}, "attribution_scopes.values[0]", "exceeds max length"),
    ({"named_budgets": {LONG: 1}}, f"named_budgets.{LONG}", "name exceeds max length per budget name (26 > 25)"),
    ({"named_budgets": {"a": 65537}}, "named_budgets.a", "must be in the range [0, 65536]"),
    ({"named_budgets": {str(i): 1 for i in range(26)}}, "named_budgets", "exceeds the maximum number of keys (25)"),
    ({"event_level_epsilon": -1}, "event_level_epsilon", "must be in the range [0, 14]"),
]


@pytest.mark.parametrize(("j", "path", "message"), REFUSED_SOURCES)
def test_a_source_is_refused(j: dict[str, Any], path: str, message: str) -> None:
    found = source({**SITE, **j})
    assert found.value is None
    first = str(found.errors[0])
    assert first.startswith(message if message == "is not JSON" else f"{path}: {message}")


@pytest.mark.parametrize("window", ["aggregatable_report_window", "event_report_window"])
def test_a_window_waits_for_the_expiry(window: str) -> None:
    found = source({**SITE, "expiry": [], window: 3600})
    assert Issue((window,), "cannot be fully validated without a valid expiry") in found.errors


@pytest.mark.parametrize("windows", [{"end_times": [9]}, {"start_time": 0, "end_times": [9]}])
def test_windows_wait_for_the_expiry(windows: dict[str, Any]) -> None:
    found = source({**SITE, "expiry": [], "event_report_windows": windows})
    assert found.errors[-1].message.startswith("cannot be fully validated without a valid")


REFUSED_TRIGGERS = [
    ({"aggregatable_values": 1}, "aggregatable_values", "must be an object or a list"),
    ({"aggregatable_values": {"a": 0}}, "aggregatable_values.a", "must be in the range [1, 65536]"),
    ({"aggregatable_values": {"a": 1.5}}, "aggregatable_values.a", "must be an integer"),
    ({"aggregatable_values": {"a": True}}, "aggregatable_values.a", "must be a number or an object"),
    ({"aggregatable_values": {"a": {}}}, "aggregatable_values.a.value", "required"),
    ({"aggregatable_values": [{}]}, "aggregatable_values[0].values", "required"),
    ({"aggregatable_values": [1]}, "aggregatable_values[0]", "must be an object"),
    (
        {"aggregatable_filtering_id_max_bytes": 2, "aggregatable_values": {"a": {"value": 1, "filtering_id": "65536"}}},
        "aggregatable_values.a.filtering_id",
        "must be in the range [0, 65535]",
    ),
    (
        {"aggregatable_values": {"a": {"value": 1, "filtering_id": "-1"}}},
        "aggregatable_values.a.filtering_id",
        "string",
    ),
    ({"aggregatable_filtering_id_max_bytes": 9}, "aggregatable_filtering_id_max_bytes", "must be in the range [1, 8]"),
    (
        {"aggregatable_filtering_id_max_bytes": 2, "aggregatable_source_registration_time": "include"},
        "aggregatable_filtering_id_max_bytes",
        "with a non-default value (higher than 1) is prohibited for aggregatable_source_registration_time include",
    ),
    ({"aggregatable_trigger_data": [1]}, "aggregatable_trigger_data[0]", "must be an object"),
    ({"aggregatable_trigger_data": [{}]}, "aggregatable_trigger_data[0].key_piece", "required"),
    ({"aggregatable_deduplication_keys": {}}, "aggregatable_deduplication_keys", "must be a list"),
    ({"filters": {"_lookback_window": 0}}, "filters._lookback_window", "must be positive"),
    ({"filters": [1]}, "filters[0]", "must be an object"),
    ({"trigger_context_id": 1}, "trigger_context_id", "must be a string"),
    ({"named_budgets": [1]}, "named_budgets[0]", "must be an object"),
    ({"event_trigger_data": [1]}, "event_trigger_data[0]", "must be an object"),
    ({"aggregation_coordinator_origin": "https://x.test"}, "aggregation_coordinator_origin", "must be one of"),
    ({"attribution_scopes": [1]}, "attribution_scopes[0]", "must be a string"),
]


@pytest.mark.parametrize(("j", "path", "message"), REFUSED_TRIGGERS)
def test_a_trigger_is_refused(j: dict[str, Any], path: str, message: str) -> None:
    found = trigger(j)
    assert found.value is None
    assert str(found.errors[0]).startswith(f"{path}: {message}")


def test_a_context_id_waits_for_the_registration_time() -> None:
    found = trigger({"aggregatable_source_registration_time": 1, "trigger_context_id": "1"})
    assert [issue.path for issue in found.errors] == [
        ("aggregatable_source_registration_time",),
        ("trigger_context_id",),
    ]


def test_keys_on_one_side_only_are_told() -> None:
    j = {"aggregatable_trigger_data": [{"key_piece": "0x1", "source_keys": ["a"]}], "aggregatable_values": {"b": 1}}
    never = 'key "a" will never result in a contribution due to absence from aggregatable_values'
    bare = 'key "b"\'s absence from aggregatable_trigger_data source_keys equivalent to presence with key_piece 0x0'
    assert trigger(j).warnings == (
        Issue(("aggregatable_trigger_data", 0, "source_keys"), never),
        Issue(("aggregatable_values",), bare),
    )


def test_debug_reporting_may_be_wrong_without_harm() -> None:
    datum = {"types": ["unspecified"], "key_piece": "0x1", "value": 6}
    debug = {"budget": 5, "key_piece": "0x1", "debug_data": [datum]}
    found = source({**SITE, "aggregatable_debug_reporting": debug})
    assert found.value and found.value.aggregatable_debug_reporting is None
    assert found.warnings == (Issue(("aggregatable_debug_reporting",), "data contains value greater than budget (5)"),)


@pytest.mark.parametrize(
    ("field", "value", "message"), [("debug_key", 7, "a string"), ("debug_reporting", 1, "a boolean")]
)
def test_debug_fields_may_be_wrong_without_harm(field: str, value: Any, message: str) -> None:
    warning = (Issue((field,), f"must be {message}"),)
    of_source, of_trigger = source({**SITE, field: value}), trigger({field: value})
    assert of_source.value and of_source.value.debug_key is None and of_source.warnings == warning
    assert of_trigger.value and of_trigger.value.debug_reporting is False and of_trigger.warnings == warning


def test_a_filtering_id_of_one_byte_goes_with_the_registration_time() -> None:
    j = {"aggregatable_filtering_id_max_bytes": 1, "aggregatable_source_registration_time": "include"}
    assert trigger(j).value


@pytest.mark.parametrize("more", ["https://www.a.test", "https://a.test/x", "https://a.test:8443", "https://u@a.test"])
def test_a_destination_is_a_site_and_what_is_more_is_ignored(more: str) -> None:
    found = source({"destination": [more, "https://a.test"]})
    assert found.value and found.value.destination == ("https://a.test",)
    assert [issue.message for issue in found.warnings] == [
        "URL components other than site (https://a.test) will be ignored",
        "duplicate value https://a.test",
    ]


@pytest.mark.parametrize("suffix", ["https://github.io", "https://co.uk", "https://com", "https://github.io./x"])
def test_a_public_suffix_as_destination_is_taken_with_a_warning(suffix: str) -> None:
    site = suffix.removesuffix("/x")
    for destination in (suffix, [suffix, "https://shop.test"]):
        found = source({"destination": destination})
        assert found.value and site in found.value.destination
        assert any(f"{site} is a public suffix" in issue.message for issue in found.warnings)


@pytest.mark.parametrize("site", ["https://a.github.io", "https://shop.co.uk", "http://localhost", "https://127.0.0.1"])
def test_what_is_no_public_suffix_is_taken_without(site: str) -> None:
    assert not source({"destination": site}).warnings


def test_a_coordinator_may_be_chosen_and_is_an_origin() -> None:
    limits = BrowserLimits(coordinators=("https://c.test", "https://d.test:8443"))
    found = trigger({"aggregation_coordinator_origin": "https://d.test:8443/x"}, limits=limits)
    assert found.value and found.value.aggregation_coordinator_origin == "https://d.test:8443"
    message = "URL components other than origin (https://d.test:8443) will be ignored"
    assert found.warnings == (Issue(("aggregation_coordinator_origin",), message),)


def test_a_source_is_a_click_or_a_view() -> None:
    with pytest.raises(ValueError, match="source_type must be one of navigation, event; got 'click'"):
        parse.source("{}", "click")


AWKWARD = {
    "nothing": "",
    "half": '{"destination": "https://a.te',
    "twice, then half": '{"a": 1, "a": 2, ',
    "twice, then deep": '[{"a": 1, "a": 2}, ' + "[" * 100_000,
    "deep list": "[" * 100_000,
    "deep object": '{"a":' * 100_000,
    "deep but whole": "[" * 100_000 + "]" * 100_000,
    "deep within": '{"destination": "https://a.test", "x": ' + "[" * 100_000 + "]" * 100_000 + "}",
    "NaN": '{"expiry": NaN}',
    "Infinity": '{"expiry": -Infinity}',
    "huge number": '{"expiry": ' + "9" * 1_000_000 + "}",
    "huge exponent": '{"expiry": 1e400}',
    "byte order mark": "\ufeff{}",
    "more after the end": "{} {}",
    "half a pair": '{"destination": "https://a.test", "trigger_context_id": "\\ud800"}',
    "half a pair in a key": '{"destination": "https://a.test", "filter_data": {"\\udfff": []}}',
    "half a pair as it is": '{"destination": "https://a.test", "filter_data": {"a": ["\ud800"]}}',
    "zero byte": '{"destination": "https://a\\u0000.test"}',
    "null": "null",
    "long word in front": "x" * 1_000_000,
    "long destination": json.dumps({"destination": "x" * 1_000_000}),
    "destination that breaks lines": json.dumps({"destination": "https://a\n\x00\x1b[2J b.test"}),
    "long key": json.dumps({"destination": "https://a.test", "filter_data": {"\n" * 100_000: []}}),
    "long path": json.dumps({"destination": 1, "filter_data": {"\x85" * 26: ["\x85" * 26]}}),
}


@pytest.mark.parametrize("text", AWKWARD.values(), ids=AWKWARD)
def test_awkward_text_is_refused_in_one_line(text: str) -> None:
    for found in (parse.source(text), parse.trigger(text)):
        assert found.value is None or not found.errors
        assert all("\n" not in str(issue) and len(str(issue)) < 400 for issue in found.errors)
    assert parse.source(text).errors


LONG_VALUES = [
    {"filters": {"source_type": ["\n" * 9999]}},
    {"filters": {"x": ["\n" * 9999] * 2}},
    {"attribution_scopes": ["\x1b" * 9999] * 2},
    {"\x00" * 9999: 1},
    {
        "aggregatable_values": {"\u2028" * 9: 1},
        "aggregatable_trigger_data": [{"key_piece": "0x1", "source_keys": ["\n"]}],
    },
]


@pytest.mark.parametrize("j", LONG_VALUES)
def test_warnings_are_shown_in_one_line(j: dict[str, Any]) -> None:
    found = trigger(j)
    assert found.value and found.warnings
    assert all(str(issue).isprintable() and len(str(issue)) < 600 for issue in found.warnings)


def test_a_refused_destination_is_shown_with_what_to_write() -> None:
    for wrong in ("shop.example", "http://shop.example"):
        (error,) = source({"destination": wrong}).errors
        assert str(error).endswith(f"; got '{wrong}': write an address as in https://shop.example")
        assert error.path == ("destination",) and wrong not in error.message, "and browsers' words stay as they are"


@settings(deadline=None)
@given(
    st.integers(0, 32),
    st.integers(1, 5),
    st.integers(0, 20),
    st.sampled_from(["navigation", "event"]),
    st.floats(0, 14),
)
@example(32, 5, 16, "navigation", 14.0)
@example(32, 5, 20, "event", 0.0)
@example(1, 1, 1, "event", 5e-324)
@example(22, 3, 16, "navigation", 0.0)  # a rate of exactly 1, however many states
def test_what_event_level_reports_could_tell_is_found_for_any_number_of_them(
    data: int, windows: int, reports: int, kind: str, epsilon: float
) -> None:
    """Up to 10²⁵ states, and never more bits than they could tell."""
    header = {
        **SITE,
        "trigger_data": list(range(data)),
        "max_event_level_reports": reports,
        "event_level_epsilon": epsilon,
        "event_report_windows": {"end_times": [3600 * (i + 1) for i in range(windows)]},
    }
    for limits in (
        BrowserLimits(),
        BrowserLimits(trigger_states=2**100, channel_capacity_navigation=99, channel_capacity_event=99),
    ):
        found = parse.source(json.dumps(header), kind, limits, note_gain=True)
        assert (found.value is None) == bool(found.errors) == bool(found.limit)
    states = comb(data * windows + reports, reports)
    assert 0 <= information_gain(states, epsilon) + 1e-9 and information_gain(states, epsilon) <= log2(states) + 1e-9
    assert 0 < response_rate(states, epsilon) <= 1


def test_a_key_that_stands_twice_counts_once_and_is_told() -> None:
    found = parse.source('{"destination": "https://a.test", "priority": "1", "priority": "2"}')
    assert found.value and found.value.priority == 2
    assert found.warnings == (Issue((), 'the key "priority" is duplicated in one object; the last one counts'),)


def test_many_keys_that_stand_twice_take_no_longer() -> None:
    found = parse.source(
        '{"destination": "https://a.test", ' + ", ".join(f'"{i % 50_000}": 1' for i in range(100_000)) + "}"
    )
    assert found.value and len(found.warnings) == 50_001


def test_a_huge_whole_number_is_clamped() -> None:
    value = parse.source('{"destination": "https://a.test", "expiry": 99999999999999999999999999}').value
    assert value and value.expiry == 30 * 86_400


def test_lengths_are_those_of_a_browser() -> None:
    assert source({**SITE, "aggregation_keys": {"𝔸" * 12 + "a": "0x1"}}).value
    assert str(source({**SITE, "aggregation_keys": {"𝔸" * 13: "0x1"}}).errors[0]).endswith("(26 > 25)")
    assert parse.source('{"destination": "https://a.test", "filter_data": {"a": ["\\ud835\\udd38"]}}').value


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)


def changed(draw: Any, j: Any) -> Any:
    """A registration with something in it replaced, dropped or moved."""
    if draw(st.integers(0, 4)) == 0:
        return draw(JSON)
    if isinstance(j, dict):
        return {
            draw(st.sampled_from([key, key, key, *j])): changed(draw, item)
            for key, item in j.items()
            if draw(st.integers(0, 9))
        }
    return [changed(draw, item) for item in j] if isinstance(j, list) else j


@settings(deadline=None)
@given(st.data())
def test_whatever_comes_in_is_read_or_refused(data: st.DataObject) -> None:
    whole = data.draw(st.sampled_from([FULL_SOURCE, FULL_TRIGGER]))
    text = json.dumps(changed(data.draw, whole))
    text = data.draw(st.sampled_from([text, text, text[: len(text) // 2], text.replace('"', "'", 1)]))
    for found in (parse.source(text), parse.source(text, "event"), parse.trigger(text)):
        assert (found.value is None) == bool(found.errors)
        assert all("\n" not in issue.message for issue in found.errors if not issue.message.startswith("is not JSON"))


@settings(deadline=None)
@given(st.text() | st.from_regex(r"[\[\]{}:,\"0-9a-e]{0,20}", fullmatch=True))
def test_any_text_is_read_or_refused(text: str) -> None:
    for found in (parse.source(text), parse.trigger(text)):
        assert (found.value is None) == bool(found.errors)


SITES = [
    ("https://shop.example.com/path?q#f", "https://shop.example.com", "https://example.com"),
    ("https://EXAMPLE.com:443/", "https://example.com", "https://example.com"),
    ("https://user@example.com:8443", "https://example.com:8443", "https://example.com"),
    ("https://a.b.shop.co.uk", "https://a.b.shop.co.uk", "https://shop.co.uk"),
    ("https://shop.co.uk", "https://shop.co.uk", "https://shop.co.uk"),
    ("https://www.shop.fr", "https://www.shop.fr", "https://shop.fr"),
    ("https://1.2.3.4:80/", "https://1.2.3.4:80", "https://1.2.3.4"),
    ("https://[::1]/", "https://[::1]", "https://[::1]"),
    ("http://localhost:8000/x", "http://localhost:8000", "http://localhost"),
    ("https://bücher.example", "https://xn--bcher-kva.example", "https://xn--bcher-kva.example"),
    ("https://x.a.myshopify.com", "https://x.a.myshopify.com", "https://a.myshopify.com"),  # the list's private section
    ("https://www.me.github.io", "https://www.me.github.io", "https://me.github.io"),
    ("https://github.io", "https://github.io", "https://github.io"),  # a suffix is its own site
    ("https://co.uk", "https://co.uk", "https://co.uk"),
    ("https://a.b.c.ck", "https://a.b.c.ck", "https://b.c.ck"),  # *.ck
    ("https://a.www.ck", "https://a.www.ck", "https://www.ck"),  # but !www.ck
    ("https://a.b.unlisted", "https://a.b.unlisted", "https://b.unlisted"),
    ("https://intranet:8443/x", "https://intranet:8443", "https://intranet"),
    ("https://www.shop.example.", "https://www.shop.example.", "https://shop.example."),  # a dot makes another site
    ("https://www.食狮.公司.cn", "https://www.xn--85x722f.xn--55qx5d.cn", "https://xn--85x722f.xn--55qx5d.cn"),
    (
        "https://www.XN--85X722F.xn--55qx5d.cn/",
        "https://www.xn--85x722f.xn--55qx5d.cn",
        "https://xn--85x722f.xn--55qx5d.cn",
    ),
    ("https://Faß.de", "https://xn--fa-hia.de", "https://xn--fa-hia.de"),  # another firm than fass.de
    ("https://ΒΌΛΟΣ。gr", "https://xn--nxasmq6b.gr", "https://xn--nxasmq6b.gr"),
    ("https://sh\u00adop.test", "https://shop.test", "https://shop.test"),
    ("https://%73hop.t\nest ", "https://shop.test", "https://shop.test"),
    ("https:\\\\shop.test\\x", "https://shop.test", "https://shop.test"),
    ("https:///shop.test", "https://shop.test", "https://shop.test"),
    ("https://u@v@shop.test:00443", "https://shop.test", "https://shop.test"),
    ("https://1.2.3", "https://1.2.0.3", "https://1.2.0.3"),
    ("http://0x7f.1.:80", "http://127.0.0.1", "http://127.0.0.1"),
    ("https://017700000001", "https://127.0.0.1", "https://127.0.0.1"),
    ("https://[0:0::FFFF:1.2.3.4]", "https://[::ffff:102:304]", "https://[::ffff:102:304]"),
    ("http://a.b.localhost.", "http://a.b.localhost.", "http://b.localhost."),
    ("http://[::1]:90", "http://[::1]:90", "http://[::1]"),
]


@pytest.mark.parametrize(("text", "origin", "of"), SITES)
def test_an_address_has_an_origin_and_a_site(text: str, origin: str, of: str) -> None:
    url = parse_url(text)
    assert url and (url.origin, url.site, url.trustworthy) == (origin, of, True)
    again = parse_url(of)
    assert again and again.site == of and not again.more_than_site


NO_ADDRESS = [
    "",
    "a.test",
    "//a.test",
    "https://",
    "https://a b.test",
    "https://a..test",
    "https://1.2.3.4.5",
    "https://256.2.3.4",
    "https://1.2.3.08",
    "https://shop.0x1",
    "https:///",
    "https://.",
    "https://%ff.test",
    "https://a\x01.test",
    "https://" + "\u00ad" * 3000 + "a.test",
]
NO_HOST = [
    "https://a.test:99999",
    "https://a.test:" + "1" * 9999,
    "https://[::1",
    "https://[zz]",
    "https://-a.test",
    "https://" + "a" * 300,
]


@pytest.mark.parametrize(
    "suffix", ["com", "co.uk", "myshopify.com", "github.io", "xn--55qx5d.cn", "any.ck", "unlisted"]
)
def test_a_site_is_one_label_below_a_suffix(suffix: str) -> None:
    """Whatever stands before it: below, it is the same site; beside, it is another."""
    here, there = (registrable_domain(f"{name}.{suffix}") for name in ("here", "there"))
    assert (here, there) == (f"here.{suffix}", f"there.{suffix}")
    assert {registrable_domain(f"{more}here.{suffix}") for more in ("", "a.", "a.b.", "there.")} == {here}
    assert registrable_domain(suffix) is None


@pytest.mark.parametrize(
    "text", ["http://shop.test", "http://127.a1", "http://localhost.test", "ftp://a.test", "data:,"]
)
def test_only_https_and_the_machine_itself_are_trusted(text: str) -> None:
    url = parse_url(text)
    assert url and not url.trustworthy


@settings(deadline=None)
@given(st.text(max_size=40) | st.text("aß.%0x1@:/[]。\u200d\u00ad\ud800\x00é١", max_size=20))
def test_any_host_is_read_or_refused(text: str) -> None:
    url = parse_url(f"https://{text}")
    if url is not None:
        again = parse_url(url.origin)
        assert again and (again.origin, again.site) == (url.origin, url.site)
        assert url.origin.isascii() and url.origin == url.origin.lower()


@pytest.mark.parametrize("text", [*NO_ADDRESS, *NO_HOST, "https://\ud800.test"])
def test_what_is_no_address_has_none(text: str) -> None:
    assert parse_url(text) is None


CLAMPED = [
    ({"expiry": 86_399}, "expiry", 86_400, "will be clamped to min of 86400"),
    ({"expiry": "2592001"}, "expiry", 2_592_000, "will be clamped to max of 2592000"),
    ({"aggregatable_report_window": 3599}, "aggregatable_report_window", 3600, "will be clamped to min of 3600"),
    (
        {"expiry": 86_400, "aggregatable_report_window": "86401"},
        "aggregatable_report_window",
        86_400,
        "will be clamped to max of 86400 (expiry)",
    ),
]


@pytest.mark.parametrize(("j", "field", "value", "message"), CLAMPED)
def test_times_are_clamped(j: dict[str, Any], field: str, value: int, message: str) -> None:
    found = source({**SITE, **j})
    assert found.value and getattr(found.value, field) == value
    assert found.warnings == (Issue((field,), message),)


@pytest.mark.parametrize(("seconds", "rounded"), [(86_400, 1), (129_599, 1), (129_600, 2), (2_592_000, 30)])
def test_the_expiry_of_a_view_is_in_whole_days(seconds: int, rounded: int) -> None:
    of_view, of_click = (
        source({**SITE, "expiry": seconds}, source_type=kind).value for kind in ("event", "navigation")
    )
    assert of_view and of_view.expiry == of_view.aggregatable_report_window == rounded * 86_400
    assert of_click and of_click.expiry == seconds


TELLING_TOO_MUCH = [
    (
        {"max_event_level_reports": 4},
        "navigation",
        BrowserLimits(),
        "exceeds max event-level channel capacity per navigation",
    ),
    ({"max_event_level_reports": 20}, "event", BrowserLimits(), "exceeds max event-level channel capacity per event"),
    ({}, "event", BrowserLimits(trigger_states=2), "number of possible output states (3) exceeds max cardinality (2)"),
    (
        {"attribution_scopes": {"limit": 1, "values": ["1"], "max_event_states": 2}},
        "event",
        BrowserLimits(),
        "number of possible output states (3) exceeds max event states (2)",
    ),
    (
        {"attribution_scopes": {"limit": 1000, "values": ["1"], "max_event_states": 1000}},
        "navigation",
        BrowserLimits(),
        "exceeds max event-level attribution scope information gain per navigation source (11.55)",
    ),
    ({"trigger_data": [1, 2]}, "event", BrowserLimits(), "trigger_data must form a contiguous sequence"),
]


@pytest.mark.parametrize(("j", "kind", "limits", "message"), TELLING_TOO_MUCH)
def test_a_source_whose_event_level_reports_tell_too_much_is_refused(
    j: dict[str, Any], kind: str, limits: BrowserLimits, message: str
) -> None:
    found = source({**SITE, **j}, source_type=kind, limits=limits)
    assert found.value is None
    assert message in found.errors[0].message


# Chromium's order; each source is over the limit of its line and over all below it.
SCOPED = {"attribution_scopes": {"limit": 1000, "values": ["1"], "max_event_states": 2}, "max_event_level_reports": 20}


@pytest.mark.parametrize(
    ("limits", "first"),
    [
        (BrowserLimits(trigger_states=2), "trigger-state-cardinality"),
        (BrowserLimits(), "channel-capacity"),
        (BrowserLimits(channel_capacity_event=100), "max-event-states"),
    ],
)
def test_a_source_over_several_limits_is_reported_by_the_first(limits: BrowserLimits, first: str) -> None:
    found = source({**SITE, **SCOPED}, source_type="event", limits=limits)
    assert found.limit == f"source-{first}-limit" and len(found.errors) >= 2


@pytest.mark.parametrize(("reports", "data"), [(0, [0]), (1, [])])
def test_event_level_reports_that_never_come_are_told(reports: int, data: list[int]) -> None:
    found = source({**SITE, "max_event_level_reports": reports, "trigger_data": data})
    assert found.value and "event-level attribution will always fail" in found.warnings[0].message


def test_what_event_level_reports_tell_is_noted() -> None:
    notes = [issue.message for issue in source(SITE, note_gain=True).notes]
    assert notes == [
        "information gain: 11.46",
        "number of possible output states: 2925",
        "randomized trigger rate: 0.0024263",
    ]


@pytest.mark.parametrize("states", [2, 3, 2925])
def test_the_capacity_is_that_of_the_channel(states: int) -> None:
    """The closed form equals the mutual information of a uniform input, summed over the channel's matrix."""
    from math import log2

    for epsilon in (0.5, 3.0, 14.0):
        flip = response_rate(states, epsilon)
        wrong, right = flip / states, 1 - flip + flip / states
        told = right * log2(right * states) + (states - 1) * wrong * log2(wrong * states)
        assert information_gain(states, epsilon) == pytest.approx(told, rel=1e-9, abs=1e-12)
    assert information_gain(states, 0) == 0
    assert information_gain(1, 14) == 0
