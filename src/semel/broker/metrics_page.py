"""The page that Prometheus scrapes: ``GET /metrics``, on the broker's own event loop.

Not a web server: it answers one small request per connection and closes, which is all a scraper asks for. Nothing here
may cost the broker more than the rendering of its numbers, so a request head is limited in size and in time.
"""

from __future__ import annotations

import asyncio
from typing import Final, cast

from semel.broker.metrics import Metrics
from semel.net.network import Listener, Network

HEAD_BYTES_MAX: Final = 8192
HEAD_SECONDS_MAX: Final = 5.0


class MetricsPage:
    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._listener: Listener | None = None
        self._open: dict[_Scrape, None] = {}

    async def listen(self, network: Network, host: str, port: int) -> int:
        """Serve from now on; returns the port."""
        self._listener = await network.listen(host, port, lambda: _Scrape(self._metrics, self._open))
        return self._listener.port

    def close(self) -> None:
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        for scrape in list(self._open):
            scrape.abort()


class _Scrape(asyncio.Protocol):
    def __init__(self, metrics: Metrics, opened: dict[_Scrape, None]) -> None:
        self._metrics = metrics
        self._opened = opened
        self._head = b""
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._opened[self] = None
        self._timer = asyncio.get_running_loop().call_later(HEAD_SECONDS_MAX, self.abort)

    def connection_lost(self, error: Exception | None) -> None:
        self._opened.pop(self, None)
        if self._timer is not None:
            self._timer.cancel()

    def data_received(self, data: bytes) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        self._head += data
        if b"\r\n\r\n" not in self._head:
            if len(self._head) > HEAD_BYTES_MAX:
                self.abort()
            return
        method, _, rest = self._head.partition(b" ")
        path = rest.partition(b" ")[0].partition(b"?")[0]
        if method not in (b"GET", b"HEAD"):
            status, body = "405 Method Not Allowed", "only GET\n"
        elif path != b"/metrics":
            status, body = "404 Not Found", "the metrics are at /metrics\n"
        else:
            status, body = "200 OK", self._metrics.render()
        content = body.encode()
        head = (
            f"HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n"
            f"Content-Length: {len(content)}\r\nConnection: close\r\n\r\n"
        )
        transport.write(head.encode() + (b"" if method == b"HEAD" else content))
        transport.close()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()
