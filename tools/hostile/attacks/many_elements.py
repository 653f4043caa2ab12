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
from tools.hostile.aim import Aim, Attack, AttackRun, add, attack
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
        add(Attack(name, lambda aim: run(replace(aim, scale=aim.scale * SERVED_ELEMENTS / elements))))
        return run

    return register


@of(1_000_000)
def metadata_with_a_million_names(aim: Aim) -> None:
    topics = [MetadataRequestTopic(name=f"n{number}") for number in range(aim.times(1_000_000))]
    _asked(aim, ApiKey.METADATA, 9, MetadataRequest(topics=topics, allow_auto_topic_creation=False))


@of(1_000_000)
def metadata_with_one_name_a_million_times(aim: Aim) -> None:
    topics = [MetadataRequestTopic(name=aim.new_topic(partitions=20))] * aim.times(1_000_000)
    _asked(aim, ApiKey.METADATA, 9, MetadataRequest(topics=topics, allow_auto_topic_creation=False))


@attack
def metadata_that_would_create_many_topics(aim: Aim) -> None:
    topics = [MetadataRequestTopic(name=f"wanted-{number}") for number in range(aim.times(1_000))]
    _asked(aim, ApiKey.METADATA, 9, MetadataRequest(topics=topics, allow_auto_topic_creation=True))


@of(50_000_000)
def metadata_with_fifty_million_empty_names(aim: Aim) -> None:
    count = aim.times(50_000_000)
    body = request_header(ApiKey.METADATA, 4, 1) + struct.pack(">i", count) + bytes(2 * count) + b"\0"
    with aim.stranger(timeout_s=40) as client:
        aim.noted(client.ask_frame(ApiKey.METADATA, 4, struct.pack(">i", len(body)) + body))


@of(300_000)
def commits_of_300000_partitions(aim: Aim) -> None:
    partitions = [
        OffsetCommitRequestPartition(number, number, committed_metadata="") for number in range(aim.times(300_000))
    ]
    topic = OffsetCommitRequestTopic(aim.new_topic(), partitions=partitions)
    _asked(aim, ApiKey.OFFSET_COMMIT, 7, OffsetCommitRequest("wide-commit", topics=[topic]))


@of(300_000)
def commits_of_one_partition_300000_times(aim: Aim) -> None:
    partitions = [OffsetCommitRequestPartition(0, 7, committed_metadata="m" * 100)] * aim.times(300_000)
    topic = OffsetCommitRequestTopic(aim.new_topic(), partitions=partitions)
    _asked(aim, ApiKey.OFFSET_COMMIT, 7, OffsetCommitRequest("same-commit", topics=[topic]))


@of(500_000)
def fetches_of_500000_partitions(aim: Aim) -> None:
    asked = [FetchPartition(number, fetch_offset=0, partition_max_bytes=1000) for number in range(aim.times(500_000))]
    topics = [FetchTopic(aim.new_topic(), partitions=asked)]
    _asked(aim, ApiKey.FETCH, 11, FetchRequest(max_wait_ms=0, min_bytes=1, topics=topics))


@of(500_000)
def fetches_of_one_partition_500000_times(aim: Aim) -> None:
    asked = [FetchPartition(0, fetch_offset=0, partition_max_bytes=1000)] * aim.times(500_000)
    topics = [FetchTopic(aim.new_topic(), partitions=asked)]
    _asked(aim, ApiKey.FETCH, 11, FetchRequest(max_wait_ms=aim.times(5_000), min_bytes=2**30, topics=topics))


@of(500_000)
def offsets_of_500000_partitions(aim: Aim) -> None:
    asked = [ListOffsetsPartition(number, timestamp=-1) for number in range(aim.times(500_000))]
    topics = [ListOffsetsTopic(aim.new_topic(), partitions=asked)]
    _asked(aim, ApiKey.LIST_OFFSETS, 5, ListOffsetsRequest(-1, topics=topics))


@of(500_000)
def offsets_of_one_partition_by_time_500000_times(aim: Aim) -> None:
    topic = aim.new_topic()
    with aim.stranger() as client:
        for _ in range(20):
            data = [PartitionProduceData(0, sound_batch(b"x" * 1000))]
            request = ProduceRequest(acks=-1, timeout_ms=MS, topic_data=[TopicProduceData(topic, partition_data=data)])
            client.ask(ApiKey.PRODUCE, 9, request)
    asked = [ListOffsetsPartition(0, timestamp=1)] * aim.times(500_000)
    _asked(aim, ApiKey.LIST_OFFSETS, 7, ListOffsetsRequest(-1, topics=[ListOffsetsTopic(topic, partitions=asked)]))


@of(600_000)
def a_fetch_session_with_600000_targets(aim: Aim) -> None:
    """The session is made once, and then used by repeated empty requests, which cost the client nothing."""
    asked = [FetchPartition(number, fetch_offset=0, partition_max_bytes=1) for number in range(aim.times(600_000))]
    topics = [FetchTopic(aim.new_topic(), partitions=asked)]
    with aim.stranger(timeout_s=40) as client:
        response = client.ask(ApiKey.FETCH, 11, FetchRequest(max_wait_ms=0, session_epoch=0, topics=topics))
        session_id = 0 if isinstance(response, str) else response.session_id
        aim.noted(response)
    if not session_id:
        # The response was too large to decode: the session id is after correlation id, throttle time and error code.
        with aim.stranger(timeout_s=40) as client:
            client.send(frame_of(ApiKey.FETCH, 11, FetchRequest(max_wait_ms=0, session_epoch=0, topics=topics)))
            answer = client.receive()
            session_id = 0 if isinstance(answer, str) else struct.unpack_from(">i", answer, 10)[0]
    for epoch in range(1, aim.times(10, least=3)):
        if not session_id or aim.expired:
            break
        with aim.stranger(timeout_s=40) as client:
            again = FetchRequest(max_wait_ms=0, session_id=session_id, session_epoch=epoch)
            aim.noted(client.ask(ApiKey.FETCH, 11, again))


@attack
def many_fetch_sessions(aim: Aim) -> None:
    """As many fetch sessions as a broker keeps, each with a thousand partitions."""
    topic = aim.new_topic()
    asked = [FetchPartition(number, fetch_offset=0, partition_max_bytes=1) for number in range(aim.times(1000))]
    frame = frame_of(
        ApiKey.FETCH, 11, FetchRequest(session_epoch=0, topics=[FetchTopic(topic, partitions=asked)], max_wait_ms=0)
    )
    with aim.stranger() as client:
        for _ in range(aim.times(1000, least=20)):
            if aim.expired:
                break
            aim.noted(client.ask_frame(ApiKey.FETCH, 11, frame))


@of(500_000)
def fetched_offsets_of_500000_partitions(aim: Aim) -> None:
    topics = [OffsetFetchRequestTopics(aim.new_topic(), partition_indexes=list(range(aim.times(500_000))))]
    groups = [OffsetFetchRequestGroup("wide-commit", topics=topics)]
    _asked(aim, ApiKey.OFFSET_FETCH, 8, OffsetFetchRequest(groups=groups))


@of(100_000)
def transactions_of_100000_partitions(aim: Aim) -> None:
    producer_id, epoch = producer_of(aim, "wide-transaction")
    topic = AddPartitionsToTxnTopic(aim.new_topic(partitions=2), list(range(aim.times(100_000))))
    request = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id="wide-transaction",
        v3_and_below_producer_id=producer_id,
        v3_and_below_producer_epoch=epoch,
        v3_and_below_topics=[topic],
    )
    _asked(aim, ApiKey.ADD_PARTITIONS_TO_TXN, 3, request)


@of(100_000)
def produce_of_100000_partitions(aim: Aim) -> None:
    batch = sound_batch(b"x")
    topic = aim.new_topic()
    data = [PartitionProduceData(number, batch) for number in range(aim.times(100_000))]
    request = ProduceRequest(acks=-1, timeout_ms=MS, topic_data=[TopicProduceData(topic, partition_data=data)])
    _asked(aim, ApiKey.PRODUCE, 9, request)
    data = [PartitionProduceData(0, batch) for _ in range(aim.times(100_000))]
    request = ProduceRequest(acks=-1, timeout_ms=MS, topic_data=[TopicProduceData(topic, partition_data=data)])
    _asked(aim, ApiKey.PRODUCE, 9, request)


@of(200_000)
def markers_of_200000_partitions(aim: Aim) -> None:
    topic = WritableTxnMarkerTopic(aim.new_topic(), list(range(aim.times(200_000))))
    marker = WritableTxnMarker(producer_id=77, producer_epoch=0, topics=[topic])
    _asked(aim, ApiKey.WRITE_TXN_MARKERS, 1, WriteTxnMarkersRequest(markers=[marker]))


@of(100_000)
def configs_of_one_topic_100000_times(aim: Aim) -> None:
    """A small request whose response would be very large without a limit."""
    resource = DescribeConfigsResource(resource_type=2, resource_name=aim.new_topic(), configuration_keys=None)
    request = DescribeConfigsRequest([resource] * aim.times(100_000), include_synonyms=True, include_documentation=True)
    _asked(aim, ApiKey.DESCRIBE_CONFIGS, 4, request)


def _asked(aim: Aim, key: ApiKey, version: int, message: object) -> None:
    frame = frame_of(key, version, message)
    with aim.stranger(timeout_s=40) as client:
        aim.noted(client.ask_frame(key, version, frame))
