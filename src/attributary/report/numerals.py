"""Numerals: numbers for the eye, with thousands separators and no more digits than they deserve."""

from math import floor, isfinite, isnan, log10
from typing import Any

import numpy as np

MINUS = "−"
NOTHING = "–"
WHOLE_FROM = 99.95
FEW = 8  # names that are listed one by one
PERCENT = "\u00a0%"  # on one line with its number


def count(x: float, digits: int = 1) -> str:
    """A count: whole from 100 on, one digit behind the point below that, so that figures of a column line up.

    With more `digits`, which figures of small units need, all have as many.
    """
    if isnan(x):
        return NOTHING
    if not isfinite(x):
        return "∞" if x > 0 else f"{MINUS}∞"
    places = 0 if digits == 1 and abs(x) >= WHOLE_FROM else digits
    return f"{rounded(x, digits) + 0.0:,.{places}f}".replace("-", MINUS)


def rounded(x: Any, digits: int = 1) -> Any:
    """Counts as they are shown, as numbers: of arrays, too."""
    if digits > 1:
        return np.round(x, digits) + 0.0
    return np.where(np.abs(x) >= WHOLE_FROM, np.round(x), np.round(np.multiply(x, 10)) / 10) + 0.0


def percent(part: float) -> str:
    """A part as a percentage with two or three digits; ∞ stays, and nan is nothing."""
    if isnan(part):
        return NOTHING
    if not isfinite(part):
        return "∞"
    shown = 100 * part
    if shown == 0:
        return f"0{PERCENT}"
    if abs(shown) < 0.001:
        return f"< 0.001{PERCENT}"
    digits = min(max(1 - floor(log10(abs(shown))), 0), 3)
    return f"{shown:,.{digits}f}{PERCENT}".replace("-", MINUS)


def signed_percent(part: float) -> str:
    """A change as a percentage with its sign."""
    shown = percent(part)
    return f"+{shown}" if part > 0 and isfinite(part) else shown


def number(x: float) -> str:
    """Any other number, with four digits that count."""
    if isnan(x):
        return NOTHING
    if not isfinite(x):
        return "∞"
    if x == int(x) or abs(x) >= 1000:
        return f"{x:,.0f}".replace("-", MINUS)
    return f"{x:.4g}".replace("-", MINUS)


def many(n: int, one: str, more: str | None = None) -> str:
    """A number of things in words: 1 node, 2 nodes."""
    return f"{n:,} {one if n == 1 else more or one + 's'}"


def listed(words: list[str] | tuple[str, ...], last: str = "and") -> str:
    """Words as a list in a sentence: a, b and c."""
    return f" {last} ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else "".join(words)


def few(levels: list[str] | tuple[str, ...]) -> list[str]:
    """The names of levels, those in the middle left out where there are many."""
    return list(levels) if len(levels) <= FEW else [*levels[:2], "…", levels[-1]]


def short(label: str, longest: int = 32) -> str:
    """A label that fits beside a chart; what cannot be seen is named."""
    shown = "".join(visible(c) for c in label[:longest]) or "(empty)"
    return shown + ("…" if len(label) > longest else "")


def visible(character: str) -> str:
    """A control character as its picture, any other as it is."""
    code = ord(character)
    if code < 0x20:
        return chr(0x2400 + code)
    return "␡" if code == 0x7F else character
