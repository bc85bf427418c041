"""Sources: what a user wants to look at, told apart by what is in the files: estimates, a plan, a spec, or a folder."""

import os
from dataclasses import dataclass

from attributary.changes.series import estimate_files
from attributary.errors import InputError
from attributary.plan import Plan

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
    tables = estimate_files(path)
    if len(tables) > 1:
        raise InputError(f"{path} has more than one table of estimates, {tables[0]} and {tables[1]}; name one of them")
    plan = os.path.join(path, "plan.json")
    sources = Sources(tables[0] if tables else None, Plan.load(plan) if os.path.exists(plan) else None)
    if sources.estimates is None and sources.plan is None:
        raise InputError(f"there are neither estimates nor a plan in {path}; {WHAT}")
    return sources
