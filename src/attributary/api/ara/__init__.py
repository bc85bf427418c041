"""The Attribution Reporting API to the byte: keys, registrations, reports, aggregation; its terms are here.

Only this package speaks the API's language: a source is an impression, a trigger a conversion, a bucket a key.
"""

from attributary.spec.terms import TERMS, Terms

ARA = Terms(
    kind="ara",
    title="Attribution Reporting API",
    l1=65_536,
    noise="api",
    largest_epsilon=64,
    conversions=20,  # reports that a browser sends for one impression
    answer="a summary report",
    client_knows_delay=True,  # a trigger's filters choose by the age of the source
    one_impression="all impressions have the same priority, window and destinations, and no browser limit is reached",
)
TERMS[ARA.kind] = ARA
