"""attribution_logic: which impressions a conversion matches, and who gets how much of its value."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import floor

from attributary.api.w3c.attribution_options import DAY, ConversionOptions, ImpressionOptions


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
        first, second = (parts[i] - floor(parts[i]) for i in (open_part, n))
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
