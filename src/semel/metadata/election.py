"""Elections: which broker leads a partition after one has come, gone or resigned. Pure decisions on an image.

The law: a partition is led by a member of its in-sync set, under a leader epoch that no leader before had. The only
exception is ``unclean``, which a person asks for. Each function returns the topics as they should be, changes nothing,
and returns nothing where nothing has to change. Two controllers that decide at once cost a conflict and no harm.

A partition whose in-sync replicas are all gone stays as it is: one of them that comes back on its own disk leads it. A
partition with an *empty* in-sync set waits for ``unclean``: no replica is known to have what was acknowledged.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final, TypeAlias

from semel.errors import ErrorCode, KafkaError
from semel.metadata.image import ClusterImage, PartitionState, Topic, TopicAltered
from semel.types import TopicPartition

PARTITIONS_PER_COMMIT: Final = 5000
"""So that no decision is long. How much of it the store takes at once is ``ClusterMetadata.fitting``'s to say."""

Altered: TypeAlias = tuple[TopicAltered, ...]


def elect(image: ClusterImage, *, partitions_max: int | None = None) -> Altered:
    """Replace the leaders that are gone, and take the brokers that are gone out of the in-sync sets.

    The first of the replicas that is registered and in sync leads. A set is never emptied. ``partitions_max``: decide
    about so many topics as have that many partitions, at least one; about the rest on the next image.
    """
    brokers = image.brokers

    def elected(_topic: Topic, _partition: int, state: PartitionState) -> PartitionState:
        isr = tuple(replica for replica in state.isr if replica in brokers)
        if not isr:
            return state
        return _with(state, state.leader if state.leader in brokers else _first(state, isr), isr)

    return _altered(image, elected, partitions_max)


def resign(image: ClusterImage, node_id: int, *, partitions_max: int | None = None) -> Altered:
    """A controlled stop of ``node_id``: other registered in-sync replicas lead what it leads, and it leaves the in-sync
    sets. Where there is no other it stays: without it there would be no leader.

    The broker must not fetch any more, or the new leaders let it join again.
    """

    def resigned(_topic: Topic, _partition: int, state: PartitionState) -> PartitionState:
        others = _without(state, node_id)
        leader = state.leader if state.leader != node_id else _first(state, _registered(image, others))
        return state if node_id not in state.isr or leader is None else _with(state, leader, others)

    return _altered(image, resigned, partitions_max)


def leave_isr(
    image: ClusterImage, node_id: int, keep: Callable[[str, int], bool], *, partitions_max: int | None = None
) -> Altered:
    """``node_id`` may have lost records: it leaves the in-sync sets, and the leadership of these partitions.

    To be committed before it is registered, or with it. ``keep``: the partitions (topic, number) that it certainly has
    all of. A set in which it was the last is empty then, and the partition waits for ``unclean``. A partition that has
    no other replica stays as it is: no other broker could know more.
    """

    def left(topic: Topic, partition: int, state: PartitionState) -> PartitionState:
        if node_id not in state.isr or len(state.replicas) == 1 or keep(topic.name, partition):
            return state
        others = _without(state, node_id)
        leader = state.leader if state.leader != node_id else _first(state, _registered(image, others))
        return _with(state, leader, others)

    return _altered(image, left, partitions_max)


def prefer(image: ClusterImage, *, only: TopicPartition | None = None, partitions_max: int | None = None) -> Altered:
    """The preferred leader, the first of the replicas, leads where it is registered and in sync."""

    def preferred(topic: Topic, partition: int, state: PartitionState) -> PartitionState:
        if only is not None and only != (topic.name, partition):
            return state
        first = state.replicas[0]
        return _with(state, first, state.isr) if first in image.brokers and first in state.isr else state

    return _altered(image, preferred, partitions_max)


def unclean(
    image: ClusterImage, topic: str, partition: int, *, node_id: int | None = None
) -> TopicAltered | KafkaError:
    """A leader for a partition that has none, by hand: records that were acknowledged may be lost.

    An in-sync replica, if one is registered; otherwise ``node_id``, or the first replica that is registered, which is
    then the only member of the in-sync set. Returns the refusal, with Kafka's codes.
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
    """The same object if nothing is different."""
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
