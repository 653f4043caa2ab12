"""Clients that see whether the cluster tells anything that is old: ends of partitions, and committed offsets.

They ask every broker, whatever the metadata say, and hold an answer against what was told before they asked.
"""

from __future__ import annotations

import asyncio
from random import Random

from semel.errors import ErrorCode
from semel.net.network import Network
from semel.testing.simulation import Simulation
from semel.types import TopicPartition
from semel.wire.apis import ApiKey
from semel.wire.messages.list_offsets import LATEST, ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from semel.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from semel.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from tests.simulation.served_cluster import PORT, ServedCluster
from tests.simulation.wire_client import WireClient

OBSERVERS = "observers"
"""Their host. What they send is neither delayed nor repeated, so that what they were told is in order."""
GROUPS = 4


class Observers:
    """``partitions``: those whose ends are watched."""

    def __init__(self, simulation: Simulation, cluster: ServedCluster, partitions: list[TopicPartition]) -> None:
        self._cluster = cluster
        self._partitions = partitions
        self._random: Random = simulation.random("observers")
        self._ends: dict[tuple[TopicPartition, int], tuple[int, int]] = {}
        self._groups = [_Group(f"observed-{number}") for number in range(GROUPS)]
        self.ends_seen = self.offsets_seen = 0
        host = simulation.host(OBSERVERS)
        self._tasks = [host.start(self._watch_ends(host.network)), host.start(self._watch_groups(host.network))]
        self._is_over = False

    async def finish(self) -> None:
        """Raises what they have seen, and asserts that they have seen something."""
        self._is_over = True
        await asyncio.gather(*self._tasks)
        assert self.ends_seen, "no broker has told an end"
        assert self.offsets_seen, "no broker has told a committed offset"

    # Ends

    async def _watch_ends(self, network: Network) -> None:
        clients = _clients(self._cluster, network)
        while not self._is_over:
            await asyncio.sleep(self._random.uniform(0.05, 0.3))
            isolation = self._random.randrange(2)
            asking = [self._ask_ends(client, isolation) for client in clients]
            await asyncio.gather(*asking)
        _close(clients)

    async def _ask_ends(self, client: WireClient, isolation: int) -> None:
        """As a client that remembers the newest leader epoch it was told: no older leader answers it."""
        before = {partition: self._ends.get((partition, isolation), (-1, 0)) for partition in self._partitions}
        topics: dict[str, ListOffsetsTopic] = {}
        for partition, (epoch, _) in before.items():
            asked = ListOffsetsPartition(partition.partition, None if epoch < 0 else epoch, LATEST)
            topics.setdefault(partition.topic, ListOffsetsTopic(partition.topic, [])).partitions.append(asked)
        request = ListOffsetsRequest(isolation_level=isolation, topics=list(topics.values()))
        try:
            answer = await client.call(ApiKey.LIST_OFFSETS, 5, request)
        except (OSError, TimeoutError):
            return
        for topic in answer.topics:
            for told in topic.partitions:
                partition = TopicPartition(topic.name, told.partition_index)
                if told.error_code == ErrorCode.FENCED_LEADER_EPOCH:
                    # There is a newer one; what its epoch is, is found by asking.
                    epoch, end = self._ends[partition, isolation]
                    self._ends[partition, isolation] = (max(epoch, before[partition][0] + 1), end)
                elif told.error_code == ErrorCode.NONE:
                    self._told_end(partition, isolation, before[partition][1], told.leader_epoch or 0, told.offset)

    def _told_end(self, partition: TopicPartition, isolation: int, at_least: int, epoch: int, end: int) -> None:
        self.ends_seen += 1
        assert end >= at_least, f"the end of {partition} (isolation {isolation}) was {at_least} and is {end} now"
        known_epoch, known_end = self._ends.get((partition, isolation), (-1, 0))
        self._ends[partition, isolation] = (max(known_epoch, epoch), max(known_end, end))

    # Committed offsets

    async def _watch_groups(self, network: Network) -> None:
        clients = _clients(self._cluster, network)
        while not self._is_over:
            await asyncio.sleep(self._random.uniform(0.05, 0.3))
            await asyncio.gather(*(self._work_on(group, clients) for group in self._groups))
        _close(clients)

    async def _work_on(self, group: _Group, clients: list[WireClient]) -> None:
        acknowledged = group.acknowledged
        asking = [self._ask_offset(group, client, acknowledged) for client in clients]
        await asyncio.gather(self._commit(group, self._random.choice(clients)), *asking)

    async def _commit(self, group: _Group, client: WireClient) -> None:
        group.last += 1
        offset = group.last
        group.unknown.add(offset)
        partition = self._partitions[0]
        asked = OffsetCommitRequestPartition(partition.partition, offset, None, None)
        topic = OffsetCommitRequestTopic(name=partition.topic, partitions=[asked])
        try:
            answer = await client.call(
                ApiKey.OFFSET_COMMIT,
                8,
                OffsetCommitRequest(group_id=group.name, member_id="", topics=[topic]),
            )
        except (OSError, TimeoutError):
            return
        if answer.topics[0].partitions[0].error_code == ErrorCode.NONE:
            group.unknown.discard(offset)
            group.acknowledged = offset

    async def _ask_offset(self, group: _Group, client: WireClient, acknowledged: int) -> None:
        partition = self._partitions[0]
        asked = [OffsetFetchRequestTopic(partition.topic, [partition.partition])]
        try:
            answer = await client.call(ApiKey.OFFSET_FETCH, 7, OffsetFetchRequest(group.name, asked))
        except (OSError, TimeoutError):
            return
        if answer.error_code != ErrorCode.NONE or answer.topics[0].partitions[0].error_code != ErrorCode.NONE:
            return
        self.offsets_seen += 1
        found = answer.topics[0].partitions[0].committed_offset
        assert found in group.unknown or (-1 if found is None else found) >= acknowledged, (
            f"group {group.name} was told offset {found}, after {acknowledged} was acknowledged"
        )


class _Group:
    """A group without members. Each commit is higher than those before it, and one is asked for at a time.

    ``unknown`` are those of which no broker has said that they are committed: each of them may be carried out late.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.last = 0
        self.unknown: set[int] = set()
        self.acknowledged = -1


def _clients(cluster: ServedCluster, network: Network) -> list[WireClient]:
    return [WireClient(network, f"broker-{node_id}", PORT, timeout_s=1.0) for node_id in cluster.brokers]


def _close(clients: list[WireClient]) -> None:
    for client in clients:
        client.close()
