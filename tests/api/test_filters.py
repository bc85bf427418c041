"""Filters: an OR of ANDs, its negation by key, lookback windows."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from attributary.api.ara import parse
from attributary.api.ara.parse.both_headers import EVERY, FilterConfig, FilterPair
from attributary.browsers.ara_client import matches

VALUES = st.frozensets(st.sampled_from("123"))
MAPS = st.dictionaries(st.sampled_from("abc"), VALUES)
CONFIGS = st.builds(FilterConfig, MAPS, st.none() | st.integers(1, 5))
AGES = st.integers(0, 6)


def positive(data: dict[str, frozenset[str]], age: float, *configs: FilterConfig) -> bool:
    return matches(data, age, FilterPair(configs, ()))


def negative(data: dict[str, frozenset[str]], age: float, *configs: FilterConfig) -> bool:
    return matches(data, age, FilterPair((), configs))


@settings(deadline=None)
@given(MAPS, AGES, st.lists(CONFIGS), st.lists(CONFIGS))
def test_a_pair_is_one_of_each_side(
    data: dict[str, frozenset[str]], age: int, some: list[FilterConfig], others: list[FilterConfig]
) -> None:
    one = not some or any(positive(data, age, config) for config in some)
    other = not others or any(negative(data, age, config) for config in others)
    assert matches(data, age, FilterPair(some, others)) == (one and other)


@settings(deadline=None)
@given(MAPS, AGES, CONFIGS, st.sampled_from([positive, negative]))
def test_a_configuration_is_all_of_its_keys(
    data: dict[str, frozenset[str]], age: int, config: FilterConfig, of
) -> None:  # type: ignore[no-untyped-def]
    parts = [FilterConfig({key: values}) for key, values in config.map.items()]
    parts += [FilterConfig({}, config.lookback_window)]
    assert of(data, age, config) == all(of(data, age, part) for part in parts)


@settings(deadline=None)
@given(VALUES, VALUES, AGES)
def test_one_key_matches_or_matches_negated(of_source: frozenset[str], asked: frozenset[str], age: int) -> None:
    data, config = {"a": of_source}, FilterConfig({"a": asked})
    assert positive(data, age, config) != negative(data, age, config)
    assert positive(data, age, config) == (bool(of_source & asked) or of_source == asked == frozenset())


@settings(deadline=None)
@given(VALUES, AGES)
def test_a_key_that_the_source_lacks_is_no_hindrance(asked: frozenset[str], age: int) -> None:
    assert positive({}, age, FilterConfig({"a": asked})) and negative({}, age, FilterConfig({"a": asked}))


@settings(deadline=None)
@given(MAPS, AGES)
def test_no_filters_match_every_source(data: dict[str, frozenset[str]], age: int) -> None:
    assert matches(data, age, EVERY)


@pytest.mark.parametrize(("age", "within"), [(0, True), (4.999, True), (5, True), (5.001, False), (6, False)])
def test_a_lookback_window_holds_its_end(age: float, within: bool) -> None:
    assert positive({}, age, FilterConfig({}, 5)) == within
    assert negative({}, age, FilterConfig({}, 5)) == (not within)


def test_filters_are_read_from_a_trigger() -> None:
    header = '{"filters": {"_lookback_window": 9, "a": ["1", "2"]}, "not_filters": [{"b": []}, {"a": ["3"]}]}'
    trigger = parse.trigger(header).value
    assert trigger
    assert trigger.filters == FilterPair(
        (FilterConfig({"a": frozenset("12")}, 9),),
        (FilterConfig({"b": frozenset()}), FilterConfig({"a": frozenset("3")})),
    )
