"""A group with members changes its protocol while it runs: classic to consumer, and back.

Up: a member that speaks KIP-848 joins a classic group of consumers. The others stay, as classic members of a consumer
group, each with what it was assigned; its generation becomes the epoch, so no member is fenced by the change itself.
Members that wait are told to join again. What a cooperative member was told to give up is its own until it joins
without it, as before.

Down: no member speaks KIP-848 any more. The epoch becomes the generation, every member keeps what it owns, and a
rebalance follows, in which they choose their leader.

The law: both are a tombstone of everything old and records of everything new, in one batch.
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
    """A classic group as the consumer group that it becomes: ``draft`` holds it, and takes what else is decided."""

    def __init__(self, group: ClassicGroup, settings: ConsumerSettings, topics: TopicsView, moment: Moment) -> None:
        self.tombstone = GroupTombstone(group.group_id)
        self.draft = Draft(ConsumerGroup(group.group_id))
        self.changes: tuple[Change, ...] = tuple(_cancelled(group))
        self.answers: tuple[Answer, ...] = tuple(_sent_away(group))
        # Also of an empty group: a member that still knows a generation must find it gone, and not come again.
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
    """An empty group may become anything. One with members needs leave to, and members that can be understood."""
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
    """What such an assignor tells its members beside their partitions, no broker can tell them."""
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
    """What follows on the records that have made ``group`` what it is."""
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
        draft.heard(member)
    prepare(draft, initial_delay_ms=0)
    return draft.decision(None)


def emptied(group: ConsumerGroup, moment: Moment) -> ClassicGroup:
    """The classic group that takes the place of a consumer group without members."""
    return ClassicGroup(
        group.group_id,
        state_changed_ms=moment.wall_ms,
        protocol_type=CONSUMER_PROTOCOL_TYPE,
        generation=group.epoch,
        is_recorded=True,
    )


def _owned(group: ClassicGroup, topics: TopicsView) -> dict[str, Partitions]:
    """What each member may be reading, each partition once: a leader may have assigned one twice, here that cannot be.

    A rebalance that began again has taken the assignments back. Cooperative members read on; they said what when they
    joined, and of two who said the same the one of the later generation is right.
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
    """What members read when they joined and were not assigned again: they may read it until they join without it."""
    taken = set[AssignedPartition]().union(*owned.values())
    revoking: dict[str, Partitions] = {}
    for member_id, claimed in _claims(group, topics):
        revoking[member_id] = claimed - taken
        taken |= claimed
    return revoking


def _claims(group: ClassicGroup, topics: TopicsView) -> list[tuple[str, Partitions]]:
    """What members said they own when they joined, the latest generation first."""
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


def _sent_away(group: ClassicGroup) -> Iterator[Answer]:
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
