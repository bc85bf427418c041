"""The ledger: a shared id is queried once, whatever dies when, and whoever comes at the same time."""

import errno
import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from attributary.api.ara.service import ledger
from attributary.errors import InputError, PrivacyRefusal, TryAgain

IDS = [(bytes([i]) * 32, 3600 * i) for i in range(6)]

# Queries as the command makes them, each in a process of its own, forked from one that has imported all it needs.
# Every statement of SQL, and every step of writing, is a point at which a process may die.
QUERIES = """
import json, os, signal, sys
import numpy as np
from attributary.api.ara.service import ledger
from attributary.api.ara.wire import avro
from attributary.errors import InputError
from attributary.noise import sample_dlap

points = dies = 0

def point(*_):
    global points
    points += 1
    if points == dies:
        os.kill(os.getpid(), signal.SIGKILL)

connect, replace, link, unlink = ledger.sqlite3.connect, os.replace, os.link, os.unlink

def traced(*args, **options):
    connection = connect(*args, **options)
    connection.set_trace_callback(point)
    return connection

def stepped(done):
    def step(*args):
        point()
        done(*args)
        point()
    return step

ledger.sqlite3.connect = traced
os.replace, os.link, os.unlink = map(stepped, (replace, link, unlink))

def query(path, output, sums, first, last):
    ids = [(bytes([i]) * 32, 3600 * i) for i in range(first, last)]
    keys, total = np.arange(40, dtype=np.uint64).reshape(-1, 2), np.full(20, sums)
    asked = ledger.query_of(ids, keys, total, 4 / 65536, [f"{sums} of {i}" for i in range(first, last)])
    point()
    secret = ledger.reserve(path, ids, asked)
    point()
    if isinstance(secret, ledger.Receipt):
        ledger.restore_answer(path, secret, output)
        return "answered"
    noise = sample_dlap(4 / 65536, 20, ledger.Stretched(secret))
    point()
    avro.write_results(output, keys, total + noise)
    point()
    ledger.finish(path, asked, ledger.receipt_of(output, 0))
    point()
    return points

for line in sys.stdin:
    asked = json.loads(line)
    children, (gate, opens) = [], os.pipe()
    for *args, dies in asked:
        here, there = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(opens)
            os.read(gate, 1)  # ends when all have come to it
            try:
                words, code = query(*args), 0
            except InputError as error:
                words, code = error, 2
            os.write(there, str(words).encode())
            os._exit(code)
        os.close(there)
        children.append((child, here))
    os.close(opens)
    ends = []
    for child, here in children:
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        ends.append((code, os.read(here, 10000).decode()))
        os.close(here)
    os.close(gate)
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
        assert code == 0 and before in (None, output.read_bytes())  # the very same answer
        assert before is not None or words != "answered"
        before = output.read_bytes()
        assert queries.run(folder) == (0, "answered") and output.read_bytes() == before
        output.unlink()
        code, words = queries.run(folder)
        assert code == 2 and "holds that answer" in words and not output.exists()
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
    assert len(answers) > 1 and len(set(answers)) == 1 and queries.run(tmp_path)[0] == 2  # and the answer is gone


def test_of_queries_at_the_same_time_one_is_answered(queries: Queries, tmp_path: Path) -> None:
    for attempt in range(10):
        folder = tmp_path / str(attempt)
        folder.mkdir()
        ends = queries.at_once(folder, *((f"{i}.avro", 100 + i % 3, i % 3, 4, 0) for i in range(6)))
        answered = [i for i, (code, _) in enumerate(ends) if code == 0]
        assert {code for code, _ in ends} <= {0, 2} and len({i % 3 for i in answered}) == 1  # query 0, 1 or 2
        said = ("reports are aggregated once", "does not hold that answer")  # and not: try later
        assert all(any(words in line for words in said) for code, line in ends if code == 2)
        assert len({(folder / f"{i}.avro").read_bytes() for i in answered}) == 1  # twice the same gives the same


def q(name: str) -> ledger.Fingerprint:
    return ledger.Fingerprint(name.encode(), f"asked {name}".encode())


DONE = ledger.Receipt(b"digest", "/there/a.avro", 1_700_000_000)


def test_a_ledger_that_another_process_makes_meanwhile_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, there = str(tmp_path / "l.sqlite"), iter([False])
    ledger.reserve(path, IDS[:3], q("a"))
    monkeypatch.setattr(os.path, "lexists", lambda _: next(there, True))  # as it was looked for, it was not there yet
    assert len(ledger.reserve(path, IDS[3:], q("b"))) == 32
    with pytest.raises(InputError, match="reports are aggregated once"):
        ledger.reserve(path, IDS[:3], q("c"))


def test_ids_are_spent_once_and_others_are_free(tmp_path: Path) -> None:
    path = str(tmp_path / "l.sqlite")
    secret = ledger.reserve(path, IDS[:3], q("a"))
    assert len(secret) == 32 and ledger.reserve(path, IDS[:3], q("a")) == secret
    with pytest.raises(InputError, match="2 of 4 shared ids .* has begun and is not finished: repeat it"):
        ledger.reserve(path, IDS[1:5], q("b"))
    ledger.finish(path, q("a"), DONE)
    ledger.finish(path, q("a"), DONE._replace(time=5))  # by another process with the same query
    assert ledger.reserve(path, IDS[:3], q("a")) == DONE
    with pytest.raises(InputError, match=r"3 of 3 .*of 3 hours \(1970-01-01T00:00Z, 1970-01-01T01:00Z, .*leave out"):
        ledger.reserve(path, IDS[:3], q("b"))
    with pytest.raises(InputError, match="1 of 4"):
        ledger.reserve(path, IDS[2:], q("c"))
    assert ledger.reserve(path, IDS[3:], q("d")) != secret  # what was refused spent nothing


def test_an_answer_is_known_again_by_its_bytes(tmp_path: Path) -> None:
    path = tmp_path / "a.avro"
    path.write_bytes(b"the answer")
    answer = ledger.receipt_of(str(path), 1_700_000_000.5)
    assert answer.path == os.path.realpath(path) and answer.when == "2023-11-14T22:13Z"
    book, other = str(tmp_path / "l.sqlite"), tmp_path / "b.avro"
    other.write_bytes(b"the answer")
    assert not ledger.restore_answer(book, answer, str(other))
    other.write_bytes(b"the anger")
    assert ledger.restore_answer(book, answer, str(other)) and other.read_bytes() == b"the answer"  # from where it was
    ledger.keep_copy(book, answer)
    path.write_bytes(b"the anger")
    other.unlink()
    assert ledger.restore_answer(book, answer, str(other)) and other.read_bytes() == b"the answer"  # from the copy
    other.unlink()
    for kept in (tmp_path / "l.sqlite.answers").iterdir():
        kept.write_bytes(b"the anger")
    for name in ("a.avro", "none.avro", "a.json"):
        with pytest.raises(PrivacyRefusal, match=r"answered at 2023-11-14T22:13Z, in .*a\.avro.* holds that answer"):
            ledger.restore_answer(book, answer, str(tmp_path / name))


def test_what_stays_in_the_ledger_says_nothing_of_the_sums(tmp_path: Path) -> None:
    """A digest of exact sums would let anyone who can read the ledger try sums until one fits."""
    path, keys = tmp_path / "l.sqlite", np.arange(4, dtype=np.uint64).reshape(-1, 2)
    one, two = (ledger.query_of(IDS, keys, np.array([1, n]), 4 / 65536, ["r"]) for n in (2, 3))
    assert one.digest != two.digest and one.question == two.question
    ledger.reserve(str(path), IDS, one)
    assert one.digest in path.read_bytes()
    ledger.finish(str(path), one, DONE)
    assert one.digest not in path.read_bytes() and one.question in path.read_bytes()


def test_hours_are_shown_up_to_a_number(tmp_path: Path) -> None:
    path = str(tmp_path / "l.sqlite")
    ids = [*IDS, (b"x", 2**52)]
    ledger.reserve(path, ids, q("a"))
    with pytest.raises(InputError, match=r"7 of 7 .*T02:00Z and 4 more\)"):
        ledger.reserve(path, ids, q("b"))
    with pytest.raises(InputError, match="second 4503599627370496"):
        ledger.reserve(path, ids[-1:], q("b"))


def test_the_secret_is_gone_when_the_query_is_finished(tmp_path: Path) -> None:
    path = tmp_path / "l.sqlite"
    secret = ledger.reserve(str(path), IDS, q("a"))
    assert secret in path.read_bytes() and os.stat(path).st_mode & 0o077 == 0
    ledger.finish(str(path), q("a"), DONE)
    assert secret not in path.read_bytes()


def test_queries_are_told_apart_by_all_that_makes_the_answer() -> None:
    keys, total, ids = np.arange(4, dtype=np.uint64).reshape(-1, 2), np.array([1, 2]), ["r", "s"]
    first = ledger.query_of(IDS, keys, total, 4 / 65536, ids)
    assert ledger.query_of(IDS[::-1], keys, total, 4 / 65536, iter(ids)) == first
    others = [
        ledger.query_of(IDS[:2], keys, total, 4 / 65536, ids),
        ledger.query_of(IDS, keys[::-1], total, 4 / 65536, ids),
        ledger.query_of(IDS, keys, total, 8 / 65536, ids),
        ledger.query_of(IDS, keys, total + 1, 4 / 65536, ids[:1]),
    ]
    assert len({first.digest, *(other.digest for other in others)}) == 5
    assert len({first.question, *(other.question for other in others)}) == 5


def test_a_stretched_secret_looks_random_and_is_the_same_each_time() -> None:
    def draw(secret: bytes) -> bytes:
        stream = ledger.Stretched(secret)
        return b"".join(stream.bytes(1000) for _ in range(300))

    one = draw(b"a" * 32)
    assert one == draw(b"a" * 32) != draw(b"b" * 32)
    counts = np.bincount(np.frombuffer(one, np.uint8), minlength=256)
    assert stats.chisquare(counts).pvalue > 1e-3
    assert len({one[i : i + 1000] for i in range(0, len(one), 1000)}) == 300  # no read repeats another


def database(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        for statement in statements:
            other.execute(statement)


WRONG = {
    "no database": lambda path: path.write_bytes(b"not a database at all, but long enough to be looked at" * 20),
    "another database": lambda path: (path.unlink(), database(path, "CREATE TABLE mine (x)")),
    "emptied": lambda path: path.write_bytes(b""),
    "without tables": lambda path: database(path, "DROP TABLE spent"),
    "cut off": lambda path: path.write_bytes(path.read_bytes()[:-4096]),
    "its last page lost": lambda path: path.write_bytes(path.read_bytes()[:-4096] + bytes(4096)),
    "its header lost": lambda path: path.write_bytes(bytes(100) + path.read_bytes()[100:]),
    "a secret of zeros": lambda path: database(path, "UPDATE query SET secret = 32"),
    "deleted": Path.unlink,
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_ledger_that_is_damaged_or_gone_is_refused_and_left_as_it_is(wrong: str, tmp_path: Path) -> None:
    path = tmp_path / "l.sqlite"
    many = [(os.urandom(32), 3600 * i) for i in range(500)]
    ledger.reserve(str(path), many, q("a"))
    WRONG[wrong](path)
    before = path.read_bytes() if path.exists() else None
    for shared, asked in ((many, q("a")), (IDS, q("b"))):
        if wrong == "a secret of zeros" and asked == q("b"):
            continue
        with pytest.raises(InputError, match="restore it from a backup|is not an Attributary ledger") as refused:
            ledger.reserve(str(path), shared, asked)
        assert "another place" not in str(refused.value)
    assert (path.read_bytes() if path.exists() else None) == before
    assert wrong != "deleted" or "to start anew" in str(refused.value)


@pytest.mark.parametrize("change", ["time = 'x'", "time = NULL", "output = 5", "path = x'ff'"])
def test_a_damaged_answer_is_refused(change: str, tmp_path: Path) -> None:
    path = tmp_path / "l.sqlite"
    ledger.reserve(str(path), IDS, q("a"))
    ledger.finish(str(path), q("a"), DONE)
    database(path, f"UPDATE answer SET {change}")
    with pytest.raises(InputError, match="is damaged.*restore it from a backup"):
        ledger.reserve(str(path), IDS, q("a"))


def test_a_file_that_was_never_a_ledger_is_not_made_one(tmp_path: Path) -> None:
    for name, content in (
        ("empty", b""),
        ("text", b"some words, more than SQLite's header has, which is a hundred" * 3),
    ):
        path = tmp_path / name
        path.write_bytes(content)
        with pytest.raises(InputError, match="restore it from a backup"):
            ledger.reserve(str(path), IDS, q("a"))
        assert path.read_bytes() == content
    for name, words in ((":memory:", "a file that lasts"), ("file:x", "a file that lasts"), ("", "a file that lasts")):
        with pytest.raises(InputError, match=words):
            ledger.reserve(name, IDS, q("a"))
    for place in (tmp_path, "/dev/null"):
        with pytest.raises(InputError, match="a ledger is a file"):
            ledger.reserve(str(place), IDS, q("a"))
    assert sorted(os.listdir(tmp_path)) == ["empty", "text"]


def test_a_ledger_may_move_with_or_without_its_witness(tmp_path: Path) -> None:
    old, new = tmp_path / "l.sqlite", tmp_path / "new" / "l.sqlite"
    secret = ledger.reserve(str(old), IDS, q("a"))
    assert sorted(os.listdir(tmp_path)) == ["l.sqlite", "l.sqlite.created"]
    new.parent.mkdir()
    old.rename(new)
    assert ledger.reserve(str(new), IDS, q("a")) == secret and (new.parent / "l.sqlite.created").exists()
    (tmp_path / "link").symlink_to(new)
    assert ledger.reserve(str(tmp_path / "link"), IDS, q("a")) == secret
    (tmp_path / "l.sqlite.created").unlink()  # now on purpose
    assert ledger.reserve(str(old), IDS, q("a")) != secret


FORMS = {
    "without a table": ("answer", "DROP TABLE answer"),
    "without what was restored": ("restored", "DROP TABLE restored"),
    "with a column that it lacks": ("spent", "ALTER TABLE spent DROP COLUMN query"),
    "with one more column": ("request", "ALTER TABLE request ADD COLUMN more"),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_ledger_of_another_form_is_refused_and_left_as_it_is(form: str, tmp_path: Path) -> None:
    path, (table, change) = tmp_path / "l.sqlite", FORMS[form]
    ledger.reserve(str(path), IDS[:1], q("a"))
    database(path, change)
    before = path.read_bytes()
    words = f"has a form that this version does not know: its tables {table} are not.*restore it from a backup"
    for use in (
        lambda: ledger.reserve(str(path), IDS[1:], q("b")),
        lambda: ledger.finish(str(path), q("a"), DONE),
        lambda: ledger.answered(str(path), b"inputs"),
    ):
        with pytest.raises(PrivacyRefusal, match=words):
            use()
    assert path.read_bytes() == before
    if table in ("restored", "spent"):  # what `skip_spent` asks
        with pytest.raises(PrivacyRefusal, match="is damaged"):
            ledger.is_spent(str(path), IDS[1:])


@pytest.mark.parametrize("words", ["", "some words", "Shared ids: many"])
def test_a_file_beside_a_ledger_that_does_not_say_what_it_knew_is_refused(words: str, tmp_path: Path) -> None:
    path, witness = tmp_path / "l.sqlite", tmp_path / "l.sqlite.created"
    ledger.reserve(str(path), IDS[:1], q("a"))
    witness.write_text(words)
    with pytest.raises(PrivacyRefusal, match="does not say how many shared ids .* or delete it"):
        ledger.reserve(str(path), IDS[1:], q("b"))
    assert witness.read_text() == words
    witness.unlink()
    with pytest.raises(PrivacyRefusal, match="was restored at"):
        ledger.reserve(str(path), IDS[1:], q("b"))


def test_where_files_cannot_be_linked_a_ledger_is_made_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unsupported(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "link", unsupported)
    path = str(tmp_path / "l.sqlite")
    secret = ledger.reserve(path, IDS, q("a"))
    assert ledger.reserve(path, IDS, q("a")) == secret and len(os.listdir(tmp_path)) == 2


def test_a_ledger_that_is_busy_or_has_no_room_may_be_used_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger, "SECONDS_TO_WAIT", 0.05)
    path = str(tmp_path / "l.sqlite")
    ledger.reserve(path, IDS[:1], q("a"))
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(TryAgain, match="cannot be used: database is locked"):
            ledger.reserve(path, IDS[1:], q("b"))
    connect = sqlite3.connect

    def full(*args: Any, **options: Any) -> sqlite3.Connection:
        found = connect(*args, **options)
        found.execute(f"PRAGMA max_page_count = {found.execute('PRAGMA page_count').fetchone()[0]}")
        return found

    many = [(os.urandom(32), 0) for _ in range(1000)]
    with monkeypatch.context() as patch:
        patch.setattr(sqlite3, "connect", full)
        with pytest.raises(TryAgain, match="database or disk is full"):
            ledger.reserve(path, many, q("b"))
    assert len(ledger.reserve(path, many, q("c"))) == 32  # nothing was spent


def test_a_new_ledger_without_room_is_made_later_and_at_no_other_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(ledger, "_write_new", full)
    with pytest.raises(TryAgain, match="make room, and run the same command again$"):
        ledger.reserve(str(tmp_path / "l.sqlite"), IDS, q("a"))


def test_a_place_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be written: No such file"):
        ledger.reserve(str(tmp_path / "none" / "l.sqlite"), IDS, q("a"))


def test_the_users_ledger_is_in_the_state_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert ledger.users_ledger() == str(tmp_path / "state" / "attributary" / "ledger.sqlite")
    for other in ("", "relative"):  # which the standard says to ignore
        monkeypatch.setenv("XDG_STATE_HOME", other)
        assert ledger.users_ledger() == str(tmp_path / "home/.local/state/attributary/ledger.sqlite")
    (tmp_path / "file").write_text("")
    monkeypatch.chdir(tmp_path)
    with monkeypatch.context() as nobody:
        nobody.setattr(os.path, "expanduser", lambda path: path)
        with pytest.raises(InputError, match="name a file for it with `ledger`"):
            ledger.users_ledger()
    assert not os.path.exists("~")
    monkeypatch.setenv("HOME", str(tmp_path / "file"))
    with pytest.raises(InputError, match="cannot be written .*name a file for it with `ledger`"):
        ledger.users_ledger()


def test_a_ledger_whose_damage_sqlite_cannot_put_into_words_is_damaged(tmp_path: Path) -> None:
    path = tmp_path / "ledger.sqlite"
    ledger.reserve(str(path), IDS[:1], ledger.Fingerprint(b"digest", b"question"))
    path.write_bytes(path.read_bytes().replace(b"CREATE TABLE spent", b"CREATE T\xf1BLE spent"))
    with pytest.raises(InputError, match="is damaged.*restore it from a backup"):
        ledger.reserve(str(path), IDS[1:], ledger.Fingerprint(b"other", b"question"))
