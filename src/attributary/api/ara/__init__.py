"""The Attribution Reporting API to the byte: keys, registrations, reports, aggregation.

Only this package speaks the API's language: a source is an impression, a trigger a conversion, a bucket a key.
"""
