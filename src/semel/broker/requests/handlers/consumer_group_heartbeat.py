"""ConsumerGroupHeartbeat (versions 0-1): a member joins, stays, revokes partitions, or leaves (KIP-848)."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from dataclasses import replace
from functools import partial
from typing import Final

from semel.broker.network.request import Request
from semel.broker.node import Node
from semel.coordinator.decision import Waiter
from semel.coordinator.group.consumer.records import AssignedPartition, grouped
from semel.coordinator.group.consumer.requests import ConsumerHeartbeatResult, Heartbeat
from semel.coordinator.moment import Moment
from semel.errors import ErrorCode
from semel.security.rights import DESCRIBE_TOPIC
from semel.wire.messages.consumer_group_heartbeat import (
    JOINING,
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

MEMBER_ID_CHOSEN_BY_MEMBER_SINCE: Final = 1


def consumer_group_heartbeat(
    node: Node, request: Request, message: ConsumerGroupHeartbeatRequest
) -> ConsumerGroupHeartbeatResponse | None:
    if not node.config.group_version:
        return _response(node, message.group_id, _unsupported())
    beat = Heartbeat(
        message.group_id,
        _member_id(node, request, message),
        message.member_epoch,
        message.instance_id,
        message.rack_id,
        message.rebalance_timeout_ms,
        None if message.subscribed_topic_names is None else tuple(message.subscribed_topic_names),
        message.subscribed_topic_regex,
        message.server_assignor,
        None if message.topic_partitions is None else _claimed(message.topic_partitions),
        request.client_id or "",
        f"/{request.peer_host}",
    )
    rights = node.rights(request)
    if rights is not None:
        beat = replace(beat, may_describe=partial(rights.may, DESCRIBE_TOPIC))

    def respond(result: ConsumerHeartbeatResult) -> None:
        response = _response(node, message.group_id, result)
        request.answer_delayed(lambda: response)

    waiting = node.coordinators.groups.run(
        message.group_id,
        lambda shard: shard.consumer_group_heartbeat(beat, Moment.now(node.clock)),
        Waiter(respond, refused=lambda error: ConsumerHeartbeatResult(error=error)),
        is_confirmed=False,
    )
    request.hold_until_answered(waiting)
    return None


def _member_id(node: Node, request: Request, message: ConsumerGroupHeartbeatRequest) -> str:
    is_new = not message.member_id and message.member_epoch == JOINING
    if is_new and request.version < MEMBER_ID_CHOSEN_BY_MEMBER_SINCE:
        return urlsafe_b64encode(node.random.randbytes(16)).rstrip(b"=").decode()
    return message.member_id


def _claimed(topics: list[TopicPartitions]) -> tuple[AssignedPartition, ...]:
    return tuple(AssignedPartition(topic.topic_id, index) for topic in topics for index in topic.partitions)


def _unsupported() -> ConsumerHeartbeatResult:
    return ConsumerHeartbeatResult(
        error=ErrorCode.UNSUPPORTED_VERSION, message="the consumer group protocol is off: group.version is 0"
    )


def _response(node: Node, group_id: str, result: ConsumerHeartbeatResult) -> ConsumerGroupHeartbeatResponse:
    if result.error is not ErrorCode.NONE:
        return ConsumerGroupHeartbeatResponse(error_code=result.error, error_message=result.message)
    assignment = None
    if result.assigned is not None:
        assignment = Assignment([TopicPartitions(*topic) for topic in grouped(result.assigned).items()])
    return ConsumerGroupHeartbeatResponse(
        member_id=result.member_id,
        member_epoch=result.member_epoch,
        heartbeat_interval_ms=node.coordinators.consumer_settings(group_id).heartbeat_interval_ms,
        assignment=assignment,
    )
