"""folder: where a command writes several files."""

import os

from attributary.errors import InputError


def check_folder(folder: str) -> None:
    """Refuses early what could not be written to."""
    if os.path.exists(folder) and not (os.path.isdir(folder) and os.access(folder, os.W_OK)):
        raise InputError(f"{folder} is no folder that can be written to; choose another with -o")


def make_folder(folder: str, option: str = "-o") -> None:
    """Makes the folder, if it is not there."""
    try:
        os.makedirs(folder, exist_ok=True)
    except OSError as problem:
        raise InputError(f"{folder} cannot be made: {problem.strerror}; choose another with {option}") from None
