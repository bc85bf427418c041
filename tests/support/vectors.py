"""Vectors that others published: from `make vectors`, or beside the project; in CI they must be there."""

import os
from pathlib import Path

import pytest

PROJECT = Path(__file__).parent.parent.parent
PLACES = (PROJECT / "vectors", PROJECT.parent / "shared" / "vectors")


def found(name: str, places: tuple[Path, ...] = PLACES) -> Path | None:
    """A folder or file of vectors, if it is there."""
    return next((place / name for place in places if (place / name).exists()), None)


def vectors(name: str) -> Path:
    """A folder or file of vectors; a test without it is skipped, but in CI."""
    path = found(name)
    if path is None:
        reason = f"no published vectors {name}: `make vectors` brings them"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    return path
