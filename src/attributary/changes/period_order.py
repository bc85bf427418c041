"""period_order: which period is before which, by the dates in their names.

All names have to be of one form: 2026-01-05, 05.01.2026, 1/5/2026, Jan 2026, 2026-W05, KW 52, Q4 2025, Phase 2 or the
like. Whether 5/6/2026 is in May or in June is decided by all names together; where they fit both, and that makes a
difference, dates tell no order.
"""

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple
from unicodedata import combining, normalize

from attributary.errors import InputError

LANGUAGES = """january february march april may june july august september october november december
januar februar marz april mai juni juli august september oktober november dezember
janvier fevrier mars avril mai juin juillet aout septembre octobre novembre decembre
enero febrero marzo abril mayo junio julio agosto septiembre octubre noviembre diciembre
gennaio febbraio marzo aprile maggio giugno luglio agosto settembre ottobre novembre dicembre
januari februari maart april mei juni juli augustus september oktober november december
janeiro fevereiro marco abril maio junho julho agosto setembro outubro novembro dezembro""".splitlines()  # no accents
ALSO = {"mrz": "marz", "maerz": "marz", "mrt": "maart"}
MONTHS = {full[:n] for line in LANGUAGES for full in line.split() for n in range(3, len(full) + 1)} | set(ALSO)
MONTH, NUMBER = "month", "0"
UNITS = {53: "w kw cw wk week weeks woche semaine semana settimana", 12: f"m {MONTH} monat mois mes mese maand"}
UNITS |= {4: "q qtr quarter quartal trimestre", 2: "h"}  # by how many there are in a turn
TURNS = {word: length for length, words in UNITS.items() for word in words.split()}
DATE, TURN, NUMBERS = "by date", "by date, as one turn of the year", "by the numbers in their names"

Key = tuple[int, ...]


class PeriodOrder(NamedTuple):
    """The names, oldest first, and what says so."""

    names: list[str]
    by: str

    @property
    def dated(self) -> bool:
        """Whether they are dates."""
        return self.by in (DATE, TURN)

    @property
    def known(self) -> bool:
        """Whether the names tell it."""
        return self.dated or self.by == NUMBERS


def in_order(names: Sequence[str], otherwise: str, level: str = "") -> PeriodOrder:
    """The names by date, or else by number; where they tell neither, as they come, which `otherwise` says in words.

    `level` is what the names are labels of, such as week. Two names of one period are refused.
    """
    as_they_come = PeriodOrder(list(names), otherwise)
    for language in LANGUAGES:
        shapes, numbers = zip(*(_read(name, language.split()) for name in names), strict=True)
        if len(set(shapes)) == 1:
            break
    else:
        return as_they_come
    units = [word for word in shapes[0] if word in TURNS] or [w for w in _tokens(level) if w in TURNS and len(w) > 1]
    dots = all(re.match(r"\D*\d+\.\d+\.", name) for name in names)
    readings, dated = _readings(shapes[0], numbers, units, dots)
    orders = {tuple(sorted(range(len(names)), key=keys.__getitem__)) for keys in readings}
    if len(orders) != 1:
        return as_they_come._replace(by=f"{otherwise}: their dates can be read in two ways") if dated else as_they_come
    order, keys = orders.pop(), readings[0]
    same = next((pair for pair in pairwise(order) if keys[pair[0]] == keys[pair[1]]), None)
    if same and dated:
        one, two = (names[i] for i in sorted(same))
        raise InputError(f"a period is there once; {one} and {two} are the same one: leave out one of them")
    if units and len(keys[0]) == 1:
        order = _turn(order, [key[0] for key in keys], TURNS[units[0]], as_they_come.names == sorted(names))
    by = NUMBERS if not dated else TURN if keys[order[-1]] < keys[order[0]] else DATE
    return as_they_come if same else PeriodOrder([names[i] for i in order], by)


def without_accents(name: str) -> str:
    """A name in small letters without accents, as months are listed here."""
    return "".join(sign for sign in normalize("NFKD", name.casefold()) if not combining(sign))


def _tokens(name: str) -> list[str]:
    """The numbers and words of a name without ordinals; 05012026 is three numbers, since no month is 19 to 21."""
    plain = re.sub(r"(?<!\d)(\d\d)(\d\d)((19|2[01])\d\d)(?!\d)", r"\1 \2 \3", without_accents(name))
    return re.findall(r"\d+|[^\W\d_]+", re.sub(r"(?<=\d)(st|nd|rd|th)\b", "", plain))


def _read(name: str, months: list[str]) -> tuple[tuple[str, ...], Key]:
    """The form of a name in a language, and the numbers in it, those of months among them."""
    shape, numbers = list[str](), list[int]()
    for token in _tokens(name):
        month = [i for i, full in enumerate(months, 1) if full.startswith(ALSO.get(token, token)) and len(token) > 2]
        known = [int(token)] if token.isdecimal() else month if len(month) == 1 else []
        numbers += known
        shape.append((NUMBER if token.isdecimal() else MONTH) if known else token)
    return tuple(shape), tuple(numbers)


def _readings(
    shape: tuple[str, ...], numbers: Sequence[Key], units: list[str], dots: bool
) -> tuple[list[list[Key]], bool]:
    """What to sort by, the year first, for each way to read the numbers; and whether they are dates."""
    kinds = [word for word in shape if word in (NUMBER, MONTH)]
    most, places = [max(column) for column in zip(*numbers, strict=True)], range(len(kinds))
    year = next((j for j in places if all(1900 <= key[j] < 2200 for key in numbers)), None)
    rest = tuple(j for j in places if j != year)
    ways = [rest if year is None else (year, *rest)]
    if MONTH in kinds:
        month = kinds.index(MONTH)
        days = tuple(j for j in rest if j != month)
        ways = [(month, *days) if year is None else (year, month, *days)]
        if year is None and days and days[-1] > month:  # Jan 26: a day, or a year; 5 Jan 26 is a year's
            ways = [*(ways if len(days) == 1 else []), (days[-1], month, *days[:-1])]
    elif year is None and len(rest) == 2:  # 5/6, and Q4/25, 25Q4 or 4Q25
        unit = next((shape[:k].count(NUMBER) for k, word in enumerate(shape) if word in units), None)
        unit = unit if unit is None or (unit < 2 and most[unit] <= TURNS[units[0]]) else 1 - unit % 2
        ways = [(0, 1), (1, 0)] if unit is None else [(1 - unit, unit)]
    elif len(rest) > 1 and ((year is None and len(rest) == 3) or year == 2):
        ways = [(2, 1, 0), *([] if dots else [(2, 0, 1), (0, 1, 2)][: 2 if year is None else 1])]
        ways = [(*way, *places[3:]) for way in ways if most[way[1]] <= 12 and most[way[2]] <= 31]
    dated = bool(units) or MONTH in kinds or year is not None or (len(rest) == 3 and bool(ways))
    return [[tuple(key[j] for j in way) for key in numbers] for way in ways if way], dated


def _turn(order: tuple[int, ...], numbers: list[int], length: int, by_text: bool) -> tuple[int, ...]:
    """Where weeks, months or quarters without a year begin: after the only gap, as in W51, W52, W1.

    Three or more that come by number, and not because they are sorted as text, stay so. With no gap or several, one
    turn as they come, else the smallest number is first.
    """
    length = 52 if length == 53 and max(numbers) < 53 else length
    falls = sum(a > b for a, b in zip(numbers, [*numbers[1:], numbers[0]], strict=True))
    places = tuple(range(len(numbers)))
    if order == places and len(numbers) > 2 and not by_text:
        return order
    gaps = [j for j in places if (numbers[order[(j + 1) % len(order)]] - numbers[order[j]]) % length > 1]
    if len(gaps) == 1:
        return order[gaps[0] + 1 :] + order[: gaps[0] + 1]
    return places if falls == 1 and (gaps or not by_text) else order
