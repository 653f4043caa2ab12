"""OffsetCommit (versions 2-10): commits offsets of a group. Up to version 9 topics have names, from 10 on ids."""

from __future__ import annotations

from typing import Final

from semel.broker.network.request import Request
from semel.broker.node import Node
from semel.broker.requests.handlers.offset_commit_partitions import OffsetCommitPartitions, generation_of
from semel.coordinator.decision import Waiter
from semel.coordinator.group.decisions import GroupDecision
from semel.coordinator.group.membership import Committer
from semel.coordinator.group.offsets.offset_results import CommitRequest, CommitResult
from semel.coordinator.group.shard import GroupShard
from semel.coordinator.moment import Moment
from semel.errors import ErrorCode
from semel.metadata.image import Topic
from semel.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

TOPIC_IDS_SINCE: Final = 10


def offset_commit(node: Node, request: Request, message: OffsetCommitRequest) -> OffsetCommitResponse | None:
    response = OffsetCommitResponse()
    partitions = OffsetCommitPartitions()
    for asked in message.topics:
        topic, unknown = _topic(node, asked, request.version)
        results = [OffsetCommitResponsePartition(partition.partition_index) for partition in asked.partitions]
        response.topics.append(OffsetCommitResponseTopic(asked.name, asked.topic_id, results))
        partitions.add(topic, asked.partitions, results, unknown=unknown)
    if not partitions.offsets:
        return response
    generation = generation_of(message.generation_id_or_member_epoch)
    committer = Committer(message.member_id, generation, message.group_instance_id)
    commit = CommitRequest(
        message.group_id, committer, partitions.offsets, request.version, retention_ms=message.retention_time_ms
    )

    def decide(shard: GroupShard) -> GroupDecision[CommitResult]:
        return shard.commit_offsets(commit, Moment.now(node.clock))

    def respond(result: CommitResult) -> None:
        partitions.answer(result.errors)
        request.answer_delayed(lambda: response)

    request.hold_until_answered(
        node.coordinators.groups.run(message.group_id, decide, Waiter(respond, refused=partitions.refused))
    )
    return None


def _topic(node: Node, asked: OffsetCommitRequestTopic, version: int) -> tuple[Topic | None, ErrorCode]:
    """Return the topic, and the error code for a partition that it does not have."""
    if version < TOPIC_IDS_SINCE:
        return node.image.topics.get(asked.name), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    topic = node.image.topics_by_id.get(asked.topic_id)
    return topic, ErrorCode.UNKNOWN_TOPIC_ID if topic is None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
