"""W3C Attribution Level 1: what pages call, the options and headers of the calls, and what aggregates say.

Follows w3c/attribution at commit 9fab4e8 (2026-05-14), a draft that still changes. This package speaks that
specification's language, as `api.ara` speaks the Attribution Reporting API's; a browser is in `attributary.browsers`.
"""

from attributary.api.w3c.aggregate_shares import unwrap_shares
from attributary.api.w3c.attribution_options import (
    AttributionError,
    ConversionOptions,
    ImpressionOptions,
    measure_conversion_header,
    save_impression_header,
)

COMMIT = "9fab4e8"  # of w3c/attribution, which is followed

__all__ = [
    "COMMIT",
    "AttributionError",
    "ConversionOptions",
    "ImpressionOptions",
    "measure_conversion_header",
    "save_impression_header",
    "unwrap_shares",
]
