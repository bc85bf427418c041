"""Registrations, read and checked as browsers do: the value, or what is wrong, each with its path in the JSON."""

from attributary.api.ara.parse.both_headers import BrowserLimits
from attributary.api.ara.parse.json_fields import Issue, Parsed
from attributary.api.ara.parse.source_header import Source, source
from attributary.api.ara.parse.trigger_header import Trigger, trigger

__all__ = ["BrowserLimits", "Issue", "Parsed", "Source", "Trigger", "source", "trigger"]
