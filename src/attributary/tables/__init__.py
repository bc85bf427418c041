"""Tables in and out of files: CSV, TSV, Parquet, Arrow, standard input and output."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from attributary.tables.table_reader import read_table
    from attributary.tables.table_source import Format, is_text, shown
    from attributary.tables.table_writer import check_output, write_table
    from attributary.tables.text_form import odd_separator, place

__all__ = ["Format", "check_output", "is_text", "odd_separator", "place", "read_table", "shown", "write_table"]

HOME = {"read_table": "table_reader", "check_output": "table_writer", "write_table": "table_writer"}
HOME |= {"odd_separator": "text_form", "place": "text_form"}


def __getattr__(name: str) -> Any:
    """A public name, imported when it is asked for: counts in memory need no files."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{HOME.get(name, 'table_source')}"), name)
