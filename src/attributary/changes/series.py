"""Series: the estimates of several periods on one tree: every node's course, sums over periods, and what changed."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from attributary.changes.change_test import TESTS, PeriodFigures, sum_excess
from attributary.changes.level_periods import level_periods
from attributary.changes.period_files import period_files, table_of_period
from attributary.changes.what_changed import Changes, SeriesPeriod, WithInterval, reach
from attributary.denoising import Estimate
from attributary.errors import InputError
from attributary.estimates import Estimates, has_measures, read_estimates, read_measures
from attributary.tables import read_table
from attributary.tables.not_private import together
from attributary.tree import Tree
from attributary.tree.match import match
from attributary.types import COUNT, Floats


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

    @cached_property
    def steps(self) -> tuple[Changes, ...]:
        """Each period compared with the one before; the false-discovery rate holds for each of them."""
        pairs = zip(self.periods, self.periods[1:], strict=False)
        return tuple(self._compared(self.tree, before, now) for before, now in pairs)

    @cached_property
    def total(self) -> "Series":
        """The same of the sum of all roots: one node."""
        roots = slice(0, int(self.tree.first[0]))
        of_roots = [period._replace(figures=_added(period.figures, roots)) for period in self.periods]
        options = (self.measure, self.test, self.false_discoveries, self.proven, self.confidence)
        whole = self.whole and _added(self.whole, roots)
        return Series(Tree.from_parents([-1]), tuple(of_roots), *options, self.figure, whole)

    @cached_property
    def sum(self) -> PeriodFigures:
        """Each node's sum over the periods that have it, with its exact variance."""
        if self.whole is not None:
            return self.whole
        each = [period.figures for period in self.periods]
        count, variance = (np.nansum([getattr(of, name) for of in each], axis=0) for name in ("count", "variance"))
        there = [np.isfinite(of.count) for of in each]
        parts = [
            (np.where(t, of.variance, 0.0), np.where(t, of.excess, 0.0)) for of, t in zip(each, there, strict=True)
        ]
        return PeriodFigures(count, variance, sum_excess(parts), np.sum([of.impressions for of in each], axis=0))

    def interval(self, figures: PeriodFigures) -> WithInterval:
        """These figures, and where the true ones lie at the confidence of the series: intervals know noise alone."""
        half = reach(self.confidence, figures.excess) * np.sqrt(figures.variance)
        return WithInterval(figures.count, figures.count - half, figures.count + half)

    @cached_property
    def course(self) -> WithInterval:
        """The same of all periods: arrays of periods by nodes."""
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
        """Whether a period was counted in generated logs."""
        return any(period.generated for period in self.periods)

    def _compared(self, tree: Tree, before: SeriesPeriod, now: SeriesPeriod) -> Changes:
        return Changes(tree, before, now, self.test, self.false_discoveries, self.proven, self.confidence)


def periods(
    source: Any,
    *,
    test: str | None = None,
    false_discoveries: float = 0.05,
    proven: bool = False,
    confidence: float = 0.95,
    measure: str | None = None,
    levels: list[str] | None = None,
    least: int = 2,
    by: str | None = None,
) -> Series:
    """The periods in a folder, or of a mapping by name: tables, folders of `run`, or estimates in memory.

    With `by`, the periods within one table, whose last level they are: by="week", or "week=W1..W4,W5..W8" for some.
    In a folder, each period is a folder that `attributary run` wrote, or a table of estimates; their names, in which
    numbers count as numbers, are the order. A `test` is one of TESTS: "rates" for counts; sums of a value are tested
    for noise alone, "counts", since nothing is known of how a conversion's value varies. Among the nodes called changed
    in a step, the expected share of wrong calls is at most `false_discoveries`; `proven` for any dependence of them.
    """
    if not 0 < false_discoveries < 1 or not 0 < confidence < 1:
        raise InputError(
            "the false-discovery rate and the confidence are between 0 and 1; got "
            f"{false_discoveries:g} and {confidence:g}"
        )
    read = [(name, *_estimates(of, measure, levels)) for name, of in _by_name({"": source} if by else source).items()]
    if len(read) < least and not by:
        raise InputError(f"at least two periods are compared; got {len(read)}")
    if (other := next(((name, m) for name, m, _ in read if m != read[0][1]), None)) is not None:
        has = [f"{name} has {m or 'one without a name'}" for name, m in (read[0][:2], other)]
        raise InputError(f"only tables of the same measures are compared; {', '.join(has)}")
    named = read[0][1] or COUNT
    test = test or ("rates" if named == COUNT else "counts")
    if test not in TESTS:
        raise InputError(f"a test is one of {', '.join(TESTS)}; got {test!r:.40}")
    if TESTS[test].poisson and named != COUNT:
        raise InputError(f"sums of {named} are tested for noise alone: test 'counts'; got {test!r}")
    if by:
        tree, made, whole = level_periods(read[0][2], by)
    else:
        tree, whole = _union([(name, est) for name, _, est in read]), None
        made = tuple(_period(name, est, tree, named) for name, _, est in read)
    if test == "per-impression" and any(np.isnan(period.figures.impressions).all() for period in made):
        raise InputError("impressions are not known in every period; a table needs the column 'impressions'")
    return Series(tree, made, named, test, false_discoveries, proven, confidence, read[-1][2].figure, whole)


def compare(this: Any, last: Any, **options: Any) -> Changes:
    """What changed from `last` to `this`: tables, folders of `run`, or estimates in memory; options as of `periods`."""
    names = [str(of) if isinstance(of, str | os.PathLike) else word for of, word in ((last, "before"), (this, "now"))]
    if names[0] == names[1]:
        raise InputError(f"two periods are compared; got {names[0]} twice")
    return periods(dict(zip(names, (last, this), strict=True)), **options).steps[0]


def _by_name(source: Any) -> Mapping[str, Any]:
    if isinstance(source, Mapping):
        return source
    if not isinstance(source, str | os.PathLike):
        raise InputError(f"periods are a folder, or a mapping by name; got {type(source).__name__}")
    files = period_files(str(source)) if os.path.isdir(source) else {}
    if not files:
        raise InputError(f"{source} is not a folder of periods: it needs two tables of estimates or folders of `run`")
    return files


def _estimates(of: Any, measure: str | None, levels: list[str] | None) -> tuple[str, Estimates]:
    """The estimates of one measure, the first of a table that has several, and its name; "" where nothing tells it."""
    if isinstance(of, Estimates | Estimate):
        return measure or "", of if isinstance(of, Estimates) else Estimates.of(of)
    path = table_of_period(str(of))
    if path is None:
        raise InputError(f"{of} is not a table of estimates, nor a folder with one")
    table = read_table(path)
    if not has_measures(table.column_names, levels):
        return "", read_estimates(table, path, levels)
    by_measure = read_measures(table, path, levels)
    name = measure or next(iter(by_measure))
    if name not in by_measure:
        raise InputError(f"{path} has no measure {name!r}; it has {', '.join(by_measure)}")
    return name, by_measure[name]


def _union(named: list[tuple[str, Estimates]]) -> Tree:
    """A tree with the nodes of all periods, those of the last one first."""
    import pyarrow as pa

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
    recomputed = not np.allclose(count, back(est.estimate), rtol=1e-6, atol=1e-6)
    return SeriesPeriod(
        name, figures, est.fit, recomputed, est.not_private, est.generated, est.measurements.fingerprint
    )


def _added(figures: PeriodFigures, roots: slice) -> PeriodFigures:
    """The figures of the roots that a period has, added up: they have noise of their own each."""
    there = np.flatnonzero(np.isfinite(figures.count[roots]))
    count, variance, seen = (
        np.array([of[there].sum()]) for of in (figures.count, figures.variance, figures.impressions)
    )
    parts = [(figures.variance[v : v + 1], figures.excess[v : v + 1]) for v in there.tolist()]
    shared = np.broadcast_to(figures.shared, figures.count.shape)[there].sum()
    return PeriodFigures(count, variance, sum_excess(parts), seen, np.array([shared]))
