"""Period: the impressions to count, by their time."""

from typing import NamedTuple

from attributary.errors import InputError
from attributary.logs.clock import Clock, Moment, Unit, micros


class Period(NamedTuple):
    """From `since` on, and before `until`; None for no end."""

    since: Moment | None = None
    until: Moment | None = None

    @property
    def is_all(self) -> bool:
        return self.since is None and self.until is None

    def holds(self, column: str, clock: Clock, unit: Unit, times: int = 1) -> str:
        """SQL that holds where a column of microseconds, or of so many times as many, is in the period or null."""
        since = None if self.since is None else micros(self.since, clock, unit, "the period's beginning")
        until = None if self.until is None else micros(self.until, clock, unit, "the period's end")
        if since is not None and until is not None and not since < until:
            raise InputError(
                f"a period begins before it ends; got {self.since} as the beginning, {self.until} as the end"
            )
        ends = [f"{column} >= {times * since}"] if since is not None else []
        ends += [f"{column} < {times * until}"] if until is not None else []
        return f"({column} IS NULL OR ({' AND '.join(ends)}))" if ends else "TRUE"
