"""The runners of passes and sweeps, whatever the size of the tree: plain Python, NumPy where there is one, compiled."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib import import_module
from unittest.mock import patch

import pytest

RUNNERS = pytest.mark.parametrize("runner", ["plain", "compiled"])
WITH_NUMPY = pytest.mark.parametrize("runner", ["plain", "numpy", "compiled"])


@contextmanager
def running(runner: str) -> Iterator[None]:
    with ExitStack() as patched:
        for name in ("attributary.denoising.passes", "attributary.denoising.whole", "attributary.tree.tree"):
            module = import_module(name)
            patched.enter_context(patch.object(module, "worth_compiling", lambda _: runner == "compiled"))
        passes = import_module("attributary.denoising.passes")
        whole = import_module("attributary.denoising.whole")
        patched.enter_context(patch.object(whole, "SMALL", 0 if runner == "numpy" else 10**9))
        patched.enter_context(patch.object(passes, "COMPILED_FROM", 0 if runner == "compiled" else 10**9))
        yield
