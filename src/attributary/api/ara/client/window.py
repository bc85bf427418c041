"""Window: how many different things were seen of late."""

from collections.abc import Hashable, Iterable


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
