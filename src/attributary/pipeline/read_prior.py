"""read_prior: what the table of an earlier period, its counts or its estimates, says of a tree, measure by measure."""

import os
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from attributary.changes.period_files import period_files, table_of_period
from attributary.changes.series import periods
from attributary.errors import InputError
from attributary.estimates import MEASURE, by_measure, has_measures, noted
from attributary.measurements import Measurements, chance_of_equal, is_copy
from attributary.pipeline.level_columns import level_columns, refused
from attributary.plan import Plan
from attributary.prior import Prior, from_counts, from_estimates
from attributary.prior.earlier import HISTORY, NOISY, PERIODS, Profile, profile
from attributary.prior.history import history
from attributary.spec import Spec
from attributary.spec.measure import BEYOND, COUNT, FROM
from attributary.tables import read_table, shown
from attributary.tables.table_columns import floats, mark, together, words_of
from attributary.tree import Tree

COUNTS, ESTIMATES = ("conversions",), ("estimate", "variance")  # the columns that a prior is made of
SHOWN = 5  # names of measures in a message
FAR = 20.0  # times today's sum, or a part of it: then an earlier one may be in another unit


def read_earlier(path: str) -> Any:
    """The table of an earlier period; of a folder, its reports as one (prior.history), by their noisy figures."""
    if not os.path.isdir(path):
        return read_table(path)
    files = period_files(path)
    if not files and (only := table_of_period(path)) is not None:
        files = {os.path.basename(only): only}
    if not files:
        raise InputError(
            f"{shown(path)} is a folder without tables of estimates; `prior` takes a folder of earlier reports, as "
            "`attributary denoise` or `run` wrote them, or one file"
        )
    first = read_table(next(iter(files.values())))
    named = first.column(MEASURE).unique().to_pylist() if has_measures(first.column_names) else [None]
    made = {str(name): history(periods(files, measure=name, least=1)) for name in named}
    words = {each.words for each in made.values()}
    words_of_all = words.pop() if len(words) == 1 else "; ".join(f"{name}: {each.words}" for name, each in made.items())
    table = by_measure({name: each.table for name, each in made.items()})
    return noted(table, history=words_of_all, reports=",".join(each.reports for each in made.values()))


def earlier(tree: Tree, known: list[str] | None, table: Any, path: str, protected: bool = False) -> Prior:
    """What a table of an earlier period, its counts or its estimates, says of a tree.

    One that is marked NOT PRIVATE is not protected, whatever the caller says.
    """
    estimates = ESTIMATES[0] in table.column_names
    if not estimates and COUNTS[0] not in table.column_names:
        raise InputError(
            f"{shown(path)} is not a prior: it has neither conversions (counts of an earlier period) nor estimate and "
            f"variance (an earlier report); its columns are {', '.join(table.column_names)}"
        )
    rows = level_columns(table, tree.attributes, path)
    metadata = table.schema.metadata or {}
    several = HISTORY.encode() in metadata
    more = [PERIODS] * several + [NOISY] * (NOISY in table.column_names and NOISY not in tree.attributes)
    for name in (*ESTIMATES, *more) if estimates else COUNTS:
        rows = rows.append_column(name, [floats(table, name, path)])
    rows = mark(noted(rows, history=metadata[HISTORY.encode()].decode()) if several else rows, words_of(table))
    with refused(path):
        if estimates:
            return from_estimates(tree, rows, known=known)
        return from_counts(tree, rows, known=known, protected=protected)


class EarlierPeriod(NamedTuple):
    """What a file says of an earlier period."""

    of: list[Prior]  # of each measure, in its unit
    path: str
    not_private: str  # the words that what is made from it carries on, if any
    reports: frozenset[str] = frozenset()  # the fingerprints of the reports of a folder

    @property
    def notes(self) -> list[str]:
        """What to tell of its periods and of its privacy."""
        said = [f"the prior {shown(self.path)}: {self.of[0].source}"] if self.of[0].source else []
        return said + ([f"the prior {shown(self.path)}: {self.not_private}"] if self.not_private else [])

    def refuse_today(self, *measured: Measurements) -> None:
        """Raises an InputError where figures of today are among the earlier ones: they would count twice."""
        if any(each.fingerprint in self.reports or _is_today(prior, each) for prior in self.of for each in measured):
            raise InputError(
                f"{shown(self.path)} already has a report with the noisy figures that are to be denoised, and they "
                "would count twice; give a report of an earlier period"
            )

    def far(self, number: int, name: str, tree: Tree, count: ArrayLike) -> list[str]:
        """What to tell where a measure's sum was far from that of today's counts."""
        then, now = (float(np.asarray(values)[tree.parent < 0].sum()) for values in (self.of[number].mean, count))
        if not (then > 0 and now > 0) or 1 / FAR <= then / now <= FAR:
            return []
        return [f"{name} of the prior is {then / now:.2g} times today's: is it in the same unit? only shares are used"]


def _is_today(prior: Prior, today: Measurements) -> bool:
    """Whether a prior was made of today's figures, or of some of them: noise does not repeat itself."""
    then = prior.mean if prior.noisy is None and prior.variance is None else prior.noisy
    known = (today.variance < np.inf) & np.isfinite(today.noisy)
    if then is None or today.noisy.ndim > 1:
        return False
    equal = known & np.isclose(then, today.noisy, rtol=1e-9, atol=0)
    fine = today.noisy != np.round(today.noisy)  # the steps of such figures are small, and chance next to none
    chance = np.where(fine, 1e-6, chance_of_equal(today.variance))
    number = int(equal.sum())
    return 0 < number == int(known.sum()) or is_copy(number, float(chance[known & np.isfinite(then)].sum()))


def past_of_parts(plan: Plan, tree: Tree, path: str, protected: bool = False, table: Any = None) -> EarlierPeriod:
    """What a file says of each measure of a plan: a report by measure, or counts under the plan's limits.

    Counts mark what is made from them as not private, unless they were `protected` themselves. `table` is what the
    file holds, if it was read before.
    """
    table, spec = read_earlier(path) if table is None else table, plan.spec
    known = [attribute.name for attribute in spec.known]
    measured = plan.by_measure
    if "estimate" in table.column_names:
        rows = [of_measure(table, spec, path, part.measure.name) for part in measured]
        return _period([earlier(tree, known, each, path) for each in rows], path, table)
    counted, said = earlier(tree, known, table, path, protected), profiled(spec, tree, path, table)
    if said is None:
        return _period([counted], path, table)
    most = plan.most_of_heads(tree)
    sums = [said.limited(part.measure, most, part.clip) for part in measured]
    return _period([replace(counted, mean=mean) for mean in sums], path, table)


def past_of_table(tree: Tree, path: str, protected: bool = False) -> EarlierPeriod:
    """What a file says of figures without a spec; a report of several measures is refused."""
    table = read_earlier(path)
    report = MEASURE in table.column_names and MEASURE not in tree.attributes
    if report and len(table.column(MEASURE).unique()) > 1:
        raise InputError(
            f"{shown(path)} has several measures ({measures_in(table)}), and these are figures of one; keep the rows "
            "of one of them"
        )
    return _period([earlier(tree, None, table, path, protected)], path, table)


def _period(priors: list[Prior], path: str, table: Any) -> EarlierPeriod:
    reports = (table.schema.metadata or {}).get(b"reports", b"").decode().split(",")
    return EarlierPeriod(priors, path, together(*(prior.not_private for prior in priors)), frozenset(reports))


def of_measure(table: Any, spec: Spec, path: str, name: str | None = None) -> Any:
    """The rows of one measure in a report that has several; without a name, of counts, or else of the first."""
    import pyarrow as pa
    import pyarrow.compute as pc

    names = [measure.name for measure in spec.asked]
    wanted = name or (COUNT if COUNT in names else names[0])
    if MEASURE not in table.column_names or MEASURE in spec.levels:
        if len(names) > 1 and "estimate" in table.column_names:
            raise InputError(
                f"{shown(path)} has estimates but no column {MEASURE!r}, and the spec has several measures "
                f"({', '.join(names)}); add the column, with one of these names in each row"
            )
        return table
    rows = table.filter(pc.equal(table.column(MEASURE).cast(pa.string()), wanted))
    if rows.num_rows == 0:
        raise InputError(
            f"{shown(path)} has no rows of measure {wanted!r}, only of {measures_in(table)}; give a report that has it"
        )
    return rows


def measures_in(table: Any) -> str:
    """The names of the first few measures that a table has rows of."""
    import pyarrow as pa

    names = [f"{name!s:.40}" for name in table.column(MEASURE).cast(pa.string()).unique().to_pylist()]
    return ", ".join(names[:SHOWN]) + (", …" if len(names) > SHOWN else "") if names else "none"


def profiled(spec: Spec, tree: Tree, path: str | None, table: Any = None) -> Profile | None:
    """The profile in a prior's file; None without one, or where conversions are counted once each, and nothing else."""
    if path is None or not spec.has_limits:
        return None
    return profile_of(spec, tree, read_earlier(path) if table is None else table, path)


def profile_of(spec: Spec, tree: Tree, table: Any, path: str) -> Profile:
    """The profile in a table of counts, or of estimates; `path` is what messages call it."""
    if "estimate" in table.column_names:
        return _of_estimates(spec, tree, table, path)
    for measure in spec.values:
        if measure.name not in table.column_names:
            raise InputError(
                f"{shown(path)} has no column {measure.name!r}, which the spec measures; count the earlier period by "
                "this spec"
            )
    wanted = ["conversions", "rank", "conversions" + BEYOND]
    wanted += [measure.name + end for measure in spec.values for end in ("", BEYOND, FROM)]

    rows = level_columns(table, tree.attributes, path)
    for name in wanted:
        if name in table.column_names:
            rows = rows.append_column(name, [floats(table, name, path)])
    with refused(path):
        return profile(tree, spec, rows)


def _of_estimates(spec: Spec, tree: Tree, table: Any, path: str) -> Profile:
    """Sums of an earlier report; it does not tell what limits cut off."""

    leaf = tree.in_level_order.leaves
    estimates = {}
    for measure in spec.asked:
        of_one = of_measure(table, spec, path, measure.name)
        rows = level_columns(of_one, tree.attributes, path)
        for name in ("estimate", "variance"):
            rows = rows.append_column(name, [floats(of_one, name, path)])
        with refused(path):
            known = [attribute.name for attribute in spec.known]
            mean = from_estimates(tree, rows, known=known).mean
        estimates[measure.name] = np.maximum(tree.to_level_order(mean)[leaf], 0.0)
    number = estimates.pop(COUNT, np.zeros(len(leaf)))
    return Profile(tree, leaf, number, estimates)
