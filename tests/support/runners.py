"""Both runners of a sweep, whatever the size of the tree: plain Python and compiled."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from unittest.mock import patch

import pytest

RUNNERS = pytest.mark.parametrize("runner", ["plain", "compiled"])


@contextmanager
def running(runner: str) -> Iterator[None]:
    module = import_module("attributary.denoising.passes")
    with patch.object(module, "COMPILED_FROM", 0 if runner == "compiled" else 10**9):
        yield
