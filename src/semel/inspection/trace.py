"""The history of a transactional id, read from the logs: for ``semel txn trace`` and the console.

``__transaction_state`` has the states that compaction has not removed; the partitions of the transactions have the
records and the markers. All of it is read with ordinary requests, so it works with any broker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from semel.coordinator.group import records as group_records
from semel.coordinator.partitioning import partition_for
from semel.coordinator.transaction import records as transaction_records
from semel.coordinator.transaction.records import Transaction
from semel.errors import ErrorCode, KafkaError
from semel.inspection.compaction_gaps import CompactionGaps
from semel.inspection.log_reading import RawBatch, batches
from semel.inspection.offsets import offsets_at
from semel.inspection.times import time_text
from semel.types import CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC, TopicPartition
from semel.wire.control import parse_marker

if TYPE_CHECKING:
    from semel.blocking import Admin


@dataclass(frozen=True, slots=True)
class Event:
    """A state of the transactional id, as a record in ``__transaction_state``."""

    time: str | None
    offset: int
    state: str
    producer_id: int
    epoch: int
    partitions: list[str]
    """The partitions that were added to the transaction with this state."""


@dataclass(slots=True)
class Written:
    """What one transaction wrote to one partition, and its outcome there."""

    partition: str
    producer_id: int
    epoch: int
    first_offset: int
    last_offset: int
    marker: str = "open"
    marker_offset: int | None = None
    records: int = 0
    groups: list[str] = field(default_factory=list)
    """The groups whose offsets were written, if the partition is one of ``__consumer_offsets``."""


@dataclass(frozen=True, slots=True)
class BlockedReaders:
    """Clients that wait for the end of an open transaction: readers of a partition, or, with ``groups``, the groups
    whose offsets are pending."""

    partition: str
    last_stable_offset: int | None = None
    end_offset: int | None = None
    groups: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.groups:
            return f"group {', '.join(self.groups)}: offsets in {self.partition} are unstable"
        return (
            f"readers of {self.partition}: the last stable offset is {self.last_stable_offset}, the end "
            f"{self.end_offset}"
        )

    @property
    def offsets(self) -> int:
        """The number of offsets that read_committed consumers do not get yet."""
        return (self.end_offset or 0) - (self.last_stable_offset or 0)


@dataclass(frozen=True, slots=True)
class Trace:
    transactional_id: str
    state: str
    complete_since: str | None
    """The time since when the history is complete; ``None`` if nothing is missing."""
    events: list[Event]
    written: list[Written]
    holds_up: list[BlockedReaders]


def trace(
    admin: Admin,
    transactional_id: str,
    *,
    offsets_max: int | None = None,
    batch_read: Callable[[], object] = lambda: None,
) -> Trace:
    """Read the history of a transactional id.

    ``offsets_max`` limits the reading to the last offsets of each partition; ``complete_since`` of the result says
    since when the history is complete. ``batch_read`` is called for every batch of the partitions to which the
    transactions wrote. Raises ``KafkaError`` with TRANSACTIONAL_ID_NOT_FOUND if the log has no record of the id.
    """
    partitions = len(admin.topics.describe(TRANSACTION_STATE_TOPIC).partitions)
    coordinator_partition = TopicPartition(TRANSACTION_STATE_TOPIC, partition_for(transactional_id, partitions))
    states, complete_since = _states(admin, coordinator_partition, transactional_id, offsets_max)
    if not states:
        raise KafkaError(
            ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
            f"{coordinator_partition} has no record of transactional id {transactional_id!r}",
        )
    written = list(_written(admin, [state for _, state in states], offsets_max, batch_read))
    return Trace(
        transactional_id,
        states[-1][1].state.kafka_name,
        complete_since,
        list(_events(states)),
        written,
        list(_blocked_readers(admin, written)),
    )


def _states(
    admin: Admin, coordinator_partition: TopicPartition, transactional_id: str, offsets_max: int | None
) -> tuple[list[tuple[int, Transaction]], str | None]:
    """Return the states of the id with their offsets, and the time since when they are complete."""
    states: list[tuple[int, Transaction]] = []
    gaps = CompactionGaps()
    for batch in batches(admin, coordinator_partition, offsets_max=offsets_max):
        header = batch.header
        gaps.passed(header)
        if header.is_control:
            continue
        for record in batch.records():
            state = transaction_records.decode(record.key, record.value)
            if isinstance(state, Transaction) and state.transactional_id == transactional_id:
                states.append((record.offset, state))
    return states, gaps.complete_since


def _events(states: list[tuple[int, Transaction]]) -> Iterator[Event]:
    known: frozenset[TopicPartition] = frozenset()
    for offset, state in states:
        new = sorted(state.partitions - known)
        known = state.partitions
        yield Event(
            time_text(state.updated_ms),
            offset,
            state.state.kafka_name,
            state.producer_id,
            state.producer_epoch,
            [_name(partition) for partition in new],
        )


def _written(
    admin: Admin, states: list[Transaction], offsets_max: int | None, batch_read: Callable[[], object]
) -> Iterator[Written]:
    producer_ids = {state.producer_id for state in states}
    partitions = sorted({partition for state in states for partition in state.partitions})
    for partition in partitions:
        open_now: dict[int, Written] = {}
        try:
            for batch in batches(admin, partition, offsets_max=offsets_max):
                batch_read()
                if batch.header.producer_id in producer_ids and batch.header.is_transactional:
                    yield from _note(batch, partition, open_now)
        except KafkaError as error:
            if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise  # Only a topic that was deleted since is ignored: nothing of it is left to read.
        yield from open_now.values()


def _note(batch: RawBatch, partition: TopicPartition, open_now: dict[int, Written]) -> Iterator[Written]:
    header = batch.header
    if header.is_control:
        marker = parse_marker(batch.buffer, batch.position)
        ended = open_now.pop(header.producer_id, None)
        if marker is not None and ended is not None:
            ended.marker = "commit" if marker.committed else "abort"
            ended.marker_offset = header.base_offset
            yield ended
        return
    written = open_now.get(header.producer_id)
    if written is None:
        written = open_now[header.producer_id] = Written(
            _name(partition), header.producer_id, header.producer_epoch, header.base_offset, header.last_offset
        )
    written.last_offset = header.last_offset
    written.records += header.record_count
    if partition.topic == CONSUMER_OFFSETS_TOPIC:
        for record in batch.records():
            commit = group_records.decode(record.key, record.value)
            if isinstance(commit, group_records.OffsetCommit) and commit.key.group_id not in written.groups:
                written.groups.append(commit.key.group_id)


def _blocked_readers(admin: Admin, written: list[Written]) -> Iterator[BlockedReaders]:
    """Yield what waits for open transactions: readers at the last stable offset, and groups with pending offsets."""
    from semel.client.admin.partitions import OffsetSpec

    for one in written:
        if one.marker_offset is not None:
            continue
        topic, _, index = one.partition.rpartition(":")
        partition = TopicPartition(topic, int(index))
        if one.groups:
            yield BlockedReaders(one.partition, groups=tuple(one.groups))
            continue
        stable = offsets_at(admin, [partition], OffsetSpec.LATEST, "read_committed").get(partition)
        end = offsets_at(admin, [partition], OffsetSpec.LATEST).get(partition)
        if stable is not None and end is not None and stable <= one.first_offset:
            yield BlockedReaders(one.partition, stable, end)


def _name(partition: TopicPartition) -> str:
    return f"{partition.topic}:{partition.partition}"
