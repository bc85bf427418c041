"""Labels: a column of a table as text, whatever it is made of, so that 7 in one file is 7 in another.

One rule for files and for Python: null, nan, a blank text and * are no label, and end a path.
"""

import re
from difflib import get_close_matches
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attributary.errors import InputError
from attributary.tables.table_columns import is_text_type

CONTROL = "\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ufffe\uffff"  # what no page and no chart can show
ODD_BYTE = np.isin(np.arange(256), [*range(9), 11, 12, *range(14, 32), 0x7F, 0xEF])  # 0xEF begins U+FFFE
UNPRINTABLE = re.compile(f"[{CONTROL}\ud800-\udfff]")


def text_labels(table: Any, name: str, stars: bool = False) -> Any:
    """A column as text, dictionary-coded: one Arrow array; whole floats look like whole numbers, no label is null.

    With `stars`, a * is a label, too.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if name not in table.column_names:
        close = get_close_matches(name, table.column_names, 1)
        hint = f"did you mean {close[0]!r}? " if close else ""
        raise ValueError(f"there is no column {name!r}; {hint}the columns are {', '.join(table.column_names)}")
    column = table.column(name).combine_chunks()
    if isinstance(column, pa.ChunkedArray):  # no rows at all
        column = pa.concat_arrays(column.chunks) if column.chunks else pa.array([], column.type)
    if pa.types.is_nested(column.type):
        raise ValueError(f"labels are text, numbers or dates; column {name!r} is {column.type}")
    if pa.types.is_null(column.type):
        column = column.cast(pa.string())
    if pa.types.is_dictionary(column.type) and column.dictionary.null_count:  # a label that is null is none
        column = column.dictionary_decode()
    coded = column if pa.types.is_dictionary(column.type) else pc.dictionary_encode(column)
    coded = labels_only(coded, [])
    text = pa.DictionaryArray.from_arrays(coded.indices.cast(pa.int32()), coded.dictionary.cast(pa.string()))
    return labels_only(text, [""] if stars else ["", "*"])


def labels_only(coded: Any, no_labels: list[str]) -> Any:
    """A dictionary-coded column, null where it is nan or one of the texts that are not labels, trimmed."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = coded.dictionary.type
    if pa.types.is_floating(kind):
        none = pc.is_nan(coded.dictionary)
    elif is_text_type(kind):
        none = pc.is_in(pc.utf8_trim_whitespace(coded.dictionary), pa.array(no_labels, kind))
    else:
        return coded
    ended = np.append(pc.fill_null(none, False).to_numpy(zero_copy_only=False), True)  # code -1 is the last
    if not ended[:-1].any():
        return coded
    code = codes(coded)
    return pa.DictionaryArray.from_arrays(pa.array(code.astype(np.int32), mask=ended[code]), coded.dictionary)


def refuse_unprintable(cells: Any, name: str) -> None:
    """Raises an InputError for a control character in an Arrow column of labels."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for chunk in cells.chunks if isinstance(cells, pa.ChunkedArray) else [cells]:
        if not is_text_type(chunk.type) or len(chunk) == 0:
            continue
        data = chunk.buffers()[2]
        if data is None or not ODD_BYTE[np.frombuffer(data, np.uint8)].any():  # as in nearly all tables
            continue
        odd = chunk.filter(pc.match_substring_regex(chunk, f"[{CONTROL}]"))
        if len(odd):
            text = odd[0].as_py()
            where = f"column {name!r} has {unprintable(text)} in {text[:40]!r}"
            raise InputError(f"labels have no control characters; {where}: leave it out")


def unprintable(text: str) -> str | None:
    """The first character of a text that no page can show, as in U+0001: a control character, or half of one."""
    match = UNPRINTABLE.search(text)
    return f"U+{ord(match[0]):04X}" if match else None


def codes(labels: Any) -> NDArray[np.int64]:
    """The code of each label; -1 for null."""
    import pyarrow.compute as pc

    indices: NDArray[np.int64] = pc.fill_null(labels.indices, -1).to_numpy(zero_copy_only=False).astype(np.int64)
    return indices
