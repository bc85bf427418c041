"""unknown: what only a conversion has, as SQL: a value, or the bucket of a number."""

from attributary.logs.bucket import bucket
from attributary.logs.column import Log, label, number
from attributary.logs.when import how_long
from attributary.spec import Attribute, Logs


def is_delay(attribute: Attribute, logs: Logs) -> bool:
    """Whether it is the time from impression to conversion: a bucket of time that the spec gives no column for."""
    return isinstance(attribute.bucket, str) and attribute.name not in logs.conversion_columns


def value(log: Log, attribute: Attribute) -> str:
    """The value of an attribute that is not the delay, or its bucket."""
    if attribute.bucket is None:
        return label(log, attribute.name)
    amount = how_long if isinstance(attribute.bucket, str) else number
    return bucket(amount(log, attribute.name), attribute)
