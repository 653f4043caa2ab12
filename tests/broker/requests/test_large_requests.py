"""Requests with very many elements: served in slices, limited, and never in the way of other clients."""

from __future__ import annotations

import asyncio
import dataclasses
from copy import deepcopy
from typing import Any

import pytest

from semel.broker.requests.audited_changes import audited
from semel.broker.requests.large_requests import (
    COPIES_BYTES_MAX,
    ELEMENTS_MAX,
    SPLIT,
    WHOLE_MAX,
    LargeRequests,
    at_once_elements,
)
from semel.broker.requests.pieces import Piece
from semel.broker.requests.routes import SERVED
from semel.broker.turns import ELEMENTS_PER_TURN_MAX, Turns
from semel.errors import DecodeError, ErrorCode
from semel.testing import Broker
from semel.testing.virtual.clock import ManualClock
from semel.wire.apis import APIS, ApiKey
from semel.wire.codec import encode
from semel.wire.framing import encode_request
from semel.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from semel.wire.messages.api_versions import ApiVersionsRequest
from semel.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from semel.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from semel.wire.messages.delete_topics import DeleteTopicsRequest
from semel.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from semel.wire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from semel.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from semel.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from semel.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from semel.wire.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from semel.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from semel.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from semel.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopics,
)
from semel.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from semel.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from semel.wire.schema import fields_of
from tests.broker.raw_client import RawClient, batch
from tests.broker.transactional_client import GROUP, find_coordinator
from tests.clients.waiting import eventually
from tools.patience import PATIENCE_S

PARTITIONS = 20
MANY = 10_000


@pytest.fixture
def wide(client: RawClient, name: str) -> str:
    """A topic of several partitions."""
    return client.create_topic(name, PARTITIONS)


@pytest.fixture(autouse=True)
def turns(broker: Broker) -> Any:
    """No test of this file handles more in one turn than the law allows."""
    assert broker._broker is not None
    turns = broker._broker.node.turns
    turns.most_elements = 0
    yield turns
    assert turns.most_elements <= ELEMENTS_PER_TURN_MAX


def test_every_api_is_either_cut_into_pieces_or_limited() -> None:
    """And the lists that are cut exist in every version that they are cut in."""
    for key in SERVED:
        assert at_once_elements(key) <= ELEMENTS_PER_TURN_MAX
    for key, split in SPLIT.items():
        api = APIS[key]
        for version in range(api.min_version, api.max_version + 1):
            asked, answered, _ = split.lists_in(version)
            if key in (ApiKey.FIND_COORDINATOR, ApiKey.LEAVE_GROUP) and not _has(api.request_class, asked, version):
                continue  # Up to some version there is only one.
            assert _has(api.request_class, asked, version), (key, version)
            assert _has(api.response_class, answered, version), (key, version)
            assert len(asked) == len(answered)


def _has(struct: Any, path: tuple[str, ...], version: int) -> bool:
    for name in path:
        fields = {field.name: field for field in fields_of(struct)}
        if name not in fields or not fields[name].exists_in(version):
            return False
        struct = getattr(fields[name].type.element, "struct_class", None)  # type: ignore[attr-defined]
    return True


def test_ten_thousand_names_of_topics_are_answered(client: RawClient, wide: str, turns: Turns) -> None:
    names = [wide, *(f"unknown-{number}" for number in range(MANY))]
    for version in (4, 9, 12):
        request = MetadataRequest([MetadataRequestTopic(name=name) for name in names], allow_auto_topic_creation=False)
        answer = client.call(ApiKey.METADATA, version, request)
        assert [topic.name for topic in answer.topics] == names
        assert len(answer.topics[0].partitions) == PARTITIONS
        assert {topic.error_code for topic in answer.topics[1:]} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert turns.most_elements >= 1000


def test_a_name_that_stands_there_many_times_is_answered_once(client: RawClient, wide: str) -> None:
    request = MetadataRequest([MetadataRequestTopic(name=wide)] * MANY, allow_auto_topic_creation=False)
    (topic,) = client.call(ApiKey.METADATA, 9, request).topics
    assert topic.name == wide


def test_ten_thousand_offsets_are_committed_and_read_back(client: RawClient, wide: str) -> None:
    group = f"group of {wide}"
    find_coordinator(client, group, GROUP)
    partitions = [OffsetCommitRequestPartition(n % PARTITIONS, n) for n in range(MANY)]
    missing = [OffsetCommitRequestPartition(PARTITIONS + n, n) for n in range(1000)]
    request = OffsetCommitRequest(
        group_id=group,
        topics=[
            OffsetCommitRequestTopic(name=wide, partitions=partitions),
            OffsetCommitRequestTopic(name="unknown", partitions=missing),
        ],
    )
    answer = client.call(ApiKey.OFFSET_COMMIT, 8, request)
    assert [topic.name for topic in answer.topics] == [wide, "unknown"]
    assert [p.partition_index for p in answer.topics[0].partitions] == [p.partition_index for p in partitions]
    assert {p.error_code for p in answer.topics[0].partitions} == {0}
    assert {p.error_code for p in answer.topics[1].partitions} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}

    fetch = OffsetFetchRequest(group, [OffsetFetchRequestTopic(wide, [n % PARTITIONS for n in range(MANY)])])
    (found,) = client.call(ApiKey.OFFSET_FETCH, 7, fetch).topics
    assert [p.committed_offset for p in found.partitions] == [
        MANY - PARTITIONS + (n % PARTITIONS) for n in range(MANY)
    ], "the last one counts"


def test_ten_thousand_partitions_are_fetched(client: RawClient, wide: str) -> None:
    assert client.produce(wide, batch(b"value"), partition=7).error_code == 0
    asked = [FetchPartition(n % PARTITIONS, partition_max_bytes=1000) for n in range(MANY)]
    request = FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=10_000, topics=[FetchTopic(wide, partitions=asked)])
    (topic,) = client.call(ApiKey.FETCH, 11, request).responses
    assert [p.partition_index for p in topic.partitions] == [p.partition for p in asked]
    read = [p for p in topic.partitions if p.records]
    assert {p.partition_index for p in read} == {7}
    assert sum(len(p.records) for p in read) <= 10_000 + 1000


def test_a_fetch_of_very_many_partitions_waits_for_records(client: RawClient, broker: Broker, wide: str) -> None:
    asked = [FetchPartition(n % PARTITIONS, partition_max_bytes=1000) for n in range(2000)]
    for isolation_level in (0, 1):
        request = FetchRequest(
            max_wait_ms=60_000,
            min_bytes=1,
            max_bytes=10_000,
            isolation_level=isolation_level,
            topics=[FetchTopic(wide, partitions=[dataclasses.replace(p, fetch_offset=isolation_level) for p in asked])],
        )
        sent = client.send(ApiKey.FETCH, 11, request)
        with RawClient(broker.port) as other:
            for partition in range(PARTITIONS):
                assert other.produce(wide, batch(b"value"), partition=partition).error_code == 0
        (topic,) = client.receive(ApiKey.FETCH, 11, sent).responses
        assert any(p.records for p in topic.partitions)


def test_a_client_that_leaves_while_its_large_fetch_waits_leaves_nothing_behind(broker: Broker, wide: str) -> None:
    assert broker._broker is not None
    node = broker._broker.node
    before = len(node.deadlines)
    with RawClient(broker.port) as client:
        asked = [FetchPartition(n % PARTITIONS, partition_max_bytes=1000) for n in range(2000)]
        client.send(
            ApiKey.FETCH, 11, FetchRequest(max_wait_ms=60_000, min_bytes=1, topics=[FetchTopic(wide, partitions=asked)])
        )
        eventually(before + 1, lambda: len(node.deadlines), 60)
    eventually(before, lambda: len(node.deadlines), 60)
    partition = node.partitions.get(wide, 0)
    assert partition is not None
    assert not partition._watching


def test_ten_thousand_offsets_are_listed(client: RawClient, wide: str) -> None:
    asked = [ListOffsetsPartition(n, timestamp=-1) for n in range(MANY)]
    (topic,) = client.call(ApiKey.LIST_OFFSETS, 6, ListOffsetsRequest(topics=[ListOffsetsTopic(wide, asked)])).topics
    assert [p.partition_index for p in topic.partitions] == list(range(MANY))
    assert [p.error_code for p in topic.partitions[: PARTITIONS + 1]] == [0] * PARTITIONS + [
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    ]


def test_a_produce_of_thousands_of_partitions_is_served(client: RawClient, wide: str) -> None:
    data = [PartitionProduceData(n % PARTITIONS, batch(b"value")) for n in range(3000)]
    request = ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[TopicProduceData(name=wide, partition_data=data)])
    (topic,) = client.call(ApiKey.PRODUCE, 9, request).responses
    assert [(p.index, p.error_code, p.base_offset) for p in topic.partition_responses] == [
        (n % PARTITIONS, 0, n // PARTITIONS) for n in range(3000)
    ]
    request.acks = 0
    client.send(ApiKey.PRODUCE, 9, request)
    assert client.call(ApiKey.API_VERSIONS, 0, ApiVersionsRequest()).error_code == 0
    assert client.fetch(wide, 0).high_watermark == 2 * 3000 // PARTITIONS


def test_many_topics_are_made_and_deleted(client: RawClient, name: str) -> None:
    names = [f"{name}-{number}" for number in range(250)]
    topics = [CreatableTopic(name=each, num_partitions=1, replication_factor=1) for each in names]
    answer = client.call(ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest(topics=topics))
    assert [(topic.name, topic.error_code) for topic in answer.topics] == [(each, 0) for each in names]
    answer = client.call(ApiKey.DELETE_TOPICS, 5, DeleteTopicsRequest(topic_names=names))
    assert [(topic.name, topic.error_code) for topic in answer.responses] == [(each, 0) for each in names]


def test_kafka_s_limit_for_the_partitions_of_one_request_holds_for_all_of_it(client: RawClient, name: str) -> None:
    topics = [CreatableTopic(name=f"{name}-{n}", num_partitions=100, replication_factor=1) for n in range(300)]
    answer = client.call(ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest(topics=topics))
    assert {topic.error_code for topic in answer.topics} == {ErrorCode.POLICY_VIOLATION}


@pytest.mark.parametrize("version", [0, 1, 2])
def test_leaders_of_many_partitions_are_elected(client: RawClient, wide: str, version: int) -> None:
    request = ElectLeadersRequest(topic_partitions=[TopicPartitions(wide, list(range(3000)))])
    (topic,) = client.call(ApiKey.ELECT_LEADERS, version, request).replica_election_results
    assert topic.topic == wide
    assert [(one.partition_id, one.error_code) for one in topic.partition_result] == [
        (n, ErrorCode.ELECTION_NOT_NEEDED if n < PARTITIONS else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        for n in range(3000)
    ]


def test_many_partitions_are_reassigned(client: RawClient, wide: str) -> None:
    """kafka-reassign-partitions puts all of them into one request."""
    asked = [ReassignablePartition(n, [1]) for n in range(3000)]
    request = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(wide, asked)])
    (topic,) = client.call(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 1, request).responses
    assert [(one.partition_index, one.error_code) for one in topic.partitions] == [
        (n, 0 if n < PARTITIONS else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION) for n in range(3000)
    ]
    listed = ListPartitionReassignmentsRequest(topics=[ListPartitionReassignmentsTopics(wide, list(range(3000)))])
    answer = client.call(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, listed)
    assert (answer.error_code, answer.topics) == (0, [])


def test_settings_of_many_resources_are_described(client: RawClient, wide: str) -> None:
    request = DescribeConfigsRequest([DescribeConfigsResource(2, wide, ["retention.ms"]) for _ in range(60)])
    answer = client.call(ApiKey.DESCRIBE_CONFIGS, 4, request)
    assert len(answer.results) == 60
    assert {result.configs[0].name for result in answer.results} == {"retention.ms"}


def test_requests_behind_a_large_one_are_answered_behind_it(client: RawClient, wide: str) -> None:
    asked = [ListOffsetsPartition(n, timestamp=-1) for n in range(3000)]
    first = client.send(ApiKey.LIST_OFFSETS, 6, ListOffsetsRequest(topics=[ListOffsetsTopic(wide, asked)]))
    second = client.send(ApiKey.API_VERSIONS, 0, ApiVersionsRequest())
    assert len(client.receive(ApiKey.LIST_OFFSETS, 6, first).topics[0].partitions) == 3000
    assert client.receive(ApiKey.API_VERSIONS, 0, second).error_code == 0


@pytest.mark.parametrize("version", [4, 12])
def test_more_elements_than_any_client_has_close_the_connection(
    client: RawClient, broker: Broker, version: int
) -> None:
    request = MetadataRequest([MetadataRequestTopic(name="")] * (ELEMENTS_MAX + 1), allow_auto_topic_creation=False)
    client.send(ApiKey.METADATA, version, request)
    assert client.is_closed_by_broker()
    with RawClient(broker.port) as other:
        assert other.call(ApiKey.API_VERSIONS, 0, ApiVersionsRequest()).error_code == 0


def test_a_group_s_decision_is_limited_and_refused_with_kafka_s_code(client: RawClient) -> None:
    find_coordinator(client, "large", GROUP)
    request = ConsumerGroupHeartbeatRequest(
        group_id="large",
        member_id="member",
        rebalance_timeout_ms=1000,
        subscribed_topic_names=[f"topic-{number}" for number in range(MANY + 1)],
        topic_partitions=[],
    )
    answer = client.call(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, request)
    assert answer.error_code == ErrorCode.INVALID_REQUEST
    assert str(MANY) in answer.error_message


def test_a_large_frame_with_few_elements_is_served_at_once(client: RawClient, broker: Broker, wide: str) -> None:
    """Records and metadata are no elements."""
    assert client.produce(wide, batch(b"x" * 500_000)).error_code == 0


class Unanswered:
    """A request whose client is still there."""

    api: Any = APIS[ApiKey.LIST_OFFSETS]
    version = 6
    correlation_id = 1
    client_id = None
    connection = None
    listener = "PLAINTEXT"
    peer_host = "here"
    principal = "User:ANONYMOUS"
    limits = None
    is_from_broker = False
    is_abandoned = False

    def __init__(self) -> None:
        self.waiting: Any = None

    def delay(self, operation: object, *, hold: bool) -> None:
        self.waiting = operation


class WrittenDown:
    """An audit log."""

    def __init__(self) -> None:
        self.changes: list[tuple[str, ...]] = []

    def changed(self, *change: str) -> None:
        self.changes.append(change)


def test_a_change_is_audited_although_its_client_has_left_in_the_middle_of_a_large_request() -> None:
    key = ApiKey.OFFSET_COMMIT
    audit, begun = WrittenDown(), list[tuple[Any, Any]]()
    partitions = [OffsetCommitRequestPartition(number) for number in range(3 * SPLIT[key].size)]
    message = OffsetCommitRequest(group_id="readers", topics=[OffsetCommitRequestTopic("t", partitions=partitions)])

    def reset(piece: Any, part: Any) -> None:
        """Decided now, and answered when it is synced."""
        begun.append((piece, part))

    async def scenario() -> None:
        request: Any = Unanswered()
        request.api = APIS[key]
        request.version = 8
        handle = audited(audit, key, reset)  # type: ignore[arg-type]
        large = LargeRequests(Turns(ManualClock()))
        served = asyncio.ensure_future(large.serve(request, OffsetCommitRequest, handle, encode(message, 8)))
        while not begun and not served.done():
            await asyncio.sleep(0)
        request.is_abandoned = True
        request.waiting.abandoned()
        await asyncio.sleep(0)
        ((piece, part),) = begun
        done = [OffsetCommitResponsePartition(one.partition_index) for one in part.topics[0].partitions]
        piece.answer(OffsetCommitResponse(topics=[OffsetCommitResponseTopic("t", partitions=done)]))
        assert await served is None

    asyncio.run(scenario())
    assert audit.changes == [("User:ANONYMOUS", "here", "OffsetCommit", "ALTER", "GROUP", "readers")]
    assert len(begun) == 1, "nothing more is done for a client that is gone"


def test_others_get_their_turn_after_every_slice() -> None:
    """Counted in turns of the loop, and not in seconds."""
    turns = Turns(ManualClock())
    large = LargeRequests(turns)
    asked = [ListOffsetsPartition(n) for n in range(MANY)]
    body = encode(ListOffsetsRequest(topics=[ListOffsetsTopic("t", asked)]), 6)
    most = 0

    def handle(request: Any, message: Any) -> Any:
        nonlocal most
        count = sum(len(topic.partitions) for topic in message.topics)
        most = max(most, count)
        return APIS[ApiKey.LIST_OFFSETS].response_class(topics=list(message.topics))

    async def scenario() -> int:
        served = asyncio.ensure_future(large.serve(Unanswered(), ListOffsetsRequest, handle, body))  # type: ignore[arg-type]
        others = 0
        while not served.done():
            others += 1
            await asyncio.sleep(0)
        response: Any = served.result()
        assert [p.partition_index for p in response.topics[0].partitions] == list(range(MANY))
        return others

    size = SPLIT[ApiKey.LIST_OFFSETS].size
    assert asyncio.run(scenario()) >= MANY // size
    assert most <= size


@pytest.mark.parametrize(
    ("version", "request_of", "ids_of", "response"),
    [
        (
            4,
            lambda ids: FindCoordinatorRequest(coordinator_keys=ids),
            lambda message: message.coordinator_keys,
            FindCoordinatorResponse(),
        ),
        (
            8,
            lambda ids: OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=one, topics=[]) for one in ids]),
            lambda message: [group.group_id for group in message.groups],
            OffsetFetchResponse(),
        ),
    ],
)
def test_ids_of_32_kilobytes_are_looked_up_a_few_at_a_time(
    version: int, request_of: Any, ids_of: Any, response: Any
) -> None:
    """A lookup computes the hash of the id, character by character: 3 ms for such an id."""
    ids = [f"{number}".ljust(32_000, "x") for number in range(100)]
    request = Unanswered()
    message = request_of(ids)
    request.api, request.version = next(api for api in APIS.values() if api.request_class is type(message)), version
    large = LargeRequests(Turns(ManualClock()))
    body = encode(message, version)
    assert large.decode_at_once(request, type(message), memoryview(body), 0) is None  # type: ignore[arg-type]
    served: list[list[str]] = []

    def handle(request: Any, message: Any) -> Any:
        served.append(ids_of(message))
        return deepcopy(response)

    asyncio.run(large.serve(request, type(message), handle, body))  # type: ignore[arg-type]
    assert [one for some in served for one in some] == ids
    assert max(map(len, served)) < 5


def offsets_found(group: OffsetFetchRequestGroup) -> OffsetFetchResponseGroup:
    topics = [
        OffsetFetchResponseTopics(
            topic.name, partitions=list(map(OffsetFetchResponsePartitions, topic.partition_indexes))
        )
        for topic in group.topics or ()
    ]
    return OffsetFetchResponseGroup(group.group_id, topics)


@pytest.mark.parametrize("refused", range(3))
def test_a_group_that_is_refused_in_one_piece_has_its_error_and_no_offsets(refused: int) -> None:
    """Clients take a partition that is missing in an answer without an error for one without a committed offset."""
    size = SPLIT[ApiKey.OFFSET_FETCH].size
    wide = OffsetFetchRequestGroup("wide", topics=[OffsetFetchRequestTopics("t", partition_indexes=[*range(3 * size)])])
    small = OffsetFetchRequestGroup("small", topics=[OffsetFetchRequestTopics("t", partition_indexes=[0])])
    request: Any = Unanswered()
    request.api, request.version = APIS[ApiKey.OFFSET_FETCH], 8
    pieces = 0

    def handle(request: Any, message: Any) -> OffsetFetchResponse:
        nonlocal pieces
        pieces += 1
        if pieces == refused + 1:
            return OffsetFetchResponse(
                groups=[OffsetFetchResponseGroup("wide", [], ErrorCode.NOT_COORDINATOR)],
            )
        return OffsetFetchResponse(groups=list(map(offsets_found, message.groups)))

    large = LargeRequests(Turns(ManualClock()))
    body = encode(OffsetFetchRequest(groups=[wide, small]), 8)
    response: Any = asyncio.run(large.serve(request, OffsetFetchRequest, handle, body))
    assert response.groups == [
        OffsetFetchResponseGroup("wide", [], ErrorCode.NOT_COORDINATOR),
        offsets_found(small),
    ]


def test_a_large_fetch_of_a_follower_does_not_wait_for_markers_that_wait_for_the_follower() -> None:
    """A follower that begins a session names 2000 partitions; another broker may have sent 500 markers."""
    size = SPLIT[ApiKey.WRITE_TXN_MARKERS].size
    markers: Any = Unanswered()
    markers.api, markers.version = APIS[ApiKey.WRITE_TXN_MARKERS], 1
    topic = WritableTxnMarkerTopic("t", [*range(size + 1)])
    body = encode(WriteTxnMarkersRequest([WritableTxnMarker(7, 0, True, [topic])]), 1)
    fetch: Any = Unanswered()
    fetch.api, fetch.version = APIS[ApiKey.FETCH], 12
    fetched = encode(FetchRequest(topics=[FetchTopic("t", partitions=[*map(FetchPartition, range(2000))])]), 12)
    uncommitted: list[Piece] = []

    def write_markers(piece: Any, message: WriteTxnMarkersRequest) -> None:
        uncommitted.append(piece)

    def serve_fetch(request: Any, message: FetchRequest) -> FetchResponse:
        uncommitted[-1].answer(WriteTxnMarkersResponse())
        return FetchResponse()

    async def scenario() -> None:
        large = LargeRequests(Turns(ManualClock()))
        written = asyncio.ensure_future(large.serve(markers, WriteTxnMarkersRequest, write_markers, body))
        for piece in (1, 2):
            while len(uncommitted) < piece:
                await asyncio.sleep(0)
            async with asyncio.timeout(PATIENCE_S):
                assert await large.serve(fetch, FetchRequest, serve_fetch, bytearray(fetched)) == FetchResponse()
        assert await written == WriteTxnMarkersResponse()

    asyncio.run(scenario())


def test_large_requests_that_wait_are_limited_in_bytes() -> None:
    large = LargeRequests(Turns(ManualClock()))
    request: Any = Unanswered()
    body = encode(ListOffsetsRequest(topics=[ListOffsetsTopic("t", [ListOffsetsPartition(1)])]), 6)

    async def scenario() -> None:
        held = asyncio.ensure_future(large.serve(request, ListOffsetsRequest, lambda piece, message: None, body))
        for _ in range(10):
            await asyncio.sleep(0)
        assert not held.done()
        with pytest.raises(DecodeError, match="the limit is"):
            _ = large.serve(request, ListOffsetsRequest, lambda piece, message: None, bytearray(COPIES_BYTES_MAX))
        held.cancel()
        await asyncio.gather(held, return_exceptions=True)
        again = large.serve(request, ListOffsetsRequest, lambda piece, message: None, bytearray(COPIES_BYTES_MAX))
        with pytest.raises(DecodeError, match="bytes left"):
            await again

    asyncio.run(scenario())


def test_tagged_fields_without_end_are_refused(client: RawClient) -> None:
    frame = bytes(encode_request(1, APIS[ApiKey.METADATA], 12, MetadataRequest(topics=[]), client_id="c"))[4:]
    tags = ELEMENTS_MAX + 1
    count = bytes([tags & 0x7F | 0x80, tags >> 7 & 0x7F | 0x80, tags >> 14])
    client.send_frame(frame[:-1] + count + b"\x7f\0" * tags)
    assert client.is_closed_by_broker()


def test_whole_requests_have_a_limit_below_the_turn_s() -> None:
    assert WHOLE_MAX <= ELEMENTS_PER_TURN_MAX
