"""Registrations, read and checked as browsers do: the value, or what is wrong, each with its path in the JSON."""

from attributary.ara.parse.findings import Issue, Parsed
from attributary.ara.parse.source_header import Source, source
from attributary.ara.parse.trigger_header import Trigger, trigger

__all__ = ["Issue", "Parsed", "Source", "Trigger", "source", "trigger"]
