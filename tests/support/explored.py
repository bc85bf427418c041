"""Tables of estimates that tests look through, generated, with labels of every kind; and an explorer on them."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from attributary.explore.estimate_store import open_store
from attributary.explore.plan_tab import plan_start
from attributary.explore.server import make_app
from attributary.explore.session import Session

PORT, TOKEN = 8765, "t" * 43
HOST = f"127.0.0.1:{PORT}"
AWKWARD = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "quotes \" and ' and `",
    "مرحبا שלום",
    "🛒 émoji ß",
    "l" * 10_000,
    "",
    "control \x07\x1b[31m and\nnewline\ttab",
    "=1+1",
    "+cmd|' /C calc'!A0",
    "-5",
    "@SUM(A1)",
    "per%cent_under\\score",
    "'; DROP TABLE now; --",
    "javascript:alert(1)",
    "\u202ereversed",
]


def table(roots: list[str], fans: tuple[int, int] = (5, 7), seed: int = 0, total: bool = False) -> pa.Table:
    """A row for each node of a tree of three levels (four with a total), in level order."""
    rng = np.random.default_rng(seed)
    a, b = len(roots), fans[0]
    names = [(label,) for label in roots]
    second = [(label, f"City {j}") for label in roots for j in range(b)]
    third = [(x, y, f"day {k}") for x, y in second for k in range(fans[1])]
    paths = [*([()] if total else []), *names, *second, *third]
    top = int(total)
    parent = [
        *([-1] * top),
        *([0 if total else -1] * a),
        *(top + i // b for i in range(a * b)),
        *(top + a + i // fans[1] for i in range(a * b * fans[1])),
    ]
    level = [len(path) - 1 + top for path in paths]
    n = len(paths)
    estimate = rng.gamma(0.7, 10.0 ** (3 - np.array(level)), n)
    variance = rng.choice([1.0, 2.0, 5.0], n)
    noisy = estimate + rng.normal(0, 2, n)
    noisy[rng.random(n) < 0.2] = np.nan
    unmeasured = np.isnan(noisy)
    labels = {
        name: [p[i] if len(p) > i else None for p in paths] for i, name in enumerate(("campaign", "place", "day"))
    }
    return pa.table(
        {
            "node": np.arange(n),
            "parent": np.array(parent, np.int32),
            "level": np.array(level, np.int32),
            **{name: pa.array(cells, pa.string()).dictionary_encode() for name, cells in labels.items()},
            "noisy": pa.array(noisy, mask=unmeasured),
            "noise_variance": np.where(unmeasured, np.inf, variance * 1.5),
            "estimate": estimate,
            "variance": variance,
            "low": estimate - 2 * variance**0.5,
            "high": estimate + 2 * variance**0.5,
            "correction": pa.array(rng.laplace(0, 0.7, n), mask=unmeasured),
        }
    )


def shuffled(given: pa.Table, seed: int = 1) -> pa.Table:
    """The same rows in another order; nodes keep their numbers."""
    return given.take(np.random.default_rng(seed).permutation(given.num_rows))


def written(given: pa.Table, path: Path, **options: Any) -> str:
    parquet.write_table(given, path, **options)
    return str(path)


OPENED: list[Session] = []


def session(*paths: str, keep: bool = False) -> Session:
    """What is open of these files, until the test ends; or until whoever keeps it closes it."""
    open_ = (lambda: open_store(list(paths))) if paths else None
    made = Session(open_, lambda store: plan_start(store, None), 10.0, "laplace", open_() if open_ else None)
    if not keep:
        OPENED.append(made)
    return made


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    """Closes what a test opened."""
    yield
    while OPENED:
        OPENED.pop().close()


class Tab:
    """A browser's tab on the explorer, as HTTP: no network, the app itself."""

    def __init__(self, app: Any, headers: dict[str, str]) -> None:
        self.app, self.headers = app, headers

    def request(self, method: str, path: str, **options: Any) -> httpx.Response:
        async def ask() -> httpx.Response:
            transport = httpx.ASGITransport(self.app, raise_app_exceptions=False)
            async with httpx.AsyncClient(transport=transport, base_url=f"http://{HOST}", headers=self.headers) as tab:
                return await tab.request(method, path, **options)

        with ThreadPoolExecutor(1) as elsewhere:  # this thread may have the browser's event loop
            return elsewhere.submit(lambda: asyncio.run(ask())).result()

    def get(self, path: str, **options: Any) -> httpx.Response:
        return self.request("GET", path, **options)

    def post(self, path: str, **options: Any) -> httpx.Response:
        return self.request("POST", path, **options)


def client(given: Session, token: str | None = TOKEN, ticket: str | None = None, **headers: str) -> Tab:
    own = {} if token is None else {"Authorization": f"Bearer {token}"}
    return Tab(make_app(given, TOKEN, PORT, ticket), {**own, **headers})


def every_page(tab: Tab, **asked: str) -> list[dict[str, Any]]:
    """The rows of all pages, one after the other."""
    rows: list[dict[str, Any]] = []
    for page in range(1000):
        answer = tab.get("/api/rows", params={**asked, "page": str(page)})
        assert answer.status_code == 200, answer.text
        rows += answer.json()["rows"]
        if not answer.json()["more"]:
            return rows
    raise AssertionError("pages do not end")
