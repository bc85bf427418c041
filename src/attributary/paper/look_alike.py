"""Look-alikes of published files: rows in blocks, made in any order by any number of threads; their text and laws.

Every file that is made of them says that it is generated.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from statistics import NormalDist
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from attributary.generated import DAY, EDGES, LOGARITHMIC, OVERALL, VERSION
from attributary.types import Cells, Floats, Ints

Made = TypeVar("Made")
WORKERS = 2
MISSING = "missing"  # the label, in Parquet
UNKNOWN = "-1"  # the same, in the published text


class Stream(NamedTuple):
    kind: str
    rows: int
    seed: int
    schema: Any  # of an Arrow batch
    blocks: int
    block: Callable[[int], Any]  # the Arrow batch of that number: the same whenever it is made
    header: bytes  # of the published format
    text: Callable[[Any], Any]  # a batch as lines of the published format


def map_blocks(stream: Stream, make: Callable[[Any], Made], workers: int = WORKERS) -> Iterator[Made]:
    """What is made of every block, in their order; only a few blocks are in memory at a time."""
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


def names(what: str, count: int, code: NDArray[np.integer], missing: bool = True) -> Cells:
    """An Arrow column of labels such as `country 07`, or mere numbers; the code after the last stands for missing."""
    width = len(str(count)) if what else 0
    labels = [f"{what} {number:0{width}}".lstrip() for number in range(1, count + 1)] + [MISSING] * missing
    return pa.DictionaryArray.from_arrays(pa.array(code.astype(np.int16)), pa.array(labels))


def published_text(batch: Any, columns: Iterable[str], known: Mapping[str, str | Cells]) -> Any:
    """Rows as lines of a published file: of each of its columns what is known, as cells or a batch's column, or −1."""
    cells = []
    for column in columns:
        values = known.get(column, UNKNOWN)
        if column in known and isinstance(values, str):
            values = batch.column(values)
            if isinstance(values, pa.DictionaryArray):
                labels = [UNKNOWN if name == MISSING else name for name in values.dictionary.to_pylist()]
                values = pa.array(labels).take(values.indices)
            values = pc.fill_null(pc.cast(values, pa.string()), UNKNOWN)
        cells.append(values)
    lines = pc.binary_join_element_wise(pc.binary_join_element_wise(*cells, "\t"), "", "\n")
    return pc.binary_join(pa.ListArray.from_arrays([0, len(lines)], lines), "")[0].as_buffer()


def user_ids(user: Ints) -> Cells:
    """32 hexadecimal digits for each user, like the hashes of the published file."""
    digits = np.frombuffer(b"0123456789ABCDEF", np.uint8)
    x: Any = user.astype(np.uint64)[:, None] * np.uint64(2) + np.arange(2, dtype=np.uint64)
    x += np.uint64(0x9E3779B97F4A7C15)  # SplitMix64: another number for each
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    octets = (x ^ (x >> np.uint64(31))).astype(">u8").view(np.uint8)
    text = np.stack([digits[octets >> 4], digits[octets & 15]], axis=2)
    offsets = np.arange(0, 32 * len(user) + 1, 32, dtype=np.int32)
    return pa.StringArray.from_buffers(len(user), pa.py_buffer(offsets), pa.py_buffer(text.tobytes()))


# Laws that both look-alikes are built from.

MORNING = (0.55, 0.35, 0.25, 0.2, 0.22, 0.35, 0.6, 0.85, 1.0, 1.15, 1.2, 1.22)
HOURS = (*MORNING, 1.2, 1.2, 1.2, 1.2, 1.2, 1.25, 1.35, 1.5, 1.6, 1.55, 1.25, 0.85)  # traffic by hour; assumed

Z_LARGE = 4  # 13,000 euros, which 3 sales in 100,000 exceed


def quotas(weights: Floats | Ints, total: int) -> Ints:
    """The total in the proportions of the weights, as whole numbers that add up to it.

    They are the differences of the rounded running sum, so no run of them is off by more than one.
    """
    running = np.cumsum(weights)
    scale = total / running[-1] if total else 0
    edges = np.rint(running * scale).astype(np.int64)
    return np.diff(edges, prepend=0)


ROUNDS = 4
SHUFFLE_DRAWS = 5  # the key of these draws


def shuffle(place: Ints, rows: int, seed: int) -> Ints:
    """Which row stands at each place when `rows` rows are shuffled; takes no memory.

    A Feistel network permutes the numbers below a power of four; places that land beyond the rows are sent on until
    they land among them, which keeps it a permutation.
    """
    half = 1
    while 4**half < rows:
        half += 1
    state = np.random.SeedSequence((VERSION, SHUFFLE_DRAWS, seed)).generate_state(2 * ROUNDS, np.uint64)
    keys = state.astype(np.uint64).reshape(ROUNDS, 2)
    row = _network(place.astype(np.uint64), half, keys)
    beyond = np.flatnonzero(row >= rows)
    while len(beyond):
        row[beyond] = _network(row[beyond], half, keys)
        beyond = beyond[row[beyond] >= rows]
    return row.astype(np.int64)


def _network(x: NDArray[np.uint64], half: int, keys: NDArray[np.uint64]) -> NDArray[np.uint64]:
    bits, mask = np.uint64(half), np.uint64(2**half - 1)
    left, right = x >> bits, x & mask
    for add, multiply in keys:
        mixed = (right + add) * (multiply | np.uint64(1))
        mixed ^= mixed >> np.uint64(29)
        mixed *= np.uint64(0xBF58476D1CE4E5B9)
        left, right = right, left ^ ((mixed >> np.uint64(32)) & mask)
    return (left << bits) | right


# Users in the pool for each row drawn from it; those who convert again then do so 1.245 times, as published.
POOL = 2.17
MOST_CONVERSIONS = 39  # conversions of the most faithful user


def user_of(row: Ints, rows: Ints, users: Ints, u: Floats, faithful: NDArray[np.bool_] | None = None) -> Ints:
    """The user, counted from 0, of each row of a stratum of so many rows and users, so that the number is exact.

    As many rows as the stratum has users belong to one user each, evenly spread; the others fall on users drawn from a
    pool, small enough that some of them come three times and more. User 0 takes the rows of the `faithful`.
    """
    number = row * users // rows
    again = (row + 1) * users // rows == number
    extra = rows - users
    drawn = (1 + (u * extra * POOL).astype(np.int64)) % users
    if faithful is not None:
        before = row - number  # rows of users who come again
        drawn[faithful & (before < np.minimum(MOST_CONVERSIONS - 1, extra // 50))] = 0
    return np.where(again, drawn, number)


def large_ones_to(some: NDArray[np.bool_], share: float, u: Floats) -> Floats:
    """Uniform draws, rearranged so that the few largest amounts fall to some sales, which are that share of all.

    Otherwise a single sale could double what a small country brings.
    """
    large = 1 - NormalDist().cdf(Z_LARGE)
    rest = 1 - large / share
    of_some = np.where(u < rest, u / rest * (1 - large), 1 - (1 - u) * share)
    return np.where(some, of_some, u * (1 - large))


def bin_means() -> Floats:
    """The mean delay of each bin, in days."""
    low, high = EDGES[:-1], EDGES[1:]
    means: Floats = (low + high) / 2
    means[:LOGARITHMIC] = ((high - low) / np.log(high / low))[:LOGARITHMIC]
    means /= DAY
    return means


def tilted(mean: Floats) -> Floats:
    """For each mean in days, the law with that mean that is closest to the overall one: OVERALL · exp(−λ · delay)."""
    x = bin_means()
    low, high = np.full(len(mean), -50.0), np.full(len(mean), 5000.0)
    for _ in range(200):
        middle = (low + high) / 2
        too_slow = _tilted_law(middle, x) @ x > mean
        low, high = np.where(too_slow, middle, low), np.where(too_slow, high, middle)
    return _tilted_law((low + high) / 2, x)


def _tilted_law(rate: Floats, x: Floats) -> Floats:
    logs = np.log(OVERALL) - rate[:, None] * x
    law: Floats = np.exp(logs - logs.max(axis=1, keepdims=True))
    law /= law.sum(axis=1, keepdims=True)
    return law
