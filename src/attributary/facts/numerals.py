"""Numerals: numbers for the eye, and the lines, facts and tables that they stand in, whoever shows them."""

import re
from collections.abc import Callable, Sequence
from math import floor, inf, isfinite, isinf, isnan, log10
from typing import Any, NamedTuple, Self

MINUS = "−"
NOTHING = "–"
WHOLE_FROM = 99.95
FEW = 8  # names that are listed one by one
PICTURES = {code: 0x2400 + code for code in range(0x20)} | {0x7F: "␡"}  # of control characters
PERCENT = "\u00a0%"  # on one line with its number


class Numeral(str):
    """A number, or several, as people read it; `value` is what JSON holds."""

    value: Any

    def __new__(cls, text: str, value: object) -> Self:
        made = super().__new__(cls, text)
        made.value = value
        return made


class Line(NamedTuple):
    """One sentence; lines of one subject stand together."""

    subject: str
    text: str
    warning: bool = False
    detail: str = ""  # a figure for those who know it, which pages leave out

    @property
    def full(self) -> str:
        return f"{self.text} ({self.detail})" if self.detail else self.text


class Fact(NamedTuple):
    """An answer under its name; `more` explains, `warning` must not be missed."""

    name: str
    answer: str
    more: tuple[str, ...] = ()
    warning: str = ""


class Table(NamedTuple):
    """A table for people; figures are numerals, which keep their numbers."""

    caption: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str]]
    together: int = 0  # columns that stay together where the others need a table of their own


def sentence(text: str) -> str:
    """A text as a sentence of its own."""
    return f"{text[:1].upper()}{text[1:]}" + "." * (not text.endswith((".", "?")))


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
    import numpy as np

    if digits > 1:
        return np.round(x, digits) + 0.0
    return np.where(np.abs(x) >= WHOLE_FROM, np.round(x), np.round(np.multiply(x, 10)) / 10) + 0.0


def percent(part: float) -> Numeral:
    """A part as a percentage with one digit behind the point, more if it is below 1; ∞ stays, and nan is nothing."""
    shown = 100 * part
    if isnan(part):
        text = NOTHING
    elif isinf(part):
        text = "∞" if part > 0 else f"{MINUS}∞"
    elif shown == 0:
        text = f"0{PERCENT}"
    elif abs(shown) < 0.001:
        text = f"< 0.001{PERCENT}"
    else:
        digits = 0 if abs(shown) >= 999.95 else min(max(1 - floor(log10(abs(shown))), 1), 3)
        text = f"{shown:,.{digits}f}{PERCENT}".replace("-", MINUS)
    return Numeral(text, part)


def signed_percent(part: float) -> Numeral:
    return Numeral(f"+{percent(part)}" if part > 0 else percent(part), part)


def signed(x: float) -> str:
    """A number with its sign, in standard deviations."""
    return f"{x:+,.1f}".replace("-", MINUS)


def change(figure: float, before: float) -> Numeral:
    """By how much a figure differs from another, with a sign; a difference too small to see is nothing."""
    part = figure / before - 1 if before != 0 and not isinf(figure) else 0.0 if isinf(before) or before == 0 else inf
    return Numeral(NOTHING, part) if abs(part) < 0.0005 else signed_percent(part)


def span(values: Any, shown: Callable[[float], str]) -> Numeral:
    """The median, and the least and the largest value where they differ."""
    import numpy as np

    least, median, largest = (float(x) for x in (values.min(), np.median(values), values.max()))
    low, middle, high = (shown(x) for x in (least, median, largest))
    if low == high:
        return Numeral(middle, median)
    return Numeral(f"{middle} ({low} to {high})", {"median": median, "least": least, "largest": largest})


def number(x: float) -> str:
    """Any other number, with four digits that count."""
    if isnan(x):
        return NOTHING
    if not isfinite(x):
        return "∞"
    if x == int(x) or abs(x) >= 1000:
        return f"{x:,.0f}".replace("-", MINUS)
    return f"{x:.4g}".replace("-", MINUS)


def json_number(x: object) -> object:
    """A number that JSON knows; nan is nothing, and ∞ is a word."""
    return x if not isinstance(x, float) or isfinite(x) else None if isnan(x) else str(float(x))


def many(n: int, one: str, more: str | None = None) -> str:
    """A number of things in words: 1 node, 2 nodes."""
    return f"{n:,} {one if n == 1 else more or one + 's'}"


def listed(words: list[str] | tuple[str, ...], last: str = "and") -> str:
    """Words as a list in a sentence: a, b and c."""
    return f" {last} ".join([", ".join(words[:-1]), words[-1]]) if len(words) > 1 else "".join(words)


ISO = re.compile(r"(\d{4})-(0[1-9]|1[0-2])(?:-(\d\d))?")  # as files name dates
MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]


def date_words(name: str) -> str:
    """A period as people write it: 2025-07 is Jul 2025, and 2025-07-06 is 6 Jul 2025; other names stay."""
    read = ISO.fullmatch(name)
    if read is None:
        return name
    month = f"{MONTHS[int(read[2]) - 1]} {read[1]}"
    return f"{int(read[3])} {month}" if read[3] else month


def span_words(names: Sequence[str]) -> str:
    """Periods from the first to the last: Jan–Jun 2025, 30 Dec 2024 – 6 Jan 2025, W1 to W8."""
    first, last = date_words(names[0]), date_words(names[-1])
    if first == names[0] or last == names[-1]:
        return f"{first} to {last}"
    both = first[:-5] if first[-4:] == last[-4:] else first
    return f"{both}–{last}" if " " not in both else f"{both} – {last}"


def few(levels: list[str] | tuple[str, ...]) -> list[str]:
    """The names of levels, those in the middle left out where there are many."""
    return list(levels) if len(levels) <= FEW else [*levels[:2], "…", levels[-1]]


def short(label: str, longest: int = 32) -> str:
    """A label that fits beside a chart; what cannot be seen is named."""
    shown = label[:longest].translate(PICTURES) or "(empty)"
    return shown + ("…" if len(label) > longest else "")
