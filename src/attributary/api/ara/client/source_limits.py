"""source_limits: whether a client keeps a source, and which others must go for it."""

from collections.abc import Callable, Hashable, Iterable

from attributary.api.ara.client.source_storage import Storage, Stored
from attributary.api.ara.parse.browser_limits import DAY, BrowserLimits


class Distinct:
    """For each key, the distinct values of the last `span` milliseconds, of which there may be up to a limit."""

    __slots__ = ("_limit", "_seen", "_span")

    def __init__(self, limit: int, span: int) -> None:
        self._limit, self._span = limit, span
        self._seen: dict[Hashable, dict[str, int]] = {}

    def allows(self, key: Hashable, values: Iterable[str], time: int) -> bool:
        """Whether the values could be added without more than the limit."""
        seen, start = self._seen.get(key, {}), time - self._span
        fresh = sum(seen.get(value, start) <= start for value in values)
        if not fresh or len(seen) + fresh <= self._limit:
            return True
        self._seen[key] = {value: last for value, last in seen.items() if last > start}
        return len(self._seen[key]) + fresh <= self._limit

    def add(self, key: Hashable, values: Iterable[str], time: int) -> None:
        """See the values."""
        self._seen.setdefault(key, {}).update(dict.fromkeys(values, time))


class Admission:
    """The limits on sources: how many an origin may have, and how many sites they may join."""

    def __init__(self, limits: BrowserLimits) -> None:
        window = 1000 * limits.destination_window
        self._destinations = limits.destinations
        self._globally = Distinct(limits.destinations_per_window, window)
        self._by_reporter = Distinct(limits.destinations_per_window_and_reporter, window)
        self._by_day = Distinct(limits.destinations_per_day, 1000 * DAY)
        self._origins_of_site = Distinct(limits.reporters_per_site, 1000 * limits.reporters_window)
        self._origins = Distinct(limits.source_reporters, 1000 * limits.rate_window)

    def admit(self, stored: Stored, storage: Storage) -> str | None:
        """Keep a source, or say which limit forbids it, by the API's name for it.

        The limits that other reporting sites have a part in come last, and what the destination limit removed by then
        stays removed: whether they were met is not to be seen.
        """
        sites, destinations, time = (stored.site, stored.reporting_site), stored.source.destination, stored.time
        reporter = [stored.reporting_origin]
        pairs = [(stored.site, destination) for destination in destinations]
        refused: tuple[tuple[str, Callable[[], bool]], ...] = (
            ("storage-limit", lambda: storage.full(stored.origin)),
            ("reporting-origin-per-site-limit", lambda: not self._origins_of_site.allows(sites, reporter, time)),
            ("destination-rate-limit", lambda: not self._by_reporter.allows(sites, destinations, time)),
            ("destination-per-day-rate-limit", lambda: not self._by_day.allows(sites, destinations, time)),
            ("destination-limit", lambda: not self._make_room(stored, storage)),
            ("destination-global-rate-limit", lambda: not self._globally.allows(stored.site, destinations, time)),
            ("reporting-origin-limit", lambda: not all(self._origins.allows(pair, reporter, time) for pair in pairs)),
        )
        for name, is_refused in refused:
            if is_refused():
                return f"source-{name}"
        for distinct, key in ((self._globally, stored.site), (self._by_reporter, sites), (self._by_day, sites)):
            distinct.add(key, destinations, time)
        self._origins_of_site.add(sites, reporter, time)
        for pair in pairs:
            self._origins.add(pair, reporter, time)
        storage.add(stored)
        return None

    def _make_room(self, new: Stored, storage: Storage) -> bool:
        """Drop the sources of the destinations that come last, by priority, then time; False if it would be the new."""
        if storage.reach(new) <= self._destinations:
            return True
        others = storage.covering(new.site, new.reporting_site)
        rank: dict[str, tuple[int, int, str]] = {}
        for one in [*others, new]:
            for destination in one.source.destination:
                mine = (one.source.destination_limit_priority, one.time, destination)
                rank[destination] = max(rank.get(destination, mine), mine)
        gone = set(sorted(rank, key=rank.__getitem__, reverse=True)[self._destinations :])
        if not gone.isdisjoint(new.source.destination):
            return False
        for other in others:
            if not gone.isdisjoint(other.source.destination):
                storage.retract(other)
        return True
