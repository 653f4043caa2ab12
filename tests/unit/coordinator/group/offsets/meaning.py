"""What a log of ``__consumer_offsets`` means, by definition and not by algorithm, and whether a shard understands it.

Of the records for a partition that are neither aborted nor undecided, the one with the highest offset counts; what is
undecided and has no tombstone above it is pending. A restart, also after compaction, changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from semel.coordinator.group.offsets.offset_results import FetchedOffset
from semel.coordinator.group.offsets.offset_shard import OffsetShard
from semel.coordinator.group.records import (
    GroupMetadata,
    GroupRecord,
    GroupTombstone,
    OffsetCommit,
    OffsetKey,
    OffsetTombstone,
    decode,
)
from semel.errors import ErrorCode
from tests.unit.coordinator.group.offsets.offset_log import Entry, Marker, OffsetLog, Written, compacted, seen


def committed_in(entries: list[Entry]) -> dict[OffsetKey, OffsetCommit]:
    highest: dict[OffsetKey, OffsetCommit | OffsetTombstone] = {}
    for record, _, outcome in _records(entries):
        if isinstance(record, OffsetCommit | OffsetTombstone) and outcome:
            highest[record.key] = record
    return {key: record for key, record in highest.items() if isinstance(record, OffsetCommit)}


def pending_in(entries: list[Entry]) -> dict[OffsetKey, list[OffsetCommit]]:
    pending: dict[OffsetKey, dict[int, OffsetCommit]] = {}
    for record, entry, outcome in _records(entries):
        if isinstance(record, OffsetTombstone):
            pending.pop(record.key, None)
        elif isinstance(record, OffsetCommit) and outcome is None:
            assert entry.producer is not None
            pending.setdefault(record.key, {})[entry.producer.producer_id] = record
    return {key: list(commits.values()) for key, commits in pending.items()}


def groups_in(entries: list[Entry]) -> dict[str, GroupMetadata]:
    groups: dict[str, GroupMetadata] = {}
    for record, _, _ in _records(entries):
        if isinstance(record, GroupMetadata):
            groups[record.group_id] = record
        elif isinstance(record, GroupTombstone):
            groups.pop(record.group_id, None)
    return groups


def verify(log: OffsetLog, group_ids: Iterable[str] = ("payments",)) -> None:
    """The shard tells what the log says, and so do those that load it."""
    committed, pending = committed_in(log.entries), pending_in(log.entries)
    for group_id in group_ids:
        told = {_key(group_id, one): one for one in log.shard.fetch(group_id, None).response.offsets}
        assert told == {key: _told(commit) for key, commit in committed.items() if key.group_id == group_id}
        stable = log.shard.fetch(group_id, None, require_stable=True).response.offsets
        unstable = {_key(group_id, one) for one in stable if one.error is ErrorCode.UNSTABLE_OFFSET_COMMIT}
        assert unstable == {key for key in pending if key.group_id == group_id}
    for shard in restarted(log):
        assert seen(shard, group_ids) == seen(log.shard, group_ids)


def restarted(log: OffsetLog) -> Iterator[OffsetShard]:
    yield log.loaded()
    for without_tombstones in (False, True):
        yield log.loaded(compacted(log.entries, without_tombstones=without_tombstones))


def _records(entries: list[Entry]) -> Iterator[tuple[GroupRecord, Written, bool | None]]:
    """Every record in the order of the log, and whether it was committed; ``None`` if that is undecided."""
    for number, entry in enumerate(entries):
        if isinstance(entry, Marker):
            continue
        record = decode(entry.key, entry.value)
        assert record is not None
        outcome: bool | None = True
        if entry.producer is not None:
            markers = (
                later.committed
                for later in entries[number:]
                if isinstance(later, Marker) and later.producer.producer_id == entry.producer.producer_id
            )
            outcome = next(markers, None)
        yield record, entry, outcome


def _key(group_id: str, fetched: FetchedOffset) -> OffsetKey:
    return OffsetKey(group_id, fetched.topic, fetched.partition)


def _told(commit: OffsetCommit) -> FetchedOffset:
    return FetchedOffset(commit.key.topic, commit.key.partition, commit.offset, commit.leader_epoch, commit.metadata)
