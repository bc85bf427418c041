"""Sources: what a user wants to look at, told apart by what is in the files: estimates, a plan, a spec, or a folder."""

import os
from dataclasses import dataclass

from attributary.errors import InputError
from attributary.estimates import is_estimates
from attributary.plan import Plan
from attributary.ratio import is_ratios
from attributary.tables.table_source import by_content, by_name

WHAT = "explore takes estimates, a plan, a spec, or a folder that `attributary run` wrote"
FIRST_BYTES = 65536


@dataclass(frozen=True)
class Sources:
    estimates: str | None = None
    plan: Plan | None = None
    spec: str | None = None  # its path


def sources_in(path: str) -> Sources:
    """What is in a file, or in the files of a folder; of a folder, whatever else it holds is passed over."""
    if os.path.isdir(path):
        return _folder(path)
    try:
        with open(path, "rb") as file:
            beginning = file.read(FIRST_BYTES)
    except FileNotFoundError:
        raise InputError(f"there is no file {path}; {WHAT}") from None
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None
    if not beginning.strip():
        raise InputError(f"{path} is empty; {WHAT}")
    if path.endswith(".toml"):
        return Sources(spec=path)
    if path.endswith(".json") or beginning.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
        return Sources(plan=Plan.load(path))
    return Sources(estimates=path)


def _folder(path: str) -> Sources:
    try:
        names = sorted(os.listdir(path))
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None
    files = [os.path.join(path, name) for name in names if not name.startswith(".")]
    tables = [file for file in files if by_name(file).format and os.path.isfile(file) and _has_estimates(file)]
    if len(tables) > 1:
        raise InputError(f"{path} has more than one table of estimates, {tables[0]} and {tables[1]}; name one of them")
    plan = os.path.join(path, "plan.json")
    sources = Sources(tables[0] if tables else None, Plan.load(plan) if plan in files else None)
    if sources.estimates is None and sources.plan is None:
        raise InputError(f"there are neither estimates nor a plan in {path}; {WHAT}")
    return sources


def _has_estimates(path: str) -> bool:
    """Whether a table's columns are those of estimates; a file that cannot be read is none."""
    import csv

    import pyarrow as pa
    from pyarrow import ipc, parquet

    from attributary.tables.table_source import opened

    try:
        with opened(path) as file:
            beginning = bytes(file.read(FIRST_BYTES))
            kind = by_content(beginning)
            if kind == "parquet":
                return _names_them(parquet.read_schema(path).names)
            if kind in ("csv", "tsv"):
                first = beginning.decode("utf-8-sig", errors="replace").splitlines()[0]
                return _names_them(next(csv.reader([first], delimiter="\t" if kind == "tsv" else ",")))
            file.seek(0)
            reader = ipc.open_stream(file) if kind == "arrows" else ipc.open_file(file)
            return _names_them(reader.schema.names)
    except (InputError, pa.ArrowException, OSError, csv.Error):
        return False


def _names_them(names: list[str]) -> bool:
    return is_estimates(names) and not is_ratios(names)
