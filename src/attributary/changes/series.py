"""Series: the estimates of several periods on one tree: every node's course, sums over periods, and what changed."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from attributary.arrow import pa
from attributary.changes.period_files import ASSUMED, PeriodOrder, in_order, pair_names, period_files, table_of_period
from attributary.changes.what_changed import (
    TESTS,
    Changes,
    PeriodFigures,
    SeriesPeriod,
    WithInterval,
    reach,
    sum_excess,
    with_chance,
)
from attributary.denoising import Estimate
from attributary.denoising.total import subtree_variance
from attributary.errors import InputError
from attributary.estimates import Estimates, has_measures
from attributary.measurements import Measurements
from attributary.read_estimates import read_estimates, read_measures, stated_largest
from attributary.tables import read_table
from attributary.tables.table_columns import together
from attributary.tree import Tree
from attributary.tree.match import REST, match
from attributary.types import COUNT, Bools, Floats, Frame

NAMES = ("before", "now")  # of estimates in memory
ROUNDED = 0.05  # of a standard deviation: what digits that a file leaves out may move an estimate by
TO = ".."  # between the first and the last label of a period


@dataclass(frozen=True, eq=False)
class Series:
    """The unbiased figures of periods, first to last, on a tree that has the nodes of all of them, in level order.

    Estimates that use a prior, or are never negative, are no longer unbiased, and share what they learned: their noisy
    values are denoised again without that. The noise of different tables is independent, so that sums over periods
    have the sums of the variances, exactly; periods within one table are dependent, and their covariance is kept.
    """

    tree: Tree
    periods: tuple[SeriesPeriod, ...]
    measure: str = COUNT
    test: str = "rates"
    false_discoveries: float = 0.05
    proven: bool = False
    confidence: float = 0.95
    figure: str = ""  # what is counted, where a table says so: visits
    whole: PeriodFigures | None = None  # sums over the periods, where these are of one table and dependent
    order: str = ""  # what the order of the periods goes by
    chance: str = ""  # what is assumed about chance, in a sentence
    mean: bool = False  # whether the last period is compared with the mean of all earlier ones

    def __repr__(self) -> str:
        names = [period.name for period in self.periods]
        return f"Series({len(names)} periods of {len(self.tree):,} nodes, {names[0]} to {names[-1]})"

    @cached_property
    def steps(self) -> tuple[Changes, ...]:
        """Each period compared with the one before; the false-discovery rate holds for each of them."""
        options = (self.test, self.false_discoveries, self.proven, self.confidence, self.chance)
        return tuple(Changes(self.tree, before, now, *options) for before, now in pairwise(self.periods))

    def against_mean(self) -> "Series":
        """The same, whose last period is compared with the mean of all earlier ones."""
        if self.whole is not None:
            raise InputError(
                "only periods of tables of their own are compared with a mean; those of one table are dependent"
            )
        return replace(self, mean=True)

    @cached_property
    def last(self) -> Changes:
        """The last period compared with the one before or, if so chosen, with the mean of those that have a node."""
        if not self.mean or len(self.periods) == 2:
            return self.steps[-1]
        earlier = replace(self, periods=self.periods[:-1])
        each = [period.figures for period in earlier.periods]
        there = np.array([np.isfinite(of.count) for of in each])
        number = np.where(there.any(axis=0), there.sum(axis=0), np.nan)
        seen = np.where(there, [of.impressions for of in each], 0.0).sum(axis=0)
        added = replace(earlier.sum, impressions=seen, periods=number)
        figures = replace(added, count=np.where(there.any(axis=0), added.count, np.nan))
        mean = SeriesPeriod(f"the mean of the {len(each)} earlier periods", figures)
        return replace(self.steps[-1], before=mean)

    @cached_property
    def total(self) -> "Series":
        """A series of one node, the sum of all roots."""
        roots = slice(0, int(self.tree.first[0]))
        of_roots = tuple(period._replace(figures=_added(period.figures, roots)) for period in self.periods)
        whole = self.whole and _added(self.whole, roots)
        return replace(self, tree=Tree.from_parents([-1]), periods=of_roots, whole=whole)

    @cached_property
    def sum(self) -> PeriodFigures:
        """Each node's sum over the periods that have it, with its exact variance."""
        if self.whole is not None:
            return self.whole
        figures = [period.figures for period in self.periods]
        count, variance = (np.nansum([getattr(of, name) for of in figures], axis=0) for name in ("count", "variance"))
        there = [np.isfinite(of.count) for of in figures]
        parts = [
            (np.where(t, of.variance, 0.0), np.where(t, of.excess, 0.0)) for of, t in zip(figures, there, strict=True)
        ]
        return PeriodFigures(count, variance, sum_excess(parts), np.sum([of.impressions for of in figures], axis=0))

    def interval(self, figures: PeriodFigures) -> WithInterval:
        """These figures, and where the true ones lie at the confidence of the series: intervals know noise alone."""
        half = reach(self.confidence, figures.excess) * np.sqrt(figures.variance)
        return WithInterval(figures.count, figures.count - half, figures.count + half)

    @cached_property
    def course(self) -> WithInterval:
        """The figures of all periods and their intervals: arrays of periods by nodes."""
        return WithInterval(*np.stack([self.interval(period.figures) for period in self.periods], axis=1))

    @property
    def called(self) -> str:
        """What is counted, in a sentence."""
        return self.measure if self.measure != COUNT else self.figure or "conversions"

    @property
    def not_private(self) -> str:
        """Why these figures are not private, if they are not."""
        return together(*(period.not_private for period in self.periods))

    @property
    def generated(self) -> bool:
        return any(period.generated for period in self.periods)


def periods(
    source: Frame,
    *,
    test: str | None = None,
    false_discoveries: float = 0.05,
    proven: bool = False,
    confidence: float = 0.95,
    measure: str | None = None,
    levels: list[str] | None = None,
    least: int = 2,
    by: str | None = None,
    largest: float | None = None,
) -> Series:
    """The periods in a folder, or of a mapping by name: tables, folders of `run`, or estimates in memory.

    With `by`, the periods within one table, whose last level they are: by="week", or "week=W1..W4,W5..W8" for some.
    In a folder, each period is a folder that `attributary run` wrote, or a table of estimates; dates and
    numbers in their names are the order, or else in a column that has one value in each. A `test` is one of TESTS:
    "rates" where it is known how much figures vary by chance, else "counts", noise alone. Counts vary by their number;
    of a sum of values it is known if no event adds more than `largest`, and estimated of four periods or more; `chance`
    says what was assumed. Among the nodes called changed in a step, the expected share of wrong calls is at most
    `false_discoveries`; `proven` for any dependence of them.
    """
    if not 0 < false_discoveries < 1 or not 0 < confidence < 1:
        both = f"{false_discoveries:g} and {confidence:g}"
        raise InputError(f"the false-discovery rate and the confidence are between 0 and 1; got {both}")
    if largest is not None and not 0 < largest < np.inf:
        raise InputError(f"the most that one event adds is a number above 0; got `largest={largest:g}`")
    read = [(name, *_estimates(of, measure, levels)) for name, of in _by_name({"": source} if by else source).items()]
    if len(read) < least and not by:
        raise InputError(f"at least two periods are compared; got {len(read)}")
    order = _order({name: said for name, _, _, said in read})
    read.sort(key=lambda period: order.names.index(period[0]))
    if (other := next(((name, m) for name, m, *_ in read if m != read[0][1]), None)) is not None:
        has = [f"{name} has {m or 'one without a name'}" for name, m in (read[0][:2], other)]
        raise InputError(f"only tables of the same measures are compared; {', '.join(has)}")
    figures = {est.figure.casefold(): f"{name} has {est.figure}" for name, _, est, _ in read if est.figure}
    if len(figures) > 1 and not in_order(list(figures), ASSUMED).known:  # visits_2025 and visits_2026 are of one kind
        both = ", ".join(list(figures.values())[:2])
        raise InputError(f"periods have the same figures; {both}: give tables of one, or rename the column")
    named, figure = read[0][1] or COUNT, read[-1][2].figure
    if test is not None and test not in TESTS:
        raise InputError(f"a test is one of {', '.join(TESTS)}; got {test!r:.40}")
    if by:
        tree, made, whole, order_words = _within_table(read[0][2], by)
    else:
        tree, whole, order_words = _union([(name, est) for name, _, est, _ in read]), None, order.by
        made = tuple(_period(name, est, tree, named) for name, _, est, _ in read)
    if test == "per-impression" and any(np.isnan(period.figures.impressions).all() for period in made):
        raise InputError("impressions are not known in every period; a table needs the column 'impressions'")
    clips = [est.largest for _, _, est, _ in read if est.largest]
    largest = largest or (max(clips) if len(clips) == len(read) else None)
    called = named if named != COUNT else figure
    test, with_units, chance = with_chance([period.figures for period in made], test, called, largest)
    made = tuple(period._replace(figures=figures) for period, figures in zip(made, with_units, strict=True))
    seen: dict[str, str] = {}
    for period in made if whole is None else ():
        noisy = np.nansum(period.figures.variance) > 0  # only noise tells
        if noisy and (other_name := seen.setdefault(period.fingerprint, period.name)) != period.name:
            raise InputError(
                f"{other_name} and {period.name} hold the same noisy figures; reports count once: remove one of them"
            )
    return Series(tree, made, named, test, false_discoveries, proven, confidence, figure, whole, order_words, chance)


def compare(this: object, last: object, **options: Any) -> Changes:
    """What changed from `last` to `this`: tables, folders of `run`, or estimates in memory; options as of `periods`.

    Where the dates in their names tell another order, it is that.
    """
    paths = [str(of) if isinstance(of, str | os.PathLike) else "" for of in (last, this)]
    names = pair_names(*paths) if all(paths) else [path or word for path, word in zip(paths, NAMES, strict=True)]
    return periods(dict(zip(names, (last, this), strict=True)), **options).steps[0]


def _by_name(source: Frame) -> Mapping[str, object]:
    if isinstance(source, Mapping):
        return {str(name): of for name, of in source.items()}
    if not isinstance(source, str | os.PathLike):
        raise InputError(f"periods are a folder, or a mapping by name; got {type(source).__name__}")
    files = period_files(str(source)) if os.path.isdir(source) else {}
    if not files:
        raise InputError(f"{source} is not a folder of periods: it needs two tables of estimates or folders of `run`")
    return files


def _estimates(of: object, measure: str | None, levels: list[str] | None) -> tuple[str, Estimates, dict[str, str]]:
    """The estimates of one measure, the first of a table that has several, after its name, "" where nothing tells it.

    Also gives the columns that have one value in all rows, which is what the table says of itself.
    """
    if isinstance(of, Estimates | Estimate):
        return measure or "", of if isinstance(of, Estimates) else Estimates.of(of), {}
    path = table_of_period(str(of))
    if path is None:
        raise InputError(f"{of} is not a table of estimates, nor a folder with one")
    table = read_table(path)
    columns = ((name, table.column(name).unique()) for name in table.column_names)
    said = {name: str(cells[0]) for name, cells in columns if len(cells) == 1}
    largest = stated_largest(table)
    if not has_measures(table.column_names, levels):
        only = next(iter(largest), "") if len(largest) == 1 and COUNT not in largest else ""
        return only, replace(read_estimates(table, path, levels), largest=largest.get(only or COUNT)), said
    by_measure = read_measures(table, path, levels)
    name = measure or next(iter(by_measure))
    if name not in by_measure:
        raise InputError(f"{path} has no measure {name!r}; it has {', '.join(by_measure)}")
    return name, replace(by_measure[name], largest=largest.get(name)), said


def _order(said: dict[str, dict[str, str]]) -> PeriodOrder:
    """The order of periods by their names, or else by a column of dates that each of their tables has one of."""
    order = in_order(list(said), ASSUMED)
    for column in [] if order.known else next(iter(said.values())):
        labels = {columns[column]: name for name, columns in said.items() if column in columns}
        if len(labels) == len(said) > 1 and (told := in_order(list(labels), ASSUMED, column)).dated:
            return PeriodOrder([labels[label] for label in told.names], f"by {column}")
    return order


def _union(named: list[tuple[str, Estimates]]) -> Tree:
    """A tree with the nodes of all periods, those of the last one first."""
    (last, est), *others = reversed(named)
    tree = est.tree
    for name, other in others:
        alike = (other.tree.attributes, other.tree.total) == (tree.attributes, tree.total)
        if not tree.attributes or not alike:
            raise InputError(
                "periods are compared by the labels of their nodes and have the same levels; "
                f"{last} has {', '.join(tree.level_names)}, {name} has {', '.join(other.tree.level_names)}"
            )
        table = other.tree.table().select(list(tree.attributes))
        lacking = match(tree, table).node < 0
        if lacking.any():
            rows = pa.concat_tables([tree.table().select(list(tree.attributes)), table.filter(pa.array(lacking))])
            tree = Tree.from_paths(rows.unify_dictionaries(), list(tree.attributes), totals=None)
    return tree


def _period(name: str, est: Estimates, tree: Tree, measure: str) -> SeriesPeriod:
    """The unbiased figures of a period's table on the tree of all periods."""
    plain = est.plain
    if plain is None and est.from_prior is not None:
        raise InputError(
            f"{name}: estimates that use a prior cannot be compared, and the table lacks noisy values and variances to "
            "do without; denoise again without a prior"
        )
    rows = match(tree, est.tree.table()).node
    back = est.tree.from_level_order

    def placed(values: Floats) -> Floats:
        there = np.full(len(tree), np.nan)
        there[rows] = values
        return there

    if plain is None:
        count, variance, excess = back(est.estimate), back(est.variance), np.full(len(est), np.nan)
    else:
        count, variance, excess = plain.blue, plain.variance, plain._excess
    seen = None if measure != COUNT else est.impressions  # what an impression brings of a value is no rate
    seen = np.full(len(est), np.nan) if seen is None else back(seen)
    figures = PeriodFigures(*(placed(values) for values in (count, variance, excess, seen)))
    recomputed = bool(_apart(count, back(est.estimate), variance).any())
    measured = est.measurements if est.measured.any() else Measurements(est.estimate, est.variance)
    return SeriesPeriod(name, figures, est.fit, recomputed, est.not_private, est.generated, measured.fingerprint)


def _apart(count: Floats, published: Floats, variance: Floats) -> Bools:
    """Where counts are not those that were published, but for the digits that files leave out."""
    with np.errstate(invalid="ignore"):
        apart: Bools = np.abs(count - published) > np.maximum(ROUNDED * np.sqrt(variance), 1e-6 * np.abs(count) + 1e-6)
    return apart


def _added(figures: PeriodFigures, roots: slice) -> PeriodFigures:
    """The figures of the roots that a period has, added up: they have noise of their own each."""
    there = np.flatnonzero(np.isfinite(figures.count[roots]))
    count, variance, seen = (
        np.array([of[there].sum()]) for of in (figures.count, figures.variance, figures.impressions)
    )
    parts = [(figures.variance[v : v + 1], figures.excess[v : v + 1]) for v in there.tolist()]
    shared = np.broadcast_to(figures.shared, figures.count.shape)[there].sum()
    unit, size = (np.broadcast_to(x, figures.count.shape)[there] for x in (figures.unit, figures.count.clip(1e-9)))
    chance = np.array([np.dot(unit, size) / size.sum()]) if len(there) else 1.0
    return PeriodFigures(count, variance, sum_excess(parts), seen, np.array([shared]), chance)


def _within_table(est: Estimates, by: str) -> tuple[Tree, tuple[SeriesPeriod, ...], PeriodFigures, str]:
    """The tree above the last level, the periods that `by` names, oldest first, sums over them, and what orders them.

    "week" makes each label of that level a period, "week=W1,W5" these two, and "week=W1..W4,W5..W8" two of four weeks.
    The figures of a store's weeks are dependent, since they were made to add up to the store's figure. So a difference
    of two weeks has its own exact variance, from one pass over the tree for each pair.
    """
    tree, plain = est.tree, est.plain
    level, _, chosen = (by, "", "") if by in tree.attributes else by.partition("=")
    above = _above_last(tree, level)
    if plain is None:
        raise InputError("periods within a table are compared by its noisy values, which it lacks; denoise it again")
    labels = tree.labels[-1].cast("string").to_numpy(zero_copy_only=False)
    there = [label for label in dict.fromkeys(labels.tolist()) if label != REST]  # which is of no period
    names, order = in_order(there, "as in the table: the labels tell no dates", level)
    groups = _chosen(level, names, chosen) if chosen else {name: [name] for name in names}
    if len(groups) < 2:
        raise InputError(f"at least two periods are compared; got {', '.join(groups)} of {level}")
    masks = [np.isin(labels, some).astype(float) for some in groups.values()]
    sums = [_sums_below(plain, mask) for mask in masks]
    for i, (one, two) in enumerate(pairwise(masks), 1):
        change = _sums_below(plain, two - one).variance
        with np.errstate(invalid="ignore"):  # of what was not measured
            shared = np.nan_to_num((sums[i].variance + sums[i - 1].variance - change) / 2, posinf=0.0, neginf=0.0)
        sums[i] = replace(sums[i], shared=shared)
    recomputed = bool(_apart(tree.to_level_order(plain.blue), est.estimate, est.variance).any())
    about = (est.fit, recomputed, est.not_private, est.generated)
    made = tuple(SeriesPeriod(name, figures, *about) for name, figures in zip(groups, sums, strict=True))
    return above, made, _sums_below(plain, np.sum(masks, axis=0)), order


def _above_last(tree: Tree, level: str) -> Tree:
    """The tree without its last level, which has to be the one that tells periods apart."""
    if tree.depth < 2 or tree.level_names[-1] != level:
        raise InputError(
            f"periods within a table are labels of its last level, below another one; got {level!r} of "
            f"{', '.join(tree.level_names)}"
        )
    leaf = tree.in_level_order.is_leaf[: tree.offsets[-2]]
    if leaf.any():
        example = tree.name_at(int(np.argmax(leaf)))
        raise InputError(f"every node needs its {level} to be compared; {leaf.sum():,} have none, as {example}")
    return tree.above(tree.depth - 1)


def _chosen(level: str, names: list[str], chosen: str) -> dict[str, list[str]]:
    """The labels of each period, from a text such as W1..W4,W5..W8."""
    groups: dict[str, list[str]] = {}
    for part in chosen.split(","):
        name = part.strip()
        ends = [name] if name in names else [end.strip() for end in name.split(TO)]
        unknown = [end for end in ends if end not in names]
        if unknown or len(ends) > 2:
            raise InputError(f"{level} has no {(unknown or [name])[0]!r}; it has {', '.join(names[:20])}")
        groups[name] = names[names.index(ends[0]) : names.index(ends[-1]) + 1]
        if not groups[name]:
            raise InputError(f"a period is named from its first to its last {level}; got {name}")
    every = [label for some in groups.values() for label in some]
    if len(every) > len(set(every)) or len(groups) <= chosen.count(","):
        raise InputError(f"a {level} is in one period only; got {chosen}")
    return dict(sorted(groups.items(), key=lambda group: names.index(group[1][0])))


def _sums_below(plain: Estimate, weights: Floats) -> PeriodFigures:
    """The sums of last-level nodes below each node above, by these weights; nan where it has none of them."""
    tree, up = plain.tree, plain.tree.in_level_order.sum_up
    end, weight = int(tree.offsets[-2]), np.zeros(len(tree))
    weight[end:] = weights
    variance = subtree_variance(tree, plain.measurements, plain.variance, tree.from_level_order(weight))
    sums = up(weight * tree.to_level_order(plain.blue)), tree.to_level_order(variance)
    count, variance = (np.where(up(np.abs(weight)) > 0, a, np.nan)[:end] for a in sums)
    excess = 0.0 if not plain.measurements.excess().any() else np.nan  # of a sum: normal, or it is not known
    return PeriodFigures(count, variance, np.full(end, excess), np.full(end, np.nan))
