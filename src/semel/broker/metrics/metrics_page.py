"""The page that Prometheus scrapes, ``GET /metrics``, and ``GET /healthz``, on the broker's own event loop.

``/healthz`` answers 200 while the broker serves requests, and 503 from the moment at which a stop begins. ``/metrics``
is served until the clients' connections are closed; then this listener is closed as well.

This is not a web server: it answers one small request per connection and closes it, which is enough for Prometheus. So
that scrapes cannot slow the broker down, the size of a request's head, the duration of a connection and the number of
connections are limited; one connection too many closes the oldest. The page is rendered a few times a second at most;
requests beyond that get the page that was rendered last.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, cast

from semel.broker.metrics.metrics import Metrics
from semel.net.network import Listener, Network

HEAD_BYTES_MAX: Final = 8192
CONNECTION_SECONDS_MAX: Final = 5.0
CONNECTIONS_MAX: Final = 64
PAGES_AT_ONCE_MAX: Final = 10
PAGES_PER_SECOND: Final = 5


class MetricsPage:
    def __init__(self, metrics: Metrics, *, is_serving: Callable[[], bool]) -> None:
        """``is_serving`` returns whether the broker serves requests: False while it starts or stops."""
        self.is_serving = is_serving
        self._metrics = metrics
        self._listener: Listener | None = None
        self._open: dict[_Scrape, None] = {}
        self._text = ""
        self._allowed = float(PAGES_AT_ONCE_MAX)
        self._asked_at_s: float | None = None

    async def listen(self, network: Network, host: str, port: int) -> int:
        """Begin to serve. Returns the port."""
        self._listener = await network.listen(host, port, lambda: _Scrape(self))
        return self._listener.port

    def close(self) -> None:
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        for scrape in list(self._open):
            scrape.abort()

    def opened(self, scrape: _Scrape) -> None:
        self._open[scrape] = None
        if len(self._open) > CONNECTIONS_MAX:
            oldest = next(iter(self._open))
            del self._open[oldest]
            oldest.abort()

    def closed(self, scrape: _Scrape) -> None:
        self._open.pop(scrape, None)

    def text(self, now_s: float) -> str:
        """Return the page: rendered now, or the last one if it was rendered too often."""
        if self._asked_at_s is not None:
            refilled = self._allowed + (now_s - self._asked_at_s) * PAGES_PER_SECOND
            self._allowed = min(refilled, PAGES_AT_ONCE_MAX)
        self._asked_at_s = now_s
        if self._allowed >= 1:
            self._allowed -= 1
            self._text = self._metrics.render()
        return self._text


class _Scrape(asyncio.Protocol):
    def __init__(self, page: MetricsPage) -> None:
        self._page = page
        self._head = b""
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._page.opened(self)
        self._timer = asyncio.get_running_loop().call_later(CONNECTION_SECONDS_MAX, self.abort)

    def connection_lost(self, error: Exception | None) -> None:
        self._page.closed(self)
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
        elif path == b"/metrics":
            status, body = "200 OK", self._page.text(asyncio.get_running_loop().time())
        elif path == b"/healthz":
            status, body = (
                ("200 OK", "ok\n") if self._page.is_serving() else ("503 Service Unavailable", "not serving\n")
            )
        else:
            status, body = (
                "404 Not Found",
                "the metrics are at /metrics, and /healthz says whether this broker serves\n",
            )
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
