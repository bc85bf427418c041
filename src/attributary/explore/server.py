"""Server: the explorer as a web app on a port of this machine, which answers nobody but the page that the user opened.

Pages of other sites run in the same browser and can send requests to this machine. Three things keep them out. The
Host must be our own address: a site whose name was made to point here (DNS rebinding) names itself in it. An Origin, if
there is one, must be ours. And whatever tells something needs the token in a header, which only our page can set: it
comes with the address, behind the #, which browsers send to no server and in no Referer. A cookie would be sent to
every other port of this machine, too, since cookies know hosts and not ports.

A browser that is started by a command has its address among the command's arguments, which all users of a machine can
see. So that address carries a ticket instead, which can be exchanged for the token once.
"""

import json
import secrets
import socket
from collections.abc import Callable, Iterator
from functools import cache, partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

import anyio
import duckdb
import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from attributary import report
from attributary.errors import InputError
from attributary.explore import plan_tab
from attributary.explore.estimate_store import ChangedError
from attributary.explore.queries import Queries
from attributary.explore.session import Session

HERE = "127.0.0.1"
DATA = "/api/"  # paths that tell something
SALE = "/api/token"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "cache-control": "no-store",
}


class Guard:
    """An app behind a token; every answer, a refusal too, carries headers that keep it in its own page."""

    def __init__(self, app: ASGIApp, token: str, port: int, ticket: str | None = None) -> None:
        self.app, self.token, self._ticket = app, token, ticket
        self.hosts = (f"{HERE}:{port}", f"localhost:{port}")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1008})
            return

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        await (self._refusal(scope["path"], Headers(scope=scope)) or self.app)(scope, receive, sent)

    def _refusal(self, path: str, headers: Headers) -> Response | None:
        """What a request gets that does not come from our page, or sells its ticket; None if it is to be answered."""
        host, data = headers.getlist("host"), path.startswith(DATA)
        if len(host) != 1 or host[0] not in self.hosts:
            return PlainTextResponse(f"this server answers to {self.hosts[0]} only", 421)
        foreign = headers.getlist("origin") not in ([], [f"http://{host[0]}"])
        if foreign or (data and headers.getlist("sec-fetch-site") not in ([], ["same-origin"])):
            return PlainTextResponse("pages of other sites are not answered", 403)
        if path == SALE:
            if self._ticket is None or not authorised(headers, f"Ticket {self._ticket}"):
                return PlainTextResponse("this address works only once; open the one shown in the terminal", 401)
            self._ticket = None
            return PlainTextResponse(self.token)
        if data and not authorised(headers, f"Bearer {self.token}"):
            words = "open the address shown in the terminal: this page does not have its token"
            return PlainTextResponse(words, 401)
        return None


def authorised(headers: Headers, secret: str) -> bool:
    """Whether a request knows a secret; how long the answer takes does not tell how much of it is right."""
    shown = headers.getlist("authorization")
    return len(shown) == 1 and secrets.compare_digest(shown[0].encode("latin-1"), secret.encode("latin-1"))


FOLDER, REPORT = Path(__file__).parent, Path(report.__file__).parent
SCRIPTS = [
    *(REPORT / name for name in ("number.js", "bar.js")),
    *(FOLDER / f"{name}.js" for name in ("ask", "state", "grid", "counts", "levels", "plan", "start")),
]
STYLES = [REPORT / "page.css", FOLDER / "explore.css"]
POLL = 0.1  # seconds between looks at whether the browser is still there
TOKEN_BYTES = 32
PATIENCE = 1  # seconds that answers under way get when it ends


def serve(session: Session, port: int, ready: Callable[[str, str], None]) -> None:
    """Answers on 127.0.0.1 until Ctrl-C; port 0 is any that is free.

    `ready` is told the address to show, and one that works once, to start a browser with.
    """
    listening = listen(port)
    port = int(listening.getsockname()[1])
    token, ticket = secrets.token_urlsafe(TOKEN_BYTES), secrets.token_urlsafe(TOKEN_BYTES)
    config = uvicorn.Config(
        make_app(session, token, port, ticket),
        log_level="critical",
        access_log=False,
        lifespan="off",
        ws="none",
        server_header=False,
        timeout_graceful_shutdown=PATIENCE,
    )
    page = f"http://{HERE}:{port}/"
    ready(f"{page}#{token}", f"{page}#once-{ticket}")
    try:
        uvicorn.Server(config).run(sockets=[listening])
    except KeyboardInterrupt:  # which is how it ends
        pass
    finally:
        listening.close()
        session.close()


def listen(port: int) -> socket.socket:
    """A socket on this port of 127.0.0.1 that waits for browsers."""
    # Of a socket that is not called TCP, asyncio does not know that it should send small answers at once.
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((HERE, port))
        listening.listen()  # from here on, whoever opens the address waits and is not refused
    except OSError as error:
        listening.close()
        raise InputError(f"port {port} cannot be used: {error.strerror}; choose another with `port`") from None
    return listening


def make_app(session: Session, token: str, port: int, ticket: str | None = None) -> Guard:
    """The app, behind its guard, for one port of this machine."""
    routes = [
        Route("/", partial(_file, [FOLDER / "page.html"], "text/html")),
        Route("/explore.js", partial(_file, SCRIPTS, "text/javascript")),
        Route("/explore.css", partial(_file, STYLES, "text/css")),
        Route("/api/about", partial(_planned, session.about)),
        Route("/api/rows", partial(_queried, session, Queries.page)),
        Route("/api/node", partial(_queried, session, Queries.node)),
        Route("/api/course", partial(_planned, session.course)),
        Route("/api/count", partial(_queried, session, Queries.count)),
        Route("/api/rows.csv", partial(_streamed, session)),
        Route("/api/reopen", partial(_reopened, session), methods=["POST"]),
    ]
    tab = {"plan": plan_tab.answer, "best": plan_tab.best_answer, "curve": plan_tab.curve, "draws": plan_tab.draws}
    routes += [Route(f"/api/{name}", partial(_planned, partial(session.planned, ask))) for name, ask in tab.items()]
    errors: Any = {InputError: _refused, duckdb.Error: _broken, Exception: _bug}
    return Guard(Starlette(routes=routes, exception_handlers=errors), token, port, ticket)


def _file(paths: list[Path], kind: str, request: Request) -> Response:
    return Response(_joined(tuple(paths)), media_type=f"{kind}; charset=utf-8")


@cache
def _joined(paths: tuple[Path, ...]) -> bytes:
    return b"\n".join(path.read_bytes() for path in paths)


async def _planned(plan: Callable[[Any], object], request: Request) -> Response:
    return JSONResponse(await run_in_threadpool(plan, request.query_params))


async def _reopened(session: Session, request: Request) -> Response:
    await run_in_threadpool(session.reopen)
    return JSONResponse(session.about({}))


async def _queried(session: Session, ask: Callable[[Queries, Any], object], request: Request) -> Response:
    queries = session.queries(request.query_params)
    async with anyio.create_task_group() as group:
        group.start_soon(_interrupt_if_gone, request, queries)
        try:
            answer = await run_in_threadpool(_answer, queries, lambda: ask(queries, request.query_params))
        except duckdb.InterruptException:
            answer = None  # nobody is there to read it
        except (InputError, duckdb.Error) as error:
            answer = error  # a group would wrap it
        group.cancel_scope.cancel()
    if isinstance(answer, Exception):
        session.queries({}).cursor.close()  # a file that has changed explains an error best
        raise answer
    return JSONResponse(answer)


def _answer(queries: Queries, ask: Callable[[], object]) -> object:
    try:
        return ask()
    finally:
        queries.cursor.close()


async def _interrupt_if_gone(request: Request, queries: Queries) -> None:
    while not await request.is_disconnected():
        await anyio.sleep(POLL)
    queries.cursor.interrupt()


async def _streamed(session: Session, request: Request) -> Response:
    queries = session.queries(request.query_params)
    lines = await run_in_threadpool(_first_blocks, queries.csv(request.query_params))
    headers = {"content-disposition": 'attachment; filename="estimates.csv"'}
    return StreamingResponse(lines, media_type="text/csv; charset=utf-8", headers=headers)


def _first_blocks(lines: Iterator[str]) -> Iterator[str]:
    """The same lines, once the first two blocks are there: until then, an error can still be told."""
    return chain(list(islice(lines, 2)), lines)


def _refused(request: Request, error: Exception) -> Response:
    return JSONResponse({"error": str(error)}, 409 if isinstance(error, ChangedError) else 400)


def _broken(request: Request, error: Exception) -> Response:
    words = json.dumps(str(error).splitlines()[0][:200])
    return JSONResponse({"error": f"the table cannot be read: {words}; open it again, or write it again"}, 409)


def _bug(request: Request, error: Exception) -> Response:
    return PlainTextResponse(f"an internal error: {type(error).__name__}", 500)
