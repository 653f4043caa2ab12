"""A broker over TLS: the limits and budgets of plain connections hold, and what is not TLS is one line of the log."""

from __future__ import annotations

import contextlib
import logging
import socket
import ssl

import pytest

from semel.broker.network.server import Server
from semel.testing import Broker, certificate
from semel.testing.secured import broker_settings
from semel.wire.apis import APIS, ApiKey
from semel.wire.framing import encode_request
from semel.wire.messages.metadata import MetadataRequest
from tests.broker.raw_client import RawClient, batch, fetch_request, values
from tools.patience import PATIENCE_S, wait_until

MEGABYTE = 2**20


def trusting(version: ssl.TLSVersion | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=certificate.AUTHORITY)
    if version is not None:
        context.minimum_version = context.maximum_version = version
    return context


def server_of(broker: Broker) -> Server:
    assert broker._broker is not None
    assert broker._broker._running is not None
    return broker._broker._running.server


@pytest.fixture(scope="module")
def tls_broker() -> object:
    with Broker(tls=True) as running:
        yield running


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_requests_of_all_sizes_are_served(tls_broker: Broker, name: str, version: ssl.TLSVersion) -> None:
    with RawClient(tls_broker.port, tls=trusting(version)) as client:
        client.create_topic(name, max_message_bytes="10000000")
        sizes = (1, 16_000, 16_384, 300_000, 9_000_000)
        for offset, size in enumerate(sizes):
            assert client.produce(name, batch(b"%d" % offset * size)).base_offset == offset
        for offset, size in enumerate(sizes):
            assert values(client.fetch(name, offset))[0] == (offset, b"%d" % offset * size)


def test_many_requests_in_one_write_are_answered_in_order(tls_broker: Broker) -> None:
    with RawClient(tls_broker.port, tls=trusting()) as client:
        requests = [
            encode_request(number, APIS[ApiKey.METADATA], 9, MetadataRequest(topics=[])) for number in range(300)
        ]
        client.socket.sendall(b"".join(map(bytes, requests)))
        for number in range(300):
            assert client.receive(ApiKey.METADATA, 9, number).brokers


def test_a_broker_with_tls_makes_no_key_when_it_starts() -> None:
    """Making a key can take longer than all the rest of a start, so the one for tests was made once."""
    keys = [broker_settings("127.0.0.1", tls=True, users=False, acls=False)["ssl_keystore_key"] for _ in range(2)]
    assert keys == [certificate.PRIVATE_KEY] * 2


def test_plain_bytes_on_a_tls_port_are_closed_with_one_line(caplog: pytest.LogCaptureFixture) -> None:
    with Broker(tls=True) as broker, caplog.at_level(logging.WARNING, "semel.broker"):
        with RawClient(broker.port) as client:
            client.send(ApiKey.METADATA, 9, MetadataRequest(topics=[]))
            assert client.is_closed_by_broker()
        wait_until(lambda: not server_of(broker).connections, "it is gone")
        (line,) = caplog.messages
        assert line.endswith("closed: this listener takes TLS, and the client sends something else")


def test_tls_bytes_on_a_plain_port_are_closed_with_one_line(caplog: pytest.LogCaptureFixture) -> None:
    with Broker() as broker, caplog.at_level(logging.WARNING, "semel.broker"):
        with pytest.raises((ssl.SSLError, ConnectionError)):
            RawClient(broker.port, tls=trusting())
        (line,) = caplog.messages
        assert line.endswith("closed: the client speaks TLS, and this listener does not")


def test_connections_count_before_their_handshake() -> None:
    with Broker(tls=True, max_connections=3) as broker, contextlib.ExitStack() as stack:
        for _ in range(3):
            stack.enter_context(socket.create_connection(("127.0.0.1", broker.port), timeout=PATIENCE_S))
        wait_until(lambda: len(server_of(broker).connections) == 3, "all are counted")
        with pytest.raises((ssl.SSLError, ConnectionError)):
            RawClient(broker.port, tls=trusting())


def test_handshakes_that_do_not_end_do_not_keep_others_from_being_served() -> None:
    with Broker(tls=True) as broker, contextlib.ExitStack() as stack:
        for _ in range(50):
            begun = stack.enter_context(socket.create_connection(("127.0.0.1", broker.port), timeout=PATIENCE_S))
            begun.sendall(b"\x16\x03\x01\x02\x00")
        client = stack.enter_context(RawClient(broker.port, tls=trusting()))
        assert client.call(ApiKey.METADATA, 9, MetadataRequest(topics=[])).brokers
        assert len(server_of(broker).connections) == 51
        broker.clock.advance(seconds=11)
        wait_until(lambda: len(server_of(broker).connections) == 1, "the others were ended")
        assert client.call(ApiKey.METADATA, 9, MetadataRequest(topics=[])).brokers


def test_clients_that_do_not_read_stay_within_the_memory_of_answers_and_are_closed(name: str) -> None:
    with (
        Broker(tls=True, queued_max_response_bytes=64 * MEGABYTE) as broker,
        RawClient(broker.port, tls=trusting()) as canary,
        contextlib.ExitStack() as stack,
    ):
        server = server_of(broker)
        canary.create_topic(name)
        for _ in range(80):
            assert canary.produce(name, batch(b"x" * 300_000)).error_code == 0
        fetch = encode_request(1, APIS[ApiKey.FETCH], 11, fetch_request(name, 0, max_bytes=2**30))
        greedy = [stack.enter_context(RawClient(broker.port, tls=trusting())) for _ in range(20)]
        for client in greedy:
            client.socket.sendall(200 * bytes(fetch))
        stopped = lambda: sum(connection._stops != 0 for connection in list(server.connections))  # noqa: E731
        wait_until(lambda: stopped() == 20, "none of them is served any further")

        held = sum(connection._transport.get_write_buffer_size() for connection in server.connections)  # type: ignore[union-attr]
        assert 0 < server.responses.used_bytes <= 65 * MEGABYTE
        assert held <= 70 * MEGABYTE
        assert canary.call(ApiKey.METADATA, 9, MetadataRequest(topics=[])).brokers
        for _ in range(12):
            broker.clock.advance(seconds=3)
        wait_until(lambda: len(server.connections) == 1, "they are closed")
        assert server.responses.used_bytes == 0
        assert broker._broker is not None
        assert broker._broker.metrics.connections_stalled.value == 20


def test_a_client_that_reads_slowly_gets_everything(name: str) -> None:
    with Broker(tls=True) as broker, RawClient(broker.port, tls=trusting()) as client:
        client.create_topic(name, max_message_bytes="10000000")
        value = bytes(range(256)) * 30_000
        assert client.produce(name, batch(value)).error_code == 0
        client.send(ApiKey.FETCH, 11, fetch_request(name, 0, max_bytes=2**30))
        connection = next(iter(server_of(broker).connections))
        wait_until(lambda: connection.paused_at_ms is not None, "the socket is full")
        assert values(client.receive(ApiKey.FETCH, 11).responses[0].partitions[0]) == [(0, value)]
        wait_until(lambda: connection.paused_at_ms is None and connection.idle, "it goes on")
        assert values(client.fetch(name, 0)) == [(0, value)]


def test_faults_strike_inside_of_tls(tls_broker: Broker, name: str) -> None:
    with RawClient(tls_broker.port, tls=trusting()) as client:
        client.create_topic(name)
        tls_broker.faults.drop_response("Produce")
        with pytest.raises((ConnectionError, ssl.SSLError)):
            client.produce(name, batch(b"x"))
    assert [record.value for record in tls_broker.committed(name)] == [b"x"]


def test_a_broker_that_stops_says_goodbye() -> None:
    with Broker(tls=True) as broker:
        client = RawClient(broker.port, tls=trusting())
        client.call(ApiKey.METADATA, 9, MetadataRequest(topics=[]))
        broker.stop()
        assert client.socket.recv(1) == b"", "and not an error: close_notify came"
        client.socket.close()
