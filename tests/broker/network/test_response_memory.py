"""Answers that are not read share a limited memory, and a client that reads is served beside those that do not."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from semel.broker.network.server import Server
from semel.testing import Broker
from semel.wire.apis import APIS, ApiKey
from semel.wire.framing import encode_request
from semel.wire.messages.metadata import MetadataRequest
from tests.broker.raw_client import RawClient, batch, fetch_request, produce_request, values
from tools.patience import wait_until

MEGABYTE = 2**20


def server_of(broker: Broker) -> Server:
    assert broker._broker is not None
    assert broker._broker._running is not None
    return broker._broker._running.server


@contextlib.contextmanager
def not_reading(broker: Broker, count: int, topic: str, *, max_wait_ms: int = 0) -> Iterator[list[RawClient]]:
    """Clients that ask for everything, many times, and read nothing."""
    fetch = encode_request(1, APIS[ApiKey.FETCH], 11, fetch_request(topic, 0, max_bytes=2**30, max_wait_ms=max_wait_ms))
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(RawClient(broker.port)) for _ in range(count)]
        for client in clients:
            client.socket.sendall(200 * bytes(fetch))
        yield clients


def stopped_count(server: Server) -> int:
    return sum(connection._stops != 0 for connection in list(server.connections))


def test_forty_clients_that_do_not_read_stay_within_the_limit_and_are_closed(name: str) -> None:
    with Broker(queued_max_response_bytes=64 * MEGABYTE) as broker, RawClient(broker.port) as canary:
        server = server_of(broker)
        canary.create_topic(name)
        for _ in range(80):
            assert canary.produce(name, batch(b"x" * 300_000)).error_code == 0
        with not_reading(broker, 40, name) as greedy:
            wait_until(lambda: stopped_count(server) == 40, "none of the forty is served any further")

            assert 0 < server.responses.used_bytes <= 65 * MEGABYTE
            canary.create_topic(name + "-own")
            assert canary.produce(name + "-own", batch(b"mine")).error_code == 0
            assert canary.call(ApiKey.METADATA, 9, MetadataRequest(topics=[])).brokers
            for _ in range(12):
                broker.clock.advance(seconds=3)
            assert values(canary.fetch(name + "-own", 0)) == [(0, b"mine")]
            wait_until(lambda: len(server.connections) == 1, "the forty are closed")
            assert server.responses.used_bytes == 0
            assert broker._broker is not None
            assert broker._broker.metrics.connections_stalled.value == 40
            for client in greedy:
                client.socket.close()


def test_delayed_fetches_that_all_get_records_at_once_stay_within_the_limit(name: str) -> None:
    """Each has asked when there was room, and is answered when a record arrives."""
    with Broker(queued_max_response_bytes=16 * MEGABYTE) as broker, RawClient(broker.port) as canary:
        server = server_of(broker)
        canary.create_topic(name, max_message_bytes="10000000")
        with contextlib.ExitStack() as stack:
            fetch = encode_request(
                1, APIS[ApiKey.FETCH], 11, fetch_request(name, 0, max_wait_ms=2**31 - 1, max_bytes=2**30)
            )
            clients = [stack.enter_context(RawClient(broker.port)) for _ in range(12)]
            for client in clients:
                client.socket.sendall(bytes(fetch))
            assert broker._broker is not None
            deadlines = broker._broker.node.deadlines
            wait_until(lambda: len(deadlines) == 12, "all are delayed")
            # Too large for the socket buffers of the operating system.
            assert canary.produce(name, batch(b"x" * 9_000_000)).error_code == 0
            wait_until(lambda: server.responses.is_scarce, "some wait for room")

            assert server.responses.used_bytes <= (16 + 10) * MEGABYTE
            assert canary.produce(name, batch(b"small")).error_code == 0, "small answers do not wait"
            # Each that reads makes room for the next; one that is too slow here is closed.
            for client in clients:
                with contextlib.suppress(ConnectionError):
                    answer = client.receive(ApiKey.FETCH, 11)
                    assert len(values(answer.responses[0].partitions[0])) >= 1
            wait_until(lambda: server.responses.used_bytes == 0, "everything was read")
            assert not server.responses.is_scarce


def produce_nine_megabytes(client: RawClient, topic: str) -> None:
    client.create_topic(topic, max_message_bytes="10000000")
    assert client.produce(topic, batch(b"x" * 9_000_000)).error_code == 0


def test_a_client_whose_answer_has_to_wait_for_room_may_leave(name: str) -> None:
    with Broker(queued_max_response_bytes=MEGABYTE) as broker, RawClient(broker.port) as canary:
        server = server_of(broker)
        produce_nine_megabytes(canary, name)
        with not_reading(broker, 3, name):
            wait_until(lambda: server.responses.is_scarce, "one waits for room")
        wait_until(lambda: len(server.connections) == 1, "they have left")

        assert (server.responses.used_bytes, server.responses.is_scarce) == (0, False)
        assert len(values(canary.fetch(name, 0))) == 1


def test_while_requests_wait_for_memory_a_second_without_reading_is_enough(name: str) -> None:
    with Broker(queued_max_response_bytes=MEGABYTE) as broker, RawClient(broker.port) as canary:
        server = server_of(broker)
        produce_nine_megabytes(canary, name)
        with not_reading(broker, 1, name):
            wait_until(lambda: server.responses.is_full, "it does not read")
            sent = canary.send(ApiKey.FETCH, 11, fetch_request(name, 0))
            for _ in range(8):
                broker.clock.advance(seconds=0.5)

            assert canary.receive(ApiKey.FETCH, 11, sent).error_code == 0
        assert broker._broker is not None
        assert broker._broker.metrics.connections_stalled.value == 1


def test_without_room_small_records_are_fetched_at_once_and_large_ones_when_there_is_room(name: str) -> None:
    with Broker() as broker, RawClient(broker.port) as canary, RawClient(broker.port) as other:
        server = server_of(broker)
        canary.create_topic(name)
        canary.create_topic(name + "-large")
        canary.produce(name + "-large", batch(b"x" * 200_000))
        server.responses.add(128 * MEGABYTE)
        polled = other.send(ApiKey.FETCH, 11, fetch_request(name, 0, max_wait_ms=2**31 - 1))
        assert broker._broker is not None
        deadlines = broker._broker.node.deadlines
        wait_until(lambda: len(deadlines) == 1, "the long poll waits for records")

        assert canary.produce(name, batch(b"small")).error_code == 0
        assert values(canary.fetch(name, 0)) == [(0, b"small")]
        assert values(canary.fetch(name, 1)) == [], "nothing is withheld where there is nothing"
        assert values(other.receive(ApiKey.FETCH, 11, polled).responses[0].partitions[0]) == [(0, b"small")]
        for max_wait_ms in (0, 1):
            sent = canary.send(ApiKey.FETCH, 11, fetch_request(name + "-large", 0, max_wait_ms=max_wait_ms))
            wait_until(lambda: server.responses.is_scarce, "the large batch waits for room")
            assert broker._thread.loop is not None
            broker._thread.loop.call_soon_threadsafe(server.responses.remove, 33 * MEGABYTE)
            assert len(values(canary.receive(ApiKey.FETCH, 11, sent).responses[0].partitions[0])) == 1
            broker._thread.loop.call_soon_threadsafe(server.responses.add, 33 * MEGABYTE)
            wait_until(lambda: server.responses.is_full, "it is full again")


def test_an_idle_client_with_unread_answers_is_closed_after_the_idle_time(name: str) -> None:
    with (
        Broker(connections_max_stalled_ms=10**9, connections_max_idle_ms=60_000) as broker,
        RawClient(broker.port) as canary,
    ):
        server = server_of(broker)
        canary.create_topic(name, max_message_bytes="10000000")
        assert canary.produce(name, batch(b"x" * 9_000_000)).error_code == 0
        with not_reading(broker, 1, name):
            wait_until(lambda: stopped_count(server) == 1, "it does not read")
            for _ in range(10):
                broker.clock.advance(seconds=10)
                canary.call(ApiKey.METADATA, 9, MetadataRequest(topics=[]))
            wait_until(lambda: len(server.connections) == 1, "it is closed although it did not read")
        assert server.responses.used_bytes == 0


def test_four_unfinished_requests_do_not_keep_the_memory_from_a_fifth(name: str) -> None:
    with (
        Broker(queued_max_request_bytes=4 * MEGABYTE) as broker,
        contextlib.ExitStack() as stack,
        RawClient(broker.port) as canary,
    ):
        server = server_of(broker)
        canary.create_topic(name, max_message_bytes="10000000")
        request = bytes(encode_request(1, APIS[ApiKey.PRODUCE], 9, produce_request(name, batch(b"x" * 1_900_000))))
        for _ in range(4):
            unfinished = stack.enter_context(RawClient(broker.port))
            unfinished.socket.sendall(request[:1_000_000])
        wait_until(lambda: server.memory.used_bytes >= 3 * MEGABYTE, "they have the memory")
        canary.socket.sendall(request)
        for _ in range(8):
            broker.clock.advance(seconds=0.5)

        assert canary.receive(ApiKey.PRODUCE, 9).responses[0].partition_responses[0].error_code == 0
        assert broker._broker is not None
        # How many have to be closed for the fifth depends on how much of the others had been read before it came.
        assert broker._broker.metrics.connections_stalled.value >= 1
