"""The engine that the tests of logs share."""

from collections.abc import Iterator

import pytest

from attributary.logs import DuckDB


@pytest.fixture(scope="session")
def engine() -> Iterator[DuckDB]:
    with DuckDB(threads=2) as running:
        yield running
