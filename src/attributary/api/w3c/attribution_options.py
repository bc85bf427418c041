"""attribution_options: what a page passes to saveImpression and measureConversion, and what is refused of it.

Members, defaults and the order of the checks are the specification's. Names are Python's (`histogram_index`); JSON and
JavaScript have the specification's (`histogramIndex`).
"""

import sys
from collections import UserString
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from numbers import Integral, Real
from typing import Any, Self

from attributary.api.sites import is_local, parse_host, registrable_domain
from attributary.errors import InputError, brief

MAXIMUM_EPSILON = 4294  # so that microepsilons fit into 32 bits
DAY = 86_400  # seconds
U32, I32, DAYS = range(2**32), range(-(2**31), 2**31), range(10**15)  # days: as many as a header can state


class AttributionError(InputError):
    """A call that a browser rejects; `name` is the name of its JavaScript error, as in "RangeError"."""

    def __init__(self, name: str, words: str) -> None:
        super().__init__(f"{name}: {words}")
        self.name = name


@dataclass(frozen=True, slots=True)
class UserAgentSettings:
    """What the specification leaves to the browser: services, limits of lists, and budgets in microepsilons (µε).

    Limits are the least that the specification allows. It states no budgets; these are those of its test cases.
    Without `activation_seconds` calls need no user activation.
    """

    aggregation_services: tuple[str, ...] = ("https://agg-service.example",)
    histogram_size: int = 100
    lookback_days: int = 30
    conversion_sites: int = 5
    conversion_callers: int = 10
    impression_sites: int = 30
    impression_callers: int = 10
    credits: int = 10
    match_values: int = 30
    site_budget: int = 1_000_000
    global_budget: int = 8_000_000
    impression_site_quota: int = 4_000_000
    epoch_days: int = 7
    activation_seconds: float | None = 5

    def __post_init__(self) -> None:
        if isinstance(self.aggregation_services, str):
            raise InputError(f"aggregation_services must be a list; got {brief(self.aggregation_services)}")
        for name in self.__slots__[1:]:
            value, least = getattr(self, name), int(name in ("lookback_days", "epoch_days"))
            if value is not None and not value >= least:
                raise InputError(f"{name} must be at least {least}; got {brief(value)}")


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
    def from_json(cls, members: Mapping[str, Any]) -> Self:
        """Options as JavaScript has them, of a JSON object that was loaded. Unknown members are ignored."""
        if not isinstance(members, Mapping):
            raise InputError(f"options must be a JSON object, as in {{}}; got {brief(members)}")
        return cls.from_members(members, camel)

    @classmethod
    def from_members(cls, members: Mapping[str, Any], spell: Callable[[str], str] = str) -> Self:
        """Options of which `members` has some, by names that are spelled in another way; the required must be there."""
        known = {each.name: spell(each.name) for each in fields(cls)}  # type: ignore[arg-type]
        for name, theirs in known.items():
            if name in _REQUIRED and theirs not in members:
                raise AttributionError("TypeError", f"{theirs} is required; state it")
        return cls(**{name: members[theirs] for name, theirs in known.items() if theirs in members})

    def stated(self) -> dict[str, Any]:
        """The members that are required or differ from their default."""
        usual = {each.name: each.default for each in fields(self)}  # type: ignore[arg-type]
        return {name: value for name, value in self._members() if value != usual[name]}

    def _members(self) -> list[tuple[str, Any]]:
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


def _convert(name: str, value: Any) -> str | float:
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


def check_impression(options: ImpressionOptions, settings: UserAgentSettings) -> ImpressionOptions:
    """The options of an impression that may be saved: sites are registrable domains, its lifetime is not too long."""
    size, days = settings.histogram_size, options.lifetime_days
    _in_range(options.histogram_index < size, "histogramIndex", f"below {size}", options.histogram_index)
    _in_range(days > 0, "lifetimeDays", "positive", days)
    sites = _sites(options.conversion_sites, settings.conversion_sites, "conversionSites")
    callers = _sites(options.conversion_callers, settings.conversion_callers, "conversionCallers")
    lifetime = min(days, settings.lookback_days)
    return replace(options, lifetime_days=lifetime, conversion_sites=sites, conversion_callers=callers)


def check_conversion(options: ConversionOptions, settings: UserAgentSettings) -> ConversionOptions:
    """The options of a conversion that may be measured: sites are registrable domains, the lookback is not too long."""
    if options.aggregation_service not in settings.aggregation_services:  # compared as text, not as addresses
        rule = f"aggregationService must be one of {', '.join(settings.aggregation_services)}"
        raise AttributionError("ReferenceError", f"{rule}; got {brief(options.aggregation_service)}")
    size, value, epsilon, credit = options.histogram_size, options.value, options.epsilon, options.credit
    _in_range(0 < epsilon <= MAXIMUM_EPSILON, "epsilon", f"above 0 and at most {MAXIMUM_EPSILON}", epsilon)
    _in_range(0 < size <= settings.histogram_size, "histogramSize", f"from 1 to {settings.histogram_size}", size)
    _in_range(value > 0, "value", "positive", value)
    _in_range(value <= options.max_value, "value", f"at most maxValue ({options.max_value})", value)
    _in_range(len(credit) > 0, "credit", "at least one number", credit)
    _in_range(all(each > 0 for each in credit), "credit", "positive numbers", credit)
    _in_range(len(credit) <= settings.credits, "credit", f"at most {settings.credits} numbers", credit)
    lookback, matches = min(options.lookback_days, settings.lookback_days), options.match_values
    _in_range(lookback > 0, "lookbackDays", "positive", lookback)
    _in_range(len(matches) <= settings.match_values, "matchValues", f"at most {settings.match_values}", matches)
    sites = _sites(options.impression_sites, settings.impression_sites, "impressionSites")
    callers = _sites(options.impression_callers, settings.impression_callers, "impressionCallers")
    return replace(options, lookback_days=lookback, impression_sites=sites, impression_callers=callers)


def _in_range(holds: bool, name: str, rule: str, value: object) -> None:
    if not holds:
        raise AttributionError("RangeError", f"{name} must be {rule}; got {brief(value)}")


def _sites(names: Sequence[str], most: int, member: str) -> tuple[str, ...]:
    _in_range(len(names) <= most, member, f"at most {most}", names)
    return tuple(map(parse_site, names))
