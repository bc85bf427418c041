"""W3C Attribution Level 1: a user agent in memory, and its headers.

Follows w3c/attribution at commit 9fab4e8 (2026-05-14), a draft that still changes. This package speaks that
specification's language, as `api.ara` speaks the Attribution Reporting API's.
"""

from attributary.api.w3c.aggregate_shares import unwrap_shares
from attributary.api.w3c.attribution_headers import (
    measure_conversion_header,
    parse_measure_conversion,
    parse_save_impression,
    save_impression_header,
)
from attributary.api.w3c.attribution_options import (
    AttributionError,
    ConversionOptions,
    ImpressionOptions,
    UserAgentSettings,
)
from attributary.api.w3c.user_agent import UserAgent

COMMIT = "9fab4e8"  # of w3c/attribution, which is followed

__all__ = [
    "COMMIT",
    "AttributionError",
    "ConversionOptions",
    "ImpressionOptions",
    "UserAgent",
    "UserAgentSettings",
    "measure_conversion_header",
    "parse_measure_conversion",
    "parse_save_impression",
    "save_impression_header",
    "unwrap_shares",
]
