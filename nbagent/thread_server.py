"""`ThreadServer`: an HTTP server on a socket, in the main thread or in one of its own."""

from __future__ import annotations

import asyncio
import atexit
import socket
import threading
from concurrent.futures import Future
from contextvars import Context
from typing import Any, Self

import uvicorn

from nbagent.errors import ConfigurationError

LOOPBACK = "127.0.0.1"
#: Seconds that a server may take to stop, in addition to its requests.
_ENDS_WITHIN_S = 5.0
#: Seconds that an idle connection stays open. It must outlast the client's own timeout, or a request meets a closing
#: connection: clients use 5 s, proxies 60 s.
_KEPT_S = 75


def config(app: Any, ends_within_s: float, **options: Any) -> uvicorn.Config:
    """Server settings. `ends_within_s`: seconds that running requests get once the server must stop."""
    # log_config: logging is the user's; access_log: addresses name conversations; h11: bounds the head of a request
    return uvicorn.Config(
        app,
        http="h11",
        access_log=False,
        ws="none",
        server_header=False,
        timeout_keep_alive=_KEPT_S,
        timeout_graceful_shutdown=ends_within_s,  # type: ignore[arg-type]  # a fraction is fine for asyncio's timeout
        **{"log_config": None, **options},
    )


class ThreadServer(uvicorn.Server):
    """Serves on an event loop of its own from `start()` to `stop()`, or until the process ends.

    Requests run in a copy of `context`. `over` is done when it no longer serves.
    """

    def __init__(self, config: uvicorn.Config, sock: socket.socket, context: Context | None = None) -> None:
        super().__init__(config)
        self._socket = sock
        self._context = context or Context()
        self.url = f"http://{LOOPBACK}:{sock.getsockname()[1]}"
        #: The server's event loop, once it runs.
        self.up: Future[asyncio.AbstractEventLoop] = Future()
        self.over: Future[None] = Future()
        self._thread = threading.Thread(target=self._run, name="nbagent-serve", daemon=True)

    def start(self) -> Self:
        """Begin to serve. Requests are answered from now on."""
        self._thread.start()
        self.up.result()
        atexit.register(self.stop)
        return self

    def stop(self) -> None:
        """Stop the requests, close the connections and the port, and wait for that. May be called twice."""
        atexit.unregister(self.stop)
        self.should_exit = True
        self._thread.join((self.config.timeout_graceful_shutdown or 0) + _ENDS_WITHIN_S)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to serve."""
        await super().startup(sockets)
        self.up.set_result(asyncio.get_running_loop())

    def _run(self) -> None:
        try:
            self._context.run(self.run, [self._socket])
        finally:
            if not self.up.done():
                self.up.set_exception(ConfigurationError("The server did not start. Its log says why."))
            self.over.set_result(None)


def listening(host: str = LOOPBACK, port: int = 0) -> socket.socket:
    """A socket that listens there; port 0 is a free one. Raises ConfigurationError."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0]
        sock = socket.socket(family, kind, protocol)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((address[0], port, *address[2:]))
        sock.listen()
    except (OSError, OverflowError) as error:
        told = f"{host}:{port} can't be used ({error}). Choose another --host or --port; 0 is a free port."
        raise ConfigurationError(told) from None
    sock.set_inheritable(True)
    return sock
