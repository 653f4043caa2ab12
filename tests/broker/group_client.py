"""A member of a classic group over the wire, in the versions that a test asks for."""

from __future__ import annotations

from typing import Any

from semel.wire.apis import ApiKey
from semel.wire.messages.consumer_protocol import ConsumerProtocolSubscription, encode_subscription
from semel.wire.messages.heartbeat import HeartbeatRequest
from semel.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from semel.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from semel.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse
from tests.broker.raw_client import RawClient

SESSION_MS = 300_000
METADATA = encode_subscription(ConsumerProtocolSubscription(topics=["orders"]))


def join_request(group: str, member_id: str = "", instance_id: str | None = None, **wishes: Any) -> JoinGroupRequest:
    request = JoinGroupRequest(
        group_id=group,
        session_timeout_ms=SESSION_MS,
        rebalance_timeout_ms=30_000,
        member_id=member_id,
        group_instance_id=instance_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol("range", METADATA)],
    )
    for name, value in wishes.items():
        setattr(request, name, value)
    return request


def join(
    client: RawClient, group: str, member_id: str = "", instance_id: str | None = None, *, version: int = 9
) -> JoinGroupResponse:
    """Join, under the id that is handed out if one must be asked for first."""
    answer = client.call(ApiKey.JOIN_GROUP, version, join_request(group, member_id, instance_id))
    if answer.error_code == 79:
        answer = client.call(ApiKey.JOIN_GROUP, version, join_request(group, answer.member_id, instance_id))
    assert isinstance(answer, JoinGroupResponse)
    return answer


def sync(
    client: RawClient, group: str, joined: JoinGroupResponse, *, version: int = 5, instance_id: str | None = None
) -> SyncGroupResponse:
    """As leader, everybody is assigned his own id; as follower, nothing is said."""
    request = SyncGroupRequest(
        group,
        joined.generation_id,
        joined.member_id,
        instance_id,
        "consumer",
        "range",
        [SyncGroupRequestAssignment(one.member_id, one.member_id.encode()) for one in joined.members],
    )
    answer = client.call(ApiKey.SYNC_GROUP, version, request)
    assert isinstance(answer, SyncGroupResponse)
    return answer


def heartbeat(client: RawClient, group: str, joined: JoinGroupResponse, *, version: int = 4) -> int:
    request = HeartbeatRequest(group, joined.generation_id, joined.member_id)
    code: int = client.call(ApiKey.HEARTBEAT, version, request).error_code
    return code


def leave(client: RawClient, group: str, *members: MemberIdentity, version: int = 5) -> list[int]:
    """The error of the request, then those of the members."""
    request = LeaveGroupRequest(group, members[0].member_id, list(members))
    answer = client.call(ApiKey.LEAVE_GROUP, version, request)
    return [answer.error_code, *(member.error_code for member in answer.members)]
