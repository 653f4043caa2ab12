"""One partition of ``__consumer_offsets``, as a state machine: the members of groups, and their committed offsets.

    GroupShard
      offsets     committing, reading and removing offsets                  offsets/
      classic     JoinGroup, SyncGroup, Heartbeat, LeaveGroup               classic/
      consumer    ConsumerGroupHeartbeat (KIP-848)                          consumer/

The parts share one ``GroupDirectory``. Handlers decide and change nothing; ``replay``, ``replay_marker`` and ``apply``
change the state and decide nothing. State that ``replay`` changes is a function of the log; state that ``apply``
changes is lost when the shard is unloaded, and the members then send their requests again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from typing import Any, Final

from semel.coordinator.decision import Decision, Deferred, Waiter
from semel.coordinator.group import records
from semel.coordinator.group.classic.group import SIMPLE_GROUP, ClassicGroup
from semel.coordinator.group.classic.groups import ClassicGroups
from semel.coordinator.group.classic.requests import HeartbeatRequest, JoinRequest, LeavingMember, SyncRequest
from semel.coordinator.group.classic.results import HeartbeatResult, JoinResult, LeaveResult, SyncResult
from semel.coordinator.group.consumer.group import ConsumerGroup
from semel.coordinator.group.consumer.groups import ConsumerGroups
from semel.coordinator.group.consumer.requests import ConsumerHeartbeatResult, Heartbeat
from semel.coordinator.group.decisions import GroupDecision
from semel.coordinator.group.descriptions import ClassicDescription, GroupListing, describe_classic
from semel.coordinator.group.directory import Change, DeadlineKey, DiscardDeadline, GroupDirectory
from semel.coordinator.group.member_size import refusal_of_join, refusal_of_sync
from semel.coordinator.group.offsets.offset_results import CommitRequest, CommitResult
from semel.coordinator.group.offsets.offset_shard import OffsetShard
from semel.coordinator.group.records import GroupRecord, OffsetCommit, OffsetTombstone
from semel.coordinator.group.settings import ConsumerSettings, GroupSettings
from semel.coordinator.group.topics import TopicsView
from semel.coordinator.moment import Moment
from semel.errors import ErrorCode
from semel.types import Buffer, ProducerIdentity

# When a deadline is due again if its decision could not be written, for instance because the disk is full.
TIMEOUT_RETRY_MS: Final = 1000


class GroupShard:
    """Implements ``coordinator.shard.Shard``. ``topics`` returns the cluster's topics as they are now.

    ``consumer_settings`` returns the settings of a consumer group, by its group id. Without it ``settings.consumer``
    applies to all of them.
    """

    def __init__(
        self,
        *,
        partition: int,
        settings: GroupSettings | None = None,
        consumer_settings: Callable[[str], ConsumerSettings] | None = None,
        topics: Callable[[], TopicsView],
    ) -> None:
        self.partition = partition
        self._topics = topics
        self.settings = GroupSettings() if settings is None else settings
        self.directory = GroupDirectory()
        self.offsets = OffsetShard(partition=partition, settings=self.settings.offsets, groups=self.directory)
        self.classic = ClassicGroups(self.directory, self.settings.classic)
        of_all = self.settings.consumer
        self.consumer = ConsumerGroups(self.directory, self.settings, consumer_settings or (lambda group_id: of_all))

    # -- deciding

    def join_group(
        self, request: JoinRequest, waiter: Waiter[Any], moment: Moment
    ) -> GroupDecision[JoinResult | Deferred]:
        group = self.directory.groups.get(request.group_id)
        error = refusal_of_join(group, request)
        if error is not ErrorCode.NONE:
            return Decision(JoinResult(error, request.member_id))
        if isinstance(group, ConsumerGroup):
            return self.consumer.classic.join(group, request, waiter, moment, self._topics())
        return self.classic.join(request, waiter, moment)

    def sync_group(
        self, request: SyncRequest, waiter: Waiter[Any], moment: Moment
    ) -> GroupDecision[SyncResult | Deferred]:
        group = self.directory.groups.get(request.group_id)
        if isinstance(group, ConsumerGroup):
            return self.consumer.classic.sync(group, request, moment, self._topics())
        error = refusal_of_sync(request)
        if error is not ErrorCode.NONE:
            return Decision(SyncResult(error))
        return self.classic.sync(request, waiter, moment)

    def heartbeat(self, request: HeartbeatRequest, moment: Moment) -> GroupDecision[HeartbeatResult]:
        group = self.directory.groups.get(request.group_id)
        if isinstance(group, ConsumerGroup):
            return self.consumer.classic.heartbeat(group, request, moment)
        return self.classic.heartbeat(request, moment)

    def leave_group(
        self, group_id: str, leaving: Sequence[LeavingMember], moment: Moment
    ) -> GroupDecision[LeaveResult]:
        group = self.directory.groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            return self.consumer.classic.leave(group, leaving, moment, self._topics())
        return self.classic.leave(group_id, leaving, moment)

    def consumer_group_heartbeat(self, beat: Heartbeat, moment: Moment) -> GroupDecision[ConsumerHeartbeatResult]:
        return self.consumer.heartbeat(beat, topics=self._topics(), moment=moment)

    def commit_offsets(self, request: CommitRequest, moment: Moment) -> GroupDecision[CommitResult]:
        """OffsetCommit. A commit also begins the session of a classic member again, as a heartbeat does."""
        decision = self.offsets.commit(request, now_ms=moment.wall_ms)
        member_id = request.committer.member_id
        if not decision.records or not member_id:
            return decision
        return decision._replace(changes=self.classic.session_restarted(request.group_id, member_id, moment))

    def time_out(self, moment: Moment) -> Iterator[GroupDecision[None]]:
        """Decide what follows from the deadlines of sessions and rebalances that have passed.

        If a decision cannot be written, its deadline is due again after ``TIMEOUT_RETRY_MS``.
        """
        deadlines = self.directory.deadlines
        for key in deadlines.take_due(moment.monotonic_ms):
            deadlines.set(key, moment.monotonic_ms + TIMEOUT_RETRY_MS)
            decision = self._due(key, moment)
            yield decision._replace(changes=(DiscardDeadline(key), *decision.changes))

    def next_deadline_ms(self) -> float | None:
        """When to call ``time_out`` next, on the monotonic clock. It may be too early: then nothing is due yet."""
        return self.directory.deadlines.next_ms()

    def loaded(self, moment: Moment) -> GroupDecision[None]:
        """Decide what follows once the log was replayed: all sessions begin again."""
        changes: list[Change] = []
        for group in self.directory:
            if isinstance(group, ClassicGroup):
                changes += self.classic.loaded(group, moment)
            elif isinstance(group, ConsumerGroup):
                changes += self.consumer.loaded(group, moment)
        return Decision(None, changes=tuple(changes))

    # -- describing

    def describe_classic(self, group_id: str) -> ClassicDescription:
        """DescribeGroups of one group."""
        return describe_classic(group_id, self.offsets.group(group_id))

    def group_ids(self) -> list[str]:
        """The ids of all groups: those that have or had members, and those that only have offsets."""
        return [*self.directory.groups, *self.offsets.simple_groups()]

    def list_groups(
        self,
        group_ids: Iterable[str] | None = None,
        *,
        states: Set[str] = frozenset(),
        types: Set[str] = frozenset(),
    ) -> tuple[GroupListing, ...]:
        """ListGroups: those of ``group_ids`` (``None``: of all groups) that have one of the states and types.

        States and types are in lower case. An empty set excludes nothing.
        """
        known = []
        for group_id in self.group_ids() if group_ids is None else group_ids:
            group = self.directory.groups.get(group_id)
            if group is not None:
                known.append(GroupListing(group_id, group.kind, group.protocol_type, group.state_name))
            elif self.offsets.group(group_id) is not None:
                simple = SIMPLE_GROUP
                known.append(GroupListing(group_id, simple.kind, simple.protocol_type, simple.state_name))
        return tuple(
            listed
            for listed in known
            if (not states or listed.state_name.lower() in states) and (not types or listed.kind in types)
        )

    def waiters(self) -> Iterator[Waiter[Any]]:
        """Yield the deferred requests of all groups."""
        for group in self.directory:
            yield from group.waiters()

    # -- the log

    def encode(self, record: GroupRecord) -> tuple[bytes, bytes | None]:
        return records.encode(record)

    def decode(self, key: Buffer | None, value: Buffer | None) -> GroupRecord | None:
        return records.decode(key, value)

    def id_of(self, record: GroupRecord) -> str:
        return record.key.group_id if isinstance(record, OffsetCommit | OffsetTombstone) else record.group_id

    # -- changing the state

    def replay(self, record: GroupRecord, offset: int, producer: ProducerIdentity | None = None) -> None:
        if isinstance(record, OffsetCommit | OffsetTombstone):
            self.offsets.replay(record, offset, producer)
        else:
            self.directory.replay(record)
            self.offsets.group_changed(record.group_id)

    def replay_marker(self, producer: ProducerIdentity, *, committed: bool) -> None:
        """Change the state by a marker in the log: the transaction's pending offsets are committed or dropped."""
        self.offsets.replay_marker(producer, committed=committed)

    def unload(self) -> list[Waiter[Any]]:
        """Stop using the shard and forget its groups. Returns the deferred requests, which the caller must answer."""
        waiters = list(self.waiters())
        self.directory.groups.clear()
        return waiters

    def apply(self, change: Change) -> None:
        change.apply(self.directory)

    def _due(self, key: DeadlineKey, moment: Moment) -> GroupDecision[None]:
        group = self.directory.groups.get(key.group_id)
        if isinstance(group, ClassicGroup):
            return self.classic.due(group, key, moment)
        if isinstance(group, ConsumerGroup):
            return self.consumer.due(group, key, self._topics(), moment)
        return Decision(None)
