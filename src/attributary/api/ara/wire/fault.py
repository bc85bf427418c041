"""Fault: why a report cannot be used, under the name that the aggregation service has for it."""

from enum import StrEnum


class Category(StrEnum):
    """The error categories of the aggregation service that a report can fall into here."""

    ATTRIBUTION_REPORT_TO_MALFORMED = "ATTRIBUTION_REPORT_TO_MALFORMED"  # its reporting origin is none
    DEBUG_NOT_ENABLED = "DEBUG_NOT_ENABLED"
    DECRYPTION_ERROR = "DECRYPTION_ERROR"  # and whatever cannot be taken apart
    DECRYPTION_KEY_NOT_FOUND = "DECRYPTION_KEY_NOT_FOUND"
    INVALID_REPORT_ID = "INVALID_REPORT_ID"
    ORIGINAL_REPORT_TIME_TOO_OLD = "ORIGINAL_REPORT_TIME_TOO_OLD"
    REPORTING_SITE_MISMATCH = "REPORTING_SITE_MISMATCH"
    REQUIRED_SHAREDINFO_FIELD_INVALID = "REQUIRED_SHAREDINFO_FIELD_INVALID"
    UNSUPPORTED_OPERATION = "UNSUPPORTED_OPERATION"
    UNSUPPORTED_REPORT_API_TYPE = "UNSUPPORTED_REPORT_API_TYPE"
    UNSUPPORTED_SHAREDINFO_VERSION = "UNSUPPORTED_SHAREDINFO_VERSION"


class Fault(ValueError):  # noqa: N818
    """What is wrong with one report, in words and as a category."""

    def __init__(self, words: str, category: Category = Category.DECRYPTION_ERROR) -> None:
        super().__init__(words)
        self.category = category
