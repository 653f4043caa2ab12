"""A partition of ``__consumer_offsets`` in memory, and the shard that lives on it.

It does what the runtime does: append the records of a decision, as bytes, and replay them with nothing in between. What
is on the log can be replayed into a second shard, as it is or compacted, and that shard must be the first one's equal.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from semel.coordinator.decision import Decision
from semel.coordinator.group.membership import NO_MEMBER
from semel.coordinator.group.offsets.offset_results import (
    CommitRequest,
    FetchedOffset,
    OffsetToCommit,
    OpenTransaction,
    PartitionToFetch,
)
from semel.coordinator.group.offsets.offset_shard import OffsetShard
from semel.coordinator.group.records import GroupRecord, decode, encode
from semel.coordinator.group.settings import OffsetSettings
from semel.coordinator.group.shard import GroupShard
from semel.errors import ErrorCode
from semel.types import ProducerIdentity
from tests.unit.coordinator.group.no_topics import NoTopics

MINUTE_MS = 60_000


@dataclass(frozen=True)
class Written:
    offset: int
    key: bytes
    value: bytes | None
    producer: ProducerIdentity | None = None


@dataclass(frozen=True)
class Marker:
    offset: int
    producer: ProducerIdentity
    committed: bool


Entry: TypeAlias = Written | Marker


@dataclass
class OffsetLog:
    settings: OffsetSettings = field(default_factory=lambda: OffsetSettings(retention_ms=10 * MINUTE_MS))
    shard_class: type[OffsetShard] = OffsetShard
    entries: list[Entry] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.groups = self._new_shard()

    @property
    def shard(self) -> OffsetShard:
        return self.groups.offsets

    # -- what a runtime does

    def apply(self, decision: Decision[Any, GroupRecord, Any], producer: ProducerIdentity | None = None) -> Any:
        for record in decision.records:
            self._append(record, producer)
        return decision.response

    def apply_all(self, decisions: Iterable[Decision[Any, GroupRecord, Any]]) -> list[Any]:
        return [self.apply(decision) for decision in decisions]

    def write(self, *records: GroupRecord) -> None:
        for record in records:
            self._append(record, None)

    def end(self, producer: ProducerIdentity, *, committed: bool) -> None:
        self.entries.append(Marker(len(self.entries), producer, committed))
        self.groups.replay_marker(producer, committed=committed)

    # -- requests, shortened

    def commit(
        self,
        offset: int,
        partition: int = 0,
        *,
        topic: str = "orders",
        group_id: str = "payments",
        now_ms: int = 0,
        producer: ProducerIdentity | None = None,
        **wishes: Any,
    ) -> ErrorCode:
        offsets = [OffsetToCommit(topic, partition, offset)]
        if producer is None:
            request = CommitRequest(group_id, NO_MEMBER, offsets, api_version=8, **wishes)
            decision = self.shard.commit(request, now_ms=now_ms)
        else:
            request = CommitRequest(group_id, NO_MEMBER, offsets, api_version=3)
            decision = self.shard.commit_transactional(request, producer, now_ms=now_ms)
        (error,) = self.apply(decision, producer).errors
        return ErrorCode(error)

    def commit_in(self, producer: ProducerIdentity, offset: int, partition: int = 0, **where: Any) -> ErrorCode:
        return self.commit(offset, partition, producer=producer, **where)

    def fetch(
        self, partition: int = 0, *, topic: str = "orders", group_id: str = "payments", require_stable: bool = False
    ) -> FetchedOffset:
        wanted = [PartitionToFetch(topic, partition)]
        (fetched,) = self.shard.fetch(group_id, wanted, require_stable=require_stable).response.offsets
        return fetched

    # -- what a restart does

    def loaded(self, entries: Iterable[Entry] | None = None) -> OffsetShard:
        """A second shard, from what is in the log, or from what is left of it."""
        return self._loaded(self.entries if entries is None else entries).offsets

    def restart(self) -> None:
        self.groups = self._loaded(self.entries)

    def _loaded(self, entries: Iterable[Entry]) -> GroupShard:
        groups = self._new_shard()
        for entry in entries:
            if isinstance(entry, Marker):
                groups.replay_marker(entry.producer, committed=entry.committed)
                continue
            record = decode(entry.key, entry.value)
            assert record is not None
            groups.replay(record, entry.offset, entry.producer)
        return groups

    def _new_shard(self) -> GroupShard:
        groups = GroupShard(partition=0, topics=NoTopics)
        groups.offsets = self.shard_class(partition=0, settings=self.settings, groups=groups.directory)
        return groups

    def _append(self, record: GroupRecord, producer: ProducerIdentity | None) -> None:
        written = Written(len(self.entries), *encode(record), producer)
        self.entries.append(written)
        self.groups.replay(record, written.offset, producer)


Seen: TypeAlias = tuple[tuple[FetchedOffset, ...], tuple[FetchedOffset, ...], tuple[OpenTransaction, ...]]


def seen(shard: OffsetShard, group_ids: Iterable[str] = ("payments",)) -> dict[str, Seen]:
    """Everything that can be seen of groups."""
    return {
        group_id: (
            shard.fetch(group_id, None).response.offsets,
            shard.fetch(group_id, None, require_stable=True).response.offsets,
            shard.open_transactions(group_id),
        )
        for group_id in group_ids
    }


def compacted(entries: list[Entry], *, without_tombstones: bool) -> list[Entry]:
    """What the cleaner leaves: below the last stable offset, of each key the last record that was not aborted."""
    outcome = _outcomes(entries)
    undecided = [entry.offset for entry in entries if isinstance(entry, Written) and outcome[entry.offset] is None]
    last_stable_offset = min(undecided, default=len(entries))
    latest: dict[bytes, int] = {}
    for entry in entries[:last_stable_offset]:
        if isinstance(entry, Written) and outcome[entry.offset]:
            latest[entry.key] = entry.offset

    def survives(entry: Entry) -> bool:
        if isinstance(entry, Marker) or entry.offset >= last_stable_offset:
            return True
        return latest.get(entry.key) == entry.offset and not (without_tombstones and entry.value is None)

    return list(filter(survives, entries))


def _outcomes(entries: list[Entry]) -> dict[int, bool | None]:
    """Of each record, whether it counts: not if it was aborted, ``None`` if nothing is decided."""
    outcome: dict[int, bool | None] = {}
    open_offsets: dict[int, list[int]] = {}
    for entry in entries:
        if isinstance(entry, Marker):
            for offset in open_offsets.pop(entry.producer.producer_id, ()):
                outcome[offset] = entry.committed
        elif entry.producer is None:
            outcome[entry.offset] = True
        else:
            outcome[entry.offset] = None
            open_offsets.setdefault(entry.producer.producer_id, []).append(entry.offset)
    return outcome
