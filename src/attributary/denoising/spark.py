"""denoise_spark: Algorithm 2 on a cluster, for forests beyond one machine's memory.

Trees are dealt to the workers, and each worker denoises its part by the same code as one machine. Trees too large for
a worker are cut (cut.py): the workers hand up what they know of the nodes at the cut, the driver solves the tree above
it, and the workers finish downwards.
"""

from collections.abc import Callable, Sequence
from functools import reduce
from math import ceil
from operator import and_
from typing import TYPE_CHECKING, Any, Literal

from attributary.denoising.cut import Handed
from attributary.denoising.frame import asked, column, figures
from attributary.denoising.top import Top, refuse_gaps, solve_top
from attributary.denoising.worker import NOISY, PART, VARIANCE, Task, cell, check, finish, hand_up_roots, label
from attributary.errors import InputError
from attributary.logs.session import any_pandas

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

VERDICT = (("refused", "string"), ("orphan", "string"), ("inner", "boolean"))
NODES = 250_000  # of a part, about; the number of parts hangs on nothing else, so that the same frame gives the same


def denoise_spark(
    frame: "DataFrame",
    levels: Sequence[str],
    value: str,
    variance: "str | float | Column",
    *,
    cut: str | None = None,
    nonnegative: Literal["top-down", "joint"] | bool | None = None,
    whole: bool = False,
    shape: str = "laplace",
    fill: bool = False,
    confidence: float = 0.95,
    prefix: str = "",
) -> "DataFrame":
    """The rows of a Spark frame with five more columns: estimate, variance, low, high and correction.

    The frame has one row per node, null in the `levels` below the node's own, or one row per leaf. `variance` is a
    column, a number or a Spark expression. Every tree goes to one worker as a whole, unless `cut` names a level: then
    the subtrees of that level's nodes do, and the driver collects what is above them. Mistakes are found at once;
    estimates are computed when they are asked for. The frame is read several times: persist one that is costly.
    """
    task = asked(
        frame,
        levels,
        variance,
        cut,
        nonnegative=nonnegative,
        whole=whole,
        shape=shape,
        fill=fill,
        confidence=confidence,
        prefix=prefix,
    )
    rows = figures(frame, task, value, variance)
    nodes, above = _counted(rows, task)
    if nodes == 0:
        raise InputError("a tree needs at least one row; the frame is empty")
    at_cut = column(cell(task, task.levels[task.cut]))
    parts = _dealt(rows.where(at_cut.isNotNull()), task, ceil(nodes / NODES))
    if above == 0 and task.cut == 0:
        _check(parts, task)
        return _grouped(parts, lambda part: finish(task, part), _finished(frame, task))
    if task.nonnegative == "joint":
        raise InputError(
            "joint least squares needs a whole tree on one worker; leave out the cut and the total, or choose top-down"
        )
    over = rows.where(at_cut.isNull())
    top = _solved(over, parts, task)
    return _below(parts, top, frame, task).unionByName(_above(over, top, frame, task))


def _counted(rows: "DataFrame", task: Task) -> tuple[int, int]:
    """How many rows there are, and how many of them above the cut."""
    from pyspark.sql import functions as sf

    above = sf.when(column(cell(task, task.levels[task.cut])).isNull(), 1)
    return tuple(rows.agg(sf.count(sf.lit(1)), sf.count(above)).collect()[0])


def _dealt(rows: "DataFrame", task: Task, parts: int) -> "DataFrame":
    """The rows below the cut with the number of their part, which all nodes below a root share."""
    from pyspark.sql import functions as sf

    root = sf.xxhash64(*(cell(task, name) for name in task.levels[: task.cut + 1]))
    return rows.withColumn(PART, sf.pmod(root, sf.lit(parts)).cast("int"))


def _check(parts: "DataFrame", task: Task) -> None:
    """Refuses what a worker would."""
    from pyspark.sql import functions as sf

    told = _grouped(_slim(parts, task), lambda part: check(task, part), _struct(VERDICT))
    refused, orphan, inner = told.agg(sf.min("refused"), sf.min("orphan"), sf.max("inner")).collect()[0]
    if refused is not None:
        raise InputError(refused)
    refuse_gaps(task, [orphan], inner)


def _solved(over: "DataFrame", parts: "DataFrame", task: Task) -> Top:
    """The tree above the cut, solved by the driver."""
    labels = [(label(i), parts.schema[cell(task, name)].dataType) for i, name in enumerate(task.levels[: task.cut + 1])]
    handed = [
        ("part", "integer"),
        ("root", "integer"),
        ("has_row", "boolean"),
        *((name, "double") for name in Handed._fields),
    ]
    schema = _struct([*labels, *handed, *VERDICT])
    roots = _grouped(_slim(parts, task), lambda part: hand_up_roots(task, part), schema).toArrow()
    refused = sorted(filter(None, roots.column("refused").unique().to_pylist()))
    if refused:
        raise InputError(refused[0])
    try:
        return solve_top(task, _slim(over, task).toArrow(), roots)
    except ValueError as error:
        raise InputError(str(error)) from None


def _below(parts: "DataFrame", top: Top, frame: "DataFrame", task: Task) -> "DataFrame":
    """The rows below the cut with their estimates."""
    settled = frame.sparkSession.createDataFrame(top.settled)
    with any_pandas():
        both = parts.groupBy(PART).cogroup(settled.groupBy("part"))
        return both.applyInArrow(lambda part, above: finish(task, part, above), _finished(frame, task))


def _above(over: "DataFrame", top: Top, frame: "DataFrame", task: Task) -> "DataFrame":
    """The rows above the cut with their estimates, and those nodes that had none if they are to be filled."""
    from pyspark.sql import functions as sf

    labels = {name: label(i) for i, name in enumerate(task.levels[: task.cut])}
    kinds = [(new, frame.schema[name].dataType) for name, new in labels.items()]
    nodes = frame.sparkSession.createDataFrame(top.nodes, _struct([*kinds, *_added(task)]))
    user = over.drop(NOISY, VARIANCE).toDF(*task.columns)
    same = reduce(and_, (column(name).eqNullSafe(column(new)) for name, new in labels.items()), sf.lit(True))
    both = nodes.join(user, same, "left" if task.fill else "inner")
    return both.select(*(column(labels.get(c, c)).alias(c) for c in task.columns), *map(column, task.added))


def _grouped(parts: "DataFrame", work: Callable[[Any], Any], schema: "StructType") -> "DataFrame":
    with any_pandas():
        return parts.groupBy(PART).applyInArrow(work, schema)


def _slim(rows: "DataFrame", task: Task) -> "DataFrame":
    """Without the user's other columns."""
    return rows.drop(*(cell(task, name) for name in task.given if name not in task.levels))


def _finished(frame: "DataFrame", task: Task) -> "StructType":
    kept = [(name, field.dataType) for name, field in zip(task.columns, frame.schema.fields, strict=True)]
    return _struct([*kept, *_added(task)])


def _added(task: Task) -> list[tuple[str, Any]]:
    return [(name, "long" if task.whole and i == 0 else "double") for i, name in enumerate(task.added)]


def _struct(fields: Sequence[tuple[str, Any]]) -> "StructType":
    from pyspark.sql.types import StructType

    return reduce(lambda struct, field: struct.add(*field), fields, StructType())
