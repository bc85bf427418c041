"""A published dataset, packed or not, or a look-alike: one row per impression with its conversion, if any."""

import gzip
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Literal, NamedTuple, get_args

from attributary.errors import InputError
from attributary.logs.duckdb import text_file_errors
from attributary.paper.published import DATASETS, Dataset, Figure, figures

BLOCK = 2**23  # bytes of text at a time
SEPARATORS = ",;| "
Name = Literal["csscl", "camb"]
Expect = Literal["published", "any"]
UnknownDelay = Literal["keep", "drop", "first"]


class ImpressionLog(NamedTuple):
    sql: str  # for one row per impression; the connection can run it again and again
    figures: list[Figure]  # of the file, next to the published ones


def load(
    connection: Any,
    path: str,
    name: Name,
    expect: Expect = "published",
    unknown_delay: UnknownDelay = "keep",
) -> ImpressionLog:
    """The impressions of a published file, each with its conversion; the whole file is read once to check it.

    csscl: partner, country, device, age_group, time, user, conversion, delay, amount.
    camb:  campaign, cat1, cat8, time, user, conversion, delay; click, click_pos, click_nb, conversion_id and
           conversion_time of every impression that led to a conversion; conversion and delay at the last touch only.

    Times and delays are in seconds, `conversion` is 0 or 1, and the label of a missing value is `missing`. `path` is
    the file as published, packed or unpacked, or a look-alike in Parquet. With `expect="published"` its figures must be
    the published ones. `unknown_delay`: a sale without a delay stays a conversion without one (keep), is not a
    conversion (drop), or has delay 0 (first).
    """
    if name not in DATASETS:
        raise InputError(f"the published datasets are {' and '.join(DATASETS)}; got {name!r}")
    if expect not in get_args(Expect):
        raise InputError(f"expect is {' or '.join(get_args(Expect))}; got {expect!r}")
    if unknown_delay not in get_args(UnknownDelay):
        raise InputError(f"unknown_delay is one of {', '.join(get_args(UnknownDelay))}; got {unknown_delay!r}")
    dataset = DATASETS[name]
    with text_file_errors(path):
        if path.endswith((".parquet", ".pq")):
            published, sql = None, _look_alike(path, dataset)
        else:
            published = published_table(connection, path, dataset)
            if expect == "any":
                check_whole(path)
            sql = dataset.impressions.format(published=published)
        measured = figures(connection, sql, dataset)
    wrong = [str(figure) for figure in measured if not figure.agrees]
    if expect == "published" and wrong:
        if published:
            check_whole(path)
        raise InputError(
            f"{path} is not {dataset.file} as published: {', '.join(wrong)}; give that file, or expect any for a part "
            "or a look-alike of it"
        )
    if published and dataset.last_touch and measured[-1].value > 0:
        sql = dataset.last_touch.format(published=published)
    return ImpressionLog(dataset.unknown_delay.get(unknown_delay, "{impressions}").format(impressions=sql), measured)


def _look_alike(path: str, dataset: Dataset) -> str:
    """SQL for the rows of a Parquet file that says it is a look-alike of the dataset."""
    from pyarrow import ArrowException, parquet

    try:
        metadata = parquet.read_schema(path).metadata or {}
    except FileNotFoundError:
        raise InputError(f"there is no file {path}") from None
    except (OSError, ArrowException) as error:
        raise InputError(f"{path} is not a whole Parquet file: {str(error).splitlines()[0][:200]}") from error
    kind = metadata.get(b"kind", b"").decode()
    if kind != dataset.name:
        says = f"a look-alike of {kind}" if kind else "not one"
        raise InputError(
            f"in Parquet only look-alikes of {dataset.name} can be read, "
            f"which `attributary generate {dataset.name}` writes; {path} is {says}"
        )
    return f"SELECT * FROM read_parquet({_quoted_path(path)})"


def published_table(connection: Any, path: str, dataset: Dataset) -> str:
    """SQL for the rows of a published file, under the published names; the connection learns what it needs for it."""
    names, header = _column_names(path, dataset)
    columns = {name: dataset.columns.get(name, "VARCHAR") for name in names}
    compression = packing(path)
    if compression == "archive":
        connection.register(f"published_{dataset.name}", ArchiveTable(path, columns, header))
        return f"published_{dataset.name}"
    typed = ", ".join(f"{_quoted(name)}: {_quoted(kind)}" for name, kind in columns.items())
    return (
        f"read_csv({_quoted_path(path)}, auto_detect = false, delim = '\t', quote = '', escape = '', "
        f"header = {str(header).lower()}, compression = '{compression}', columns = {{{typed}}})"
    )


def _column_names(path: str, dataset: Dataset) -> tuple[list[str], bool]:
    """The columns of a file, and whether it begins with their names; refuses one that cannot be the dataset."""
    with open_text(path) as file:
        first, second = (file.readline(BLOCK).decode("utf-8", "replace").rstrip("\r\n").split("\t") for _ in range(2))
    known = list(dataset.columns)
    if first == [""]:
        raise InputError(f"{path} is empty; {dataset.file} has {len(known)} columns separated by tabs")
    odd = next((s for s in SEPARATORS if len(first) == 1 and first[0].count(s) >= len(known) - 1), None)
    if odd:
        raise InputError(
            f"{path} is separated by {odd!r}; {dataset.file} is separated by tabs: give it as it was published"
        )
    header = first[0].lower() == known[0].lower()
    if dataset.header:
        lost = [name for name in known if name not in first]
        if not header and len(lost) == len(known):
            raise InputError(f"{path} does not begin with its column names; {dataset.file} begins with {known[0]}")
        if lost:
            raise InputError(f"{path} has no column {lost[0]!r}; {dataset.file} has {', '.join(known)}")
        known = first
    cells = second if header else first
    if len(cells) != len(known) and cells != [""]:
        raise InputError(f"{path} has {len(cells)} columns; {dataset.file} has {len(known)}: is it another file?")
    return known, header


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _quoted_path(path: str) -> str:
    """A path in SQL, as a pattern that matches only itself."""
    return _quoted("".join(f"[{c}]" if c in "*?[" else c for c in path))


class ArchiveTable:
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
        with open_text(self.path) as file:
            reader = csv.open_csv(
                pa.PythonFile(file, mode="r"),
                csv.ReadOptions(column_names=names, skip_rows=int(self.header), block_size=BLOCK),
                csv.ParseOptions(delimiter="\t", quote_char=False),
                csv.ConvertOptions(column_types=self._schema(), strings_can_be_null=False),
            )
            yield from reader


Packing = Literal["none", "gzip", "archive"]
DAMAGED = (EOFError, tarfile.TarError, zipfile.BadZipFile, zlib.error, gzip.BadGzipFile)
CHUNK = 2**20


def packing(path: str) -> Packing:
    """How a file is packed; what is in an archive only Python can reach."""
    with _read_errors(path), open(path, "rb") as file:
        beginning = file.read(4)
        if beginning.startswith(b"PK"):
            return "archive"
        if beginning.startswith(b"\x1f\x8b"):
            with gzip.open(path) as unpacked:
                return "archive" if _is_tar(unpacked.read(512)) else "gzip"
        return "archive" if _is_tar(beginning + file.read(508)) else "none"


def _is_tar(block: bytes) -> bool:
    return block[257:262] == b"ustar"


@contextmanager
def open_text(path: str) -> Iterator[Any]:
    """The bytes of the text, from its beginning."""
    with _read_errors(path), ExitStack() as stack:
        file = stack.enter_context(open(path, "rb"))
        magic = file.read(2)
        file.seek(0)
        if magic == b"PK":
            archive = stack.enter_context(zipfile.ZipFile(file))
            name = _largest({i.filename: i.file_size for i in archive.infolist() if not i.is_dir()}, path)
            inner = stack.enter_context(archive.open(name))
            yield stack.enter_context(gzip.open(inner)) if name.endswith(".gz") else inner
        elif packing(path) == "archive":
            yield _first_file(stack.enter_context(tarfile.open(fileobj=file, mode="r|*")), path)
        else:
            yield stack.enter_context(gzip.open(file)) if magic == b"\x1f\x8b" else file


def _largest(sizes: dict[str, int], path: str) -> str:
    text = {name: size for name, size in sizes.items() if name.endswith((".tsv", ".tsv.gz", ".txt", "Data"))}
    if not text:
        raise InputError(f"{path} holds no .tsv or .tsv.gz; give the archive as it was published, or the file in it")
    return max(text, key=lambda name: text[name])


def _first_file(tar: tarfile.TarFile, path: str) -> Any:
    """A tar can only be read from its beginning, so its first file of more than a page is taken for the data."""
    for member in tar:
        if member.isfile() and (member.size > 10_000 or member.name.endswith("CriteoSearchData")):
            inner = tar.extractfile(member)
            if inner is not None:
                return inner
    raise InputError(f"{path} holds no file CriteoSearchData; give the archive as it was published, or the file in it")


def check_whole(path: str) -> None:
    """Refuses a file that was cut off, as far as that can be seen: inside gzip, inside an archive, or inside a line."""
    last = b"\n"
    with open_text(path) as file:
        if packing(path) == "none":
            file.seek(-1, 2)
            last = file.read(1)
        else:
            while piece := file.read(CHUNK):
                last = piece[-1:]
    if last != b"\n":
        raise InputError(f"{path} ends in the middle of a line; it was cut off: fetch it again")


@contextmanager
def _read_errors(path: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError:
        raise InputError(f"there is no file {path}") from None
    except IsADirectoryError:
        raise InputError(f"{path} is a folder; give a file in it") from None
    except DAMAGED as error:
        raise InputError(f"{path} is cut off or damaged ({error}); fetch it again") from error
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from error
