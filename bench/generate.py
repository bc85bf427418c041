"""Generated rows per second, and how much longer it takes than merely writing the same Arrow data to Parquet."""

import os
import tempfile

import pyarrow as pa
from pyarrow import parquet

from attributary.paper import KINDS, generate
from attributary.paper.camb import camb_stream
from attributary.paper.csscl import csscl_stream
from attributary.paper.look_alike import map_blocks
from bench.timing import best, heading

STREAMS = {"csscl": csscl_stream, "camb": camb_stream}
ROWS = 4_000_000


def main() -> None:
    heading(f"Generating {ROWS:,} rows, against merely writing the same Arrow data to Parquet (best of three)")
    print(
        f"{'':6} {'to Parquet':>12} {'rows/s':>12} {'only writing':>13} {'ratio':>6} {'to .tsv.gz':>12} {'rows/s':>10}"
    )
    with tempfile.TemporaryDirectory() as folder:
        for kind in STREAMS:
            print(measured(kind, os.path.join(folder, kind)), flush=True)
    print(f"Published: {KINDS['csscl']:,} rows of csscl, {KINDS['camb']:,} of camb.")


def measured(kind: str, path: str) -> str:
    whole = best(lambda: generate(kind, f"{path}.parquet", ROWS), 3, 0)
    text = best(lambda: generate(kind, f"{path}.tsv.gz", ROWS), 1, 0)
    table = pa.Table.from_batches(map_blocks(STREAMS[kind](ROWS), lambda batch: batch))
    only = best(lambda: parquet.write_table(table, f"{path}.again.parquet", compression="zstd"), 3, 0)
    return (
        f"{kind:6} {whole:10.1f} s {ROWS / whole:12,.0f} {only:11.1f} s {whole / only:5.1f}x"
        f" {text:10.1f} s {ROWS / text:9,.0f}"
    )


if __name__ == "__main__":
    main()
