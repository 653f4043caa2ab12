"""The requests of the classic protocol, as functions that build them for a version."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeAlias

from semel.client.assignors import Assignor, Subscription
from semel.client.config.consumer import ConsumerConfig
from semel.client.values import GroupMetadata
from semel.types import TopicPartition
from semel.wire.messages.consumer_protocol import CONSUMER_PROTOCOL_TYPE
from semel.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from semel.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from semel.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

Build: TypeAlias = Callable[[int], object]

_REASON_MAX: Final = 255


def join_request(
    config: ConsumerConfig,
    member: GroupMetadata,
    assignors: Iterable[Assignor],
    topics: tuple[str, ...],
    owned: tuple[TopicPartition, ...],
    reason: str,
) -> Build:
    """Return a JoinGroup request that offers every assignor, each with the user data that it asks for."""
    rack_id = config.client_rack or None
    protocols = [
        JoinGroupRequestProtocol(
            assignor.name,
            Subscription(
                topics, assignor.subscription_user_data(topics), owned, member.generation_id, rack_id
            ).to_bytes(),
        )
        for assignor in assignors
    ]
    return lambda version: JoinGroupRequest(
        member.group_id,
        config.session_timeout_ms,
        config.max_poll_interval_ms,
        member.member_id,
        member.group_instance_id,
        CONSUMER_PROTOCOL_TYPE,
        protocols,
        reason[:_REASON_MAX],
    )


def sync_request(member: GroupMetadata, assignor_name: str, assignments: Sequence[SyncGroupRequestAssignment]) -> Build:
    generation_id = member.generation_id
    assert generation_id is not None, "a member that has not joined has nothing to sync"
    return lambda version: SyncGroupRequest(
        member.group_id,
        generation_id,
        member.member_id,
        member.group_instance_id,
        CONSUMER_PROTOCOL_TYPE,
        assignor_name,
        list(assignments),
    )


def leave_request(member: GroupMetadata, reason: str) -> Build:
    return lambda version: LeaveGroupRequest(
        member.group_id, member.member_id, [MemberIdentity(member.member_id, None, reason[:_REASON_MAX])]
    )
