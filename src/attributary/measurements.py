"""Measurements: a noisy value and its variance for each node, from wherever they come."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attributary.noise import Entropy, NoiseShape, RandomisedResponse, shape_of
from attributary.noise.blocks import BlockEntropy
from attributary.tables.table_columns import SEEDED, arrow_table, together
from attributary.tree import Tree
from attributary.types import Bools, Floats, Frame, Ints, Record

if TYPE_CHECKING:
    from attributary.plan import Plan

Codes = NDArray[np.uint8]
FamilyFigures = tuple[Ints, Ints, tuple[Floats, Floats]]  # parents, children, figures and (co)variances
UNLIKELY = 1e-3  # that noise makes any figure of a table look negative that is not
LARGEST_FAMILY = 64  # states whose covariance is kept; those of more are of order 1/√k, and left out

BY_CHANCE = 1e-8  # that two reports are so alike


@dataclass(frozen=True, eq=False)
class Measurements:
    """Noisy values and variances, one per node; or many columns of values, of shape (nodes, columns).

    The columns have variances of that shape, too, or share those of one column. `names` names them.

    A variance of inf means not measured, of 0 known exactly. `shape` is the noise's: "laplace" (also discrete
    Laplace that was scaled down, as the API's), "dlap" (discrete Laplace on whole counts) or "normal". Where nodes have
    noise of different shapes, it names them all, and `code` says for each node which of them it has. Noise is
    independent, except within `families`, whose variances are in `variance`, too.
    """

    noisy: Floats
    variance: Floats
    shape: str | tuple[str, ...] = "laplace"
    not_private: str = ""  # why what is made of them is not private, if it is not
    code: Codes | None = None
    tree: Tree | None = None  # whose nodes they are of, where that is known: then denoise(measurements) is enough
    names: tuple[str, ...] = ()  # of the columns, where there are many and they have names
    freedom: Floats | None = None  # degrees of freedom of the estimates' variances, where the noise was estimated
    frame: Frame = field(default=None, repr=False)  # the user's table that they are from: row i is node i
    families: "tuple[FamilyCovariance, ...]" = ()  # of leaves, whose noise is correlated
    part: bool = False  # of a larger tree, whose other figures are not known: what was not measured has no bounds

    def __post_init__(self) -> None:
        shapes = self.shapes
        if self.code is None and len(shapes) != 1:
            raise ValueError(f"several shapes need a code for each node; got {', '.join(s.name for s in shapes)}")
        if self.code is not None and not (
            np.shape(self.code) == np.shape(self.noisy)[:1] and bool((self.code < len(shapes)).all())
        ):
            raise ValueError(f"codes are numbers below {len(shapes)}, the number of shapes, one for each node")
        if np.shape(self.variance) not in (np.shape(self.noisy), np.shape(self.noisy)[:1]):
            raise ValueError(
                f"noisy values and variances go in pairs; got {np.size(self.noisy)} and {np.size(self.variance)}"
            )

    @classmethod
    def of(
        cls,
        tree: Tree,
        noisy: ArrayLike,
        variance: ArrayLike,
        shape: str | tuple[str, ...] = "laplace",
        not_private: str = "",
        code: Codes | None = None,
    ) -> Self:
        """The measurements of a tree's nodes, in one column or many; one number as variance holds for all of them."""
        x, var = _numbers(noisy, "noisy values"), _numbers(variance, "variances")
        var = np.full(len(tree), float(var)) if var.ndim == 0 else var
        for name, values in (("noisy value", x), ("variance", var)):
            if values.shape != (len(tree),) and (x.ndim != 2 or values.shape != (len(tree), max(x.shape[1], 1))):
                raise ValueError(f"one {name} for each of the {len(tree)} nodes is needed; got shape {values.shape}")
        return cls(x, var, shape, not_private, code, tree)

    @classmethod
    def from_table(
        cls,
        frame: Frame,
        levels: Sequence[str] | None = None,
        value: str | Sequence[str] | None = None,
        *,
        variance: str | float | Sequence[float] | Sequence[str] | None = None,
        std: str | float | Sequence[float] | Sequence[str] | None = None,
        noise: str | None = None,
        fill: bool = False,
        totals: Collection[str] = (),
        no_totals: bool = False,
        **form: object,
    ) -> "Measurements":
        """What a table of noisy figures says of the tree that its rows name; denoise(measurements) does the rest.

        The frame (Arrow, pandas, polars, a DuckDB relation or a dict of columns) has one row per node, empty in the
        `levels` below the node's own, or one row per leaf; `fill` adds nodes without a row. The noise is given in one
        way: by `variance` or `std`, each a column, a number or a number per level, or by `noise`, as in
        "laplace:scale=3", "api:epsilon=4,contribution=32768" or "estimated" (a shape's name alone, such as "normal",
        goes with `variance`). `totals` are labels that mark totals; with `no_totals`, labels such as ALL are ordinary
        ones. Several columns of figures are given as a list; `variance` or `std` may then list a column for each, or
        what each has: std=[[8.5], [566]] is a number per column, std=[[3, 2], [9, 4]] one per column and level.
        `denoise(…).frame()` is the frame with the estimates beside its own columns. Levels and value that are not given
        are recognised where only one reading fits; `form` are further options of `recognise`, such as suppressed=["<5"]
        and decimal=",".
        """
        from attributary.pipeline.node_rows import figure_rows

        how = {"noise": noise, "fill": fill, "totals": totals, "no_totals": no_totals, **form}
        each = figure_rows(table := arrow_table(frame), levels, value, variance=variance, std=std, **how)
        if len(each) == 1:
            rows = each[0]
            if rows.form.margin is not None and rows.form.pivot is None:
                by = rows.form.margin.levels[0]
                raise ValueError(f"totals by {by} are a second breakdown: denoise_table takes both; or leave them out")
            same = rows.form.table.num_rows == table.num_rows  # a pivot has become another table
            return replace(rows.measured, frame=frame if same else rows.form.table)
        return replace(
            _beside([one.measured for one in each]), names=tuple(one.form.value for one in each), frame=frame
        )

    @classmethod
    def from_summary(
        cls, plan: "Plan", summary: str | Sequence[str], tree: Tree, *, measure: str | None = None
    ) -> "Measurements":
        """What summary reports say of the nodes that were queried; of several measures, name one.

        `summary` is a file or a folder, or several of them: reports of different conversions, which add up.
        """
        from attributary import api

        files = [summary] if isinstance(summary, str) else list(summary)
        measures = api.answer(plan, files, tree).measures
        name = plan.of_measure(measure).measure.name
        return replace(measures[name], tree=tree)

    @classmethod
    def from_responses(
        cls,
        tree: Tree,
        responses: ArrayLike,
        response: RandomisedResponse,
        *,
        people: ArrayLike | None = None,
        expected: ArrayLike | None = None,
    ) -> "Measurements":
        """What randomised responses say of a tree whose leaves are states, and whose parents of leaves are groups.

        `responses` has the number of responses in each leaf, `people` the number of people in each group, both for all
        nodes in the tree's order, of which others are passed over. Without `people`, each group has all states as
        leaves. Variances depend on the true counts: on those `expected`, as an estimate gives them, else on figures.
        """
        number = _of_nodes(tree, responses, "responses")
        plug = None if expected is None else _of_nodes(tree, expected, "expected counts")
        people_of = None if people is None else _of_nodes(tree, people, "people")
        blocks: list[FamilyFigures] = []
        for parent, nodes in leaf_families(tree):
            size = nodes.shape[1]
            if size > response.states or (people_of is None and size < response.states):
                raise ValueError(
                    f"{tree.name(int(parent[0]))} has {size} leaves, and there are {response.states} states; "
                    "leaves are states, and if not all of them are there, give people"
                )
            n = number[nodes].sum(axis=1) if people_of is None else people_of[parent]
            likely = None if plug is None else plug[nodes]
            blocks.append((parent, nodes, response.state_figures(n, number[nodes], likely, size <= LARGEST_FAMILY)))
        return cls.of_families(tree, blocks)

    @classmethod
    def of_families(cls, tree: Tree, blocks: Iterable[FamilyFigures]) -> "Measurements":
        """Figures of families of leaves with their covariances, or their variances alone; the noise is normal."""
        noisy, variance, families = np.zeros(len(tree)), np.full(len(tree), np.inf), []
        for parent, nodes, (value, spread) in blocks:
            noisy[nodes] = value
            if spread.ndim == 3:
                families.append(FamilyCovariance.of(parent, nodes, spread))
                spread = families[-1].variance
            variance[nodes] = spread
        return replace(cls.of(tree, noisy, variance, "normal"), families=tuple(families))

    @classmethod
    def simulate(
        cls, plan: "Plan", tree: Tree, counts: ArrayLike, rng: Entropy | None = None, *, measure: str | None = None
    ) -> "Measurements":
        """What a summary report made by the plan would say of these true counts of each node, in the tree's order.

        The noise is exact and from the operating system, unless `rng` makes it repeatable; that protects nobody,
        but for a `BlockEntropy` of a secret. Sums of a value are given for a `measure`, as the plan limits them.
        """
        part, model = plan.of_measure(measure), plan.spec.noise_model
        exact, budget = np.asarray(counts, np.float64) / part.clip, plan.budget(tree, measure)
        if isinstance(rng, BlockEntropy):
            noisy = rng.measure(model, tree, len(plan.spec.known), exact, budget)
        else:
            noisy = model.measure(exact, budget, rng)
        words = "" if rng is None or (isinstance(rng, BlockEntropy) and rng.private) else SEEDED
        return cls.of(tree, noisy * part.clip, part.variance(tree), model.shape.name, words)

    def column(self, column: int | str) -> "Measurements":
        """One of many columns, by its number or name."""
        if self.noisy.ndim == 1 or (isinstance(column, str) and column not in self.names):
            there = ", ".join(self.names) or "numbers" if self.noisy.ndim > 1 else "one alone"
            raise ValueError(f"there is no column {column!r}; the columns are {there}")
        j = self.names.index(column) if isinstance(column, str) else range(self.noisy.shape[1])[column]
        one: Record = {
            name: np.ascontiguousarray(values[:, j])
            for name in ("noisy", "variance", "freedom")
            if (values := getattr(self, name)) is not None and values.ndim > 1
        }
        return replace(self, names=(), **one)

    @property
    def shapes(self) -> tuple[NoiseShape, ...]:
        """The pages of its shapes."""
        return tuple(shape_of(name) for name in ((self.shape,) if isinstance(self.shape, str) else self.shape))

    def each(self, give: Callable[[NoiseShape, Floats], Floats]) -> Floats:
        """Calls `give` with each node's shape and variance."""
        if self.code is None:
            return give(self.shapes[0], self.variance)
        combined = np.empty_like(self.variance)
        for code, shape in enumerate(self.shapes):
            here = self.code == code
            combined[here] = give(shape, self.variance[here])
        return combined

    def excess(self) -> Floats:
        """The excess kurtosis of each node's noise: 0 if normal, 3 if Laplace, 3 + 1/variance if discrete Laplace."""
        return self.each(lambda shape, variance: shape.excess(variance))

    def beyond(self, chance: float) -> Floats:
        """The standard deviations that each node's noise exceeds with this chance at most."""
        return self.each(lambda shape, variance: shape.beyond(variance, chance))

    @property
    def signed(self) -> bool:
        """True if a figure is further below 0 than noise explains: profits may be, counts are not."""
        if self.part:
            return True
        if self.noisy.ndim > 1:
            return any(self.column(j).signed for j in range(self.noisy.shape[1]))
        far = self.beyond(UNLIKELY / max(self.noisy.size, 1)) * np.sqrt(self.variance)
        return bool(((self.noisy + far)[self.variance < np.inf] < 0).any())

    @property
    def fingerprint(self) -> str:
        """A hash of the noisy figures that does not depend on the order of nodes."""
        from hashlib import sha256

        known = (self.variance < np.inf) & np.isfinite(self.noisy)
        return sha256(np.sort(np.asarray(self.noisy, np.float64)[known]).tobytes()).hexdigest()

    @property
    def independent(self) -> "Measurements":
        """Independent measurements of which the passes make the same counts."""
        if not self.families:
            return self
        noisy, variance = self.noisy.copy(), self.variance.copy()
        for family in self.families:
            rows = family.rows
            known = np.flatnonzero(np.abs(rows).sum(axis=1) == 0)  # their sum is
            variance[family.nodes] = rows
            variance[family.nodes[known]] = family.variance[known]
            variance[family.parent[known]] = 0.0
            noisy[family.parent[known]] = noisy[family.nodes[known]].sum(axis=1)
        return replace(self, noisy=noisy, variance=variance, families=())

    def with_noise(self, noisy: Floats, variance: Floats, not_private: str = "") -> "Measurements":
        """Other values and variances of the same nodes, with independent noise of the same shapes."""
        words = together(self.not_private, not_private)
        return replace(self, noisy=noisy, variance=variance, not_private=words, families=())

    def again(self, other: "Measurements") -> "Measurements":
        """Both measured the *same* conversions (a query repeated): combined by inverse variance.

        Of two shapes of noise, each node has that of the figure with the smaller variance.
        """
        if self.noisy.ndim > 1:
            return _beside([self.column(j).again(other.column(j)) for j in range(self.noisy.shape[1])], self.names)
        x, y = (np.where(m.variance == np.inf, 0.0, m.noisy) for m in (self, other))
        exact = (self.variance == 0) & (other.variance == 0) & (x != y)
        if exact.any():
            v = int(np.argmax(exact))
            raise ValueError(f"exact figures (variance 0) must agree; node {v} is both {x[v]} and {y[v]}")
        made = self.with_noise(*combine(x, self.variance, y, other.variance), other.not_private)
        if self.families and other.families:
            raise ValueError("of two measurements of the same conversions, one alone may have families")
        mine, theirs = (self, other) if self.families else (other, self)
        families = []
        for family in mine.families:
            at = family.nodes
            made.noisy[at], joined = family.combine(mine.noisy[at], theirs.noisy[at], theirs.variance[at])
            made.variance[at] = joined.variance
            families.append(joined)
        made = replace(made, families=tuple(families), freedom=_least_freedom(self, other))
        if self.shape == other.shape and self.code is None and other.code is None:
            return made
        codes = [np.zeros(len(m.noisy), np.uint8) if m.code is None else m.code for m in (self, other)]
        code = np.where(other.variance < self.variance, codes[1] + np.uint8(len(self.shapes)), codes[0])
        return replace(made, shape=tuple(shape.name for m in (self, other) for shape in m.shapes), code=code)

    def plus(self, other: "Measurements") -> "Measurements":
        """They measured *different* conversions (batches, periods): values add, and so do variances."""
        if self.noisy.ndim > 1:
            return _beside([self.column(j).plus(other.column(j)) for j in range(self.noisy.shape[1])], self.names)
        made = self.with_noise(self.noisy + other.noisy, self.variance + other.variance, other.not_private)
        pairs = (self, other), (other, self)
        families = {f.nodes.tobytes(): f.plus(m.variance, m.families) for mine, m in pairs for f in mine.families}
        return replace(made, families=tuple(families.values()), freedom=_least_freedom(self, other))


def _beside(columns: list[Measurements], names: tuple[str, ...] = ()) -> Measurements:
    """Measurements of the same nodes as columns; where all have the same variances, they share them."""
    noisy, variance = (np.stack([getattr(m, name) for m in columns], 1) for name in ("noisy", "variance"))
    shared = bool((variance == variance[:, :1]).all())
    freedom = None if columns[0].freedom is None else np.stack([np.asarray(m.freedom) for m in columns], 1)
    variance = variance[:, 0].copy() if shared else variance
    return replace(columns[0], noisy=noisy, variance=variance, freedom=freedom, names=names)


def chance_of_equal(variance: Any) -> Any:
    """The largest chance with which two noisy whole numbers are equal: that of a discrete Laplace draw's mode."""
    return 1.0 / np.sqrt(1.0 + 2.0 * variance)


def is_copy(equal: int, expected: float) -> bool:
    """True if so many equal figures of two reports are noise that repeats itself, which only a copy's does.

    `expected` is the sum of their chances; Chernoff's bound of as many equal ones is e^(equal − expected) ·
    (expected / equal)^equal, and a copy is what has less than `BY_CHANCE`.
    """
    if not equal > expected:
        return False
    return bool(equal * np.log(equal / expected) - equal + expected > -np.log(BY_CHANCE))


def _least_freedom(one: Measurements, other: Measurements) -> Floats | None:
    """The degrees of freedom of the less certain noise level, if any was estimated."""
    both = [each for each in (one.freedom, other.freedom) if each is not None]
    return np.min(both, axis=0) if both else None


def combine(x: Floats, var_x: Floats, y: Floats, var_y: Floats) -> tuple[Floats, Floats]:
    """Two independent estimates of the same figures made one (Algorithm 1, CombineEstimates)."""
    with np.errstate(invalid="ignore"):
        both = var_x + var_y
        trust_x, trust_y = var_y / both, var_x / both
    exact = both == 0
    trust_x[exact | (var_y == np.inf)], trust_y[exact] = 1.0, 0.0
    trust_x[var_x == np.inf], trust_y[var_x == np.inf] = 0.0, 1.0
    with np.errstate(invalid="ignore"):
        combined = np.where(var_x == np.inf, var_y, np.where(var_y == np.inf, var_x, trust_y * var_y))
    return trust_x * x + trust_y * y, combined


def _numbers(values: ArrayLike, what: str) -> Floats:
    given = np.asarray(values)
    if given.dtype.kind not in "fiub":
        raise ValueError(f"{what} are numbers; got {given.dtype}")
    return np.ascontiguousarray(given, np.float64) if given.ndim else np.asarray(given, np.float64)


def _of_nodes(tree: Tree, values: ArrayLike, what: str) -> Floats:
    given = _numbers(values, what)
    if given.shape != (len(tree),) or not np.isfinite(given).all():
        raise ValueError(f"{what} are finite numbers, one for each of the {len(tree)} nodes; got shape {given.shape}")
    return given


# FamilyCovariance: figures of siblings whose noise is correlated, such as the answers of one group of people.
#
# For the passes of Algorithm 2, a family of leaves whose figures z have covariance Σ is one of independent figures z
# with variances r = Σ1, its row sums: what it says of its parent, Σ z with variance Σ r = 1'Σ1, is the same, and so is
# each child's share k = r / Σ r of what the parent is corrected by. Counts are then the best linear ones, exactly; only
# the children's variances differ, and are diag(Σ) − k·r + k²·v̂ar of the parent. A family that knows its sum has r = 0:
# its parent is then known exactly.

ROUNDING = 1e-11  # of a row's size: a sum below it is 0
TINY = 1e-13  # of the families' variance: what stands for 0 where an exact figure joins


@dataclass(frozen=True, eq=False)
class FamilyCovariance:
    """The covariance of the figures of families of one size, all of them leaves."""

    parent: Ints  # of each family
    nodes: Ints  # (families, size): all of its children
    covariance: Floats  # (families, size, size)

    @property
    def variance(self) -> Floats:
        return np.diagonal(self.covariance, axis1=1, axis2=2)

    @property
    def rows(self) -> Floats:
        """The row sums r."""
        rows: Floats = self.covariance.sum(axis=2)
        rows[np.abs(rows) <= ROUNDING * np.abs(self.covariance).sum(axis=2)] = 0.0
        return rows

    def combine(self, figures: Floats, noisy: Floats, variance: Floats) -> "tuple[Floats, FamilyCovariance]":
        """Combined with independent figures of the same nodes: inf is not measured, 0 is exact.

        (Σ⁻¹ + V⁻¹)⁻¹ = B·(B + Σ·A)⁻¹·Σ with V = B·A⁻¹, which neither ∞ nor 0 nor a known sum stops.
        """
        unit = np.maximum(self.variance.mean(axis=1, keepdims=True), np.finfo(float).tiny)
        with np.errstate(invalid="ignore"):
            b = np.where(variance == np.inf, 1.0, np.maximum(variance / (variance + unit), TINY))
        a = np.where(variance == np.inf, 0.0, 1.0 / (variance + unit))
        gain = b[:, :, None] * np.linalg.inv(np.eye(figures.shape[1]) * b[:, :, None] + self.covariance * a[:, None, :])
        start = np.where(variance == np.inf, 0.0, noisy)
        value = start + np.where(variance > 0, np.einsum("gij,gj->gi", gain, figures - start), 0.0)
        both = gain @ self.covariance
        both *= (variance > 0)[:, :, None] & (variance > 0)[:, None, :]
        return value, self.of(self.parent, self.nodes, (both + np.swapaxes(both, 1, 2)) / 2)

    def plus(self, variance: Floats, families: "tuple[FamilyCovariance, ...]") -> "FamilyCovariance":
        """The families after adding figures with these variances and families."""
        same = [each.covariance for each in families if np.array_equal(self.nodes, each.nodes)]
        if not same and not np.isfinite(variance[self.nodes]).all():
            raise ValueError("figures with correlated noise are added to figures that are all measured; some are not")
        more = same[0] if same else np.eye(self.nodes.shape[1]) * variance[self.nodes][:, None, :]
        return self.of(self.parent, self.nodes, self.covariance + more)

    @classmethod
    def of(cls, parent: Ints, nodes: Ints, covariance: Floats) -> "FamilyCovariance":
        """The families; where a row sum is negative, which the passes cannot take, a larger diagonal covariance."""
        made = cls(parent, nodes, covariance)
        below: Bools = np.any(made.rows < 0, axis=1, keepdims=True)
        if not below.any():
            return made
        bound = np.eye(nodes.shape[1]) * np.abs(covariance).sum(axis=2)[:, None, :]
        return cls(parent, nodes, np.where(below[:, :, None], bound, covariance))

    def estimated(self, parent: Floats) -> Floats:
        """The variance of each child's estimate, from that of its parent's."""
        rows, total = self.rows, self.rows.sum(axis=1, keepdims=True)
        share = rows / np.where(total > 0, total, np.inf)
        moved = np.where(share > 0, share**2 * np.where(share > 0, parent[:, None], 0.0), 0.0)
        return np.maximum(self.variance - share * rows, 0.0) + moved

    def quadratic(self, weight: Floats) -> Floats:
        """Each child's part of w'Σw, for the weights of all nodes of a tree, a child's relative to its parent's."""
        here = weight[self.nodes] - weight[self.parent][:, None]
        parts: Floats = here * np.einsum("gij,gj->gi", self.covariance, here)
        return parts


def leaf_families(tree: Tree) -> list[tuple[Ints, Ints]]:
    """The parents of leaves and their children, (families,) and (families, size), one pair for each size of family."""
    first = tree.first.astype(np.int64)
    size, leaf = np.diff(first), tree.in_level_order.is_leaf
    parents = np.flatnonzero(size)
    leaves = np.add.reduceat(leaf.astype(np.int64), first[parents]) if parents.size else parents
    mixed = (leaves > 0) & (leaves < size[parents])
    if mixed.any() or leaf[tree.slice(0)].any():
        node = parents[np.argmax(mixed)] if mixed.any() else np.argmax(leaf)
        raise ValueError(
            "states are the leaves of a group, and a group has no other children; "
            f"{tree.name_at(int(node))} {'has both' if mixed.any() else 'is a leaf without a group above it'}"
        )
    of_size = {k: parents[(leaves > 0) & (size[parents] == k)] for k in np.unique(size[parents[leaves > 0]]).tolist()}
    return [(tree.at(here), tree.at(first[here][:, None] + np.arange(k))) for k, here in of_size.items()]
