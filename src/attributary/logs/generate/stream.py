"""stream: generated rows in blocks that can be made in any order, by any number of threads."""

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple, TypeVar

from attributary.errors import InputError
from attributary.logs.generate.label import label

Made = TypeVar("Made")
WORKERS = 2


class Stream(NamedTuple):
    kind: str
    rows: int
    seed: int
    schema: Any  # of an Arrow batch
    blocks: int
    block: Callable[[int], Any]  # the Arrow batch of that number: the same whenever it is made
    header: bytes  # of the published format
    text: Callable[[Any], Any]  # a batch as lines of the published format

    def labelled(self) -> Any:
        """The schema with the metadata that tells what the rows are."""
        return self.schema.with_metadata(label(self.kind, self.rows, self.seed))


def checked(rows: int, seed: int) -> None:
    """Refuses a number of rows or a seed that cannot be."""
    if not rows >= 1:
        raise InputError(f"a log has at least one row; got {rows}")
    if not seed >= 0:
        raise InputError(f"a seed is a whole number from 0; got {seed}")


def made(stream: Stream, make: Callable[[Any], Made], workers: int = WORKERS) -> Iterator[Made]:
    """What is made of every block, in their order; only a few blocks are in memory at a time."""
    if workers == 1:
        for number in range(stream.blocks):
            yield make(stream.block(number))
        return
    under_way: deque[Future[Made]] = deque()
    with ThreadPoolExecutor(workers) as pool:
        try:
            for number in range(stream.blocks):
                under_way.append(pool.submit(lambda n: make(stream.block(n)), number))
                if len(under_way) > workers:
                    yield under_way.popleft().result()
            while under_way:
                yield under_way.popleft().result()
        finally:
            for future in under_way:
                future.cancel()


def reader(stream: Stream, workers: int = WORKERS) -> Any:
    """The rows as an Arrow stream, for DuckDB and others to read once without a file."""
    import pyarrow as pa

    return pa.RecordBatchReader.from_batches(stream.labelled(), made(stream, lambda batch: batch, workers))
