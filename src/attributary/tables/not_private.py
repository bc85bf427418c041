"""not_private: the words on a table that protects nobody, which everything made from it carries on.

Parquet and Arrow hold them in the metadata of their schema; text has no such place, and gets a last column.
"""

from typing import Any

NAME = "not_private"  # the key in the metadata, and the column in text
BEGINS = "NOT PRIVATE"
SEEDED = "NOT PRIVATE: its noise is seeded, and protects nobody; not for release"
NO_NOISE = "NOT PRIVATE: exact sums without noise; not for release"
TRUE_COUNTS = "NOT PRIVATE: true counts without noise; not for release"
EXACT_PRIOR = "NOT PRIVATE: the prior is counts without noise, and the estimates tell a little of them"
LONGEST = 300  # of what a file may say of itself


def mark(table: Any, *words: str) -> Any:
    """The table with these words, beside those that it has; as it is if there are none."""
    every = together(words_of(table), *words)
    if not every:
        return table
    if NAME in table.column_names:
        table = table.drop_columns([NAME])  # writing it as text puts it there again, in every row
    return table.replace_schema_metadata({**(table.schema.metadata or {}), NAME.encode(): every})


def words_of(table: Any) -> str:
    """What an Arrow table says of itself, in its metadata or in a column; nothing if it is private."""
    import pyarrow as pa
    import pyarrow.compute as pc

    cells: list[str] = []
    for i in [i for i, name in enumerate(table.column_names) if name.lower() == NAME]:
        column = pc.unique(table.column(i))
        column = column.dictionary if pa.types.is_dictionary(column.type) else column
        if pa.types.is_string_view(column.type):
            column = column.cast(pa.string())
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            column = column.filter(pc.fill_null(pc.starts_with(column, BEGINS), False))
            cells += column.slice(0, 3).to_pylist()
    return together(words_in(table.schema.metadata), *cells)


def words_in(metadata: Any) -> str:
    """What the metadata of a schema or of a file says."""
    words = (metadata or {}).get(NAME.encode(), b"")
    return together(words.decode(errors="replace"))


def together(*words: str) -> str:
    """Several such words as one text, each once."""
    each = dict.fromkeys(part for text in words for part in text[:LONGEST].split(" | ") if part)
    return " | ".join(each)[:LONGEST]


def with_column(table: Any) -> Any:
    """The table with its words in a last column, if it has any: for text, which has no metadata."""
    import pyarrow as pa

    marked = mark(table)
    words = words_of(marked)
    if not words:
        return table
    return marked.append_column(NAME, pa.repeat(pa.scalar(words), marked.num_rows))
