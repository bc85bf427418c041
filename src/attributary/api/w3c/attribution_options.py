"""What a page passes to saveImpression and measureConversion, by script or by header, and what that costs.

Members and defaults are the specification's. Names are Python's (`histogram_index`); JSON and JavaScript have the
specification's (`histogramIndex`). Headers are dictionaries of RFC 9651, in which numbers have at most three decimals.
"""

import math
import sys
from collections import UserString
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from numbers import Integral, Real
from operator import methodcaller
from typing import Self

from attributary.api.sites import is_local, parse_host, registrable_domain
from attributary.errors import InputError, brief, shortened
from attributary.spec.measure import MICRO
from attributary.types import Record

DAY = 86_400  # seconds
KEBAB = methodcaller("replace", "_", "-")
U32, I32, DAYS = range(2**32), range(-(2**31), 2**31), range(10**15)  # days: as many as a header can state


class AttributionError(InputError):
    """A call that a browser rejects; `name` is the name of its JavaScript error, as in "RangeError"."""

    def __init__(self, name: str, words: str) -> None:
        super().__init__(f"{name}: {words}")
        self.name = name


class PageOptions:
    """What is common to the options of both calls: members are of Web IDL's types, and can be read from JSON."""

    __slots__ = ()

    def __post_init__(self) -> None:
        for name, value in self._members():
            if name not in _LISTS:
                object.__setattr__(self, name, _convert(name, value))
            elif isinstance(value, Iterable) and not isinstance(value, _NO_LISTS):
                object.__setattr__(self, name, tuple(_convert(name, item) for item in value))
            else:
                raise AttributionError("TypeError", f"{camel(name)} must be a list; got {brief(value)}")

    @classmethod
    def from_json(cls, members: Mapping[str, object]) -> Self:
        """Options as JavaScript has them, of a JSON object that was loaded. Unknown members are ignored."""
        if not isinstance(members, Mapping):
            raise InputError(f"options must be a JSON object, as in {{}}; got {brief(members)}")
        return cls.from_members(members, camel)

    @classmethod
    def from_members(cls, members: Mapping[str, object], spell: Callable[[str], str] = str) -> Self:
        """Options of which `members` has some, by names that are spelled in another way; the required must be there."""
        known = {each.name: spell(each.name) for each in fields(cls)}  # type: ignore[arg-type]
        for name, theirs in known.items():
            if name in _REQUIRED and theirs not in members:
                raise AttributionError("TypeError", f"{theirs} is required; state it")
        return cls(**{name: members[theirs] for name, theirs in known.items() if theirs in members})

    def stated(self) -> Record:
        """The members that are required or differ from their default."""
        usual = {each.name: each.default for each in fields(self)}  # type: ignore[arg-type]
        return {name: value for name, value in self._members() if value != usual[name]}

    def _members(self) -> list[tuple[str, object]]:
        return [(each.name, getattr(self, each.name)) for each in fields(self)]  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class ImpressionOptions(PageOptions):
    """What is saved of an impression: AttributionImpressionOptions."""

    histogram_index: int
    match_value: int = 0
    conversion_sites: Sequence[str] = ()
    conversion_callers: Sequence[str] = ()
    lifetime_days: int = 30
    priority: int = 0


@dataclass(frozen=True, slots=True)
class ConversionOptions(PageOptions):
    """What is measured of a conversion: AttributionConversionOptions. By default it looks back as far as it may."""

    aggregation_service: str
    histogram_size: int
    epsilon: float = 1.0
    lookback_days: int = DAYS[-1]
    match_values: Sequence[int] = ()
    impression_sites: Sequence[str] = ()
    impression_callers: Sequence[str] = ()
    credit: Sequence[float] = (1.0,)
    value: int = 1
    max_value: int = 1


_REQUIRED = {"histogram_index", "aggregation_service", "histogram_size"}
_SITES = {"conversion_sites", "conversion_callers", "impression_sites", "impression_callers"}
_LISTS = {"match_values", "credit", *_SITES}
_NO_LISTS = (str, UserString, bytes, bytearray, memoryview, Mapping)  # though they can be iterated
_WITHIN = {"priority": I32, "lifetime_days": DAYS, "lookback_days": DAYS}  # and all others within U32


def _convert(name: str, value: object) -> str | float:
    """A member, or an item of a list, if it is of its type. Browsers wrap whole numbers that are too large."""
    within = _WITHIN.get(name, U32)
    rule = f"a whole number from {within[0]} to {within[-1]}"
    if name in _SITES or name == "aggregation_service":
        rule = "text"
        if isinstance(value, str):
            return value
    elif isinstance(value, Real) and not isinstance(value, bool):
        if name in ("epsilon", "credit"):
            rule = "a finite number"
            if -sys.float_info.max <= (value if isinstance(value, int) else float(value)) <= sys.float_info.max:
                return float(value)
        elif isinstance(value, Integral) and int(value) in within:
            return int(value)
    raise AttributionError("TypeError", f"{camel(name)} must be {rule}; got {brief(value)}")


def camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))


def parse_site(text: str) -> str:
    """The site of a domain's name: shop.example for www.shop.example. Not localhost, nor an address in numbers."""
    host = parse_host(text)
    site = None if host is None or is_local(host) else registrable_domain(host)
    if site is None:
        raise AttributionError("SyntaxError", f"a site is a domain's name, as in shop.example; got {brief(text)}")
    return site


def save_impression_header(options: ImpressionOptions) -> str:
    """The value of a header `Save-Impression`, without members that are at their default."""
    return _header(options.stated())


def measure_conversion_header(options: ConversionOptions, report_url: str) -> str:
    """The value of a header `Measure-Conversion`, without members that are at their default."""
    return _header({**options.stated(), "report_url": report_url})


def _header(members: Record) -> str:
    from http_sf import ser

    for name in ("epsilon", "credit"):
        stated = members.get(name, ())
        for number in stated if isinstance(stated, tuple) else [stated]:
            if number != round(number, 3) or abs(number) >= 10**12:
                rule = f"{name} has at most three decimals in a header"
                raise InputError(f"{rule}; got {number}: round it, or measure by a script's call")
    try:
        return ser({KEBAB(name): list(v) if isinstance(v, tuple) else v for name, v in members.items()})
    except ValueError as error:
        why = shortened(str(error), 120)
        raise InputError(f"cannot be written as a header: {why}; write domains in ASCII (xn--…)") from None


def deduction(sensitivity: int, query: ConversionOptions) -> int:
    """µε that a histogram costs whose sum may change by `sensitivity`, at the noise that its report asks for."""
    noise_scale = 2 * query.max_value / query.epsilon
    return math.ceil(sensitivity / noise_scale * MICRO)


def charged(options: ConversionOptions, micro: int) -> ConversionOptions:
    """The same with the largest ε that costs so many µε: browsers round up what doubles make of it."""
    epsilon = micro / MICRO
    while deduction(2 * options.value, replace(options, epsilon=epsilon)) > micro:
        epsilon = math.nextafter(epsilon, 0)
    return replace(options, epsilon=epsilon)
