"""One Spark session for all tests."""

import os
import shutil
from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import pytest

BRISK = {  # for runs too short for Java to warm up
    "spark.sql.shuffle.partitions": "3",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    if not find_spec("pyspark") or not shutil.which("java"):
        if os.environ.get("CI"):
            pytest.fail("the tests need PySpark and Java: pip install -e '.[spark]', apt install default-jre-headless")
        pytest.skip("no PySpark, or no Java")
    from attributary.logs.session import start_session

    session = start_session("local[2]", BRISK)
    yield session
    session.stop()


@pytest.fixture(autouse=True)
def _shared_session(request: pytest.FixtureRequest) -> None:
    """A page that gets itself a session gets this one."""
    if "cluster.md" in request.node.name:
        request.getfixturevalue("spark")
