"""Descriptions of groups and their members, in the same classes for the classic protocol and for KIP-848."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from semel.client.admin.group_offsets import named_group
from semel.client.machine.admin.ask import Ask, Refusal, coordinator_of_group, outcome
from semel.errors import DecodeError, ErrorCode
from semel.types import TopicPartition
from semel.wire.apis import ApiKey
from semel.wire.messages import consumer_group_describe as newer
from semel.wire.messages import describe_groups as classic
from semel.wire.messages.consumer_protocol import decode_assignment, decode_subscription, flattened

CONSUMER_PROTOCOL_TYPE: Final = "consumer"
_DEAD: Final = "Dead"


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A member of a group and its partitions. A field that only one of the protocols has is ``None`` in the other."""

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    assignment: tuple[TopicPartition, ...]
    subscribed_topics: tuple[str, ...]
    target_assignment: tuple[TopicPartition, ...] | None = None
    subscribed_regex: str | None = None
    member_epoch: int | None = None
    rack: str | None = None


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A group. ``type`` is ``classic`` or ``consumer`` (KIP-848); ``assignor`` says how partitions are dealt out."""

    group_id: str
    type: str
    state: str
    protocol_type: str
    assignor: str
    members: tuple[GroupMember, ...]
    group_epoch: int | None = None
    assignment_epoch: int | None = None


DESCRIBE_CONSUMER: Ask[str, GroupDescription] = Ask(
    ApiKey.CONSUMER_GROUP_DESCRIBE,
    target=coordinator_of_group,
    build=lambda group_ids, version: newer.ConsumerGroupDescribeRequest(list(group_ids)),
    read=lambda response, group_ids, version: [
        (group.group_id, outcome(_consumer_group(group), group.error_code, group.error_message))
        for group in response.groups
    ],
    name=named_group,
)


def _consumer_group(group: newer.DescribedGroup) -> GroupDescription:
    return GroupDescription(
        group.group_id,
        "consumer",
        group.group_state,
        CONSUMER_PROTOCOL_TYPE,
        group.assignor_name,
        tuple(
            GroupMember(
                member.member_id,
                member.instance_id,
                member.client_id,
                member.client_host,
                _assigned(member.assignment),
                tuple(member.subscribed_topic_names),
                _assigned(member.target_assignment),
                member.subscribed_topic_regex or None,
                member.member_epoch,
                member.rack_id,
            )
            for member in group.members
        ),
        group.group_epoch,
        group.assignment_epoch,
    )


def _assigned(assignment: newer.Assignment) -> tuple[TopicPartition, ...]:
    return tuple(
        sorted(
            TopicPartition(topic.topic_name, index)
            for topic in assignment.topic_partitions
            for index in topic.partitions
        )
    )


DESCRIBE_CLASSIC: Ask[str, GroupDescription] = Ask(
    ApiKey.DESCRIBE_GROUPS,
    target=coordinator_of_group,
    build=lambda group_ids, version: classic.DescribeGroupsRequest(list(group_ids)),
    read=lambda response, group_ids, version: [(group.group_id, _classic_outcome(group)) for group in response.groups],
    name=named_group,
)


def _classic_outcome(group: classic.DescribedGroup) -> GroupDescription | Refusal:
    if group.group_state == _DEAD and not group.members and group.error_code == ErrorCode.NONE:
        return Refusal(ErrorCode.GROUP_ID_NOT_FOUND)  # Up to version 5, a missing group is Dead, without an error.
    return outcome(_classic_group(group), group.error_code, group.error_message)


def _classic_group(group: classic.DescribedGroup) -> GroupDescription:
    return GroupDescription(
        group.group_id,
        "classic",
        group.group_state,
        group.protocol_type,
        group.protocol_data,
        tuple(
            GroupMember(
                member.member_id,
                member.group_instance_id,
                member.client_id,
                member.client_host,
                *_reading(group.protocol_type, member),
            )
            for member in group.members
        ),
    )


def _reading(
    protocol_type: str, member: classic.DescribedGroupMember
) -> tuple[tuple[TopicPartition, ...], tuple[str, ...]]:
    """Return a consumer's partitions and topics. No broker checks these bytes, so they may be anything."""
    if protocol_type != CONSUMER_PROTOCOL_TYPE:
        return (), ()
    try:
        assignment = decode_assignment(member.member_assignment)
        topics = decode_subscription(member.member_metadata).topics if member.member_metadata else []
    except DecodeError:
        return (), ()
    return tuple(sorted(flattened(assignment.assigned_partitions))), tuple(topics)
