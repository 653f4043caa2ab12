"""OffsetCommit (versions 2-10): how far a group has read. Up to version 9 topics have names, from 10 on ids."""

from __future__ import annotations

from typing import Final

from semel.broker.network.request import Request
from semel.broker.node import Node
from semel.coordinator.decision import Waiter
from semel.coordinator.group.decisions import GroupDecision
from semel.coordinator.group.offsets.offset_results import CommitResult, OffsetToCommit
from semel.coordinator.group.shard import GroupShard
from semel.coordinator.moment import Moment
from semel.errors import ErrorCode
from semel.metadata.image import Topic
from semel.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

TOPIC_IDS_SINCE: Final = 10


def offset_commit(node: Node, request: Request, message: OffsetCommitRequest) -> OffsetCommitResponse | None:
    response = OffsetCommitResponse()
    offsets: list[OffsetToCommit] = []
    answers: list[OffsetCommitResponsePartition] = []
    for asked in message.topics:
        topic, unknown = _topic(node, asked, request.version)
        results = [OffsetCommitResponsePartition(partition.partition_index) for partition in asked.partitions]
        response.topics.append(OffsetCommitResponseTopic(asked.name, asked.topic_id, results))
        for partition, result in zip(asked.partitions, results, strict=True):
            if topic is None or not 0 <= partition.partition_index < len(topic.partitions):
                result.error_code = unknown
            else:
                offsets.append(_offset(topic, partition))
                answers.append(result)
    if not offsets:
        return response

    def decide(shard: GroupShard) -> GroupDecision[CommitResult]:
        return shard.commit_offsets(
            message.group_id,
            _generation(message.generation_id_or_member_epoch),
            message.member_id,
            message.group_instance_id,
            offsets,
            retention_ms=message.retention_time_ms,
            api_version=request.version,
            moment=Moment.now(node.clock),
        )

    def respond(result: CommitResult) -> None:
        for answer, error in zip(answers, result.errors, strict=True):
            answer.error_code = error
        request.answer_delayed(lambda: response)

    request.hold_until_answered(
        node.coordinators.groups.run(
            message.group_id, decide, Waiter(respond, refused=lambda error: CommitResult((error,) * len(offsets)))
        )
    )
    return None


def _topic(node: Node, asked: OffsetCommitRequestTopic, version: int) -> tuple[Topic | None, ErrorCode]:
    """The topic, and the code for a partition that it does not have."""
    if version < TOPIC_IDS_SINCE:
        return node.image.topics.get(asked.name), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    topic = node.image.topics_by_id.get(asked.topic_id)
    return topic, ErrorCode.UNKNOWN_TOPIC_ID if topic is None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _offset(topic: Topic, partition: OffsetCommitRequestPartition) -> OffsetToCommit:
    return OffsetToCommit(
        topic.name,
        partition.partition_index,
        partition.committed_offset,
        partition.committed_leader_epoch,
        partition.committed_metadata,
        topic.id,
    )


def _generation(number: int | None) -> int | None:
    """Of a member; a negative number is no generation either."""
    return None if number is None or number < 0 else number
