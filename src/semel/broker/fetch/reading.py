"""Reading for Fetch: the partitions in the order of the request, within the byte limits, each with its own error.

The law: no record at or above the high watermark is sent (for read_committed: the last stable offset), whatever replica
id a client claims. And the first batch of the first partition that has one is sent whole, however large it is, so that
a consumer can always make progress.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Final

from semel.broker.fetch.fetch_sessions import FetchTarget
from semel.broker.network.response_memory import ROOM_BYTES_MIN
from semel.broker.node import Node
from semel.broker.partitions.partitions import Partition
from semel.errors import ErrorCode, KafkaError, StorageError
from semel.log.outcomes import Isolation
from semel.security.rights import CLUSTER_ACTION, READ_TOPIC, Rights
from semel.types import ZERO_UUID
from semel.wire.messages.fetch import AbortedTransaction, EpochEndOffset, LeaderIdAndEpoch, PartitionData

SLICE_TARGETS: Final = 500
"""How many partitions are read in one turn of the event loop."""


@dataclass(frozen=True, slots=True)
class FetchParameters:
    isolation: Isolation
    min_bytes: int
    max_bytes: int
    uses_topic_ids: bool
    replica_id: int | None
    rights: Rights | None = None
    """The rights of the client; None if everything is allowed."""

    def may_fetch(self, topic: str, rights: Rights) -> bool:
        if self.replica_id is not None and self.replica_id >= 0:
            return rights.demand(CLUSTER_ACTION)
        return rights.demand(READ_TOPIC, topic)


@dataclass(slots=True)
class Reading:
    """The results of reading. ``urgent``: a result is an error or a diverging epoch, so the response must not wait."""

    results: list[tuple[FetchTarget, PartitionData]]
    size_bytes: int
    urgent: bool
    has_withheld: bool = False
    """Whether a first batch was not read because there is too little memory for large responses."""

    @property
    def must_wait_for_room(self) -> bool:
        return self.has_withheld and not self.size_bytes and not self.urgent


def read_targets(
    node: Node,
    targets: list[FetchTarget],
    parameters: FetchParameters,
    *,
    room_bytes: int,
    before: Reading | None = None,
) -> Reading:
    """Read the targets, within the limits of the request and of the memory for responses.

    With ``before``, the results are added to those of an earlier reading of other targets of the same request.
    """
    remaining_bytes = min(parameters.max_bytes, room_bytes)
    has_room = room_bytes >= ROOM_BYTES_MIN
    at_least_one = has_room
    has_withheld = False
    size_bytes = 0
    urgent = False
    results: list[tuple[FetchTarget, PartitionData]] = []
    if before is not None:
        results, size_bytes, urgent = before.results, before.size_bytes, before.urgent
        has_withheld = before.has_withheld
        remaining_bytes = max(0, remaining_bytes - size_bytes)
        at_least_one = size_bytes == 0 and has_room
    for target in targets:
        max_bytes = min(target.asked.partition_max_bytes, remaining_bytes)
        data = _read(node, target, parameters, max_bytes, at_least_one)
        if not has_room and not data.records:
            committed = parameters.isolation is Isolation.READ_COMMITTED
            visible_end = data.last_stable_offset if committed else data.high_watermark
            has_withheld |= target.asked.fetch_offset < visible_end
        if data.records:
            read_bytes = len(data.records)
            size_bytes += read_bytes
            remaining_bytes = max(0, remaining_bytes - read_bytes)
            at_least_one = False
        if data.error_code or data.diverging_epoch.end_offset is not None:
            urgent = True
        results.append((target, data))
    return Reading(results, size_bytes, urgent, has_withheld)


def read_in_slices(
    node: Node, targets: list[FetchTarget], parameters: FetchParameters, *, room_bytes: int
) -> Generator[None, None, Reading]:
    """Like ``read_targets``, with a pause after every slice. Records that are appended meanwhile may be read or not."""
    reading = Reading([], 0, False)
    for start in range(0, len(targets), SLICE_TARGETS):
        some = targets[start : start + SLICE_TARGETS]
        reading = read_targets(node, some, parameters, room_bytes=room_bytes, before=reading)
        yield
    return reading


def partition_of(node: Node, target: FetchTarget, parameters: FetchParameters) -> Partition:
    """Return the partition of a target. Raises KafkaError if there is none here, or if the client may not fetch it.

    The client's rights are checked at each read, and not only when a session begins.
    """
    topic = target.topic
    if parameters.uses_topic_ids:
        found = node.image.topics_by_id.get(target.topic_id) if target.topic_id != ZERO_UUID else None
        if found is None:
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_ID)
        topic = found.name
    if parameters.rights is not None and not parameters.may_fetch(topic, parameters.rights):
        raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    return node.led_partition(topic, target.asked.partition)


def check_leader_epoch(partition: Partition, current_leader_epoch: int | None) -> None:
    """Raise KafkaError if the client knows an older or a newer leader epoch than this broker (KIP-320)."""
    if current_leader_epoch is None or current_leader_epoch == partition.leader_epoch:
        return
    older = current_leader_epoch < partition.leader_epoch
    raise KafkaError(
        ErrorCode.FENCED_LEADER_EPOCH if older else ErrorCode.UNKNOWN_LEADER_EPOCH,
        f"leader epoch {current_leader_epoch} for {partition.topic_partition}; it is {partition.leader_epoch}",
    )


def _read(
    node: Node, target: FetchTarget, parameters: FetchParameters, max_bytes: int, at_least_one: bool
) -> PartitionData:
    asked = target.asked
    partition = None
    try:
        partition = partition_of(node, target, parameters)
        check_leader_epoch(partition, asked.current_leader_epoch)
        if parameters.replica_id is not None and parameters.replica_id >= 0:
            # Followers use the listener of brokers. A client that claims to be a follower must not move the high
            # watermark (CVE-2018-1288).
            raise KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"broker {parameters.replica_id} is no replica")
        if asked.last_fetched_epoch is not None and asked.last_fetched_epoch >= 0:
            parting = diverging(partition, asked.last_fetched_epoch, asked.fetch_offset)
            if parting is not None:
                return parting
        log = partition.log
        read = log.read(asked.fetch_offset, max_bytes, isolation=parameters.isolation, at_least_one=at_least_one)
    except KafkaError as error:
        return _refused(asked.partition, error.code, partition, node)
    except StorageError:
        return _refused(asked.partition, ErrorCode.KAFKA_STORAGE_ERROR, partition, node)
    return PartitionData(
        partition_index=asked.partition,
        high_watermark=read.high_watermark,
        last_stable_offset=read.last_stable_offset,
        log_start_offset=read.log_start_offset,
        aborted_transactions=None
        if read.aborted is None
        else [AbortedTransaction(aborted.producer_id, aborted.first_offset) for aborted in read.aborted],
        records=read.records,
    )


def diverging(partition: Partition, last_fetched_epoch: int, fetch_offset: int) -> PartitionData | None:
    """Return a result with the diverging epoch if the reader's log differs from this one; None if it does not.

    Raises KafkaError with OFFSET_OUT_OF_RANGE.
    """
    log = partition.log
    end = log.end_offset_for_epoch(last_fetched_epoch)
    if end is None:
        raise KafkaError(ErrorCode.OFFSET_OUT_OF_RANGE, f"no epoch up to {last_fetched_epoch} is known here")
    if end.leader_epoch == last_fetched_epoch and end.end_offset >= fetch_offset:
        return None
    return PartitionData(
        partition_index=partition.topic_partition.partition,
        high_watermark=log.high_watermark,
        last_stable_offset=log.last_stable_offset,
        log_start_offset=log.log_start_offset,
        diverging_epoch=EpochEndOffset(end.leader_epoch, end.end_offset),
        aborted_transactions=None,
        records=b"",
    )


def _refused(index: int, code: ErrorCode, partition: Partition | None, node: Node) -> PartitionData:
    data = PartitionData(partition_index=index, error_code=code, aborted_transactions=None, records=b"")
    if partition is not None and code in (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER):
        data.current_leader = LeaderIdAndEpoch(node.config.node_id, partition.leader_epoch)
    return data
