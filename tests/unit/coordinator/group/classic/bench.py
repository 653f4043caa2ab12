"""A group shard, its log and a clock: what the runtime does with decisions, in memory and in virtual time.

Every request is kept with its answer, or without one while it is deferred. After every step the laws that hold at any
time are checked (``laws``).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from semel.coordinator.decision import Deferred, Waiter
from semel.coordinator.group.classic.group import ClassicGroup
from semel.coordinator.group.classic.requests import (
    HeartbeatRequest,
    JoinRequest,
    LeavingMember,
    OfferedProtocol,
    SyncRequest,
)
from semel.coordinator.group.classic.results import JoinResult, LeaveResult, SyncResult
from semel.coordinator.group.decisions import GroupDecision
from semel.coordinator.group.membership import Committer
from semel.coordinator.group.offsets.offset_results import CommitRequest, OffsetToCommit
from semel.coordinator.group.records import GroupRecord, decode, encode
from semel.coordinator.group.settings import ClassicSettings, GroupSettings, OffsetSettings
from semel.coordinator.group.shard import GroupShard
from semel.coordinator.moment import Moment
from semel.errors import ErrorCode
from semel.wire.messages.consumer_protocol import ConsumerProtocolSubscription, encode_subscription
from tests.unit.coordinator.group.no_topics import NoTopics

SESSION_MS = 10_000
REBALANCE_MS = 60_000
INITIAL_DELAY_MS = 3_000


@dataclass(eq=False)
class Asked:
    """A request, and what was answered."""

    request: Any
    answer: Any = None

    @property
    def waiter(self) -> Waiter[Any]:
        return Waiter(self.tell, refused=_refused)

    def tell(self, answer: Any) -> None:
        assert self.answer is None, f"answered twice: {self.answer} and {answer}"
        self.answer = answer

    @property
    def error(self) -> ErrorCode:
        assert self.answer is not None, "still waiting"
        return self.answer if isinstance(self.answer, ErrorCode) else ErrorCode(self.answer.error)


def _refused(error: ErrorCode) -> ErrorCode:
    return error


def offers(*names: str, topics: Iterable[str] = ("orders",)) -> tuple[OfferedProtocol, ...]:
    metadata = encode_subscription(ConsumerProtocolSubscription(topics=list(topics)))
    return tuple(OfferedProtocol(name, metadata) for name in names)


@dataclass
class Bench:
    size_max: int = 1000
    retention_ms: int = 60_000
    shard_class: type[GroupShard] = GroupShard
    now_ms: int = 1_000_000
    entries: list[tuple[bytes, bytes | None]] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)
    disk_is_full: bool = False
    group_id: str = "payments"

    def __post_init__(self) -> None:
        self._ids = 0
        self.shard = self._new_shard()

    # -- what members say

    def join(
        self,
        member_id: str = "",
        *,
        instance_id: str | None = None,
        protocols: tuple[OfferedProtocol, ...] | None = None,
        protocol_type: str = "consumer",
        session_timeout_ms: int = SESSION_MS,
        rebalance_timeout_ms: int = REBALANCE_MS,
        version: int = 9,
        group_id: str | None = None,
    ) -> Asked:
        self._ids += 1
        request = JoinRequest(
            group_id=self.group_id if group_id is None else group_id,
            member_id=member_id,
            instance_id=instance_id,
            client_id="client",
            client_host="/10.0.0.1",
            session_timeout_ms=session_timeout_ms,
            rebalance_timeout_ms=rebalance_timeout_ms,
            protocol_type=protocol_type,
            protocols=offers("range") if protocols is None else protocols,
            uuid=UUID(int=self._ids),
            knows_required_id=version >= 4,
            knows_skipped_assignment=version >= 9,
        )
        asked = Asked(request)
        return self._put(asked, self.shard.join_group(request, asked.waiter, self.moment))

    def sync(
        self,
        member_id: str,
        generation: int,
        assignments: dict[str, bytes] | None = None,
        *,
        instance_id: str | None = None,
        protocol_type: str | None = None,
        protocol: str | None = None,
    ) -> Asked:
        request = SyncRequest(
            self.group_id,
            member_id,
            instance_id,
            generation,
            protocol_type,
            protocol,
            tuple((assignments or {}).items()),
        )
        asked = Asked(request)
        return self._put(asked, self.shard.sync_group(request, asked.waiter, self.moment))

    def heartbeat(self, member_id: str, generation: int, *, instance_id: str | None = None) -> ErrorCode:
        request = HeartbeatRequest(self.group_id, member_id, instance_id, generation)
        return self._put(Asked(request), self.shard.heartbeat(request, self.moment)).error

    def leave(self, *leaving: str | tuple[str, str | None]) -> LeaveResult:
        members = [LeavingMember(one) if isinstance(one, str) else LeavingMember(*one) for one in leaving]
        asked = self._put(Asked(members), self.shard.leave_group(self.group_id, members, self.moment))
        return asked.answer if isinstance(asked.answer, LeaveResult) else LeaveResult(asked.error)

    def commit(self, generation: int | None, member_id: str = "", instance_id: str | None = None) -> ErrorCode:
        committer = Committer(member_id, generation, instance_id)
        request = CommitRequest(self.group_id, committer, [OffsetToCommit("orders", 0, 7)], api_version=8)
        decision = self.shard.commit_offsets(request, self.moment)
        answer = self._put(Asked("commit"), decision).answer
        return answer if isinstance(answer, ErrorCode) else ErrorCode(*answer.errors)

    # -- shortened

    def join_v3(self, **wishes: Any) -> Asked:
        """A new member that is let in without being told its id first."""
        return self.join(version=3, **wishes)

    def form(self, count: int = 2, **wishes: Any) -> list[str]:
        """A stable group of so many members; the first leads. Returns their ids."""
        joins = [self.join_v3(**wishes) for _ in range(count)]
        while any(join.answer is None for join in joins):
            self.pass_ms(INITIAL_DELAY_MS)
        ids = [joined(join).member_id for join in joins]
        self.settle(ids)
        return ids

    def settle(self, ids: list[str], *, instances: dict[str, str] | None = None) -> None:
        """All ask for their assignments; the leader assigns everybody his own id."""
        instances = instances or {}
        syncs = [
            self.sync(one, self.group.generation, instance_id=instances.get(one)) for one in ids if one != self.leader
        ]
        assignments = {one: one.encode() for one in self.group.members}
        syncs.append(self.sync(self.leader, self.group.generation, assignments, instance_id=instances.get(self.leader)))
        assert all(one.error is ErrorCode.NONE for one in syncs)

    # -- what is there

    @property
    def group(self) -> ClassicGroup:
        group = self.shard.directory.groups[self.group_id]
        assert isinstance(group, ClassicGroup)
        return group

    @property
    def leader(self) -> str:
        assert self.group.leader is not None
        return self.group.leader

    @property
    def state(self) -> str:
        return self.shard.describe_classic(self.group_id).state_name

    @property
    def moment(self) -> Moment:
        return Moment(self.now_ms, self.now_ms - 500_000)

    # -- what a runtime does

    def pass_ms(self, duration_ms: int) -> None:
        """Time goes by, and the shard is asked at each of its deadlines."""
        until_ms = self.now_ms + duration_ms
        while True:
            due_ms = self.shard.next_deadline_ms()
            due_wall_ms = None if due_ms is None else due_ms + 500_000
            if due_wall_ms is None or due_wall_ms > until_ms:
                break
            self.now_ms = max(self.now_ms, int(due_wall_ms))
            for decision in self.shard.time_out(self.moment):
                self._carry_through(decision)
        self.now_ms = until_ms

    def restart(self) -> None:
        """The coordinator is lost, those who wait are told, and the log is replayed."""
        for waiter in list(self.shard.waiters()):
            waiter.refuse(ErrorCode.NOT_COORDINATOR)
        self.shard = self._new_shard()
        for offset, (key, value) in enumerate(self.entries):
            record = decode(key, value)
            assert record is not None
            self.shard.replay(record, offset=offset)
        self._carry_through(self.shard.loaded(self.moment))

    @property
    def waiting(self) -> list[Asked]:
        return [asked for asked in self.asked if asked.answer is None]

    def _put(self, asked: Asked, decision: GroupDecision[Any]) -> Asked:
        self.asked.append(asked)
        if not self._carry_through(decision):
            asked.tell(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        elif not isinstance(decision.response, Deferred):
            asked.tell(decision.response)
        return asked

    def _carry_through(self, decision: GroupDecision[Any]) -> bool:
        if decision.records and self.disk_is_full:
            return False
        for record in decision.records:
            self._append(record)
        for change in decision.changes:
            self.shard.apply(change)
        for answer in decision.answers:
            answer.waiter.respond(answer.response)
        return True

    def _append(self, record: GroupRecord) -> None:
        key, value = encode(record)
        self.entries.append((key, value))
        read_back = decode(key, value)
        assert read_back is not None
        self.shard.replay(read_back, offset=len(self.entries) - 1)

    def _new_shard(self) -> GroupShard:
        settings = GroupSettings(
            offsets=OffsetSettings(retention_ms=self.retention_ms),
            classic=ClassicSettings(initial_rebalance_delay_ms=INITIAL_DELAY_MS, size_max=self.size_max),
        )
        return self.shard_class(partition=0, settings=settings, topics=NoTopics)


def joined(asked: Asked) -> JoinResult:
    assert isinstance(asked.answer, JoinResult)
    assert asked.answer.error is ErrorCode.NONE, asked.answer
    return asked.answer


def synced(asked: Asked) -> SyncResult:
    assert isinstance(asked.answer, SyncResult)
    assert asked.answer.error is ErrorCode.NONE, asked.answer
    return asked.answer
