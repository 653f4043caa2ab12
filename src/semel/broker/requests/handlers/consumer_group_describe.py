"""ConsumerGroupDescribe (versions 0-1): groups of the consumer protocol (KIP-848), their members and assignments."""

from __future__ import annotations

from semel.broker.coordinators.topics_view import ImageTopics
from semel.broker.network.request import Request
from semel.broker.node import Node
from semel.broker.requests.handlers.ask_each import Respond, ask_each
from semel.broker.requests.handlers.authorized_operations import group_operations
from semel.coordinator.decision import Decision, Waiter
from semel.coordinator.group.consumer.records import Partitions, grouped
from semel.coordinator.group.consumer.requests import GroupDescription, MemberDescription
from semel.coordinator.group.topics import TopicsView
from semel.errors import ErrorCode
from semel.wire.messages.consumer_group_describe import (
    Assignment,
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
    Member,
    TopicPartitions,
)


def consumer_group_describe(node: Node, request: Request, message: ConsumerGroupDescribeRequest) -> None:
    rights = node.rights(request)

    def describe(group_id: str, respond: Respond[DescribedGroup]) -> None:
        operations = group_operations(rights, group_id) if message.include_authorized_operations else None
        node.coordinators.groups.run(
            group_id,
            lambda shard: Decision(_described(shard.consumer.describe(group_id), ImageTopics(node.image), operations)),
            Waiter(respond, refused=lambda error: DescribedGroup(error_code=error, group_id=group_id)),
        )

    asked = list(dict.fromkeys(message.group_ids))
    ask_each(request, asked, describe, lambda described: ConsumerGroupDescribeResponse(groups=described))


def _described(result: GroupDescription, topics: TopicsView, operations: int | None) -> DescribedGroup:
    group_id = result.group_id
    if result.error is not ErrorCode.NONE:
        return DescribedGroup(error_code=result.error, error_message=result.message, group_id=group_id)
    return DescribedGroup(
        group_id=group_id,
        group_state=result.state_name,
        group_epoch=result.epoch,
        assignment_epoch=result.target_epoch,
        assignor_name=result.assignor,
        members=[_member(member, topics) for member in result.members],
        authorized_operations=operations,
    )


def _member(described: MemberDescription, topics: TopicsView) -> Member:
    member = described.member
    return Member(
        member_id=member.member_id,
        instance_id=member.instance_id,
        rack_id=member.rack_id,
        member_epoch=described.current.epoch,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=list(member.topic_names),
        subscribed_topic_regex=member.topic_regex,
        assignment=_assignment(described.current.assigned, topics),
        target_assignment=_assignment(described.target, topics),
        member_type=1 if member.classic is None else 0,
    )


def _assignment(partitions: Partitions, topics: TopicsView) -> Assignment:
    named = ((topics.by_id(topic_id), indexes) for topic_id, indexes in grouped(partitions).items())
    # A deleted topic has no name, so it is left out; the members lose it with their next heartbeats.
    return Assignment([TopicPartitions(topic.topic_id, topic.name, indexes) for topic, indexes in named if topic])
