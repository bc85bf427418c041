"""app: the explorer as a web app. Thin: each route asks the desk, in a thread, and gives up if the browser does."""

import json
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

import anyio
import duckdb
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from attributary import report
from attributary.errors import InputError
from attributary.explore.desk import Desk
from attributary.explore.guard import Guard
from attributary.explore.look import Look
from attributary.explore.stamp import ChangedError

FOLDER, REPORT = Path(__file__).parent, Path(report.__file__).parent
SCRIPTS = [
    *(REPORT / name for name in ("number.js", "bar.js")),
    *(FOLDER / name for name in ("ask.js", "state.js", "grid.js", "counts.js", "levels.js")),
]
SCRIPTS += [FOLDER / name for name in ("plan.js", "start.js")]
STYLES = [REPORT / "page.css", FOLDER / "explore.css"]
POLL = 0.1  # seconds between looks at whether the browser is still there


def make_app(desk: Desk, token: str, port: int, ticket: str | None = None) -> Guard:
    """The app, behind its guard, for one port of this machine."""
    routes = [
        Route("/", partial(_file, [FOLDER / "page.html"], "text/html")),
        Route("/explore.js", partial(_file, SCRIPTS, "text/javascript")),
        Route("/explore.css", partial(_file, STYLES, "text/css")),
        Route("/api/about", partial(_planned, desk.about)),
        Route("/api/rows", partial(_looked, desk, desk.page)),
        Route("/api/node", partial(_looked, desk, desk.node)),
        Route("/api/count", partial(_looked, desk, desk.count)),
        Route("/api/rows.csv", partial(_streamed, desk)),
        Route("/api/reopen", partial(_reopened, desk), methods=["POST"]),
        Route("/api/plan", partial(_planned, desk.plan)),
        Route("/api/best", partial(_planned, desk.best)),
        Route("/api/draws", partial(_planned, desk.draws)),
    ]
    errors: Any = {InputError: _refused, duckdb.Error: _broken, Exception: _bug}
    return Guard(Starlette(routes=routes, exception_handlers=errors), token, port, ticket)


def _file(paths: list[Path], kind: str, request: Request) -> Response:
    return Response(_joined(tuple(paths)), media_type=f"{kind}; charset=utf-8")


@cache
def _joined(paths: tuple[Path, ...]) -> bytes:
    return b"\n".join(path.read_bytes() for path in paths)


async def _planned(plan: Callable[[Any], Any], request: Request) -> Response:
    return JSONResponse(await run_in_threadpool(plan, request.query_params))


async def _reopened(desk: Desk, request: Request) -> Response:
    await run_in_threadpool(desk.reopen)
    return JSONResponse(desk.about({}))


async def _looked(desk: Desk, ask: Callable[[Look, Any], Any], request: Request) -> Response:
    look = desk.look(request.query_params)
    async with anyio.create_task_group() as group:
        group.start_soon(_interrupt_if_gone, request, look)
        try:
            found = await run_in_threadpool(_answer, look, lambda: ask(look, request.query_params))
        except duckdb.InterruptException:
            found = None  # nobody is there to read it
        except (InputError, duckdb.Error) as error:
            found = error  # a group would wrap it
        group.cancel_scope.cancel()
    if isinstance(found, Exception):
        desk.look({}).cursor.close()  # a file that has changed explains an error best
        raise found
    return JSONResponse(found)


def _answer(look: Look, ask: Callable[[], Any]) -> Any:
    try:
        return ask()
    finally:
        look.cursor.close()


async def _interrupt_if_gone(request: Request, look: Look) -> None:
    while not await request.is_disconnected():
        await anyio.sleep(POLL)
    look.cursor.interrupt()


async def _streamed(desk: Desk, request: Request) -> Response:
    look = desk.look(request.query_params)
    lines = await run_in_threadpool(_begun, desk.csv(look, request.query_params))
    headers = {"content-disposition": 'attachment; filename="estimates.csv"'}
    return StreamingResponse(lines, media_type="text/csv; charset=utf-8", headers=headers)


def _begun(lines: Iterator[str]) -> Iterator[str]:
    """The same lines, once the first two blocks are there: until then, an error can still be told."""
    first = [line for line, _ in zip(lines, range(2), strict=False)]

    def all_of_them() -> Iterator[str]:
        yield from first
        yield from lines

    return all_of_them()


def _refused(request: Request, error: Exception) -> Response:
    return JSONResponse({"error": str(error)}, 409 if isinstance(error, ChangedError) else 400)


def _broken(request: Request, error: Exception) -> Response:
    words = json.dumps(str(error).splitlines()[0][:200])
    return JSONResponse({"error": f"the table cannot be read: {words}; open it again, or write it anew"}, 409)


def _bug(request: Request, error: Exception) -> Response:
    return PlainTextResponse(f"this is a bug of ours: {type(error).__name__}", 500)
