"""What all tests share: one Spark session, one browser, and no deadlines."""

import gc
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from support.brisk_java import BRISK
from support.browser import chromium, first_tab, tabs  # noqa: F401  (fixtures)
from support.effort import ALL, examples

settings.register_profile(
    "no deadlines",
    settings.get_profile(settings.get_current_profile_name()),
    deadline=None,
    max_examples=examples(100),
)
settings.load_profile("no deadlines")  # timings are benchmarks, never tests

if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # run in the background, as by nohup: commands would inherit it
    signal.signal(signal.SIGINT, signal.default_int_handler)


LONGEST = ["spark", "browser", "test_fuzz.py", "test_load.py", "test_learned_prior.py", "test_report.py"]  # of groups


@pytest.hookimpl(tryfirst=True)  # before xdist looks for groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """When several processes share the tests, the groups of one process each, the longest of them first.

    The tests of a file stay together, and so do all that need Spark, and all that need a browser; each page of the docs
    is a group. A long group that comes last would keep one process busy while the others are idle.
    """
    in_browser = {item.path for item in items if "chromium" in _fixtures(item)}
    place = {name: number for number, name in enumerate(LONGEST)}

    def group(item: pytest.Item) -> str:
        if "spark" in _fixtures(item) or "cluster.md" in item.name:
            return "spark"
        if item.path in in_browser:
            return "browser"
        return item.name if item.name.startswith("test_the_examples_run") else item.path.name

    for item in items:
        item.add_marker(pytest.mark.xdist_group(group(item)))
    items.sort(key=lambda item: place.get(group(item), len(place)))


def pytest_collection_finish() -> None:
    """What was collected stays to the end, and need not be looked through each time memory is tidied."""
    gc.freeze()


def pytest_sessionfinish() -> None:
    gc.unfreeze()


def _fixtures(item: pytest.Item) -> tuple[str, ...]:
    return tuple(getattr(item, "fixturenames", ()))


SMALL_JOBS = {  # to plan and compile a job of a few rows takes longer than to run it
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.adaptive.enabled": "false",
    **({} if ALL else {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}),
}


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    if not find_spec("pyspark") or not shutil.which("java"):
        if os.environ.get("CI"):
            pytest.fail("the tests need PySpark and Java: pip install -e '.[spark]', apt install default-jre-headless")
        pytest.skip("no PySpark, or no Java")
    from attributary.logs.spark import start_session

    os.environ.setdefault("JAVA_TOOL_OPTIONS", BRISK)  # of the sessions that commands start, too
    session = start_session("local[2]", SMALL_JOBS)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def _states(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("states")
    return (folder / str(number) for number in count())


@pytest.fixture(autouse=True)
def _own_state(_states: Iterator[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test has a ledger of its own, and none is the user's."""
    monkeypatch.setenv("XDG_STATE_HOME", str(next(_states)))


@pytest.fixture(autouse=True)
def _shared_session(request: pytest.FixtureRequest) -> None:
    """A page that gets itself a session gets this one."""
    if "cluster.md" in request.node.name:
        request.getfixturevalue("spark")


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages without their charts, where a test is not about them: drawing takes most of a run's time."""
    monkeypatch.setattr(import_module("attributary.report.page"), "inline", lambda chart, width: "<svg></svg>")


@pytest.fixture(scope="session")
def shop_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Path]:
    """A folder of one's own with the logs and the spec of a generated shop with so many rows."""

    @cache
    def generated(rows: int) -> Path:
        from attributary.paper import generate

        folder = tmp_path_factory.mktemp("generated")
        generate("shop", f"{folder}/", rows, 0)
        return folder

    return lambda rows: Path(shutil.copytree(generated(rows), tmp_path_factory.mktemp("shop"), dirs_exist_ok=True))
