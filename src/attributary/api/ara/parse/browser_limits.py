"""browser_limits: what a browser stores, sends and lets pass; the defaults are those of Chromium."""

from dataclasses import dataclass

UINT32_MAX = 2**32 - 1
BUDGET = 65_536
DAY = 86_400
COORDINATORS = tuple(f"https://publickeyservice.msmt.{cloud}.privacysandboxservices.com" for cloud in ("aws", "gcp"))


@dataclass(frozen=True, slots=True)
class BrowserLimits:
    """The limits of a client; times are in seconds."""

    coordinators: tuple[str, ...] = COORDINATORS
    sources_per_origin: int = 4096
    reports_per_destination: int = 1024
    reports_per_source: int = 20
    destinations: int = 100  # covered by unexpired sources of a source site and reporting site
    destinations_per_window: int = 200  # of a source site, in destination_window
    destinations_per_window_and_reporter: int = 50
    destination_window: int = 60
    destinations_per_day: int = 100  # of a source site and reporting site
    rate_window: int = 30 * DAY
    source_reporters: int = 100  # reporting origins per source site and destination, in rate_window
    attribution_reporters: int = 10
    attributions: int = 100  # per source site, destination and reporting site, in rate_window
    reporters_per_site: int = 1  # reporting origins per source site and reporting site, in reporters_window
    reporters_window: int = DAY
    minimum_delay: int = 0
    delay_span: int = 600
    null_rate: float = 0.05  # of a null report, where the source's time is not told
    null_rate_per_day: float = 0.008  # of a null report for each of the 31 days it could have been
    event_level_epsilon: float = 14
    channel_capacity_navigation: float = 11.5  # bits that event-level reports may tell
    channel_capacity_event: float = 6.5
    scopes_channel_capacity_navigation: float = 11.55
    scopes_channel_capacity_event: float = 6.5
    trigger_states: int = UINT32_MAX


DEFAULT = BrowserLimits()
