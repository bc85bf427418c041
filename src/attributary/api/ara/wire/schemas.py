"""The Avro schemas of the aggregation service: reports in, a domain to query, results out."""

from typing import Any, Final

Schema = dict[str, Any]

BUCKET: Final = (
    "Histogram bucket used in aggregation. 128-bit integer encoded as a 16-byte big-endian bytestring. "
    "Leading 0-bits will be left out."
)


def _record(name: str, *fields: Schema) -> Schema:
    return {"type": "record", "name": name, "fields": list(fields)}


def _field(name: str, kind: Any, doc: str | None = None) -> Schema:
    return {"name": name, "type": kind} | ({"doc": doc} if doc else {})


REPORTS: Final = _record(
    "AggregatableReport", _field("payload", "bytes"), _field("key_id", "string"), _field("shared_info", "string")
)
DOMAIN: Final = _record(
    "AggregationBucket",
    _field(
        "bucket",
        "bytes",
        "A single bucket that appears in the aggregation service output. 128-bit integer encoded as a 16-byte "
        "big-endian bytestring.",
    ),
)
RESULTS: Final = _record(
    "AggregatedFact",
    _field("bucket", "bytes", BUCKET),
    _field("metric", "long", "Metric associated with the bucket"),
)
DEBUG_RESULTS: Final = _record(
    "DebugAggregatedFact",
    _field("bucket", "bytes", BUCKET),
    _field("unnoised_metric", "long", "Unnoised metric associated with the bucket."),
    _field("noise", "long", "The noise applied to metric in the regular result."),
    _field(
        "annotations",
        {"type": "array", "items": {"type": "enum", "name": "bucket_tags", "symbols": ["in_domain", "in_reports"]}},
    ),
)
