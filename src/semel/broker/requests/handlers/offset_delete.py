"""OffsetDelete (version 0): deletes committed offsets of topics that the group is not subscribed to."""

from __future__ import annotations

from semel.broker.network.request import Request
from semel.broker.node import Node
from semel.coordinator.decision import Waiter
from semel.coordinator.group.offsets.offset_results import DeleteOffsetsResult
from semel.errors import ErrorCode
from semel.types import TopicPartition
from semel.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)


def offset_delete(node: Node, request: Request, message: OffsetDeleteRequest) -> None:
    topics: list[OffsetDeleteResponseTopic] = []
    partitions: list[TopicPartition] = []
    answers: list[OffsetDeleteResponsePartition] = []
    for asked in message.topics:
        results = [OffsetDeleteResponsePartition(partition.partition_index) for partition in asked.partitions]
        topics.append(OffsetDeleteResponseTopic(asked.name, results))
        for result in results:
            if node.image.partition(asked.name, result.partition_index) is None:
                result.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            else:
                partitions.append(TopicPartition(asked.name, result.partition_index))
                answers.append(result)

    def respond(result: DeleteOffsetsResult) -> None:
        if result.error is not ErrorCode.NONE:
            request.answer_delayed(lambda: OffsetDeleteResponse(error_code=result.error))
            return
        for answer, error in zip(answers, result.errors, strict=True):
            answer.error_code = error
        request.answer_delayed(lambda: OffsetDeleteResponse(topics=topics))

    waiting = node.coordinators.groups.run(
        message.group_id,
        lambda shard: shard.offsets.delete_offsets(message.group_id, partitions),
        Waiter(respond, DeleteOffsetsResult),
    )
    request.hold_until_answered(waiting)
