"""Registrations, read and checked as browsers do: the value, or what is wrong, each with its path in the JSON."""

from attributary.api.ara.parse.findings import Issue, Parsed
from attributary.api.ara.parse.source_header import Source, source
from attributary.api.ara.parse.trigger_header import Trigger, trigger

__all__ = ["Issue", "Parsed", "Source", "Trigger", "source", "trigger"]
