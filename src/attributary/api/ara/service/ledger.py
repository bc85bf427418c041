"""Ledger: which shared ids have been queried, so that none is queried twice.

A query goes in three steps. `reserve` spends the shared ids and keeps a secret of 32 bytes from the operating system,
both in one transaction, before any noise is drawn. The noise is stretched from the secret, and the result written.
`finish` forgets the secret, and keeps a digest of the result.

So a process may die anywhere: before `reserve`, nothing is spent and nothing was drawn; after it, the same query gets
the same secret, thus the same answer to the bit, and any other query of these ids is refused; after `finish`, all are,
and the same query is told where its answer is. No crash loses the budget, and none buys a second answer. Two processes
with the same query give the same answer.

A copy of each noisy answer is kept in a folder beside the ledger (`ledger.sqlite.answers`), from which a lost output is
restored. What was asked is also known by the bytes of its inputs, so that a repeated query need not be read again.

A ledger that is gone knows nothing, so a new one must not take its place unnoticed. It is made whole under another name
and linked to its own, so that it is never seen half made, and a file beside it (`ledger.sqlite.created`) says that it
was made, and how many shared ids it knew: where that file is and the ledger is not, there was one. A ledger that knows
fewer, or that comes without that file, was restored from a copy: it takes all hours until then for spent.
"""

import errno
import hashlib
import os
import re
import secrets
import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from attributary.errors import InputError, PrivacyRefusal, TryAgain
from attributary.noise import rate
from attributary.whole_files import save, written

APPLICATION = 0x41747472
SECRET = 32  # bytes
SECONDS_TO_WAIT = 60.0
HOURS_SHOWN = 3
TABLES = (  # as a ledger states them itself
    "CREATE TABLE query (digest BLOB PRIMARY KEY, secret BLOB NOT NULL) WITHOUT ROWID",
    "CREATE TABLE spent (id BLOB PRIMARY KEY, hour INTEGER NOT NULL, query BLOB) WITHOUT ROWID",
    "CREATE TABLE answer (question BLOB PRIMARY KEY, output BLOB, path TEXT, time INTEGER) WITHOUT ROWID",
    "CREATE TABLE request (inputs BLOB PRIMARY KEY, question BLOB NOT NULL) WITHOUT ROWID",
    "CREATE TABLE restored (time INTEGER NOT NULL)",
)
FULL = {errno.ENOSPC, errno.EDQUOT}
WITNESS = ".created"  # beside a ledger; it stays if the ledger goes
KNOWN = re.compile(r"^Shared ids: (\d{1,18})$", re.MULTILINE)  # in that file
ANSWERS = ".answers"  # a folder beside a ledger
LATER = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_FULL, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_IOERR}
UNWRITABLE = {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM, sqlite3.SQLITE_AUTH}
RESTORE = "restore it from a backup: no other file knows which reports were queried, so none can take its place"


class Fingerprint(NamedTuple):
    """What tells queries apart.

    The digest is of all that makes the answer, thus of exact sums, and is kept no longer than the secret. The question
    is of what was asked, with the ids of the reports in place of their sums, and is kept for good.
    """

    digest: bytes
    question: bytes


class Receipt(NamedTuple):
    """Which answer a query has got."""

    output: bytes  # SHA-256 of the file
    path: str  # where it was written
    time: int  # when, in seconds since 1970

    @property
    def when(self) -> str:
        return _time(self.time)


class Stretched:
    """A stream of bytes that a secret stands for: SHAKE-256 of the secret and a counter."""

    def __init__(self, secret: bytes) -> None:
        self.secret, self.reads = secret, 0

    def bytes(self, length: int, /) -> bytes:
        self.reads += 1
        return hashlib.shake_256(self.secret + self.reads.to_bytes(8, "big")).digest(length)


def query_of(
    shared: Sequence[tuple[bytes, int]],
    keys: NDArray[np.uint64],
    total: NDArray[np.int64],
    a: Fraction | float,
    report_ids: Iterable[str] = (),
) -> Fingerprint:
    """What makes a query the same query: its shared ids, keys and rate of noise, with exact sums or ids of reports.

    The ids come in order.
    """
    asked = hashlib.sha256(repr((rate(a), len(shared), keys.shape)).encode())
    asked.update(b"".join(identity for identity, _ in sorted(shared)))
    asked.update(np.ascontiguousarray(keys, "<u8").data)
    summed = asked.copy()
    summed.update(np.ascontiguousarray(total, "<i8").data)
    for i, report_id in enumerate(report_ids):
        asked.update(b"\n" * (i > 0) + report_id.encode())
    return Fingerprint(summed.digest(), asked.digest())


def users_ledger() -> str:
    """The ledger of the user who runs this: in the folder for state that the XDG directories name."""
    state = os.environ.get("XDG_STATE_HOME", "")
    if not os.path.isabs(state):  # as the standard has it
        state = os.path.join(os.path.expanduser("~"), ".local", "state")
    folder = os.path.join(state, "attributary")
    try:
        if os.path.isabs(folder):  # else nobody knows the user's home
            os.makedirs(folder, 0o700, exist_ok=True)
        if not os.path.isabs(folder) or not os.access(folder, os.W_OK):
            raise OSError
    except OSError as error:
        raise InputError(
            f"the ledger has no place: {folder} cannot be written ({error.strerror or 'no access'}); "
            "name a file for it with `ledger`"
        ) from error
    return os.path.join(folder, "ledger.sqlite")


def file_of(path: str) -> str:
    """Where a ledger is; refuses names that SQLite takes for something that does not last."""
    if not path.strip() or path == ":memory:" or path.startswith("file:"):
        raise InputError(f"a ledger is a file that lasts; got {path[:80]!r}: name a file with `ledger`")
    return os.path.realpath(path)


def reserve(
    path: str, shared: Sequence[tuple[bytes, int]], query: Fingerprint, now: float | None = None
) -> bytes | Receipt:
    """Spends the shared ids on a query, and gives the secret that its noise is stretched from.

    Of a query that is finished, it gives the answer. Refuses if one of the ids was spent on another query, or may have
    been before the ledger was restored.
    """
    with _transaction(path, now) as ledger:
        known = ledger.execute("SELECT secret FROM query WHERE digest = ?", [query.digest]).fetchone()
        if known:
            if not (isinstance(known[0], bytes) and len(known[0]) == SECRET):
                raise PrivacyRefusal(f"the ledger {path} is damaged: it has a secret of another length; {RESTORE}")
            return known[0]
        answer = _answer(ledger, path, query.question)
        if answer:
            return answer
        ledger.execute("CREATE TEMP TABLE asked (id BLOB PRIMARY KEY, hour INTEGER) WITHOUT ROWID")
        ledger.executemany("INSERT INTO asked VALUES (?, ?)", shared)
        spent = ledger.execute(
            "SELECT asked.hour, spent.query IN (SELECT digest FROM query) FROM asked JOIN spent USING (id) ORDER BY 1"
        ).fetchall()
        if spent:
            raise PrivacyRefusal(_refusal(path, spent, len(shared)))
        restored = ledger.execute("SELECT MAX(time) FROM restored").fetchone()[0]
        unsure = [hour for _, hour in shared if restored is not None and hour <= restored]
        if unsure:
            raise PrivacyRefusal(
                f"the ledger {path} was restored at {_time(restored)} from a copy, which does not know what was "
                f"queried since; {len(unsure)} of {len(shared)} shared ids in this batch are of hours before that: "
                "leave out the reports of these hours (`skip_spent`)"
            )
        secret = secrets.token_bytes(SECRET)
        ledger.execute("INSERT INTO query VALUES (?, ?)", [query.digest, secret])
        ledger.execute("INSERT INTO spent SELECT id, hour, ? FROM asked", [query.digest])
    return secret


def _answer(ledger: sqlite3.Connection, path: str, question: bytes) -> Receipt | None:
    answer = ledger.execute("SELECT output, path, time FROM answer WHERE question = ?", [question]).fetchone()
    if answer and tuple(map(type, answer)) != (bytes, str, int):
        raise PrivacyRefusal(f"the ledger {path} is damaged: it has an answer of another kind; {RESTORE}")
    return Receipt(*answer) if answer else None


def answered(path: str, inputs: bytes, now: float | None = None) -> Receipt | None:
    """The answer of a query that is finished, by the digest of all its inputs; None if there is none."""
    if not os.path.lexists(file_of(path)):
        return None
    with _transaction(path, now) as ledger:
        question = ledger.execute("SELECT question FROM request WHERE inputs = ?", [inputs]).fetchone()
        return _answer(ledger, path, question[0]) if question else None


def is_spent(path: str, shared: Sequence[tuple[bytes, int]]) -> bool:
    """Whether one of the shared ids was spent on a query that is finished, or may have been before a restore."""
    place = file_of(path)
    if not os.path.exists(place):
        return False
    done = "SELECT 1 FROM spent WHERE id = ? AND (query IS NULL OR query NOT IN (SELECT digest FROM query))"
    lost = "SELECT 1 FROM restored WHERE time >= ? AND NOT EXISTS (SELECT 1 FROM spent WHERE id = ?)"
    try:
        with closing(sqlite3.connect(place, SECONDS_TO_WAIT, isolation_level=None)) as ledger:
            return any(
                ledger.execute(done, [identity]).fetchone() or ledger.execute(lost, [hour, identity]).fetchone()
                for identity, hour in shared
            )
    except sqlite3.Error as error:
        raise _refused(error, path) from error


def finish(path: str, query: Fingerprint, answer: Receipt, inputs: bytes | None = None) -> None:
    """Forgets the secret of a query whose result is written, and keeps which that is; its shared ids stay spent.

    `inputs` is a digest of all that the query was made from.
    """
    with _transaction(path) as ledger:
        ledger.execute("UPDATE spent SET query = NULL WHERE query = ?", [query.digest])
        ledger.execute("DELETE FROM query WHERE digest = ?", [query.digest])
        ledger.execute("INSERT OR IGNORE INTO answer VALUES (?, ?, ?, ?)", [query.question, *answer])
        if inputs is not None:
            ledger.execute("INSERT OR IGNORE INTO request VALUES (?, ?)", [inputs, query.question])


def receipt_of(path: str, now: float) -> Receipt:
    """The answer that a file holds."""
    with open(path, "rb") as file:
        return Receipt(hashlib.file_digest(file, "sha256").digest(), os.path.realpath(path), int(now))


def restore_answer(ledger: str, answer: Receipt, path: str) -> bool:
    """Has a file hold that answer, and gives whether it was restored; refuses where no copy is left."""
    kept, ending = _copy_of(ledger, answer), os.path.splitext(answer.path)[1]
    for held in (path, answer.path, kept):
        with suppress(OSError):
            if receipt_of(held, 0).output != answer.output:
                continue
            if held == path:
                return False
            if os.path.splitext(path)[1] != ending:
                break
            with open(held, "rb") as file:
                save(file.read(), path)
            return True
    raise PrivacyRefusal(
        f"this query was answered at {answer.when}, in {answer.path}, and another answer would have other noise; "
        f"neither {path} nor a copy in its form ({ending}) holds that answer: use the file that does, or a backup"
    )


def _copy_of(ledger: str, answer: Receipt) -> str:
    return os.path.join(file_of(ledger) + ANSWERS, answer.output.hex() + os.path.splitext(answer.path)[1])


def keep_copy(ledger: str, answer: Receipt) -> None:
    """Keeps a copy of an answer beside the ledger."""
    copy, before = _copy_of(ledger, answer), len(written)
    if not os.path.exists(copy):
        try:
            os.makedirs(os.path.dirname(copy), 0o700, exist_ok=True)
            with open(answer.path, "rb") as file:
                save(file.read(), copy)
        except OSError as error:
            raise TryAgain(
                f"a copy of the answer cannot be kept in {os.path.dirname(copy)}: {error.strerror}"
            ) from error
        finally:
            del written[before:]  # of no interest to who asked


def _refusal(path: str, spent: list[tuple[int, int]], asked: int) -> str:
    hours = sorted({hour for hour, _ in spent})
    shown = ", ".join(_time(hour) for hour in hours[:HOURS_SHOWN])
    more = f" and {len(hours) - HOURS_SHOWN} more" if len(hours) > HOURS_SHOWN else ""
    remedy = "leave out the reports of these hours (`skip_spent`)"
    if any(running for _, running in spent):
        remedy = (
            "another query of them has begun and is not finished: repeat it with the same reports, domain and options"
        )
    return (
        f"reports are aggregated once; {len(spent)} of {asked} shared ids in this batch were queried before, of "
        f"{len(hours)} hours ({shown}{more}), by the ledger {path}; {remedy}"
    )


def _time(seconds: int) -> str:
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%MZ}"
    except (ValueError, OverflowError, OSError):
        return f"second {seconds}"


@contextmanager
def _transaction(path: str, now: float | None = None) -> Iterator[sqlite3.Connection]:
    """The ledger, locked for this process until all of it is done or none."""
    place = file_of(path)
    try:
        if not os.path.lexists(place):
            _create(place, path)
        if not os.path.isfile(place):
            raise InputError(f"a ledger is a file; {path} is not: name a file with `ledger`")
        if os.path.getsize(place) == 0:
            raise PrivacyRefusal(f"the ledger {path} is empty, and a ledger never is; {RESTORE}")
        with closing(sqlite3.connect(place, SECONDS_TO_WAIT, isolation_level=None)) as ledger:
            for setting in ("synchronous = EXTRA", "secure_delete = ON", "temp_store = MEMORY"):
                ledger.execute(f"PRAGMA {setting}")
            ledger.execute("BEGIN IMMEDIATE")
            try:
                _check(ledger, path)
                number = ledger.execute("SELECT COUNT(*) FROM spent").fetchone()[0]
                known = _known(place)
                if known > number if known is not None else number:
                    ledger.execute("INSERT INTO restored VALUES (?)", [int(time.time() if now is None else now)])
                    ledger.execute("COMMIT")  # before the file beside it forgets
                    ledger.execute("BEGIN IMMEDIATE")
                if known != number:
                    _witness(place, number)
                yield ledger
                ledger.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):  # of its own accord, SQLite rolls back where the disk is full
                    ledger.execute("ROLLBACK")
                raise
    except sqlite3.Error as error:
        raise _refused(error, path) from error
    except UnicodeDecodeError as error:  # of SQLite's own words about what is damaged, or of a text in it
        raise PrivacyRefusal(f"the ledger {path} is damaged: it has text that is not UTF-8; {RESTORE}") from error
    except OSError as error:
        if error.errno in FULL:
            raise TryAgain(
                f"the ledger {path} cannot be written: {error.strerror}; make room, and run the same command again"
            ) from None
        raise InputError(
            f"the ledger {path} cannot be written: {error.strerror or error}; `ledger` names its file"
        ) from error


def _create(place: str, path: str) -> None:
    """Makes a ledger, unless there was one."""
    if os.path.exists(place + WITNESS):
        if os.path.lexists(place):  # by now: another process was faster
            return
        raise PrivacyRefusal(
            f"the ledger {path} is missing, and {path}{WITNESS} says that there was one; {RESTORE} (to start anew "
            "though reports may be queried twice, delete that file)"
        )
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as new:
        for statement in TABLES:
            new.execute(statement)
        new.execute(f"PRAGMA application_id = {APPLICATION}")
        content = new.serialize()
    beside = f"{place}.{secrets.token_hex(8)}.tmp"
    try:
        _write_new(beside, content)
        with suppress(FileExistsError):  # another process was faster: it is its ledger then
            try:
                os.link(beside, place)
            except FileExistsError:
                raise
            except OSError:  # a file system without links
                _write_new(place, content)
    finally:
        with suppress(OSError):
            os.unlink(beside)


def _write_new(path: str, content: bytes) -> None:
    """A file for its owner alone: a ledger may hold secrets."""
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(handle)


def _witness(place: str, number: int) -> None:
    """Writes the file beside a ledger, whole or not at all: what it says is believed."""
    words = (
        f"{os.path.basename(place)} beside this file is a ledger of Attributary: it knows which reports were queried.\n"
        "If it is missing or damaged, restore it from a backup. Keep this file beside it.\n"
        f"Shared ids: {number}\n"
    )
    beside = f"{place}.{secrets.token_hex(8)}.tmp"
    try:
        _write_new(beside, words.encode())
        os.replace(beside, place + WITNESS)
    finally:
        with suppress(OSError):
            os.unlink(beside)


def _known(place: str) -> int | None:
    """How many shared ids the ledger knew, as the file beside it says; None if there is no such file.

    One that does not say is refused: whether the ledger is the last one cannot be told.
    """
    try:
        with open(place + WITNESS, encoding="utf-8", errors="replace") as file:
            said = KNOWN.search(file.read())
    except FileNotFoundError:
        return None
    if said is None:
        raise PrivacyRefusal(
            f"{place}{WITNESS} does not say how many shared ids the ledger beside it knew: restore it from a backup, "
            "or delete it, and the ledger takes all hours until now for spent"
        )
    return int(said[1])


def _check(ledger: sqlite3.Connection, path: str) -> None:
    """Refuses a database that is damaged or not a ledger, or one of another form."""
    if ledger.execute("PRAGMA application_id").fetchone()[0] != APPLICATION:
        raise InputError(f"{path} is not an Attributary ledger; give `ledger` a ledger, or a name for a new one")
    known = {sql for (sql,) in ledger.execute("SELECT sql FROM sqlite_master WHERE type = 'table'")}
    state = ledger.execute("PRAGMA quick_check(1)").fetchone()[0]
    if state != "ok":
        raise PrivacyRefusal(f"the ledger {path} is damaged; {RESTORE}")
    if lacking := [statement.split()[2] for statement in TABLES if statement not in known]:
        raise PrivacyRefusal(
            f"the ledger {path} is damaged, or has a form that this version does not know: its tables "
            f"{', '.join(lacking)} are not those of a ledger; {RESTORE}"
        )


def _refused(error: sqlite3.Error, path: str) -> Exception:
    code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
    if code in LATER:
        return TryAgain(f"the ledger {path} cannot be used: {error}; run the same command again later")
    if code in UNWRITABLE:
        return InputError(f"the ledger {path} cannot be written: {error}; let this user write it and its folder")
    if code == sqlite3.SQLITE_NOTADB and not os.path.exists(file_of(path) + WITNESS):
        return InputError(f"{path} is not an Attributary ledger, or it is damaged; {RESTORE}")
    return PrivacyRefusal(f"the ledger {path} is damaged: {error}; {RESTORE}")
