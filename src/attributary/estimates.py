"""Estimates: the one table of estimates: its columns and metadata, writing, plausibility and fit.

    >>> table = denoise(tree, noisy, variance).table(confidence=0.95)      # estimates_table(est, 0.95)
    >>> read = read_estimates(table, "estimates.parquet")                  # Estimates, in level order (read_estimates)
    >>> plausibility(read).nodes, plausibility(read).z                     # the same of the Estimate itself

A table has the tree's columns (node, parent, level, and the attributes), then those of COLUMNS that its estimates have.
Several measures stand one below the other in one table, told apart by a first column `measure`. The metadata of Parquet
and Arrow files states the confidence of the intervals, the shape of the noise and whether its level was estimated,
whether an earlier period has a part in the estimates, and why the table is not private, if it is not.

Whoever shows estimates takes an `Estimates`: `read_estimates` and `read_measures` make them of a table, and
`Estimates.of` of an `Estimate` that is still in memory. Whoever writes some asks `figures_of` for the columns.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import sqrt
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from attributary.denoising import Estimate, denoise
from attributary.denoising.estimate import EXCESS, Fit, Prediction
from attributary.denoising.joint import joint_excess
from attributary.denoising.quantile import level_of, quantile
from attributary.measurements import Measurements
from attributary.noise import SHAPES
from attributary.tables.as_written import BELOW, BESIDE, LEVELS, MEASURE, MEASURED, NEEDED
from attributary.tables.table_columns import NAME as NOT_PRIVATE
from attributary.tables.table_columns import arrow_table, mark, stacked, with_figures
from attributary.tree import Tree
from attributary.types import Arrow, Bools, Floats, Frame, Record

NODE = ("node", "parent", "level")
USUAL = 0.95  # confidence


class Column(NamedTuple):
    """A column of estimates: what a cell must be, and, of one that only some estimates have, how it is shown."""

    name: str
    rule: str = ""  # of a cell; none where it may be any number, or empty
    least: float | str = -np.inf  # or the column that has it
    most: float | str = np.inf
    empty: bool = False  # whether a cell may be empty
    of: Callable[[Prediction], Floats | None] = lambda est: None  # of an estimate with a prior, in the tree's order
    key: str = ""  # what page and explorer sort by
    head: str = ""
    words: str = ""  # how it is read

    def holds(self, columns: Mapping[str, Floats]) -> Bools:
        """Of which rows the rule holds."""
        x = columns[self.name]
        least, most = (columns[x] if isinstance(x, str) else x for x in (self.least, self.most))
        return ((x >= least) & (x <= most)) | (np.isnan(x) & self.empty)


PART = "a number from 0 to 1"
WEIGHT = "Weight of prior: 0 % is as measured, 100 % as the prior says; such estimates are no longer unbiased."
CHANCE = "Chance of 0 is the probability that nothing was counted; intervals of such estimates end at whole numbers."
FINITE = (-np.finfo(float).max, np.finfo(float).max)
COLUMNS = (
    Column("noisy", empty=True),
    Column("noise_variance", empty=True),
    Column("estimate", "a number", *FINITE),
    Column("variance", "a number, 0 or more", 0),
    Column("low", "a number, the estimate at most", most="estimate"),
    Column("high", "a number, the estimate at least", "estimate"),
    Column("correction", empty=True),
    Column("from_prior", PART, 0, 1, False, lambda est: est.from_prior, "prior", "Weight of prior", WEIGHT),
    Column("zero_probability", f"{PART}, or empty", 0, 1, True, lambda est: est.zero, "zero", "Chance of 0", CHANCE),
)
FIGURES = tuple(column.name for column in COLUMNS if not column.key)
EXTRAS = {column.name: column for column in COLUMNS if column.key}  # that only estimates with a prior have
OPTIONAL = (*FIGURES, *EXTRAS)
FROM_PRIOR, ZERO, *_ = EXTRAS
ADDED = FIGURES[2:]  # beside figures that a user's table has already
ANYTHING = ("count", "counts", "n", "num", "cnt", "dp_count", "total", "total_count")  # names that say little
RATES = {"rate": "estimate", "rate_low": "low", "rate_high": "high"}  # per impression, of which column
LARGEST = "largest"  # in the metadata: the most that one conversion adds, by measure
IMPRESSIONS = "impressions"  # of each node, where they are known; they are not private

ROUNDED = 0.01  # by which an interval may differ, since it was written with few digits
ALIKE = 0.9  # of the nodes; rounding may make some corrections 0
FALSE_ALARMS = 0.05  # the chance that noise alone makes any correction of a table implausible
Z_FINE = 3.0  # the fit is fine up to here


def is_estimates(names: list[str]) -> bool:
    """Whether a table with columns of these names holds estimates."""
    return set(NEEDED) <= set(names)


def has_measures(names: list[str], levels: list[str] | None = None) -> bool:
    """Whether a column tells measures apart; one of that name that is a level names nodes."""
    if MEASURE not in names or MEASURE in (levels or ()):
        return False
    return not set(NODE) <= set(names) or names.index(MEASURE) < names.index("node")


def label_columns(names: list[str]) -> list[str]:
    """The label columns of a table that we wrote: those between the node's three and the figures."""
    rest = [name for name in names if name not in NODE]
    end = next(i for i, name in enumerate(rest) if name in FIGURES)
    return rest[:end]


@dataclass(frozen=True, eq=False, kw_only=True)
class About:
    """What the metadata of a table states; None, or nothing, where it does not."""

    not_private: str = ""  # why the estimates are not private
    confidence: float | None = None  # of the intervals
    shape: str | None = None  # of the noise
    generated: bool = False  # whether the rows counted were generated
    figure: str = ""  # the column of noisy figures in the user's table, such as visits
    estimated: bool | None = None  # whether the noise level was estimated from the figures themselves
    earlier: bool | None = None  # whether the prior has an earlier period, or is learned from these figures alone
    beside: str = ""  # what other breakdown had a part in the estimates, such as month

    @classmethod
    def of(cls, est: Estimate, confidence: float = USUAL) -> "About":
        """What is known about an estimate in memory."""
        shape = est.measurements.shape if isinstance(est.measurements.shape, str) else None
        earlier = None
        if isinstance(est, Prediction):
            learned = est.prior.share is not None or est.zero is not None
            earlier = est.prior.new is not None or not learned
        return About(
            not_private=est.not_private,
            confidence=confidence,
            shape=shape,
            estimated=est.measurements.freedom is not None,
            earlier=earlier,
            beside=est.beside,
        )


def about(metadata: Mapping[bytes, bytes] | None) -> About:
    """What metadata states, as far as it makes sense."""
    said = {k.decode(errors="replace"): v.decode(errors="replace") for k, v in (metadata or {}).items()}
    try:
        confidence = float(said.get("confidence", "nan"))
    except ValueError:
        confidence = np.nan
    return About(
        confidence=confidence if 0 < confidence < 1 else None,
        shape=said["shape"] if said.get("shape") in SHAPES else None,
        generated="generated" in said,
        figure=said.get("figure", ""),
        estimated={"estimated": True, "stated": False}.get(said.get("noise", "")),
        earlier={"earlier": True, "today": False}.get(said.get("prior", "")),
        beside=said.get(BESIDE.decode(), ""),
    )


@dataclass(frozen=True, eq=False)
class Estimates(About):
    """One figure per node and column, in the tree's level order, and what is known `About` them."""

    tree: Tree
    noisy: Floats  # nan where nothing was measured
    noise_variance: Floats  # inf where nothing was measured; nan where the table does not say
    estimate: Floats
    variance: Floats
    low: Floats
    high: Floats
    correction: Floats
    extras: Mapping[str, Floats] = field(default_factory=dict)  # the columns of EXTRAS that there are
    impressions: Floats | None = None  # of each node; of what is unknown to an impression, those of the node above
    largest: float | None = None  # the most that one conversion adds, where a plan says so
    made: Estimate | None = None  # where it is still in memory, so that nothing is denoised again

    @classmethod
    def of(cls, est: Estimate, confidence: float = USUAL) -> "Estimates":
        """An estimate in memory, as reading its table would give it."""
        return cls.from_columns(est.tree, figures_of(est, confidence), About.of(est, confidence), made=est)

    @classmethod
    def from_columns(cls, tree: Tree, columns: Mapping[str, Any], known: About, **more: Any) -> "Estimates":
        """Columns in the tree's order, nan where there are none, and what is known about them."""
        absent = np.full(len(tree), np.nan)
        figures: Record = {name: tree.to_level_order(np.asarray(columns.get(name, absent), float)) for name in FIGURES}
        extras = {name: tree.to_level_order(columns[name]) for name in EXTRAS if name in columns}
        return cls(tree, **figures, extras=extras, **{**vars(known), **more})

    def __len__(self) -> int:
        return len(self.estimate)

    @property
    def from_prior(self) -> Floats | None:
        """The weight of the prior in each estimate, from 0 to 1."""
        return self.extras.get(FROM_PRIOR)

    @property
    def zero_probability(self) -> Floats | None:
        """Of each count to be 0, where posterior means are shown."""
        return self.extras.get(ZERO)

    @property
    def measured(self) -> Bools:
        return np.isfinite(self.noisy) & ~np.isposinf(self.noise_variance)

    @cached_property
    def plain(self) -> Estimate | None:
        """The unbiased estimate of the figures, without a prior: made, or else denoised again; None without figures.

        Nor where they are not what the estimates were made of, such as sums that were divided before.
        """
        if self.made is not None:
            return self.made.plain
        known = self.measured & (self.noise_variance >= 0)
        if not known.any() or (self.measured & ~known).any():
            return None
        back = self.tree.from_level_order
        noisy, variance = np.where(known, self.noisy, 0.0), np.where(known, self.noise_variance, np.inf)
        try:
            again = denoise(self.tree, back(noisy), back(variance), shape=self.shape or "laplace")
        except ValueError:  # exact figures at odds with each other: no estimates were made of them
            return None
        if self.beside:  # which had a part in the estimates shown
            return again
        moved, variance = (self.tree.to_level_order(a) for a in (again.correction, again.variance))
        alike = np.isnan(moved) | np.isnan(self.correction) | np.isclose(moved, self.correction, 1e-3, 6e-3)
        wider = self.zero_probability is not None and self.from_prior == 0  # a posterior, than without a prior
        alike &= np.isposinf(self.plain_variance) | np.isclose(variance, self.plain_variance, 1e-3) | wider
        return again if alike.mean() > ALIKE else None

    @property
    def fit(self) -> Fit | None:
        """How the noise fits, by the unbiased estimate: those shown may be non-negative or use a prior."""
        return None if self.plain is None else self.plain.fit

    @property
    def blue(self) -> Floats:
        """The unbiased estimates; those shown, where they are not known, or joint ones of several breakdowns."""
        return self.estimate if self.plain is None or self.beside else self.tree.to_level_order(self.plain.blue)

    @property
    def plain_variance(self) -> Floats:
        """The variance of today's figures alone, denoised, as the table has it; inf where the prior was all."""
        if self.from_prior is None:
            return self.variance
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(self.from_prior < 1, self.variance / (1 - self.from_prior), np.inf)

    @cached_property
    def level(self) -> float:
        """The confidence of the intervals; where the file does not state it, from how wide they are."""
        return self.confidence or self._reached or USUAL

    @cached_property
    def _reached(self) -> float | None:
        """The confidence of an interval of median width; None where neither the noise nor a prior tells."""
        prior, plain = self.from_prior is not None, self.plain
        good = (self.variance > 0) & np.isfinite(self.variance) & np.isfinite(self.high)
        good &= self.tree.in_level_order.is_leaf if prior else True  # others are widened
        uncut = good & (self.low > 0)
        nodes = np.flatnonzero(uncut if uncut.any() else good)
        if not nodes.size or (plain is None and not prior):
            return None
        width = (self.high - self.low)[nodes]
        reach = width / 2 / np.sqrt(self.variance[nodes])
        middle = int(np.argsort(reach)[len(reach) // 2])
        excess = EXCESS
        if plain is not None and not prior:
            joint = joint_excess(plain, self.tree.from_level_order(self.variance)) if self.beside else plain._excess
            excess = self.tree.to_level_order(joint)[nodes[middle]]
        level = min(max(level_of(float(reach[middle]), float(excess)), 0.01), 0.9999)
        usual = float(quantile(USUAL, np.array([float(excess)]))[0] / reach[middle])
        written = 2 / float(width[middle]) if self.whole else 0.0  # intervals are written in whole numbers
        return USUAL if abs(usual - 1) < max(ROUNDED, written) else level

    @property
    def level_known(self) -> bool:
        """Whether the confidence is stated, or can be told by the width of intervals."""
        return bool(self.confidence or self._reached)

    @property
    def whole(self) -> bool:
        return bool((self.estimate == np.round(self.estimate)).all())

    @property
    def measurements(self) -> Measurements:
        variance = np.where(np.isnan(self.noise_variance), np.inf, self.noise_variance)
        return Measurements(self.noisy, variance, self.shape or "laplace")

    def table(self) -> Arrow:
        """The Arrow table of these figures, a row for each node in the tree's order."""
        columns = {name: getattr(self, name) for name in FIGURES} | dict(self.extras)
        made = with_columns(self.tree.table(), {name: self.tree.from_level_order(x) for name, x in columns.items()})
        return made if self.confidence is None else noted(made, confidence=self.confidence)


# Writing.


def figures_of(est: Estimate, confidence: float = USUAL) -> Record:
    """The columns of an estimate in the tree's order, nan where there is nothing; those of EXTRAS with a prior."""
    noisy, variance = est.measurements.noisy, est.measurements.variance
    low, high = est.interval(confidence)
    values = (np.where(variance < np.inf, noisy, np.nan), variance, est.count, est.variance, low, high, est.correction)
    extras = {name: column.of(est) for name, column in EXTRAS.items()} if isinstance(est, Prediction) else {}
    return dict(zip(FIGURES, values, strict=True)) | {name: x for name, x in extras.items() if x is not None}


def estimates_table(est: Estimate, confidence: float = USUAL) -> Arrow:
    """The Arrow table of an estimate: a row for each node, null where there is nothing to say.

    Many columns of figures are measures, one below the other.
    """
    if est.count.ndim > 1:
        columns = est.measurements.names or range(est.count.shape[1])
        return by_measure({str(column): estimates_table(est.column(column), confidence) for column in columns})
    return with_metadata(with_columns(est.tree.table(), figures_of(est, confidence)), est, confidence)


def user_frame(est: Estimate, confidence: float = USUAL, prefix: str = "") -> Frame:
    """The user's frame with the columns of ADDED behind its own; those of many figures begin with their names."""
    frame, names = est.measurements.frame, est.measurements.names
    if frame is None:
        raise ValueError("these figures are not from a table; est.table() has a row for each node")
    each = {f"{name}_": est.column(name) for name in names} or {"": est}
    rows, columns = arrow_table(frame).num_rows, Record()
    for name, one in each.items():
        figures = figures_of(one, confidence)
        columns |= {prefix + name + key: figures[key][:rows] for key in figures if key not in MEASURED}
    if est.not_private and NOT_PRIVATE not in arrow_table(frame).column_names:
        columns[NOT_PRIVATE] = np.full(rows, est.not_private)
    return with_figures(frame, columns)


def with_columns(table: Arrow, columns: Record) -> Arrow:
    """The Arrow table with these columns behind its own; nan becomes null."""
    import pyarrow as pa

    for name, values in columns.items():
        table = table.append_column(name, pa.array(values, mask=np.isnan(values)))
    return table


def with_metadata(table: Arrow, est: Estimate, confidence: float) -> Arrow:
    """The table with what its columns do not say (`About`)."""
    about, shapes = About.of(est, confidence), est.measurements.shape
    notes = {"shape": about.shape or ",".join(shapes), "confidence": confidence}
    notes["noise"] = "estimated" if about.estimated else "stated"
    notes |= {} if about.earlier is None else {"prior": "earlier" if about.earlier else "today"}
    notes |= {BESIDE.decode(): about.beside} if about.beside else {}
    return mark(noted(table, **notes), about.not_private)


def noted(table: Arrow, **notes: object) -> Arrow:
    """The table with these notes in its metadata, which Parquet and Arrow files keep and text does not."""
    added = {name.encode(): str(value).encode() for name, value in notes.items()}
    return table.replace_schema_metadata({**(table.schema.metadata or {}), **added})


def with_roles(
    table: Arrow, tree: Tree, levels: tuple[str, ...], figure: str, text: bool, stated: bool = False
) -> Arrow:
    """The table with the names of its level columns and of its figures, so that whoever reads it need not be told them.

    They are in the metadata. Text has none: there, the levels are the columns before the figures, or else a last column
    says for each row which columns name its node, as in region > store; so it is wherever they are to be `stated`.
    """
    import pyarrow as pa

    table = noted(table, levels=json.dumps(levels), figure=figure)
    if not text or LEVELS in table.column_names:
        return table
    if not stated and label_columns(table.column_names) == list(levels):
        return table
    paths = [BELOW.join(levels[: depth + 1 - tree.total]) or None for depth in range(tree.depth)]
    codes = pa.array(tree.level[: table.num_rows].astype(np.int32))
    return table.append_column(LEVELS, pa.DictionaryArray.from_arrays(codes, pa.array(paths, pa.string())))


def by_measure(tables: dict[str, Arrow]) -> Arrow:
    """The tables of several measures one below the other, with a column that tells them apart; one as it is."""
    return next(iter(tables.values())) if len(tables) == 1 else labelled(tables)


def labelled(tables: dict[str, Arrow]) -> Arrow:
    """The same tables with that column, also where there is one alone."""
    return stacked(tables, MEASURE, next(iter(tables.values())).column_names[:1])


def with_impressions(table: Arrow, impressions: Floats) -> Arrow:
    """The table of estimates with the impressions of each node, and what an impression brings, with its interval."""
    columns = {name: table.column(of).to_numpy() for name, of in RATES.items()}
    with np.errstate(divide="ignore", invalid="ignore"):
        rates = {name: np.where(impressions > 0, values / impressions, np.nan) for name, values in columns.items()}
    return with_columns(table, {IMPRESSIONS: impressions.astype(np.int64), **rates})


def known_above(tree: Tree, values: Floats) -> Floats:
    """Values in level order; where one is nan, that of the node above."""
    known = values.copy()
    for level in range(1, tree.depth):
        here = tree.slice(level)
        known[here] = np.where(np.isnan(known[here]), known[tree.family[here]], known[here])
    return known


# Plausibility.


class Plausibility(NamedTuple):
    """Corrections larger than noise explains, and whether there is as much noise as stated."""

    implausible: NDArray[np.bool_]  # of each node
    threshold: float  # in standard deviations
    z: float | None  # about standard normal if the noise is as stated; None where no figure was measured twice
    ratio: float  # the noise's apparent standard deviation by the stated one

    @property
    def nodes(self) -> int:
        """How many corrections are implausible."""
        return int(self.implausible.sum())


def plausibility(est: Estimate | Estimates) -> Plausibility:
    """What a careful reader asks of corrections: none too large, and all together as large as they should be.

    A correction's tail is taken to be no heavier than the noise's own; Bonferroni allows for the number of nodes.
    """
    with np.errstate(divide="ignore"):
        size = np.abs(np.nan_to_num(est.correction))
    beyond = thresholds(est.measurements, int((size > 0).sum()))
    fit = est.fit
    z, ratio = (None, 1.0) if fit is None or fit.df == 0 else (fit.z, sqrt(fit.q / fit.df))
    return Plausibility(size > beyond, float(np.min(beyond)), z, ratio)


def thresholds(measured: Measurements, corrections: int) -> Floats:
    """How many standard deviations a correction may have, of each figure, where there are so many corrections."""
    return measured.beyond(FALSE_ALARMS / max(corrections, 1))


class Suspect(NamedTuple):
    """A node that was moved further than noise explains, or the leaves of one, which are always moved alike."""

    name: str
    noisy: float
    estimate: float
    correction: float  # in standard deviations


def suspects(est: Estimates, implausible: Bools, most: int) -> tuple[int, list[Suspect]]:
    """How many nodes are to be looked at, and the worst of them.

    The leaves under one parent share one correction, since only their sum is measured twice: they are one suspect.
    """
    tree, size = est.tree.in_level_order, np.abs(np.nan_to_num(est.correction))
    beyond = np.flatnonzero(implausible)
    leaf = tree.is_leaf[beyond]
    _, one_of_each = np.unique(tree.parent[beyond[leaf]], return_index=True)
    nodes = np.concatenate([beyond[~leaf], beyond[leaf][one_of_each]])
    order = np.lexsort((tree.level[nodes], -np.round(size[nodes], 6)))
    worst = []
    for node in nodes[order[:most]].tolist():
        name, alike = tree.name(node), np.array([node])
        if tree.is_leaf[node]:
            alike = np.flatnonzero((tree.parent == tree.parent[node]) & tree.is_leaf & est.measured)
            if len(alike) > 1:
                name = f"the {len(alike):,} leaves of {tree.name(int(tree.parent[node]))} together"
        figures = (est.noisy[alike].sum(), est.blue[alike].sum(), est.correction[node])
        worst.append(Suspect(name, *map(float, figures)))
    return len(nodes), worst
