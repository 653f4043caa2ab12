"""The offset shard against its law: what it remembers is a function of the log, and of nothing else.

Random commits, transactional commits, markers, sweeps and deletions interleave. After every one of them the shard is
compared with what the log means (``tests.unit.coordinator.group.offsets.meaning``) and with shards that load it,
compacted or not; every sweep and deletion is compared with what it should remove.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any
from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from semel.coordinator.group.decisions import GroupDecision
from semel.coordinator.group.membership import NO_MEMBER, Committer
from semel.coordinator.group.offsets.offset_results import CommitRequest, OffsetToCommit
from semel.coordinator.group.records import (
    GroupMetadata,
    GroupRecord,
    GroupTombstone,
    Member,
    OffsetCommit,
    OffsetKey,
    OffsetTombstone,
    decode,
    encode,
)
from semel.coordinator.group.settings import OffsetSettings
from semel.errors import ErrorCode
from semel.types import INT64_MAX, ProducerIdentity, TopicPartition
from tests.unit.coordinator.group.offsets.meaning import committed_in, groups_in, pending_in, restarted, verify
from tests.unit.coordinator.group.offsets.offset_log import OffsetLog

RETENTION_MS = 100
FOR_EVER_MS = 10**9

GROUPS = ("audit", "payments")
TOPICS = ("orders", "refunds")
PARTITIONS = (0, 1)
SPANS_MS = (1, 10, RETENTION_MS // 2, RETENTION_MS)
PRODUCERS = (ProducerIdentity(1000, 0), ProducerIdentity(2000, 5))
TOPIC_IDS = (None, UUID(int=1), UUID(int=2))
MEMBER = Member("m-1", None, "client", "/127.0.0.1", 300_000, 45_000, b"", b"")

groups = st.sampled_from(GROUPS)
# Mostly the first: interleavings of two things on one partition are what breaks.
topics = st.sampled_from((*TOPICS, TOPICS[0], TOPICS[0]))
partitions = st.sampled_from((*PARTITIONS, PARTITIONS[0], PARTITIONS[0]))
producers = st.sampled_from(PRODUCERS)
topic_ids = st.sampled_from(TOPIC_IDS)
offsets = st.integers(0, 99)


class OffsetsOfALog(RuleBasedStateMachine):
    @initialize()
    def start(self) -> None:
        self.log = OffsetLog(OffsetSettings(retention_ms=RETENTION_MS, metadata_size_max=3))
        self.now_ms = 1000

    # -- what happens

    @rule(
        group_id=groups,
        topic=topics,
        partition=partitions,
        offset=offsets,
        topic_id=topic_ids,
        leader_epoch=st.sampled_from((None, 7)),
        metadata=st.sampled_from((None, "", "abc", "abcd")),
        retention_ms=st.sampled_from((None, 10, 3 * RETENTION_MS)),
    )
    def commit(
        self,
        group_id: str,
        topic: str,
        partition: int,
        offset: int,
        topic_id: UUID | None,
        leader_epoch: int | None,
        metadata: str | None,
        retention_ms: int | None,
    ) -> None:
        wanted = OffsetToCommit(topic, partition, offset, leader_epoch, metadata, topic_id)
        request = CommitRequest(group_id, self._committer(group_id), [wanted], 9, retention_ms)
        decision = self.log.shard.commit(request, now_ms=self.now_ms)
        too_large = metadata == "abcd"
        assert decision.response.errors == (ErrorCode.OFFSET_METADATA_TOO_LARGE if too_large else ErrorCode.NONE,)
        self.log.apply(decision)

    @rule(
        producer=producers,
        group_id=groups,
        topic=topics,
        touched=st.lists(partitions, min_size=1, max_size=2),
        offset=offsets,
        topic_id=topic_ids,
    )
    def commit_in_a_transaction(
        self,
        producer: ProducerIdentity,
        group_id: str,
        topic: str,
        touched: list[int],
        offset: int,
        topic_id: UUID | None,
    ) -> None:
        wanted = [OffsetToCommit(topic, partition, offset, topic_id=topic_id) for partition in touched]
        request = CommitRequest(group_id, self._committer(group_id), wanted, api_version=5)
        decision = self.log.shard.commit_transactional(request, producer, now_ms=self.now_ms)
        assert decision.response.errors == (ErrorCode.NONE,) * len(touched)
        self.log.apply(decision, producer)

    @rule(producer=producers, committed=st.booleans(), raised=st.booleans())
    def end_a_transaction(self, producer: ProducerIdentity, committed: bool, raised: bool) -> None:
        self.log.end(producer._replace(producer_epoch=producer.producer_epoch + raised), committed=committed)

    @rule(kind=st.sampled_from(("offsets", "group", "topic")), group_id=groups, topic=topics, topic_id=topic_ids)
    def delete(self, kind: str, group_id: str, topic: str, topic_id: UUID | None) -> None:
        shard, gone = self.log.shard, set(self._tombstones(group_id))
        match kind:
            case "offsets":
                gone = {tombstone for tombstone in gone if tombstone.key.topic == topic}
                decisions = [shard.delete_offsets(group_id, [TopicPartition(topic, number) for number in PARTITIONS])]
            case "group":
                decisions = [shard.delete_group(group_id)]
            case "topic":
                gone = set(self._tombstones_of_topic(topic, topic_id))
                decisions = list(shard.delete_topic(topic, topic_id))
        tombstones = [record for record in _records(decisions) if isinstance(record, OffsetTombstone)]
        assert len(tombstones) == len(set(tombstones))
        assert set(tombstones) == (set() if kind != "topic" and self._has_members(group_id) else gone)
        self.log.apply_all(decisions)

    @rule(group_id=groups, with_member=st.sampled_from((False, False, True)), is_dated=st.booleans())
    def members_change(self, group_id: str, with_member: bool, is_dated: bool) -> None:
        members = (MEMBER,) if with_member else ()
        self.log.write(GroupMetadata(group_id, "consumer", 1, None, None, self.now_ms if is_dated else None, members))

    @rule(group_id=groups)
    def members_are_forgotten(self, group_id: str) -> None:
        self.log.write(GroupTombstone(group_id))

    @rule(passed_ms=st.sampled_from(SPANS_MS), is_written=st.booleans())
    def sweep(self, passed_ms: int, is_written: bool) -> None:
        self.now_ms += passed_ms
        decisions = self.log.shard.expire(self.now_ms)
        swept = _records(decisions)
        assert len(swept) == len(set(swept))
        assert set(swept) == set(self._expired())
        if is_written:
            self.log.apply_all(decisions)

    @precondition(lambda self: len(self.log.entries) > 0)
    @rule()
    def restart(self) -> None:
        self.log.restart()

    # -- what must be true

    @invariant()
    def the_shard_has_understood_the_log(self) -> None:
        verify(self.log, GROUPS)

    def teardown(self) -> None:
        """Transactions end and everything expires, live as after a restart."""
        self.log.end(PRODUCERS[0], committed=True)
        self.log.end(PRODUCERS[1], committed=False)
        swept = _records(self.log.shard.expire(FOR_EVER_MS))
        for shard in restarted(self.log):
            assert set(_records(shard.expire(FOR_EVER_MS))) == set(swept)

    # -- what should happen

    def _has_members(self, group_id: str) -> bool:
        group = groups_in(self.log.entries).get(group_id)
        return group is not None and bool(group.members)

    def _committer(self, group_id: str) -> Committer:
        return Committer(MEMBER.member_id, 1) if self._has_members(group_id) else NO_MEMBER

    def _tombstones(self, group_id: str) -> Iterator[OffsetTombstone]:
        return (
            OffsetTombstone(key)
            for key in {*committed_in(self.log.entries), *pending_in(self.log.entries)}
            if key.group_id == group_id
        )

    def _expired(self) -> Iterator[GroupRecord]:
        committed, pending, known = (
            committed_in(self.log.entries),
            pending_in(self.log.entries),
            groups_in(self.log.entries),
        )
        left = {key.group_id for key in pending}
        for key, commit in committed.items():
            group = known.get(key.group_id)
            if group is not None and group.members:
                left.add(key.group_id)
                continue
            since_ms = commit.committed_ms
            if group is not None and group.state_changed_ms is not None:
                since_ms = group.state_changed_ms
            expires_ms = since_ms + RETENTION_MS if commit.expires_ms is None else commit.expires_ms
            if expires_ms <= self.now_ms and key not in pending:
                yield OffsetTombstone(key)
            else:
                left.add(key.group_id)
        for group_id, group in known.items():
            if group_id not in left and not group.members:
                yield GroupTombstone(group_id)

    def _tombstones_of_topic(self, topic: str, topic_id: UUID | None) -> Iterator[OffsetTombstone]:
        committed, pending = committed_in(self.log.entries), pending_in(self.log.entries)
        for key in {*committed, *pending}:
            stored = [*pending.get(key, ()), *([committed[key]] if key in committed else ())]
            ids = {commit.topic_id for commit in stored} - {None}
            if key.topic == topic and (topic_id is None or ids <= {topic_id}):
                yield OffsetTombstone(key)


OffsetsOfALog.TestCase.settings = settings(max_examples=60, stateful_step_count=40)
TestOffsetsOfALog = OffsetsOfALog.TestCase


def _records(decisions: Sequence[GroupDecision[Any]]) -> list[GroupRecord]:
    return [record for decision in decisions for record in decision.records]


texts = st.text(st.characters(codec="utf-8"), max_size=20)
timestamps = st.integers(0, INT64_MAX)
commits = st.builds(
    OffsetCommit,
    key=st.builds(OffsetKey, texts, texts, st.integers(0, 2**31 - 1)),
    offset=st.integers(-(2**63), INT64_MAX),
    leader_epoch=st.none() | st.integers(0, 2**31 - 1),
    metadata=texts,
    committed_ms=timestamps,
    topic_id=st.none() | st.uuids(),
)
members = st.builds(
    Member,
    member_id=texts,
    instance_id=st.none() | texts,
    client_id=texts,
    client_host=texts,
    rebalance_timeout_ms=st.none() | st.integers(0, 2**31 - 1),
    session_timeout_ms=st.integers(0, 2**31 - 1),
    subscription=st.binary(max_size=20),
    assignment=st.binary(max_size=20),
)
group_metadata = st.builds(
    GroupMetadata,
    group_id=texts,
    protocol_type=texts,
    generation=st.integers(-(2**31), 2**31 - 1),
    protocol=st.none() | texts,
    leader=st.none() | texts,
    state_changed_ms=st.none() | timestamps,
    members=st.lists(members, max_size=3).map(tuple),
)


@given(commits, st.none() | timestamps)
def test_an_offset_is_read_back_as_it_was_written(commit: OffsetCommit, expires_ms: int | None) -> None:
    record = commit if expires_ms is None else commit.expiring(expires_ms)

    assert decode(*encode(record)) == record
    assert decode(*encode(OffsetTombstone(commit.key))) == OffsetTombstone(commit.key)


@given(group_metadata)
def test_a_group_is_read_back_as_it_was_written(group: GroupMetadata) -> None:
    assert decode(*encode(group)) == group
    assert decode(*encode(GroupTombstone(group.group_id))) == GroupTombstone(group.group_id)
