"""Ledger: which shared ids have been queried, so that none is queried twice.

A query goes in three steps. `reserve` spends the shared ids and keeps a secret of 32 bytes from the operating system,
both in one transaction, before any noise is drawn. The noise is stretched from the secret, and the result written.
`finish` forgets the secret.

So a process may die anywhere: before `reserve`, nothing is spent and nothing was drawn; after it, the same query gets
the same secret, thus the same answer to the bit, and any other query of these ids is refused; after `finish`, all are.
No crash loses the budget, and none buys a second answer. Two processes with the same query give the same answer.
"""

import hashlib
import os
import secrets
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from attributary.errors import InputError
from attributary.noise import rate

APPLICATION = 0x41747472
SECONDS_TO_WAIT = 60.0
HOURS_SHOWN = 3
TABLES = """
CREATE TABLE query (digest BLOB PRIMARY KEY, secret BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE spent (id BLOB PRIMARY KEY, hour INTEGER NOT NULL, query BLOB) WITHOUT ROWID;
"""


class Stretched:
    """A stream of bytes that a secret stands for: SHAKE-256 of the secret and a counter."""

    def __init__(self, secret: bytes) -> None:
        self.secret, self.reads = secret, 0

    def bytes(self, length: int, /) -> bytes:
        self.reads += 1
        return hashlib.shake_256(self.secret + self.reads.to_bytes(8, "big")).digest(length)


def digest(
    shared: Sequence[tuple[bytes, int]], keys: NDArray[np.uint64], total: NDArray[np.int64], a: Fraction | float
) -> bytes:
    """What makes a query the same query: its shared ids, keys, exact sums and rate of noise."""
    found = hashlib.sha256(repr((rate(a), len(shared), keys.shape)).encode())
    found.update(b"".join(identity for identity, _ in sorted(shared)))
    found.update(np.ascontiguousarray(keys, "<u8").data)
    found.update(np.ascontiguousarray(total, "<i8").data)
    return found.digest()


def reserve(path: str, shared: Sequence[tuple[bytes, int]], query: bytes) -> bytes:
    """Spends the shared ids on a query, and gives the secret that its noise is stretched from.

    Refuses if one of them was spent on another query, or on one that is finished.
    """
    with _transaction(path) as ledger:
        known = ledger.execute("SELECT secret FROM query WHERE digest = ?", [query]).fetchone()
        if known:
            return bytes(known[0])
        ledger.execute("CREATE TEMP TABLE asked (id BLOB PRIMARY KEY, hour INTEGER) WITHOUT ROWID")
        ledger.executemany("INSERT INTO asked VALUES (?, ?)", shared)
        spent = ledger.execute(
            "SELECT asked.hour, spent.query IN (SELECT digest FROM query) FROM asked JOIN spent USING (id) ORDER BY 1"
        ).fetchall()
        if spent:
            raise InputError(_refusal(path, spent, len(shared)))
        secret = secrets.token_bytes(32)
        ledger.execute("INSERT INTO query VALUES (?, ?)", [query, secret])
        ledger.execute("INSERT INTO spent SELECT id, hour, ? FROM asked", [query])
    return secret


def finish(path: str, query: bytes) -> None:
    """Forgets the secret of a query whose result is written; its shared ids stay spent."""
    with _transaction(path) as ledger:
        ledger.execute("UPDATE spent SET query = NULL WHERE query = ?", [query])
        ledger.execute("DELETE FROM query WHERE digest = ?", [query])


def _refusal(path: str, spent: list[tuple[int, int]], asked: int) -> str:
    hours = sorted({hour for hour, _ in spent})
    shown = ", ".join(_hour(hour) for hour in hours[:HOURS_SHOWN])
    more = f" and {len(hours) - HOURS_SHOWN} more" if len(hours) > HOURS_SHOWN else ""
    unfinished = any(running for _, running in spent)
    remedy = (
        "another query of them has begun and not finished: repeat it with the same reports, domain and options"
        if unfinished
        else "leave out the reports of these hours"
    )
    return (
        f"reports are aggregated once; {len(spent)} of {asked} shared ids in this batch were queried before, by "
        f"{path}, of {len(hours)} hours ({shown}{more}); {remedy}"
    )


def _hour(seconds: int) -> str:
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%MZ}"
    except (ValueError, OverflowError, OSError):
        return f"second {seconds}"


@contextmanager
def _transaction(path: str) -> Iterator[sqlite3.Connection]:
    """The ledger, locked for this process until all of it is done or none."""
    try:
        if not os.path.exists(path):
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))  # for its owner alone: it may hold secrets
        with closing(sqlite3.connect(path, SECONDS_TO_WAIT, isolation_level=None)) as ledger:
            for setting in ("synchronous = EXTRA", "secure_delete = ON", "temp_store = MEMORY"):
                ledger.execute(f"PRAGMA {setting}")
            ledger.execute("BEGIN IMMEDIATE")
            try:
                _check(ledger, path)
                yield ledger
                ledger.execute("COMMIT")
            except BaseException:
                ledger.execute("ROLLBACK")
                raise
    except (sqlite3.Error, OSError) as error:
        raise InputError(f"the ledger {path} cannot be used: {error}; choose another place with --ledger") from error


def _check(ledger: sqlite3.Connection, path: str) -> None:
    """Makes the tables of a new ledger; refuses a database that is none."""
    found = ledger.execute("PRAGMA application_id").fetchone()[0]
    if found == 0 and not ledger.execute("SELECT 1 FROM sqlite_master").fetchone():
        for statement in TABLES.strip().splitlines():
            ledger.execute(statement)
        ledger.execute(f"PRAGMA application_id = {APPLICATION}")
    elif found != APPLICATION:
        raise InputError(f"{path} is no ledger of attributary; choose another place with --ledger")
