"""Text form: what separates the cells of a text table, told by its beginning; where that is open, it is refused."""

import csv
import re
from itertools import islice
from typing import NamedTuple

from attributary.errors import InputError

SEPARATORS = (",", ";", "\t", "|")
BY_NAME = {"comma": ",", "semicolon": ";", "tab": "\t", "\\t": "\t", "pipe": "|"}
NOTED = b"separator"  # in the metadata of a table that was read: what separated its cells, where it is not the usual
BEGINNING = 2**16  # bytes
ROWS = 200


class TextForm(NamedTuple):
    separator: str
    stated: bool = False  # by a first line sep=;, as spreadsheets write it


def text_form(beginning: bytes, usual: str, name: str, separator: str | None = None) -> TextForm:
    """The separator of a file with this beginning: the one given, a first line's, or the one that fits all rows.

    `usual` is what its ending says. Where both that and another give all rows of the beginning the header's cells, the
    file is refused.
    """
    text = beginning.decode("utf-8-sig", errors="replace")
    stated = re.match(r"sep=(.)\r?\n", text)
    if separator is not None:
        return TextForm(separator_by_name(separator), stated is not None)
    if stated:
        return TextForm(stated[1], True)
    lines = text.splitlines(keepends=True)
    if len(beginning) >= BEGINNING:
        lines = lines[:-1]  # the last one may go on
    header = next((line for line in lines if line.strip()), "")
    if not any(each in header for each in SEPARATORS if each != usual):
        return TextForm(usual)
    fitting = [each for each in SEPARATORS if _fits(lines, each)]
    if len(fitting) > 1:
        words = " or ".join(repr(each) for each in fitting)
        raise InputError(f"{name} may be separated by {words}: both fit all rows; say which, as in --separator ';'")
    if not fitting and not {usual, '"'} & set(header):  # some row lacks a cell, and will be named
        fitting = [each for each in SEPARATORS if each in header][:1]
    return TextForm(fitting[0] if fitting else usual)


def separator_by_name(text: str) -> str:
    """The separator that a user names, as a character or as a word."""
    separator = BY_NAME.get(text.lower(), text)
    if len(separator) != 1 or separator in "\"'\r\n" or separator.isalnum() or ord(separator) > 127:
        raise InputError(f"a separator is one character, as in ';' or tab; got {text[:40]!r}")
    return separator


def _fits(lines: list[str], separator: str) -> bool:
    try:
        rows = [row for row in islice(csv.reader(lines, delimiter=separator, strict=True), ROWS) if row]
    except csv.Error:
        return False
    return len(rows[0]) > 1 and all(len(row) == len(rows[0]) for row in rows)
