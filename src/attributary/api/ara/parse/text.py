"""Text: JSON as a browser reads it, whatever it holds."""

import json
from collections import Counter
from typing import Any

from attributary.api.ara.parse.findings import Findings

LONGEST_INT = 20  # digits; every number a registration may hold is shorter


def load(text: str, found: Findings) -> Any:
    """The JSON's value, or None with an error found; numbers may be huge, keys may stand twice, nothing may be NaN."""
    try:
        try:
            value = ONCE.decode(text)
        except _TwiceError as error:
            value = LAST.decode(text)
            found.warning((), f"the key {json.dumps(error.key)} stands twice in one object; the last counts")
        if "\\u" in text or not text.isascii():
            json.dumps(value, ensure_ascii=False).encode()  # half a surrogate pair cannot be sent on
        return value
    except UnicodeEncodeError:
        found.error((), "has half of a surrogate pair in a string")
    except RecursionError:
        found.error((), "is nested too deeply")
    except ValueError as error:
        found.error((), f"is not JSON: {error}")
    return None


class _TwiceError(Exception):
    def __init__(self, key: str) -> None:
        self.key = key


def _once(items: list[tuple[str, Any]]) -> dict[str, Any]:
    whole = dict(items)
    if len(whole) < len(items):
        times = Counter(key for key, _ in items)
        raise _TwiceError(next(key for key, count in times.items() if count > 1))
    return whole


def _integer(digits: str) -> int | float:
    # A number of millions of digits takes minutes to convert; to a browser all of them are doubles.
    return int(digits) if len(digits) <= LONGEST_INT else float(digits)


def _refuse(word: str) -> None:
    raise ValueError(f"{word} is no number")


def _decoder(pairs: Any) -> json.JSONDecoder:
    return json.JSONDecoder(object_pairs_hook=pairs, parse_int=_integer, parse_constant=_refuse)


ONCE, LAST = _decoder(_once), _decoder(dict)
