"""attribution_headers: `Save-Impression` and `Measure-Conversion`, read and written.

Both are dictionaries of RFC 9651. A header saves one impression: of a member that is there twice the last one counts.
Numbers with a fraction have at most three decimals in such fields.
"""

from decimal import Decimal
from operator import methodcaller
from typing import Any
from urllib.parse import urljoin

from attributary.api.sites import parse_url
from attributary.api.w3c.attribution_options import ConversionOptions, ImpressionOptions
from attributary.errors import InputError, brief, shortened

KEBAB = methodcaller("replace", "_", "-")


def parse_save_impression(header: str) -> ImpressionOptions:
    """The options in a header `Save-Impression`; an InputError where a browser ignores the header."""
    return ImpressionOptions.from_members(_dictionary(header, ["lifetime-days"]), KEBAB)


def parse_measure_conversion(header: str, url: str) -> tuple[ConversionOptions, str]:
    """The options in a header `Measure-Conversion` of a response from `url`, and where its report goes."""
    members = _dictionary(header, ["lookback-days", "histogram-size", "value", "max-value"])
    options = ConversionOptions.from_members(members, KEBAB)
    report_url = members.get("report-url")
    if not isinstance(report_url, str):
        raise InputError(f'report-url must be a string, as in report-url="/reports"; got {brief(report_url)}')
    try:
        absolute = urljoin(url, report_url.strip())
    except ValueError:  # such as brackets that are no IPv6 address
        absolute = ""
    place = parse_url(absolute)
    if place is None or not place.origin.startswith("https:"):
        raise InputError(f"report-url must be an https address, or relative to one; got {brief(report_url)}")
    return options, absolute


def save_impression_header(options: ImpressionOptions) -> str:
    """The value of a header `Save-Impression`, without members that are at their default."""
    return _header(options.stated())


def measure_conversion_header(options: ConversionOptions, report_url: str) -> str:
    """The value of a header `Measure-Conversion`, without members that are at their default."""
    return _header({**options.stated(), "report_url": report_url})


def _dictionary(header: str, positive: list[str]) -> dict[str, Any]:
    """The members of a dictionary, without their parameters: numbers, text, or lists of them."""
    from http_sf import StructuredFieldError, parse  # here, as all else in this package does without

    try:
        parsed = parse(header.encode("ascii"), tltype="dictionary")
    except UnicodeEncodeError:
        raise InputError(f"a header must be ASCII; got {brief(header)}") from None
    except StructuredFieldError as error:
        why = shortened(str(error), 120)
        raise InputError(f"a header must be a dictionary of RFC 9651, as in histogram-index=3: {why}") from None
    members = {key: _plain(member[0]) for key, member in parsed.items()}  # type: ignore[union-attr, index]
    for key in positive:
        if members.get(key) == 0:
            raise InputError(f"{key} must be positive in a header; got 0")
    return members


def _plain(value: Any) -> Any:
    if isinstance(value, list):
        return [_plain(item) for item, _ in value]
    return float(value) if isinstance(value, Decimal) else value


def _header(members: dict[str, Any]) -> str:
    from http_sf import ser

    for name in ("epsilon", "credit"):
        stated = members.get(name, ())
        for number in stated if isinstance(stated, tuple) else [stated]:
            if number != round(number, 3) or abs(number) >= 10**12:
                rule = f"{name} has at most three decimals in a header"
                raise InputError(f"{rule}; got {number}: round it, or measure by a script's call")
    try:
        return ser({KEBAB(name): list(v) if isinstance(v, tuple) else v for name, v in members.items()})
    except ValueError as error:
        raise InputError(
            f"cannot be written as a header: {shortened(str(error), 120)}; write domains in ASCII (xn--…)"
        ) from None
