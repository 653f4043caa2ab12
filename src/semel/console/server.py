"""The console's web server. It runs until SIGTERM, SIGINT, or the end of the process that started it."""

from __future__ import annotations

import asyncio
import socket
import sys
import threading
from collections.abc import Callable
from types import FrameType
from typing import Final

import uvicorn
from starlette.applications import Starlette

from semel.net.event_loop import new_event_loop

_GRACE_S: Final = 2


class ConsoleServer(uvicorn.Server):
    """A web server for the application; ``stop`` may be called by any thread."""

    def __init__(self, app: Starlette, ready: Callable[[], None]) -> None:
        # No access log: it would contain the names in every address.
        config = uvicorn.Config(
            app,
            log_level="warning",
            access_log=False,
            lifespan="off",
            server_header=False,
            timeout_graceful_shutdown=_GRACE_S,
        )
        super().__init__(config)
        self._app = app
        self._ready = ready

    def run_on(self, listening: socket.socket) -> None:
        """Serve until the server is stopped; then close the connections to brokers."""
        try:
            with asyncio.Runner(loop_factory=new_event_loop) as runner:
                runner.run(self.serve([listening]))
        finally:
            self._app.state.close()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._ready()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._app.state.streams.end()
        super().handle_exit(sig, frame)

    def stop(self) -> None:
        self._app.state.streams.end()
        self.should_exit = True

    def stop_with_stdin(self) -> None:
        """Stop when standard input ends: the process that holds its other side has died, or closed it."""

        def wait() -> None:
            while sys.stdin.buffer.read(4096):
                pass
            self.stop()

        threading.Thread(target=wait, name="semel-console-parent", daemon=True).start()


def listen_on(host: str, port: int) -> socket.socket:
    """Open a listening socket. Raises OSError."""
    (family, *_), *_ = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    return socket.create_server((host, port), family=family)
