"""pieces: the pieces of a cut forest, Arrow tables in and out: parts for the workers, the top for the driver."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from attributary.denoising import quantile
from attributary.denoising.denoise import denoise
from attributary.denoising.estimate import Estimate
from attributary.denoising.nonnegative import least, topdown
from attributary.denoising.passes import engine
from attributary.denoising.posterior import FamilyPrior, Posterior, whole_figures
from attributary.denoising.quantile import Outside
from attributary.denoising.whole import whole as round_off
from attributary.errors import InputError
from attributary.estimates import ADDED, FROM_PRIOR, ZERO, figures_of
from attributary.estimators import Estimator
from attributary.logs.spark import PART
from attributary.measurements import Measurements
from attributary.rmsre import TAU
from attributary.tree import Family, Tree
from attributary.tree.paths import RowError, describe
from attributary.types import Arrow, Bools, Cells, Floats, Record


class Handed(NamedTuple):
    """What a part knows of each of its roots, in level order."""

    z: Floats  # z⇑
    variance: Floats  # var⇑
    excess: Floats  # kurtosis of z⇑
    least: Floats  # count that the exact figures leave possible


NOISY, VARIANCE = "__noisy", "__variance"  # columns beside the user's
VERDICT = pa.schema([("refused", pa.string()), ("orphan", pa.string()), ("inner", pa.bool_())])  # on a part
HANDED = pa.schema(  # what it hands up of each of its roots
    [("part", pa.int32()), ("root", pa.int32()), ("has_row", pa.bool_()), *((n, pa.float64()) for n in Handed._fields)]
)
SAME = 1e-9  # how far z⇑ may be from what was handed up, relatively: another machine may round otherwise


class ClusterTask(NamedTuple):
    """The options that every piece is denoised by."""

    levels: list[str]
    cut: int  # the level whose nodes are the parts' roots
    given: list[str]  # the user's columns
    columns: list[str]  # what they are called in the output
    added: list[str]  # estimate, variance, low, high and correction
    estimator: Estimator = Estimator()
    shape: str = "laplace"
    fill: bool = False
    confidence: float = 0.95
    posterior: FamilyPrior | None = None  # what posterior means go by, if they are asked for
    tau: float = TAU
    worth: float = 1.0  # what a conversion brings on average

    @property
    def nonnegative(self) -> bool:
        """Whether no count is below 0; of a tree that is cut, family by family from the top down."""
        return self.estimator.name == "nonnegative"

    def cell(self, name: str) -> str:
        """The name of a user's column on its way to a worker: PySpark stumbles over dots."""
        return f"__{self.given.index(name)}"

    def named(self, rows: Arrow) -> Arrow:
        """An Arrow table that has come to its destination, its columns under their own names."""
        names = {self.cell(name): name for name in self.given}
        return rows.rename_columns([names.get(name, name) for name in rows.column_names])

    def denoised(self, tree: Tree, measured: Measurements) -> Estimate:
        """The estimate of a forest, or of whole trees of it."""
        known = {"tau": self.tau, "worth": self.worth, "families": self.posterior}
        return self.estimator.denoise(tree, measured, **known)

    def estimates(self, est: Estimate) -> Record:
        """The added columns, one cell for each node; there is no correction where nothing was measured."""
        figures = figures_of(est, self.confidence)
        values = [figures[name] for name in added_by(self.estimator)]
        return {name: pa.array(each, mask=np.isnan(each)) for name, each in zip(self.added, values, strict=True)}


def added_by(estimator: Estimator) -> tuple[str, ...]:
    """The columns that an estimator adds to a table."""
    if not estimator.uses_prior:
        return ADDED
    return (*ADDED, FROM_PRIOR, ZERO) if estimator.name == "posterior" else (*ADDED, FROM_PRIOR)


def label(level: int) -> str:
    """The name of a path's column where the user's might be in the way."""
    return f"__label_{level}"


# Parts: some nodes at the cut, and all below them.


@dataclass(frozen=True, eq=False)
class Part:
    """One worker's nodes; rows are sorted by path, so that it does not matter in which order they arrived."""

    rows: Arrow
    forest: Tree  # of whole paths; above the cut it has no rows
    tree: Tree  # from the cut downwards: its roots are the forest's nodes there
    measured: Measurements  # of the tree's nodes

    @classmethod
    def of(cls, task: ClusterTask, rows: Arrow) -> "Part":
        """The part that the rows of an Arrow table make; all of them have a label at the cut."""
        rows = _by_path(task.named(rows), task.levels)
        forest = _forest(rows, task.levels)
        tree = _below(forest, task.cut)
        x, var = np.full(len(tree), np.nan), np.full(len(tree), np.inf)
        x[: len(rows)], var[: len(rows)] = rows.column(NOISY).to_numpy(), rows.column(VARIANCE).to_numpy()
        return cls(rows, forest, tree, Measurements(x, var, task.shape, part=True))

    @property
    def has_row(self) -> Bools:
        """True for each node that has a row, in the tree's order."""
        return np.arange(len(self.tree)) < len(self.rows)

    def paths(self) -> Arrow:
        """The labels of the tree's nodes, in its order, as an Arrow table."""
        table, rows = self.forest.table().select(self.forest.attributes), len(self.rows)
        above = len(self.forest) - len(self.tree)
        return pa.concat_tables([table.slice(0, rows), table.slice(rows + above)])


def check(task: ClusterTask, rows: Arrow) -> Arrow:
    """What is wrong with a part that is to be denoised on its own, if anything: one row."""

    def work(part: Part) -> Record:
        if task.posterior:
            whole_figures(part.tree, part.measured)
        quick = Estimator() if task.estimator.kind.slow else task.estimator
        task._replace(estimator=quick, posterior=None).denoised(part.tree, part.measured)
        return {}

    return _answer(task, rows, work)


def learn_families(task: ClusterTask, rows: Arrow) -> FamilyPrior:
    """How families share, learned from the rows of some roots."""
    part = Part.of(task, rows)
    est = denoise(part.tree, part.measured, posterior=True)
    assert isinstance(est, Posterior)
    return FamilyPrior.of(est)


def hand_up_roots(task: ClusterTask, rows: Arrow) -> Arrow:
    """What the tree above the cut needs to know: a row for each root of the part, or one with what is wrong with it."""

    def work(part: Part) -> Record:
        handed = hand_up(part.tree, part.measured, task.nonnegative)
        place = np.arange(len(handed.z))
        node = place if part.tree.order is None else part.tree.order[: len(place)]
        labels = part.paths().take(node)
        paths = {label(i): _plain(labels.column(name)) for i, name in enumerate(task.levels[: task.cut + 1])}
        number = np.full(len(place), rows.column(PART)[0].as_py())
        return {**paths, "part": number, "root": place, "has_row": part.has_row[node], **handed._asdict()}

    schema = task.named(rows).schema
    labels = [pa.field(label(i), schema.field(name).type) for i, name in enumerate(task.levels[: task.cut + 1])]
    return _answer(task, rows, work, [*labels, *HANDED])


def finish(task: ClusterTask, rows: Arrow, above: Arrow | None = None) -> Arrow:
    """The part's rows with their estimates, and those of nodes without a row if they are to be filled.

    `above` is what is settled of the part's roots, where there is a tree above.
    """
    part = Part.of(task, rows)
    if above is None:
        est = task.denoised(part.tree, part.measured)
    else:
        above = above.sort_by("root")
        _refuse_other_figures(part, above.column("z").to_numpy())
        settled = Settled(*(above.column(name).to_numpy() for name in Settled._fields))
        est, _ = solve(part.tree, part.measured, task.nonnegative, task.estimator.whole, above=settled)
    table = part.rows.drop_columns([PART, NOISY, VARIANCE])
    if task.fill:
        more = part.paths().slice(len(part.rows))
        labels = {name: _plain(more.column(name)) for name in task.levels}
        cells = [labels.get(f.name, pa.nulls(len(more), f.type)).cast(f.type) for f in table.schema]
        table = pa.concat_tables([table, pa.table(cells, names=table.column_names)])
    table = table.rename_columns(task.columns)
    for name, values in task.estimates(est).items():
        table = table.append_column(name, values.slice(0, len(table)))
    return table


def _answer(task: ClusterTask, rows: Arrow, work: Callable[[Part], Record], columns: Sequence[pa.Field] = ()) -> Arrow:
    """The columns that the work gives, with a verdict; the user's mistakes are data, or Spark would try again."""
    schema = pa.schema([*columns, *VERDICT])
    try:
        part = Part.of(task, rows)
        answer = work(part)
    except ValueError as error:
        cells = [pa.array([str(error)] if f.name == "refused" else [None], f.type) for f in schema]
        return pa.table(cells, schema=schema)
    size = len(next(iter(answer.values()), [0]))
    orphan, inner = _gap(part.tree, part.has_row)
    answer |= {"refused": [None] * size, "orphan": [orphan] * size, "inner": [inner] * size}
    return pa.table(answer, schema=schema)


def _refuse_other_figures(part: Part, handed: Floats) -> None:
    """Figures drawn anew whenever a query runs would be denoised as if they were those that were handed up."""
    tree, x, var = part.tree, part.measured.noisy, part.measured.variance
    z, _ = engine(tree).upward(tree, tree.to_level_order(x), tree.to_level_order(var))
    size = np.abs(x[var < np.inf]).max(initial=0.0)
    if len(handed) != tree.slice(0).stop or (np.abs(z[tree.slice(0)] - handed) > SAME * size).any():
        raise InputError("the frame's figures changed while they were denoised; persist it, or write and read it first")


# The top: the tree above the cut, solved on one machine.


class Top(NamedTuple):
    nodes: Arrow  # label and estimate columns of each node above the cut; those that have a row come first
    settled: Arrow  # Arrow: what the parts need to know of their roots


def solve_top(task: ClusterTask, rows: Arrow, roots: Arrow) -> Top:
    """The estimates above the cut, from the rows there and from what the parts handed up."""
    rows = _by_path(task.named(rows), task.levels)
    roots = _by_path(roots, [label(i) for i in range(task.cut + 1)])
    no_label = {name: pa.nulls(len(roots), rows.schema.field(name).type) for name in task.levels[task.cut + 1 :]}
    labels = {name: roots.column(label(i)) for i, name in enumerate(task.levels[: task.cut + 1])}
    tree = _forest(pa.concat_tables([rows.select(task.levels), pa.table(labels | no_label)]), task.levels)
    own_row, handed = slice(0, len(rows)), slice(len(rows), len(rows) + len(roots))

    x, var, has_row = np.full(len(tree), np.nan), np.full(len(tree), np.inf), np.zeros(len(tree), bool)
    x[own_row], var[own_row], has_row[own_row] = rows.column(NOISY).to_numpy(), rows.column(VARIANCE).to_numpy(), True
    x[var == np.inf] = np.nan  # whatever their value: only what was handed up is known without being measured
    x[handed], var[handed] = roots.column("z").to_numpy(), roots.column("variance").to_numpy()
    has_row[handed] = roots.column("has_row").to_numpy()
    orphan, inner = _gap(tree, has_row)
    orphans, inners = (roots.column(name).unique().to_pylist() for name in ("orphan", "inner"))
    refuse_gaps(task, [orphan, *orphans], inner or any(inners))

    measured = Measurements(x, var, task.shape, part=True)
    excess, bound = measured.excess(), np.zeros(len(tree))
    excess[handed], bound[handed] = roots.column("excess").to_numpy(), roots.column("least").to_numpy()
    est, settled = solve(tree, measured, task.nonnegative, task.estimator.whole, of_noise=excess, leaves=bound)

    above = np.r_[own_row, handed.stop : len(tree)]
    shown = tree.table().select(task.levels[: task.cut]).take(above)
    nodes = {label(i): _plain(shown.columns[i]) for i in range(task.cut)}
    nodes |= {name: column.take(above) for name, column in task.estimates(est).items()}
    known = {name: pa.array(values[handed], pa.float64()) for name, values in settled._asdict().items()}
    return Top(pa.table(nodes), pa.table({**{n: roots.column(n) for n in ("part", "root", "z")}, **known}))


def refuse_gaps(task: ClusterTask, orphans: list[str | None], inner: bool) -> None:
    """Refuses nodes without a row where other inner nodes have theirs, unless they are to be filled."""
    gaps = sorted(name for name in orphans if name is not None)
    if gaps and inner and not task.fill:
        raise InputError(
            f"{gaps[0]} has no row for its parent, though other inner nodes have theirs; "
            "add the row, or let fill make nodes that were not measured"
        )


# Forests of rows.


def _plain(column: Cells) -> Cells:
    """A column of labels without its dictionary."""
    return column.cast(column.type.value_type)


def _by_path(rows: Arrow, levels: list[str]) -> Arrow:
    """The rows of an Arrow table sorted by path; labels repeat, so that sorting their ranks is faster."""
    ranks = []
    for name in levels:
        labels = pc.dictionary_encode(rows.column(name)).combine_chunks()
        order = pc.sort_indices(labels.dictionary).to_numpy()
        rank = np.full(len(order) + 1, -1)  # the last one is for null
        rank[order] = np.arange(len(order))
        ranks.append(rank[labels.indices.fill_null(-1).to_numpy()])
    return rows.take(np.lexsort(ranks[::-1]))


def _forest(rows: Arrow, levels: list[str]) -> Tree:
    """The forest of these rows, nodes without one added; mistakes are reported by path, since rows have no numbers."""
    try:
        return Tree.from_paths(rows, levels, fill=True, totals=None)
    except RowError as error:
        paths = list(zip(*(rows.column(name).to_pylist() for name in levels), strict=True))
        path = paths[error.row]
        depth = max((i + 1 for i, label in enumerate(path) if label is not None), default=0)
        name = describe(levels, list(path[:depth]))
        if paths.count(path) > 1:
            raise ValueError(f"a path has one row; {name} has {paths.count(path)}: combine them, or keep one") from None
        raise ValueError(f"{name}: {error.rule}") from None


def _gap(tree: Tree, has_row: Bools) -> tuple[str | None, bool]:
    """A node whose parent has no row, by name, if there is one; and whether any inner node has its row."""
    orphan = np.flatnonzero(has_row & (tree.parent >= 0) & ~has_row[tree.parent])
    return tree.name(int(orphan[0])) if len(orphan) else None, bool((has_row & ~tree.is_leaf).any())


@dataclass(frozen=True, eq=False, repr=False)
class Below(Tree):
    """A forest from some level downwards; nodes keep their whole names."""

    whole: Tree | None = None
    rows: int = 0  # that the forest was made of; its nodes without a row are numbered from there on

    def name(self, node: int) -> str:
        assert self.whole is not None
        return self.whole.name(node if node < self.rows else node + len(self.whole) - len(self))


def _below(forest: Tree, level: int) -> Tree:
    """The forest without the nodes above a level, none of which has a row."""
    if level == 0:
        return forest
    assert forest.order is not None  # it begins with a node that has no row
    above, rows = int(forest.offsets[level]), int(forest.order[0])
    order = forest.order[above:] - above * (forest.order[above:] >= rows)
    family = np.maximum(forest.family[above:] - above, -1)
    parent = np.empty(len(order), np.int32)
    parent[order] = np.where(family < 0, -1, order[family])
    first = forest.first[above:] - np.uint32(above)
    return Below(parent, first, forest.offsets[level:] - above, order, whole=forest, rows=rows)


# Algorithm 2 on a forest in pieces: the parts below a cut, and the tree above it.
#
# Each part hands up z⇑ and var⇑ of its nodes at the cut. To the tree above, they are measurements of its leaves. Once
# that is solved, the parts finish downwards from x̂ and v̂ar at the cut. Nothing else has to pass the cut, since a
# subtree depends on the rest of the tree only through the count of its root; non-negative counts, whole numbers and
# the shape of the noise are passed on in the same way.


class Settled(NamedTuple):
    """What the tree above a cut knows of the nodes there."""

    blue: Floats
    variance: Floats
    real: Floats  # blue, or non-negative
    whole: Floats  # real, or whole
    around: Floats  # var↓
    excess: Floats  # kurtosis of z↓


@dataclass(frozen=True, eq=False, repr=False)
class Piece(Estimate):
    """An estimate of a tree that was cut, where the shape of the noise depends on what is beyond the cut."""

    excess: Floats = field(default_factory=lambda: np.empty(0))

    @property
    def _excess(self) -> Floats:
        return np.maximum(self.excess, 0.0)


def hand_up(tree: Tree, measured: Measurements, nonnegative: bool) -> Handed:
    """What the tree above a cut needs to know about the roots below it; invalid figures are refused."""
    x, var, of_noise = (tree.to_level_order(a) for a in (measured.noisy, measured.variance, measured.excess()))
    z, v = engine(tree).upward(tree, x, var)
    e_up = quantile.upward(tree, var, of_noise, v)
    bound = least(tree, x, var) if nonnegative else None
    roots = tree.slice(0)
    return Handed(z[roots], v[roots], e_up[roots], np.zeros(roots.stop) if bound is None else bound[roots])


def solve(
    tree: Tree,
    measured: Measurements,
    nonnegative: bool,
    whole: bool,
    *,
    above: Settled | None = None,
    of_noise: Floats | None = None,
    leaves: Floats | None = None,
) -> tuple[Estimate, Settled]:
    """The estimate of a piece ("top-down", if it is to be non-negative), and what is settled, in the tree's order.

    `above` is what is settled of the roots, in level order. Where leaves stand for the parts below them, `of_noise` is
    the excess kurtosis of each figure and `leaves` the least count of each leaf, in the tree's order.
    """
    passes, roots, back = engine(tree), tree.slice(0), tree.from_level_order
    of_noise = measured.excess() if of_noise is None else of_noise
    x, var, of_noise = (tree.to_level_order(a) for a in (measured.noisy, measured.variance, of_noise))
    blue, variance = passes.upward(tree, x, var)
    if leaves is not None:
        _add_unmeasured(tree, x, blue, variance)
    beyond = None if above is None else Outside(above.around, above.excess)
    e_up = quantile.upward(tree, var, of_noise, variance)
    excess, outside = quantile.downward(tree, var, of_noise, variance, e_up, beyond)
    if above is not None:
        blue[roots], variance[roots] = above.blue, above.variance
    passes.downward(tree, blue, variance)

    real: Floats = blue
    if nonnegative:
        bound = least(tree, x, var, 0.0 if leaves is None else tree.to_level_order(leaves))
        real = topdown(tree, x, var, blue if above is None else _with(above.real, blue), bound)
    rounded: Any = real
    if whole:
        start = real if above is None else _with(above.whole, real)
        rounded = round_off(tree, start, floor=0 if nonnegative else None)
    plain = back(blue)
    count = plain if rounded is blue else back(rounded)
    settled = Settled(*(back(a) for a in (blue, variance, real, rounded, *outside)))
    return Piece(tree, measured, count, settled.variance, plain, nonnegative, back(excess)), settled


def _add_unmeasured(tree: Tree, x: Floats, z: Floats, v: Floats) -> None:
    """Adds to z⇑ what leaves with var⇑ = ∞ know all the same: the sum of the figures measured below them."""
    more = np.where((v == np.inf) & tree.in_level_order.is_leaf, np.nan_to_num(x), 0.0)
    for level in reversed(range(tree.depth - 1)):
        family = Family(tree, level)
        if family.size:
            more[family.parent] = np.where(v[family.parent] == np.inf, family.sum(more[family.children]), 0.0)
    z += more


def _with(roots: Floats, values: Floats) -> Floats:
    return np.concatenate([roots, values[len(roots) :]])
