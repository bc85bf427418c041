"""period_files: which tables of estimates are those of periods, and in which order."""

import os
import re

from attributary.changes.period_order import DATE, in_order
from attributary.errors import InputError
from attributary.file_kind import file_kind, files_in

ASSUMED = "assumed: their names tell no dates"


def period_tables(paths: list[str]) -> dict[str, str]:
    """The tables of periods by name, oldest first: of a folder of them, or of two; none of one period.

    Where their names tell no dates, the first of two is the newer one.
    """
    if len(paths) == 1:
        return period_files(paths[0]) if os.path.isdir(paths[0]) else {}
    tables = [table_of_period(path) for path in paths[::-1]]
    if len(paths) != 2 or None in tables:
        return {}
    by_period = dict(zip(pair_names(*paths[::-1]), map(str, tables), strict=True))
    order = in_order(list(by_period)[::-1], ASSUMED)
    order = order if order.by == DATE else in_order(list(by_period), ASSUMED, arranged=False)
    return {name: by_period[name] for name in order.names}


def pair_names(*paths: str) -> list[str]:
    """The periods that two files or folders are named after; refuses two of one period."""
    if os.path.realpath(paths[0]) == os.path.realpath(paths[1]):
        raise InputError(f"two periods are compared; got {paths[0]} twice")
    names = [_period_name(path.rstrip("/")) for path in paths]
    if names[0] == names[1] and not in_order(paths, ASSUMED).known:
        in_order(names, ASSUMED)  # refuses the same date twice
    return names if names[0] != names[1] else list(paths)


def period_files(folder: str) -> dict[str, str]:
    """The tables of estimates in a folder, or in the folders in it, by period in order; none where that is one only."""
    by_period: dict[str, str] = {}
    for path in estimate_files(folder):
        if (other := by_period.setdefault(_period_name(path), path)) != path:
            raise InputError(f"a period has one table of estimates; {other} and {path} are of one")
    if len(by_period) == 1:
        return {}  # what `run` writes
    for name in [] if by_period else os.listdir(folder):
        below = os.path.join(folder, name)
        tables = estimate_files(below) if os.path.isdir(below) else []
        if len(tables) > 1:
            raise InputError(f"a period has one table of estimates; {below} has {len(tables)}")
        if tables:
            by_period[name] = tables[0]
    names = in_order(sorted(by_period, key=_with_numbers), ASSUMED, arranged=False).names if len(by_period) > 1 else []
    return {name: by_period[name] for name in names}


def table_of_period(path: str) -> str | None:
    """The table of estimates that a path names, or that is the only one in a folder."""
    tables = estimate_files(path) if os.path.isdir(path) else [path] if _has_estimates(path) else []
    return tables[0] if len(tables) == 1 else None


def estimate_files(folder: str) -> list[str]:
    """The tables of estimates in a folder."""
    return [path for path in files_in(folder) if _has_estimates(path)]


def _has_estimates(path: str) -> bool:
    """Whether a file is a table of estimates; one that cannot be read is none."""
    try:
        return file_kind(path).kind == "estimates"
    except InputError:
        return False


def _period_name(path: str) -> str:
    """The period that a file is named after: estimates-2026-07.csv is of 2026-07."""
    stem = re.sub(r"(\.[a-z]+)+$", "", os.path.basename(path))
    return stem.removeprefix("estimates").strip("-_ ") or stem


def _with_numbers(name: str) -> list[tuple[int, str]]:
    """What names are sorted by: week 2 is before week 10."""
    return [(int(part), "") if part.isdecimal() else (-1, part) for part in re.split(r"([0-9]+)", name)]
