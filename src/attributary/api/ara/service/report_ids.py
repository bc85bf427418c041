"""report_ids: which reports were seen, in few bytes each: reports are many more than keys."""

from collections.abc import Iterator, Sequence

import numpy as np

from attributary.types import Bools

FEW = 2**16  # ids that are not yet sorted
PART = 8  # of the sorted ones may wait as many again: a set takes more room, and sorting takes time
BLOCK = 2**14


class ReportIds:
    """UUIDs in small letters, each once: sixteen bytes in a sorted array, and a set of those that came since."""

    def __init__(self) -> None:
        self._sorted = np.empty(0, "S16")
        self._recent: set[bytes] = set()

    def __len__(self) -> int:
        return len(self._sorted) + len(self._recent)

    def __iter__(self) -> Iterator[str]:
        """The ids as text, in order."""
        self._sort()
        for i in range(0, len(self._sorted), BLOCK):
            digits = self._sorted[i : i + BLOCK].tobytes().hex()
            for k in range(0, len(digits), 32):
                one = digits[k : k + 32]
                yield f"{one[:8]}-{one[8:12]}-{one[12:16]}-{one[16:20]}-{one[20:]}"

    def add(self, ids: Sequence[str | None]) -> Bools:
        """Adds some; which of them came for the first time. None is no id, and never does."""
        each = [bytes(16) if one is None else bytes.fromhex(one.replace("-", "")) for one in ids]
        wanted = np.frombuffer(b"".join(each), "S16")
        place = np.searchsorted(self._sorted, wanted)
        new = np.array([one is not None for one in ids], bool)
        near = place < len(self._sorted)
        new[near] &= self._sorted[place[near]] != wanted[near]
        for i in np.flatnonzero(new).tolist():
            new[i] = each[i] not in self._recent
            self._recent.add(each[i])
        if len(self._recent) > max(FEW, len(self._sorted) // PART):
            self._sort()
        return new

    def _sort(self) -> None:
        recent = np.frombuffer(b"".join(self._recent), "S16")
        self._recent.clear()
        self._sorted = np.sort(np.concatenate([self._sorted, np.sort(recent)]), kind="stable")  # which merges two runs
