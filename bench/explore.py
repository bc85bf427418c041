"""The explorer against bare DuckDB: how long a browser waits for rows of a large tree, beside the query alone.

Both ask the same generated Parquet file for the same rows, in turn, seven times; the explorer's time is that of the
whole HTTP request, guard, query, JSON and all. The rows must be the same.
"""

import resource
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import duckdb
import httpx
import numpy as np
import pyarrow as pa
import uvicorn

from attributary.explore.estimate_store import open_store
from attributary.explore.plan_tab import plan_start
from attributary.explore.server import listen, make_app
from attributary.explore.session import Session
from attributary.logs.duckdb import print_no_progress
from attributary.tables import write_table
from bench.timing import heading

FANS = (990, 100, 100)  # 9,999,990 nodes
TIMES = 7
TOKEN = "t" * 43
COLUMNS = "node, parent, level, a, b, c, noisy, noise_variance, estimate, variance, low, high, correction"
LABEL = "CASE level WHEN 0 THEN a WHEN 1 THEN b ELSE c END"
ERROR = "sqrt(variance) / greatest(10, estimate)"


class Asked(NamedTuple):
    words: str
    address: dict[str, str]
    where: str
    order: str = "estimate DESC"


QUESTIONS = [
    Asked("the roots", {}, "parent = -1"),
    Asked("below a node of level 0", {"node": "500"}, "parent = 500"),
    Asked("below a node of level 1", {"node": "50000"}, "parent = 50000"),
    Asked("the same, by error", {"node": "50000", "sort": "error"}, "parent = 50000", f"{ERROR} DESC"),
    Asked("all nodes, by count", {"level": "all"}, "true"),
    Asked("all nodes, by error", {"level": "all", "sort": "error"}, "true", f"{ERROR} DESC"),
    Asked("all nodes, by correction", {"level": "all", "sort": "correction"}, "true", "abs(correction) DESC"),
    Asked("the last level, by count", {"level": "2"}, "level = 2"),
    Asked("search, few found", {"find": "Campaign 77"}, f"{LABEL} ILIKE '%campaign 77%'"),
    Asked("search, many found", {"find": "-07"}, f"{LABEL} ILIKE '%-07%'"),
]


def estimates(fans: tuple[int, int, int]) -> pa.Table:
    """Generated estimates of a tree of three levels, in level order."""
    sizes = np.cumprod(fans)
    begin_ = np.concatenate([[0], np.cumsum(sizes)])
    nodes, rng = int(begin_[-1]), np.random.default_rng(0)
    level = np.repeat(np.arange(3, dtype=np.int32), sizes)
    place = np.arange(nodes) - begin_[level]
    parent = np.where(level == 0, -1, begin_[np.maximum(level - 1, 0)] + place // np.array([1, *fans[1:]])[level])
    columns: dict[str, Any] = {"node": np.arange(nodes), "parent": parent.astype(np.int32), "level": level}
    words = ("campaign {}", "city {}", "2026-{:03}")
    for i, name in enumerate("abc"):
        below = np.array([int(np.prod(fans[i + 1 : j + 1])) for j in range(3)])
        code = (place // below[level] % fans[i]).astype(np.int32)
        labels = [words[i].format(k) for k in range(fans[i])]
        columns[name] = pa.DictionaryArray.from_arrays(pa.array(code, mask=level < i), labels)
    estimate = rng.standard_exponential(nodes) * np.array([1e5, 1e3, 10.0])[level]
    variance = np.array([4.0, 3.0, 2.0])[level]
    half = 2 * np.sqrt(variance)
    columns |= {"noisy": estimate + rng.standard_normal(nodes), "noise_variance": 1.5 * variance, "estimate": estimate}
    columns |= {"variance": variance, "low": estimate - half, "high": estimate + half}
    return pa.table(columns | {"correction": rng.standard_normal(nodes)})


def serve(session: Session) -> tuple[int, Callable[[], None]]:
    """The explorer on a port of this machine, and how to end it."""
    listening = listen(0)
    port = int(listening.getsockname()[1])
    server = uvicorn.Server(
        uvicorn.Config(make_app(session, TOKEN, port), log_level="critical", lifespan="off", ws="none")
    )
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()

    def stop() -> None:
        server.should_exit = True
        thread.join()
        listening.close()

    return port, stop


def timed(call: Callable[[], list[int]]) -> tuple[float, list[int]]:
    start = time.perf_counter()
    found = call()
    return 1000 * (time.perf_counter() - start), found


def main(fans: tuple[int, int, int] = FANS) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "estimates.parquet")
        write_table(estimates(fans), str(path))
        heading(f"The explorer on {sum(np.cumprod(fans)):,} nodes ({path.stat().st_size / 1e6:,.0f} MB of Parquet)")
        start = time.perf_counter()
        session = Session(None, lambda store: plan_start(store, None), 10.0, "laplace", open_store([str(path)]))
        print(f"opened in {time.perf_counter() - start:.1f} s", flush=True)
        port, stop = serve(session)
        bare = duckdb.connect()
        print_no_progress(bare)
        headers = {"Authorization": f"Bearer {TOKEN}"}
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", headers=headers, timeout=60) as browser:
            for asked in QUESTIONS:
                compare(asked, path, bare, browser)
            plan(browser)
        stop()
        session.close()
        print(f"at most {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.1f} GB, making the table included")


def compare(asked: Asked, path: Path, bare: Any, browser: httpx.Client) -> None:
    sql = f"SELECT {COLUMNS} FROM '{path}' WHERE {asked.where} ORDER BY {asked.order}, node LIMIT 100"

    def query() -> list[int]:
        return [row[0] for row in bare.execute(sql).fetchall()]

    def request() -> list[int]:
        return [row["node"] for row in browser.get("/api/rows", params=asked.address).json()["rows"]]

    took: dict[str, list[float]] = {"bare": [], "explorer": []}
    for i in range(TIMES + 1):
        for name, call in (("bare", query), ("explorer", request)):
            milliseconds, found = timed(call)
            if i:  # the first is to warm up
                took[name].append(milliseconds)
            if name == "bare":
                wanted = found
            assert found == wanted, asked.words
    low, high = (statistics.median(took[name]) for name in ("bare", "explorer"))
    print(f"{asked.words:28} bare {low:7.1f} ms, explorer {high:7.1f} ms: {high / low:4.2f}×", flush=True)


def plan(browser: httpx.Client) -> None:
    """The Plan tab on the same tree: the first look, and each move of a slider after it."""
    for words, fans, bar in (("these estimates", "", 300), ("a made-up tree of 93,100 nodes", "100x30x30", 50)):
        for slider in ("epsilon", "target"):
            first, *moves = [_moved(browser, fans, slider, i) for i in range(1 + TIMES)]
            each = statistics.median(moves)
            took = f"{first:,.0f} ms at first, {each:.1f} ms for each move: {each / bar:.2f} of the bar of {bar} ms"
            print(f"plan on {words}, {slider}: {took}", flush=True)


def _moved(browser: httpx.Client, fans: str, slider: str, i: int) -> float:
    """With a target the split is the best that meets it, and has to be found."""
    moved = {"epsilon": f"{1 + i}", "share": "1,2,3"} if slider == "epsilon" else {"target": f"{1 - 0.03 * i},,"}
    return timed(lambda: browser.get("/api/plan", params={"fans": fans, **moved}).json()["levels"])[0]


if __name__ == "__main__":
    main()
