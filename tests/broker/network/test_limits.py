"""How many may connect and for how long, and that a broker that stops answers what it was asked."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import socket
import threading
import time

import pytest

from semel.testing import Broker
from semel.wire.apis import APIS, ApiKey
from semel.wire.framing import encode_request
from semel.wire.messages.api_versions import ApiVersionsRequest
from semel.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from semel.wire.messages.metadata import MetadataRequest
from tests.broker.raw_client import RawClient, batch, fetch_request, produce_request, values
from tools.patience import BEYOND_PATIENCE_MS, wait_until

_BROKER = 4
API_VERSIONS = ApiVersionsRequest("raw", "1.0")


def is_served(client: RawClient) -> bool:
    return bool(client.call(ApiKey.API_VERSIONS, 3, API_VERSIONS).error_code == 0)


def is_let_in(port: int) -> bool:
    """Whether one more connection is served, and not closed."""
    try:
        with RawClient(port) as client:
            return is_served(client)
    except ConnectionError:
        return False


@pytest.mark.parametrize("setting", ["max_connections", "max_connections_per_ip"])
def test_connections_over_the_limit_are_closed_and_the_others_served(setting: str) -> None:
    with Broker(**{setting: 2}) as broker:
        first, second = RawClient(broker.port), RawClient(broker.port)
        assert is_served(first)
        assert is_served(second)
        with RawClient(broker.port) as third:
            assert third.is_closed_by_broker()
        assert is_served(first)
        second.socket.close()
        # The broker learns of a closed connection when its loop comes round to it.
        wait_until(lambda: is_let_in(broker.port))
        first.socket.close()


def test_connections_over_the_rate_wait_and_are_served() -> None:
    """At two in a second, ten may come at once from one address."""
    with Broker(max_connection_creation_rate=2) as broker, contextlib.ExitStack() as clients:
        started_s = time.monotonic()
        for _ in range(12):
            assert is_served(clients.enter_context(RawClient(broker.port)))
        assert time.monotonic() - started_s > 0.9


def test_a_flood_from_one_address_is_closed_and_other_addresses_are_served() -> None:
    with Broker(max_connection_creation_rate=2) as broker, contextlib.ExitStack() as clients:
        for _ in range(100):
            clients.enter_context(socket.create_connection(("127.0.0.1", broker.port), source_address=("127.0.0.2", 0)))
        assert broker._broker is not None
        refused = broker._broker.metrics.connections_refused
        # Ten are served at once and one in a second, of which five may wait.
        wait_until(lambda: refused.value > 0)
        assert is_let_in(broker.port)


@pytest.mark.parametrize("setting", ["max_connections", "max_connections_per_ip"])
def test_a_place_is_free_again_when_its_client_has_left(setting: str) -> None:
    with Broker(**{setting: 1}) as broker:
        assert broker._broker is not None
        assert broker._broker._running is not None
        server = broker._broker._running.server
        for _ in range(3):
            with RawClient(broker.port) as client:
                assert is_served(client)
            wait_until(lambda: not server.connections)


@pytest.mark.parametrize("setting", ["max.connections", "max.connections.per.ip"])
def test_a_limit_on_connections_is_altered_while_the_broker_runs(setting: str) -> None:
    with Broker(**{setting.replace(".", "_"): 1}) as broker, RawClient(broker.port) as first:
        with RawClient(broker.port) as second:
            assert second.is_closed_by_broker()
        raised = AlterConfigsResource(_BROKER, "", [AlterableConfig(setting, 0, "2")])
        request = IncrementalAlterConfigsRequest([raised], validate_only=False)
        assert first.call(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, request).responses[0].error_code == 0
        with RawClient(broker.port) as second:
            assert is_served(second)


def test_an_idle_connection_is_closed_and_one_that_waits_is_not(name: str) -> None:
    def is_answered() -> bool:
        """On a busy machine even this one may be idle for too long, before its request arrives."""
        with contextlib.suppress(ConnectionError), RawClient(broker.port) as waiting:
            topic = f"{name}-{next(attempts)}"
            waiting.create_topic(topic)
            waiting.send(ApiKey.FETCH, 11, fetch_request(topic, 0, max_wait_ms=400))
            with RawClient(broker.port) as idle:
                assert idle.is_closed_by_broker()
            return bool(waiting.receive(ApiKey.FETCH, 11).error_code == 0)
        return False

    attempts = itertools.count()
    with Broker(connections_max_idle_ms=100) as broker:
        wait_until(is_answered)


def test_a_negative_idle_time_closes_nobody() -> None:
    with Broker(connections_max_idle_ms=-1) as broker, RawClient(broker.port) as idle:
        assert not idle.is_closed_by_broker(timeout_s=0.1)
        assert is_served(idle)


def test_a_client_that_does_not_read_its_answers_is_not_read_and_holds_up_nobody(name: str) -> None:
    with Broker() as broker, RawClient(broker.port) as greedy, RawClient(broker.port) as other:
        other.create_topic(name, max_message_bytes="10000000")
        assert other.produce(name, batch(b"x" * 4_000_000)).error_code == 0
        # Each answer has 4 MB, and nobody reads them; requests pile up until the socket takes no more.
        requests = 10_000 * encode_request(1, APIS[ApiKey.FETCH], 11, fetch_request(name, 0))
        greedy.socket.settimeout(0.2)
        with pytest.raises(TimeoutError):
            greedy.socket.sendall(100 * requests)
        assert is_served(other)
        assert broker._broker is not None
        assert broker._broker.metrics.sent_bytes.value < 100_000_000


def test_stopping_answers_a_long_poll_with_what_there_is(name: str) -> None:
    broker = Broker().start()
    with RawClient(broker.port) as client:
        client.create_topic(name)
        client.produce(name, batch(b"x"))
        client.send(ApiKey.FETCH, 11, fetch_request(name, 0, max_wait_ms=BEYOND_PATIENCE_MS, min_bytes=1_000_000))
        assert broker._broker is not None
        deadlines = broker._broker.node.deadlines
        wait_until(lambda: len(deadlines) == 1)
        broker.stop()

        response = client.receive(ApiKey.FETCH, 11)
        assert values(response.responses[0].partitions[0]) == [(0, b"x")]
        assert client.is_closed_by_broker()


def test_stopping_answers_the_records_it_has_taken(name: str, tmp_path: object) -> None:
    broker = Broker(str(tmp_path)).start()
    with RawClient(broker.port) as client:
        client.create_topic(name)
        sent = [client.send(ApiKey.PRODUCE, 9, produce_request(name, batch(b"%d" % n))) for n in range(50)]
        # Once the first is answered, the others have arrived.
        acknowledged = [client.receive(ApiKey.PRODUCE, 9, sent[0])]
        stopping = threading.Thread(target=broker.stop)
        stopping.start()
        with contextlib.suppress(ConnectionError):
            acknowledged += (client.receive(ApiKey.PRODUCE, 9, correlation_id) for correlation_id in sent[1:])
        stopping.join()
    with Broker(str(tmp_path)) as again, RawClient(again.port) as client:
        kept = client.fetch(name, 0).high_watermark
    assert kept >= len(acknowledged)


def test_a_stopped_broker_leaves_no_thread_and_no_port() -> None:
    before = set(threading.enumerate())
    broker = Broker().start()
    port = broker.port
    broker.stop()

    assert before.issuperset(threading.enumerate())
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))
    with socket.socket() as again:
        again.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        again.bind(("127.0.0.1", port))


def test_a_broker_that_cannot_start_leaves_nothing_behind(tmp_path: object) -> None:
    before = set(threading.enumerate())
    with Broker(str(tmp_path)):
        running = set(threading.enumerate())
        with pytest.raises(Exception, match="in use by another broker"):
            Broker(str(tmp_path)).start()
        assert running.issuperset(threading.enumerate())
    assert before < running
    assert before.issuperset(threading.enumerate())
    with Broker(str(tmp_path)):
        pass


def test_a_restarted_broker_serves_on_the_same_port(name: str) -> None:
    with Broker() as broker:
        port = broker.port
        for kill in (True, False):
            broker.restart(kill=kill)
            assert broker.port == port
            with RawClient(port) as client:
                assert client.call(ApiKey.METADATA, 9, MetadataRequest(topics=[])).brokers[0].port == port


def test_the_async_form() -> None:
    async def use() -> bool:
        async with Broker() as broker:
            with RawClient(broker.port) as client:
                return is_served(client)

    assert asyncio.run(use())
