"""Both runners of passes and sweeps, whatever the size of the tree: plain Python and compiled."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from unittest.mock import patch

import pytest

RUNNERS = pytest.mark.parametrize("runner", ["plain", "compiled"])


@contextmanager
def running(runner: str) -> Iterator[None]:
    with ExitStack() as patched:
        for name in ("attributary.denoising.passes", "attributary.tree.tree"):
            module = import_module(name)
            patched.enter_context(patch.object(module, "worth_compiling", lambda _: runner == "compiled"))
        passes = import_module("attributary.denoising.passes")
        patched.enter_context(patch.object(passes, "COMPILED_FROM", 0 if runner == "compiled" else 10**9))
        yield
