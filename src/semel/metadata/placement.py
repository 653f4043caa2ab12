"""The placement of a topic's replicas on brokers. Pure: the same cluster and topic id give the same result.

Leaders go round all brokers, and the topic's id decides where they begin, so that many small topics are spread too.
Partitions with the same leader have different followers, so that the load of a broker that dies is spread over several.
No rack gets a second replica of a partition while there is a rack without one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from uuid import UUID

from semel.errors import ErrorCode, KafkaError
from semel.metadata.image import Broker, ClusterImage, PartitionState, TopicAltered
from semel.types import TopicPartition


def place(
    brokers: Mapping[int, Broker], topic_id: UUID, partitions: range, *, replication_factor: int
) -> tuple[PartitionState, ...]:
    """Return new partitions with the numbers ``partitions``, each led by its first replica."""
    if replication_factor > len(brokers):
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {replication_factor} time(s): the target replication factor of "
            f"{replication_factor} cannot be reached because only {len(brokers)} broker(s) are registered.",
        )
    order = sorted(brokers)
    start = topic_id.int % len(order)
    return tuple(
        new_partition(_replicas(brokers, order, start + partition, replication_factor)) for partition in partitions
    )


def assign(
    brokers: Mapping[int, Broker], assignments: Sequence[Sequence[int]], *, replication_factor: int | None
) -> tuple[PartitionState, ...]:
    """Return new partitions with the replicas that the request names.

    All must have ``replication_factor`` replicas, or, if that is ``None``, as many as the first one.
    """
    partitions = []
    for replicas in assignments:
        _check_assignment(brokers, replicas, replication_factor=replication_factor)
        replication_factor = len(replicas)
        partitions.append(new_partition(tuple(replicas)))
    return tuple(partitions)


def new_partition(replicas: tuple[int, ...]) -> PartitionState:
    return PartitionState(leader=replicas[0], leader_epoch=0, replicas=replicas, isr=replicas)


def reordered(
    image: ClusterImage, topic_partition: TopicPartition, replicas: tuple[int, ...] | None
) -> tuple[TopicAltered, ...]:
    """Return the change that gives a partition its replicas in another order: the first one is the preferred leader.

    ``None`` requests the end of a reassignment. Raises ``KafkaError`` for that, and for other replicas than the present
    ones: Semel does not move replicas.
    """
    name, index = topic_partition
    state = image.partition(name, index)
    if state is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The partition does not exist.")
    if replicas is None:
        raise KafkaError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "No partition reassignment is in progress.")
    _check_assignment(image.brokers, replicas, replication_factor=None)
    if sorted(replicas) != sorted(state.replicas):
        raise _refuse(
            f"{topic_partition} has its replicas on brokers {list(state.replicas)}. Semel does not move replicas to "
            f"other brokers; {list(replicas)} could only be another order of them."
        )
    if replicas == state.replicas:
        return ()
    topic = image.topics[name]
    after = replace(state, replicas=replicas, partition_epoch=state.partition_epoch + 1)
    partitions = (*topic.partitions[:index], after, *topic.partitions[index + 1 :])
    return (TopicAltered(replace(topic, partitions=partitions)),)


def _check_assignment(
    brokers: Mapping[int, Broker], replicas: Sequence[int], *, replication_factor: int | None
) -> None:
    if not replicas:
        raise _refuse("The manual partition assignment includes an empty replica list.")
    for index, node_id in enumerate(ordered := sorted(replicas)):
        if node_id not in brokers:
            raise _refuse(
                f"The manual partition assignment includes broker {node_id}, but no such broker is registered."
            )
        if index and ordered[index - 1] == node_id:
            raise _refuse(f"The manual partition assignment includes the broker {node_id} more than once.")
    if replication_factor is not None and len(replicas) != replication_factor:
        raise _refuse(
            f"The manual partition assignment includes a partition with {len(replicas)} replica(s), but this is not "
            f"consistent with previous partitions, which have {replication_factor} replica(s)."
        )


def _refuse(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, message)


def _replicas(brokers: Mapping[int, Broker], order: list[int], turn: int, replication_factor: int) -> tuple[int, ...]:
    """Return the replicas of one partition.

    The leader is the broker at ``turn``. With every round over all brokers, its first follower is the next one.
    """
    rounds, leader = divmod(turn, len(order))
    others = order[leader + 1 :] + order[:leader]
    first = rounds % len(others) if others else 0
    waiting = others[first:] + others[:first]
    chosen = [order[leader]]
    replicas_in = Counter([_rack(brokers, chosen[0])])
    while len(chosen) < replication_factor:
        following = min(waiting, key=lambda node_id: replicas_in[_rack(brokers, node_id)])
        waiting.remove(following)
        chosen.append(following)
        replicas_in[_rack(brokers, following)] += 1
    return tuple(chosen)


def _rack(brokers: Mapping[int, Broker], node_id: int) -> str | int:
    """Return the rack of a broker; a broker without one counts as a rack of its own."""
    rack = brokers[node_id].rack
    return node_id if rack is None else rack
