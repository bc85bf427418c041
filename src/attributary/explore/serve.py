"""serve: the explorer on a port of this machine, until it is interrupted."""

import secrets
import socket
from collections.abc import Callable

import uvicorn

from attributary.errors import InputError
from attributary.explore.app import make_app
from attributary.explore.desk import Desk
from attributary.explore.guard import HERE

TOKEN_BYTES = 32
PATIENCE = 1  # seconds that answers under way get when it ends


def serve(desk: Desk, port: int, ready: Callable[[str, str], None]) -> None:
    """Answers on 127.0.0.1 until Ctrl-C; port 0 is any that is free.

    `ready` is told the address to show, and one that works once, to start a browser with.
    """
    listening = listen(port)
    port = int(listening.getsockname()[1])
    token, ticket = secrets.token_urlsafe(TOKEN_BYTES), secrets.token_urlsafe(TOKEN_BYTES)
    config = uvicorn.Config(
        make_app(desk, token, port, ticket),
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
        desk.close()


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
        raise InputError(f"port {port} cannot be used: {error.strerror}; choose another with --port") from None
    return listening
