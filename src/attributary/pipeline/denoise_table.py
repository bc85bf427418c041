"""denoise_table: any table of noisy figures, with the estimates beside them.

>>> measured = Measurements.from_table(frame, levels=["campaign", "day"], value="noisy", variance=[8, 4])
>>> denoise(measured).table()                                                   # a row for each node
>>> made = denoise_table(frame, ["campaign", "day"], "noisy", variance=[8, 4])
>>> made.frame()                                                                # your rows and columns, and more
>>> made.report("report.html"); made.changes(by="day"); made.check()
"""

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from html import escape
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, NamedTuple

from attributary.denoising import Estimate
from attributary.denoising.joint import Joint
from attributary.errors import InputError
from attributary.estimates import ADDED, FROM_PRIOR, ZERO, Estimates, about, by_measure, estimates_table, noted
from attributary.estimators import FIT, Estimator, refuse_estimator
from attributary.pipeline.check_table import TableCheck, check_table
from attributary.pipeline.figure_doubts import AVERAGE, doubts_of
from attributary.pipeline.grouping_sets import TablePart, denoised_parts, parts_of, with_margin
from attributary.pipeline.node_rows import Amount, NodeRows, figure_rows, of_figure
from attributary.pipeline.table_form import TableForm
from attributary.pipeline.written_table import Layout, written_parts, written_table
from attributary.spec.breakdown import BREAKDOWN
from attributary.tables import Format, read_table, shown
from attributary.tables.as_written import BELOW
from attributary.tables.table_columns import arrow_table, in_kind, mark, together, words_of
from attributary.tree.paths import refused
from attributary.types import COUNT, Arrow, Frame, Ints

if TYPE_CHECKING:
    from attributary.changes.series import Series
    from attributary.facts.quantity import Quantity

Stage = Callable[[str], None]
AMOUNTS = ("variance", "std", "noise")  # options that state the noise


class Denoised(NamedTuple):
    """A table of estimates, the estimates themselves by measure, and what to say beside them."""

    table: Arrow
    estimates: dict[str, Estimate]
    notes: list[str]
    recognised: tuple[str, ...] = ()  # what the table was taken for, in words
    doubts: tuple[str, ...] = ()  # what the figures say against it
    misfit: str = ""  # of the prior
    plan: Any = None  # that summary reports were made by
    breakdowns: Mapping[str, Any] = {}  # of several, the `Denoised` of each by name; the table has all of them

    def quantities(self, confidence: float) -> list["Quantity"]:
        """The estimates with their names, units and taus, as they are shown."""
        from attributary.facts.quantity import quantities

        shown = {name: Estimates.of(est, confidence) for name, est in self.estimates.items()}
        return quantities(self.plan, shown, figure=about(self.table.schema.metadata).figure)

    def written(self, format: Format | None) -> Arrow:
        """The table for a file of this format."""
        return self.table


@dataclass(frozen=True, eq=False, repr=False)
class DenoisedTable:
    """A user's table with its estimates: in its kind, as a page, as a file, and what changed between its periods."""

    given: Frame  # the user's table, in its kind
    layout: Layout
    estimates: dict[str, Estimate]  # by figure, or `count` where there is one
    notes: list[str]
    recognised: tuple[str, ...]  # what the table was taken for, in words
    doubts: tuple[str, ...]  # what the figures say against it
    misfit: str  # of the prior
    not_private: str
    options: Mapping[str, object]  # of `check_table`
    margins: dict[str, Joint]  # the same of rows of totals that are a second breakdown, where they are
    parts: tuple[tuple[Layout, dict[str, Joint], Ints], ...] = ()  # of several breakdowns: this first, and the others

    def __repr__(self) -> str:
        return f"DenoisedTable({', '.join(f'{form.called}: {est!r}' for form, est in self._by_form)})"

    def _repr_html_(self) -> str:
        from attributary.report.notebook import estimate_html

        each = [estimate_html(est, form.called) for form, est in self._by_form]
        return "".join(each) + "".join(f"<div>{escape(note)}</div>" for note in (*self.recognised, *self.doubts))

    @property
    def _by_form(self) -> list[tuple[TableForm, Estimate]]:
        return list(zip(self.layout.forms, self.estimates.values(), strict=True))

    def written(self, format: Format | None) -> Arrow:
        """The Arrow table for a file of this format, in the shape of the user's."""
        if self.parts:
            return mark(written_parts(self.parts, format), self.not_private)
        return mark(written_table(self.layout, self.estimates, format, self.margins), self.not_private)

    @cached_property
    def table(self) -> Arrow:
        """The Arrow table: the user's rows and columns, and the estimates beside them."""
        return self.written(None)

    @property
    def nodes(self) -> Arrow:
        """The Arrow table of a row for each node and figure, as `attributary run` writes it."""
        confidence, tables = self.layout.confidence, dict[str, Arrow]()
        for name, (form, est) in zip(self.estimates, self._by_form, strict=True):
            tables[name] = noted(estimates_table(est, confidence), figure=form.called)
        return mark(by_measure(tables), together(words_of(self.layout.base), self.not_private))

    def frame(self) -> Frame:
        """The same in the kind of table that was given."""
        return in_kind(self.given, self.table)

    @property
    def measures(self) -> dict[str, Estimates]:
        """The estimates as a page shows them, by figure."""
        confidence = self.layout.confidence
        return {
            name: replace(Estimates.of(est, confidence), figure=form.called)
            for name, (form, est) in zip(self.estimates, self._by_form, strict=True)
        }

    def quantities(self, confidence: float) -> list["Quantity"]:
        """The estimates with the names of their figures, as they are shown."""
        from attributary.facts.quantity import quantities

        return quantities(None, self.measures)

    def report(self, path: str) -> None:
        """Writes the page that `attributary report` makes of these estimates."""
        from attributary.report import ReportInputs, page, save

        save(page(ReportInputs(measures=self.measures, not_private=self.not_private)).html, path)

    def changes(self, by: str, value: str | None = None, **options: Any) -> "Series":
        """What changed between the labels of the last level, such as month; of several figures, name one."""
        from attributary.changes import periods

        measures = self.measures
        return periods(measures[value or next(iter(measures))], by=by, **options)

    def check(self, value: str | None = None) -> TableCheck:
        """Whether the table adds up, how noisy it is, and what its figures say against it."""
        i = list(self.estimates).index(value) if value else 0
        form = self.layout.forms[i]
        names = [form.value for form in self.layout.forms]
        columns = self.layout.base.column_names
        amounts = {name: of_figure(self.options[name], names, i, columns) for name in ("variance", "std", "noise")}
        named = (form.levels, form.value) if form.pivot is None else (None, None)
        given = self.layout.base if self.parts else self.given
        return check_table(given, *named, **{**self.options, **amounts})


def denoise_table(
    frame: Frame,
    levels: Sequence[str] | None = None,
    value: str | Sequence[str] | None = None,
    *,
    variance: Amount | None = None,
    std: Amount | None = None,
    noise: str | Sequence[str] | None = None,
    fill: bool = False,
    estimator: Estimator | str | None = None,
    prior: str | None = None,
    protected: bool = False,
    confidence: float = 0.95,
    prefix: str = "",
    path: str = "the table",
    stage: Stage = lambda _: None,
    **form: object,
) -> DenoisedTable:
    """The table as it is, with the columns of estimates beside its own: all that `denoise --table` does.

    `frame` may be the path of a file, too.
    Levels, figures and noise are given as in `Measurements.from_table`; what is not given is recognised, and `form` are
    the options of `recognise` that say it. Of several figures, `value` lists the columns, and `noise`, `std` or
    `variance` may list what each of them has. `prior` is the file of an earlier period, for the
    estimator `learned`; exact counts in it mark the result as not private, unless they were `protected` themselves.
    `prefix` goes before the names of the added columns. Rows that are missing (see `missing_rows`) were not
    measured, and are written with `fill`. `path` is what messages call the table.
    """
    if isinstance(frame, str | PathLike):
        path, frame = fspath(frame), read_table(fspath(frame))
    chosen = Estimator(estimator) if isinstance(estimator, str) else estimator
    chosen = chosen or Estimator("unbiased" if prior is None else "learned")
    chosen.refuse_unused(prior, protected)
    stage("building the tree")
    amounts = {"variance": variance, "std": std, "noise": noise}
    source, how = arrow_table(frame), {**amounts, "path": path, **form}
    parts = _parts(source, levels, value, how) if BREAKDOWN in source.column_names else []
    try:
        every = [] if parts else figure_rows(frame, levels, value, **how, fill=fill)
    except InputError:
        with suppress(InputError):  # else what is wrong with it as a hierarchy is said
            parts = _parts(source, levels, value, how)
        if not parts:
            raise
    output = _Output(variance if isinstance(variance, str) else None, prefix, confidence, fill)
    if parts:
        refuse_estimator(chosen)
        told = levels is not None or BREAKDOWN in source.column_names
        return _denoised_parts(frame, parts, value, output, how, stated=told, nonnegative=chosen == FIT)
    forms, tree, path = tuple(one.form for one in every), every[0].form.tree, every[0].form.path
    layout = output.layout(every)
    names = layout.names([*ADDED, *([FROM_PRIOR, ZERO] if chosen.uses_prior else [])])
    doubts = [doubt for one in every for doubt in _doubts(one, path, len(every) > 1)]
    stage("denoising")
    past = None
    if prior is not None:
        if len(every) > 1:
            raise InputError("`prior` is of one figure; denoise each figure by itself, or leave `prior` out")
        # imported here, since plans and specs come with it
        from attributary.pipeline.read_prior import notes_of, prior_of_figures, refuse_today

        past = prior_of_figures(tree, prior, protected)
        refuse_today(past, every[0].measured)
    apart, estimates, margins = _apart(every, chosen, path), dict[str, Estimate](), dict[str, Joint]()
    for one in every:
        name, margin = COUNT if len(every) == 1 else one.form.value, one.form.margin
        if margin is not None and one.margin is not None and not apart:
            estimates[name], margins[name] = with_margin(one.measured, one.margin, one.form.table, path, chosen == FIT)
            continue
        with refused(path):
            estimates[name] = chosen.denoise(tree, one.measured, earlier=past, stage=stage)
    notes = _renamed(layout.base.column_names, names)
    return DenoisedTable(
        frame,
        layout,
        estimates,
        notes + ([] if past is None else notes_of(past)),
        (*dict.fromkeys(note for each in forms for note in each.notes), *_totals_in_words(forms[0], apart)),
        tuple(doubts),
        "" if past is None else past.misfit(tree),
        "" if past is None else past.not_private,
        {**amounts, "path": path, **form},
        margins,
    )


class _Output(NamedTuple):
    """How the estimates of a table are written."""

    variance: str | None
    prefix: str
    confidence: float
    fill: bool

    def layout(self, every: Sequence[NodeRows]) -> Layout:
        """The layout of figures of one tree."""
        spent = tuple(name for one in every for name in one.spent)
        return Layout(tuple(one.form for one in every), spent, self.variance, self.prefix, self.confidence, self.fill)


def _renamed(old: Sequence[str], new: Sequence[str]) -> list[str]:
    """What is said of the user's columns that have another name in the output."""
    return [f"your column {a} is called {b} there" for a, b in zip(old, new, strict=True) if a != b]


def _parts(table: Arrow, levels: Sequence[str] | None, value: Any, how: Mapping[str, Any]) -> list[TablePart]:
    spent = [name for amount in AMOUNTS for name in re.findall(r"[^,;=:@]+", str(how[amount]))]
    return parts_of(table, levels.split(",") if isinstance(levels, str) else levels, value, spent, how, how["path"])


def _denoised_parts(
    frame: Frame,
    parts: Sequence[TablePart],
    value: Any,
    output: _Output,
    how: Mapping[str, Any],
    *,
    stated: bool,
    nonnegative: bool,
) -> DenoisedTable:
    """The estimates of a table with rows of several breakdowns, which are denoised together."""
    path, table, each = how["path"], arrow_table(frame), list[list[NodeRows]]()
    names = [BELOW.join(part.levels) for part in parts]
    if output.fill:
        raise InputError(
            f"{shown(path)} has rows by {', '.join(names)}: `fill` adds rows to one hierarchy alone; leave it out"
        )
    for part, name in zip(parts, names, strict=True):
        own = {**how, "totals": part.totals, "path": f"{path}, rows by {name}" if each else path, "second": True}
        each.append(figure_rows(table.take(part.rows), part.levels, value, **own, fill=True))
        value = [one.form.value for one in each[0]]
        if each[-1][0].form.incomplete:
            raise InputError(
                f"{shown(own['path'])}: rows are missing, so that other rows are not their sums; add them, "
                "with empty figures and `empty=unmeasured` if nobody measured them, or give `missing=zero` if no "
                "breakdown has any"
            )
    layouts = [output.layout(every) for every in each]
    new = [layout.names(ADDED) for layout in layouts][-1]  # each is checked
    estimates: list[dict[str, Joint]] = [{} for _ in parts]
    for one in zip(*each, strict=True):
        trees = [(rows.form.tree, rows.measured) for rows in one]
        for made, est in zip(estimates, denoised_parts(trees, names, path, stated, nonnegative), strict=True):
            made[COUNT if len(each[0]) == 1 else one[0].form.value] = est
    every = [one for rows in each for one in rows]
    return DenoisedTable(
        frame,
        layouts[0],
        dict(estimates[0]),
        _renamed(table.column_names, new),
        (
            *dict.fromkeys(n for one in every for n in one.form.notes),
            f"rows of {len(parts)} breakdowns, denoised together: {'; '.join(names)}",
        ),
        tuple(d for one in every for d in _doubts(one, one.form.path, len(each[0]) > 1)),
        "",
        "",
        dict(how),
        {},
        tuple(zip(layouts, estimates, (part.rows for part in parts), strict=True)),
    )


def _apart(every: Sequence[NodeRows], chosen: Estimator, path: str) -> str:
    """Why rows of totals that are a second breakdown of a pivot are left out; nothing if they are not.

    Such rows of another table would have no estimates, and are refused.
    """
    first = every[0].form
    if first.margin is None:
        return ""
    reason = next((one.apart for one in every if one.apart), "")
    if chosen not in (Estimator(), FIT):
        options = f"estimator={chosen.name}" + " and `whole`" * chosen.whole
        reason = f"{options} denoises one hierarchy alone"
    if not reason and (every[0].form.incomplete):
        reason = "rows are missing, so that they are not the sums of those there (`missing=zero` counts them as 0)"
    if reason and first.pivot is None:
        by = first.margin.levels[0]
        raise InputError(
            f"{shown(path)} has totals by {by} beside {' > '.join(first.levels)}: {reason}; or leave out these rows"
        )
    return reason


def _totals_in_words(form: TableForm, apart: str) -> list[str]:
    """What became of rows of totals that are no nodes of the hierarchy."""
    if form.pivot is not None and form.margin is None:
        wide, rows = form.pivot.wide, int((~form.pivot.inner).sum())
        kept = f"of which {wide.margin} is used" if wide.margin else "none of which is used"
        why = "since they are far from the sums of the rows"
        return [f"{rows:,} row{'s' * (rows > 1)} of totals, {kept}: totals by {wide.level} are left out, {why}"] * (
            rows > 0
        )
    if form.margin is None:
        return []
    by = " > ".join(form.margin.levels)
    if apart:
        return [f"rows of totals: sums by {by} are left out, since {apart}"]
    return [f"rows of totals: sums by {by}, denoised together with the cells"]


def _doubts(rows: NodeRows, path: str, several: bool) -> list[str]:
    value = rows.form.value
    doubts = doubts_of(rows.measured, path, rows.rounded)
    if AVERAGE.search(value.lower()):
        doubts.append(f"column {value} reads as averages or rates, which do not add up: sums of them are no figures")
    return [f"{value}: {doubt}" for doubt in doubts] if several else doubts
