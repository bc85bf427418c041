"""Storage: the sources of a client, found by where they may be attributed, and the reports that are not yet due."""

from collections import Counter
from heapq import heappop, heappush

from attributary.ara.client.attribution import Attribution
from attributary.ara.client.limits import Limits
from attributary.ara.client.stored import Stored
from attributary.ara.client.window import Distinct

Place = tuple[str, str]  # a destination and a reporting origin


class Storage:
    """What a client remembers.

    Sources that are gone are swept when they come up on a heap. Nothing is searched from end to end, but the sources of
    two sites that cover too many destinations.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.number = 0
        self._by_place: dict[Place, list[tuple[int, int, int, Stored]]] = {}  # heaps: the best source on top
        self._by_expiry: list[tuple[int, int, Stored]] = []
        self._by_sites: dict[tuple[str, str], dict[int, Stored]] = {}
        self._covered: dict[tuple[str, str], Counter[str]] = {}  # destinations, by source site and reporting site
        self._per_origin: Counter[str] = Counter()
        self._waiting: dict[int, Attribution] = {}
        self._due: list[tuple[int, int]] = []
        self._sent: list[Attribution] = []
        self._per_destination: Counter[str] = Counter()
        self._attributions: dict[tuple[str, str, str], dict[int, int]] = {}
        self.attribution_reporters = Distinct(limits.attribution_reporters, 1000 * limits.rate_window)

    def advance(self, time: int) -> None:
        """Let sources expire and reports leave up to a time."""
        while self._by_expiry and self._by_expiry[0][0] <= time:
            self.remove(heappop(self._by_expiry)[2])
        while self._due and self._due[0][0] <= time:
            value = self._waiting.pop(heappop(self._due)[1], None)
            if value is not None:
                self._sent.append(value)
                self._per_destination[value.destination] -= not value.is_null

    def add(self, stored: Stored) -> None:
        """Keep a source."""
        rank = (-stored.source.priority, -stored.time, -stored.number, stored)
        for destination in stored.source.destination:
            heappush(self._by_place.setdefault((destination, stored.reporting_origin), []), rank)
        heappush(self._by_expiry, (stored.expires, stored.number, stored))
        sites = (stored.site, stored.reporting_site)
        self._by_sites.setdefault(sites, {})[stored.number] = stored
        self._covered.setdefault(sites, Counter()).update(stored.source.destination)
        self._per_origin[stored.origin] += 1

    def remove(self, stored: Stored) -> None:
        """Forget a source; its reports stay."""
        if stored.alive:
            stored.alive = False
            sites = (stored.site, stored.reporting_site)
            del self._by_sites[sites][stored.number]
            for destination in stored.source.destination:
                self._covered[sites][destination] -= 1
                if not self._covered[sites][destination]:
                    del self._covered[sites][destination]
            self._per_origin[stored.origin] -= 1

    def full(self, origin: str) -> bool:
        """Whether a source origin has as many sources as it may."""
        return self._per_origin[origin] >= self.limits.sources_per_origin

    def reach(self, stored: Stored) -> int:
        """How many destinations the sources of its two sites would cover with a new one."""
        covered = self._covered.get((stored.site, stored.reporting_site), ())
        return len(covered) + sum(destination not in covered for destination in stored.source.destination)

    def of_sites(self, site: str, reporting_site: str) -> list[Stored]:
        """The sources of a source site and a reporting site."""
        return list(self._by_sites.get((site, reporting_site), {}).values())

    def best(self, place: Place) -> Stored | None:
        """The source that a trigger is attributed to: the highest priority, then the most recent."""
        heap = self._by_place.get(place)
        while heap and not heap[0][3].alive:
            heappop(heap)
        return heap[0][3] if heap else None

    def keep_only(self, stored: Stored, place: Place) -> None:
        """Forget the other sources that a trigger there would have matched."""
        for *_, other in self._by_place[place]:
            if other is not stored:
                self.remove(other)
        self._by_place[place] = [(-stored.source.priority, -stored.time, -stored.number, stored)]

    def hold(self, value: Attribution, stored: Stored | None) -> None:
        """Keep a report until it is due; a real one counts towards the limits of its sites."""
        self.number += 1
        self._waiting[self.number] = value
        heappush(self._due, (value.due, self.number))
        if stored is not None:
            self._per_destination[value.destination] += 1
            stored.attributions.append(self.number)
            self._records(stored, value.destination)[self.number] = stored.time

    def crowded(self, destination: str) -> bool:
        """Whether a destination has as many reports waiting as it may."""
        return self._per_destination[destination] >= self.limits.reports_per_destination

    def exhausted(self, stored: Stored, destination: str, time: int) -> bool:
        """Whether a source site, destination and reporting site have had as many attributions as they may."""
        records = self._records(stored, destination)
        if len(records) >= self.limits.attributions:
            start = time - 1000 * self.limits.rate_window
            for number in [number for number, source_time in records.items() if source_time <= start]:
                del records[number]
        return len(records) >= self.limits.attributions

    def _records(self, stored: Stored, destination: str) -> dict[int, int]:
        return self._attributions.setdefault((stored.site, destination, stored.reporting_site), {})

    def retract(self, stored: Stored) -> None:
        """Forget a source and its reports that wait, as though they had never been."""
        self.remove(stored)
        for number in stored.attributions:
            value = self._waiting.pop(number, None)
            if value is not None:
                self._per_destination[value.destination] -= 1
                self._records(stored, value.destination).pop(number, None)

    def take_sent(self) -> list[Attribution]:
        """The reports that left since the last call."""
        sent, self._sent = self._sent, []
        return sent

    @property
    def last(self) -> int | None:
        """When the last report that waits is due."""
        return max((value.due for value in self._waiting.values()), default=None)
