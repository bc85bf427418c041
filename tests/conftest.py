"""What all tests share: one Spark session, one browser, and no deadlines."""

import os
import shutil
import signal
from collections.abc import Callable, Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from brisk_java import BRISK
from browser import chromium, tabs  # noqa: F401  (fixtures)

settings.register_profile("no deadlines", settings.get_profile(settings.get_current_profile_name()), deadline=None)
settings.load_profile("no deadlines")  # timings are benchmarks, never tests

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # run in the background, as by nohup: commands would inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The tests of a file stay together when several processes share them, and so do all that need Spark."""
    for item in items:
        needs_spark = "spark" in getattr(item, "fixturenames", ()) or "cluster.md" in item.name
        item.add_marker(pytest.mark.xdist_group("spark" if needs_spark else item.path.name))


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    if not find_spec("pyspark") or not shutil.which("java"):
        if os.environ.get("CI"):
            pytest.fail("the tests need PySpark and Java: pip install -e '.[spark]', apt install default-jre-headless")
        pytest.skip("no PySpark, or no Java")
    from attributary.logs.spark import start_session

    os.environ.setdefault("JAVA_TOOL_OPTIONS", BRISK)  # of the sessions that commands start, too
    session = start_session("local[2]", {"spark.sql.shuffle.partitions": "3"})
    yield session
    session.stop()


@pytest.fixture(autouse=True)
def _own_state(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test has a ledger of its own, and none is the user's."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))


@pytest.fixture(autouse=True)
def _shared_session(request: pytest.FixtureRequest) -> None:
    """A page that gets itself a session gets this one."""
    if "cluster.md" in request.node.name:
        request.getfixturevalue("spark")


@pytest.fixture(scope="session")
def shop_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Path]:
    """A folder of one's own with the logs and the spec of a generated shop with so many rows."""

    @cache
    def generated(rows: int) -> Path:
        from attributary.datasets import generate

        folder = tmp_path_factory.mktemp("generated")
        generate("shop", f"{folder}/", rows, 0)
        return folder

    return lambda rows: Path(shutil.copytree(generated(rows), tmp_path_factory.mktemp("shop"), dirs_exist_ok=True))
