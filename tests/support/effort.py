"""How far a law is tried: some way in `make test`, all the way in `make test-all`, which sets EFFORT=all."""

import os
from collections.abc import Iterable
from typing import Any

import pytest

ALL = os.environ.get("EFFORT") == "all"


def examples(number: int) -> int:
    """How many generated examples to try where so many are all of them."""
    return number if ALL else max(number // 4, 5)


def first_of(cases: Iterable[Any]) -> list[Any]:
    """Cases of one law: the first in every run, the others with the longest tests."""
    first, *others = cases
    marks = pytest.mark.sweep
    return [first, *(pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=marks) for case in others)]
