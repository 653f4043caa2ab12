"""Attacks with very many plausible elements in one request: unknown names, and existing partitions.

``widened`` does the same mechanically for every list of every API; here the elements are chosen to be expensive.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace

from semel.wire.apis import ApiKey
from semel.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from semel.wire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from semel.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from semel.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from semel.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from semel.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from semel.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics
from semel.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from semel.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tools.frames import request_header
from tools.hostile.attack_context import Attack, AttackContext, AttackRun, add, attack
from tools.hostile.attacks.produced import producer_of
from tools.hostile.attacks.requests import MS, frame_of
from tools.hostile.batches import sound_batch

# A request with this number of elements is served. One with slightly more is refused because of their number.
SERVED_ELEMENTS = 95_000


def of(elements: int) -> Callable[[AttackRun], AttackRun]:
    """Register two attacks: one with ``elements`` elements, and one with as many as a request may have."""

    def register(run: AttackRun) -> AttackRun:
        attack(run)
        name = f"{run.__name__.replace('_', '-')}-within-the-limit"
        add(Attack(name, lambda context: run(replace(context, scale=context.scale * SERVED_ELEMENTS / elements))))
        return run

    return register


@of(1_000_000)
def metadata_with_a_million_names(context: AttackContext) -> None:
    topics = [MetadataRequestTopic(name=f"n{number}") for number in range(context.times(1_000_000))]
    _asked(context, ApiKey.METADATA, 9, MetadataRequest(topics=topics, allow_auto_topic_creation=False))


@of(1_000_000)
def metadata_with_one_name_a_million_times(context: AttackContext) -> None:
    topics = [MetadataRequestTopic(name=context.new_topic(partitions=20))] * context.times(1_000_000)
    _asked(context, ApiKey.METADATA, 9, MetadataRequest(topics=topics, allow_auto_topic_creation=False))


@attack
def metadata_that_would_create_many_topics(context: AttackContext) -> None:
    topics = [MetadataRequestTopic(name=f"wanted-{number}") for number in range(context.times(1_000))]
    _asked(context, ApiKey.METADATA, 9, MetadataRequest(topics=topics, allow_auto_topic_creation=True))


@of(50_000_000)
def metadata_with_fifty_million_empty_names(context: AttackContext) -> None:
    count = context.times(50_000_000)
    body = request_header(ApiKey.METADATA, 4, 1) + struct.pack(">i", count) + bytes(2 * count) + b"\0"
    with context.connect(timeout_s=40) as client:
        context.noted(client.ask_frame(ApiKey.METADATA, 4, struct.pack(">i", len(body)) + body))


@of(300_000)
def commits_of_300000_partitions(context: AttackContext) -> None:
    partitions = [
        OffsetCommitRequestPartition(number, number, committed_metadata="") for number in range(context.times(300_000))
    ]
    topic = OffsetCommitRequestTopic(context.new_topic(), partitions=partitions)
    _asked(context, ApiKey.OFFSET_COMMIT, 7, OffsetCommitRequest("wide-commit", topics=[topic]))


@of(300_000)
def commits_of_one_partition_300000_times(context: AttackContext) -> None:
    partitions = [OffsetCommitRequestPartition(0, 7, committed_metadata="m" * 100)] * context.times(300_000)
    topic = OffsetCommitRequestTopic(context.new_topic(), partitions=partitions)
    _asked(context, ApiKey.OFFSET_COMMIT, 7, OffsetCommitRequest("same-commit", topics=[topic]))


@of(500_000)
def fetches_of_500000_partitions(context: AttackContext) -> None:
    asked = [
        FetchPartition(number, fetch_offset=0, partition_max_bytes=1000) for number in range(context.times(500_000))
    ]
    topics = [FetchTopic(context.new_topic(), partitions=asked)]
    _asked(context, ApiKey.FETCH, 11, FetchRequest(max_wait_ms=0, min_bytes=1, topics=topics))


@of(500_000)
def fetches_of_one_partition_500000_times(context: AttackContext) -> None:
    asked = [FetchPartition(0, fetch_offset=0, partition_max_bytes=1000)] * context.times(500_000)
    topics = [FetchTopic(context.new_topic(), partitions=asked)]
    _asked(context, ApiKey.FETCH, 11, FetchRequest(max_wait_ms=context.times(5_000), min_bytes=2**30, topics=topics))


@of(500_000)
def offsets_of_500000_partitions(context: AttackContext) -> None:
    asked = [ListOffsetsPartition(number, timestamp=-1) for number in range(context.times(500_000))]
    topics = [ListOffsetsTopic(context.new_topic(), partitions=asked)]
    _asked(context, ApiKey.LIST_OFFSETS, 5, ListOffsetsRequest(-1, topics=topics))


@of(500_000)
def offsets_of_one_partition_by_time_500000_times(context: AttackContext) -> None:
    topic = context.new_topic()
    with context.connect() as client:
        for _ in range(20):
            data = [PartitionProduceData(0, sound_batch(b"x" * 1000))]
            request = ProduceRequest(acks=-1, timeout_ms=MS, topic_data=[TopicProduceData(topic, partition_data=data)])
            client.ask(ApiKey.PRODUCE, 9, request)
    asked = [ListOffsetsPartition(0, timestamp=1)] * context.times(500_000)
    _asked(context, ApiKey.LIST_OFFSETS, 7, ListOffsetsRequest(-1, topics=[ListOffsetsTopic(topic, partitions=asked)]))


@of(600_000)
def a_fetch_session_with_600000_targets(context: AttackContext) -> None:
    """The session is made once, and then used by repeated empty requests, which cost the client nothing."""
    asked = [FetchPartition(number, fetch_offset=0, partition_max_bytes=1) for number in range(context.times(600_000))]
    topics = [FetchTopic(context.new_topic(), partitions=asked)]
    with context.connect(timeout_s=40) as client:
        response = client.ask(ApiKey.FETCH, 11, FetchRequest(max_wait_ms=0, session_epoch=0, topics=topics))
        session_id = 0 if isinstance(response, str) else response.session_id
        context.noted(response)
    if not session_id:
        # The response was too large to decode: the session id is after correlation id, throttle time and error code.
        with context.connect(timeout_s=40) as client:
            client.send(frame_of(ApiKey.FETCH, 11, FetchRequest(max_wait_ms=0, session_epoch=0, topics=topics)))
            answer = client.receive()
            session_id = 0 if isinstance(answer, str) else struct.unpack_from(">i", answer, 10)[0]
    for epoch in range(1, context.times(10, least=3)):
        if not session_id or context.expired:
            break
        with context.connect(timeout_s=40) as client:
            again = FetchRequest(max_wait_ms=0, session_id=session_id, session_epoch=epoch)
            context.noted(client.ask(ApiKey.FETCH, 11, again))


@attack
def many_fetch_sessions(context: AttackContext) -> None:
    """As many fetch sessions as a broker keeps, each with a thousand partitions."""
    topic = context.new_topic()
    asked = [FetchPartition(number, fetch_offset=0, partition_max_bytes=1) for number in range(context.times(1000))]
    frame = frame_of(
        ApiKey.FETCH, 11, FetchRequest(session_epoch=0, topics=[FetchTopic(topic, partitions=asked)], max_wait_ms=0)
    )
    with context.connect() as client:
        for _ in range(context.times(1000, least=20)):
            if context.expired:
                break
            context.noted(client.ask_frame(ApiKey.FETCH, 11, frame))


@of(500_000)
def fetched_offsets_of_500000_partitions(context: AttackContext) -> None:
    topics = [OffsetFetchRequestTopics(context.new_topic(), partition_indexes=list(range(context.times(500_000))))]
    groups = [OffsetFetchRequestGroup("wide-commit", topics=topics)]
    _asked(context, ApiKey.OFFSET_FETCH, 8, OffsetFetchRequest(groups=groups))


@of(100_000)
def transactions_of_100000_partitions(context: AttackContext) -> None:
    producer_id, epoch = producer_of(context, "wide-transaction")
    topic = AddPartitionsToTxnTopic(context.new_topic(partitions=2), list(range(context.times(100_000))))
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="wide-transaction",
        v3_and_below_producer_id=producer_id,
        v3_and_below_producer_epoch=epoch,
        v3_and_below_topics=[topic],
    )
    _asked(context, ApiKey.ADD_PARTITIONS_TO_TXN, 3, request)


@of(100_000)
def produce_of_100000_partitions(context: AttackContext) -> None:
    batch = sound_batch(b"x")
    topic = context.new_topic()
    data = [PartitionProduceData(number, batch) for number in range(context.times(100_000))]
    request = ProduceRequest(acks=-1, timeout_ms=MS, topic_data=[TopicProduceData(topic, partition_data=data)])
    _asked(context, ApiKey.PRODUCE, 9, request)
    data = [PartitionProduceData(0, batch) for _ in range(context.times(100_000))]
    request = ProduceRequest(acks=-1, timeout_ms=MS, topic_data=[TopicProduceData(topic, partition_data=data)])
    _asked(context, ApiKey.PRODUCE, 9, request)


@of(200_000)
def markers_of_200000_partitions(context: AttackContext) -> None:
    topic = WritableTxnMarkerTopic(context.new_topic(), list(range(context.times(200_000))))
    marker = WritableTxnMarker(producer_id=77, producer_epoch=0, topics=[topic])
    _asked(context, ApiKey.WRITE_TXN_MARKERS, 1, WriteTxnMarkersRequest(markers=[marker]))


@of(100_000)
def configs_of_one_topic_100000_times(context: AttackContext) -> None:
    """A small request whose response would be very large without a limit."""
    resource = DescribeConfigsResource(resource_type=2, resource_name=context.new_topic(), configuration_keys=None)
    request = DescribeConfigsRequest(
        [resource] * context.times(100_000), include_synonyms=True, include_documentation=True
    )
    _asked(context, ApiKey.DESCRIBE_CONFIGS, 4, request)


def _asked(context: AttackContext, key: ApiKey, version: int, message: object) -> None:
    frame = frame_of(key, version, message)
    with context.connect(timeout_s=40) as client:
        context.noted(client.ask_frame(key, version, frame))
