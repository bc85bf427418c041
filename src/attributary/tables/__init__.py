"""Tables in and out of files: CSV, TSV, Parquet, Arrow, standard input and output."""

from attributary.tables.fault import odd_separator
from attributary.tables.format import Format, is_text
from attributary.tables.place import place
from attributary.tables.read import read_table
from attributary.tables.source import shown
from attributary.tables.write import check_output, write_table

__all__ = ["Format", "check_output", "is_text", "odd_separator", "place", "read_table", "shown", "write_table"]
