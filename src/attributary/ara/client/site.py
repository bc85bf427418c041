"""Site: where a page or a server stands, as the API tells sites apart."""

import ipaddress
import re
from functools import lru_cache
from typing import NamedTuple

SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)
WEB = re.compile(
    r"(?P<scheme>https?)://(?:(?P<user>[^/?#\\@]*)@)?(?P<host>\[[0-9a-f:.]+\]|[^/?#\\@:\[\]]+)(?::(?P<port>[0-9]{0,5}))?"
    r"(?P<rest>[/?#\\].*)?",
    re.IGNORECASE | re.DOTALL,
)
LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
LONGEST_KEPT = 1024  # characters
DEFAULT_PORT = {"https": 443, "http": 80}
LOCAL = ("localhost", "127.0.0.1")
# Below a country's name, these are names of registries rather than of firms: shop.co.uk is a site, co.uk is none.
REGISTRY = frozenset(("ac", "co", "com", "edu", "gob", "go", "gov", "gouv", "net", "ne", "nom", "or", "org"))


class Url(NamedTuple):
    """What matters of an address: its origin and its site, and whether there was more to it than each."""

    origin: str
    site: str
    more_than_origin: bool
    more_than_site: bool
    trustworthy: bool


def parse(text: str) -> Url | None:
    """The origin and site of an address, or None where it is no address at all."""
    return _kept(text) if len(text) <= LONGEST_KEPT else _parse(text)


def _parse(text: str) -> Url | None:
    text = text.strip(" \t\r\n")
    if not SCHEME.match(text):
        return None
    found = WEB.fullmatch(text)
    if not found:
        web = text.lower().startswith(("http:", "https:"))
        return None if web else Url("null", "null", False, False, trustworthy=False)
    scheme, host = found["scheme"].lower(), _host(found["host"])
    port = int(found["port"] or DEFAULT_PORT[scheme])
    if host is None or port > 65535:
        return None
    port_text = "" if port == DEFAULT_PORT[scheme] else f":{port}"
    more = bool(found["user"]) or (found["rest"] or "/") not in ("/", "\\")
    domain = registrable(host)
    return Url(
        origin=f"{scheme}://{host}{port_text}",
        site=f"{scheme}://{domain}",
        more_than_origin=more,
        more_than_site=more or bool(port_text) or domain != host,
        trustworthy=scheme == "https" or host in LOCAL,
    )


_kept = lru_cache(maxsize=4096)(_parse)  # the same few addresses come again and again


def registrable(host: str) -> str:
    """The part of a host's name that a firm registers: its last two labels, or three below a country's registry.

    This is the default rule of the Public Suffix List with the commonest of its exceptions, not the whole list: hosts
    that let their subdomains to others (github.io) count as one site.
    """
    labels = host.split(".")
    if host.startswith("[") or labels[-1].isdigit():
        return host  # an address in numbers
    count = 3 if len(labels) > 2 and len(labels[-1]) == 2 and labels[-2] in REGISTRY else 2
    return ".".join(labels[-count:])


def _host(text: str) -> str | None:
    """A host's name in small letters and ASCII, or None where it is none."""
    if text.startswith("["):
        return _address(text[1:-1], ipaddress.IPv6Address, "[{}]")
    if not text.isascii():
        try:
            text = text[:254].encode("idna").decode("ascii")  # a name is at most 253 long; the rest is refused below
        except UnicodeError:
            return None
    host = text.lower()
    labels = host.removesuffix(".").split(".")
    if len(host) > 253 or not all(map(LABEL.fullmatch, labels)):
        return None
    return _address(host, ipaddress.IPv4Address, "{}") if labels[-1].isdigit() else host


def _address(text: str, kind: type[ipaddress.IPv4Address | ipaddress.IPv6Address], form: str) -> str | None:
    try:
        return form.format(kind(text))
    except ValueError:
        return None
