"""`ThreadServer`: an HTTP server on a socket, in its own thread."""

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
#: How long a server may take to stop once its requests have ended, in seconds.
_STOP_S = 5.0
#: How long an idle connection stays open, in seconds. This must exceed the clients' own timeout (clients use 5 s,
#: proxies 60 s), or a request may meet a closing connection.
_IDLE_S = 75


def config(app: Any, ends_within_s: float, **options: Any) -> uvicorn.Config:
    """Return the server settings. `ends_within_s` is how long current requests may continue when the server stops."""
    # log_config: the user configures logging; access_log: addresses name conversations; h11 limits the size of headers
    return uvicorn.Config(
        app,
        http="h11",
        access_log=False,
        ws="none",
        server_header=False,
        timeout_keep_alive=_IDLE_S,
        timeout_graceful_shutdown=ends_within_s,  # type: ignore[arg-type]  # asyncio's timeout accepts fractions
        **{"log_config": None, **options},
    )


class ThreadServer(uvicorn.Server):
    """Serves on its own event loop from `start()` to `stop()`, or until the process ends.

    Requests run in a copy of `context`. The future `over` is done when the server has stopped.
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
        """Start serving, and return once requests are accepted."""
        self._thread.start()
        self.up.result()
        atexit.register(self.stop)
        return self

    def stop(self) -> None:
        """Stop the requests, and close the connections and the port. This method may be called twice.

        Waits until the server has stopped, but no more than `_STOP_S` seconds beyond the time allowed for current
        requests.
        """
        atexit.unregister(self.stop)
        self.should_exit = True
        self._thread.join((self.config.timeout_graceful_shutdown or 0) + _STOP_S)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """See `uvicorn.Server`."""
        await super().startup(sockets)
        self.up.set_result(asyncio.get_running_loop())

    def _run(self) -> None:
        try:
            self._context.run(self.run, [self._socket])
        finally:
            if not self.up.done():
                self.up.set_exception(ConfigurationError("The server did not start. See its log for the reason."))
            self.over.set_result(None)


def listening(host: str = LOOPBACK, port: int = 0) -> socket.socket:
    """Return a listening socket; port 0 chooses a free port. Raises `ConfigurationError` if the port can't be used."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0]
        sock = socket.socket(family, kind, protocol)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((address[0], port, *address[2:]))
        sock.listen()
    except (OSError, OverflowError) as error:
        fix = "Choose another --host or --port; port 0 chooses a free one."
        raise ConfigurationError(f"{host}:{port} can't be used ({error}). {fix}") from None
    sock.set_inheritable(True)
    return sock
