"""text: a table as delimited text, with quotes only where a cell needs them."""

from collections.abc import Iterator
from typing import Any

from attributary.errors import InputError

ROWS = 2**15  # at a time


def text(table: Any, delimiter: str) -> Iterator[Any]:
    """The bytes of a table as CSV or TSV, block by block; null is an empty cell, numbers have all their digits."""
    import pyarrow as pa

    yield _block([_quoted(pa.array([name]), delimiter, "\ufeff") for name in table.column_names], delimiter)
    for batch in table.to_batches(max_chunksize=ROWS):
        cells = [
            _cells(column, delimiter, name) for name, column in zip(batch.schema.names, batch.columns, strict=True)
        ]
        yield _block(cells, delimiter)


def _block(cells: list[Any], delimiter: str) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    if len(cells) == 1:  # an empty line would be no row
        cells = [pc.if_else(pc.equal(cells[0], ""), '""', cells[0])]
    lines = pc.binary_join_element_wise(*cells, delimiter)
    ended = pc.binary_join_element_wise(lines, "", "\n")
    return pc.binary_join(pa.ListArray.from_arrays([0, len(ended)], ended), "")[0].as_buffer()


def _cells(column: Any, delimiter: str, name: str) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        words = pc.cast(column, pa.string())
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid):
        raise InputError(
            f"a text file has no room for column {name!r}, which is {column.type}; write Parquet or Arrow instead"
        ) from None
    return _quoted(pc.fill_null(words, ""), delimiter)


def _quoted(words: Any, delimiter: str, awkward: str = "") -> Any:
    import pyarrow.compute as pc

    needy = pc.match_substring_regex(words, f'["\r\n{delimiter}{awkward}]')
    if not pc.any(needy).as_py():
        return words
    doubled = pc.replace_substring(words, '"', '""')
    return pc.if_else(needy, pc.binary_join_element_wise('"', doubled, '"', ""), words)
