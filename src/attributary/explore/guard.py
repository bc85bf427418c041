"""Guard: nobody but the page that the user opened is answered.

Pages of other sites run in the same browser and can send requests to this machine. Three things keep them out. The
Host must be our own address: a site whose name was made to point here (DNS rebinding) names itself in it. An Origin, if
there is one, must be ours. And whatever tells something needs the token in a header, which only our page can set: it
comes with the address, behind the #, which browsers send to no server and in no Referer. A cookie would be sent to
every other port of this machine, too, since cookies know hosts and not ports.

A browser that is started by a command has its address among the command's arguments, which all users of a machine can
see. So that address carries a ticket instead, which can be exchanged for the token once.
"""

import secrets
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, NamedTuple

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
Message = MutableMapping[str, Any]
Headers = dict[str, list[str]]  # the headers
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]


class Refusal(NamedTuple):
    status: int
    words: str


class Guard:
    """An app behind a token; every answer, a refusal too, carries headers that keep it in its own page."""

    def __init__(self, app: App, token: str, port: int, ticket: str | None = None) -> None:
        self.app, self.token, self._ticket = app, token, ticket
        self.hosts = (f"{HERE}:{port}", f"localhost:{port}")

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1008})
            return
        headers: Headers = {}
        for name, value in scope["headers"]:
            headers.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))
        path, sent = scope["path"], _with_headers(send)
        refused = foreign(path, headers, self.hosts)
        if refused is None and path == SALE:
            refused = self._sold(headers)
        elif refused is None and path.startswith(DATA) and not authorised(headers, f"Bearer {self.token}"):
            refused = Refusal(401, "open the address shown in the terminal: this page does not have its token")
        if refused is not None:
            await _say(refused, sent)
        else:
            await self.app(scope, receive, sent)

    def _sold(self, headers: Headers) -> Refusal:
        """The token in exchange for the ticket, once."""
        if self._ticket is None or not authorised(headers, f"Ticket {self._ticket}"):
            return Refusal(401, "this address works only once; open the one shown in the terminal")
        self._ticket = None
        return Refusal(200, self.token)


def foreign(path: str, headers: Headers, hosts: tuple[str, ...]) -> Refusal | None:
    """Why a request is another page's; None if it may be ours."""
    host = headers.get("host", [])
    if len(host) != 1 or host[0] not in hosts:
        return Refusal(421, f"this server answers to {hosts[0]} only")
    origin = headers.get("origin", [f"http://{host[0]}"])
    if origin != [f"http://{host[0]}"]:
        return Refusal(403, "pages of other sites are not answered")
    if path.startswith(DATA) and headers.get("sec-fetch-site", ["same-origin"]) != ["same-origin"]:
        return Refusal(403, "pages of other sites are not answered")
    return None


def authorised(headers: Headers, secret: str) -> bool:
    """Whether a request knows a secret; how long the answer takes does not tell how much of it is right."""
    shown = headers.get("authorization", [])
    return len(shown) == 1 and secrets.compare_digest(shown[0].encode("latin-1"), secret.encode("latin-1"))


def _with_headers(send: Send) -> Send:
    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            ours = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
            message = {**message, "headers": [*message.get("headers", []), *ours]}
        await send(message)

    return sent


async def _say(refused: Refusal, send: Send) -> None:
    headers = [(b"content-type", b"text/plain; charset=utf-8")]
    await send({"type": "http.response.start", "status": refused.status, "headers": headers})
    await send({"type": "http.response.body", "body": refused.words.encode()})
