"""denoise_table: any table of noisy figures, with the estimates beside them.

>>> measured = Measurements.from_table(frame, levels=["campaign", "day"], value="noisy", variance=[8, 4])
>>> denoise(measured).table()                                                   # a row for each node
>>> denoise_table(frame, ["campaign", "day"], "noisy", variance=[8, 4]).table   # your rows and columns, and more
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from attributary.denoising import Estimate
from attributary.denoising.noise_level import estimate_noise
from attributary.errors import InputError
from attributary.estimates import (
    ADDED,
    FROM_PRIOR,
    MEASURED,
    ZERO,
    About,
    Estimates,
    figures_of,
    with_columns,
    with_metadata,
    with_roles,
)
from attributary.estimators import Estimator
from attributary.measurements import Measurements
from attributary.noise import Statement, parse_levels, shape_of
from attributary.pipeline.figure_doubts import AVERAGE, doubts_of, refuse_averages
from attributary.pipeline.level_columns import refuse_sums, refused
from attributary.pipeline.missing_rows import miss_totals
from attributary.pipeline.table_form import TableForm, recognise
from attributary.tables import place, shown
from attributary.tables.table_columns import (
    cell_in_words,
    columns_in_words,
    floats,
    is_text_type,
    mark,
    number_cells,
    plain,
    with_cells,
    words_of,
)
from attributary.tree import Tree
from attributary.types import COUNT, Floats

if TYPE_CHECKING:
    from attributary.facts.quantity import Quantity

NOISY, NOISE_VARIANCE = MEASURED
TOTALS = "say that it marks totals with `totals`, or that it is an ordinary label with `no_totals`"
SIGNED = ("low", "high")  # bounds, which may be below 0
LARGEST = 1e150  # an amount: its square is the largest variance
WAYS = "give `variance`, `std` or `noise`, as in `noise=laplace:scale=3`, or `noise=estimated` if nobody states it"

UNLIKE = "state the noise of each level, or try `noise=estimated:per=level` (per=all takes all levels as alike)"

Amount = str | float | Sequence[float]  # a column, one number, or one per level from top to bottom
Stage = Callable[[str], None]


class Denoised(NamedTuple):
    """A table of estimates, the estimates themselves by measure, and what to say beside them."""

    table: Any  # Arrow
    estimates: dict[str, Estimate]
    notes: list[str]
    recognised: tuple[str, ...] = ()  # what the table was taken for, in words
    doubts: tuple[str, ...] = ()  # what the figures say against it
    misfit: str = ""  # of the prior
    plan: Any = None  # that summary reports were made by

    def quantities(self, confidence: float) -> list["Quantity"]:
        """The estimates with their names, units and taus, as they are shown."""
        from attributary.facts.quantity import quantities

        shown = {name: Estimates.of(est, confidence) for name, est in self.estimates.items()}
        return quantities(self.plan, shown, figure=About.of(self.table.schema.metadata).figure)


class NodeRows(NamedTuple):
    """A table whose rows name nodes, and what was measured of them."""

    form: TableForm
    measured: Measurements  # of the tree's nodes: node i is row i, and those without a row come last


def denoise_table(
    frame: Any,
    levels: Sequence[str] | None = None,
    value: str | None = None,
    *,
    variance: Amount | None = None,
    std: Amount | None = None,
    noise: str | None = None,
    fill: bool = False,
    estimator: Estimator | None = None,
    prior: str | None = None,
    protected: bool = False,
    confidence: float = 0.95,
    prefix: str = "",
    keep_text: bool = True,
    path: str = "the table",
    stage: Stage = lambda _: None,
    **form: Any,
) -> Denoised:
    """The table as it is, with the columns of estimates beside its own.

    Levels, figures and noise are given as in `Measurements.from_table`; what is not given is recognised, and `form` are
    the options of `recognise` that say it. `prior` is the file of an earlier period, for the
    estimator `learned`; exact counts in it mark the result as not private, unless they were `protected` themselves.
    `prefix` goes before the names of the added columns. Rows that are missing (see `missing_rows`) were not
    measured, and are written with `fill`. Unless `keep_text`, figures that are text become numbers.
    `path` is what messages call the table.
    """
    chosen = estimator or Estimator("unbiased" if prior is None else "learned")
    chosen.refuse_unused(prior, protected)
    stage("building the tree")
    recognised, measured = node_rows(
        frame, levels, value, variance=variance, std=std, noise=noise, fill=fill, path=path, **form
    )
    table, tree, path, value = recognised.table, recognised.tree, recognised.path, recognised.value
    stated = parse_levels(noise).values() if noise is not None and ":" in noise else ()
    spent = [variance, std, *(name for each in stated for name in each.columns)]
    column = variance if isinstance(variance, str) else None
    names = _kept_names(table, spent, prefix, path, chosen.uses_prior, column, value)
    copied = _copied(table, names, column, value)
    doubts = doubts_of(measured, path, any(each.rounded for each in stated))
    if AVERAGE.search(value.lower()):
        doubts.append(f"column {value} reads as averages or rates, which do not add up: sums of them are no figures")
    stage("denoising")
    past = None
    if prior is not None:
        # imported here, since plans and specs come with it
        from attributary.pipeline.read_prior import notes_of, prior_of_figures, refuse_today

        past = prior_of_figures(tree, prior, protected)
        refuse_today(past, measured)
    with refused(path):
        est = chosen.denoise(tree, measured, earlier=past, stage=stage)
    stated_in = {value, *(name for name in spent if isinstance(name, str))}
    table = _as_text(table, recognised) if keep_text else _with_numbers(table, recognised, stated_in)
    result = _filled(table, tree) if fill else table
    columns = figures_of(est, confidence)
    order = [name for name in columns if name not in MEASURED] + copied
    added = {prefix + name: columns[name][: result.num_rows] for name in order}
    made = with_metadata(with_columns(result.rename_columns(names), added), est, confidence)
    if not prefix:  # or no report would find the figures, either
        made = with_roles(made, tree, recognised.levels, value, keep_text)
    both = zip(table.column_names, names, strict=True)
    notes = [f"your column {old} is called {new} there" for old, new in both if old != new]
    if past is not None:
        made, notes = mark(made, past.not_private), notes + notes_of(past)
    misfit = "" if past is None else past.misfit(tree)
    return Denoised(made, {COUNT: est}, notes, recognised.notes, tuple(doubts), misfit)


def node_rows(
    frame: Any,
    levels: Sequence[str] | None = None,
    value: str | None = None,
    *,
    variance: Amount | None = None,
    std: Amount | None = None,
    noise: str | None = None,
    no_totals: bool = False,
    path: str = "the table",
    **form: Any,
) -> NodeRows:
    """The tree that a table's rows name, and what was measured of its nodes: see `Measurements.from_table`."""
    amounts = {"`variance`": variance, "`std`": std, "`noise`": noise}
    ways = [name for name, way in amounts.items() if way is not None]
    shapes: tuple[str, ...] = ("laplace",)
    if noise is not None and len(ways) == 2 and ":" not in noise:
        shapes, ways = (shape_of(noise).name,), ways[:1]  # its variance is given, and this is its shape
    if len(ways) != 1:
        got = " and ".join(ways) or "none of them"
        raise InputError(f"the noise is given in one way; got {got}: {WAYS}")
    statements = parse_levels(noise or "") if ways == ["`noise`"] else {}
    columns = [each for each in (variance, std) if isinstance(each, str)]
    columns += [name for statement in statements.values() for name in statement.columns]
    unstated = next((statement for statement in statements.values() if statement.is_estimated), None)
    if unstated is not None and None not in statements:
        raise InputError("noise is estimated of the whole table; estimated:per=level gives each level its own")
    recognised = recognise(frame, levels, value, amounts=columns, no_totals=no_totals, path=path, **form)
    table, path, tree, value = recognised.table, recognised.path, recognised.tree, recognised.value
    noisy, extra, code = recognised.figures, recognised.extra, None
    if statements:
        spread, divisor, code = _stated(recognised, statements)
        shapes = tuple(dict.fromkeys(each.shape.name for each in statements.values()))
        with np.errstate(divide="ignore", invalid="ignore"):
            noisy, extra = noisy / divisor, np.where(extra > 0, extra / divisor**2, 0.0)
    elif variance is not None:
        spread = _amounts(recognised, "variance", "`variance`", variance)
    else:
        assert std is not None
        spread = _amounts(recognised, "std", "`std`", std) ** 2
    spread = spread + extra
    if not (spread < inf).any() and not set(columns) & set(table.column_names):
        raise InputError(f"{shown(path)}: no row was measured: every variance is inf; {WAYS}")
    bad = ~np.isfinite(noisy) & (spread < inf)
    if bad.any():
        row = int(np.argmax(bad))
        raise InputError(
            f"{place(path, row)}: column {value!r} has {cell_in_words(table, value, row)} where a finite number is "
            "needed; if it was not measured, give it variance inf, or all such cells `empty=unmeasured`"
        )
    known = np.where(spread < inf, noisy, np.nan)
    if not no_totals:
        made_up = tree.is_leaf[len(noisy) :]  # leaves for missing rows, which are in no sum
        sums = np.append(known, np.where(made_up, 0.0, np.nan))
        refuse_sums(tree, sums, path, TOTALS, np.pad(spread, (0, len(made_up)), constant_values=inf))

    def measured(form: TableForm) -> NodeRows:
        more = len(form.tree) - len(noisy)  # node i is row i; those without rows come last
        both = ((known, np.nan), (spread, inf))
        figures, variances = (np.pad(values, (0, more), constant_values=none) for values, none in both)
        if unstated is not None:
            per = unstated.given.get("per", "all")
            level = estimate_noise(form.tree, figures, shape=shapes[0], per=per, extra=variances)
            if level.unlike and "per" not in unstated.given:
                raise InputError(f"{shown(path)}: {level.unlike}; {UNLIKE}")
            noted = replace(form, notes=(*form.notes, *level.words))
            return NodeRows(noted, replace(level.measurements, not_private=words_of(table)))
        shape, codes = (shapes[0], None) if code is None or len(shapes) == 1 else (shapes, np.pad(code, (0, more)))
        figures = np.nan_to_num(figures)
        return NodeRows(form, Measurements.of(form.tree, figures, variances, shape, words_of(table), codes))

    with refused(path):
        rows = measured(recognised)
        refuse_averages(rows.measured, value, path)
        short = list(miss_totals(tree, rows.measured)) if form.get("missing") is None else []
        return measured(recognised.with_missing(short)) if short else rows


def _stated(form: TableForm, statements: Mapping[str | None, Statement]) -> tuple[Floats, Floats, Any]:
    """The variance of each row as stated, what its figure is divided by, and the number of its noise's shape."""

    def figures(statement: Statement) -> tuple[Floats, Floats]:
        with refused(form.path):
            known = np.where(form.extra > 0, np.nan, form.figures)
            return statement.figures(lambda name, text: _amounts(form, name, f"{name} in `noise`", text), known)

    tree, rows = form.tree, form.table.num_rows
    if None in statements:
        return *figures(statements[None]), None
    shapes = list(dict.fromkeys(each.shape.name for each in statements.values()))
    spread, divisor, code = np.full(rows, inf), np.ones(rows), np.zeros(rows, np.uint8)
    level = tree.level[:rows]
    lacking = [name for i, name in enumerate(tree.level_names) if name not in statements and (level == i).any()]
    strange = [name for name in statements if name not in tree.level_names]
    if lacking or strange:
        words = (
            f"has no level {strange[0]!r}" if strange else f"has rows of level {lacking[0]!r}, whose noise is missing"
        )
        raise InputError(f"{shown(form.path)} {words}; its levels are {', '.join(tree.level_names)}")
    for name, statement in statements.items():
        here = level == tree.level_names.index(name or "")
        each, parts = figures(statement)
        spread[here], divisor[here], code[here] = each[here], parts[here], shapes.index(statement.shape.name)
    return spread, divisor, code


def _amounts(form: TableForm, name: str, option: str, stated: Amount) -> Floats:
    """An amount of 0 or more for every row: from a column of that name, else one number, else one for each level.

    The cells of suppressed figures may be empty, where only the bound is known.
    """
    table, tree, path = form.table, form.tree, form.path
    largest = LARGEST**2 if name == "variance" else LARGEST
    if isinstance(stated, str) and stated in table.column_names:
        amounts = floats(table, stated, path)
        amounts = np.where(np.isnan(amounts) & (form.extra > 0), 0.0, amounts)
        bad = np.isnan(amounts) if name in SIGNED else ~(amounts >= 0)
        bad |= (np.abs(amounts) > largest) & (amounts < inf)
        if bad.any():
            row = int(np.argmax(bad))
            raise InputError(
                f"{place(path, row)}: column {stated!r} has {cell_in_words(table, stated, row)}; {name} must be 0 "
                f"or more, up to {largest:g}"
                + (", or inf if the row was not measured" if name in ("variance", "std") else "")
            )
        return amounts
    per_level = _per_level(stated)
    if per_level is None:
        raise InputError(
            f"{shown(path)} has no column {stated!r}, which is not a number either; {option} is a column, a number, or "
            f"a number per level, as in 4,2,1; {columns_in_words(table)}"
        )
    if not all(0 <= amount <= largest or amount == inf for amount in per_level):
        raise InputError(f"{name} must be 0 or more, up to {largest:g}; got {option} {stated}")
    if len(per_level) == 1:
        return np.full(table.num_rows, per_level[0])
    if len(per_level) != tree.depth:
        raise InputError(
            f"{option} takes one number, or one for each of the {tree.depth} levels "
            f"({', '.join(tree.level_names)}); got {len(per_level)}"
        )
    return tree.by_level(per_level)[: table.num_rows]


def _per_level(amount: Amount) -> list[float] | None:
    texts = [each.strip() for each in amount.split(",")] if isinstance(amount, str) else np.atleast_1d(amount)
    try:
        numbers = [float(each) for each in texts]
    except (TypeError, ValueError):
        return None
    said = [x < inf or "inf" in str(each).lower() for x, each in zip(numbers, texts, strict=True)]  # 1e400 is too large
    return [x if known else np.nan for x, known in zip(numbers, said, strict=True)]


# The user's columns beside those that are added.


def _kept_names(
    table: Any, spent: Collection[Any], prefix: str, path: str, prior: bool, variance: str | None, value: str
) -> list[str]:
    """The names of the user's columns in the output; refuses those that an added column would hide.

    Those that state the noise (`spent`) are called noise_variance, noise_low and the like instead.
    """
    taken = {prefix + name for name in (*ADDED, *([FROM_PRIOR, ZERO] if prior else []))}
    names = [f"noise_{name}" if name in spent and name in taken else name for name in table.column_names]
    taken |= {prefix + name for name in _copied(table, names, variance, value)}
    clash = next((name for name in names if name in taken or names.count(name) > 1), None)
    if clash is not None:
        raise InputError(
            f"{shown(path)} already has a column {clash!r}, which the output would hold twice; rename it, or put "
            "something before the added names with `prefix`, as in `prefix=denoised_`"
        )
    return names


def _copied(table: Any, names: list[str], variance: str | None, value: str) -> list[str]:
    """Columns to add where the user's has another name: a report would not find the figures and their noise."""
    kept = (name for name, old in zip(names, table.column_names, strict=True) if old == variance)
    return [*([] if value == NOISY else [NOISY]), *([] if NOISE_VARIANCE in kept else [NOISE_VARIANCE])]


def _filled(table: Any, tree: Tree) -> Any:
    """The table with a row for every node of its tree; those it lacked come last, empty but for their path."""
    import pyarrow as pa
    import pyarrow.compute as pc

    nodes = tree.table().slice(table.num_rows)
    if len(nodes) == 0:
        return table
    for name in tree.attributes:  # numbers and dates become text beside a label for the rest
        cells = table.column(name)
        if is_text_type(nodes.column(name).type.value_type) and not is_text_type(plain(cells).type):
            table = with_cells(table, name, plain(cells).cast(pa.string()))
    columns = []
    for field in table.schema:
        if field.name not in tree.attributes:
            columns.append(pa.nulls(len(nodes), field.type))
            continue
        labels = nodes.column(field.name)
        labels = labels.cast(labels.type.value_type)
        if pa.types.is_dictionary(field.type):
            labels = pc.dictionary_encode(labels.cast(field.type.value_type))
        columns.append(labels.cast(field.type))
    schema = pa.schema([field.with_nullable(True) for field in table.schema], table.schema.metadata)
    return pa.concat_tables([table.cast(schema), pa.table(columns, schema=schema)])


def _as_text(table: Any, form: TableForm) -> Any:
    """The table with empty labels instead of nan, which would be a label in text."""
    import pyarrow as pa

    for name in form.levels:
        if pa.types.is_floating(plain(table.column(name)).type):
            table = with_cells(table, name, plain(table.column(name)).to_numpy())
    return table


def _with_numbers(table: Any, form: TableForm, columns: Collection[Any]) -> Any:
    """The table with these columns as numbers, where they are text and there are such: text has no place in Parquet."""
    for name in table.column_names:
        if name in columns and is_text_type(table.column(name).type):
            known = np.where(form.extra > 0, np.nan, form.figures)  # nor have bounds
            cells = known if name == form.value else number_cells(table.column(name))
            table = with_cells(table, name, cells)
    return table
