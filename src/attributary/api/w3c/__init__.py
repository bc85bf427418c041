"""W3C Attribution Level 1: what pages call, the options and headers of the calls, and what aggregates say.

Follows w3c/attribution at commit 9fab4e8 (2026-05-14), a draft that still changes. This package speaks that
specification's language, as `api.ara` speaks the Attribution Reporting API's; a browser is in `attributary.browsers`.
`W3C` is what planning goes by; what stands here imports no plans, as every spec for W3C comes by.
"""

from attributary.api.w3c.aggregate_shares import unwrap_shares
from attributary.api.w3c.attribution_options import (
    AttributionError,
    ConversionOptions,
    ImpressionOptions,
    measure_conversion_header,
    save_impression_header,
)
from attributary.api.w3c.schemes import COUNTS, W3cSection
from attributary.spec.measure import MICRO, REPORTS
from attributary.spec.terms import TERMS, Terms

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

GUARANTEE = (
    "individual ε-DP for the impressions of one device within one epoch (7 days), towards one conversion site",
    "conversions are public: whether, when and what someone bought is not protected, nor how many reports there are",
    "guarantees of single sites do not hold against sites that collude and adapt to each other's results",
)


def _proposals() -> object:
    from attributary.api.w3c.proposals import SchemeProposals  # which needs plans

    return SchemeProposals()


def _devices() -> object:
    from attributary.api.w3c.ledgers import Browsers  # which is compiled

    return Browsers()


W3C = Terms(
    kind="w3c",
    title="W3C Attribution API",
    l1=1000 * MICRO,  # µε
    noise=COUNTS[1],
    largest_epsilon=1000,
    conversions=REPORTS,  # as many as budgets pay for
    answer="a conversion",
    values_occur=True,  # batches are the values that conversions have
    any_order=True,  # a report tells its batch whatever the histogram has
    section=W3cSection,
    proposals=_proposals,
    devices=_devices,
    protects="epoch",
    protected="all impressions of a device in an epoch, towards one conversion site",
    unit="the reports of one conversion, of ε = {site_epsilon:g} per device, site and epoch",
    guarantee=GUARANTEE,
)
TERMS[W3C.kind] = W3C
