"""Browsers in memory: what they make of registrations and calls. The product imports none of it.

>>> from attributary.browsers import Client, UserAgent
"""

from attributary.browsers.ara_client import Client
from attributary.browsers.ara_storage import Attribution, report
from attributary.browsers.event_level import event_level_measurements, randomised
from attributary.browsers.w3c_user_agent import (
    UserAgent,
    UserAgentSettings,
    parse_measure_conversion,
    parse_save_impression,
)

__all__ = [
    "Attribution",
    "Client",
    "UserAgent",
    "UserAgentSettings",
    "event_level_measurements",
    "parse_measure_conversion",
    "parse_save_impression",
    "randomised",
    "report",
]
