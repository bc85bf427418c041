"""published: generated rows as lines of the published files; columns without a known figure are −1 throughout."""

from typing import Any

import numpy as np

from attributary.logs.generate.names import MISSING
from attributary.types import Ints

UNKNOWN = "-1"

CAMB_HEADER = (
    b"timestamp\tuid\tcampaign\tconversion\tconversion_timestamp\tconversion_id\tattribution\tclick\tclick_pos\tclick_nb"
    b"\tcost\tcpo\ttime_since_last_click\tcat1\tcat2\tcat3\tcat4\tcat5\tcat6\tcat7\tcat8\tcat9\n"
)


def csscl_lines(batch: Any) -> Any:
    """A buffer of lines of CriteoSearchData."""
    sale, amount, delay, time = (_text(batch.column(name)) for name in ("conversion", "amount", "delay", "time"))
    age, device, country, partner = (
        _labels(batch.column(name)) for name in ("age_group", "device", "country", "partner")
    )
    user = user_ids(batch.column("user").to_numpy())
    return _lines(
        [sale, amount, delay, time, _unknown(2), age, device, _unknown(10), country, _unknown(2), partner, user]
    )


def camb_lines(batch: Any) -> Any:
    """A buffer of lines of criteo_attribution_dataset.tsv."""
    import pyarrow as pa
    import pyarrow.compute as pc

    time, user, when, number, click, position, clicks = (
        _text(batch.column(name))
        for name in ("time", "user", "conversion_time", "conversion_id", "click", "click_pos", "click_nb")
    )
    campaign, cat1, cat8 = (_labels(batch.column(name)) for name in ("campaign", "cat1", "cat8"))
    converted = pc.cast(pc.cast(pc.is_valid(batch.column("conversion_id")), pa.int8()), pa.string())
    first = [time, user, campaign, converted, when, number, _unknown(1), click, position, clicks]
    return _lines([*first, _unknown(3), cat1, _unknown(6), cat8, UNKNOWN])


def user_ids(user: Ints) -> Any:
    """32 hexadecimal digits for each user, like the hashes of the published file."""
    import pyarrow as pa

    digits = np.frombuffer(b"0123456789ABCDEF", np.uint8)
    halves = np.stack([_mixed(user.astype(np.uint64) * np.uint64(2) + np.uint64(half)) for half in range(2)], axis=1)
    octets = halves.astype(">u8").view(np.uint8)
    text = np.stack([digits[octets >> 4], digits[octets & 15]], axis=2)
    offsets = np.arange(0, 32 * len(user) + 1, 32, dtype=np.int32)
    return pa.StringArray.from_buffers(len(user), pa.py_buffer(offsets), pa.py_buffer(text.tobytes()))


def _mixed(x: Any) -> Any:
    """SplitMix64: another number for each."""
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def _unknown(columns: int) -> str:
    return "\t".join([UNKNOWN] * columns)


def _text(column: Any) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.fill_null(pc.cast(column, pa.string()), UNKNOWN)


def _labels(column: Any) -> Any:
    import pyarrow as pa

    labels = [UNKNOWN if name == MISSING else name for name in column.dictionary.to_pylist()]
    return pa.array(labels).take(column.indices)


def _lines(cells: list[Any]) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    lines = pc.binary_join_element_wise(pc.binary_join_element_wise(*cells, "\t"), "", "\n")
    return pc.binary_join(pa.ListArray.from_arrays([0, len(lines)], lines), "")[0].as_buffer()
