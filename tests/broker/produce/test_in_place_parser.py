"""A Produce request is answered alike, byte for byte, whichever parser reads it, whatever is sent."""

from __future__ import annotations

import asyncio
import random
import struct
from collections.abc import Iterator
from types import SimpleNamespace
from typing import cast
from uuid import UUID

import pytest

from semel.broker.broker import Broker as RealBroker
from semel.broker.config.broker_config import BrokerConfig
from semel.broker.network.request import Request
from semel.broker.produce.in_place_parser import find
from semel.broker.requests.handlers.create_topics import create_topics
from semel.errors import DecodeError, ErrorCode
from semel.testing import Broker
from semel.testing.virtual.clock import VirtualClock
from semel.testing.virtual.disk import VirtualDisk
from semel.testing.virtual.latency import uniform_ms
from semel.testing.virtual.loop import VirtualLoop
from semel.testing.virtual.network import VirtualNetwork
from semel.testing.virtual.worker import VirtualWorker
from semel.types import Address
from semel.wire.apis import APIS, ApiKey
from semel.wire.codec import decode
from semel.wire.crc import crc32c
from semel.wire.framing import decode_request_header, decode_response_header, encode_request
from semel.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from semel.wire.messages.delete_topics import DeleteTopicsRequest
from semel.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from semel.wire.records import (
    ATTRIBUTES_POSITION,
    BASE_SEQUENCE_POSITION,
    BASE_TIMESTAMP_POSITION,
    CRC_POSITION,
    HEADER_SIZE,
    LAST_OFFSET_DELTA_POSITION,
    LEADER_EPOCH_POSITION,
    MAX_TIMESTAMP_POSITION,
    PRODUCER_EPOCH_POSITION,
    PRODUCER_ID_POSITION,
    RECORD_COUNT_POSITION,
    Codec,
)
from tests.broker.raw_client import RawClient, batch, produce_request
from tests.broker.transactional_client import Transactional

VERSIONS = range(3, 14)
NAMES = ("t", "a-topic-of-usual-length", "n" * 126, "m" * 127, "l" * 249)
TIME = 1_700_000_000_000


class Pair:
    """Two brokers with the same topics: one parses in place what it can, the other never."""

    def __init__(self, in_place: Broker, general: Broker) -> None:
        self.brokers = (in_place, general)
        assert general._broker is not None
        assert general._broker._running is not None
        general._broker._running.dispatcher._parse_in_place = lambda connection, frame: None
        self.clients = [RawClient(broker.port) for broker in self.brokers]
        for client in self.clients:
            for name in NAMES:
                client.create_topic(name, partitions=2)

    def ask(self, frame: bytes) -> list[bytes | None]:
        """What both answer to the same frame; None if they hang up."""
        answers: list[bytes | None] = []
        for number, client in enumerate(self.clients):
            client.socket.sendall(frame)
            try:
                answers.append(client.receive_frame())
            except ConnectionError:
                answers.append(None)
                self.clients[number] = RawClient(self.brokers[number].port)
        return answers


@pytest.fixture(scope="module")
def pair() -> Iterator[Pair]:
    # Topic ids are random, so both brokers draw the same numbers.
    with Broker() as in_place, Broker() as general:
        for broker in (in_place, general):
            assert broker._broker is not None
            broker._broker.node.random = random.Random(5)
        yield Pair(in_place, general)


def framed(request: ProduceRequest, version: int, client_id: str | None = "raw") -> bytes:
    return bytes(encode_request(7, APIS[ApiKey.PRODUCE], version, request, client_id=client_id))


def topic_ids(pair: Pair) -> dict[str, UUID]:
    found = []
    for broker in pair.brokers:
        assert broker._broker is not None
        found.append({name: topic.id for name, topic in broker._broker.node.image.topics.items()})
    assert found[0] == found[1]
    return found[0]


@pytest.mark.parametrize("version", VERSIONS)
def test_the_usual_requests_are_answered_alike_and_really_are_parsed_in_place(pair: Pair, version: int) -> None:
    identities = topic_ids(pair)
    for name in NAMES:
        for client_id in (None, "", "raw", "x" * 300):
            for acks in (1, -1):
                request = produce_request(name, batch(b"v", timestamp=TIME), partition=1, acks=acks)
                request.topic_data[0].topic_id = identities[name]
                frame = framed(request, version, client_id)
                is_in_place = find(memoryview(frame)[4:]) is not None
                assert is_in_place == (len(name) <= 126 or version < 9 or version >= 13)
                in_place, general = pair.ask(frame)
                assert in_place == general
                assert in_place is not None


@pytest.mark.parametrize("version", VERSIONS)
def test_retries_refusals_and_everything_unusual_are_answered_alike(pair: Pair, version: int) -> None:
    identities = topic_ids(pair)

    def producer(sequence: int) -> bytes:
        return batch(b"i", timestamp=TIME, producer_id=70 + version, producer_epoch=0, base_sequence=sequence)

    bad_crc = bytearray(batch(b"x", timestamp=TIME))
    bad_crc[20] ^= 1
    for records in (
        producer(0),
        producer(0),  # A retry.
        producer(5),  # A gap.
        bytes(bad_crc),
        batch(b"x", timestamp=TIME)[:-3],
        batch(b"x" * 2_000_000, timestamp=TIME),
        batch(b"x", timestamp=TIME, codec=Codec.ZSTD),
        batch(b"x", timestamp=TIME, producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True),
        batch(b"x", timestamp=TIME) * 2,
        b"",
        None,
        b"short",
    ):
        for partition in (0, 9):
            request = produce_request("t", records, partition=partition)
            request.topic_data[0].topic_id = identities["t"]
            in_place, general = pair.ask(framed(request, version))
            assert in_place == general
            assert in_place is not None
    several = ProduceRequest(
        acks=-1,
        timeout_ms=1000,
        topic_data=[
            TopicProduceData(name, identities[name], [PartitionProduceData(0, batch(b"s", timestamp=TIME))] * 2)
            for name in NAMES[:2]
        ],
    )
    for request in (
        several,
        ProduceRequest(acks=-1),
        ProduceRequest(acks=7, topic_data=several.topic_data[:1]),
        ProduceRequest(acks=-1, transactional_id="x", timeout_ms=1000, topic_data=several.topic_data[:1]),
        produce_request("absent", batch(b"x", timestamp=TIME)),
    ):
        in_place, general = pair.ask(framed(request, version))
        assert in_place == general


@pytest.mark.parametrize("version", [8, 9, 11, 12, 13])
def test_batches_of_a_transaction_are_answered_alike_from_the_first_to_one_that_is_late(
    pair: Pair, version: int
) -> None:
    identities = topic_ids(pair)
    transactional_id = f"transaction in version {version}"
    producers = [Transactional(client, transactional_id, is_v2=version >= 12) for client in pair.clients]
    for producer in producers:
        producer.find()
        assert producer.init().error_code == 0
        if version < 12:
            assert producer.add("t", 0) == [0]
    assert producers[0].producer_id == producers[1].producer_id

    def ask(
        sequence: int, *, epoch: int = 0, name: str | None = transactional_id, is_transactional: bool = True
    ) -> int:
        records = batch(
            b"x",
            timestamp=TIME,
            producer_id=producers[0].producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            is_transactional=is_transactional,
        )
        request = produce_request("t", records)
        request.transactional_id = name
        request.topic_data[0].topic_id = identities["t"]
        in_place, general = pair.ask(framed(request, version))
        assert in_place == general
        assert in_place is not None
        return _code_in(in_place, version)

    if version >= 12:
        # With transactions V2 sequences begin at 0, also once the coordinator has let the producer in.
        assert [ask(5), ask(5)] == [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER] * 2
    assert [ask(0), ask(1), ask(1), ask(2)] == [ErrorCode.NONE] * 4
    assert ask(9) == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert ask(3, name="somebody else") != ErrorCode.NONE
    assert ask(3, name=None) == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert ask(3, epoch=7) != ErrorCode.NONE
    ask(3, is_transactional=False)
    for producer in producers:
        assert producer.end(True).error_code == 0
    # Scenario 42: nothing late opens a transaction that nobody ends.
    assert ask(3) != ErrorCode.NONE


def test_mutated_requests_are_answered_alike(pair: Pair) -> None:
    chance = random.Random(1)
    identities = topic_ids(pair)
    for number in range(600):
        version = chance.choice(VERSIONS)
        request = produce_request("t", batch(b"m%d" % number, timestamp=TIME), acks=-1)
        request.topic_data[0].topic_id = identities["t"]
        body = bytearray(framed(request, version)[4:])
        for _ in range(chance.randint(1, 2)):
            place = chance.randrange(4, len(body))
            body[place] = chance.choice((0, 1, 2, 3, 0x7F, 0x80, 0xFF, body[place] ^ 1))
        if _cannot_be_compared(bytes(body), version):
            continue
        in_place, general = pair.ask(struct.pack(">i", len(body)) + bytes(body))
        assert in_place == general, (number, version, bytes(body))
    for client in pair.clients:
        assert client.produce("t", batch(b"end", timestamp=TIME)).error_code == 0
    ends = {client.fetch("t", 0).high_watermark for client in pair.clients}
    assert len(ends) == 1


def test_batches_with_mutated_headers_and_true_checksums_are_answered_alike(pair: Pair) -> None:
    chance = random.Random(2)
    identities = topic_ids(pair)
    numbers = (-(2**31), -31, -30, -2, -1, 0, 1, 2, 3, 4, 5, 8, 16, 32, 64, 2**15 - 1, 2**31 - 2, 2**31 - 1)
    codes = set()
    for number in range(600):
        version = chance.choice(VERSIONS)
        records = bytearray(batch(b"h%d" % number, b"second", timestamp=TIME))
        for place, form in chance.sample(HEADER_FIELDS, chance.randint(1, 3)):
            value = chance.choice(numbers)
            struct.pack_into(form, records, place, (value + 2**15) % 2**16 - 2**15 if form == ">h" else value)
        if chance.random() < 0.3:
            count = chance.choice(numbers)
            struct.pack_into(">i", records, RECORD_COUNT_POSITION, count)
            struct.pack_into(">i", records, LAST_OFFSET_DELTA_POSITION, max(count - 1, -(2**31)))
        if chance.random() < 0.3:
            records[chance.randrange(HEADER_SIZE, len(records))] ^= 1 << chance.randrange(8)
        struct.pack_into(">I", records, CRC_POSITION, crc32c(records[ATTRIBUTES_POSITION:]))
        request = produce_request("t", bytes(records))
        request.topic_data[0].topic_id = identities["t"]
        in_place, general = pair.ask(framed(request, version))
        assert in_place == general, (number, version, bytes(records))
        assert in_place is not None
        codes.add(_code_in(in_place, version))
    assert {ErrorCode.NONE, ErrorCode.INVALID_RECORD, ErrorCode.INVALID_TIMESTAMP} <= codes
    assert ErrorCode.UNKNOWN_SERVER_ERROR not in codes
    ends = {client.fetch("t", 0).high_watermark for client in pair.clients}
    assert len(ends) == 1


HEADER_FIELDS = [
    (0, ">q"),  # base offset
    (LEADER_EPOCH_POSITION, ">i"),
    (ATTRIBUTES_POSITION, ">h"),
    (LAST_OFFSET_DELTA_POSITION, ">i"),
    (BASE_TIMESTAMP_POSITION, ">q"),
    (MAX_TIMESTAMP_POSITION, ">q"),
    (PRODUCER_ID_POSITION, ">q"),
    (PRODUCER_EPOCH_POSITION, ">h"),
    (BASE_SEQUENCE_POSITION, ">i"),
    (RECORD_COUNT_POSITION, ">i"),
]


def _code_in(frame: bytes, version: int) -> int:
    _, position = decode_response_header(frame, APIS[ApiKey.PRODUCE], version)
    response = decode(APIS[ApiKey.PRODUCE].response_class, frame, version, position)
    ((answer,),) = (topic.partition_responses for topic in response.responses)
    code: int = answer.error_code
    return code


def _cannot_be_compared(body: bytes, version: int) -> bool:
    """Whether a mutation made it acks=0, so that nothing would come, or left it no time, so that the disk decides."""
    try:
        _, position = decode_request_header(body)
        request = decode(ProduceRequest, body, version, position)
        return request.acks == 0 or request.timeout_ms < 10_000
    except DecodeError:
        return False


def test_a_partition_that_is_deleted_and_made_again_is_not_mistaken_for_the_old_one(pair: Pair) -> None:
    for client in pair.clients:
        client.create_topic("again")
        assert client.produce("again", batch(b"old")).base_offset == 0
        assert client.produce("again", batch(b"old")).base_offset == 1
        client.call(ApiKey.DELETE_TOPICS, 5, DeleteTopicsRequest(topic_names=["again"]))
        assert client.produce("again", batch(b"gone")).error_code == 3
        client.call(ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest([CreatableTopic("again", 1, 1)]))
        assert client.produce("again", batch(b"new")).base_offset == 0


# Waiting for the disk, in virtual time


class Collecting(asyncio.Protocol):
    def __init__(self) -> None:
        self.data = b""

    def data_received(self, data: bytes) -> None:
        self.data += data


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(("timeout_ms", "code"), [(100, ErrorCode.REQUEST_TIMED_OUT), (5000, ErrorCode.NONE)])
def test_records_that_the_disk_does_not_take_in_time_are_answered_unknown(
    version: int, timeout_ms: int, code: ErrorCode
) -> None:
    loop = VirtualLoop()
    network = VirtualNetwork(loop, random.Random(1))
    broker = RealBroker(
        BrokerConfig.load(overrides={"log.dirs": "/d"}),
        listen=Address("broker", 9092),
        disk=VirtualDisk(),
        network=network.host("broker"),
        clock=VirtualClock(loop),
        random=random.Random(2),
        make_worker=lambda name: VirtualWorker(loop, random.Random(3), work_ms=uniform_ms(500, 500)),
    )

    async def run() -> bytes:
        await broker.start()
        create = CreateTopicsRequest([CreatableTopic("t", 1, 1)])
        created = (await create_topics(broker.node, cast(Request, SimpleNamespace(limits=None)), create)).topics[0]
        request = produce_request("t", batch(b"x", timestamp=broker.node.clock.now_ms()), timeout_ms=timeout_ms)
        request.topic_data[0].topic_id = created.topic_id
        frame = framed(request, version)
        assert find(memoryview(frame)[4:]) is not None
        transport, protocol = await network.host("client").connect("broker", 9092, Collecting)
        transport.write(frame)
        await asyncio.sleep(3)
        assert isinstance(protocol, Collecting)
        await broker.stop()
        return protocol.data

    frame = loop.run_until_complete(run())[4:]
    correlation_id, position = decode_response_header(frame, APIS[ApiKey.PRODUCE], version)
    response = decode(APIS[ApiKey.PRODUCE].response_class, frame, version, position)
    answer = response.responses[0].partition_responses[0]
    assert (correlation_id, answer.error_code) == (7, code)
    assert answer.base_offset == (0 if code is ErrorCode.NONE else None)
    assert answer.log_start_offset == (0 if version >= 5 else None)
