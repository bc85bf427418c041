"""Vectors that others published, beside the project; where CI runs they must be there."""

import os
from pathlib import Path

import pytest

VECTORS = Path(__file__).parents[2] / "shared" / "vectors"


def vectors(folder: str) -> Path:
    """The folder of some vectors."""
    path = VECTORS / folder
    if not path.is_dir():
        if os.environ.get("CI"):
            pytest.fail(f"the tests need the published vectors in {path}")
        pytest.skip(f"no vectors in {path}")
    return path
