"""Total words: which labels of a table read as totals, and of what, in many languages: Total, North Total."""

import re
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attributary.tables.table_columns import distinct, is_text_type, label_type, plain, with_cells

TOTALS = (
    *("all", "total", "totals", "grand total", "subtotal", "sub-total", "sum", "overall", "rollup"),
    *("gesamt", "gesamtsumme", "gesamtergebnis", "insgesamt", "summe", "zwischensumme", "alle", "ergebnis"),
    *("zusammen", "alle zusammen", "alles", "sammanlagt", "i alt", "összesen", "łącznie", "all together", "combined"),
    *("total general", "total général", "totale", "totaal", "totalt", "totalsumma", "ensemble", "tous", "toutes"),
    *("todos", "todas", "tutti", "tutte", "suma", "soma", "razem", "ogółem", "celkem", "yhteensä", "summa"),
    *("итого", "всего", "合计", "总计", "小计", "合計", "総計", "小計", "합계", "총계", "toplam"),
)  # what reads as a total, in any case, also in brackets
WORDS = "|".join(map(re.escape, TOTALS))
OF = r"[\s:–-]+(?:(?:for|of|in|von|für|de|du|di) )?"  # between such a word and the label that it is the total of
OF_A_LABEL = re.compile(rf"(?:{WORDS}){OF}(.+)|(.+?)[\s:–-]+(?:{WORDS})", re.IGNORECASE)


def reads_as_total(labels: Any, name: str, others: Collection[str] = ()) -> NDArray[np.bool_]:
    """Which labels of an Arrow array of texts read as a total; `others` are labels that one may be the total of."""
    import pyarrow as pa
    import pyarrow.compute as pc

    of_level = [f"{word} {name.lower()}{many}" for word in ("all", "total", "alle") for many in ("", "s")]
    lower = pc.utf8_lower(pc.utf8_trim(labels, " \t\r\n()[]<>-–"))
    reads: NDArray[np.bool_] = bools(pc.is_in(lower, pa.array([*TOTALS, *of_level], labels.type)))
    for i in np.flatnonzero(may_be_subtotals(lower)) if others else ():
        reads[i] |= total_of(lower[int(i)].as_py()) in others
    return reads


def may_be_subtotals(labels: Any) -> NDArray[np.bool_]:
    """Which labels of an Arrow array begin or end with a word for totals, as North Total does."""
    import pyarrow.compute as pc

    return bools(pc.match_substring_regex(labels, f"(?i)^({WORDS})[ :–-]|[ :–-]({WORDS})$"))


def total_of(label: str) -> str:
    """What a label is the total of, as North in North Total; nothing if it is none."""
    match = OF_A_LABEL.fullmatch(label.strip())
    return (match[1] or match[2]).strip() if match else ""


def without_subtotals(table: Any, names: Sequence[str]) -> tuple[Any, list[str]]:
    """The table in which a row called North Total is that of North, and the labels that were such.

    The label may stand in the column of North, or in the one below it; further columns are empty there.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    found: list[str] = []
    names = [name for name in names if is_text_type(label_type(table.column(name)))]
    for i, name in enumerate(names):
        labels = distinct(table.column(name))
        known = {_folded(text): text for text in labels.to_pylist()}
        for text in labels.filter(pa.array(may_be_subtotals(labels))).to_pylist():
            rows = pc.fill_null(pc.equal(plain(table.column(name)), text), False)
            here, whole = table.filter(rows), _folded(total_of(text))
            below = {_folded(cell) for other in names[i + 1 :] for cell in here.column(other).unique().to_pylist()}
            above = {_folded(cell) for cell in here.column(names[i - 1]).unique().to_pylist()} if i else set()
            if whole and below <= {"", "*", *TOTALS} and (above == {whole} or (below and whole in known)):
                label = pa.scalar(None if above == {whole} else known[whole], labels.type)
                table = with_cells(table, name, pc.if_else(rows, label, plain(table.column(name))))
                found.append(text.strip())
    return table, found


def _folded(text: Any) -> str:
    return str("" if text is None else text).strip().casefold()


def bools(column: Any) -> NDArray[np.bool_]:
    """An Arrow column of booleans; null is false."""
    return np.array(column.fill_null(False).to_numpy(zero_copy_only=False), bool)
