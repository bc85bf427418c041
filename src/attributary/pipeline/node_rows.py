"""node_rows: a table whose rows name nodes, and what was measured of them, as it is stated or recognised."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from math import inf
from typing import Any, NamedTuple

import numpy as np

from attributary.denoising.noise_level import estimate_noise
from attributary.errors import InputError, QuestionError
from attributary.measurements import Measurements
from attributary.noise import Statement, parse_levels, shape_of
from attributary.pipeline.column_roles import bound_pairs
from attributary.pipeline.figure_doubts import miss_totals, refuse_averages
from attributary.pipeline.level_columns import refuse_sums
from attributary.pipeline.table_form import TableForm, recognise
from attributary.tables import place, shown
from attributary.tables.number_form import is_numeric
from attributary.tables.table_columns import arrow_table, cell_in_words, column, columns_in_words, floats, words_of
from attributary.tree.paths import refused
from attributary.types import Arrow, Floats, Frame

TOTALS = "say that it marks totals with `totals`, or that it is an ordinary label with `no_totals`"
SIGNED = ("low", "high")  # bounds, which may be below 0
LARGEST = 1e150  # an amount: its square is the largest variance
WAYS = "give `variance`, `std` or `noise`, as in `noise=laplace:scale=3`, or `noise=estimated` if nobody states it"

UNLIKE = "state the noise of each level, or try `noise=estimated:per=level` (per=all takes all levels as alike)"

Amount = (
    str | float | Sequence[Any]
)  # a column, one number, or one per level from top to bottom; or one for each figure


class NodeRows(NamedTuple):
    """A table whose rows name nodes, and what was measured of them."""

    form: TableForm
    measured: Measurements  # of the tree's nodes: node i is row i, and those without a row come last
    spent: tuple[str, ...] = ()  # what may be columns that state the noise
    rounded: bool = False  # whether figures are said to be rounded
    margin: Measurements | None = None  # of the form's margin
    apart: str = ""  # why that has no measurements


def figure_rows(
    frame: Frame, levels: Sequence[str] | None, value: str | Sequence[str] | None, **how: Any
) -> list[NodeRows]:
    """What a table says of each of its figures, all of the same tree; options as of `node_rows`."""
    table, given = arrow_table(frame), {name: how.pop(name, None) for name in ("variance", "std", "noise")}
    if isinstance(value, str) and value not in table.column_names and "," in value:
        value = [name.strip() for name in value.split(",")]
    names = [value if value is None else str(value)] if not isinstance(value, list | tuple) else list(map(str, value))
    if not names or len(set(names)) < len(names):
        raise InputError(
            f"figures are in one column or more, each named once; got {', '.join(map(str, names)) or 'none'}"
        )

    def rows(i: int, levels: Sequence[str] | None) -> NodeRows:
        amounts = {name: of_figure(amount, names, i, table.column_names) for name, amount in given.items()}
        others = [name for name in names if name is not None and name != names[i]]
        return node_rows(table, levels, names[i], others=others, **amounts, **how)

    first = rows(0, levels.split(",") if isinstance(levels, str) else levels)
    each = [first, *(rows(i, first.form.levels) for i in range(1, len(names)))]
    if len({one.form.incomplete for one in each}) > 1:  # families that lack rows in one column do in all
        how["missing"] = tuple({node for one in each for node in one.form.incomplete})
        each = [rows(i, first.form.levels) for i in range(len(names))]
    return each


def of_figure(given: Any, names: Sequence[Any], i: int, columns: Collection[str] = ()) -> Any:
    """The noise of one of several figures: its own, where one is stated for each."""
    amount = given.tolist() if isinstance(given, np.ndarray) else given
    if isinstance(amount, str) and len(names) > 1:
        amount = _for_each(amount, names, columns)
    if amount is None or isinstance(amount, str) or not isinstance(amount, Sequence):
        return amount
    if any(isinstance(one, Sequence) for one in amount):
        if len(amount) != len(names):
            raise InputError(f"an amount of noise for each of the {len(names)} columns of figures; got {len(amount)}")
        return amount[i]
    if len(amount) == len(names) > 1:
        raise InputError(
            f"{list(amount)} may be a number per column or per level: give [[{amount[0]}], [{amount[1]}], …] (in a "
            f"command '{amount[0]};{amount[1]}') for one per column, or for each column a list of one per level"
        )
    return amount


def _for_each(text: str, names: Sequence[str], columns: Collection[str]) -> str | list[Any]:
    """Noise as a command states it: one for all figures, `visits=…; revenue=…`, one after the other, or columns."""
    parts = [part.strip() for part in text.split(";")]
    named = {name: model for name, is_equal, model in (part.partition("=") for part in parts) if is_equal}
    if named.keys() & set(names):
        if named.keys() != set(names):
            raise InputError(f"noise of {', '.join(names)} is needed, each once; got that of {', '.join(named)}")
        return [named[name] for name in names]
    by_level = any(":" not in name for name in named)  # region=laplace:scale=3, and not laplace:scale=3
    if len(parts) > 1:
        return text if by_level else parts
    some = [part.strip() for part in text.split(",")]
    if set(some) <= set(columns) and len(some) == len(names):
        return some
    numbers = per_level(text) if len(some) == len(names) else None
    return text if numbers is None else numbers


def stated_bounds(table: Arrow, value: str | None) -> tuple[str, str] | None:
    """The only two columns of numbers that are called low and high or the like; of several pairs that of the figure."""
    pairs = [pair for pair in bound_pairs(table.column_names) if all(is_numeric(column(table, n, "")) for n in pair)]
    own = [pair for pair in pairs if value and re.match(re.escape(value) + r"[\W_]", pair[0], re.IGNORECASE)]
    return (own or pairs)[0] if len(own or pairs) == 1 else None


def node_rows(
    frame: Frame,
    levels: Sequence[str] | None = None,
    value: str | None = None,
    *,
    variance: Amount | None = None,
    std: Amount | None = None,
    noise: str | None = None,
    no_totals: bool = False,
    others: Collection[str] = (),
    path: str = "the table",
    **form: Any,
) -> NodeRows:
    """The tree that a table's rows name, and what was measured of its nodes: see `Measurements.from_table`."""
    amounts = {"`variance`": variance, "`std`": std, "`noise`": noise}
    ways, bounds = [name for name, way in amounts.items() if way is not None], None
    if not ways and (bounds := stated_bounds(frame := arrow_table(frame), value)) is not None:
        noise, ways = f"laplace:interval={bounds[0]},{bounds[1]}@0.95,two-sided", ["`noise`"]
    shapes: tuple[str, ...] = ("laplace",)
    if noise is not None and len(ways) == 2 and ":" not in noise:
        shapes, ways = (shape_of(noise).name,), ways[:1]  # its variance is given, and this is its shape
    if not ways:
        question = (
            f"{shown(path)}: how much noise do the figures have? Say it with `noise`, `std` or `variance`; "
            "`noise=estimated` finds it, where nobody states it."
        )
        raise QuestionError(question, noise="laplace:scale=3")
    if len(ways) > 1:
        raise InputError(f"the noise is given in one way; got {' and '.join(ways)}: {WAYS}")
    statements = parse_levels(noise or "") if ways == ["`noise`"] else {}
    columns = [each for each in (variance, std) if isinstance(each, str)]
    columns += [name for statement in statements.values() for name in statement.columns]
    unstated = next((statement for statement in statements.values() if statement.is_estimated), None)
    if unstated is not None and None not in statements:
        raise InputError("noise is estimated of the whole table; estimated:per=level gives each level its own")
    recognised = recognise(frame, levels, value, amounts=[*columns, *others], no_totals=no_totals, path=path, **form)
    if bounds is not None:
        said = (
            f"noise: {bounds[0]} and {bounds[1]} are two-sided 95% bounds of Laplace noise; else state it with `noise`"
        )
        recognised = replace(recognised, notes=(*recognised.notes, said))
    table, path, tree, value = recognised.table, recognised.path, recognised.tree, recognised.value
    if recognised.second and unstated is not None:
        raise InputError(
            f"{shown(path)}: noise is estimated of one hierarchy alone; state it for all rows, as in "
            "`noise=laplace:scale=3`, or leave out rows of other breakdowns"
        )
    if statements:
        shapes = tuple(dict.fromkeys(each.shape.name for each in statements.values()))
    amount: Any = statements or (("variance", variance) if variance is not None else ("std", std))
    known, spread, code = _noisy_figures(recognised, amount, columns)
    if not no_totals:
        made_up = tree.is_leaf[len(known) :]  # leaves for missing rows, which are in no sum
        sums = np.append(known, np.where(made_up, 0.0, np.nan))
        refuse_sums(tree, sums, path, TOTALS, np.pad(spread, (0, len(made_up)), constant_values=inf))

    spent, rounded = tuple(columns), any(one.rounded for one in statements.values())

    def measured(form: TableForm) -> NodeRows:
        more = len(form.tree) - len(known)  # node i is row i; those without rows come last
        both = ((known, np.nan), (spread, inf))
        figures, variances = (np.pad(values, (0, more), constant_values=none) for values, none in both)
        if unstated is not None:
            per = unstated.given.get("per", "all")
            level = estimate_noise(form.tree, figures, shape=shapes[0], per=per, extra=variances)
            if level.unlike and "per" not in unstated.given:
                raise InputError(f"{shown(path)}: {level.unlike}; {UNLIKE}")
            noted = replace(form, notes=(*form.notes, *level.words))
            return NodeRows(noted, replace(level.measurements, not_private=words_of(table)), spent, rounded)
        shape, codes = (shapes[0], None) if code is None or len(shapes) == 1 else (shapes, np.pad(code, (0, more)))
        figures = np.nan_to_num(figures)
        made = Measurements.of(form.tree, figures, variances, shape, words_of(table), codes)
        return NodeRows(form, made, spent, rounded)

    with refused(path):
        rows = measured(recognised)
        refuse_averages(rows.measured, value, path)
        short = list(miss_totals(tree, rows.measured)) if form.get("missing") is None else []
        rows = measured(recognised.with_missing(short)) if short else rows
    margin = rows.form.margin
    if margin is None:
        return rows
    if unstated is not None:
        return rows._replace(apart=f"the noise of totals by {margin.levels[0]} is not stated")
    try:
        of_margin, its_spread, _ = _noisy_figures(margin, amount, columns)
    except InputError as error:
        return rows._replace(apart=str(error))
    more = (0, len(margin.tree) - len(of_margin))
    of_margin, its_spread = np.pad(np.nan_to_num(of_margin), more), np.pad(its_spread, more, constant_values=inf)
    return rows._replace(margin=Measurements.of(margin.tree, of_margin, its_spread, shapes[0], words_of(table)))


def _noisy_figures(form: TableForm, amount: Any, columns: Collection[str]) -> tuple[Floats, Floats, Any]:
    """The figure of each row, nan where it was not measured, its variance, and the number of its noise's shape."""
    table, noisy, extra, code = form.table, form.figures, form.extra, None
    if isinstance(amount, dict):
        spread, divisor, code = _stated(form, amount)
        with np.errstate(divide="ignore", invalid="ignore"):
            noisy, extra = noisy / divisor, np.where(extra > 0, extra / divisor**2, 0.0)
    else:
        name, stated = amount
        spread = _amounts(form, name, f"`{name}`", stated) ** (2 if name == "std" else 1)
    spread = spread + extra
    if not (spread < inf).any() and not set(columns) & set(table.column_names):
        raise InputError(f"{shown(form.path)}: no row was measured: every variance is inf; {WAYS}")
    bad = ~np.isfinite(noisy) & (spread < inf)
    if bad.any():
        row = int(np.argmax(bad))
        blank = column(table, form.value, form.path)[row].as_py()
        if blank is None or not str(blank).strip():
            at, many = f"{place(form.path, row)}: column {form.value!r}", int(bad.sum())
            if form.pivot is not None:
                at = f"{shown(form.path).rpartition(',')[0]}: {' › '.join(map(str, form.tree.path(row)))}"
            more = f", as {many - 1:,} more have" if many > 1 else ""
            raise QuestionError(
                f"{at} has an empty cell where a figure is needed{more}: not measured, or 0 (`empty=zero`)?",
                empty="unmeasured",
            )
        raise InputError(
            f"{place(form.path, row)}: column {form.value!r} has {cell_in_words(table, form.value, row)} where a "
            "finite number is needed; if it was not measured, give it variance inf"
        )
    return np.where(spread < inf, noisy, np.nan), spread, code


def _stated(form: TableForm, statements: Mapping[str | None, Statement]) -> tuple[Floats, Floats, Any]:
    """The variance of each row as stated, what its figure is divided by, and the number of its noise's shape."""

    def figures(statement: Statement) -> tuple[Floats, Floats]:
        with refused(form.path):
            known = np.where(form.extra > 0, np.nan, form.figures)
            return statement.figures(lambda name, text: _amounts(form, name, f"{name} in `noise`", text), known)

    tree, rows = form.tree, form.table.num_rows
    if None in statements:
        return *figures(statements[None]), None
    if form.second:
        raise _of_no_level(form)
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
    numbers = per_level(stated)
    if numbers is None:
        raise InputError(
            f"{shown(path)} has no column {stated!r}, which is not a number either; {option} is a column, a number, or "
            f"a number per level, as in 4,2,1; {columns_in_words(table)}"
        )
    if not all(0 <= amount <= largest or amount == inf for amount in numbers):
        raise InputError(f"{name} must be 0 or more, up to {largest:g}; got {option} {stated}")
    if len(numbers) == 1:
        return np.full(table.num_rows, numbers[0])
    if form.second:
        raise _of_no_level(form)
    if len(numbers) != tree.depth:
        raise InputError(
            f"{option} takes one number, or one for each of the {tree.depth} levels "
            f"({', '.join(tree.level_names)}); got {len(numbers)}"
        )
    return tree.by_level(numbers)[: table.num_rows]


def _of_no_level(form: TableForm) -> InputError:
    words = "these rows belong to a second breakdown, and the noise is stated by level; state one for all"
    return InputError(f"{shown(form.path)}: {words}")


def per_level(amount: Amount) -> list[float] | None:
    """The numbers of a text, with commas between them; None for what is none."""
    texts = [each.strip() for each in amount.split(",")] if isinstance(amount, str) else np.atleast_1d(amount)
    try:
        numbers = [float(each) for each in texts]
    except (TypeError, ValueError):
        return None
    said = [x < inf or "inf" in str(each).lower() for x, each in zip(numbers, texts, strict=True)]  # 1e400 is too large
    return [x if known else np.nan for x, known in zip(numbers, said, strict=True)]
