"""The consumer groups of one shard (KIP-848): ConsumerGroupHeartbeat, and the deadlines of their members.

    heartbeat -> admission       whether the member may send it
              -> progress        what changed; then the group's next epoch (subscription), the target assignment
                                 (targeting), and one step of this member towards its target (reconciliation)

Handlers decide and change nothing. Requests of members that use the classic protocol are handled by ``classic``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from semel.coordinator.decision import Decision
from semel.coordinator.group.classic.group import ClassicGroup
from semel.coordinator.group.consumer import deadlines
from semel.coordinator.group.consumer.admission import admit, refusal_of_leaving, refusal_of_request
from semel.coordinator.group.consumer.classic_members import ClassicMembers
from semel.coordinator.group.consumer.draft import Draft
from semel.coordinator.group.consumer.group import ConsumerGroup
from semel.coordinator.group.consumer.leaving import forget_member, leave_for_a_while
from semel.coordinator.group.consumer.progress import progress
from semel.coordinator.group.consumer.records import ConsumerMember, MemberState
from semel.coordinator.group.consumer.requests import (
    ConsumerHeartbeatResult,
    GroupDescription,
    Heartbeat,
    MemberDescription,
    refused,
)
from semel.coordinator.group.consumer.targeting import preferred_assignor
from semel.coordinator.group.conversion import Upgrade, can_upgrade
from semel.coordinator.group.decisions import GroupDecision
from semel.coordinator.group.directory import Change, Deadline, DeadlineKey, GroupDirectory
from semel.coordinator.group.member_size import refusal_of_subscription
from semel.coordinator.group.settings import ConsumerSettings, GroupSettings
from semel.coordinator.group.topics import TopicsView
from semel.coordinator.moment import Moment
from semel.errors import ErrorCode
from semel.wire.messages.consumer_group_heartbeat import JOINING, LEAVING_STATIC_MEMBER


class ConsumerGroups:
    """The consumer groups of one shard. ``settings_of`` returns the settings of a group, by its id."""

    def __init__(
        self, directory: GroupDirectory, settings: GroupSettings, settings_of: Callable[[str], ConsumerSettings]
    ) -> None:
        self._directory = directory
        self._settings_of = settings_of
        self.classic = ClassicMembers(directory, settings)

    def heartbeat(
        self, beat: Heartbeat, *, topics: TopicsView, moment: Moment
    ) -> GroupDecision[ConsumerHeartbeatResult]:
        """ConsumerGroupHeartbeat. A member that joins a classic group by it converts the group, if that is allowed."""
        settings = self._settings_of(beat.group_id)
        refusal = refusal_of_request(beat, settings, topics)
        if refusal is not None:
            return Decision(refusal)
        group = self._directory.groups.get(beat.group_id)
        joins = beat.member_epoch == JOINING
        if group is None and joins:
            group = ConsumerGroup(beat.group_id)
        if isinstance(group, ClassicGroup) and joins and can_upgrade(group, settings):
            return self._upgrade(group, beat, topics, moment)
        if not isinstance(group, ConsumerGroup):
            return Decision(refused(ErrorCode.GROUP_ID_NOT_FOUND, f"{beat.group_id} is not a consumer group"))
        if beat.member_epoch < JOINING:
            return self._leave(group, beat, topics, moment)
        return self._stay(Draft(group), beat, topics, moment)

    def describe(self, group_id: str) -> GroupDescription:
        """ConsumerGroupDescribe of one group."""
        if not group_id:
            return GroupDescription(group_id, error=ErrorCode.INVALID_GROUP_ID)
        group = self._directory.groups.get(group_id)
        if not isinstance(group, ConsumerGroup):
            message = f"{group_id} is not a consumer group"
            return GroupDescription(group_id, error=ErrorCode.GROUP_ID_NOT_FOUND, message=message)
        members = (
            MemberDescription(group.members[member_id], group.assignment(member_id), group.target(member_id))
            for member_id in sorted(group.members)
        )
        assignor = preferred_assignor(group, self._settings_of(group_id).assignors)
        return GroupDescription(group_id, group.state_name, group.epoch, group.target_epoch, assignor, tuple(members))

    def due(self, group: ConsumerGroup, key: DeadlineKey, topics: TopicsView, moment: Moment) -> GroupDecision[None]:
        """Remove a member that missed a deadline: it sent no heartbeat, or did not revoke or join again in time."""
        if key.member_id not in group.members:
            return Decision(None)
        draft = Draft(group)
        forget_member(draft, key.member_id)
        cancelled = deadlines.all_cancelled(group.group_id, key.member_id)
        return self.classic.left(draft, None, cancelled, topics, moment)

    def loaded(self, group: ConsumerGroup, moment: Moment) -> Iterator[Change]:
        """Yield the changes after a load: all deadlines begin again."""
        settings = self._settings_of(group.group_id)
        for member_id, member in group.members.items():
            yield deadlines.session(member, settings, moment)
            if group.assignment(member_id).state is MemberState.UNREVOKED_PARTITIONS:
                yield deadlines.rebalance(member, moment)

    # -- parts of the above

    def _upgrade(
        self, group: ClassicGroup, beat: Heartbeat, topics: TopicsView, moment: Moment
    ) -> GroupDecision[ConsumerHeartbeatResult]:
        upgrade = Upgrade(group, self._settings_of(group.group_id), topics, moment)
        decision = self._stay(upgrade.draft, beat, topics, moment)
        if decision.response.error is not ErrorCode.NONE:
            return decision
        return Decision(
            decision.response,
            (upgrade.tombstone, *decision.records),
            changes=(*upgrade.changes, *decision.changes),
            answers=upgrade.answers,
        )

    def _leave(
        self, group: ConsumerGroup, beat: Heartbeat, topics: TopicsView, moment: Moment
    ) -> GroupDecision[ConsumerHeartbeatResult]:
        refusal = refusal_of_leaving(group, beat)
        if refusal is not None:
            return Decision(refusal)
        draft, member = Draft(group), group.members[beat.member_id]
        response = ConsumerHeartbeatResult(beat.member_id, beat.member_epoch)
        if beat.member_epoch == LEAVING_STATIC_MEMBER:
            leave_for_a_while(draft, beat.member_id)
            cancelled = deadlines.cancelled(group.group_id, Deadline.REBALANCE, beat.member_id)
            session_deadline = deadlines.session(member, self._settings_of(group.group_id), moment)
            return Decision(response, tuple(draft.records), changes=(cancelled, session_deadline))
        forget_member(draft, beat.member_id)
        all_cancelled = deadlines.all_cancelled(group.group_id, beat.member_id)
        return self.classic.left(draft, response, all_cancelled, topics, moment)

    def _stay(
        self, draft: Draft, beat: Heartbeat, topics: TopicsView, moment: Moment
    ) -> GroupDecision[ConsumerHeartbeatResult]:
        replaced_id = None if beat.instance_id is None else draft.group.instances.get(beat.instance_id)
        if beat.topic_names is not None:
            too_large = refusal_of_subscription(draft.group.members.values(), beat.member_id, beat.topic_names)
            if too_large is not None:
                return Decision(refused(*too_large))
        settings = self._settings_of(beat.group_id)
        refusal = admit(draft, beat, settings)
        if refusal is not None:
            return Decision(refusal)
        member = _updated(draft.group.members.get(beat.member_id), beat)
        done = progress(
            draft,
            member,
            claimed=beat.claimed,
            assignors=settings.assignors,
            topics=topics,
            moment=moment,
            may_describe=beat.may_describe,
        )
        if done is None:
            return Decision(
                refused(ErrorCode.FENCED_MEMBER_EPOCH, "the member's state is of a newer broker; it must join again")
            )
        changes = (
            *done.changes,
            deadlines.session(member, settings, moment),
            *deadlines.revocation(member, done.before, done.after, moment),
        )
        if replaced_id is not None and replaced_id != beat.member_id:
            changes = (*deadlines.all_cancelled(beat.group_id, replaced_id), *changes)
        tells = beat.is_full or done.after.assigned != done.before.assigned
        response = ConsumerHeartbeatResult(beat.member_id, done.after.epoch, done.after.assigned if tells else None)
        return Decision(response, tuple(draft.records), changes=changes)


def _updated(before: ConsumerMember | None, beat: Heartbeat) -> ConsumerMember:
    """Return the member with the values that the heartbeat sets."""
    member = before
    if member is not None and _says_nothing_new(beat, member):
        return member
    if member is None:
        member = ConsumerMember(beat.group_id, beat.member_id, beat.instance_id, None, "", "", (), None, -1, None)
    said: dict[str, Any] = {
        "instance_id": beat.instance_id,
        "rack_id": beat.rack_id,
        "client_id": beat.client_id,
        "client_host": beat.client_host,
        "topic_names": None if beat.topic_names is None else tuple(sorted(set(beat.topic_names))),
        "rebalance_timeout_ms": beat.rebalance_timeout_ms,
        "assignor": beat.assignor,
    }
    member = replace(member, classic=None, **{name: value for name, value in said.items() if value is not None})
    return member if beat.topic_regex is None else replace(member, topic_regex=beat.topic_regex or None)


def _says_nothing_new(beat: Heartbeat, member: ConsumerMember) -> bool:
    """Whether the heartbeat changes nothing. This is the common case, and then no new member is built."""
    return (
        beat.topic_names is None
        and beat.topic_regex is None
        and beat.rebalance_timeout_ms is None
        and beat.assignor is None
        and beat.rack_id is None
        and member.classic is None
        and beat.client_id == member.client_id
        and beat.client_host == member.client_host
    )
