"""spark_errors: errors of Spark in one line, as mistakes of the user with their file wherever they are that."""

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager

from attributary.errors import InputError, TryAgain
from attributary.logs.engine import CastError

FAILED_CASTS = ("CAST_INVALID_INPUT", "CAST_OVERFLOW", "ARITHMETIC_OVERFLOW", "CANNOT_PARSE", "INVALID_FRACTION")
CANCELLED = "SPARK_JOB_CANCELLED|Job \\d+ cancelled|InterruptedException"
SCARCE = "OutOfMemoryError|No space left on device|ExecutorLostFailure|SparkContext was shut down"
GONE = "Answer from Java side is empty|Error while (?:sending|receiving)|Connection (?:refused|reset)"
SHOWN = 60  # characters of a line
LONGEST = 200  # of what Spark says


@contextmanager
def spark_errors(name: str = "the log") -> Iterator[None]:
    """Spark's errors about files and cells become InputErrors and CastErrors, about the machine TryAgain; others pass.

    What fails because Ctrl-C cancelled it is a KeyboardInterrupt.
    """
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    logger = logging.getLogger("SQLQueryContextLogger")  # PySpark's second copy of its errors, with their stack
    was, logger.disabled = logger.disabled, True
    try:
        yield
    except (PySparkException, Py4JError, ConnectionError) as error:
        words = f"{error}\n{getattr(error, 'java_exception', '')}"
        if re.search(CANCELLED, words):
            raise KeyboardInterrupt from None
        scarce = re.search(f"[^\n]*(?:{SCARCE}|{GONE})[^\n]*", words)
        if scarce or isinstance(error, ConnectionError):
            reason = (scarce[0] if scarce else str(error)).strip()[:LONGEST]
            raise TryAgain(f"Spark gave up: {reason}; give it more memory or disk, and run it again") from error
        mistake = _mistake(str(error), name)
        if mistake is None:
            raise
        raise mistake from error
    finally:
        logger.disabled = was


@contextmanager
def quiet_py4j() -> Iterator[None]:
    """Py4J logs Ctrl-C, and what fails by it, with the stack to the root logger, and raises it as well."""
    root = logging.getLogger()

    def others(record: logging.LogRecord) -> bool:
        return not str(record.msg).endswith("while sending command.")

    root.addFilter(others)
    try:
        yield
    finally:
        root.removeFilter(others)


def _mistake(words: str, name: str) -> ValueError | None:
    """The mistake that these words are about; the innermost cause stands last."""
    messages = dict(re.findall(r"\[([A-Z_]{5,})[.A-Z_]*\] ([^\n]*)", words))
    for condition in FAILED_CASTS:
        if condition in messages:
            return CastError(messages[condition].split(" SQLSTATE")[0])
    path = re.search(r"(?:reading file|Path does not exist:) (?:file:)?(?://)?(\S+?)\.?\s", words)
    file = path[1] if path else name
    if "MALFORMED_CSV_RECORD" in messages:
        line = messages["MALFORMED_CSV_RECORD"].removeprefix("Malformed CSV record: ").split(" SQLSTATE")[0]
        return InputError(
            f"{file}: a line has more or fewer cells than the header, {line[:SHOWN]!r}; quote cells that contain the "
            "separator, and leave none out; where cells contain line breaks, use Parquet"
        )
    if "PATH_NOT_FOUND" in messages:
        return InputError(f"there is no file {file}")
    if "PARQUET_TYPE_ILLEGAL" in messages or "UNSUPPORTED_TIME_TYPE" in messages:
        return InputError(
            f"{file}: {_first(messages)}; Spark reads times to the microsecond: write the file again with those"
        )
    if "FAILED_READ_FILE" in messages:
        causes: list[str] = re.findall(r"Caused by: [\w.$]+: ([^\n]*)", words)
        reason = causes[-1] if causes else _first(messages)
        return InputError(f"{file} is cut off" if "end of input" in reason else f"{file} cannot be read: {reason}")
    return None


def _first(messages: dict[str, str]) -> str:
    return next(iter(messages.values())).split(" SQLSTATE")[0].rstrip(". ")
