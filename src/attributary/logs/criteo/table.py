"""table: a published file as a table that DuckDB can read, again and again, never all of it in memory."""

from typing import Any

from attributary.errors import InputError
from attributary.logs.criteo.dataset import Dataset
from attributary.logs.criteo.text import opened, packing

BLOCK = 2**23  # bytes of text at a time
SEPARATORS = ",;| "


def table(connection: Any, path: str, of: Dataset) -> str:
    """SQL for the rows of a published file, under the published names; the connection learns what it needs for it."""
    names, header = _names(path, of)
    columns = {name: of.columns.get(name, "VARCHAR") for name in names}
    how = packing(path)
    if how == "archive":
        connection.register(f"published_{of.name}", Unpacked(path, columns, header))
        return f"published_{of.name}"
    typed = ", ".join(f"{_quoted(name)}: {_quoted(kind)}" for name, kind in columns.items())
    return (
        f"read_csv({quoted_path(path)}, auto_detect = false, delim = '\t', quote = '', escape = '', "
        f"header = {str(header).lower()}, compression = '{how}', columns = {{{typed}}})"
    )


def _names(path: str, of: Dataset) -> tuple[list[str], bool]:
    """The columns of a file, and whether it begins with their names; refuses one that cannot be the dataset."""
    with opened(path) as file:
        first, second = (file.readline(BLOCK).decode("utf-8", "replace").rstrip("\r\n").split("\t") for _ in range(2))
    known = list(of.columns)
    if first == [""]:
        raise InputError(f"{path} is empty; {of.file} has {len(known)} columns separated by tabs")
    odd = next((s for s in SEPARATORS if len(first) == 1 and first[0].count(s) >= len(known) - 1), None)
    if odd:
        raise InputError(f"{path} is separated by {odd!r}; {of.file} is separated by tabs: give it as it was published")
    header = first[0].lower() == known[0].lower()
    if of.header:
        lost = [name for name in known if name not in first]
        if not header and len(lost) == len(known):
            raise InputError(f"{path} does not begin with the names of its columns; {of.file} begins with {known[0]}")
        if lost:
            raise InputError(f"{path} has no column {lost[0]!r}; {of.file} has {', '.join(known)}")
        known = first
    cells = second if header else first
    if len(cells) != len(known) and cells != [""]:
        raise InputError(f"{path} has {len(cells)} columns; {of.file} has {len(known)}: is it another file?")
    return known, header


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def quoted_path(path: str) -> str:
    """A path in SQL, as a pattern that matches only itself."""
    return _quoted("".join(f"[{c}]" if c in "*?[" else c for c in path))


class Unpacked:
    """A file in an archive as an Arrow stream, opened anew for every query."""

    def __init__(self, path: str, columns: dict[str, str], header: bool) -> None:
        self.path, self.columns, self.header = path, columns, header

    def __arrow_c_schema__(self) -> Any:
        return self._schema().__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        import pyarrow as pa

        return pa.RecordBatchReader.from_batches(self._schema(), self._batches()).__arrow_c_stream__(requested_schema)

    def _schema(self) -> Any:
        import pyarrow as pa

        kinds = {"TINYINT": pa.int8(), "SMALLINT": pa.int16(), "BIGINT": pa.int64(), "DOUBLE": pa.float64()}
        return pa.schema([(name, kinds.get(kind, pa.string())) for name, kind in self.columns.items()])

    def _batches(self) -> Any:
        import pyarrow as pa
        from pyarrow import csv

        names = list(self.columns)
        with opened(self.path) as file:
            reader = csv.open_csv(
                pa.PythonFile(file, mode="r"),
                csv.ReadOptions(column_names=names, skip_rows=int(self.header), block_size=BLOCK),
                csv.ParseOptions(delimiter="\t", quote_char=False),
                csv.ConvertOptions(column_types=self._schema(), strings_can_be_null=False),
            )
            yield from reader
