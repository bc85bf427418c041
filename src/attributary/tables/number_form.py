"""Number form: how the figures of a text column are written (1,234.5 or 1.234,5 or 1 234), decided by all its cells."""

from typing import Any

from attributary.errors import InputError
from attributary.tables.table_columns import (
    FIRST,
    SHOWN,
    cell_in_words,
    column,
    first_grouped,
    is_text_type,
    number_cells,
)  # fmt: skip
from attributary.tables.text_faults import place

GAPS = " \u00a0\u2009\u202f'’"  # what may stand between thousands besides a point or a comma
OTHER = {".": ",", ",": "."}
WORDS = {".": "decimal point", ",": "decimal comma"}


def plain_numbers(
    table: Any, name: str, path: str, decimal: str | None = None, likely: str | None = None
) -> tuple[Any, str]:
    """The table with this column as numbers if it is text of another form than ours, and a note of what was assumed.

    The form is the one that all cells fit. Where two do, as for 1,234 or 10.307 alone, it is that with the
    sign that is `likely`, as other columns have it; if there is none, an InputError asks for `decimal`.
    """
    import pyarrow.compute as pc

    if decimal is not None and decimal not in WORDS:
        raise InputError(f"the decimal sign is . or ,; got {decimal[:SHOWN]!r}")
    cells = column(table, name, path)
    if not is_text_type(cells.type):
        return table, ""
    both = decimal is None and _fits_both(cells)
    if decimal is None and not both and _is_plain(cells):
        return table, ""
    sign = decimal or (likely if both else _decimal(cells))
    if sign is None:
        row = _first(cells, "[.,]")
        text = cells[row].as_py().strip()[:SHOWN]
        whole, part = (text.replace(each, way) for each, way in ((".", ""), (",", ".")))
        raise InputError(
            f"{place(path, row)}: {cell_in_words(table, name, row)} in column {name!r} may be "
            f"{whole.replace(',', '')} or {part}: all signs there have three digits after them; say which with "
            "--decimal . or --decimal ,"
        )
    unfit = int(pc.index(_fits(cells, sign), False).as_py())
    if unfit >= 0 and decimal is None:
        return table, ""  # some cell is not a number in any form, which reading it will tell
    if unfit >= 0:
        words = cell_in_words(table, name, unfit)
        raise InputError(f"{place(path, unfit)}: {words} in column {name!r} is not a number with a {WORDS[sign]}")
    row = _first(cells, f"[.,−{GAPS}]")
    if row < 0:
        return table, ""
    made, at = _numbers(cells, sign), table.column_names.index(name)
    example = f"{cells[row].as_py().strip()[:SHOWN]} is read as {made[row].as_py():.12g}"
    return table.set_column(at, name, made), f"column {name}: {example}"


def decimal_sign(cells: Any) -> str | None:
    """The decimal sign that the texts of a column show, some of which fit no other; None where none do."""
    signs = [] if not is_text_type(cells.type) or _fits_both(cells) else [_decimal(cells)]
    return next((sign for sign in signs if sign and _first(cells, "[.,]") >= 0), None)


def _fits_both(cells: Any) -> bool:
    """Whether the signs in a column may be decimal or between thousands: all have three digits after them."""
    import pyarrow.compute as pc

    for part in (cells.slice(0, FIRST), cells):  # the first cells nearly always tell
        if _first(part, "[0-9]") >= 0 and not all(pc.all(_fits(part, sign)).as_py() for sign in WORDS):
            return False
    return _first(cells, "[.,]") >= 0


def _is_plain(cells: Any) -> bool:
    """Whether the cells are numbers as they stand, and none of their points may be between thousands."""
    import pyarrow as pa

    try:
        number_cells(cells)
    except pa.ArrowInvalid:
        return False
    return first_grouped(cells) is None


def _decimal(cells: Any) -> str:
    """The decimal sign that all cells fit; a point where none do, or where both do and it does not matter."""
    import pyarrow.compute as pc

    return next((sign for sign in WORDS if pc.all(_fits(cells, sign)).as_py()), ".")


def _fits(cells: Any, sign: str) -> Any:
    """Which cells are empty or numbers with this decimal sign, their thousands with one kind of gap or none."""
    import pyarrow.compute as pc

    grouped = "|".join(rf"[1-9][0-9]{{0,2}}(?:[{gap}][0-9]{{3}})+" for gap in (*GAPS, OTHER[sign]))
    figure = rf"[-+−]?(?:(?:[0-9]+|{grouped})(?:[{sign}][0-9]*)?|[{sign}][0-9]+)(?:[eE][-+]?[0-9]+)?"
    return pc.match_substring_regex(pc.utf8_trim_whitespace(cells), f"^(?:{figure}|[-+]?inf)?$")


def _numbers(cells: Any, sign: str) -> Any:
    import pyarrow.compute as pc

    joined = pc.replace_substring_regex(pc.utf8_trim_whitespace(cells), f"[{OTHER[sign]}{GAPS}]", "")
    signed = pc.replace_substring(pc.replace_substring(joined, sign, "."), "−", "-")
    return number_cells(signed)


def _first(cells: Any, pattern: str) -> int:
    """The first row whose text holds this; -1 if none does."""
    import pyarrow.compute as pc

    return int(pc.index(pc.match_substring_regex(pc.utf8_trim_whitespace(cells), pattern), True).as_py())
