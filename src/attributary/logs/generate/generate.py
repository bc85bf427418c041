"""generate: a generated log becomes a file, or a folder of files."""

import os
from typing import NamedTuple

from attributary.errors import InputError
from attributary.logs.generate.camb import camb
from attributary.logs.generate.campaigns import ROWS as CAMB_ROWS
from attributary.logs.generate.csscl import ROWS as CSSCL_ROWS
from attributary.logs.generate.csscl import csscl
from attributary.logs.generate.shop import ROWS as SHOP_ROWS
from attributary.logs.generate.shop import shop
from attributary.logs.generate.spec import SPEC
from attributary.logs.generate.write import Progress, write
from attributary.tables import check_output, write_table
from attributary.tables.whole_file import whole_file
from attributary.tables.whole_folder import whole_folder

KINDS = {"csscl": CSSCL_ROWS, "camb": CAMB_ROWS, "shop": SHOP_ROWS}  # with their rows, unless told otherwise
STREAMS = {"csscl": csscl, "camb": camb}
FORMATS = {"parquet": (".parquet", ".pq"), "published": (".tsv.gz", ".tsv")}  # with the endings of such files


class Written(NamedTuple):
    path: str
    rows: int


def generate(
    kind: str,
    output: str,
    rows: int | None = None,
    seed: int = 0,
    format: str | None = None,
    progress: Progress | None = None,
) -> list[Written]:
    """Writes a generated log, each file whole or not at all; the same seed and number of rows give the same bytes.

    csscl and camb go to a file, or under a name of their own to a folder; the shop goes to a folder. A path without an
    ending is a folder, and is made if it is not there. `progress` is told, again and again, how many rows were added.
    """
    if kind not in KINDS:
        raise InputError(f"what can be generated is {', '.join(KINDS)}; got {kind!r}")
    number = KINDS[kind] if rows is None else rows
    if kind == "shop":
        return _generate_shop(_folder(output), number, seed, format, progress or (lambda rows: None))
    path, chosen = _file(output, kind, format)
    write(STREAMS[kind](number, seed), path, chosen, progress)
    return [Written(path, number)]


def _generate_shop(folder: str, rows: int, seed: int, format: str | None, progress: Progress) -> list[Written]:
    if format not in (None, "parquet"):
        raise InputError(f"the shop is written as parquet; got format {format!r}, which is for csscl and camb")
    tables = shop(rows, seed)._asdict()
    names = {name: f"{name}.parquet" for name in tables}
    with whole_folder(folder, (*names.values(), "spec.toml")) as place:
        for name, table in tables.items():
            write_table(table, os.path.join(place, names[name]))
        with whole_file(os.path.join(place, "spec.toml")) as file:
            file.write(SPEC.encode())
    progress(rows)
    return [Written(os.path.join(folder, names[name]), len(table)) for name, table in tables.items()]


def _file(output: str, kind: str, format: str | None) -> tuple[str, str]:
    """Where to write and in which format; refuses early what could not be written."""
    if format is not None and format not in FORMATS:
        raise InputError(f"a generated log is written as {' or '.join(FORMATS)}; got {format!r}")
    said = next((name for name, endings in FORMATS.items() if output.endswith(endings)), None)
    if said is None or os.path.isdir(output):
        chosen = format or "parquet"
        output = os.path.join(_folder(output), kind + FORMATS[chosen][0])
    elif format is None or format == said:
        chosen = said
    else:
        raise InputError(f"{output} ends like {said}; got format {format}: end it in {' or '.join(FORMATS[format])}")
    check_output(output, "parquet" if chosen == "parquet" else "tsv")
    return output, chosen


def _folder(output: str) -> str:
    if output == "-":
        raise InputError("a generated log is written to files; name a folder or a file instead of -")
    if os.path.splitext(output)[1] and not os.path.isdir(output):
        endings = " or ".join(ending for endings in FORMATS.values() for ending in endings)
        raise InputError(
            f"a folder is expected, or for csscl and camb a file that ends in {endings}; got {output}: "
            "end it in / if it is a folder"
        )
    try:
        os.makedirs(output, exist_ok=True)
    except OSError as error:
        raise InputError(f"{output} cannot be made a folder: {error.strerror or error}") from error
    return output
