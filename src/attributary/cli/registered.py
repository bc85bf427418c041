"""registered: the values of an event from the command line, and its registration as a header."""

import json
import re
from typing import Any, NamedTuple

from attributary.api.ara.registration import HEADERS, MONTH, Registrations
from attributary.errors import InputError, brief

LONG = 16_384  # bytes of a header that servers and proxies may refuse


def assigned(option: str, text: str) -> dict[str, str]:
    """The values in a=x,b=y; a comma is part of a value unless another name follows it."""
    found: dict[str, str] = {}
    for part in re.split(r",(?=[^,=]+=)", text) if text else []:
        name, equals, value = part.partition("=")
        if not equals or not name.strip():
            raise InputError(f"{option} takes values by name, as in campaign=123,location=Paris; got {brief(part)}")
        if name.strip() in found:
            raise InputError(f"{option} has {brief(name.strip())} twice; give it once")
        found[name.strip()] = value
    return found


class Checked(NamedTuple):
    headers: tuple[str, ...]  # each on a line
    warnings: tuple[str, ...]


def checked(registered: dict[str, Any]) -> Checked:
    """Registrations as headers, and what a browser would warn of; what it would refuse is an InputError."""
    from attributary.api.ara.parse import source, trigger

    headers, warnings = [], []
    for kind, made in registered.items():
        text = json.dumps(made, separators=(",", ":"))
        parsed: Any = source(text) if kind == "source" else trigger(text)
        for error in parsed.errors:
            raise InputError(f"a browser would refuse the {kind} registration: {error}")
        warnings += [f"a browser would warn of the {kind} registration: {warning}" for warning in parsed.warnings]
        headers.append(f"{HEADERS[kind]}: {text}")
    return Checked(tuple(headers), tuple(warnings))


def notes(headers: tuple[str, ...], ready: Registrations, placed: bool, deduplication_key: int | None) -> list[str]:
    """What to look at."""
    kinds = [kind for kind, name in HEADERS.items() if any(line.startswith(name) for line in headers)]
    found = [
        f"the {kind} header has {len(line):,} bytes; see that servers and proxies let it through"
        for kind, line in zip(kinds, headers, strict=True)
        if len(line) > LONG
    ]
    if "source" in kinds and not placed:
        found += ["the destination is a placeholder; give yours with --destination"]
    if "source" in kinds and ready.window is not None and ready.window > MONTH:
        found += [f"browsers forget an impression after 30 days; the spec's window is {ready.window / 86_400:g} days"]
    if "trigger" in kinds and deduplication_key is not None and ready.fits_twice:
        found += [
            "what a conversion contributes leaves room for a second one of the same impression, under another "
            "deduplication key; without --deduplication-key only the first is counted, as the plan has it"
        ]
    return found
