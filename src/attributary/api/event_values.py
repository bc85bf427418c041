"""event_values: what a server knows of an impression or a conversion, as labels of the tree and as contributions."""

import secrets
from collections.abc import Mapping
from decimal import ROUND_HALF_UP, Decimal, InvalidOperation
from hashlib import sha256
from math import isnan
from typing import Any

from attributary.errors import InputError, brief
from attributary.logs.labels import MISSING, OTHER, missing_cells
from attributary.spec import Attribute, Logs, Spec
from attributary.spec.attribute import span
from attributary.spec.measure import MICRO, Measure

FURTHEST = Decimal(1 << 64)  # beyond which no domain reaches: 1e999999999 has too many digits to write


def known_labels(spec: Spec, impression: Mapping[str, object]) -> tuple[str, ...]:
    """The labels of the known attributes, top to bottom; what is missing has the label `missing`, as in counts."""
    _refuse_names(spec.known, impression, "an impression")
    return tuple(_label(attribute, impression[attribute.name], spec.logs) for attribute in spec.known)


def unknown_labels(spec: Spec, conversion: Mapping[str, object]) -> dict[str, str]:
    """The labels of the unknown attributes, but for the time since the impression, which only the browser knows."""
    delays = [attribute.name for attribute in spec.unknown if spec.is_delay(attribute)]
    for name in delays:
        if name in conversion:
            rule = "is the time from impression to conversion, which the browser finds by filters"
            raise InputError(f"{name!r} {rule}; leave it out")
    attributes = tuple(attribute for attribute in spec.unknown if attribute.name not in delays)
    _refuse_names(attributes, conversion, "a conversion")
    return {attribute.name: _in_domain(attribute, conversion[attribute.name], spec.logs) for attribute in attributes}


def ends(attribute: Attribute) -> list[int]:
    """The ends of buckets of time, in seconds: of the first, its beginning too."""
    assert isinstance(attribute.bucket, str) and attribute.buckets is not None
    start, width = (span(text).seconds for text in (attribute.start or "0s", attribute.bucket))
    return [start + i * width for i in range(attribute.buckets + 1)]


def _label(attribute: Attribute, value: Any, logs: Logs | None) -> str:
    """A value as Arrow writes it: 7.0 is 7, None is nothing."""
    is_float = isinstance(value, float)
    if value is None or (is_float and isnan(value)):
        return MISSING
    if isinstance(value, bool) or (is_float and value.is_integer()):
        value = int(value) if is_float else str(value).lower()
    try:
        label = str(value)
        label.encode()
    except ValueError:  # half of a surrogate pair, or a whole number of thousands of digits
        raise InputError(f"a value of {attribute.name!r} is a text or a number; got {brief(value)}") from None
    if label.strip() in {"", *missing_cells(logs or Logs())}:
        return MISSING
    if label.strip() == "*":
        raise InputError(f"{attribute.name!r} has the value '*', which means all values in our tables; rename it")
    return label


def _in_domain(attribute: Attribute, value: object, logs: Logs | None) -> str:
    label = _label(attribute, value, logs)
    place = label if label in attribute.labels else _placed(attribute, label)
    if place is not None:
        return place
    if logs is not None and attribute.name in logs.other and OTHER in attribute.labels:
        return OTHER
    shown = ", ".join(label[:40] for label in attribute.labels[:8]) + (", …" if attribute.size > 8 else "")
    rule = f"{attribute.name!r} has no value {brief(label)} in its domain"
    raise InputError(f"{rule}, which is {shown}; do not register it")


def _placed(attribute: Attribute, label: str) -> str | None:
    """The label of the range's number or of the bucket that a number, or a time as in 3d, is in."""
    try:
        number = Decimal(span(label).seconds) if isinstance(attribute.bucket, str) else Decimal(label)
    except (ValueError, InvalidOperation):
        return None
    if not number.is_finite() or not -FURTHEST <= number <= FURTHEST:
        return None
    if attribute.range is not None:
        inside = attribute.range[0] <= number <= attribute.range[1]
        return str(int(number)) if inside and number == number.to_integral_value() else None
    if attribute.bucket is None or attribute.buckets is None:
        return None
    if isinstance(attribute.bucket, str):
        first, width = Decimal(ends(attribute)[0]), Decimal(span(attribute.bucket).seconds)
    else:
        first, width = Decimal(repr(attribute.start or 0)), Decimal(repr(attribute.bucket))
    place = (number - first) // width if number >= first else Decimal(-1)
    return attribute.labels[int(place)] if 0 <= place < attribute.buckets else None


def _refuse_names(attributes: tuple[Attribute, ...], values: Mapping[str, object], whose: str) -> None:
    names = [attribute.name for attribute in attributes]
    has = f"{whose} has {', '.join(names)}" if names else f"{whose} has none"
    for name in values:
        if name not in names:
            raise InputError(f"there is no attribute {brief(name)} to register; {has}: leave it out")
    for name in names:
        if name not in values:
            raise InputError(f"{name!r} is missing; {has}: give it, or leave it empty for a missing value")


DRAWS = 1 << 64


def scaled(micro: int, clip: int, contribution: int, draw: int) -> int:
    """What a value adds where one of `clip` or more adds `contribution`; values and clip are in millionths.

    The exact part, v / clip · contribution, is rounded up as often as its fraction says, down else: `draw`, a whole
    number below 2**64, decides. A value that is not above 0 adds nothing.
    """
    whole, rest = divmod(min(max(micro, 0), clip) * contribution, clip)
    return whole + (draw * clip < rest * DRAWS)


def draw(measure: str, conversion_id: object = None) -> int:
    """A whole number below 2**64: the same for the same conversion; without an id, the operating system's."""
    if conversion_id is None:
        return secrets.randbits(64)
    try:
        text = f"{measure}:{conversion_id}"
    except ValueError:  # more digits than Python writes
        raise InputError(f"the id of a conversion is a number or a text; got {brief(conversion_id)}") from None
    return int.from_bytes(sha256(text.encode(errors="surrogatepass")).digest()[:8], "big")


def measured(measure: Measure, values: Mapping[str, object], logs: Logs | None) -> int:
    """What a conversion's values have of a measure, in whole millionths, with its sign; 0 where it is missing."""
    name, source = measure.name, measure.source
    if source not in values:
        raise InputError(f"{source!r} is missing; measure {name!r} needs it: give it, or leave it empty")
    return measure.sign * micros(name, values[source], {"", *missing_cells(logs or Logs())})


def micros(measure: str, value: object, absent: set[str]) -> int:
    """A value in whole millionths, as logs are read; 0 where it is missing."""
    try:
        text = "" if value is None or (isinstance(value, float) and isnan(value)) else str(value).strip()
        if not text or text in absent:
            return 0
        exact = Decimal(text) * MICRO
        return int(exact.quantize(Decimal(1), ROUND_HALF_UP))
    except (ArithmeticError, ValueError):
        raise InputError(f"measure {measure!r}: a value is a number, as in 12.5; got {brief(value)}") from None
