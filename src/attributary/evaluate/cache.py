"""cache: tables that were made once, in files under the name of what they were made of."""

import os
from collections.abc import Callable
from typing import Any

from attributary.errors import InputError
from attributary.tables import read_table, write_table

Tables = dict[str, Any]


def folder(path: str) -> str:
    """The path of a folder, which is made if it is not there."""
    try:
        os.makedirs(path, exist_ok=True)
    except OSError as error:
        raise InputError(f"{path} cannot be made: {error.strerror}; choose another folder") from None
    return path


def cached(where: str | None, key: str, names: tuple[str, ...], make: Callable[[], Tables]) -> Tables:
    """The tables of these names from the folder, or else as they are made, which are then put there."""
    if where is None:
        return make()
    paths = {name: os.path.join(where, f"counts-{key}-{name}.parquet") for name in names}
    if all(map(os.path.exists, paths.values())):
        try:
            return {name: read_table(path) for name, path in paths.items()}
        except InputError:  # damaged: made anew
            pass
    made = make()
    for name, path in paths.items():
        write_table(made[name], path)
    return made
