"""read_prior: a prior from files: counts of an earlier period, a report of it, or a folder of such reports."""

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import ArrayLike

from attributary.changes.period_files import period_files, table_of_period
from attributary.changes.series import periods
from attributary.errors import InputError
from attributary.estimates import by_measure, has_measures, noted
from attributary.file_kind import TABLES, file_kind, has_nodes
from attributary.logs.labels import label_codes
from attributary.logs.log_files import files, partition
from attributary.measurements import Measurements, chance_of_equal, is_copy
from attributary.pipeline.breakdowns import by_breakdown
from attributary.pipeline.level_columns import level_columns, refuse_sums
from attributary.plan import Plan
from attributary.plan.file import refuse_other_plan
from attributary.prior import Prior, from_counts, from_estimates, none
from attributary.prior.earlier import HISTORY, LATEST, NOISY, PERIODS, Profile, history
from attributary.spec import Logs, Spec
from attributary.spec.breakdown import BREAKDOWN
from attributary.spec.measure import AT, BEYOND, COUNT, FROM, OF
from attributary.tables import read_table, shown
from attributary.tables.as_written import MEASURE
from attributary.tables.table_columns import arrow_table, column, floats, mark, of_label, together, words_of
from attributary.tables.table_source import shards
from attributary.tree import Tree
from attributary.tree.paths import refused, text_labels
from attributary.types import Arrow

COUNTS, ESTIMATES = ("conversions",), ("estimate", "variance")  # the columns that a prior is made of
SHOWN = 5  # names of measures in a message
FAR = 20.0  # times today's sum, or a part of it: then the prior's may be in another unit


def prior_table(path: str) -> Arrow:
    """The table in a file; of a folder, its reports as one (`prior.earlier.history`), by their noisy figures."""
    if not os.path.isdir(path) or shards(path):
        return read_table(path)
    files = period_files(path)
    if not files and (only := table_of_period(path)) is not None:
        files = {os.path.basename(only): only}
    if not files:
        takes = "`prior` takes a folder of earlier reports, as `attributary denoise` or `run` wrote them, or one file"
        raise InputError(f"{shown(path)} is a folder without tables of estimates; {takes}")
    first = read_table(next(iter(files.values())))
    names = first.column(MEASURE).unique().to_pylist() if has_measures(first.column_names) else [None]
    tables = {str(name): history(periods(files, measure=name, least=1)) for name in names}
    words = {name: _note(table, HISTORY) for name, table in tables.items()}
    same = len(set(words.values())) == 1
    told = next(iter(words.values())) if same else "; ".join(f"{name}: {each}" for name, each in words.items())
    reports = ",".join(_note(table, "reports") for table in tables.values())
    return noted(by_measure(tables), history=told, reports=reports)


def read_prior(spec: Spec, tree: Tree, path: str, protected: bool = False, table: Arrow = None) -> Prior:
    """What a file, or the `table` in it, says of the counts of a spec's tree, and of its other measures.

    Counts that were not `protected` themselves mark what is made from them as not private.
    """
    table, known = prior_table(path) if table is None else table, [attribute.name for attribute in spec.known]
    if ESTIMATES[0] not in table.column_names:
        prior = _of_table(tree, known, table, path, protected, spec if spec.has_limits else None)
    else:
        rows = {measure.name: of_measure(table, spec, path, measure.name) for measure in spec.asked}
        each = {name: _of_table(tree, known, mine, path) for name, mine in rows.items()}
        words = together(*(one.not_private for one in each.values()))
        prior = each[COUNT] if COUNT in each else next(iter(each.values()))
        prior = replace(prior, not_private=words, protected=not words, measures=each if len(each) > 1 else {})
        prior = replace(prior, profile=_profile(tree, each)) if spec.has_limits else prior
    refuse_sums(tree, prior.mean, path, "leave its rows out, or rename it")
    return prior


def prior_of_figures(tree: Tree, path: str, protected: bool = False) -> Prior:
    """What a file says of figures without a spec; a report of several measures is refused."""
    table = prior_table(path)
    report = MEASURE in table.column_names and MEASURE not in tree.attributes
    if report and len(table.column(MEASURE).unique()) > 1:
        rule = f"has several measures ({measures_in(table)}), and these are figures of one"
        raise InputError(f"{shown(path)} {rule}; keep the rows of one of them")
    return _of_table(tree, None, table, path, protected)


def under_plan(prior: Prior, plan: Plan, tree: Tree) -> Prior:
    """The prior with a plan's measures as its limits count them; a report's measures are limited already."""
    if prior.profile is None or prior.variance is not None:
        return prior
    most, limited = plan.most_of_heads(tree), prior.profile.limited
    sums = {part.measure.name: limited(part.measure, most, part.clip) for part in plan.by_measure}
    return replace(prior, measures={name: replace(prior, mean=mean) for name, mean in sums.items()})


def _of_table(
    tree: Tree, known: list[str] | None, table: Arrow, path: str, protected: bool = False, spec: Spec | None = None
) -> Prior:
    """The prior in a table of counts (and of measures, with a spec) or of one measure's estimates."""
    metadata, names = table.schema.metadata or {}, table.column_names
    if ESTIMATES[0] in names:
        several, own = HISTORY.encode() in metadata, NOISY in names and NOISY not in tree.attributes
        rows = _rows(tree, table, path, (*ESTIMATES, *[PERIODS] * several, *[NOISY] * own))
        rows = noted(rows, history=_note(table, HISTORY)) if several else rows
    elif COUNTS[0] in names:
        rows = _rows(tree, table, path, COUNTS) if spec is None else count_rows(spec, tree, table, path)
    else:
        needed = "neither conversions (counts of an earlier period) nor estimate and variance (an earlier report)"
        raise InputError(f"{shown(path)} is not a prior: it has {needed}; its columns are {', '.join(names)}")
    rows = mark(rows, words_of(table))
    with refused(path):
        if ESTIMATES[0] in names:
            prior = from_estimates(tree, rows, known=known)
        else:
            prior = from_counts(tree, rows, known=known, protected=protected, spec=spec)
    return replace(prior, path=path, reports=frozenset(_note(table, "reports").split(",")))


def count_rows(spec: Spec, tree: Tree, table: Arrow, path: str) -> Arrow:
    """The columns of a table of counts that a spec's measures and limits go by."""
    for measure in spec.values:
        if measure.name not in table.column_names:
            rule = f"has no column {measure.name!r}, which the spec measures"
            raise InputError(f"{shown(path)} {rule}; count the earlier period by this spec")
    wanted = [*COUNTS, "rank", COUNTS[0] + BEYOND]
    sums = AT, *(measure.name + OF for measure in spec.values)
    wanted += [measure.name + end for measure in spec.values for end in ("", BEYOND, FROM)]
    return _rows(tree, table, path, [n for n in table.column_names if n in wanted or n.startswith(sums)])


def _rows(tree: Tree, table: Arrow, path: str, names: Sequence[str]) -> Arrow:
    """The columns that name nodes, and beside them these columns as numbers."""
    rows = level_columns(table, tree.attributes, path)
    for name in names:
        rows = rows.append_column(name, [floats(table, name, path)])
    return rows


def _note(table: Arrow, name: str) -> str:
    return str((table.schema.metadata or {}).get(name.encode(), b"").decode())


def of_measure(table: Arrow, spec: Spec, path: str, name: str | None = None) -> Arrow:
    """The rows of one measure in a report that has several; without a name, of counts, or else of the first."""
    names = [measure.name for measure in spec.asked]
    wanted = name or (COUNT if COUNT in names else names[0])
    if MEASURE not in table.column_names or MEASURE in spec.levels:
        if len(names) > 1 and "estimate" in table.column_names:
            rule = f"has estimates but no column {MEASURE!r}, and the spec has several measures ({', '.join(names)})"
            raise InputError(f"{shown(path)} {rule}; add the column, with one of these names in each row")
        return table
    rows = table.filter(pc.equal(table.column(MEASURE).cast(pa.string()), wanted))
    if rows.num_rows == 0:
        rule = f"has no rows of measure {wanted!r}, only of {measures_in(table)}"
        raise InputError(f"{shown(path)} {rule}; give a report that has it")
    return rows


def measures_in(table: Arrow) -> str:
    """The names of the first few measures that a table has rows of."""
    names = [f"{name!s:.40}" for name in table.column(MEASURE).cast(pa.string()).unique().to_pylist()]
    return ", ".join(names[:SHOWN]) + (", …" if len(names) > SHOWN else "") if names else "none"


def _profile(tree: Tree, measures: dict[str, Prior]) -> Profile:
    """The sums in a report; it does not tell what limits cut off."""
    leaf = tree.in_level_order.leaves
    sums = {name: np.maximum(tree.to_level_order(one.mean)[leaf], 0.0) for name, one in measures.items()}
    return Profile(tree, leaf, sums.pop(COUNT, np.zeros(len(leaf))), sums)


# What is told of a prior, and what is refused, beside today's figures.


def notes_of(prior: Prior) -> list[str]:
    """What to tell of a prior's periods and of its privacy."""
    return [f"the prior {shown(prior.path)}: {words}" for words in (prior.source, prior.not_private) if words]


def refuse_today(prior: Prior, *measured: Measurements) -> None:
    """Raises an InputError where figures of today are among those of the prior: they would count twice."""
    priors = [prior, *prior.measures.values()]
    if any(today.fingerprint in one.reports or _is_today(one, today) for one in priors for today in measured):
        rule = "already has a report with the noisy figures that are to be denoised, and they would count twice"
        raise InputError(f"{shown(prior.path)} {rule}; give a report of an earlier period")


def far(prior: Prior, measure: str, tree: Tree, count: ArrayLike) -> list[str]:
    """What to tell where the prior's sum of a measure is far from that of today's counts."""
    before, now = (float(np.asarray(values)[tree.parent < 0].sum()) for values in (prior.of(measure).mean, count))
    if not (before > 0 and now > 0) or 1 / FAR <= before / now <= FAR:
        return []
    return [f"{measure} of the prior is {before / now:.2g} times today's: is it in the same unit? only shares are used"]


def _is_today(prior: Prior, today: Measurements) -> bool:
    """Whether a prior was made of today's figures, or of some of them: noise does not repeat itself."""
    figures = prior.mean if prior.noisy is None and prior.variance is None else prior.noisy
    known = (today.variance < np.inf) & np.isfinite(today.noisy)
    if figures is None or today.noisy.ndim > 1:
        return False
    equal = known & np.isclose(figures, today.noisy, rtol=1e-9, atol=0)
    fine = today.noisy != np.round(today.noisy)  # the steps of such figures are small, and chance next to none
    chance = np.where(fine, 1e-6, chance_of_equal(today.variance))
    number = int(equal.sum())
    return 0 < number == int(known.sum()) or is_copy(number, float(chance[known & np.isfinite(figures)].sum()))


# The tree to query, from the impressions that occurred or from counts, and the prior on it.

COVERS = "impressions"  # in the metadata of a tree: "all", if all that its reports may hold conversions of are in it


class TreeAndPrior(NamedTuple):
    """The tree that a plan is made for, and its prior."""

    tree: Tree
    prior: Prior


def read_tree_and_prior(
    spec: Spec,
    tree_path: str | None,
    prior_path: str | None,
    protected: bool,
    table: Arrow = None,
    breakdown: str = "",
) -> TreeAndPrior:
    """The tree that will be queried, and the prior on it; where no paths are given, they are the prior's.

    A `table` has what was read from the prior's file, of several breakdowns the rows of the one named.
    """
    known = [attribute.name for attribute in spec.known]
    if protected and prior_path is None:
        raise InputError("`protected` describes the counts in `prior`; give those, or leave it out")
    if known and tree_path is None and prior_path is None:
        remedy = "give counts of an earlier period with `prior`, or a table of them with `tree`"
        raise InputError(f"a plan needs the values of {', '.join(known)} that will be queried; {remedy}")
    table = prior_table(prior_path) if table is None and prior_path is not None else table
    if tree_path is not None:
        tree = read_tree(spec, (tree_path,), breakdown)
    elif prior_path is None or not known:
        tree = spec.tree()
    else:
        rows = of_measure(table, spec, prior_path)
        if HISTORY.encode() in (rows.schema.metadata or {}):  # what is queried is what the last period had
            rows = rows.filter(rows.column(LATEST))
        occurring = [attribute.name for attribute in spec.unknown if attribute.occurs]
        rows = level_columns(rows, [*known, *occurring], prior_path)
        with refused(prior_path):
            tree = spec.tree(rows)
    if prior_path is None:
        return TreeAndPrior(tree, none(tree))
    return TreeAndPrior(tree, read_prior(spec, tree, prior_path, protected, table))


def trees_and_priors(spec: Spec, tree_path: str | None, prior_path: str | None, protected: bool) -> list[TreeAndPrior]:
    """The tree of each breakdown, and the prior on it; the tree is a table with the known attributes of all."""
    table = None if prior_path is None else prior_table(prior_path)
    rows = [None] * len(spec.parts) if table is None else by_breakdown(spec, table, str(prior_path))
    return [
        read_tree_and_prior(part, tree_path, prior_path, protected, own, name)
        for part, own, name in zip(spec.parts, rows, spec.called or ("",), strict=True)
    ]


def read_tree(spec: Spec, names: tuple[str, ...], breakdown: str = "") -> Tree:
    """The tree of the impressions, or counts, in some files; names, patterns and folders.

    Of counts of several breakdowns, only the rows of this one.
    """
    paths = names if "-" in names else tuple(files(names).paths)
    if not spec.known:
        return spec.tree()
    tables = _tables(spec, paths, breakdown)
    if breakdown and not any(table.num_rows for table in tables.values()):
        raise InputError(f"{', '.join(paths)} has no rows of the breakdown {breakdown!r}; make it by this spec")
    return _tree_of(spec, tables)


class QueriedTrees(NamedTuple):
    """The tree of each breakdown that reports were queried by."""

    trees: list[Tree]
    covers: bool = False  # whether all impressions that the reports may hold conversions of are in them


def read_queried(plan: Plan, path: str, name: str = "the plan") -> QueriedTrees:
    """The trees in a file that `keys --impressions` wrote; refuses those of another plan."""
    trees, covers = [], True
    for part, breakdown in zip(plan.spec.parts, plan.names, strict=True):
        tables = _tables(part, tuple(files((path,)).paths), breakdown)
        for file, table in tables.items():
            said = table.schema.metadata or {}
            refuse_other_plan(file, said.get(b"plan", b""), plan.fingerprint, name)
            covers &= said.get(COVERS.encode()) == b"all"
            if breakdown and not table.num_rows:
                raise InputError(f"{file} has no rows of the breakdown {breakdown!r}; make it by this plan")
        trees.append(_tree_of(part, tables))
    return QueriedTrees(trees, covers)


def _tables(spec: Spec, paths: tuple[str, ...], breakdown: str = "") -> dict[str, Arrow]:
    tables = {}
    for path in paths:
        if "://" in path:
            raise InputError(f"{path} is an address, which only counting reads; copy the file, or give counts of it")
        known = None if path == "-" else file_kind(path, "tree")
        if known is not None and known.kind not in (*TABLES, "other"):
            known.refuse("tree")
        table = read_table(path) if known is None else known.table
        for name, cell in partition(path).items():  # columns that folders are named after, as counting reads them
            if name not in table.column_names:
                table = table.append_column(name, pa.array([cell] * table.num_rows, pa.string()))
        table = of_label(table, BREAKDOWN, breakdown, ()) if breakdown and BREAKDOWN in table.column_names else table
        for name in known_columns(spec, table.column_names):
            column(table, name, path)  # or an error that tells what there is
        tables[path] = table
    return tables


def _tree_of(spec: Spec, tables: dict[str, Arrow]) -> Tree:
    paths = list(tables)
    with refused(paths[0] if len(paths) == 1 else f"{paths[0]} and {len(paths) - 1} more"):
        return queried_tree(spec, list(tables.values()))


def queried_tree(spec: Spec, tables: Sequence[Arrow]) -> Tree:
    """The tree of the impressions in some tables, or of counts; known attributes as they occur, unknown ones in full.

    Rows of impressions are labelled as in counts: what is missing is `missing`. In a table of nodes, an empty cell
    means that the node is above.
    """
    if not spec.known:
        return spec.tree()
    labels = []
    for table in map(arrow_table, tables):
        columns = dict(zip(spec.known, known_columns(spec, table.column_names), strict=True))
        if has_nodes(table.column_names):
            labels.append(pa.table({a.name: text_labels(table, name) for a, name in columns.items()}))
        else:
            coded = {a.name: label_codes(table, name, a, spec.logs or Logs()).coded for a, name in columns.items()}
            labels.append(pa.table(coded))
    return spec.tree(pa.concat_tables(labels).unify_dictionaries())


def known_columns(spec: Spec, columns: Sequence[str]) -> tuple[str, ...]:
    """The columns of the known attributes: their names in the logs, if the table has these, or in the spec."""
    called = {} if spec.logs is None else spec.logs.impression_columns
    names = (called.get(a.name, a.name) for a in spec.known)
    return tuple(name if name in columns else a.name for a, name in zip(spec.known, names, strict=True))
