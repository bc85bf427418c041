"""top: the tree above a cut, solved on one machine."""

from typing import Any, NamedTuple

import numpy as np

from attributary.denoising.cluster.cut import solve
from attributary.denoising.cluster.worker import (
    NOISY,
    VARIANCE,
    ClusterTask,
    by_path,
    estimates,
    gap,
    label,
    named,
    plain,
    read_forest,
)
from attributary.errors import InputError
from attributary.measurements import Measurements


class Top(NamedTuple):
    nodes: Any  # Arrow: label and estimate columns of each node above the cut; those that have a row come first
    rows: int  # how many have one
    settled: Any  # Arrow: what the parts need to know of their roots


def solve_top(task: ClusterTask, rows: Any, roots: Any) -> Top:
    """The estimates above the cut, from the rows there and from what the parts handed up."""
    import pyarrow as pa

    rows = by_path(named(task, rows), task.levels)
    roots = by_path(roots, [label(i) for i in range(task.cut + 1)])
    tree = read_forest(pa.concat_tables([rows.select(task.levels), _paths(task, roots, rows.schema)]), task.levels)
    own_row, handed = slice(0, len(rows)), slice(len(rows), len(rows) + len(roots))

    x, var, has_row = np.full(len(tree), np.nan), np.full(len(tree), np.inf), np.zeros(len(tree), bool)
    x[own_row], var[own_row], has_row[own_row] = rows.column(NOISY).to_numpy(), rows.column(VARIANCE).to_numpy(), True
    x[var == np.inf] = np.nan  # whatever their value: only what was handed up is known without being measured
    x[handed], var[handed] = roots.column("z").to_numpy(), roots.column("variance").to_numpy()
    has_row[handed] = roots.column("has_row").to_numpy()
    orphan, inner = gap(tree, has_row)
    orphans, inners = (roots.column(name).unique().to_pylist() for name in ("orphan", "inner"))
    refuse_gaps(task, [orphan, *orphans], inner or any(inners))

    measured = Measurements(x, var, task.shape, part=True)
    excess, least = measured.excess(), np.zeros(len(tree))
    excess[handed], least[handed] = roots.column("excess").to_numpy(), roots.column("least").to_numpy()
    est, settled = solve(tree, measured, bool(task.nonnegative), task.whole, of_noise=excess, leaves=least)

    above = np.r_[own_row, handed.stop : len(tree)]
    labels = tree.table().select(task.levels[: task.cut]).take(above)
    nodes = {label(i): plain(labels.column(i)) for i in range(task.cut)}
    nodes |= {name: column.take(above) for name, column in estimates(task, est).items()}
    known = {name: pa.array(values[handed], pa.float64()) for name, values in settled._asdict().items()}
    return Top(pa.table(nodes), len(rows), pa.table({**{n: roots.column(n) for n in ("part", "root", "z")}, **known}))


def refuse_gaps(task: ClusterTask, orphans: list[str | None], inner: bool) -> None:
    """Refuses nodes without a row where other inner nodes have theirs, unless they are to be filled."""
    gaps = sorted(name for name in orphans if name is not None)
    if gaps and inner and not task.fill:
        raise InputError(
            f"{gaps[0]} has no row for its parent, though other inner nodes have theirs; "
            "add the row, or let fill make nodes that were not measured"
        )


def _paths(task: ClusterTask, roots: Any, schema: Any) -> Any:
    """The roots' paths under the names of the levels."""
    import pyarrow as pa

    columns = [
        roots.column(label(i)) if i <= task.cut else pa.nulls(len(roots), schema.field(name).type)
        for i, name in enumerate(task.levels)
    ]
    return pa.table(columns, names=task.levels)
