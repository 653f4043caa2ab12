"""``semel txn trace``: the history of a transactional id, read from the logs.

``__transaction_state`` has the states that compaction has left; the partitions have the records and the markers. It
reads what any client may read, so it works with any broker.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

from semel.cli.log_reading import RawBatch, batches
from semel.cli.offsets import offsets_at
from semel.cli.terminal.output import print_facts, print_json, print_rows, time_text
from semel.cli.terminal.progress import Progress
from semel.cli.traces.compaction_gaps import CompactionGaps, since_text
from semel.coordinator.group import records as group_records
from semel.coordinator.partitioning import partition_for
from semel.coordinator.transaction import records as transaction_records
from semel.coordinator.transaction.records import Transaction
from semel.errors import ErrorCode, KafkaError
from semel.types import CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC, TopicPartition
from semel.wire.control import parse_marker

if TYPE_CHECKING:
    from semel.blocking import Admin


@dataclass(frozen=True, slots=True)
class Event:
    """A state that was written down."""

    time: str | None
    offset: int
    state: str
    producer_id: int
    epoch: int
    partitions: list[str]
    """Those that belong to the transaction now and did not before."""


@dataclass(slots=True)
class Written:
    """What one transaction wrote to one partition, and how that ended."""

    partition: str
    producer_id: int
    epoch: int
    first_offset: int
    last_offset: int
    marker: str = "open"
    marker_offset: int | None = None
    groups: list[str] = field(default_factory=list)
    """Whose offsets, where the partition is one of ``__consumer_offsets``."""


@dataclass(frozen=True, slots=True)
class Trace:
    transactional_id: str
    state: str
    complete_since: str | None
    """From when on nothing is missing; ``None``: nothing is missing at all."""
    events: list[Event]
    written: list[Written]
    holds_up: list[str]
    """What waits for it to end."""


def trace(admin: Admin, transactional_id: str) -> Trace:
    """Raises TRANSACTIONAL_ID_NOT_FOUND if no log knows it."""
    partitions = len(admin.topics.describe(TRANSACTION_STATE_TOPIC).partitions)
    home = TopicPartition(TRANSACTION_STATE_TOPIC, partition_for(transactional_id, partitions))
    states, complete_since = _states(admin, home, transactional_id)
    if not states:
        raise KafkaError(
            ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, f"{home} has no record of transactional id {transactional_id!r}"
        )
    written = list(_written(admin, [state for _, state in states]))
    return Trace(
        transactional_id,
        states[-1][1].state.kafka_name,
        complete_since,
        list(_events(states)),
        written,
        list(_held_up(admin, written)),
    )


def print_trace(found: Trace, *, as_json: bool) -> None:
    if as_json:
        print_json(asdict(found))
        return
    since = since_text(found.complete_since, "the first transaction")
    print_facts({"transactional_id": found.transactional_id, "state": found.state, "complete": since}, as_json=False)
    print()
    events = [asdict(event) for event in found.events]
    print_rows(events, ("time", "state", "producer_id", "epoch", "partitions"), as_json=False)
    print()
    written = [asdict(one) for one in found.written]
    columns = ("partition", "producer_id", "epoch", "first_offset", "last_offset", "marker", "marker_offset", "groups")
    print_rows(written, columns, as_json=False, empty="nothing that it wrote is left in the logs")
    print()
    for line in found.holds_up:
        print(f"holds up {line}")
    if not found.holds_up:
        print("holds up nothing")


def _states(
    admin: Admin, home: TopicPartition, transactional_id: str
) -> tuple[list[tuple[int, Transaction]], str | None]:
    """Its states with their offsets, and from when on they are all there."""
    states: list[tuple[int, Transaction]] = []
    gaps = CompactionGaps()
    for batch in batches(admin, home):
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


def _written(admin: Admin, states: list[Transaction]) -> Iterator[Written]:
    producer_ids = {state.producer_id for state in states}
    partitions = sorted({partition for state in states for partition in state.partitions})
    with Progress("batches read") as progress:
        for partition in partitions:
            open_now: dict[int, Written] = {}
            try:
                found = batches(admin, partition)
                for batch in found:
                    progress.advance()
                    if batch.header.producer_id in producer_ids and batch.header.is_transactional:
                        yield from _note(batch, partition, open_now)
            except KafkaError as error:
                if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    raise  # A topic may have been deleted since; nothing of it is left to tell.
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
    if partition.topic == CONSUMER_OFFSETS_TOPIC:
        for record in batch.records():
            commit = group_records.decode(record.key, record.value)
            if isinstance(commit, group_records.OffsetCommit) and commit.key.group_id not in written.groups:
                written.groups.append(commit.key.group_id)


def _held_up(admin: Admin, written: list[Written]) -> Iterator[str]:
    """Who waits for what is still open: readers at the last stable offset, and groups for their offsets."""
    from semel.client.admin.partitions import OffsetSpec

    for one in written:
        if one.marker_offset is not None:
            continue
        topic, _, index = one.partition.rpartition(":")
        partition = TopicPartition(topic, int(index))
        if one.groups:
            yield f"group {', '.join(one.groups)}: offsets in {one.partition} are unstable"
            continue
        stable = offsets_at(admin, [partition], OffsetSpec.LATEST, "read_committed").get(partition)
        end = offsets_at(admin, [partition], OffsetSpec.LATEST).get(partition)
        if stable is not None and end is not None and stable <= one.first_offset:
            yield f"readers of {one.partition}: the last stable offset is {stable}, the end {end}"


def _name(partition: TopicPartition) -> str:
    return f"{partition.topic}:{partition.partition}"
