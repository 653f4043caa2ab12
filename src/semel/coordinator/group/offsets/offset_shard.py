"""The committed offsets of one partition of ``__consumer_offsets``, as a state machine.

Handlers decide and change nothing; ``replay`` and ``replay_marker`` change the state and decide nothing. The laws:

- The state is a function of the log: it is the same in a running shard and after loading the log, compacted or not.
- An offset that was committed in a transaction is not visible before the transaction's marker. Then, of two commits for
  one partition, the one with the higher log offset counts, even if the marker of the other one came later.
- A tombstone removes the offsets of its partition that are below it in the log, pending ones included. When a user
  deletes offsets or a group, or a topic is deleted, tombstones are written even for partitions with pending offsets;
  expiry does not write those.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence, Set
from typing import Final
from uuid import UUID

from semel.coordinator.decision import Decision
from semel.coordinator.group.classic.group import SIMPLE_GROUP
from semel.coordinator.group.decisions import GroupDecision
from semel.coordinator.group.directory import GroupDirectory
from semel.coordinator.group.membership import Groups, Membership
from semel.coordinator.group.offsets import removal
from semel.coordinator.group.offsets.offset_results import (
    CommitRequest,
    CommitResult,
    DeleteGroupResult,
    DeleteOffsetsResult,
    FetchedOffset,
    FetchResult,
    OpenTransaction,
    PartitionToFetch,
    Removed,
)
from semel.coordinator.group.offsets.offset_state import OffsetState
from semel.coordinator.group.records import GroupRecord, OffsetCommit, OffsetKey, OffsetTombstone
from semel.coordinator.group.settings import OffsetSettings
from semel.errors import ErrorCode
from semel.types import INT64_MAX, ProducerIdentity, TopicPartition

# From this version of OffsetCommit on, clients understand GROUP_ID_NOT_FOUND.
_GROUP_ID_NOT_FOUND_SINCE: Final = 9


class OffsetShard:
    def __init__(self, *, partition: int, settings: OffsetSettings | None = None, groups: Groups | None = None) -> None:
        self.partition = partition
        self._settings = OffsetSettings() if settings is None else settings
        self._state = OffsetState(self._settings, GroupDirectory() if groups is None else groups)

    # -- committing

    def commit(self, request: CommitRequest, *, now_ms: int) -> GroupDecision[CommitResult]:
        """OffsetCommit."""
        error = self._validate_commit(request, transactional=False)
        if error is not ErrorCode.NONE:
            return _refused(error, request)
        retention_ms = request.retention_ms
        expires_ms = None if retention_ms is None else max(0, min(now_ms + retention_ms, INT64_MAX))
        return self._accepted(request, expires_ms, now_ms)

    def commit_transactional(
        self, request: CommitRequest, producer: ProducerIdentity, *, now_ms: int
    ) -> GroupDecision[CommitResult]:
        """TxnOffsetCommit. The records must be appended in a transactional batch of this producer id and epoch."""
        if not request.group_id:
            return _refused(ErrorCode.INVALID_GROUP_ID, request)
        pending_epoch = self._state.pending.epoch_of(producer.producer_id)
        if pending_epoch is not None and producer.producer_epoch < pending_epoch:
            return _refused(ErrorCode.INVALID_PRODUCER_EPOCH, request)
        error = self._validate_commit(request, transactional=True)
        if error is not ErrorCode.NONE:
            return _refused(error, request)
        return self._accepted(request, None, now_ms)

    # -- reading

    def fetch(
        self,
        group_id: str,
        partitions: Sequence[PartitionToFetch] | None,
        *,
        require_stable: bool = False,
        member_id: str | None = None,
        member_epoch: int | None = None,
        at_most: int = sys.maxsize,
    ) -> GroupDecision[FetchResult]:
        """OffsetFetch of one group.

        ``partitions`` is ``None`` for every partition that the group has an offset for, but at most ``at_most`` of
        them. With ``require_stable``, a partition with a pending offset gets UNSTABLE_OFFSET_COMMIT, and "every
        partition" includes those that only have a pending offset.
        """
        group = self._state.membership(group_id)
        if group is not None:
            error = group.validate_offset_fetch(member_id=member_id, member_epoch=member_epoch)
            if error is not ErrorCode.NONE:
                return Decision(FetchResult(error))
        rest: tuple[tuple[str, int], ...] = ()
        if partitions is None:
            known = self._partitions(group_id, require_stable)
            rest = tuple(known[at_most:])
            partitions = [PartitionToFetch(topic, partition) for topic, partition in known[:at_most]]
        return Decision(
            FetchResult(
                offsets=tuple(self._fetched(group_id, wanted, require_stable) for wanted in partitions), rest=rest
            )
        )

    def open_transactions(self, group_id: str) -> tuple[OpenTransaction, ...]:
        """The open transactions that have pending offsets of the group, sorted by producer id."""
        return self._state.pending.describe(group_id)

    def group(self, group_id: str) -> Membership | None:
        """The group, if it exists. A simple group exists while it has an offset, committed or pending."""
        return self._state.membership(group_id)

    def simple_groups(self) -> list[str]:
        """The ids of the groups that only have offsets, and no record of their own."""
        state = self._state
        ids = dict.fromkeys((*state.committed.group_ids(), *state.pending.group_ids()))
        return [group_id for group_id in ids if state.groups.membership(group_id) is None]

    # -- removing

    def delete_offsets(self, group_id: str, partitions: Sequence[TopicPartition]) -> GroupDecision[DeleteOffsetsResult]:
        """OffsetDelete. Pending offsets of these partitions are removed too, however their transactions end."""
        if not group_id:
            return Decision(DeleteOffsetsResult(ErrorCode.INVALID_GROUP_ID))
        group = self._state.membership(group_id)
        if group is None:
            return Decision(DeleteOffsetsResult(ErrorCode.GROUP_ID_NOT_FOUND))
        error = group.validate_offset_delete()
        if error is not ErrorCode.NONE:
            return Decision(DeleteOffsetsResult(error))
        errors: list[ErrorCode] = []
        doomed: dict[OffsetKey, None] = {}
        for topic, partition in partitions:
            key = OffsetKey(group_id, topic, partition)
            if group.is_subscribed(topic):
                errors.append(ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC)
                continue
            errors.append(ErrorCode.NONE)
            if key in self._state.committed or key in self._state.pending:
                doomed[key] = None
        return Decision(DeleteOffsetsResult(errors=tuple(errors)), tuple(map(OffsetTombstone, doomed)))

    def delete_group(self, group_id: str) -> GroupDecision[DeleteGroupResult]:
        """DeleteGroups of one group: removes its offsets, pending ones included, and its other records."""
        group = self._state.membership(group_id)
        if group is None:
            return Decision(DeleteGroupResult(ErrorCode.GROUP_ID_NOT_FOUND))
        if not group.is_empty:
            return Decision(DeleteGroupResult(ErrorCode.NON_EMPTY_GROUP))
        offsets = map(OffsetTombstone, self._keys(group_id, pending=True))
        return Decision(DeleteGroupResult(), (*offsets, *self._state.groups.tombstones(group_id)))

    def delete_topic(
        self, topic: str, topic_id: UUID | None, *, below: int = INT64_MAX
    ) -> Iterator[GroupDecision[Removed]]:
        """Decide to remove the offsets of a deleted topic, pending ones included, in batches.

        Offsets of a newer topic of the same name are kept, and those whose records are not ``below`` this log offset.
        There may be very many offsets, so a batch is decided only when it is asked for: the caller carries out each
        decision before it takes the next one, perhaps in another turn.
        """
        return map(_decision, removal.of_topic(self._state, topic, topic_id, below))

    def expire(self, now_ms: int, *, examined_max: int = sys.maxsize) -> list[GroupDecision[Removed]]:
        """Decide to remove expired offsets, except for partitions with pending offsets; and empty groups without any.

        The groups that are due are examined until ``examined_max`` offsets are; at least one group is. While ``is_due``
        is true there are more, or the records of the last ones have not been replayed.
        """
        return _decisions(removal.expired(self._state, now_ms, examined_max))

    def sweep_begins(self, now_ms: int) -> None:
        """Begin to look for expired offsets, with ``is_due`` and ``expire`` at the same time."""
        self._state.sweep_begins(now_ms)

    def is_due(self, now_ms: int) -> bool:
        """Whether ``expire`` has a group to examine."""
        next_ms = self._state.expiry.next_ms()
        return next_ms is not None and next_ms <= now_ms

    # -- changing the state

    def replay(
        self, record: OffsetCommit | OffsetTombstone, offset: int, producer: ProducerIdentity | None = None
    ) -> None:
        """Change the state by a record at ``offset`` in the log. ``producer``: the one in whose transaction it is."""
        self._state.replay(record, offset, producer)

    def replay_marker(self, producer: ProducerIdentity, *, committed: bool) -> None:
        """End a producer's transaction. The marker's epoch may be higher than the one of the transaction's records."""
        self._state.replay_marker(producer.producer_id, committed)

    def group_changed(self, group_id: str) -> None:
        """Examine the group at the next expiry: a record of the group itself was replayed, which may change it."""
        self._state.group_changed(group_id)

    # -- parts of the above

    def _validate_commit(self, request: CommitRequest, *, transactional: bool) -> ErrorCode:
        committer, api_version = request.committer, request.api_version
        group = self._state.membership(request.group_id)
        if group is None:
            if committer.generation is not None:
                can_be_told = not transactional and api_version >= _GROUP_ID_NOT_FOUND_SINCE
                return ErrorCode.GROUP_ID_NOT_FOUND if can_be_told else ErrorCode.ILLEGAL_GENERATION
            group = SIMPLE_GROUP  # This commit creates it.
        error = group.validate_offset_commit(committer, transactional=transactional, api_version=api_version)
        if transactional and error is ErrorCode.STALE_MEMBER_EPOCH:
            return ErrorCode.ILLEGAL_GENERATION  # Producers know generations only.
        return error

    def _accepted(self, request: CommitRequest, expires_ms: int | None, now_ms: int) -> GroupDecision[CommitResult]:
        errors: list[ErrorCode] = []
        records: list[GroupRecord] = []
        for wanted in request.offsets:
            metadata = wanted.metadata or ""
            if _utf16_length(metadata) > self._settings.metadata_size_max:
                errors.append(ErrorCode.OFFSET_METADATA_TOO_LARGE)
                continue
            errors.append(ErrorCode.NONE)
            commit = OffsetCommit(
                OffsetKey(request.group_id, wanted.topic, wanted.partition),
                offset=wanted.offset,
                leader_epoch=wanted.leader_epoch,
                metadata=metadata,
                committed_ms=now_ms,
                topic_id=wanted.topic_id,
            )
            records.append(commit if expires_ms is None else commit.expiring(expires_ms))
        return Decision(CommitResult(tuple(errors)), tuple(records))

    def _keys(self, group_id: str, pending: bool) -> list[OffsetKey]:
        keys = {stored.commit.key for stored in self._state.committed.of_group(group_id)}
        if pending:
            keys.update(self._state.pending.of_group(group_id))
        return sorted(keys)

    def _partitions(self, group_id: str, pending: bool) -> list[tuple[str, int]]:
        """The topics and partitions of ``_keys``, at a tenth of its cost: there may be a hundred thousand."""
        topics: dict[str, Set[int]] = {
            topic: offsets.keys() for topic, offsets in self._state.committed.topics_of(group_id).items()
        }
        if pending:
            undecided: dict[str, set[int]] = {}
            for key in self._state.pending.of_group(group_id):
                undecided.setdefault(key.topic, set()).add(key.partition)
            for topic, partitions in undecided.items():
                topics[topic] = partitions | topics.get(topic, frozenset())
        return [(topic, partition) for topic in sorted(topics) for partition in sorted(topics[topic])]

    def _fetched(self, group_id: str, wanted: PartitionToFetch, require_stable: bool) -> FetchedOffset:
        topic, partition = wanted.topic, wanted.partition
        key = OffsetKey(group_id, topic, partition)
        if require_stable and key in self._state.pending:
            return FetchedOffset(topic, partition, error=ErrorCode.UNSTABLE_OFFSET_COMMIT)
        stored = self._state.committed.get(key)
        if stored is None or not removal.same_topic(stored.commit.topic_id, wanted.topic_id):
            return FetchedOffset(topic, partition)
        commit = stored.commit
        return FetchedOffset(topic, partition, commit.offset, commit.leader_epoch, commit.metadata)


def _refused(error: ErrorCode, request: CommitRequest) -> GroupDecision[CommitResult]:
    return Decision(CommitResult((error,) * len(request.offsets)))


def _decisions(batches: Iterable[list[GroupRecord]]) -> list[GroupDecision[Removed]]:
    return [_decision(records) for records in batches]


def _decision(records: list[GroupRecord]) -> GroupDecision[Removed]:
    offsets = sum(isinstance(record, OffsetTombstone) for record in records)
    return Decision(Removed(offsets, len(records) - offsets), tuple(records))


def _utf16_length(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2
