"""Whatever one connection sends, the others are served, and each piece of garbage is worth one line in the log."""

from __future__ import annotations

import logging
import random
import socket
import struct
from collections.abc import Iterator
from typing import Any

import pytest

from semel.broker.requests.routes import served_apis
from semel.errors import ErrorCode
from semel.testing import Broker
from semel.wire.apis import APIS, ApiKey
from semel.wire.framing import encode_request
from semel.wire.messages.api_versions import ApiVersionsRequest
from semel.wire.messages.fetch import FetchRequest
from semel.wire.messages.metadata import MetadataRequest
from tests.broker.raw_client import RawClient, batch, fetch_request, produce_request, values
from tools.patience import wait_until

API_VERSIONS = ApiVersionsRequest("raw", "1.0")


def header(key: int, version: int, correlation_id: int = 1, client_id: bytes = b"x") -> bytes:
    return struct.pack(">hhih", key, version, correlation_id, len(client_id)) + client_id


@pytest.fixture
def canary(broker: Broker, name: str) -> Iterator[RawClient]:
    """A client that was there before; afterwards it must still be served, on the same connection."""
    with RawClient(broker.port) as bystander:
        bystander.create_topic(name)
        yield bystander
        assert bystander.produce(name, batch(b"alive")).error_code == 0
        assert bystander.call(ApiKey.API_VERSIONS, 3, API_VERSIONS).error_code == 0


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(struct.pack(">i", -1), id="negative size"),
        pytest.param(struct.pack(">i", 0), id="empty frame"),
        pytest.param(struct.pack(">i", 2**31 - 1), id="largest size"),
        pytest.param(b"\x16\x03\x01\x02\x00\x01\x00\x01", id="TLS hello"),
        pytest.param(b"GET / HTTP/1.1\r\n\r\n", id="HTTP"),
        pytest.param(struct.pack(">i", 3) + b"abc", id="frame without a header"),
        pytest.param(struct.pack(">i", 9) + struct.pack(">hhi", 3, 9, 1) + b"\0", id="cut header"),
        pytest.param(struct.pack(">i", 12) + struct.pack(">hhih", 3, 9, 1, 500) + b"ab", id="client id too long"),
        pytest.param(struct.pack(">i", 11) + header(3, 5, client_id=b"\xff"), id="client id not UTF-8"),
        pytest.param(struct.pack(">i", 14) + header(3, 1) + b"\xff\xff\xff", id="cut body"),
        pytest.param(struct.pack(">i", 15) + header(3, 1) + b"\x7f\xff\xff\xff", id="huge array"),
        pytest.param(struct.pack(">i", 15) + header(3, 1) + b"\x80\0\0\0", id="negative array"),
        pytest.param(struct.pack(">i", 11) + header(99, 0), id="unknown API"),
        pytest.param(struct.pack(">i", 11) + header(-5, 0), id="negative API"),
        pytest.param(struct.pack(">i", 11) + header(ApiKey.JOIN_GROUP, 0), id="API that is not served"),
        pytest.param(struct.pack(">i", 11) + header(ApiKey.METADATA, 14), id="version too new"),
        pytest.param(struct.pack(">i", 11) + header(ApiKey.FETCH, 3), id="version too old"),
        pytest.param(struct.pack(">i", 11) + header(ApiKey.PRODUCE, 0), id="Produce 0, advertised and not served"),
    ],
)
def test_what_is_not_a_request_closes_its_connection_and_is_one_line_in_the_log(
    caplog: pytest.LogCaptureFixture, name: str, sent: bytes
) -> None:
    with Broker() as broker, RawClient(broker.port) as bystander, caplog.at_level(logging.WARNING):
        bystander.create_topic(name)
        with RawClient(broker.port) as bad:
            bad.socket.sendall(sent)
            assert bad.is_closed_by_broker()

        (line,) = (record for record in caplog.records if record.name == "semel.broker")
        assert line.message.startswith("connection from 127.0.0.1:")
        assert (line.levelno, line.exc_info) == (logging.WARNING, None)
        assert bystander.produce(name, batch(b"alive")).error_code == 0


def test_a_request_larger_than_the_limit_closes_its_connection(name: str) -> None:
    with Broker(socket_request_max_bytes=10_000) as broker:
        with RawClient(broker.port) as client:
            client.create_topic(name)
            client.send(ApiKey.PRODUCE, 9, produce_request(name, batch(b"x" * 20_000)))
            assert client.is_closed_by_broker()
        with RawClient(broker.port) as client:
            assert client.produce(name, batch(b"x" * 5000)).base_offset == 0


def test_the_requests_before_a_bad_one_are_answered(broker: Broker, canary: RawClient) -> None:
    with RawClient(broker.port) as client:
        good = bytes(encode_request(5, APIS[ApiKey.API_VERSIONS], 3, API_VERSIONS))
        client.socket.sendall(good + struct.pack(">i", -1))

        assert client.receive(ApiKey.API_VERSIONS, 3, 5).error_code == 0
        assert client.is_closed_by_broker()


def test_a_flood_of_garbage_does_not_fill_the_log(
    broker: Broker, canary: RawClient, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        for _ in range(200):
            with RawClient(broker.port) as bad:
                bad.socket.sendall(b"\xff\xff\xff\xff")
                bad.is_closed_by_broker()

    assert len(caplog.records) < 40


def test_a_frame_that_never_ends_holds_up_nobody(broker: Broker, canary: RawClient) -> None:
    slow = [RawClient(broker.port) for _ in range(20)]
    for client in slow:
        client.socket.sendall(struct.pack(">i", 50_000_000) + b"a")

    assert canary.call(ApiKey.METADATA, 9, MetadataRequest(topics=[])).error_code == 0
    for client in slow:
        client.socket.close()


def test_a_client_that_resets_its_connection_in_the_middle_of_an_answer_leaves_nothing_behind(
    broker: Broker, canary: RawClient, name: str
) -> None:
    for _ in range(20):
        client = RawClient(broker.port)
        for _ in range(10):
            client.send(ApiKey.FETCH, 11, fetch_request(name, 0, max_wait_ms=50))
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.socket.close()

    assert broker._broker is not None
    deadlines = broker._broker.node.deadlines
    wait_until(lambda: len(deadlines) == 0)


# A handler that meets a bug


class Broken:
    """Stands in for a part of the broker, and fails at whatever it is asked."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(f"planted: {name}")


def test_a_bug_in_one_handler_is_its_api_s_generic_error_and_one_traceback(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    with Broker() as broker, RawClient(broker.port) as client, RawClient(broker.port) as other:
        client.create_topic(name)
        assert broker._broker is not None
        broker._broker.node.sessions = Broken()  # type: ignore[assignment]
        with caplog.at_level(logging.ERROR):
            response = client.call(ApiKey.FETCH, 11, FetchRequest(session_id=5, session_epoch=1))

        assert response.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
        (logged,) = (record for record in caplog.records if record.name == "semel.broker")
        assert "Fetch v11" in logged.message
        assert logged.exc_info is not None
        assert client.produce(name, batch(b"x")).error_code == 0
        assert other.produce(name, batch(b"x")).error_code == 0


def test_a_bug_while_producing_closes_the_connection_and_never_says_unknown_server_error(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Clients respond to UNKNOWN_SERVER_ERROR by sending the records again under a new epoch (KAFKA-14034)."""
    with Broker() as broker, RawClient(broker.port) as client, RawClient(broker.port) as other:
        client.create_topic(name)
        assert broker._broker is not None
        node = broker._broker.node
        clock, node.clock = node.clock, Broken()  # type: ignore[assignment]
        client.send(ApiKey.PRODUCE, 9, produce_request(name, batch(b"x")))
        assert client.is_closed_by_broker()
        node.clock = clock
        assert other.produce(name, batch(b"y")).base_offset == 0


def test_a_bug_where_the_api_has_no_error_closes_the_connection(name: str) -> None:
    with Broker() as broker, RawClient(broker.port) as client, RawClient(broker.port) as other:
        # Both are accepted before the bug is planted: to accept one, the broker counts its partitions.
        for each in (client, other):
            assert each.call(ApiKey.API_VERSIONS, 3, API_VERSIONS).error_code == 0
        assert broker._broker is not None
        node = broker._broker.node
        partitions, node.partitions = node.partitions, Broken()  # type: ignore[assignment]
        client.send(ApiKey.DESCRIBE_PRODUCERS, 0, _describe_producers(name))
        assert client.is_closed_by_broker()
        node.partitions = partitions
        other.create_topic(name)


def _describe_producers(topic: str) -> object:
    from semel.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest

    return DescribeProducersRequest([TopicRequest(topic, [0])])


# Mutated frames


def seeds(topic: str) -> list[bytes]:
    """A plausible request for every API and version that is served."""
    found = []
    for api in served_apis():
        for version in range(api.min_version, api.max_version + 1):
            message: object = api.request_class()
            if api.key is ApiKey.PRODUCE:
                message = produce_request(topic, batch(b"m"), timeout_ms=1)
            elif api.key is ApiKey.FETCH:
                message = fetch_request(topic, 0, max_wait_ms=1)
            found.append(bytes(encode_request(1, api, version, message, client_id="mutant")))
    return found


def mutated(frame: bytes, chance: random.Random) -> bytes:
    """The frame with a few bytes changed, taken out or put in, behind the API key, with a size that agrees."""
    body = bytearray(frame[4:])
    for _ in range(chance.randint(1, 4)):
        place = chance.randrange(2, len(body))
        match chance.randrange(4):
            case 0:
                body[place] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))
            case 1:
                del body[place : place + chance.randint(1, 4)]
            case 2:
                body[place:place] = chance.randbytes(chance.randint(1, 4))
            case _:
                body[place : place + 4] = chance.choice((b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\0\0\0\0"))
        if len(body) < 3:
            break
    return struct.pack(">i", len(body)) + bytes(body)


def test_mutated_requests_never_disturb_another_client(name: str, caplog: pytest.LogCaptureFixture) -> None:
    chance = random.Random(20260101)
    rounds = 12
    with Broker(max_partitions=200, auto_create_topics_enable=False) as broker, RawClient(broker.port) as canary:
        canary.create_topic(name)
        frames = [frame for frame in seeds(name) for _ in range(rounds)]
        chance.shuffle(frames)
        canary_topic = canary.create_topic(f"{name}-canary")
        for number in range(0, len(frames), 50):
            for frame in frames[number : number + 50]:
                with socket.create_connection(("127.0.0.1", broker.port)) as bad:
                    bad.sendall(mutated(frame, chance))
            assert canary.produce(canary_topic, batch(b"%d" % number)).error_code == 0
        found = canary.fetch(canary_topic, 0)
        assert [value for _, value in values(found)] == [b"%d" % number for number in range(0, len(frames), 50)]
    unexpected = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
    assert unexpected == []
