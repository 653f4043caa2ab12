"""The conversion of a group with members from the classic to the consumer protocol (KIP-848), and back.

Upgrade: a member that uses KIP-848 joins a classic group of consumers. The other members stay, as classic members of a
consumer group, each with its assignment; the generation becomes the epoch, so no member is fenced by the conversion
itself. Deferred requests are answered REBALANCE_IN_PROGRESS, so that these members join again. A partition that a
cooperative member has to give up remains its own until it joins without it, as in a classic group.

Downgrade: no member uses KIP-848 any more. The epoch becomes the generation, every member keeps the partitions that it
owns, and a rebalance follows, in which the group's leader assigns. The epoch is the one that the group had before the
last KIP-848 member left: so members that have it are asked to join again, and are not fenced.

The law: each conversion writes the tombstones of the old group and the records of the new group in one batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from semel.coordinator.decision import Answer
from semel.coordinator.group.classic.draft import ClassicDraft
from semel.coordinator.group.classic.group import ClassicGroup
from semel.coordinator.group.classic.member import ClassicMember
from semel.coordinator.group.classic.protocols import common_protocols, elected_protocol
from semel.coordinator.group.classic.rebalance import prepare
from semel.coordinator.group.classic.requests import OfferedProtocol
from semel.coordinator.group.classic.results import JoinResult, SyncResult
from semel.coordinator.group.classic.states import ClassicState
from semel.coordinator.group.consumer import deadlines
from semel.coordinator.group.consumer.classic_protocol import (
    assignment_of,
    claimed_by,
    classic_member,
    encoded_assignment,
    has_user_data,
    subscription_of,
)
from semel.coordinator.group.consumer.draft import Draft
from semel.coordinator.group.consumer.group import ConsumerGroup
from semel.coordinator.group.consumer.records import (
    NO_PARTITIONS,
    AssignedPartition,
    ConsumerMember,
    CurrentAssignment,
    GroupEpoch,
    MemberState,
    Partitions,
    Target,
    TargetEpoch,
)
from semel.coordinator.group.decisions import GroupDecision
from semel.coordinator.group.directory import Change, Deadline
from semel.coordinator.group.records import GroupTombstone
from semel.coordinator.group.settings import ClassicSettings, ConsumerSettings
from semel.coordinator.group.topics import TopicsView
from semel.coordinator.moment import Moment
from semel.errors import ErrorCode
from semel.wire.messages.consumer_protocol import CONSUMER_PROTOCOL_TYPE, ConsumerProtocolSubscription

KNOWN_ASSIGNORS: Final = frozenset({"range", "roundrobin", "sticky", "cooperative-sticky"})


class Upgrade:
    """The conversion of a classic group to a consumer group.

    ``draft`` holds the new group; the caller adds its other records to it.
    """

    def __init__(self, group: ClassicGroup, settings: ConsumerSettings, topics: TopicsView, moment: Moment) -> None:
        self.tombstone = GroupTombstone(group.group_id)
        self.draft = Draft(ConsumerGroup(group.group_id))
        self.changes: tuple[Change, ...] = tuple(_cancelled(group))
        self.answers: tuple[Answer, ...] = tuple(_answers_to_deferred(group))
        # Written for an empty group too, so that the epochs continue after the generations: a former member that still
        # uses an old generation must be refused, and its number must not be used again.
        self.draft.write(GroupEpoch(group.group_id, group.generation))
        owned = _owned(group, topics)
        revoking = _revoking(group, topics, owned)
        for member_id, classic in group.members.items():
            member = _upgraded(group, classic)
            assert member is not None, "checked by can_upgrade"
            self.draft.write(member)
            self.draft.write(Target(group.group_id, member_id, owned[member_id]))
            given_up = revoking.get(member_id, NO_PARTITIONS)
            state = MemberState.UNREVOKED_PARTITIONS if given_up else MemberState.STABLE
            current = CurrentAssignment(
                group.group_id, member_id, group.generation, group.generation, state, owned[member_id], given_up
            )
            self.draft.write(current)
            self.changes += (deadlines.session(member, settings, moment),)
            if given_up:
                self.changes += (deadlines.rebalance(member, moment),)
        if group.members:
            self.draft.write(TargetEpoch(group.group_id, group.generation, moment.wall_ms))


def can_upgrade(group: ClassicGroup, settings: ConsumerSettings) -> bool:
    """Whether the classic group may be converted to a consumer group.

    An empty group always may. For one with members the migration policy must allow it, there must be room for one more
    member, and the protocols and assignments of the members must be usable.
    """
    if not group.members:
        return True
    return (
        settings.migration_policy.upgrades
        and group.protocol_type == CONSUMER_PROTOCOL_TYPE
        and len(group.members) < settings.size_max
        and not _uses_an_assignor_of_its_own(group)
        and all(_upgraded(group, member) is not None for member in group.members.values())
    )


def _uses_an_assignor_of_its_own(group: ClassicGroup) -> bool:
    """Whether the group uses an assignor, other than Kafka's own, that sends user data with the assignments.

    A broker could not compute such data.
    """
    if group.protocol in KNOWN_ASSIGNORS:
        return False
    return any(has_user_data(member.assignment) for member in group.members.values())


def can_downgrade(group: ConsumerGroup, settings: ConsumerSettings, classic: ClassicSettings) -> bool:
    return (
        settings.migration_policy.downgrades
        and bool(group.members)
        and group.all_classic
        and len(group.members) <= classic.size_max
        and bool(common_protocols(_downgraded_members(group)))
    )


def downgrade(group: ConsumerGroup, topics: TopicsView, moment: Moment) -> GroupDecision[None]:
    """Decide to convert ``group`` to a classic group. The records come after those that led to ``group``."""
    members = [_downgraded(group, member, topics) for member in group.members.values()]
    classic = ClassicGroup(
        group.group_id,
        state=ClassicState.STABLE,
        state_changed_ms=moment.wall_ms,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        generation=group.epoch,
        protocol=elected_protocol(members),
        leader=members[0].member_id,
        members={member.member_id: member for member in members},
    )
    draft = ClassicDraft(classic, moment)
    draft.records += group.tombstones()
    draft.record()
    for member in members:
        draft.cancel(Deadline.REBALANCE, member.member_id)
        draft.cancel(Deadline.SYNC, member.member_id)
        draft.restart_session(member)
    prepare(draft, initial_delay_ms=0)
    return draft.decision(None)


def emptied(group: ConsumerGroup, moment: Moment) -> ClassicGroup:
    """The classic group that replaces a consumer group without members."""
    return ClassicGroup(
        group.group_id,
        state_changed_ms=moment.wall_ms,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        generation=group.epoch,
        is_recorded=True,
    )


def _owned(group: ClassicGroup, topics: TopicsView) -> dict[str, Partitions]:
    """The partitions that each member may be reading: one owner for each, even if the leader assigned it to two.

    A rebalance that began again has removed the assignments. Cooperative members continue to read the owned partitions
    that they sent when they joined. If two of them sent the same one, the member with the later generation owns it.
    """
    owned = {member_id: assignment_of(member.assignment, topics) for member_id, member in group.members.items()}
    if group.state is not ClassicState.STABLE:
        for member_id, claimed in _claims(group, topics):
            if not group.members[member_id].assignment:
                owned[member_id] = claimed - frozenset().union(*owned.values())
    taken: set[AssignedPartition] = set()
    for member_id, partitions in owned.items():
        owned[member_id] = partitions - taken
        taken |= partitions
    return owned


def _revoking(group: ClassicGroup, topics: TopicsView, owned: Mapping[str, Partitions]) -> dict[str, Partitions]:
    """The partitions that each member owned when it joined and that are assigned to no member.

    The member may read them until it joins without them.
    """
    taken = set[AssignedPartition]().union(*owned.values())
    revoking: dict[str, Partitions] = {}
    for member_id, claimed in _claims(group, topics):
        revoking[member_id] = claimed - taken
        taken |= claimed
    return revoking


def _claims(group: ClassicGroup, topics: TopicsView) -> list[tuple[str, Partitions]]:
    """The owned partitions that each member sent when it joined, the latest generation first."""
    said = {member_id: subscription_of(member.protocols) for member_id, member in group.members.items()}
    claims = [(member_id, claim) for member_id, claim in said.items() if claim is not None]
    return [(member_id, claimed_by(claim, topics)) for member_id, claim in sorted(claims, key=_latest_generation_first)]


def _latest_generation_first(claim: tuple[str, ConsumerProtocolSubscription]) -> tuple[bool, int]:
    generation_id = claim[1].generation_id
    return generation_id is None, -(generation_id or 0)


def _upgraded(group: ClassicGroup, member: ClassicMember) -> ConsumerMember | None:
    return classic_member(
        group.group_id,
        member.member_id,
        member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        session_timeout_ms=member.session_timeout_ms,
        protocols=member.protocols,
    )


def _cancelled(group: ClassicGroup) -> Iterator[Change]:
    for deadline in (Deadline.REBALANCE, Deadline.SYNC):
        yield deadlines.cancelled(group.group_id, deadline, "")
    for member_id in sorted(group.pending_ids):
        yield deadlines.cancelled(group.group_id, Deadline.SESSION, member_id)


def _answers_to_deferred(group: ClassicGroup) -> Iterator[Answer]:
    for member in group.members.values():
        if member.joining is not None:
            yield Answer(member.joining, JoinResult(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id))
        if member.syncing is not None:
            yield Answer(member.syncing, SyncResult(ErrorCode.REBALANCE_IN_PROGRESS))


def _downgraded_members(group: ConsumerGroup) -> Iterator[ClassicMember]:
    return (_downgraded(group, member, None) for member in group.members.values())


def _downgraded(group: ConsumerGroup, member: ConsumerMember, topics: TopicsView | None) -> ClassicMember:
    assert member.classic is not None, member
    protocols = tuple(OfferedProtocol(*offered) for offered in member.classic.protocols)
    assigned = group.assignment(member.member_id).assigned
    return ClassicMember(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        member.rebalance_timeout_ms,
        member.classic.session_timeout_ms,
        protocols,
        assignment=b"" if topics is None else encoded_assignment(member, assigned, topics),
    )
