"""What stands in ``__consumer_offsets`` about one group, judged record by record: the log is what has happened.

The laws are those of docs/design/groups.md. Members of these groups write their name beside what they commit plainly.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

from semel.client.assignors import Assignment
from semel.coordinator.group.consumer.records import (
    ConsumerGroupTombstone,
    ConsumerMember,
    CurrentAssignment,
    GroupEpoch,
)
from semel.coordinator.group.formats import Kind
from semel.coordinator.group.records import GroupMetadata, GroupRecord, OffsetCommit, decode
from semel.errors import ErrorCode
from semel.types import CONSUMER_OFFSETS_TOPIC, TopicPartition
from semel.wire.apis import ApiKey
from semel.wire.control import parse_marker
from semel.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from semel.wire.records import BatchHeader, iterate_headers, iterate_records
from tests.simulation.served_broker import Served

REFUSALS_MAX = 120


class GroupLog:
    """Feed it batch by batch; it raises ``AssertionError`` where a law is broken."""

    def __init__(self, group_id: str, *, commits_come_late: bool) -> None:
        self.commits = 0
        self.generations = 0
        self._group_id = group_id
        self._commits_come_late = commits_come_late
        self._epoch = 0
        self._names: dict[str, str] = {}
        """Of members: the instance id, where they have one."""
        self._classic: dict[int, str] = {}
        self._current: dict[str, frozenset[int]] = {}
        self._committed: dict[TopicPartition, int] = {}
        self._pending: dict[int, list[OffsetCommit]] = {}

    def marker(self, producer_id: int, *, committed: bool) -> None:
        for commit in self._pending.pop(producer_id, []):
            if committed:
                self._commit(commit)

    def batch(self, records: list[GroupRecord], producer_id: int | None) -> None:
        for record in records:
            match record:
                case OffsetCommit() if record.key.group_id == self._group_id:
                    if producer_id is None:
                        self._commit_by_its_owner(record)
                    else:
                        self._pending.setdefault(producer_id, []).append(record)
                case OffsetCommit():
                    pass
                case GroupMetadata(group_id=self._group_id):
                    self._rebalanced(record)
                case GroupEpoch(group_id=self._group_id):
                    self._advance(record.epoch)
                    self._classic = {}
                case ConsumerMember(group_id=self._group_id):
                    self._names[record.member_id] = record.instance_id or record.member_id
                case CurrentAssignment(group_id=self._group_id):
                    self._current[record.member_id] = frozenset(owned.partition for owned in record.owned)
                case ConsumerGroupTombstone(group_id=self._group_id, name=str(name)):
                    if record.kind is Kind.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT:
                        self._current.pop(name, None)
        owned = [partition for partitions in self._current.values() for partition in partitions]
        assert len(owned) == len(set(owned)), f"law 3: a partition has two owners: {self._current}"

    def _advance(self, epoch: int) -> None:
        assert epoch >= self._epoch, f"law 1: generation {self._epoch} is followed by {epoch}"
        self.generations += epoch > self._epoch
        self._epoch = epoch

    def _rebalanced(self, group: GroupMetadata) -> None:
        self._advance(group.generation)
        self._names.update({member.member_id: member.instance_id or member.member_id for member in group.members})
        owners: dict[int, str] = {}
        for member in group.members:
            for partition in Assignment.from_bytes(member.assignment).partitions if member.assignment else ():
                other = owners.setdefault(partition.partition, member.member_id)
                assert other == member.member_id, f"law 2: {partition} is assigned to {other} and {member.member_id}"
        self._classic = owners

    def _commit_by_its_owner(self, commit: OffsetCommit) -> None:
        owner = self._owner(commit.key.partition)
        # What nobody owns is about to change hands: a member may still commit what it gives up.
        is_allowed = not commit.metadata or owner is None or owner == commit.metadata
        assert is_allowed, f"law 4: {commit.metadata} commits {commit.key}, which belongs to {owner}"
        self._commit(commit)

    def _owner(self, partition: int) -> str | None:
        members = [member_id for member_id, owned in self._current.items() if partition in owned]
        member_id = members[0] if members else self._classic.get(partition)
        return None if member_id is None else self._names.get(member_id, member_id)

    def _commit(self, commit: OffsetCommit) -> None:
        partition = TopicPartition(commit.key.topic, commit.key.partition)
        before = 0 if self._commits_come_late else self._committed.get(partition, 0)
        assert commit.offset >= before, f"the committed offset of {partition} goes back: {before}, {commit.offset}"
        self._committed[partition] = commit.offset
        self.commits += 1


async def check_group_log(served: Served, group_id: str, *, commits_come_late: bool) -> GroupLog:
    """All partitions of the topic: the group's records are in one of them."""
    log = GroupLog(group_id, commits_come_late=commits_come_late)
    for index in range(served.offsets_partitions):
        async for header, records, position in _batches(served, index):
            if header.is_control:
                marker = parse_marker(records, position)
                if marker is not None:
                    log.marker(header.producer_id, committed=marker.committed)
            else:
                log.batch(list(_decoded(records, position)), header.producer_id if header.is_transactional else None)
    return log


def _decoded(records: bytes, position: int) -> Iterator[GroupRecord]:
    for record in iterate_records(records, position):
        found = decode(record.key, record.value)
        if found is not None:
            yield found


async def _batches(served: Served, index: int) -> AsyncIterator[tuple[BatchHeader, bytes, int]]:
    """Also while a broker that is on its way up is given its place: then another one leads, or the same one later."""
    offset, refusals = 0, 0
    while True:
        client = served.leader_of(TopicPartition(CONSUMER_OFFSETS_TOPIC, index))
        target = FetchPartition(index, fetch_offset=offset, partition_max_bytes=100_000)
        topics = [FetchTopic(topic=CONSUMER_OFFSETS_TOPIC, partitions=[target])]
        answer = await client.call(ApiKey.FETCH, 11, FetchRequest(max_wait_ms=0, min_bytes=0, topics=topics))
        found = answer.responses[0].partitions[0]
        if found.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER and refusals < REFUSALS_MAX:
            refusals += 1
            await asyncio.sleep(0.5)
            continue
        assert found.error_code == ErrorCode.NONE, ErrorCode(found.error_code).name
        headers = list(iterate_headers(found.records or b"", allow_partial_tail=True))
        if not headers:
            return
        for position, header in headers:
            yield header, found.records, position
            offset = header.next_offset
