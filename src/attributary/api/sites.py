"""sites: where a page or a server stands, as browsers tell sites apart."""

import ipaddress
import re
import unicodedata
from functools import cache, lru_cache
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote

if TYPE_CHECKING:
    from publicsuffixlist import PublicSuffixList

SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)
WEB = re.compile(
    r"(?P<scheme>https?):[/\\]*(?:(?P<user>[^/?#\\]*)@)?(?P<host>\[[0-9a-f:.]+\]|[^/?#\\@:\[\]]+)"
    r"(?::(?P<port>[0-9]*))?(?P<rest>[/?#\\].*)?",
    re.IGNORECASE | re.DOTALL,
)
LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?")
NUMBER = re.compile(r"0x[0-9a-f]*|[0-9]+")
LINE_BREAKS = str.maketrans("", "", "\t\r\n")  # which browsers pass over, wherever they are
BLANK = "".join(map(chr, range(33)))  # and these at both ends
LONGEST_KEPT, LONGEST_HOST = 1024, 253  # characters
DEFAULT_PORT = {"https": 443, "http": 80}
JOINERS = "\u200c\u200d"  # unseen as well, yet parts of names


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
    text = text.translate(LINE_BREAKS).strip(BLANK)
    if not SCHEME.match(text):
        return None
    match = WEB.fullmatch(text)
    if not match:
        web = text.lower().startswith(("http:", "https:"))
        return None if web else Url("null", "null", False, False, trustworthy=False)
    scheme, host, digits = match["scheme"].lower(), parse_host(match["host"]), (match["port"] or "").lstrip("0")
    port = int(digits[:6] or 0) if match["port"] else DEFAULT_PORT[scheme]
    if host is None or port > 65535:
        return None
    port_text = "" if port == DEFAULT_PORT[scheme] else f":{port}"
    more = bool(match["user"]) or (match["rest"] or "/") not in ("/", "\\")
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


def parse_host(text: str) -> str | None:
    """A host's name in small letters and ASCII, or its number in the usual form; None where it is none."""
    if text.startswith("["):
        return _ipv6(text[1:-1])
    host = _ascii(text) if len(text) <= LONGEST_KEPT else None
    labels = host.removesuffix(".").split(".") if host else [""]
    if host is None or len(host) > LONGEST_HOST or not all(map(LABEL.fullmatch, labels)):
        return None
    return _ipv4(labels) if NUMBER.fullmatch(labels[-1]) else host


def _ascii(text: str) -> str | None:
    """A host's name as it is looked up: %-codes decoded, letters made small, others than ASCII in punycode."""
    try:
        text = unquote(text, errors="strict")
    except UnicodeDecodeError:
        return None
    if text.isascii():
        return text.lower()
    whole = unicodedata.normalize("NFKC", text)
    small = unicodedata.normalize("NFKC", "".join(c.lower() for c in whole if c in JOINERS or not _is_unseen(c)))
    if any(unicodedata.category(c) in ("Cc", "Cn", "Co", "Cs") or c == "\ufffd" for c in small):
        return None
    labels = small.replace("\u3002", ".").split(".")
    return ".".join(label if label.isascii() else f"xn--{label.encode('punycode').decode()}" for label in labels)


def _is_unseen(c: str) -> bool:
    return unicodedata.category(c) == "Cf" or 0xFE00 <= ord(c) <= 0xFE0F  # soft hyphens, variation selectors


def _ipv4(labels: list[str]) -> str | None:
    """An address of up to four numbers, of which the last fills what is left: 127.1 is 127.0.0.1."""
    *first, last = (_number(label) for label in labels)
    if len(labels) > 4 or any(n is None or n > 255 for n in first) or last is None or last >= 256 ** (5 - len(labels)):
        return None
    return str(ipaddress.IPv4Address(last + sum((n or 0) << 8 * (3 - i) for i, n in enumerate(first))))


def _number(text: str) -> int | None:
    """A part of an address: hexadecimal after 0x, octal after 0, else decimal."""
    base = 16 if text.startswith("0x") else 8 if text.startswith("0") else 10
    try:
        return int(text.removeprefix("0x") or "0", base) if NUMBER.fullmatch(text) else None
    except ValueError:
        return None


def _ipv6(text: str) -> str | None:
    try:
        address = ipaddress.IPv6Address(text)
    except ValueError:
        return None
    mapped = address.ipv4_mapped
    return f"[{address}]" if mapped is None else f"[::ffff:{int(mapped) >> 16:x}:{int(mapped) & 0xFFFF:x}]"
