"""ElectLeaders (versions 0-2): elects the preferred replica of partitions as leader, or any replica (unclean).

An operator requests an unclean election to lose acknowledged records rather than wait for the brokers that have them. A
replica that is not in sync is elected only if no in-sync replica is available.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from semel.broker.network.request import Request
from semel.broker.node import Node
from semel.errors import ErrorCode, KafkaError
from semel.metadata.controller import MetadataDecision, Refusal
from semel.metadata.election import prefer, unclean
from semel.metadata.image import ClusterImage, TopicAltered
from semel.types import TopicPartition
from semel.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

TYPES_SINCE: Final = 1
PREFERRED: Final = 0
UNCLEAN: Final = 1


@dataclass(frozen=True, slots=True)
class _Outcome:
    topic_partition: TopicPartition
    refusal: Refusal | None = None


async def elect_leaders(node: Node, request: Request, message: ElectLeadersRequest) -> ElectLeadersResponse:
    election_type = message.election_type if request.version >= TYPES_SINCE else PREFERRED
    if election_type not in (PREFERRED, UNCLEAN):
        return ElectLeadersResponse(error_code=ErrorCode.INVALID_REQUEST)
    asked = None
    if message.topic_partitions is not None:
        asked = [TopicPartition(topic.topic, index) for topic in message.topic_partitions for index in topic.partitions]
    outcomes: list[_Outcome] = []
    # One commit for each partition: a refusal does not affect the others. Such requests are rarely large.
    for topic_partition in dict.fromkeys(_all(node.image, election_type) if asked is None else asked):
        outcomes += await node.change(
            lambda image, one=topic_partition: _decide(image, one, election_type),  # type: ignore[misc]
            unstored=lambda refusal, one=topic_partition: [_Outcome(one, refusal)],  # type: ignore[misc]
        )
    if asked is None:  # A request for all partitions gets no result for those that need no election.
        outcomes = [one for one in outcomes if one.refusal is None or one.refusal.code != ErrorCode.ELECTION_NOT_NEEDED]
    topics: dict[str, list[PartitionResult]] = {}
    for outcome in outcomes:
        topic, index = outcome.topic_partition
        refusal = outcome.refusal
        result = PartitionResult(index) if refusal is None else PartitionResult(index, refusal.code, refusal.message)
        topics.setdefault(topic, []).append(result)
    return ElectLeadersResponse(
        replica_election_results=[ReplicaElectionResult(topic, results) for topic, results in topics.items()]
    )


def _all(image: ClusterImage, election_type: int) -> list[TopicPartition]:
    """Return the partitions that an election of this type could change."""
    return [
        TopicPartition(topic.name, index)
        for topic in image.topics.values()
        for index, state in enumerate(topic.partitions)
        if (state.leader != state.replicas[0] if election_type == PREFERRED else image.leader(state) is None)
    ]


def _decide(image: ClusterImage, topic_partition: TopicPartition, election_type: int) -> MetadataDecision[_Outcome]:
    decided = unclean(image, *topic_partition) if election_type == UNCLEAN else _preferred(image, topic_partition)
    if isinstance(decided, KafkaError):
        return MetadataDecision((), (_Outcome(topic_partition, Refusal(decided.code, str(decided))),))
    return MetadataDecision((decided,), (_Outcome(topic_partition),))


def _preferred(image: ClusterImage, topic_partition: TopicPartition) -> TopicAltered | KafkaError:
    state = image.partition(*topic_partition)
    if state is None:
        return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{topic_partition} does not exist")
    if image.leader(state) == state.replicas[0]:
        return KafkaError(ErrorCode.ELECTION_NOT_NEEDED, f"{topic_partition} is led by its preferred replica")
    for altered in prefer(image, only=topic_partition):
        return altered
    return KafkaError(
        ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
        f"{topic_partition}: broker {state.replicas[0]} is not registered or not in sync",
    )
