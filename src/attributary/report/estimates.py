"""Estimates: denoised counts as a table tells them, in level order."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attributary.denoising import Estimate, denoise
from attributary.denoising.prediction import EXCESS
from attributary.denoising.quantile import level_of
from attributary.errors import InputError
from attributary.measurements import Measurements
from attributary.noise import SHAPES
from attributary.tables import place, shown
from attributary.tables.floats import floats
from attributary.tables.not_private import SEEDED, words_of
from attributary.tree import Tree
from attributary.tree.paths import RowError
from attributary.types import Floats, Ints

NODE = ("node", "parent", "level")
NEEDED = ("estimate", "variance", "low", "high")
FIGURES = ("noisy", "noise_variance", *NEEDED, "correction")
USUAL = 0.95  # confidence
ALIKE = 0.9  # of the nodes; rounding may make some corrections 0
FROM_PRIOR = "from_prior"  # one more where what was expected had a part in the estimates


@dataclass(frozen=True, eq=False)
class Estimates:
    """One figure per node and column, in the tree's level order; nan where nothing was measured."""

    tree: Tree
    noisy: Floats
    noise_variance: Floats  # inf where nothing was measured; nan where the table does not say
    estimate: Floats
    variance: Floats
    low: Floats
    high: Floats
    correction: Floats
    from_prior: Floats | None = None  # the part of each that what was expected had, from 0 to 1
    not_private: str = ""  # why they are not, if the file says so
    confidence: float | None = None  # that low and high hold the true count, where the file says it
    shape: str | None = None  # of the noise, where the file says it

    def __len__(self) -> int:
        return len(self.estimate)

    @property
    def measured(self) -> NDArray[np.bool_]:
        return np.isfinite(self.noisy) & ~np.isposinf(self.noise_variance)

    @cached_property
    def plain(self) -> Estimate | None:
        """Today's figures denoised again: unbiased, without a prior; None where the table does not tell them.

        Nor where they are not what its estimates were made of, as sums that were divided before.
        """
        known = self.measured & (self.noise_variance >= 0)
        if not known.any() or (self.measured & ~known).any():
            return None
        back = self.tree.from_level_order
        noisy, variance = np.where(known, self.noisy, 0.0), np.where(known, self.noise_variance, np.inf)
        try:
            found = denoise(self.tree, back(noisy), back(variance), shape=self.shape or "laplace")
        except ValueError:  # exact figures at odds with each other: no estimates were made of them
            return None
        moved, variance = (self.tree.to_level_order(a) for a in (found.correction, found.variance))
        alike = np.isnan(moved) | np.isnan(self.correction) | np.isclose(moved, self.correction, 1e-3, 1e-3)
        alike &= np.isposinf(self.plain_variance) | np.isclose(variance, self.plain_variance, 1e-3)
        return found if alike.mean() > ALIKE else None

    @property
    def plain_variance(self) -> Floats:
        """The variance of today's figures alone, denoised, as the table has it; inf where the prior was all."""
        if self.from_prior is None:
            return self.variance
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(self.from_prior < 1, self.variance / (1 - self.from_prior), np.inf)

    @property
    def level(self) -> float:
        """The confidence of the intervals, where the file does not say it, from how wide they are."""
        if self.confidence is not None:
            return self.confidence
        prior, plain = self.from_prior is not None, self.plain
        good = (self.variance > 0) & np.isfinite(self.variance) & np.isfinite(self.high)
        good &= self.tree.first[1:] == self.tree.first[:-1] if prior else True  # others are widened
        uncut = good & (self.low > 0)
        nodes = np.flatnonzero(uncut if uncut.any() else good)
        if not nodes.size or (plain is None and not prior):
            return USUAL
        reach = (self.high - self.low)[nodes] / 2 / np.sqrt(self.variance[nodes])
        middle = int(np.argsort(reach)[len(reach) // 2])
        excess = EXCESS if plain is None or prior else self.tree.to_level_order(plain._excess)[nodes[middle]]
        return min(max(level_of(float(reach[middle]), float(excess)), 0.01), 0.9999)

    @property
    def whole(self) -> bool:
        """Whether all estimates are whole numbers."""
        return bool((self.estimate == np.round(self.estimate)).all())

    @property
    def measurements(self) -> Measurements:
        """What was measured, in level order."""
        variance = np.where(np.isnan(self.noise_variance), np.inf, self.noise_variance)
        return Measurements(self.noisy, variance, self.shape or "laplace")

    def error(self, tau: float) -> Floats:
        """The relative error of each node: its standard deviation by its estimate, or by tau if that is larger."""
        with np.errstate(divide="ignore"):
            error: Floats = np.sqrt(self.variance) / np.maximum(tau, self.estimate)
        return error


def is_estimates(names: list[str]) -> bool:
    return set(NEEDED) <= set(names)


def read_estimates(table: Any, path: str, levels: list[str] | None = None, rows: Ints | None = None) -> Estimates:
    """The estimates in a table, one row per node; `levels` names its label columns where the table does not tell.

    `rows` are the numbers of these rows in the file, where the table has those of one measure only.
    """
    tree = tree_of(table, path, levels, rows)
    if len(tree) != table.num_rows:
        raise InputError(
            f"{shown(path)} has rows for {table.num_rows:,} of {len(tree):,} nodes; a report needs all of them: "
            "denoise with --fill"
        )
    found = {name: floats(table, name, path, rows) for name in (*FIGURES, FROM_PRIOR) if name in table.column_names}
    _check(found, path, rows)
    expected = found.get(FROM_PRIOR)
    absent = np.full(table.num_rows, np.nan)
    columns = {name: tree.to_level_order(found.get(name, absent)) for name in FIGURES}
    metadata = table.schema.metadata or {}
    return Estimates(
        tree,
        **columns,
        from_prior=None if expected is None else tree.to_level_order(expected),
        not_private=words_of(table) or earlier_words(metadata),
        confidence=confidence_of(metadata),
        shape=shape_of(metadata),
    )


def earlier_words(metadata: dict[bytes, bytes]) -> str:
    """The same in files of earlier versions."""
    words = metadata.get(b"attributary", b"").decode(errors="replace")
    return SEEDED if "not for release" in words else ""


def confidence_of(metadata: dict[bytes, bytes]) -> float | None:
    """What a file says that its intervals hold; None where it says nothing that makes sense."""
    try:
        told = float(metadata.get(b"confidence", b"nan"))
    except ValueError:
        return None
    return told if 0 < told < 1 else None


def shape_of(metadata: dict[bytes, bytes]) -> str | None:
    """The shape of the noise that a file states; None where it states none that we know."""
    stated = metadata.get(b"shape", b"").decode(errors="replace")
    return next((shape for shape in SHAPES if shape == stated), None)


def _check(found: dict[str, Floats], path: str, rows: Ints | None) -> None:
    """Refuses figures that make no sense; what cannot be estimated has an infinite variance and interval."""
    rules = {
        "estimate": ("a number", np.isfinite(found["estimate"])),
        "variance": ("a number, 0 or more", found["variance"] >= 0),
        "low": ("a number, the estimate at most", found["low"] <= found["estimate"]),
        "high": ("a number, the estimate at least", found["high"] >= found["estimate"]),
    }
    if FROM_PRIOR in found:
        rules[FROM_PRIOR] = ("a number from 0 to 1", (found[FROM_PRIOR] >= 0) & (found[FROM_PRIOR] <= 1))
    for name, (rule, holds) in rules.items():
        if not holds.all():
            row = int(np.argmin(holds))
            where = place(path, row if rows is None else int(rows[row]))
            raise InputError(f"{where}: {name} is {rule}; got {found[name][row]:g}")


def tree_of(table: Any, path: str, levels: list[str] | None, rows: Ints | None = None) -> Tree:
    """The tree that a table's rows name, in their order."""
    names = table.column_names
    ours = set(NODE) <= set(names)
    try:
        if ours and levels is None:
            levels = _before_figures(names)
            if not levels:
                return _by_parents(table, path)
        if levels is None:
            raise InputError(
                f"{shown(path)} does not say which columns name a node; give them with --levels, top to bottom"
            )
        return Tree.from_paths(_labels(table, levels, path, stars=not ours), levels, totals=None)
    except RowError as error:
        if rows is None:
            raise InputError(f"{place(path, error.row)}: {error.rule}") from error
        where = place(path, int(rows[error.row]))
        raise InputError(f"{where}: of the rows of its measure, {error.rule}") from error
    except InputError:
        raise
    except ValueError as error:
        raise InputError(f"{shown(path)}: {error}") from error


def _before_figures(names: list[str]) -> list[str]:
    """The label columns of a table that we wrote: those between the node's three and the figures."""
    rest = [name for name in names if name not in NODE]
    end = next(i for i, name in enumerate(rest) if name in FIGURES)
    return rest[:end]


def _by_parents(table: Any, path: str) -> Tree:
    node, parent = (floats(table, name, path) for name in ("node", "parent"))
    if not (node == np.arange(len(node))).all() or not (parent == np.round(parent)).all():
        raise InputError(f"{shown(path)}: nodes are numbered 0, 1, 2 … in the order of their rows")
    return Tree.from_parents(parent.astype(np.int64))


def _labels(table: Any, levels: list[str], path: str, stars: bool) -> Any:
    """The label columns; where stars are ends, a * ends a path as an empty cell does."""
    import pyarrow as pa
    import pyarrow.compute as pc

    missing = next((name for name in levels if name not in table.column_names), None)
    if missing is not None:
        raise InputError(
            f"{shown(path)} has no column {missing!r}; its columns are {', '.join(table.column_names)}: give those "
            "that name a node with --levels, top to bottom"
        )
    columns = {}
    for name in levels:
        cells = table.column(name)
        if pa.types.is_nested(cells.type):
            raise InputError(f"{shown(path)}: column {name!r} is {cells.type}; labels are text, numbers or dates")
        if pa.types.is_dictionary(cells.type):
            cells = cells.cast(cells.type.value_type)
        if pa.types.is_floating(cells.type):
            cells = pc.if_else(pc.is_nan(cells), None, cells)
        cells = cells.cast(pa.string())
        columns[name] = pc.if_else(pc.equal(cells, "*"), None, cells) if stars else cells
    return pa.table(columns)
