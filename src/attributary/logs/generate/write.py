"""write: a stream of generated rows becomes a file, whole or not at all."""

import zlib
from collections.abc import Callable
from typing import Any

from attributary.errors import InputError
from attributary.logs.generate.label import inner_name
from attributary.logs.generate.stream import WORKERS, Stream, made
from attributary.tables.whole_file import whole_file

Progress = Callable[[int], None]
GROUP = 2**18  # rows in a row group of Parquet, at least
LEVEL = 3  # of gzip


def write(
    stream: Stream, path: str, format: str = "parquet", progress: Progress | None = None, workers: int = WORKERS
) -> None:
    """Writes all rows to one file; `progress` is told how many were added. The number of workers changes no byte.

    The format is parquet, or published: text with tabs, compressed if the path ends in .gz.
    """
    write_in = {"parquet": _write_parquet, "published": _write_published}[format]
    try:
        write_in(stream, path, progress or (lambda rows: None), workers)
    except BrokenPipeError:  # the reader has had enough, as `head` does
        raise
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror or error}") from error


def _write_parquet(stream: Stream, path: str, progress: Progress, workers: int) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    schema = stream.labelled()
    with whole_file(path) as file, parquet.ParquetWriter(file, schema, compression="zstd") as writer:
        waiting: list[Any] = []
        for batch in made(stream, lambda batch: batch, workers):
            waiting.append(batch)
            if sum(b.num_rows for b in waiting) >= GROUP:
                writer.write_table(pa.Table.from_batches(waiting).cast(schema), row_group_size=2 * GROUP)
                waiting = []
            progress(batch.num_rows)
        if waiting:
            writer.write_table(pa.Table.from_batches(waiting).cast(schema), row_group_size=2 * GROUP)


def _write_published(stream: Stream, path: str, progress: Progress, workers: int) -> None:
    name = inner_name(stream.kind)
    pack = (lambda data: _member(data, name)) if path.endswith(".gz") else (lambda data: data)
    with whole_file(path) as file:
        file.write(pack(stream.header) if stream.header else b"")
        for rows, data in made(stream, lambda batch: (batch.num_rows, pack(stream.text(batch))), workers):
            file.write(data)
            progress(rows)


def _member(data: Any, name: str) -> bytes:
    """A gzip file of its own; gzip files one after the other are one too."""
    deflate = zlib.compressobj(LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    head = b"\x1f\x8b\x08\x08" + bytes(5) + b"\xff" + name.encode() + b"\0"
    body = deflate.compress(data) + deflate.flush()
    tail = zlib.crc32(data).to_bytes(4, "little") + (len(data) % 2**32).to_bytes(4, "little")
    return head + body + tail
