"""The ledger: a shared id is queried once, whatever dies when, and whoever comes at the same time."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from attributary.ara.service import ledger
from attributary.errors import InputError

IDS = [(bytes([i]) * 32, 3600 * i) for i in range(6)]

# Queries as the command makes them, each in a process of its own, forked from one that has imported all it needs.
# Every statement of SQL, and every step of writing, is a point at which a process may die.
QUERIES = """
import json, os, signal, sys, time
import numpy as np
from attributary.ara.service import ledger
from attributary.ara.wire import avro
from attributary.errors import InputError
from attributary.noise import sample_dlap

points = dies = 0

def point(*_):
    global points
    points += 1
    if points == dies:
        os.kill(os.getpid(), signal.SIGKILL)

connect, replace = ledger.sqlite3.connect, os.replace

def traced(*args, **options):
    connection = connect(*args, **options)
    connection.set_trace_callback(point)
    return connection

def replaced(*args):
    point()
    replace(*args)
    point()

ledger.sqlite3.connect, os.replace = traced, replaced

def query(path, output, sums, first, last):
    ids = [(bytes([i]) * 32, 3600 * i) for i in range(first, last)]
    keys, total = np.arange(40, dtype=np.uint64).reshape(-1, 2), np.full(20, sums)
    digest = ledger.digest(ids, keys, total, 4 / 65536)
    point()
    secret = ledger.reserve(path, ids, digest)
    point()
    noise = sample_dlap(4 / 65536, 20, ledger.Stretched(secret))
    point()
    avro.write_results(output, keys, total + noise)
    point()
    ledger.finish(path, digest)
    point()

for line in sys.stdin:
    asked = json.loads(line)
    children, begin = [], time.monotonic() + 0.05 * (len(asked) > 1)
    for *args, dies in asked:
        here, there = os.pipe()
        child = os.fork()
        if child == 0:
            while time.monotonic() < begin:
                pass
            try:
                query(*args)
            except InputError as error:
                os.write(there, str(error).encode())
                os._exit(2)
            os.write(there, str(points).encode())
            os._exit(0)
        os.close(there)
        children.append((child, here))
    ends = []
    for child, here in children:
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        ends.append((code, os.read(here, 10000).decode()))
        os.close(here)
    print(json.dumps(ends), flush=True)
"""


class Queries:
    """A process that makes queries; the command of each is (output, exact sum of all keys, ids from, ids to)."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process

    def at_once(self, folder: Path, *queries: tuple[str, int, int, int, int]) -> list[tuple[int, str]]:
        """How several queries that start together end, and their words; the last number is where to die, or 0."""
        assert self.process.stdin and self.process.stdout
        given = [[str(folder / "l.sqlite"), str(folder / output), *numbers] for output, *numbers in queries]
        print(json.dumps(given), file=self.process.stdin, flush=True)
        return [(code, words) for code, words in json.loads(self.process.stdout.readline())]

    def run(self, folder: Path, output: str = "a.avro", dies: int = 0) -> tuple[int, str]:
        """Ids 0 to 2 queried."""
        return self.at_once(folder, (output, 100, 0, 3, dies))[0]

    def other(self, folder: Path) -> int:
        """Another query of some of the same ids."""
        return self.at_once(folder, ("other.avro", 101, 2, 4, 0))[0][0]


@pytest.fixture(scope="module")
def queries() -> Iterator[Queries]:
    alone = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    args = [sys.executable, "-W", "ignore", "-c", QUERIES]
    with subprocess.Popen(args, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=alone) as process:
        yield Queries(process)


def test_killed_at_any_point_the_budget_is_neither_lost_nor_spent_twice(queries: Queries, tmp_path: Path) -> None:
    code, points = queries.run(tmp_path)
    assert code == 0 and int(points) > 20
    begun = []
    for dies in range(1, int(points) + 1):
        folder = tmp_path / str(dies)
        folder.mkdir()
        code, _ = queries.run(folder, dies=dies)
        assert code == -signal.SIGKILL
        output = folder / "a.avro"
        before = output.read_bytes() if output.exists() else None
        free = queries.other(folder) == 0
        begun.append(not free)
        if free:  # nothing was spent, so nothing may have been answered, and now the ids are spent on the other
            assert before is None
            assert queries.run(folder)[0] == 2 and not output.exists()
            continue
        assert not (folder / "other.avro").exists()
        code, words = queries.run(folder)
        if code == 2:  # it was finished
            assert before is not None and "leave out the reports" in words
        else:  # the very same answer
            assert before in (None, output.read_bytes())
            assert queries.run(folder)[0] == 2
        assert queries.other(folder) == 2
    assert begun == sorted(begun) and {True, False} == set(begun)  # from one point on it is spent, for good


def test_a_query_that_died_gives_one_answer_however_often_it_dies(queries: Queries, tmp_path: Path) -> None:
    (tmp_path / "reference").mkdir()
    points = int(queries.run(tmp_path / "reference")[1])
    answers = []
    for dies in (points - 6, points - 5, points - 4, 0):
        queries.run(tmp_path, dies=dies)
        if (tmp_path / "a.avro").exists():
            answers.append((tmp_path / "a.avro").read_bytes())
            os.unlink(tmp_path / "a.avro")
    assert len(answers) > 1 and len(set(answers)) == 1 and queries.run(tmp_path)[0] == 2


def test_of_queries_at_the_same_time_one_is_answered(queries: Queries, tmp_path: Path) -> None:
    for attempt in range(10):
        folder = tmp_path / str(attempt)
        folder.mkdir()
        ends = queries.at_once(folder, *((f"{i}.avro", 100 + i % 3, i % 3, 4, 0) for i in range(6)))
        answered = [i for i, (code, _) in enumerate(ends) if code == 0]
        assert {code for code, _ in ends} <= {0, 2} and len({i % 3 for i in answered}) == 1  # query 0, 1 or 2
        assert all("reports are aggregated once" in words for code, words in ends if code == 2)  # and not: try later
        assert len({(folder / f"{i}.avro").read_bytes() for i in answered}) == 1  # twice the same gives the same


def test_ids_are_spent_once_and_others_are_free(tmp_path: Path) -> None:
    path = str(tmp_path / "l.sqlite")
    secret = ledger.reserve(path, IDS[:3], b"a")
    assert len(secret) == 32 and ledger.reserve(path, IDS[:3], b"a") == secret
    with pytest.raises(InputError, match="2 of 4 shared ids .* has begun and not finished: repeat it"):
        ledger.reserve(path, IDS[1:5], b"b")
    ledger.finish(path, b"a")
    ledger.finish(path, b"a")  # by another process with the same query
    with pytest.raises(InputError, match=r"3 of 3 .*of 3 hours \(1970-01-01T00:00Z, 1970-01-01T01:00Z, .*leave out"):
        ledger.reserve(path, IDS[:3], b"a")
    with pytest.raises(InputError, match="1 of 4"):
        ledger.reserve(path, IDS[2:], b"c")
    assert ledger.reserve(path, IDS[3:], b"d") != secret  # what was refused spent nothing


def test_hours_are_shown_up_to_a_number(tmp_path: Path) -> None:
    path = str(tmp_path / "l.sqlite")
    ids = [*IDS, (b"x", 2**52)]
    ledger.reserve(path, ids, b"a")
    with pytest.raises(InputError, match=r"7 of 7 .*T02:00Z and 4 more\)"):
        ledger.reserve(path, ids, b"b")
    with pytest.raises(InputError, match="second 4503599627370496"):
        ledger.reserve(path, ids[-1:], b"b")


def test_the_secret_is_gone_when_the_query_is_finished(tmp_path: Path) -> None:
    path = tmp_path / "l.sqlite"
    secret = ledger.reserve(str(path), IDS, b"a")
    assert secret in path.read_bytes() and os.stat(path).st_mode & 0o077 == 0
    ledger.finish(str(path), b"a")
    assert secret not in path.read_bytes()


def test_queries_are_told_apart_by_all_that_makes_the_answer() -> None:
    keys, total = np.arange(4, dtype=np.uint64).reshape(-1, 2), np.array([1, 2])
    first = ledger.digest(IDS, keys, total, 4 / 65536)
    assert ledger.digest(IDS[::-1], keys, total, 4 / 65536) == first
    others = [
        ledger.digest(IDS[:2], keys, total, 4 / 65536),
        ledger.digest(IDS, keys[::-1], total, 4 / 65536),
        ledger.digest(IDS, keys, total + 1, 4 / 65536),
        ledger.digest(IDS, keys, total, 8 / 65536),
    ]
    assert len({first, *others}) == 5


def test_a_stretched_secret_looks_random_and_is_the_same_each_time() -> None:
    def draw(secret: bytes) -> bytes:
        stream = ledger.Stretched(secret)
        return b"".join(stream.bytes(1000) for _ in range(300))

    one = draw(b"a" * 32)
    assert one == draw(b"a" * 32) != draw(b"b" * 32)
    counts = np.bincount(np.frombuffer(one, np.uint8), minlength=256)
    assert stats.chisquare(counts).pvalue > 1e-3
    assert len({one[i : i + 1000] for i in range(0, len(one), 1000)}) == 300  # no read repeats another


@pytest.mark.parametrize("content", [b"not a database at all, but long enough to be looked at" * 20, None])
def test_what_is_no_ledger_is_left_alone(content: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / "l.sqlite"
    if content is None:
        with sqlite3.connect(path) as other:
            other.execute("CREATE TABLE mine (x)")
        other.close()
    else:
        path.write_bytes(content)
    before = path.read_bytes()
    with pytest.raises(InputError, match="--ledger"):
        ledger.reserve(str(path), IDS, b"a")
    assert path.read_bytes() == before


def test_a_ledger_that_is_busy_or_nowhere_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger, "SECONDS_TO_WAIT", 0.05)
    path = str(tmp_path / "l.sqlite")
    ledger.reserve(path, IDS[:1], b"a")
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(InputError, match="cannot be used: database is locked"):
        ledger.reserve(path, IDS[1:], b"b")
    other.close()
    with pytest.raises(InputError, match="cannot be used: .*No such file"):
        ledger.reserve(str(tmp_path / "none" / "l.sqlite"), IDS, b"a")
