"""frame: a Spark frame of noisy figures, checked at the door."""

from collections.abc import Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

import numpy as np

from attributary.denoising.denoise import _method
from attributary.denoising.worker import NOISY, VARIANCE, Task, cell
from attributary.errors import InputError
from attributary.measurements import Measurements

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

ADDED = ("estimate", "variance", "low", "high", "correction")
KEPT_AS = "noise_variance"  # what the user's variance column is called where its name is taken


def asked(
    frame: "DataFrame",
    levels: Sequence[str],
    variance: "str | float | Column",
    cut: str | None,
    *,
    nonnegative: str | bool | None,
    whole: bool,
    shape: str,
    fill: bool,
    confidence: float,
    prefix: str,
) -> Task:
    """What is asked of every part; options and names that make no sense are refused."""
    names = list(levels)
    if not names or len(set(names)) < len(names):
        raise InputError(f"levels are one column or more, named once each; got {', '.join(names) or 'none'}")
    for name in names:
        _refuse_missing(frame, name)
        if frame.schema[name].dataType.typeName() in ("array", "map", "struct", "binary", "variant"):
            raise InputError(f"labels are text, numbers or dates; column {name!r} is {_type(frame, name)}")
    if cut is not None and cut not in names:
        raise InputError(f"a cut is one of the levels {', '.join(names)}; got {cut!r}")
    if not 0 < confidence < 1:
        raise InputError(f"the confidence is between 0 and 1; got {confidence}")
    try:
        method = _method(nonnegative)
        Measurements(np.empty(0), np.empty(0), shape)
    except ValueError as error:
        raise InputError(str(error)) from None
    added = [prefix + name for name in ADDED]
    columns = _kept(frame.columns, variance, {name.casefold() for name in added})
    return Task(
        names, names.index(cut or names[0]), frame.columns, columns, added, method, whole, shape, fill, confidence
    )


def figures(frame: "DataFrame", task: Task, value: str, variance: "str | float | Column") -> "DataFrame":
    """The user's columns, renamed for the way, and beside them the figures and their variances as numbers."""
    from pyspark.sql import functions as sf

    if isinstance(variance, int | float):
        if not variance >= 0:
            raise InputError(f"a variance is 0 or more, or inf for a node not measured; got {variance}")
        spread = sf.lit(float(variance))
    else:
        spread = _number(frame, variance)
    both = frame.select("*", _number(frame, value).alias(NOISY), spread.alias(VARIANCE))
    return both.toDF(*(cell(task, name) for name in task.given), NOISY, VARIANCE)


def column(name: str) -> "Column":
    """A column whose name may hold dots."""
    from pyspark.sql import functions as sf

    return sf.col("`" + name.replace("`", "``") + "`")


def _number(frame: "DataFrame", given: "str | Column") -> "Column":
    from pyspark.sql.types import NumericType

    if isinstance(given, str):
        _refuse_missing(frame, given)
        given, name = column(given), f"column {given!r}"
    else:
        name = "the expression for the variance"
    kind = frame.select(given.alias(NOISY)).schema[NOISY].dataType
    if not isinstance(kind, NumericType):
        raise InputError(f"figures and variances are numbers; {name} is {kind.simpleString()}: cast it first")
    return given.cast("double")


def _refuse_missing(frame: "DataFrame", name: Any) -> None:
    if name not in frame.columns:
        close = get_close_matches(str(name), frame.columns, 1)
        hint = f"did you mean {close[0]!r}? " if close else ""
        raise InputError(f"there is no column {name!r}; {hint}the columns are {', '.join(frame.columns)}")


def _kept(columns: list[str], variance: Any, taken: set[str]) -> list[str]:
    """The names of the user's columns in the output; Spark does not tell capitals apart."""
    names = [KEPT_AS if isinstance(variance, str) and c == variance and c in taken else c for c in columns]
    plain = [name.casefold() for name in names]
    clash = next((n for n in names if n.casefold() in taken or plain.count(n.casefold()) > 1), None)
    if clash is not None:
        raise InputError(
            f"the frame already has a column {clash!r}, which the output would hold twice; rename it, or put "
            'something before the added names with prefix, as in prefix="denoised_"'
        )
    return names


def _type(frame: "DataFrame", name: str) -> str:
    return frame.schema[name].dataType.simpleString()
