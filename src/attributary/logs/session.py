"""session: a new Spark session, quiet and, where it is local, kept to this machine."""

import os
import re
import shutil
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any

from attributary.errors import InputError, TryAgain

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HERE = "127.0.0.1"
LONGEST = 200  # characters of a reason
QUIET = {"spark.log.level": "ERROR", "spark.ui.showConsoleProgress": "false"}
LOCAL = {"spark.driver.host": HERE, "spark.driver.bindAddress": HERE, "spark.ui.enabled": "false"}


def active_session() -> "SparkSession | None":
    """The session that runs in this process, if there is one."""
    refuse_no_pyspark()
    from pyspark.sql import SparkSession

    return SparkSession.getActiveSession()


def start_session(master: str = "local[*]", settings: Mapping[str, str] | None = None) -> "SparkSession":
    """A session at a master's address; without one, on all cores of this machine. `settings` are Spark's own."""
    refuse_no_pyspark()
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkException
    from pyspark.sql import SparkSession

    if master.startswith("sc://"):  # Spark Connect: nothing runs here
        return SparkSession.builder.remote(master).getOrCreate()
    _refuse_no_java()
    local = master.startswith("local")
    conf = SparkConf().setMaster(master).setAppName("attributary")
    conf.setAll(list({**QUIET, **(LOCAL if local else {}), **(settings or {})}.items()))
    with tempfile.TemporaryFile("w+") as said, _environment(local), any_pandas():
        try:
            return SparkSession(SparkContext(conf=conf, gateway=_gateway(conf, said)))
        except (PySparkException, Py4JError, OSError) as error:
            reason = _reason(said, error)
            fault = InputError if re.search("Master must|Could not parse Master", reason) else TryAgain
            raise fault(f"Spark did not start at {master}: {reason}") from error


@contextmanager
def any_pandas() -> Iterator[None]:
    """PySpark warns of pandas from 3 on, also where it uses none, as here: all is Arrow."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
        yield


def refuse_no_pyspark() -> None:
    try:
        import pyspark  # noqa: F401
    except ImportError:
        raise InputError("Spark needs PySpark, which is not installed; pip install 'attributary[spark]'") from None


def _refuse_no_java() -> None:
    home = os.environ.get("JAVA_HOME")
    if not shutil.which("java", path=os.path.join(home, "bin") if home else None):
        where = f"in JAVA_HOME={home}" if home else "on the PATH"
        raise InputError(
            f"Spark needs Java 17 or newer, and there is none {where}; "
            "install one (on Debian: apt install openjdk-17-jre-headless), or set JAVA_HOME"
        )


def _gateway(conf: Any, said: IO[str]) -> Any:
    """The Java process, whose chatter goes to a file; None where there is one from before."""
    from pyspark import SparkContext
    from pyspark.java_gateway import launch_gateway

    return None if SparkContext._gateway else launch_gateway(conf, {"stdout": said, "stderr": said})  # type: ignore[no-untyped-call]


@contextmanager
def _environment(local: bool) -> Iterator[None]:
    """Has Java listen to this machine only, and workers be this Python: Spark takes that from the environment alone."""
    wanted = {"SPARK_LOCAL_IP": HERE, "PYSPARK_PYTHON": sys.executable} if local else {}
    missing = {name: value for name, value in wanted.items() if name not in os.environ}
    os.environ.update(missing)
    try:
        yield
    finally:
        for name in missing:
            del os.environ[name]


def _reason(said: IO[str], error: Exception) -> str:
    """What Java complained of, or else the error's own first line."""
    said.seek(0)
    complaints = [line.strip() for line in said if re.search(r"(Exception|Error)\b", line)]
    return (complaints[0] if complaints else str(error).strip().splitlines()[0])[:LONGEST]
