"""user_agent: what a browser does with saveImpression and measureConversion, in memory."""

import math
from collections import defaultdict
from collections.abc import Collection
from dataclasses import dataclass, replace
from random import Random, SystemRandom

from attributary.api.w3c.attribution_logic import SavedImpression, fill_histogram, matches
from attributary.api.w3c.attribution_options import (
    DAY,
    AttributionError,
    ConversionOptions,
    ImpressionOptions,
    UserAgentSettings,
    check_conversion,
    check_impression,
    parse_site,
)
from attributary.api.w3c.privacy_ledgers import PrivacyLedgers, deduction
from attributary.errors import InputError, brief

HOUR = 3600  # seconds


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
        if not paid:
            return None
        return histogram if single else fill_histogram(paid, query, self._rng.random)


def _moment(time: float) -> float:
    if not math.isfinite(time):
        raise InputError(f"a time is a finite number of seconds; got {brief(time)}")
    return time
