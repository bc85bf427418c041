"""denoise_spark: Algorithm 2 on a cluster, for forests beyond one machine's memory.

Trees are dealt to the workers, and each worker denoises its part by the same code as one machine. Trees too large for
a worker are cut (pieces.py): the workers hand up what they know of the nodes at the cut, the driver solves the tree
above it, and the workers finish downwards.
"""

from collections.abc import Sequence
from functools import reduce
from math import ceil
from operator import and_
from typing import TYPE_CHECKING, Literal

import numpy as np
import pyarrow as pa

from attributary.denoising.cluster.pieces import (
    HANDED,
    NOISY,
    VARIANCE,
    VERDICT,
    ClusterTask,
    Top,
    added_by,
    check,
    finish,
    hand_up_roots,
    label,
    learn_families,
    refuse_gaps,
    solve_top,
)
from attributary.denoising.denoise import method_of
from attributary.denoising.posterior import FamilyPrior
from attributary.errors import InputError, did_you_mean
from attributary.estimators import Estimator
from attributary.logs.spark import PART, any_pandas, named_column, of_parts
from attributary.measurements import Measurements
from attributary.rmsre import TAU
from attributary.tables.as_written import MEASURED

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructType

KEPT_AS = MEASURED[1]  # what the user's variance column is called where its name is taken
SAMPLE = 50_000  # nodes that the prior of a posterior is learned from, about
LARGEST = 2_000_000  # nodes of a subtree that one worker gets
NODES = 250_000  # of a part, about; the number of parts hangs on nothing else, so that the same frame gives the same


def denoise_spark(
    frame: "DataFrame",
    levels: Sequence[str],
    value: str,
    variance: "str | float | Column",
    *,
    cut: str | None = None,
    nonnegative: Literal["top-down", "joint"] | bool | None = None,
    posterior: bool = False,
    whole: bool = False,
    estimator: Estimator | str | None = None,
    tau: float = TAU,
    worth: float = 1.0,
    shape: str = "laplace",
    fill: bool = False,
    confidence: float = 0.95,
    prefix: str = "",
) -> "DataFrame":
    """The rows of a Spark frame with five more columns: estimate, variance, low, high and correction.

    With `posterior`, they are posterior means of whole counts, and from_prior and zero_probability are two more. How
    families share is learned by the driver, from the largest tree and others of about 50,000 nodes. An `estimator` is
    one of the registry, in place of these words; "learned" learns from the roots of a part, of about 250,000 nodes, by
    the `tau` and the `worth` of a conversion.

    The frame has one row per node, null in the `levels` below the node's own, or one row per leaf. `variance` is a
    column, a number or a Spark expression. Every tree goes to one worker as a whole, unless `cut` names a level: then
    the subtrees of that level's nodes do, and the driver collects what is above them. Where a tree has more than
    2,000,000 nodes, the cut is chosen for estimators that can be cut. Mistakes are found at once; estimates are
    computed when they are asked for. The frame is read several times: persist one that is costly.
    """
    from pyspark.sql import functions as sf

    names = _levels(frame, levels)
    if cut is not None and cut not in names:
        raise InputError(f"a cut is one of the levels {', '.join(names)}; got {cut!r}")
    if not 0 < confidence < 1:
        raise InputError(f"the confidence is between 0 and 1; got {confidence}")
    try:
        method, _ = method_of(nonnegative), Measurements(np.empty(0), np.empty(0), shape)
    except ValueError as error:
        raise InputError(str(error)) from None
    if estimator is None:
        name = "posterior" if posterior else "nonnegative" if method else "unbiased"
        estimator = Estimator(name, method == "joint" and not posterior, whole)
    elif posterior or method or whole:
        raise InputError("an `estimator` says how; leave out nonnegative, posterior and whole")
    chosen = Estimator(estimator) if isinstance(estimator, str) else estimator
    added = [prefix + name for name in added_by(chosen)]
    columns = _kept(frame.columns, variance, {name.casefold() for name in added})
    cut_at = names.index(cut or names[0])
    task = ClusterTask(names, cut_at, frame.columns, columns, added, chosen, shape, fill, confidence, None, tau, worth)
    rows = _figures(frame, task, value, variance)
    if cut is None and chosen.kind.batched and not chosen.joint:
        task = task._replace(cut=_cut(rows, task))
    at_cut = named_column(task.cell(task.levels[task.cut]))
    nodes, above = rows.agg(sf.count(sf.lit(1)), sf.count(sf.when(at_cut.isNull(), 1))).collect()[0]
    if nodes == 0:
        raise InputError("a tree needs at least one row; the frame is empty")
    whole_trees = {"posterior": "posterior means need", "learned": "learned shares need"}.get(chosen.name)
    whole_trees = "joint least squares needs" if chosen.joint else whole_trees
    if whole_trees and (above or task.cut or (posterior and method == "joint")):
        raise InputError(f"{whole_trees} whole trees on one worker; leave out the cut, the total and joint")
    if chosen.name == "posterior":
        task = task._replace(posterior=_learned(rows, task, nodes))
    root = sf.xxhash64(*(task.cell(name) for name in task.levels[: task.cut + 1]))  # whose nodes share a part
    part = sf.pmod(root, sf.lit(ceil(nodes / NODES))).cast("int")
    parts = rows.where(at_cut.isNotNull()).withColumn(PART, part)
    if above == 0 and task.cut == 0:
        _check(parts, task)
        return of_parts(parts, lambda part: finish(task, part), _finished(frame, task))
    over = rows.where(at_cut.isNull())
    top = _solved(over, parts, task)
    return _below(parts, top, frame, task).unionByName(_above(over, top, frame, task))


def _cut(rows: "DataFrame", task: ClusterTask) -> int:
    """The level whose subtrees the workers get: the first of those with no subtree above LARGEST, or the last."""
    from pyspark.sql import functions as sf

    for level in range(len(task.levels) - 1):
        path = [named_column(task.cell(name)) for name in task.levels[: level + 1]]
        size = rows.where(path[-1].isNotNull()).groupBy(*path).count().agg(sf.max("count")).collect()[0][0]
        if size is None or size <= LARGEST:
            return level
    return len(task.levels) - 1


def _learned(rows: "DataFrame", task: ClusterTask, nodes: int) -> FamilyPrior:
    """How families share, from the largest of the trees and others, of about SAMPLE nodes (as in `whole_counts`)."""
    from pyspark.sql import functions as sf

    slim, root = _slim(rows, task), named_column(task.cell(task.levels[0]))
    largest = slim.groupBy(root).count().orderBy(sf.desc("count"), root).first()
    assert largest is not None
    drawn = sf.pmod(sf.xxhash64(sf.lit("sample"), root), sf.lit(ceil(nodes / SAMPLE))) == 0
    try:
        return learn_families(task, slim.where(drawn | root.eqNullSafe(largest[0])).toArrow())
    except ValueError as error:
        raise InputError(str(error)) from None


def _check(parts: "DataFrame", task: ClusterTask) -> None:
    from pyspark.sql import functions as sf

    verdicts = of_parts(_slim(parts, task), lambda part: check(task, part), VERDICT)
    refused, orphan, inner = verdicts.agg(sf.min("refused"), sf.min("orphan"), sf.max("inner")).collect()[0]
    if refused is not None:
        raise InputError(refused)
    refuse_gaps(task, [orphan], inner)


def _solved(over: "DataFrame", parts: "DataFrame", task: ClusterTask) -> Top:
    """The tree above the cut, solved by the driver."""
    from pyspark.sql.pandas.types import from_arrow_schema

    labels = [(label(i), parts.schema[task.cell(name)].dataType) for i, name in enumerate(task.levels[: task.cut + 1])]
    handed = from_arrow_schema(pa.schema([*HANDED, *VERDICT]))
    schema = _struct([*labels, *((field.name, field.dataType) for field in handed)])
    roots = of_parts(_slim(parts, task), lambda part: hand_up_roots(task, part), schema).toArrow()
    refused = sorted(filter(None, roots.column("refused").unique().to_pylist()))
    if refused:
        raise InputError(refused[0])
    try:
        return solve_top(task, _slim(over, task).toArrow(), roots)
    except ValueError as error:
        raise InputError(str(error)) from None


def _below(parts: "DataFrame", top: Top, frame: "DataFrame", task: ClusterTask) -> "DataFrame":
    """The rows below the cut with their estimates."""
    settled = frame.sparkSession.createDataFrame(top.settled)
    with any_pandas():
        both = parts.groupBy(PART).cogroup(settled.groupBy("part"))
        return both.applyInArrow(lambda part, above: finish(task, part, above), _finished(frame, task))


def _above(over: "DataFrame", top: Top, frame: "DataFrame", task: ClusterTask) -> "DataFrame":
    """The rows above the cut with their estimates, and those nodes that had none if they are to be filled."""
    from pyspark.sql import functions as sf

    labels = {name: label(i) for i, name in enumerate(task.levels[: task.cut])}
    kinds = [(new, frame.schema[name].dataType) for name, new in labels.items()]
    nodes = frame.sparkSession.createDataFrame(top.nodes, _struct([*kinds, *_added(task)]))
    user = over.drop(NOISY, VARIANCE).toDF(*task.columns)
    same = reduce(
        and_, (named_column(name).eqNullSafe(named_column(new)) for name, new in labels.items()), sf.lit(True)
    )
    both = nodes.join(user, same, "left" if task.fill else "inner")
    return both.select(*(named_column(labels.get(c, c)).alias(c) for c in task.columns), *map(named_column, task.added))


def _slim(rows: "DataFrame", task: ClusterTask) -> "DataFrame":
    return rows.drop(*(task.cell(name) for name in task.given if name not in task.levels))


def _finished(frame: "DataFrame", task: ClusterTask) -> "StructType":
    kept = [(name, field.dataType) for name, field in zip(task.columns, frame.schema.fields, strict=True)]
    return _struct([*kept, *_added(task)])


def _added(task: ClusterTask) -> list[tuple[str, str]]:
    return [(name, "long" if task.estimator.whole and i == 0 else "double") for i, name in enumerate(task.added)]


def _struct(fields: Sequence[tuple[str, "str | DataType"]]) -> "StructType":
    from pyspark.sql.types import StructType

    return reduce(lambda struct, field: struct.add(*field), fields, StructType())


# The frame and the options, checked at the door.


def _levels(frame: "DataFrame", levels: Sequence[str]) -> list[str]:
    """The levels' columns; those that there are not, and those without labels, are refused."""
    names = list(levels)
    if not names or len(set(names)) < len(names):
        raise InputError(f"levels are one column or more, named once each; got {', '.join(names) or 'none'}")
    for name in names:
        _refuse_missing(frame, name)
        if frame.schema[name].dataType.typeName() in ("array", "map", "struct", "binary", "variant"):
            raise InputError(
                f"labels are text, numbers or dates; column {name!r} is {frame.schema[name].dataType.simpleString()}"
            )
    return names


def _figures(frame: "DataFrame", task: ClusterTask, value: str, variance: "str | float | Column") -> "DataFrame":
    """The user's columns, renamed for the way, and beside them the figures and their variances as numbers."""
    from pyspark.sql import functions as sf

    if isinstance(variance, int | float):
        if not variance >= 0:
            raise InputError(f"a variance is 0 or more, or inf for a node not measured; got {variance}")
        spread = sf.lit(float(variance))
    else:
        spread = _number(frame, variance)
    both = frame.select("*", _number(frame, value).alias(NOISY), spread.alias(VARIANCE))
    return both.toDF(*(task.cell(name) for name in task.given), NOISY, VARIANCE)


def _number(frame: "DataFrame", given: "str | Column") -> "Column":
    from pyspark.sql.types import NumericType

    if isinstance(given, str):
        _refuse_missing(frame, given)
        given, name = named_column(given), f"column {given!r}"
    else:
        name = "the expression for the variance"
    kind = frame.select(given.alias(NOISY)).schema[NOISY].dataType
    if not isinstance(kind, NumericType):
        raise InputError(f"figures and variances are numbers; {name} is {kind.simpleString()}: cast it first")
    return given.cast("double")


def _refuse_missing(frame: "DataFrame", name: object) -> None:
    if name not in frame.columns:
        hint = did_you_mean(str(name), frame.columns)
        raise InputError(f"there is no column {name!r}; {hint}the columns are {', '.join(frame.columns)}")


def _kept(columns: list[str], variance: object, taken: set[str]) -> list[str]:
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
