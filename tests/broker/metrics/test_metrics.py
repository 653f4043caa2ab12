"""What a broker counts, and the page that Prometheus reads it from."""

from __future__ import annotations

import asyncio
import re
from random import Random

from semel.broker.broker import Broker
from semel.broker.config.broker_config import BrokerConfig
from semel.broker.metrics.metrics import Metrics
from semel.broker.metrics.metrics_page import HEAD_BYTES_MAX, MetricsPage
from semel.clock import SystemClock
from semel.log.disk import SystemDisk
from semel.log.worker import ThreadWorker
from semel.net.network import SystemNetwork
from semel.testing import broker as fixture
from semel.types import Address
from tests.broker.raw_client import RawClient, batch
from tests.unit.broker.metrics.test_metrics import numbers
from tools.patience import PATIENCE_S

SAMPLE = re.compile(r'[a-z_]+(\{[a-z]+="[^"]*"(,[a-z]+="[^"]*")*\})? -?[0-9.e+-]+')


def test_a_broker_counts_what_it_does(name: str) -> None:
    with fixture.Broker() as broker, RawClient(broker.port) as client:
        client.create_topic(name)
        for sequence in (0, 2, 0):
            client.produce(name, batch(b"a", b"b", producer_id=1, producer_epoch=0, base_sequence=sequence))
        client.fetch(name, 0)
        with RawClient(broker.port) as bad:
            bad.socket.sendall(b"\xff" * 8)
            assert bad.is_closed_by_broker()
        assert broker._broker is not None
        page = broker._broker.metrics.render()
    found = numbers(page)
    assert all(line.startswith("#") or SAMPLE.fullmatch(line) for line in page.splitlines())
    assert found["semel_appended_batches_total"] == 2
    assert found["semel_appended_records_total"] == 4
    assert found["semel_duplicate_batches_total"] == 1
    assert found["semel_appended_bytes_total"] == found["semel_fetched_bytes_total"] > 100
    assert found['semel_requests_total{api="Produce"}'] == 3
    assert found['semel_request_seconds_count{api="Fetch"}'] == 1
    assert found["semel_malformed_requests_total"] == 1
    assert found["semel_connections_accepted_total"] == 2
    assert (found["semel_topics"], found["semel_partitions"], found["semel_producers"]) == (1, 1, 1)
    assert found["semel_syncs_total"] >= found["semel_commit_groups_total"] >= 2
    assert found["semel_sync_seconds_count"] == found["semel_commit_groups_total"]
    assert found["semel_received_bytes_total"] > 100 < found["semel_sent_bytes_total"]


# The page


async def ask(port: int, request: bytes) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    answer = await asyncio.wait_for(reader.read(), PATIENCE_S)
    writer.close()
    return answer


def asked(*requests: bytes) -> list[bytes]:
    async def serve() -> list[bytes]:
        page = MetricsPage(Metrics(), is_serving=lambda: True)
        port = await page.listen(SystemNetwork(), "127.0.0.1", 0)
        try:
            return [await ask(port, request) for request in requests]
        finally:
            page.close()

    return asyncio.run(serve())


def test_the_page_is_served_and_everything_else_is_not() -> None:
    found, elsewhere, posted, head = asked(
        b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"POST /metrics HTTP/1.1\r\n\r\n",
        b"HEAD /metrics HTTP/1.1\r\n\r\n",
    )

    top, _, body = found.partition(b"\r\n\r\n")
    assert top.startswith(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4")
    assert f"Content-Length: {len(body)}".encode() in top
    assert b"semel_connections_accepted_total 0" in body
    assert elsewhere.startswith(b"HTTP/1.1 404")
    assert posted.startswith(b"HTTP/1.1 405")
    assert head.endswith(b"\r\n\r\n")


def test_health_is_one_word() -> None:
    (answer,) = asked(b"GET /healthz HTTP/1.1\r\n\r\n")

    top, _, body = answer.partition(b"\r\n\r\n")
    assert top.startswith(b"HTTP/1.1 200 OK\r\n")
    assert body == b"ok\n"


def test_an_endless_head_is_cut_off() -> None:
    async def serve() -> bool:
        page = MetricsPage(Metrics(), is_serving=lambda: True)
        port = await page.listen(SystemNetwork(), "127.0.0.1", 0)
        try:
            await ask(port, b"x" * (HEAD_BYTES_MAX + 1))
        except ConnectionResetError:
            return True
        finally:
            page.close()
        return True

    assert asyncio.run(serve())


def test_a_broker_serves_its_page_on_a_port_of_its_own(tmp_path: object) -> None:
    async def serve() -> bytes:
        loop = asyncio.get_running_loop()
        broker = Broker(
            BrokerConfig.load(overrides={"log.dirs": str(tmp_path)}),
            listen=Address("127.0.0.1", 0),
            metrics_listen=Address("127.0.0.1", 0),
            disk=SystemDisk(),
            network=SystemNetwork(),
            clock=SystemClock(),
            random=Random(1),
            make_worker=lambda name: ThreadWorker(loop, name),
        )
        await broker.start()
        assert broker.metrics_address is not None
        try:
            return await ask(broker.metrics_address.port, b"GET /metrics HTTP/1.1\r\n\r\n")
        finally:
            await broker.stop()

    assert b"semel_partitions 0\n" in asyncio.run(serve())
