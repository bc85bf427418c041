"""scaled: a value as a contribution: clipped, scaled, and rounded such that it is right on average."""

import secrets
from decimal import ROUND_HALF_UP, Decimal
from hashlib import sha256
from math import isnan
from typing import Any

from attributary.errors import InputError, brief
from attributary.spec.measure import MICRO

DRAWS = 1 << 64


def scaled(micro: int, clip: int, contribution: int, draw: int) -> int:
    """What a value adds where one of `clip` or more adds `contribution`; values and clip are in millionths.

    The exact part, v / clip · contribution, is rounded up as often as its fraction says, down else: `draw`, a whole
    number below 2**64, decides. A value that is not above 0 adds nothing.
    """
    whole, rest = divmod(min(max(micro, 0), clip) * contribution, clip)
    return whole + (draw * clip < rest * DRAWS)


def draw(measure: str, conversion_id: Any = None) -> int:
    """A whole number below 2**64: the same for the same conversion; without an id, the operating system's."""
    if conversion_id is None:
        return secrets.randbits(64)
    try:
        text = f"{measure}:{conversion_id}"
    except ValueError:  # more digits than Python writes
        raise InputError(f"the id of a conversion is a number or a text; got {brief(conversion_id)}") from None
    return int.from_bytes(sha256(text.encode(errors="surrogatepass")).digest()[:8], "big")


def micros(measure: str, value: Any, absent: set[str]) -> int:
    """A value in whole millionths, as logs are read; 0 where it is missing."""
    try:
        text = "" if value is None or (isinstance(value, float) and isnan(value)) else str(value).strip()
        if not text or text in absent:
            return 0
        exact = Decimal(text) * MICRO
        return int(exact.quantize(Decimal(1), ROUND_HALF_UP))
    except (ArithmeticError, ValueError):
        raise InputError(f"measure {measure!r}: a value is a number, as in 12.5; got {brief(value)}") from None
