"""A member of a consumer group (KIP-848): one request carries everything, and the broker assigns the partitions.

    OUT --the application polls--> JOINING --answered--> MEMBER
     ^                                                      |
     +--- fenced, left, or the application did not poll ----+

The response to a heartbeat has the partitions that this member is to own, and the broker continues when the member
reports that it owns them. The law: a partition is reported as owned until the application has given it up, so no other
member gets it before that. Revoking comes first and is reported at once; only then are new partitions taken over.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final
from uuid import UUID

from semel.client.machine.connection.promise import Promise, fulfilled
from semel.client.machine.group.member_context import MemberContext
from semel.client.machine.group.membership import GroupMembership
from semel.client.machine.group.reactions import Reaction, reaction_to
from semel.client.machine.group.subscription import TopicSubscription
from semel.clock import NEVER
from semel.errors import ErrorCode, KafkaError, named
from semel.types import TopicPartition, kafka_uuid, random_uuid
from semel.wire.apis import ApiKey
from semel.wire.messages.consumer_group_heartbeat import (
    JOINING,
    LEAVING,
    LEAVING_STATIC_MEMBER,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

log = logging.getLogger(__name__)

_REGEX_SINCE: Final = 1


class ConsumerMemberState(Enum):
    OUT = "out"
    JOINING = "joining"
    MEMBER = "member"


@dataclass(frozen=True, slots=True)
class _Report:
    """What a heartbeat reports. The coordinator remembers it, so the next heartbeat reports only changes."""

    topics: tuple[str, ...]
    pattern: str | None
    owned: frozenset[TopicPartition]


class ConsumerMembership(GroupMembership):
    def __init__(self, context: MemberContext) -> None:
        super().__init__(context)
        self._member_id = kafka_uuid(random_uuid(context.random))
        self.state = ConsumerMemberState.OUT
        self._target: Mapping[UUID, tuple[int, ...]] = {}
        self._is_reconciled = True
        self._topic_ids: dict[str, UUID] = {}
        self._reported: _Report | None = None
        """What the coordinator has received; ``None``: the next heartbeat reports everything."""
        self._heartbeat_ms = 0.0

    # What the consumer calls

    @property
    def ownership_version(self) -> object:
        """Always the same: epochs change while partitions stay, and a member that was removed receives an error."""
        return None

    @property
    def topics(self) -> tuple[str, ...]:
        return () if self._subscription is None else self._subscription.topics

    def react(self, reaction: Reaction, error: KafkaError, now_ms: float) -> None:
        if reaction is Reaction.AWAIT_EPOCH:
            self._heartbeat_ms = min(self._heartbeat_ms, now_ms)
        super().react(reaction, error, now_ms)

    # What the driver calls

    @property
    def _is_out(self) -> bool:
        return self.state is ConsumerMemberState.OUT

    def _poll(self, now_ms: float) -> None:
        may_join = self._poll_liveness.is_alive(now_ms) and not self._reassignment.is_busy
        if self.state is ConsumerMemberState.OUT and may_join:
            self.state = ConsumerMemberState.JOINING
        if self.state is ConsumerMemberState.MEMBER:
            self._reconcile()
        if self.state is not ConsumerMemberState.OUT and self._may_ask(now_ms):
            report = self._report()
            if now_ms >= self._heartbeat_ms or report != self._reported:
                self._heartbeat(report, now_ms)

    def next_deadline_ms(self, now_ms: float) -> float:
        if self.state is ConsumerMemberState.OUT:
            return NEVER
        deadlines = [self._poll_liveness.next_deadline_ms(now_ms)]
        if not self._asking:
            deadlines += [moment for moment in (self._retry.due_ms, self._heartbeat_ms) if moment > now_ms]
        return min(deadlines)

    # Heartbeats

    def _report(self) -> _Report:
        wanted = self._subscription or TopicSubscription()
        pattern = None if wanted.pattern is None else wanted.pattern.pattern
        return _Report(tuple(sorted(wanted.topics)), pattern, frozenset(self._reassignment.owned))

    def _heartbeat(self, report: _Report, now_ms: float) -> None:
        epoch = JOINING if self._generation_id is None else self._generation_id
        reported = None if epoch == JOINING else self._reported

        def build(version: int) -> ConsumerGroupHeartbeatRequest:
            request = ConsumerGroupHeartbeatRequest(
                self._coordinator.group_id, self._member_id, epoch, self._config.group_instance_id
            )
            if reported is None:
                request.rack_id = self._config.client_rack or None
                request.rebalance_timeout_ms = self._config.max_poll_interval_ms
                request.server_assignor = self._config.group_remote_assignor
            if reported is None or reported.topics != report.topics:
                request.subscribed_topic_names = list(report.topics)
            if (None if reported is None else reported.pattern) != report.pattern:
                request.subscribed_topic_regex = report.pattern or ""
            if reported is None or reported.owned != report.owned:
                request.topic_partitions = self._by_topic_id(report.owned)
            return request

        version_min = None if report.pattern is None else _REGEX_SINCE
        if self._ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, build, self._answered, now_ms, version_min=version_min):
            self._reported = report

    def _answered(self, response: ConsumerGroupHeartbeatResponse, now_ms: float) -> None:
        if response.error_code != ErrorCode.NONE:
            self._refused(response, now_ms)
            return
        self._retry = self._retry.succeeded()
        self._member_id = response.member_id or self._member_id
        if response.member_epoch != self._generation_id:
            log.info("group %r: %s is in epoch %d", self._coordinator.group_id, self._member_id, response.member_epoch)
        self._generation_id = response.member_epoch
        self.state = ConsumerMemberState.MEMBER
        self._heartbeat_ms = now_ms + response.heartbeat_interval_ms
        if response.assignment is not None:
            assigned = response.assignment.topic_partitions
            self._target = {topic.topic_id: tuple(topic.partitions) for topic in assigned}
            self._is_reconciled = False

    def _by_topic_id(self, partitions: frozenset[TopicPartition]) -> list[TopicPartitions]:
        topics: dict[str, list[int]] = {}
        for topic, index in sorted(partitions):
            topics.setdefault(topic, []).append(index)
        return [TopicPartitions(self._topic_ids[topic], indexes) for topic, indexes in topics.items()]

    # The assignment

    def _reconcile(self) -> None:
        """Take one step towards the assignment that the broker has sent."""
        if self._is_reconciled or self._reassignment.is_busy:
            return
        names = self._metadata.view.topic_names
        known = {topic_id: names[topic_id] for topic_id in self._target if topic_id in names}
        target = [TopicPartition(name, index) for topic_id, name in known.items() for index in self._target[topic_id]]
        owned = set(self._reassignment.owned)
        withdrawn = owned.difference(target)
        if withdrawn:
            self._reassignment.give_up(withdrawn, done=_heartbeat_follows)
            return
        self._topic_ids.update({name: topic_id for topic_id, name in known.items()})
        self._is_reconciled = len(known) == len(self._target)
        if not self._is_reconciled:
            self._metadata.outdated()  # The broker knows topics that this client does not know yet.
        added = [partition for partition in target if partition not in owned]
        if added or self._is_reconciled:
            self._reassignment.take_over(added, done=_heartbeat_follows)

    # Leaving

    def _leave(self, reason: str, now_ms: float) -> Promise[None]:
        """Send the heartbeat of a leaving member. The protocol has no field for the reason."""
        if self.state is ConsumerMemberState.OUT:
            return fulfilled()
        self._reset()
        instance_id = self._config.group_instance_id
        epoch = LEAVING if instance_id is None else LEAVING_STATIC_MEMBER
        request = ConsumerGroupHeartbeatRequest(self._coordinator.group_id, self._member_id, epoch, instance_id)
        return self._send_leave(ApiKey.CONSUMER_GROUP_HEARTBEAT, lambda version: request, now_ms)

    # What went wrong

    def _refused(self, response: ConsumerGroupHeartbeatResponse, now_ms: float) -> None:
        code = response.error_code
        why = f" ({response.error_message})" if response.error_message else ""
        group = f"group {self._coordinator.group_id!r}"
        text = f"ConsumerGroupHeartbeat of {group} was answered {named(code).name}{why}"
        log.info("%s", text)
        if code == ErrorCode.GROUP_ID_NOT_FOUND and self.is_member:
            # The group has removed this member, and no other member uses this protocol: it is a classic group now, or
            # was deleted. Joining makes it a consumer group again.
            self._lost(text, now_ms)
            return
        self._was_refused(reaction_to(ApiKey.CONSUMER_GROUP_HEARTBEAT, code), code, text, now_ms)

    def _reset(self, reason: str | None = None) -> None:
        super()._reset(reason)
        self.state = ConsumerMemberState.OUT
        self._target, self._is_reconciled, self._reported = {}, True, None
        self._heartbeat_ms = 0.0

    def _later(self, now_ms: float) -> None:
        super()._later(now_ms)
        self._reported = None  # The last heartbeat may have arrived or not.
        self._heartbeat_ms = 0.0


def _heartbeat_follows(now_ms: float) -> None:
    """Do nothing: the owned partitions have changed, so the next poll of the machine sends a heartbeat."""
