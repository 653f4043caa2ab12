"""The placement of the sticky assignors: the load is even, and as few partitions as possible move.

Topics that have the same subscribers are one pool: nothing else decides where a partition of it may go. First every
member keeps what it had; then each partition without an owner goes to the member that has the fewest; then, as long as
a member has at least two more than another one that could take one of them, the member that has the most gives one up.

The laws, Kafka's for its sticky assignors: at the end no member has two more than another that could take one. If all
subscribe to the same topics, the loads differ by one at most, and no placement that is as even moves fewer partitions:
the member that has the most gives to the one that has the fewest, so every move is needed.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping

from semel.client.assignors.assignor import Subscriptions, in_order
from semel.types import TopicPartition


def place(
    partition_counts: Mapping[str, int],
    subscriptions: Subscriptions,
    owners: Mapping[TopicPartition, str],
) -> dict[str, list[TopicPartition]]:
    """Return the partitions of every member. ``owners`` are the previous ones, as far as they can keep a partition."""
    members = in_order(subscriptions)
    pools = _pools(partition_counts, subscriptions, members)
    load = dict.fromkeys(members, 0)
    for pool in pools:
        for member_id in pool.keep(owners):
            load[member_id] += 1
    for pool in pools:
        pool.fill(load)
    _balance(pools, load)
    return {
        member_id: [partition for pool in pools for partition in pool.held.get(member_id, ())] for member_id in members
    }


class _Pool:
    """Topics with the same subscribers, and what each member holds of them: first what it kept, then what it got."""

    def __init__(self, subscribers: tuple[str, ...]) -> None:
        self.subscribers = subscribers
        self.free: list[TopicPartition] = []
        self.held: dict[str, list[TopicPartition]] = {member_id: [] for member_id in subscribers}

    def keep(self, owners: Mapping[TopicPartition, str]) -> list[str]:
        """Leave partitions with their previous owners. Returns the owner of each partition that was kept."""
        kept: list[str] = []
        free: list[TopicPartition] = []
        for partition in self.free:
            owner = owners.get(partition)
            if owner in self.held:
                self.held[owner].append(partition)
                kept.append(owner)
            else:
                free.append(partition)
        self.free = free
        return kept

    def fill(self, load: dict[str, int]) -> None:
        least = [(load[member_id], rank, member_id) for rank, member_id in enumerate(self.subscribers)]
        heapq.heapify(least)
        for partition in self.free:
            count, rank, member_id = least[0]
            self.held[member_id].append(partition)
            load[member_id] = count + 1
            heapq.heapreplace(least, (count + 1, rank, member_id))
        self.free = []


def _pools(partition_counts: Mapping[str, int], subscriptions: Subscriptions, members: list[str]) -> list[_Pool]:
    """Return the pools, those with few subscribers first: the later ones can still even out the load."""
    subscribers: dict[str, list[str]] = {}
    for member_id in members:
        for topic in dict.fromkeys(subscriptions[member_id].topics):
            subscribers.setdefault(topic, []).append(member_id)
    pools: dict[tuple[str, ...], _Pool] = {}
    for topic in sorted(subscribers):
        audience = tuple(subscribers[topic])
        pool = pools.setdefault(audience, _Pool(audience))
        pool.free += (TopicPartition(topic, partition) for partition in range(partition_counts.get(topic, 0)))
    return sorted(pools.values(), key=lambda pool: len(pool.subscribers))


def _balance(pools: list[_Pool], load: dict[str, int]) -> None:
    # This ends, because every move makes the sum of the squares of all loads smaller.
    while load and max(load.values()) - min(load.values()) > 1:
        for giver in sorted(load, key=load.__getitem__, reverse=True):
            takers = [(min(pool.subscribers, key=load.__getitem__), pool) for pool in pools if pool.held.get(giver)]
            if not takers:
                continue
            taker, pool = min(takers, key=lambda pair: load[pair[0]])
            if load[giver] - load[taker] > 1:
                pool.held[taker].append(pool.held[giver].pop())
                load[giver] -= 1
                load[taker] += 1
                break
        else:
            return
