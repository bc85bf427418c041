"""Values from outside in messages: short, whatever they are."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from attributary.errors import brief

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(values)
def test_a_value_is_told_in_few_printable_characters(value: Any) -> None:
    words = brief(value)
    assert 0 < len(words) <= 60 and words.isprintable() and brief(value, 10) in (words, words[:9] + "…")


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value, value]
    return value


def test_large_and_deep_values_are_no_harm() -> None:
    for value in (nested(10_000), 10**100_000, "x" * 10**7, b"x" * 10**7, {"a": nested(500)}):
        assert len(brief(value)) <= 60


def test_small_values_are_told_as_they_are() -> None:
    for value in (None, 1, -1.5, "x", b"\0", [], {}, [1, "a"], {"a": 1}, True):
        assert brief(value) == repr(value)
