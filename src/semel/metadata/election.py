"""Leader election, after a broker has registered, gone or resigned. Pure decisions on an image.

The law: a partition is led by a member of its in-sync set, under a leader epoch that no earlier leader had. The only
exception is ``unclean``, which an administrator requests. Each function returns the altered topics, without those that
need no change, and changes nothing itself. Two controllers that decide at the same time cause a conflict and no harm.

A partition whose in-sync replicas are all gone is not changed: one of them that comes back with its own disk leads it.
A partition with an *empty* in-sync set waits for ``unclean``: no replica is known to have what was acknowledged.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final, TypeAlias

from semel.errors import ErrorCode, KafkaError
from semel.metadata.image import ClusterImage, PartitionState, Topic, TopicAltered
from semel.types import TopicPartition

PARTITIONS_PER_COMMIT: Final = 5000
"""The limit for one decision, so that it does not take long. ``ClusterMetadata.fitting`` limits the bytes."""

Altered: TypeAlias = tuple[TopicAltered, ...]


def elect(image: ClusterImage, *, partitions_max: int | None = None) -> Altered:
    """Replace the leaders that are gone, and remove the brokers that are gone from the in-sync sets.

    The first of the replicas that is registered and in sync becomes the leader. A set is never emptied.
    ``partitions_max`` limits the partitions of all topics in the decision, but there is at least one topic; the caller
    decides about the others with the next image.
    """
    brokers = image.brokers

    def elected(_topic: Topic, _partition: int, state: PartitionState) -> PartitionState:
        isr = tuple(replica for replica in state.isr if replica in brokers)
        if not isr:
            return state
        return _with(state, state.leader if state.leader in brokers else _first(state, isr), isr)

    return _altered(image, elected, partitions_max)


def lacks_a_leader(image: ClusterImage, topic: Topic) -> bool:
    """Whether ``elect`` would find a leader for a partition of this topic that has none."""
    return any(
        state.leader not in image.brokers and any(replica in image.brokers for replica in state.isr)
        for state in topic.partitions
    )


def resign(image: ClusterImage, node_id: int, *, partitions_max: int | None = None) -> Altered:
    """Controlled shutdown of ``node_id``: other registered in-sync replicas become leaders of the partitions that it
    leads, and it leaves the in-sync sets. If there is no other one it stays, because there would be no leader.

    The broker must not fetch any more, or the new leaders would add it to the in-sync sets again.
    """

    def resigned(_topic: Topic, _partition: int, state: PartitionState) -> PartitionState:
        others = _without(state, node_id)
        leader = state.leader if state.leader != node_id else _first(state, _registered(image, others))
        return state if node_id not in state.isr or leader is None else _with(state, leader, others)

    return _altered(image, resigned, partitions_max)


def leave_isr(
    image: ClusterImage, node_id: int, keep: Callable[[str, int], bool], *, partitions_max: int | None = None
) -> Altered:
    """Remove ``node_id``, which may have lost records, from the in-sync sets and from the leadership of partitions.

    To be committed before the broker is registered, or with its registration. ``keep`` is true for the partitions
    (topic, number) of which it certainly has all records. If it was the last member of a set, the set is then empty,
    and the partition waits for ``unclean``. A partition without another replica is not changed: no other broker could
    have more records.
    """

    def left(topic: Topic, partition: int, state: PartitionState) -> PartitionState:
        if node_id not in state.isr or len(state.replicas) == 1 or keep(topic.name, partition):
            return state
        others = _without(state, node_id)
        leader = state.leader if state.leader != node_id else _first(state, _registered(image, others))
        return _with(state, leader, others)

    return _altered(image, left, partitions_max)


def prefer(image: ClusterImage, *, only: TopicPartition | None = None, partitions_max: int | None = None) -> Altered:
    """Elect the preferred leaders, the first of the replicas, where they are registered and in sync."""

    def preferred(topic: Topic, partition: int, state: PartitionState) -> PartitionState:
        if only is not None and only != (topic.name, partition):
            return state
        first = state.replicas[0]
        return _with(state, first, state.isr) if first in image.brokers and first in state.isr else state

    return _altered(image, preferred, partitions_max)


def unclean(
    image: ClusterImage, topic: str, partition: int, *, node_id: int | None = None
) -> TopicAltered | KafkaError:
    """Elect a leader for a partition that has none, even if acknowledged records are lost by that.

    An in-sync replica becomes leader, if one is registered; otherwise ``node_id``, or the first replica that is
    registered, which is then the only member of the in-sync set. A refusal is returned, with Kafka's error codes.
    """
    state = image.partition(topic, partition)
    asked = TopicPartition(topic, partition)
    if state is None:
        return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"{asked} does not exist")
    if (leader := image.leader(state)) is not None:
        return KafkaError(ErrorCode.ELECTION_NOT_NEEDED, f"{asked} is led by broker {leader}")
    in_sync = _registered(image, state.isr)
    if (first := _first(state, in_sync)) is not None:
        elected = _with(state, first, in_sync)
    else:
        candidates = _registered(image, state.replicas if node_id is None else (node_id,))
        chosen = _first(state, candidates)
        if chosen is None:
            wanted = state.replicas if node_id is None else (node_id,)
            return KafkaError(
                ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
                f"{asked}: none of the brokers {list(wanted)} is registered and a replica",
            )
        elected = _with(state, chosen, (chosen,))
    known = image.topics[topic]
    partitions = (*known.partitions[:partition], elected, *known.partitions[partition + 1 :])
    return TopicAltered(replace(known, partitions=partitions))


def _altered(
    image: ClusterImage, decide: Callable[[Topic, int, PartitionState], PartitionState], partitions_max: int | None
) -> Altered:
    changes: list[TopicAltered] = []
    count = 0
    for topic in image.topics.values():
        partitions = tuple(decide(topic, number, state) for number, state in enumerate(topic.partitions))
        if all(after is before for after, before in zip(partitions, topic.partitions, strict=True)):
            continue
        count += len(partitions)
        if partitions_max is not None and count > partitions_max and changes:
            break
        changes.append(TopicAltered(replace(topic, partitions=partitions)))
    return tuple(changes)


def _with(state: PartitionState, leader: int | None, isr: tuple[int, ...]) -> PartitionState:
    """Return the state with this leader and in-sync set: the same object if nothing is different."""
    if leader == state.leader and isr == state.isr:
        return state
    leader_epoch = state.leader_epoch if leader == state.leader else state.leader_epoch + 1
    return replace(state, leader=leader, leader_epoch=leader_epoch, isr=isr, partition_epoch=state.partition_epoch + 1)


def _registered(image: ClusterImage, replicas: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(replica for replica in replicas if replica in image.brokers)


def _without(state: PartitionState, node_id: int) -> tuple[int, ...]:
    return tuple(replica for replica in state.isr if replica != node_id)


def _first(state: PartitionState, candidates: tuple[int, ...]) -> int | None:
    return next((replica for replica in state.replicas if replica in candidates), None)
