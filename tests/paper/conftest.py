"""The connection that the tests of datasets share."""

from collections.abc import Iterator
from typing import Any

import duckdb
import pytest


@pytest.fixture(scope="session")
def connection() -> Iterator[Any]:
    with duckdb.connect() as connection:
        yield connection
