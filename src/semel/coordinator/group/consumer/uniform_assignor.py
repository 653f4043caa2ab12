"""The ``uniform`` assignor: every member gets the same number of partitions, and as few as possible move.

With equal subscriptions no member has two more than another, and only the surplus moves. With unequal subscriptions a
member's partition can only move to a subscriber of its topic: so partitions move along chains of members, as long as
the last member of a chain has at least two fewer than the first one. In the end no assignment is better balanced.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from heapq import heapreplace
from itertools import zip_longest
from uuid import UUID

from semel.coordinator.group.consumer.assignor import Subscriber, partitions_of, subscribers_of_topics
from semel.coordinator.group.consumer.records import AssignedPartition, Partitions


def assign_uniform(
    subscribers: Mapping[str, Subscriber], partition_counts: Mapping[UUID, int]
) -> dict[str, Partitions]:
    if not subscribers:
        return {}
    members = sorted(subscribers)
    by_topic = subscribers_of_topics(subscribers, partition_counts, members)
    kept, unassigned = _kept(subscribers, partition_counts, by_topic, members)
    if all(len(of_topic) == len(members) for of_topic in by_topic.values()):
        _level(kept, unassigned)
    else:
        _assign_unassigned(kept, unassigned, by_topic)
        _balance(kept, by_topic)
    return {member_id: frozenset(partitions) for member_id, partitions in kept.items()}


def _kept(
    subscribers: Mapping[str, Subscriber],
    partition_counts: Mapping[UUID, int],
    by_topic: Mapping[UUID, list[str]],
    members: list[str],
) -> tuple[dict[str, list[AssignedPartition]], list[AssignedPartition]]:
    """Return the partitions of its previous target that each member keeps, and those that then have no owner."""
    owned: set[AssignedPartition] = set()
    kept: dict[str, list[AssignedPartition]] = {}
    for member_id in members:
        subscriber = subscribers[member_id]
        kept[member_id] = mine = []
        for partition in sorted(subscriber.target, key=_order):
            topic_id, index = partition
            exists = index < partition_counts.get(topic_id, 0) and topic_id in subscriber.topics
            if exists and partition not in owned:
                owned.add(partition)
                mine.append(partition)
    # Sorted by partition, not by topic, so that a topic's partitions go to different members.
    columns = [partitions_of(topic_id, partition_counts[topic_id]) for topic_id, users in by_topic.items() if users]
    rows = zip_longest(*columns)
    return kept, [each for row in rows for each in row if each is not None and each not in owned]


def _level(kept: dict[str, list[AssignedPartition]], unassigned: list[AssignedPartition]) -> None:
    """Equal subscriptions: take the surplus from members above the quota, then give partitions to those below it."""
    quota, larger = divmod(len(unassigned) + sum(map(len, kept.values())), len(kept))
    for mine in kept.values():
        if len(mine) > quota and larger > 0:
            larger -= 1
            unassigned += _cut(mine, quota + 1)
        else:
            unassigned += _cut(mine, quota)
    queue = deque(unassigned)
    # First every member gets up to the quota, in turn; the rest goes to members that have exactly the quota.
    below_quota = deque(mine for mine in kept.values() if len(mine) < quota)
    while below_quota:
        mine = below_quota.popleft()
        mine.append(queue.popleft())
        if len(mine) < quota:
            below_quota.append(mine)
    for mine in kept.values():
        if queue and len(mine) == quota:
            mine.append(queue.popleft())
    assert not queue, "a partition without an owner"


def _cut(mine: list[AssignedPartition], size: int) -> list[AssignedPartition]:
    surplus = mine[size:]
    del mine[size:]
    return surplus


def _assign_unassigned(
    kept: dict[str, list[AssignedPartition]],
    unassigned: list[AssignedPartition],
    by_topic: Mapping[UUID, list[str]],
) -> None:
    """Unequal subscriptions: assign partitions without an owner, each to the subscriber that has the fewest.

    Partitions with the fewest subscribers come first.
    """
    # A heap of the subscribers, with the numbers of partitions that they had when they were last looked at. Topics with
    # the same subscribers share it.
    heaps: dict[tuple[str, ...], list[tuple[int, str]]] = {}
    of_topic: dict[UUID, list[tuple[int, str]]] = {}
    for partition in sorted(unassigned, key=lambda each: len(by_topic[each.topic_id])):
        heap = of_topic.get(partition.topic_id)
        if heap is None:
            takers = tuple(by_topic[partition.topic_id])
            heap = of_topic[partition.topic_id] = heaps.setdefault(takers, [(0, taker) for taker in sorted(takers)])
        size, taker = heap[0]
        while size < len(kept[taker]):
            heapreplace(heap, (len(kept[taker]), taker))
            size, taker = heap[0]
        kept[taker].append(partition)


def _balance(kept: dict[str, list[AssignedPartition]], by_topic: Mapping[UUID, list[str]]) -> None:
    """Move partitions away from the members that have the most.

    Every chain makes the sum of the squared numbers of partitions smaller, so this ends.
    """
    stuck: set[str] = set()
    while True:
        able = [member_id for member_id in kept if member_id not in stuck]
        if not able:
            return
        most_loaded = max(able, key=lambda member_id: (len(kept[member_id]), member_id))
        came_from, end = _chain(most_loaded, kept, by_topic)
        if end is None:
            # The members that were reached are stuck, too: they have no more than this one, and reach no others.
            stuck.add(most_loaded)
            stuck.update(came_from)
            continue
        for giver, partition, taker in _moves(most_loaded, end, came_from):
            kept[giver].remove(partition)
            kept[taker].append(partition)


def _chain(
    start: str, kept: Mapping[str, list[AssignedPartition]], by_topic: Mapping[UUID, list[str]]
) -> tuple[dict[str, tuple[str, AssignedPartition]], str | None]:
    """Find the shortest chain of moves from ``start`` to a member with at least two partitions fewer.

    Returns the members that were reached, each with the giver and the partition of the move by which it was reached;
    and the last member of the chain, or ``None`` if there is no chain.
    """
    came_from: dict[str, tuple[str, AssignedPartition]] = {}
    explored: set[UUID] = set()
    queue = deque([start])
    while queue:
        giver = queue.popleft()
        for partition in kept[giver]:
            if partition.topic_id in explored:
                continue  # Its subscribers were reached already.
            explored.add(partition.topic_id)
            for taker in by_topic[partition.topic_id]:
                if taker == start or taker in came_from:
                    continue
                came_from[taker] = giver, partition
                if len(kept[taker]) <= len(kept[start]) - 2:
                    return came_from, taker
                queue.append(taker)
    return came_from, None


def _moves(
    start: str, end: str, came_from: Mapping[str, tuple[str, AssignedPartition]]
) -> list[tuple[str, AssignedPartition, str]]:
    moves = []
    while end != start:
        giver, partition = came_from[end]
        moves.append((giver, partition, end))
        end = giver
    return moves


def _order(partition: AssignedPartition) -> tuple[int, int]:
    return partition.topic_id.int, partition.partition
