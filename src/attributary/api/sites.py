"""sites: where a page or a server stands, as browsers tell sites apart."""

import re
from functools import cache, lru_cache
from typing import TYPE_CHECKING, NamedTuple

import pydantic_core  # whose addresses are those of the WHATWG's standard, as browsers have it

if TYPE_CHECKING:
    from publicsuffixlist import PublicSuffixList

SHORT_HOST = re.compile(r"[^/\\?#]*+[/\\]*+[^/\\?#]{0,1024}+(?:[/\\?#].*)?", re.DOTALL)  # as it is written
BARE_HOST = re.compile(r"\[[0-9a-fA-F:.]+\]|[^\x00-\x20/\\?#@:\[\]]+")
LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
LONGEST_KEPT, LONGEST_HOST = 1024, 253  # characters
DEFAULT_PORT = {"https": 443, "http": 80}


class Url(NamedTuple):
    """What matters of an address: its origin and its site, and whether there was more to it than each."""

    origin: str
    site: str
    more_than_origin: bool
    more_than_site: bool
    trustworthy: bool
    public_suffix: bool = False  # such as github.io: below it, but not there, are sites of different people


def parse_url(text: str) -> Url | None:
    """The origin and site of an address, or None where it is not an address."""
    return _kept(text) if len(text) <= LONGEST_KEPT else _parse(text)


def _parse(text: str) -> Url | None:
    try:
        url = pydantic_core.Url(text)
    except ValueError:
        return None
    scheme, host = url.scheme, url.host or ""
    if scheme not in DEFAULT_PORT:
        return Url("null", "null", False, False, trustworthy=False)
    if not SHORT_HOST.fullmatch(text) or not _is_host(host):
        return None
    port_text = "" if url.port == DEFAULT_PORT[scheme] else f":{url.port}"
    more = bool(url.username or url.password or url.path != "/") or (url.query, url.fragment) != (None, None)
    registrable = registrable_domain(host)
    domain = registrable or host  # what has none is its own site
    return Url(
        origin=f"{scheme}://{host}{port_text}",
        site=f"{scheme}://{domain}",
        more_than_origin=more,
        more_than_site=more or bool(port_text) or domain != host,
        trustworthy=scheme == "https" or is_local(host),
        public_suffix=registrable is None and not is_local(host) and not _is_address(host),
    )


_kept = lru_cache(maxsize=4096)(_parse)  # the same few addresses come again and again


def _is_host(name: str) -> bool:
    """Whether a server can be called so: the standard takes longer names and odder labels."""
    labels = name.removesuffix(".").split(".")
    return len(name) <= LONGEST_HOST and (name.startswith("[") or all(map(LABEL.fullmatch, labels)))


def parse_host(text: str) -> str | None:
    """A host's name in small letters and ASCII, or its number in the usual form; None where it is none."""
    url = parse_url(f"https://{text}") if BARE_HOST.fullmatch(text) else None
    return None if url is None else url.origin.removeprefix("https://")


def registrable_domain(host: str) -> str | None:
    """The part of a host's name that one registers, if any, by the Public Suffix List with its private section.

    An address in numbers, localhost and github.io itself have none. A dot at the end stays, and makes another site.
    """
    name = host.removesuffix(".")
    domain = None if _is_address(host) else _suffixes().privatesuffix(name)
    return None if domain is None else domain + host[len(name) :]


@cache
def _suffixes() -> "PublicSuffixList":
    from publicsuffixlist import PublicSuffixList  # reads its list: a tenth of a second

    return PublicSuffixList()


def is_local(host: str) -> bool:
    """Whether a host is the machine itself, which needs no https to be trusted."""
    if _is_address(host):
        return host == "[::1]" or host.startswith("127.")
    return ("." + host.removesuffix(".")).endswith(".localhost")


def _is_address(host: str) -> bool:
    return host.startswith("[") or host.rpartition(".")[2].isdigit()
