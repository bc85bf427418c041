"""Place: the sites and origins that a registration names."""

from typing import Any

from attributary.api.ara.client import site
from attributary.api.ara.parse.entries import distinct
from attributary.api.ara.parse.findings import Findings, Path
from attributary.api.ara.parse.scalars import is_a, string, typed
from attributary.errors import brief


def destinations(j: Any, path: Path, found: Findings) -> tuple[str, ...] | None:
    """The sites where a source may be attributed: one, or a list of up to three."""
    if not typed(j, path, found, "a string", "a list"):
        return None
    if is_a(j, "a list"):
        return distinct(j, path, found, _site, 1, 3)
    one = _site(j, path, found)
    return None if one is None else (one,)


def coordinator(j: Any, path: Path, found: Findings, allowed: tuple[str, ...]) -> str | None:
    """The origin of the aggregation service's key server."""
    url = _url(j, path, found)
    if url is None:
        return None
    if url.more_than_origin:
        found.warning(path, f"URL components other than origin ({url.origin}) will be ignored")
    if url.origin not in allowed:
        found.error(path, f"must be one of the following: {', '.join(allowed)}")
        return None
    return url.origin


def _site(j: Any, path: Path, found: Findings) -> str | None:
    url = _url(j, path, found)
    if url is not None and url.more_than_site:
        found.warning(path, f"URL components other than site ({url.site}) will be ignored")
    return None if url is None else url.site


def _url(j: Any, path: Path, found: Findings) -> site.Url | None:
    text = string(j, path, found)
    if text is None:
        return None
    url = site.parse(text)
    hint = f"got {brief(text)}: write an address as in https://shop.example"
    if url is None:
        found.error(path, "invalid URL", hint)
    elif not url.trustworthy:
        found.error(path, "URL must use HTTP/HTTPS and be potentially trustworthy", hint)
        return None
    return url
