"""bucket: the bucket that a number is in, as SQL."""

from decimal import Decimal
from typing import Any

from attributary.spec.attribute import Attribute
from attributary.spec.span import span


def bucket(value: str, attribute: Attribute) -> str:
    """Which bucket of the attribute a value is in, from 0; -1 below all of them, and their number above.

    A value for buckets of time, as in 2d, is in whole microseconds.
    """
    start, width, buckets = attribute.start, attribute.bucket, attribute.buckets
    assert width is not None and buckets is not None
    here = f"({value})"
    if isinstance(width, str):
        low, step, scale = _micros(start or "0s"), _micros(width), 1
        place = f"FLOOR(({here} - {low}) / {step})"
        beside = ""
    else:
        low, step, scale = _whole(Decimal(repr(start or 0)), Decimal(repr(width)))
        place = f"FLOOR(({here} * {scale} - {low}) / {step})"
        # The quotient may be a hair beside the edge that it is meant for: 4.1 * 100 is below 410. An edge that is
        # divided by a power of ten is what its decimals are as a number, and tells which side is right.
        beside = (
            f"WHEN {here} < {_edge(f'{low} + {place} * {step}', scale)} THEN CAST({place} - 1 AS BIGINT) "
            f"WHEN {here} >= {_edge(f'{low} + ({place} + 1) * {step}', scale)} THEN CAST({place} + 1 AS BIGINT) "
        )
    return (
        f"CASE WHEN {here} < {_edge(low, scale)} THEN CAST(-1 AS BIGINT) "
        f"WHEN {here} >= {_edge(low + buckets * step, scale)} THEN CAST({buckets} AS BIGINT) "
        f"{beside}ELSE CAST({place} AS BIGINT) END"
    )


def _edge(whole: int | str, scale: int) -> str:
    return f"CAST({whole} AS DOUBLE) / {scale}" if scale > 1 else f"({whole})"


def _whole(start: Decimal, width: Decimal) -> tuple[int, int, int]:
    """Start and width in units of their last digit, and how many of these are 1."""
    digits = max(0, *(-int(number.normalize().as_tuple().exponent) for number in (start, width)))
    return int(start * 10**digits), int(width * 10**digits), 10**digits


def _micros(text: Any) -> int:
    return span(text).seconds * 10**6
