"""Partitions: offsets by time, deletion of records, active producers. Each request goes to the partition's leader."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, TypeAlias

from semel.client.admin.admin_requests import AdminRequests
from semel.client.admin.batches import RawBatches, read_batches
from semel.client.admin.results import Results
from semel.client.config.consumer import IsolationLevel
from semel.client.machine.admin.ask import Ask, Leader, outcome
from semel.client.offsets import PartitionLike, as_partition
from semel.types import TopicPartition
from semel.wire.apis import ApiKey
from semel.wire.messages import list_offsets as list_offsets_message
from semel.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from semel.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from semel.wire.messages.describe_producers import ProducerState as WireProducerState
from semel.wire.messages.list_offsets import (
    DEBUGGING_REPLICA_ID,
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsTopic,
)

BATCHES_BYTES_MAX: Final = 4 * 1024 * 1024


# A mapping's keys are of one type to a type checker, so each way to write a partition is named.
TimesLike: TypeAlias = Mapping[TopicPartition, int] | Mapping[tuple[str, int], int] | Mapping[PartitionLike, int]
OffsetsBeforeLike: TypeAlias = (
    Mapping[TopicPartition, int | None] | Mapping[tuple[str, int], int | None] | Mapping[PartitionLike, int | None]
)


class OffsetSpec(IntEnum):
    """Special timestamps, with their numbers on the wire."""

    LATEST = list_offsets_message.LATEST
    """The end of what can be read: the high watermark, or with read_committed the last stable offset."""
    EARLIEST = list_offsets_message.EARLIEST
    """The first record that is still in the log."""
    MAX_TIMESTAMP = list_offsets_message.MAX_TIMESTAMP
    """The record with the largest timestamp."""


@dataclass(frozen=True, slots=True)
class ListedOffset:
    """The offset of a timestamp. ``offset`` is ``None`` if no record has that timestamp or a later one."""

    offset: int | None
    timestamp: int | None
    leader_epoch: int | None


@dataclass(frozen=True, slots=True)
class ProducerState:
    """A partition's state of one producer. ``transaction_start_offset`` is where its open transaction begins."""

    producer_id: int
    producer_epoch: int
    last_sequence: int | None
    last_timestamp: int | None
    coordinator_epoch: int | None
    transaction_start_offset: int | None


class Partitions:
    """``admin.partitions``: offsets, records, producers and batches. A partition is written as ``("orders", 0)``."""

    def __init__(self, requests: AdminRequests) -> None:
        self._requests = requests

    async def list_offsets(
        self, times: TimesLike, *, isolation_level: str = "read_uncommitted"
    ) -> Results[TopicPartition, ListedOffset]:
        """Return the first offset of each partition at a timestamp or later, or the offset of an ``OffsetSpec``.

        ends = await admin.partitions.list_offsets({("orders", 0): OffsetSpec.LATEST, ("orders", 1): 1_700_000_000_000})
        """
        wanted = {as_partition(partition): int(time) for partition, time in times.items()}
        level = _isolation_level(isolation_level)
        return await self._requests.many(list_offsets(wanted, level, self._requests.request_timeout_ms), wanted)

    async def log_ends(self, partitions: Iterable[PartitionLike]) -> Results[TopicPartition, ListedOffset]:
        """Return the log end of each partition: its leader has records up to there, replicated and synced or not.

        No consumer receives the records after the high watermark, and they may still be lost. Brokers return the log
        end to Kafka's debugging replica, which this call claims to be.

        ends = await admin.partitions.log_ends([("orders", 0)])
        """
        wanted = dict.fromkeys(map(as_partition, partitions), int(OffsetSpec.LATEST))
        level, timeout_ms = IsolationLevel.READ_UNCOMMITTED, self._requests.request_timeout_ms
        return await self._requests.many(list_offsets(wanted, level, timeout_ms, DEBUGGING_REPLICA_ID), wanted)

    async def delete_records(self, before: OffsetsBeforeLike) -> Results[TopicPartition, int]:
        """Delete the records before an offset; ``None``: all that can be read. The value is the first offset left.

        (await admin.partitions.delete_records({("orders", 0): 1000})).all()
        """
        offsets = {as_partition(partition): offset for partition, offset in before.items()}
        return await self._requests.many(_delete_records(offsets, self._requests.request_timeout_ms), offsets)

    async def describe_producers(
        self, partitions: Iterable[PartitionLike]
    ) -> Results[TopicPartition, tuple[ProducerState, ...]]:
        """Return the idempotent producers of each partition, and where their open transactions begin.

        results = await admin.partitions.describe_producers([("orders", 0)])
        """
        return await self._requests.many(DESCRIBE_PRODUCERS, map(as_partition, partitions))

    async def read_batches(
        self, partition: PartitionLike, offset: int, *, stable_only: bool = False, max_bytes: int = BATCHES_BYTES_MAX
    ) -> RawBatches:
        """Return a partition's record batches from an offset on, control batches and aborted ones included.

        ``stable_only`` reads up to the last stable offset only, and returns which transactions were aborted.

        raw = await admin.partitions.read_batches(("orders", 0), 0)
        """
        ask = read_batches(offset, stable_only=stable_only, max_bytes=max_bytes)
        return await self._requests.one(ask, as_partition(partition))


def _isolation_level(name: str) -> IsolationLevel:
    try:
        return IsolationLevel[name.upper()]
    except KeyError:
        levels = " or ".join(level.name.lower() for level in IsolationLevel)
        raise ValueError(f"isolation_level {name!r}: it is {levels}") from None


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Return the partitions by topic, as requests have them."""
    topics: dict[str, list[int]] = {}
    for topic, index in partitions:
        topics.setdefault(topic, []).append(index)
    return topics


def list_offsets(
    times: Mapping[TopicPartition, int],
    isolation_level: IsolationLevel,
    timeout_ms: int,
    replica_id: int | None = None,
) -> Ask[TopicPartition, ListedOffset]:
    def build(partitions: Sequence[TopicPartition], version: int) -> ListOffsetsRequest:
        topics = [
            ListOffsetsTopic(
                topic,
                [ListOffsetsPartition(index, timestamp=times[TopicPartition(topic, index)]) for index in indexes],
            )
            for topic, indexes in by_topic(partitions).items()
        ]
        return ListOffsetsRequest(replica_id, isolation_level, topics, timeout_ms)

    return Ask(
        ApiKey.LIST_OFFSETS,
        target=Leader,
        build=build,
        read=lambda response, partitions, version: [
            (TopicPartition(topic.name, answer.partition_index), outcome(_listed(answer), answer.error_code))
            for topic in response.topics
            for answer in topic.partitions
        ],
        version_min=7 if OffsetSpec.MAX_TIMESTAMP in times.values() else 2 if isolation_level else None,
    )


def _listed(answer: ListOffsetsPartitionResponse) -> ListedOffset:
    return ListedOffset(answer.offset, answer.timestamp, answer.leader_epoch)


def _delete_records(offsets: Mapping[TopicPartition, int | None], timeout_ms: int) -> Ask[TopicPartition, int]:
    return Ask(
        ApiKey.DELETE_RECORDS,
        target=Leader,
        build=lambda partitions, version: DeleteRecordsRequest(
            [
                DeleteRecordsTopic(
                    topic, [DeleteRecordsPartition(index, offsets[TopicPartition(topic, index)]) for index in indexes]
                )
                for topic, indexes in by_topic(partitions).items()
            ],
            timeout_ms,
        ),
        read=lambda response, partitions, version: [
            (TopicPartition(topic.name, answer.partition_index), outcome(answer.low_watermark, answer.error_code))
            for topic in response.topics
            for answer in topic.partitions
        ],
    )


def _producers(states: Iterable[WireProducerState]) -> tuple[ProducerState, ...]:
    return tuple(
        ProducerState(
            state.producer_id,
            state.producer_epoch,
            state.last_sequence,
            state.last_timestamp,
            state.coordinator_epoch,
            state.current_txn_start_offset,
        )
        for state in states
    )


DESCRIBE_PRODUCERS: Ask[TopicPartition, tuple[ProducerState, ...]] = Ask(
    ApiKey.DESCRIBE_PRODUCERS,
    target=Leader,
    build=lambda partitions, version: DescribeProducersRequest(
        [TopicRequest(topic, indexes) for topic, indexes in by_topic(partitions).items()]
    ),
    read=lambda response, partitions, version: [
        (
            TopicPartition(topic.name, answer.partition_index),
            outcome(_producers(answer.active_producers), answer.error_code, answer.error_message),
        )
        for topic in response.topics
        for answer in topic.partitions
    ],
)
