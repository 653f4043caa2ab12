"""AlterPartitionReassignments (versions 0-1): changes the order of a partition's replicas, which takes effect at once.

A reassignment to other brokers is refused with INVALID_REPLICA_ASSIGNMENT. To cancel one is refused with
NO_REASSIGNMENT_IN_PROGRESS, because there never is one.
"""

from __future__ import annotations

from dataclasses import dataclass

from semel.broker.network.request import Request
from semel.broker.node import Node
from semel.errors import ErrorCode, KafkaError
from semel.metadata.controller import MetadataDecision, Refusal
from semel.metadata.image import ClusterImage
from semel.metadata.placement import reordered
from semel.types import TopicPartition
from semel.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)


@dataclass(frozen=True, slots=True)
class _Outcome:
    refusal: Refusal | None = None


async def alter_partition_reassignments(
    node: Node, request: Request, message: AlterPartitionReassignmentsRequest
) -> AlterPartitionReassignmentsResponse:
    response = AlterPartitionReassignmentsResponse(error_message=None)
    for topic in message.topics:
        results = []
        # One commit for each partition: a refusal does not affect the others. Such requests are rarely large.
        for partition in topic.partitions:
            replicas = None if partition.replicas is None else tuple(partition.replicas)
            one = TopicPartition(topic.name, partition.partition_index)
            (outcome,) = await node.change(
                lambda image, one=one, replicas=replicas: _decide(image, one, replicas),  # type: ignore[misc]
                unstored=lambda refusal: [_Outcome(refusal)],
            )
            refusal = outcome.refusal
            results.append(
                ReassignablePartitionResponse(one.partition, ErrorCode.NONE, None)
                if refusal is None
                else ReassignablePartitionResponse(one.partition, refusal.code, refusal.message)
            )
        response.responses.append(ReassignableTopicResponse(topic.name, results))
    return response


def _decide(
    image: ClusterImage, topic_partition: TopicPartition, replicas: tuple[int, ...] | None
) -> MetadataDecision[_Outcome]:
    try:
        changes = reordered(image, topic_partition, replicas)
    except KafkaError as error:
        return MetadataDecision((), (_Outcome(Refusal(error.code, error.message)),))
    return MetadataDecision(changes, (_Outcome(),))
