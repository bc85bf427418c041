"""Tables in and out of files: CSV, TSV, Parquet, Arrow, standard input and output."""

from attributary.tables.table_reader import read_table
from attributary.tables.table_source import Format, is_text, shown
from attributary.tables.table_writer import check_output, write_table
from attributary.tables.text_form import odd_separator, place

__all__ = ["Format", "check_output", "is_text", "odd_separator", "place", "read_table", "shown", "write_table"]
