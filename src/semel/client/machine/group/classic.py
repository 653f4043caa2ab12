"""A member of a classic group: it joins, one member assigns the partitions, every member receives its part.

    OUT --prepared--> JOINING --JoinGroup answered--> (leader: ASSIGNING -->) SYNCING --SyncGroup answered--> STABLE
     ^                   ^                                                                                      |
     |                   +--prepared-- PREPARING <--- the group rebalances, or what is wanted has changed ------+
     +--- the group went on without this member, it left, or its application did not poll for too long

A member is prepared when it has revoked what must be revoked before joining: all partitions in the eager protocol,
those of topics that it no longer subscribes to in the cooperative one. The laws: an assignment counts only in the
generation that this member is in; and JoinGroup is sent only while the application polls, because nothing else would
read the partitions that it brings.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any, Final

from semel.client.assignors import Assignment, Assignor, RebalanceProtocol, common_protocol
from semel.client.machine.connection.connections import MEMBERSHIP
from semel.client.machine.connection.promise import Promise, fulfilled
from semel.client.machine.group.classic_requests import Build, join_request, leave_request, sync_request
from semel.client.machine.group.heartbeats import Heartbeats
from semel.client.machine.group.leadership import Leadership
from semel.client.machine.group.member_context import MemberContext
from semel.client.machine.group.membership import GroupMembership
from semel.client.machine.group.reactions import Reaction, reaction_to
from semel.client.machine.group.subscription import TopicSubscription
from semel.client.values import GroupMetadata
from semel.clock import NEVER
from semel.errors import DecodeError, ErrorCode, Family, KafkaError, client_error, named
from semel.types import TopicPartition
from semel.wire.apis import ApiKey
from semel.wire.messages.join_group import JoinGroupResponse
from semel.wire.messages.sync_group import SyncGroupRequestAssignment

log = logging.getLogger(__name__)

_INSTANCE_IDS_SINCE: Final = {ApiKey.JOIN_GROUP: 5, ApiKey.SYNC_GROUP: 3}
_JOIN_GRACE_MS: Final = 5_000


class ClassicMemberState(Enum):
    OUT = "out"
    PREPARING = "preparing"
    JOINING = "joining"
    ASSIGNING = "assigning"
    SYNCING = "syncing"
    STABLE = "stable"


_HEARTBEATS: Final = frozenset({ClassicMemberState.STABLE, ClassicMemberState.PREPARING})


class ClassicMembership(GroupMembership):
    def __init__(self, context: MemberContext, assignors: Sequence[Assignor]) -> None:
        super().__init__(context)
        self._assignors = {assignor.name: assignor for assignor in assignors}
        self._is_cooperative = common_protocol(assignors) is RebalanceProtocol.COOPERATIVE
        self._matched: tuple[object, tuple[str, ...]] = None, ()
        """The metadata and the subscription that the topics were computed from, and the topics that match."""
        self._joined_topics: tuple[str, ...] = ()
        self.state = ClassicMemberState.OUT
        self._assignor_name = ""
        self._is_prepared = False
        self._join_reason: str | None = None
        self._leadership: Leadership | None = None
        self._assignments: list[SyncGroupRequestAssignment] = []
        self._heartbeats = Heartbeats(context, refused=self._heartbeat_refused)

    # What the consumer calls

    def subscribe(self, subscription: TopicSubscription) -> None:
        changed = self._subscription != subscription
        super().subscribe(subscription)
        if changed and self.state is not ClassicMemberState.OUT:
            self._join_again("the subscription was changed")

    def awaits_generation(self) -> bool:
        return self.state is ClassicMemberState.JOINING

    @property
    def ownership_version(self) -> object:
        """The generation of this member.

        The coordinator of a KIP-848 group may take a member that it has removed, and that joins late, for a new one.
        The member then gets a generation like any other, but other members have had its partitions in between.
        """
        return self._generation_id

    @property
    def topics(self) -> tuple[str, ...]:
        return self._wanted_topics() + (() if self._leadership is None else self._leadership.topics)

    def react(self, reaction: Reaction, error: KafkaError, now_ms: float) -> None:
        if reaction is Reaction.JOIN:
            self._join_again("a commit met a rebalance")
        super().react(reaction, error, now_ms)
        if reaction is Reaction.LOSE_MEMBERSHIP:
            self._member_id = ""

    # What the driver calls

    @property
    def _is_out(self) -> bool:
        return self.state is ClassicMemberState.OUT

    def _poll(self, now_ms: float) -> None:
        self._look_at_metadata()
        if self.state is ClassicMemberState.STABLE and self._join_reason is not None:
            self.state = ClassicMemberState.PREPARING
        if self.state in (ClassicMemberState.OUT, ClassicMemberState.PREPARING):
            self._prepare()
            is_ready = self._is_prepared and not self._reassignment.is_busy
            if is_ready and self._may_ask(now_ms) and self._poll_liveness.is_alive(now_ms):
                self._join(now_ms)
        if self.state is ClassicMemberState.ASSIGNING:
            self._assign(now_ms)
        if self.state is ClassicMemberState.SYNCING and self._may_ask(now_ms):
            self._sync(now_ms)
        if self.state in _HEARTBEATS and self._generation_id is not None:
            self._heartbeats.poll(self.metadata(), now_ms)

    def next_deadline_ms(self, now_ms: float) -> float:
        deadlines = [self._poll_liveness.next_deadline_ms(now_ms)] if self.state is not ClassicMemberState.OUT else []
        if not self._asking:
            deadlines.append(self._retry.next_deadline_ms(now_ms))
        if self.state in _HEARTBEATS:
            deadlines.append(self._heartbeats.next_deadline_ms(now_ms))
        return min(deadlines, default=NEVER)

    # Joining

    def _wanted_topics(self) -> tuple[str, ...]:
        seen = self._metadata.updates, self._subscription
        if self._matched[0] != seen:
            wanted = self._subscription or TopicSubscription()
            view, exclude_internal = self._metadata.view, self._config.exclude_internal_topics
            self._matched = seen, wanted.matching(view, exclude_internal=exclude_internal)
        return self._matched[1]

    def _look_at_metadata(self) -> None:
        """Join again if the subscribed topics, or the partitions of the group's topics, have changed since joining."""
        if self.state is not ClassicMemberState.STABLE or self._join_reason is not None:
            return
        if self._wanted_topics() != self._joined_topics:
            self._join_again("the topics that are subscribed to have changed")
        elif self._leadership is not None and self._leadership.is_outdated(self._metadata.view):
            self._join_again("topics of the group, or their partitions, have changed")

    def _join_again(self, reason: str) -> None:
        if self._join_reason is None:
            log.info("group %r: %s joins again: %s", self._coordinator.group_id, self._member_id, reason)
            self._join_reason = reason

    def _prepare(self) -> None:
        if self._is_prepared or self._reassignment.is_busy:
            return
        wanted = set(self._wanted_topics()) if self._is_cooperative else set()
        unwanted = [partition for partition in self._reassignment.owned if partition.topic not in wanted]
        if unwanted:
            self._reassignment.give_up(unwanted, done=self._prepared)
        else:
            self._is_prepared = True

    def _prepared(self, now_ms: float) -> None:
        self._is_prepared = True

    def _join(self, now_ms: float) -> None:
        topics = self._wanted_topics()
        assignors, owned = self._assignors.values(), self._reassignment.owned
        build = join_request(self._config, self.metadata(), assignors, topics, owned, self._join_reason or "")
        if self._ask_group(ApiKey.JOIN_GROUP, build, self._on_join, now_ms):
            self.state = ClassicMemberState.JOINING
            self._join_reason = None
            self._joined_topics = topics

    def _on_join(self, response: JoinGroupResponse, now_ms: float) -> None:
        code = response.error_code
        if code == ErrorCode.MEMBER_ID_REQUIRED:
            self._member_id = response.member_id
            self.state = ClassicMemberState.OUT
            return
        if code != ErrorCode.NONE:
            self._refused(ApiKey.JOIN_GROUP, code, now_ms)
            return
        self._retry = self._retry.succeeded()
        self._member_id, self._generation_id = response.member_id, response.generation_id
        self._assignor_name = response.protocol_name or ""
        self._assignments, self._leadership = [], None
        if self._assignor_name not in self._assignors:
            text = f"the group uses the assignor {self._assignor_name!r}, which this member does not offer"
            self._fail(client_error(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, text, Family.FATAL), now_ms)
            return
        self.state = ClassicMemberState.SYNCING
        if response.leader != response.member_id:
            return
        try:
            self._leadership = Leadership.of(response)
        except DecodeError as error:
            text = f"the group {self._coordinator.group_id!r} has members whose subscription cannot be read: {error}"
            self._fail(client_error(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, text, Family.FATAL), now_ms)
            return
        if response.skip_assignment:
            # A static leader that came back (KIP-814): the assignment is kept, and only changes of topics are watched
            # for.
            self._leadership.watch(self._metadata.view)
        else:
            self.state = ClassicMemberState.ASSIGNING

    # The assignment

    def _assign(self, now_ms: float) -> None:
        """Compute the assignment, as the leader, once every topic of the group is known."""
        assert self._leadership is not None
        view = self._metadata.view
        if not self.wants_all_topics and not self._leadership.knows_topics(view):
            return
        try:
            self._assignments = self._leadership.assign(self._assignors[self._assignor_name], view)
        except Exception as error:  # An application's own assignor: no exception may end the driver.
            self._assignor_failed(error, now_ms)
            return
        self.state = ClassicMemberState.SYNCING

    def _assignor_failed(self, error: Exception, now_ms: float) -> None:
        text = f"the assignor {self._assignor_name!r} of group {self._coordinator.group_id!r} failed: {error!r}"
        failure = client_error(ErrorCode.UNKNOWN_SERVER_ERROR, text, Family.FATAL)
        failure.__cause__ = error
        self._leave("its assignor failed", now_ms)
        self._fail(failure, now_ms)

    def _sync(self, now_ms: float) -> None:
        build = sync_request(self.metadata(), self._assignor_name, self._assignments)
        self._ask_group(ApiKey.SYNC_GROUP, build, self._on_sync, now_ms)

    def _on_sync(self, response: Any, now_ms: float) -> None:
        if response.error_code != ErrorCode.NONE:
            self._refused(ApiKey.SYNC_GROUP, response.error_code, now_ms)
            return
        self._retry = self._retry.succeeded()
        self._is_prepared = False
        self.state = ClassicMemberState.STABLE
        self._heartbeats.begin(now_ms)
        assert self._generation_id is not None
        try:
            assignment = Assignment.from_bytes(response.assignment)
            self._assignors[self._assignor_name].on_assignment(assignment, self._generation_id)
        except Exception as error:
            self._assignor_failed(error, now_ms)
            return
        log.info(
            "group %r: generation %d assigns %d partitions to %s",
            self._coordinator.group_id,
            self._generation_id,
            len(assignment.partitions),
            self._member_id,
        )
        self._reconcile(assignment.partitions)

    def _reconcile(self, assigned: Sequence[TopicPartition]) -> None:
        owned = set(self._reassignment.owned)
        withdrawn = owned.difference(assigned)
        if withdrawn:
            # They are for other members, which get them only after this member has joined again without them.
            self._reassignment.give_up(withdrawn, done=lambda now_ms: self._join_again("partitions were given up"))
        self._reassignment.take_over([p for p in assigned if p not in owned], done=lambda now_ms: None)

    def _heartbeat_refused(self, member: GroupMetadata, code: int, now_ms: float) -> None:
        if member != self.metadata() or self.state not in _HEARTBEATS:
            return  # It was sent in a generation that has ended.
        if code == ErrorCode.REBALANCE_IN_PROGRESS:
            self._join_again("the group rebalances")
        else:
            self._refused(ApiKey.HEARTBEAT, code, now_ms)

    # Leaving

    def _leave(self, reason: str, now_ms: float) -> Promise[None]:
        member = self.metadata()
        self._reset()
        self._member_id = ""
        # A static member does not leave: its partitions wait for it to come back, until its session times out.
        if not member.member_id or member.group_instance_id is not None:
            return fulfilled()
        return self._send_leave(ApiKey.LEAVE_GROUP, leave_request(member, reason), now_ms)

    # What went wrong

    def _refused(self, api_key: ApiKey, code: int, now_ms: float) -> None:
        text = f"{api_key.name} of group {self._coordinator.group_id!r} was answered {named(code).name}"
        log.info("%s", text)
        reaction = reaction_to(api_key, code)
        if reaction is Reaction.JOIN:
            self.state = ClassicMemberState.PREPARING
            self._join_again(text)
            if api_key is ApiKey.JOIN_GROUP:
                self._later(now_ms)
            return
        self._was_refused(reaction, code, text, now_ms)
        if reaction is Reaction.LOSE_MEMBERSHIP:
            self._member_id = ""

    def _reset(self, reason: str | None = None) -> None:
        super()._reset(reason)
        self.state = ClassicMemberState.OUT
        self._is_prepared = False
        self._join_reason = reason
        self._leadership = None

    def _later(self, now_ms: float) -> None:
        if self.state is ClassicMemberState.JOINING:
            self.state = ClassicMemberState.OUT if self._generation_id is None else ClassicMemberState.PREPARING
        super()._later(now_ms)

    # Asking

    def _ask_group(self, api_key: ApiKey, build: Build, handle: Callable[[Any, float], None], now_ms: float) -> bool:
        # The coordinator answers when all members have joined, or max.poll.interval.ms is over. The grace is for the
        # network.
        patience_ms = max(self._config.max_poll_interval_ms + _JOIN_GRACE_MS, self._config.client.request_timeout_ms)
        is_static = self._config.group_instance_id is not None
        version_min = _INSTANCE_IDS_SINCE[api_key] if is_static else None
        return self._ask(
            api_key, build, handle, now_ms, lane=MEMBERSHIP, version_min=version_min, timeout_ms=patience_ms
        )
