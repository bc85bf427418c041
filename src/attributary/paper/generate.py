"""A generated log becomes a file, or a folder of files, each whole or not at all."""

import json
import os
from collections.abc import Callable
from gzip import GzipFile
from io import BytesIO
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from attributary import shop
from attributary.errors import InputError, brief
from attributary.generated import PROCESS, VERSION, ForestProcess, check_size, label
from attributary.paper import camb, csscl
from attributary.paper.look_alike import WORKERS, Stream, map_blocks
from attributary.tables import check_output, write_table
from attributary.types import Arrow, Values
from attributary.whole_files import output_file, save, sole_writer, whole_folder

Progress = Callable[[int], None]
GROUP = 2**18  # rows in a row group of Parquet, at least
LEVEL = 3  # of gzip
MOST_ROWS = 10**10
FORMATS = {"parquet": (".parquet", ".pq"), "published": (".tsv.gz", ".tsv")}  # with the endings of such files


class Written(NamedTuple):
    path: str
    rows: int


def generate(
    kind: str,
    output: str,
    rows: int | None = None,
    seed: int = 0,
    format: str | None = None,
    progress: Progress | None = None,
) -> list[Written]:
    """Writes a generated log, each file whole or not at all; the same seed and number of rows give the same bytes.

    csscl and camb go to a file, or under a name of their own to a folder; shop and forest go to a folder. A path
    without an ending is a folder, and is made if it is not there. `progress` is told, again and again, how many rows
    were added.
    """
    if kind not in KINDS:
        raise InputError(f"the kinds of generated logs are {', '.join(KINDS)}; got {kind!r}")
    number = KINDS[kind] if rows is None else rows
    if number > MOST_ROWS:
        raise InputError(f"a generated log has {MOST_ROWS:,} rows at most; got {brief(number)}")
    if kind in FOLDERS:
        return _generate_folder(kind, _folder(output), number, seed, format, progress or (lambda rows: None))
    path, chosen = _file(output, kind, format)
    write(STREAMS[kind](number, seed), path, chosen, progress)
    return [Written(path, number)]


def _generate_folder(
    kind: str, folder: str, rows: int, seed: int, format: str | None, progress: Progress
) -> list[Written]:
    if format not in (None, "parquet"):
        raise InputError(f"the {kind} is written as parquet; got format {format!r}, which is for csscl and camb")
    make, spec = FOLDERS[kind]
    with sole_writer(folder):
        tables = make(rows, seed)._asdict()
        names = {name: f"{name}.parquet" for name in tables}
        with whole_folder(folder, (*names.values(), "spec.toml")) as place:
            for name, table in tables.items():
                write_table(table, os.path.join(place, names[name]))
            save(spec, os.path.join(place, "spec.toml"))
    progress(rows)
    return [Written(os.path.join(folder, names[name]), len(table)) for name, table in tables.items()]


def _file(output: str, kind: str, format: str | None) -> tuple[str, str]:
    """Where to write and in which format; refuses early what could not be written."""
    if format is not None and format not in FORMATS:
        raise InputError(f"a generated log is written as {' or '.join(FORMATS)}; got {format!r}")
    said = next((name for name, endings in FORMATS.items() if output.endswith(endings)), None)
    if said is None or os.path.isdir(output):
        chosen = format or "parquet"
        output = os.path.join(_folder(output), kind + FORMATS[chosen][0])
    elif format is None or format == said:
        chosen = said
    else:
        raise InputError(
            f"{output} has the ending of {said}, but the format is {format}: end it in {' or '.join(FORMATS[format])}"
        )
    check_output(output, "parquet" if chosen == "parquet" else "tsv")
    return output, chosen


def _folder(output: str) -> str:
    if output == "-":
        raise InputError("generated logs are written to files, not to standard output; name a folder or a file")
    if os.path.splitext(output)[1] and not os.path.isdir(output):
        endings = " or ".join(ending for endings in FORMATS.values() for ending in endings)
        raise InputError(
            f"a folder is expected, or for csscl and camb a file that ends in {endings}; got {output}: "
            "end it in / if it is a folder"
        )
    try:
        os.makedirs(output, exist_ok=True)
    except OSError as error:
        raise InputError(f"{output} cannot be created: {error.strerror or error}") from error
    return output


def write(
    stream: Stream, path: str, format: str = "parquet", progress: Progress | None = None, workers: int = WORKERS
) -> None:
    """Writes all rows to one file; `progress` is told how many were added. The number of workers changes no byte.

    The format is parquet, or published: text with tabs, compressed if the path ends in .gz.
    """
    name = f"generated-by-attributary-not-criteo-{stream.kind}-{VERSION}.tsv"  # gzip has no other room for a label
    pack = (lambda data: _member(data, name)) if path.endswith(".gz") else (lambda data: data)
    tell = progress or (lambda rows: None)
    with output_file(path) as file:
        if format == "parquet":
            _write_parquet(stream, file, tell, workers)
            return
        file.write(pack(stream.header) if stream.header else b"")
        for rows, data in map_blocks(stream, lambda batch: (batch.num_rows, pack(stream.text(batch))), workers):
            file.write(data)
            tell(rows)


def _write_parquet(stream: Stream, file: BinaryIO, progress: Progress, workers: int) -> None:
    schema = stream.schema.with_metadata(label(stream.kind, stream.rows, stream.seed))
    waiting: list[Any] = []
    with parquet.ParquetWriter(file, schema, compression="zstd") as writer:

        def write_waiting() -> None:
            writer.write_table(pa.Table.from_batches(waiting).cast(schema), row_group_size=2 * GROUP)
            waiting.clear()

        for batch in map_blocks(stream, lambda batch: batch, workers):
            waiting.append(batch)
            if sum(b.num_rows for b in waiting) >= GROUP:
                write_waiting()
            progress(batch.num_rows)
        if waiting:
            write_waiting()


def _member(data: Any, name: str) -> bytes:
    """A gzip file of its own; gzip files one after the other are one too."""
    made = BytesIO()
    with GzipFile(name, "wb", LEVEL, made, mtime=0) as file:
        file.write(data)
    return made.getvalue()


# forest: counts of two periods drawn by a known process, so that the best possible estimates are known, too.
#
# Each campaign has a rate (gamma), and each family its shares (Dirichlet around those of its children's labels, κ at a
# level). Counts of both periods are Poisson and multinomial, given these: children are Dirichlet-multinomial with
# α = κ·share, and once the earlier period is known, with α = κ·share + its counts.

ATTRIBUTES = ("campaign", "location", "product", "day")
FANS = (6, 5, 7)  # children of each node of a level
FOREST_ROWS = 40 * int(np.prod(FANS))
FOREST_DRAWS = 5  # the key of these draws


class GeneratedForest(NamedTuple):
    """Arrow tables of counts, one row per leaf."""

    counts: Arrow
    earlier: Arrow


def forest(
    rows: int = FOREST_ROWS, seed: int = 0, fans: tuple[int, ...] = FANS, of: ForestProcess | None = None
) -> GeneratedForest:
    """Counts of campaigns with at least so many leaves together, and of the same campaigns before."""
    check_size(rows, seed)
    draw = np.random.RandomState(
        np.random.MT19937(np.random.SeedSequence((VERSION, FOREST_DRAWS, seed)))
    )  # draws are frozen
    of = of or ForestProcess()
    of = of._replace(share=tuple(tuple(draw.dirichlet(np.ones(fan)).tolist()) for fan in fans))
    number = -(-rows // int(np.prod(fans)))
    rate = draw.gamma(of.shape, of.mean / of.shape, number)
    counts = draw.poisson(rate, (2, number))
    for kappa, share in zip(of.kappa, of.share, strict=True):
        weight = np.maximum(draw.gamma(kappa * np.array(share), size=(counts.shape[1], len(share))), 1e-300)
        counts = np.stack([_shared(draw, count, weight) for count in counts])
    place = np.indices((number, *fans)).reshape(1 + len(fans), -1)
    return GeneratedForest(*(_table(place, count, rows, seed, of) for count in counts[::-1]))


def _shared(draw: np.random.RandomState, count: Values, weight: Values) -> Values:
    """The counts of all children, family by family: multinomial, as binomials of what is left."""
    left, each = count.copy(), np.zeros(weight.shape, np.int64)
    below = np.cumsum(weight[:, ::-1], axis=1)[:, ::-1]
    for k in range(weight.shape[1] - 1):
        each[:, k] = draw.binomial(left, np.minimum(weight[:, k] / below[:, k], 1.0))
        left -= each[:, k]
    each[:, -1] = left
    return each.ravel()


def _table(place: Values, count: Values, rows: int, seed: int, of: ForestProcess) -> Arrow:
    names = (f"{name} {{}}" for name in ATTRIBUTES[: len(place)])
    columns = [
        pa.array([name.format(i + 1) for i in values]) for name, values in zip(names, place.tolist(), strict=True)
    ]
    metadata = {**label("forest", rows, seed), PROCESS: json.dumps(of._asdict())}
    table = pa.table([*columns, pa.array(count)], [*ATTRIBUTES[: len(place)], "conversions"])
    return table.replace_schema_metadata(metadata)


FOREST_SPEC = """\
# Generated counts of a known process: conversions by campaign > location > product > day.
epsilon = 1
tau = 5
split_by = "campaign"
guard = "none"                 # the least error, whatever a level has to give up for it

[[attribute]]
name = "campaign"

[[attribute]]
name = "location"

[[attribute]]
name = "product"

[[attribute]]
name = "day"
"""


KINDS = {"csscl": csscl.ROWS, "camb": camb.ROWS, "shop": shop.ROWS, "forest": FOREST_ROWS}  # with rows by default
STREAMS = {"csscl": csscl.csscl_stream, "camb": camb.camb_stream}
FOLDERS: dict[str, tuple[Callable[[int, int], Any], str]]
FOLDERS = {"shop": (shop.shop, shop.SPEC), "forest": (forest, FOREST_SPEC)}
