"""A browser that has W3C Attribution, in memory: saveImpression, measureConversion, and their headers.

Follows the specification's text; the order of the checks is its order, too.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction
from random import Random, SystemRandom
from urllib.parse import urljoin

from attributary.api.sites import parse_url
from attributary.api.w3c.attribution_options import (
    DAY,
    KEBAB,
    AttributionError,
    ConversionOptions,
    ImpressionOptions,
    deduction,
    parse_site,
)
from attributary.errors import InputError, brief, shortened
from attributary.types import Record

MAXIMUM_EPSILON = 4294  # so that microepsilons fit into 32 bits
HOUR = 3600  # seconds


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


@dataclass(frozen=True, slots=True)
class SavedImpression:
    """An impression in the store of a browser, saved at a time in seconds, by the page's site or another caller."""

    options: ImpressionOptions
    site: str
    caller: str
    time: float

    @property
    def expiry(self) -> float:
        return self.time + self.options.lifetime_days * DAY


@dataclass(frozen=True, slots=True)
class Activation:
    """What a tab knows of its user: when they last did something, and whether the API was used on this site since."""

    time: float = -math.inf
    used: bool = False


class UserAgent:
    """One browser on one device. Times are seconds since 1970; chance is drawn from `rng`.

    Calls name the site of the page, and `caller`, the site of the frame or server that calls if it is another one.
    `allowed` says whether the page's permissions policy allows the call. Browsers that are not `enabled` check what
    they are given, save nothing, and report zeros.
    """

    __slots__ = ("_cleared", "_epoch_start", "_rng", "_tabs", "enabled", "impressions", "ledgers", "settings")

    def __init__(self, settings: UserAgentSettings | None = None, rng: Random | None = None) -> None:
        self.settings = settings or UserAgentSettings()
        self.enabled = True
        self.impressions: list[SavedImpression] = []
        self.ledgers = PrivacyLedgers(self.settings)
        self._rng = rng or SystemRandom()
        self._tabs: dict[str, Activation] = {}
        self._epoch_start: float | None = None
        self._cleared: float | None = None

    def activate(self, time: float, tab: str = "") -> None:
        """The user clicks or types in a tab, or enters an address: for some seconds, calls from the tab are allowed."""
        self._tabs[tab] = replace(self._tabs.get(tab, Activation()), time=_moment(time))

    def navigate(self, tab: str = "") -> None:
        """A tab goes to another site: calls need a new activation, unless the last one has not been used yet."""
        before = self._tabs.get(tab, Activation())
        self._tabs[tab] = Activation() if before.used else before

    def save_impression(
        self, options: ImpressionOptions, site: str, time: float, caller: str = "", tab: str = "", allowed: bool = True
    ) -> None:
        """Saves an impression; an AttributionError is what the page would get."""
        on, by = self._admit("save-impression", site, caller, time, tab, allowed)
        checked = check_impression(options, self.settings)
        if self.enabled:
            self.impressions.append(SavedImpression(checked, on, by, time))

    def measure_conversion(
        self, options: ConversionOptions, site: str, time: float, caller: str = "", tab: str = "", allowed: bool = True
    ) -> tuple[int, ...]:
        """The histogram in the conversion's report, before encryption; an AttributionError as the page gets it."""
        on, by = self._admit("measure-conversion", site, caller, time, tab, allowed)
        query = check_conversion(options, self.settings)
        histogram = self._attribute(query, on, by, time) if self.enabled else None
        return tuple(histogram or [0] * query.histogram_size)

    def clear_impressions(self, site: str) -> None:
        """Forgets a site's impressions: what a site asks for with `Clear-Site-Data: "impressions"`.

        Those are what it saved; and from the sites and callers that others listed it is taken out, which ends those
        impressions that list no other.
        """
        gone, kept = parse_site(site), []
        for saved in self.impressions:
            listed = (saved.options.conversion_sites, saved.options.conversion_callers)
            sites, callers = (tuple(each for each in names if each != gone) for names in listed)
            if saved.caller != gone and (sites or not listed[0]) and (callers or not listed[1]):
                options = replace(saved.options, conversion_sites=sites, conversion_callers=callers)
                kept.append(replace(saved, options=options))
        self.impressions = kept

    def clear_history(self, sites: Collection[str], *, forget_visits: bool, time: float) -> None:
        """The user clears some sites' data, or the history of visits to them, or (no sites) all history.

        Data alone: the budgets of the sites are spent, so that nothing can be measured twice. Visits: what is known of
        the sites is forgotten, and no impression before the next epoch can be measured by anyone.
        """
        now, named = _moment(time), {parse_site(site) for site in sites}
        if forget_visits:
            self.impressions = [saved for saved in self.impressions if named and saved.site not in named]
            self.ledgers.forget(named)
            self._cleared = now
        elif not named:
            raise InputError("clearing data but not visits needs the sites; name them, or set forget_visits=True")
        else:
            first, last = self._first_epoch(now), self.epoch(now)
            self.ledgers.site.update(((epoch, site), 0) for epoch in range(first, last + 1) for site in named)

    def epoch(self, time: float) -> int:
        """The number of the epoch of a time. Epochs start at an hour that is drawn when one is first asked for."""
        period = self.settings.epoch_days * DAY
        if self._epoch_start is None:
            self._epoch_start = math.floor((time - self._rng.random() * period) / HOUR) * HOUR
        return math.floor((time - self._epoch_start) / period)

    def _first_epoch(self, now: float) -> int:
        """The first epoch whose impressions may be measured: "get the starting epoch for attribution"."""
        first = self.epoch(now - self.settings.lookback_days * DAY)
        return first if self._cleared is None else max(first, self.epoch(self._cleared) + 1)

    def _admit(self, feature: str, site: str, caller: str, time: float, tab: str, allowed: bool) -> tuple[str, str]:
        """The site and the caller of a call, which the page and its user allow."""
        now, on = _moment(time), parse_site(site)
        by = parse_site(caller) if caller else on
        if not allowed:
            raise AttributionError("NotAllowedError", f"the permissions policy of {on} does not allow {feature}")
        seconds, state = self.settings.activation_seconds, self._tabs.get(tab, Activation())
        if seconds is not None and not state.used:
            if state.time + seconds < now:
                rule = f"{feature} needs a user activation in the last {seconds:g} seconds; call activate() first"
                raise AttributionError("NotAllowedError", rule)
            self._tabs[tab] = replace(state, used=True)
        return on, by

    def _attribute(self, query: ConversionOptions, site: str, caller: str, now: float) -> list[int] | None:
        """The histogram of a conversion that the budgets allow, or None: "do attribution and fill a histogram".

        Within a single epoch the histogram itself is charged for. Otherwise every epoch with an impression that matches
        pays twice the value, whoever wins; those that cannot are left out.
        """
        current, first = self.epoch(now), self._first_epoch(now)
        single = self.epoch(now - query.lookback_days * DAY) == current
        by_epoch = defaultdict(list)
        self.impressions = [saved for saved in self.impressions if now <= saved.expiry]
        for saved in self.impressions:
            if matches(saved, query, site, caller, now) and first <= (epoch := self.epoch(saved.time)) <= current:
                by_epoch[epoch].append(saved)
        shared = deduction(2 * query.value, query)
        histogram = fill_histogram(by_epoch[current], query, self._rng.random) if single else []
        own = deduction(sum(histogram), query) if single else shared
        paid = [
            saved
            for epoch, found in sorted(by_epoch.items())
            if found and self.ledgers.charge(epoch, site, [saved.site for saved in found], own, shared)
            for saved in found
        ]
        if not single and paid:
            histogram = fill_histogram(paid, query, self._rng.random)
        return histogram if paid else None


def _moment(time: float) -> float:
    if not math.isfinite(time):
        raise InputError(f"a time is a finite number of seconds; got {brief(time)}")
    return time


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


def matches(saved: SavedImpression, query: ConversionOptions, site: str, caller: str, now: float) -> bool:
    """Whether an impression matches a conversion on a site that a caller measures: "common matching logic"."""
    options = saved.options
    return (
        now <= min(saved.expiry, saved.time + query.lookback_days * DAY)
        and (not options.conversion_sites or site in options.conversion_sites)
        and (not options.conversion_callers or caller in options.conversion_callers)
        and (not query.match_values or options.match_value in query.match_values)
        and (not query.impression_sites or saved.site in query.impression_sites)
        and (not query.impression_callers or saved.caller in query.impression_callers)
    )


def fill_histogram(
    impressions: Iterable[SavedImpression], query: ConversionOptions, random: Callable[[], float]
) -> list[int]:
    """The value of a conversion on its last impressions' indexes: "fill a histogram with last-n-touch attribution".

    Those of the highest priority come first, then the latest, then those saved first. Indexes beyond the histogram
    drop out, with their part of the value.
    """
    last = sorted(impressions, key=lambda saved: (-saved.options.priority, -saved.time))[: len(query.credit)]
    histogram = [0] * query.histogram_size
    for saved, part in zip(last, allocate_credit(query.credit[: len(last)], query.value, random), strict=True):
        if saved.options.histogram_index < query.histogram_size:
            histogram[saved.options.histogram_index] += part
    return histogram


def allocate_credit(credit: Sequence[float], value: int, random: Callable[[], float]) -> list[int]:
    """A value in whole parts whose expectations are in the ratio of the credits: "fairly allocate credit".

    The parts add up to the value, and none is off by 1 or more. The specification computes with doubles; fractions
    are exact, and a credit is what it reads (0.1 is a tenth).
    """
    given = [Fraction(str(each)) for each in credit]
    parts = [value * each / sum(given) for each in given]
    open_part = 0  # the only one before `n` that may still have a fraction
    for n in range(1, len(parts)):
        first, second = (parts[i] - math.floor(parts[i]) for i in (open_part, n))
        if not first and not second:
            continue
        up = first + second > 1
        to_first, to_second = (1 - first, 1 - second) if up else (-first, -second)
        if random() < to_second / (to_first + to_second):  # the first becomes whole, and the other stays open
            parts[open_part] += to_first
            parts[n] -= to_first
            open_part = n
        else:
            parts[n] += to_second
            parts[open_part] -= to_second
    return [int(part) for part in parts]


@dataclass(slots=True)
class PrivacyLedgers:
    """µε left: of each conversion site and of each impression site by epoch, and of all sites together.

    Keys are (epoch, site) and epoch; what is not there has not been touched.
    """

    settings: UserAgentSettings
    site: dict[tuple[int, str], int] = field(default_factory=dict)
    impression_site: dict[tuple[int, str], int] = field(default_factory=dict)
    everyone: dict[int, int] = field(default_factory=dict)

    def charge(self, epoch: int, site: str, impression_sites: Collection[str], own: int, shared: int) -> bool:
        """Deducts from all three ledgers of an epoch, or from none where one has not enough left.

        `own` is deducted from the conversion site, `shared` from all sites together and from each impression site.
        """
        settings, key = self.settings, (epoch, site)
        quotas = [(epoch, each) for each in set(impression_sites)]
        left = self.site.get(key, settings.site_budget)
        left_of_all = self.everyone.get(epoch, settings.global_budget)
        left_of_quotas = [self.impression_site.get(each, settings.impression_site_quota) for each in quotas]
        if own > left or shared > min(left_of_all, *left_of_quotas):
            return False
        self.site[key] = left - own
        self.everyone[epoch] = left_of_all - shared
        self.impression_site.update((each, has - shared) for each, has in zip(quotas, left_of_quotas, strict=True))
        return True

    def forget(self, sites: Collection[str]) -> None:
        """Forgets what is left of some sites, or of all if there are none; of all together only with all of them."""
        for ledger in (self.site, self.impression_site):
            for key in [key for key in ledger if not sites or key[1] in sites]:
                del ledger[key]
        if not sites:
            self.everyone.clear()


def parse_save_impression(header: str) -> ImpressionOptions:
    """The options in a header `Save-Impression`; an InputError where a browser ignores the header."""
    return ImpressionOptions.from_members(_dictionary(header, ["lifetime-days"]), KEBAB)


def parse_measure_conversion(header: str, url: str) -> tuple[ConversionOptions, str]:
    """The options in a header `Measure-Conversion` of a response from `url`, and where its report goes."""
    members = _dictionary(header, ["lookback-days", "histogram-size", "value", "max-value"])
    options = ConversionOptions.from_members(members, KEBAB)
    report_url = members.get("report-url")
    if not isinstance(report_url, str):
        raise InputError(f'report-url must be a string, as in report-url="/reports"; got {brief(report_url)}')
    try:
        absolute = urljoin(url, report_url.strip())
    except ValueError:  # such as brackets that are no IPv6 address
        absolute = ""
    place = parse_url(absolute)
    if place is None or not place.origin.startswith("https:"):
        raise InputError(f"report-url must be an https address, or relative to one; got {brief(report_url)}")
    return options, absolute


def _dictionary(header: str, positive: list[str]) -> Record:
    """The members of a dictionary, without their parameters: numbers, text, or lists of them."""
    from http_sf import StructuredFieldError, parse  # here, as all else in this package does without

    try:
        parsed = parse(header.encode("ascii"), tltype="dictionary")
    except UnicodeEncodeError:
        raise InputError(f"a header must be ASCII; got {brief(header)}") from None
    except StructuredFieldError as error:
        why = shortened(str(error), 120)
        raise InputError(f"a header must be a dictionary of RFC 9651, as in histogram-index=3: {why}") from None
    members = {key: _plain(member[0]) for key, member in parsed.items()}  # type: ignore[union-attr, index]
    for key in positive:
        if members.get(key) == 0:
            raise InputError(f"{key} must be positive in a header; got 0")
    return members


def _plain(value: object) -> object:
    if isinstance(value, list):
        return [_plain(item) for item, _ in value]
    return float(value) if isinstance(value, Decimal) else value
