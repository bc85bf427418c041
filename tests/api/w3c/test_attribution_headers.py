"""Headers of W3C Attribution: written ones parse back, and what a browser ignores is refused."""

from collections import UserString
from contextlib import nullcontext
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attributary.api.w3c import ConversionOptions, ImpressionOptions, measure_conversion_header, save_impression_header
from attributary.browsers import parse_measure_conversion, parse_save_impression
from attributary.errors import InputError

U32 = st.integers(0, 2**32 - 1)
POSITIVE = st.integers(1, 2**32 - 1)
DAYS = st.integers(1, 999_999_999_999_999)
THREE_DECIMALS = st.integers(-(10**9), 10**9).map(lambda n: n / 1000)
ASCII = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=12)
SITES = st.lists(ASCII, max_size=4)
IMPRESSIONS = st.builds(
    ImpressionOptions, U32, U32, SITES, SITES, DAYS, st.integers(-(2**31), 2**31 - 1)
)  # fmt: skip
CONVERSIONS = st.builds(
    ConversionOptions, ASCII, POSITIVE, THREE_DECIMALS, DAYS, st.lists(U32, max_size=4), SITES, SITES,
    st.lists(THREE_DECIMALS, max_size=4), POSITIVE, POSITIVE,
)  # fmt: skip
BASE = "https://ads.example/pixel/"


@given(IMPRESSIONS)
def test_written_impressions_parse_back(options: ImpressionOptions) -> None:
    assert parse_save_impression(save_impression_header(options)) == options


@given(CONVERSIONS)
def test_written_conversions_parse_back(options: ConversionOptions) -> None:
    header = measure_conversion_header(options, "../report?a=1")
    assert parse_measure_conversion(header, BASE) == (options, "https://ads.example/report?a=1")


def test_defaults_are_not_written() -> None:
    assert save_impression_header(ImpressionOptions(3, conversion_sites=["a.example", "b.example"], priority=-1)) == (
        'histogram-index=3, conversion-sites=("a.example" "b.example"), priority=-1'
    )
    assert measure_conversion_header(ConversionOptions("https://a.example", 20, 0.25, credit=[1, 0.5]), "/r") == (
        'aggregation-service="https://a.example", histogram-size=20, epsilon=0.25, credit=(1.0 0.5), report-url="/r"'
    )


def test_a_header_saves_one_impression_the_last_that_it_states() -> None:
    assert parse_save_impression("histogram-index=1, priority=2, histogram-index=7") == ImpressionOptions(7, priority=2)


def test_unknown_members_and_parameters_are_ignored() -> None:
    header = 'histogram-index=1;a=2, match-value=3, octopus, conversion-sites=("a";b);c, match_value=9, value=0, *x=(1)'
    assert parse_save_impression(header) == ImpressionOptions(1, 3, ["a"])


@pytest.mark.parametrize(
    ("member", "bad", "good"),
    [
        ("histogram-index", ["a", "-1", "1.2", "4294967296", '"1"', "?1", "(1)", "@1"], ["0", "4294967295"]),
        ("match-value", ["a", "-1", "1.0", "4294967296", "?0"], ["0", "4294967295"]),
        ("lifetime-days", ["a", "0", "-1", "1.5"], ["1", "999999999999999"]),
        ("priority", ["a", "1.5", "2147483648", "-2147483649"], ["2147483647", "-2147483648"]),
        ("conversion-sites", ["a", '"a"', "(a)", "(1)", ":YQ==:"], ["()", '("" "b")']),
        ("conversion-callers", ["a", "(a)", '("a" 1)'], ["()", '("b")']),
    ],
)
def test_members_of_an_impression(member: str, bad: list[str], good: list[str]) -> None:
    for value in bad:
        with pytest.raises(InputError):
            parse_save_impression(f"histogram-index=1, {member}={value}")
    for value in good:
        parse_save_impression(f"histogram-index=1, {member}={value}")


@pytest.mark.parametrize(
    ("member", "bad", "good"),
    [
        ("aggregation-service", ["a", "1", "?1"], ['""', '"x"']),
        ("histogram-size", ["a", "0", "-1", "1.2", "4294967296"], ["4294967295"]),
        ("epsilon", ["a", '"1"', "(1)", "?1"], ["2", "2.125", "-1", "0"]),
        ("lookback-days", ["a", "0", "-1", "1.2"], ["999999999999999"]),
        ("match-values", ["a", "1", "(a)", "(-1)", "(1.2)", "(4294967296)"], ["()", "(0 4294967295)"]),
        ("impression-sites", ["a", "(a)"], ["()", '("c")']),
        ("impression-callers", ["a", "(a)"], ["()", '("c")']),
        ("credit", ["a", "1", "(a)", '("1")'], ["()", "(0 0.5 3)"]),
        ("value", ["a", "0", "-1", "1.2", "4294967296"], ["4294967295"]),
        ("max-value", ["a", "0", "-1", "1.2", "4294967296"], ["4294967295"]),
        ("report-url", ["a", "1", '"http://r.example"', '"https://:"', '"https://[x"', '"ftp://r.example"'],
         ['"xyz"', '"https://r.example/bar?x=y"', '"//r.example"', '""']),
    ],
)  # fmt: skip
def test_members_of_a_conversion(member: str, bad: list[str], good: list[str]) -> None:
    start = 'aggregation-service="", histogram-size=1, report-url="/"'
    for value in bad:
        with pytest.raises(InputError):
            parse_measure_conversion(f"{start}, {member}={value}", BASE)
    for value in good:
        parse_measure_conversion(f"{start}, {member}={value}", BASE)


# A member of every type that RFC 9651 knows, empty ones too, and inner lists of each.
ITEMS = {
    "integer": "1", "decimal": "1.5", "string": '"a"', "empty string": '""', "token": "a", "bytes": ":AQI=:",
    "empty bytes": "::", "boolean": "?1", "date": "@1659578233", "display string": '%"a"', "empty display": '%""',
}  # fmt: skip
TYPES = ITEMS | {"empty list": "()"} | {f"list of {name}": f"({value})" for name, value in ITEMS.items()}
TEXTS, NUMBERS = {"string", "empty string"}, {"integer", "decimal"}
TEXT_LISTS = {"empty list", "list of string", "list of empty string"}
START = 'aggregation-service="", histogram-size=1, report-url="/", histogram-index=1'
EITHER_HEADER = {
    "histogram-index": {"integer"}, "match-value": {"integer"}, "lifetime-days": {"integer"}, "priority": {"integer"},
    "conversion-sites": TEXT_LISTS, "conversion-callers": TEXT_LISTS, "aggregation-service": TEXTS,
    "histogram-size": {"integer"}, "epsilon": NUMBERS, "lookback-days": {"integer"},
    "match-values": {"empty list", "list of integer"}, "impression-sites": TEXT_LISTS,
    "impression-callers": TEXT_LISTS, "credit": {"empty list", "list of integer", "list of decimal"},
    "value": {"integer"}, "max-value": {"integer"}, "report-url": TEXTS,
}  # fmt: skip


@pytest.mark.parametrize("member", EITHER_HEADER)
def test_members_are_taken_of_their_type_alone(member: str) -> None:
    for name, value in TYPES.items():
        header = f"{START}, {member}={value}"
        wrong = nullcontext() if name in EITHER_HEADER[member] else pytest.raises(InputError, match="must be")
        with wrong:
            parse_save_impression(header), parse_measure_conversion(header, BASE)


def test_every_member_is_among_those() -> None:
    members = {*ImpressionOptions.__slots__, *ConversionOptions.__slots__, "report_url"}
    assert {name.replace("-", "_") for name in EITHER_HEADER} == members


LONG = "x" * 5000
LONG_VALUES = [
    f'"{LONG}"',
    f'"{LONG}',
    LONG,
    f"({LONG})",
    f"(({LONG}",
    f'("{LONG}")',
    "1" * 5000,
    f":{LONG}!:",
    f"?{LONG}",
]


@pytest.mark.parametrize("member", [*EITHER_HEADER, "k" * 3000, "K" * 3000, f"{LONG}(", ""], ids=lambda name: name[:20])
def test_what_is_wrong_is_told_in_few_words_however_long_it_is(member: str) -> None:
    for header in (f"{START}, {member}={value}" for value in LONG_VALUES):
        for parse in (parse_save_impression, lambda header: parse_measure_conversion(header, BASE)):
            try:
                parse(header)
            except InputError as error:
                words = str(error)
            else:
                words = ""
            assert len(words) < 300, words


@pytest.mark.parametrize("changes", [{"impression_sites": ["ü" * 2000]}, {"aggregation_service": "ü" * 2000}])
def test_what_cannot_be_written_is_told_in_few_words(changes: dict[str, Any]) -> None:
    options = ConversionOptions(**{"aggregation_service": "", "histogram_size": 1, **changes})
    with pytest.raises(InputError, match="ASCII") as error:
        measure_conversion_header(options, "/r")
    assert len(str(error.value)) < 300


@pytest.mark.parametrize("value", ["a", b"\1", bytearray(b"\1"), memoryview(b"\1"), UserString(""), {}])
def test_what_is_no_list_of_numbers_is_refused_in_python_too(value: Any) -> None:
    with pytest.raises(InputError, match="credit must be a list"):
        ConversionOptions("", 1, credit=value)


@pytest.mark.parametrize("missing", [0, 1, 2])
def test_members_that_must_be_there(missing: int) -> None:
    members = ['aggregation-service=""', "histogram-size=1", 'report-url="/"']
    del members[missing]
    with pytest.raises(InputError):
        parse_measure_conversion(", ".join(members), BASE)


@pytest.mark.parametrize("header", ["", "!", "10", "histogram-index", "histogram-index=1,", "histogram-index=ü", "a=("])
def test_what_is_no_header_is_refused(header: str) -> None:
    with pytest.raises(InputError):
        parse_save_impression(header)


@pytest.mark.parametrize(("url", "place"), [("xyz", "https://ads.example/pixel/xyz"), ("/r", "https://ads.example/r")])
def test_a_report_goes_to_an_address_relative_to_the_response(url: str, place: str) -> None:
    header = f'aggregation-service="", histogram-size=1, report-url="{url}"'
    assert parse_measure_conversion(header, BASE)[1] == place
    with pytest.raises(InputError, match="https"):
        parse_measure_conversion(header, "http://ads.example")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"epsilon": 0.0001}, "epsilon has at most three decimals"),
        ({"credit": [1, 1 / 3]}, "credit has at most three decimals"),
        ({"epsilon": 1e15}, "epsilon has at most three decimals"),
        ({"impression_sites": ["bücher.example"]}, "xn--"),
    ],
)
def test_what_a_header_cannot_state_is_not_written(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        measure_conversion_header(ConversionOptions("", 1, **changes), "/r")
