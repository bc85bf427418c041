"""Format: the kind of file a table is in, by its name or by its first bytes."""

from pathlib import PurePath
from typing import Any, Literal, NamedTuple

Format = Literal["csv", "tsv", "parquet", "arrow", "arrows"]  # Arrow as a file (also Feather) or as a stream

ENDINGS: dict[str, Format] = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".arrows": "arrows",
}
PACKED = {".gz": "gzip", ".zst": "zstd"}
DELIMITER: dict[Format, str] = {"csv": ",", "tsv": "\t"}  # the formats that are text


class Named(NamedTuple):
    format: Format | None  # None where the ending says nothing
    packing: str | None  # how the text is compressed, if it is


def by_name(path: str) -> Named:
    """What a file's ending says, as in sales.csv.gz."""
    endings = [ending.lower() for ending in PurePath(path).suffixes]
    packing = PACKED.get(endings[-1]) if endings else None
    if packing:
        endings.pop()
    return Named(ENDINGS.get(endings[-1]) if endings else None, packing)


def packing_of(beginning: bytes) -> str | None:
    """How a file with these first bytes is compressed, if it is."""
    if beginning.startswith(b"\x1f\x8b"):
        return "gzip"
    return "zstd" if beginning.startswith(b"\x28\xb5\x2f\xfd") else None


def by_content(beginning: bytes) -> Format:
    """The format of a file with these first bytes; text is TSV if its first line holds a tab."""
    if beginning.startswith(b"PAR1"):
        return "parquet"
    if beginning.startswith((b"ARROW1", b"FEA1")):
        return "arrow"
    if beginning.startswith(b"\xff\xff\xff\xff"):
        return "arrows"
    return "tsv" if b"\t" in beginning.splitlines()[0] else "csv"


def is_text(format: Any) -> bool:
    return format in DELIMITER
