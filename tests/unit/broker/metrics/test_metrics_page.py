"""The page for Prometheus costs the broker little, whatever its clients do. In virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

from semel.broker.metrics.metrics import Metrics
from semel.broker.metrics.metrics_page import (
    CONNECTION_SECONDS_MAX,
    CONNECTIONS_MAX,
    PAGES_AT_ONCE_MAX,
    PAGES_PER_SECOND,
    MetricsPage,
)
from semel.testing.virtual.loop import VirtualLoop
from semel.testing.virtual.network import VirtualNetwork

GET = b"GET /metrics HTTP/1.1\r\n\r\n"


class Scraper(asyncio.Protocol):
    def __init__(self) -> None:
        self.received = b""
        self.is_closed = False

    def data_received(self, data: bytes) -> None:
        self.received += data

    def connection_lost(self, error: Exception | None) -> None:
        self.is_closed = True


class Page:
    """A page, and clients that connect to it."""

    def __init__(self, network: VirtualNetwork, port: int, rendered: Callable[[], int]) -> None:
        self._network, self._port, self.rendered = network, port, rendered

    async def connect(self) -> tuple[asyncio.Transport, Scraper]:
        transport, scraper = await self._network.connect("localhost", self._port, Scraper)
        assert isinstance(scraper, Scraper)
        return transport, scraper

    async def scrape(self) -> bytes:
        transport, scraper = await self.connect()
        transport.write(GET)
        while not scraper.is_closed:
            await asyncio.sleep(0.001)
        return scraper.received


def with_page(use: Callable[[Page], Coroutine[Any, Any, None]]) -> None:
    loop = VirtualLoop()
    metrics = Metrics()
    renders = 0

    def look() -> float:
        nonlocal renders
        renders += 1
        return renders

    metrics.gauge("renders", "How often it was rendered.", look)

    async def run() -> None:
        network = VirtualNetwork(loop, Random(1))
        page = MetricsPage(metrics, is_serving=lambda: True)
        port = await page.listen(network, "localhost", 0)
        try:
            await use(Page(network, port, lambda: renders))
        finally:
            page.close()

    loop.run_until_complete(run())


def test_clients_that_send_nothing_or_drip_are_closed_after_their_time() -> None:
    async def use(page: Page) -> None:
        _, silent = await page.connect()
        transport, slow = await page.connect()
        for _ in range(int(CONNECTION_SECONDS_MAX) - 1):
            transport.write(b"G")
            await asyncio.sleep(1)
        assert not silent.is_closed
        assert not slow.is_closed
        await asyncio.sleep(1.5)
        assert silent.is_closed
        assert slow.is_closed

    with_page(use)


def test_a_client_that_does_not_read_its_page_is_closed_after_its_time() -> None:
    async def use(page: Page) -> None:
        transport, scraper = await page.connect()
        transport.pause_reading()
        transport.write(GET)
        await asyncio.sleep(CONNECTION_SECONDS_MAX + 1)
        transport.resume_reading()
        await asyncio.sleep(1)
        assert scraper.is_closed

    with_page(use)


def test_a_scraper_is_served_beside_a_thousand_silent_connections() -> None:
    async def use(page: Page) -> None:
        silent = [await page.connect() for _ in range(1000)]
        await asyncio.sleep(0.1)
        assert sum(not scraper.is_closed for _, scraper in silent) <= CONNECTIONS_MAX
        assert (await page.scrape()).startswith(b"HTTP/1.1 200 OK")

    with_page(use)


def test_a_flood_of_requests_is_rendered_a_few_times_a_second() -> None:
    async def use(page: Page) -> None:
        first = await page.scrape()
        second = await page.scrape()
        assert first != second, "now and then, the numbers are those of the moment"
        before = page.rendered()
        started = asyncio.get_running_loop().time()
        for _ in range(500):
            assert (await page.scrape()).startswith(b"HTTP/1.1 200 OK")
        passed_s = asyncio.get_running_loop().time() - started
        assert page.rendered() - before <= PAGES_AT_ONCE_MAX + PAGES_PER_SECOND * passed_s + 1

    with_page(use)
