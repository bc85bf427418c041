"""message: a registration as the header of a server's response."""

import json
from typing import Any

from attributary.api.ara.registration import HEADERS
from attributary.api.attribution_api import Message
from attributary.errors import InputError
from attributary.types import Record

PLACEHOLDER = "https://shop.example"
LONG = 16_384  # bytes of a header that servers and proxies may refuse


def header(kind: str, registration: Record) -> Message:
    """A registration as a header, and what a browser would warn of; what it would refuse is an InputError."""
    from attributary.api.ara.parse import source, trigger

    text = json.dumps(registration, separators=(",", ":"))
    parsed: Any = source(text) if kind == "source" else trigger(text)
    for error in parsed.errors:
        raise InputError(f"a browser would refuse the {kind} registration: {error}")
    line = f"{HEADERS[kind]}: {text}"
    notes = [f"a browser would warn of the {kind} registration: {warning}" for warning in parsed.warnings]
    if len(line) > LONG:
        notes += [f"the {kind} header has {len(line):,} bytes; see that servers and proxies let it through"]
    return Message((line,), tuple(notes))
