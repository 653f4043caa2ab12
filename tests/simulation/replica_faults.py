"""What can happen to replicas, besides all that can happen to a cluster: to disks, to leaders by name, to all at once.

One broker at a time is without its disk, and never the last one that is known to have what was acknowledged.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from dataclasses import replace
from enum import StrEnum
from random import Random
from typing import Final
from zlib import crc32

from semel.errors import ErrorCode
from semel.metadata import paths
from semel.metadata.controller import MetadataDecision
from semel.metadata.image import ClusterImage, PartitionState, TopicAltered
from semel.testing.simulation import Simulation
from semel.testing.virtual.clock import START_MS
from semel.testing.virtual.disk_faults import DiskFault, Operation
from semel.types import CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from semel.wire.apis import ApiKey
from semel.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from semel.wire.messages.delete_topics import DeleteTopicsRequest
from semel.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from semel.wire.records import Record, build_batch
from tests.simulation.cluster_faults import EXPIRED_S, Fault, Torment
from tests.simulation.host_deaths import kill_host
from tests.simulation.served_cluster import ServedCluster, ServedMember

DOOMED: Final = "doomed"
STOP_S_MAX: Final = 12.0
# The rest is what can happen to any cluster.
REPLICA_PROBABILITY: Final = 0.8


class ReplicaFault(StrEnum):
    POWER_CUT = "power of one broker cut"
    POWER_CUT_OF_ALL = "power of all brokers cut"
    DISK_LOST = "broker back with an empty disk"
    DISK_FULL = "disk of a broker full"
    SYNC_FAILED = "sync failed"
    DISK_SLOW = "disk of a broker does not answer"
    CUT_ONE_WAY = "link between two brokers cut in one direction"
    STOPPED = "broker stopped in a controlled way"
    LEADER_KILLED = "leader of a partition killed"
    LEADER_PAUSED = "leader of a partition paused past its session"
    GROUP_COORDINATOR_KILLED = "group coordinator killed"
    TRANSACTION_COORDINATOR_KILLED = "transaction coordinator killed"
    CONTROLLER_KILLED = "controller killed"
    LEADERS_MOVED = "leaders moved to other replicas in sync"
    CLOCK_STEPPED = "clock of a broker set forward or back"
    TOPIC_DELETED = "topic deleted while a replica is away"


FAULTS: Final = (*Fault, *ReplicaFault)


class ReplicaTorment(Torment):
    """``topic``: one of those that the applications use."""

    def __init__(
        self, simulation: Simulation, cluster: ServedCluster, faults: Counter[StrEnum], *, of: str, topic: str
    ) -> None:
        super().__init__(simulation, cluster, faults, of=of)
        self._topic = topic
        self._replica_ways = deque(ReplicaFault)
        # Few seeds meet all of them: each begins elsewhere, in each kind of run.
        self._replica_ways.rotate(-5 * simulation.seed - crc32(of.encode()))

    async def _one(self) -> None:
        if self._random.random() > REPLICA_PROBABILITY:
            await super()._one()
            return
        way = self._replica_ways[0]
        self._replica_ways.rotate(-1)
        if await self._strike(way):
            self._faults[way] += 1

    async def _strike(self, way: ReplicaFault) -> bool:
        """Returns whether it has struck."""
        random = self._random
        member = random.choice(list(self._cluster.brokers.values()))
        match way:
            case ReplicaFault.POWER_CUT:
                member.host.cut_power()
            case ReplicaFault.POWER_CUT_OF_ALL:
                for each in self._cluster.brokers.values():
                    each.host.cut_power()
                await asyncio.sleep(random.choice((0.1, 1.0, EXPIRED_S)))
            case ReplicaFault.DISK_LOST:
                return await self._lose_disk(member)
            case ReplicaFault.DISK_FULL:
                disk = member.host.disk
                disk.capacity_bytes = disk.used_bytes() + random.choice((0, 10, 300, 3000))
                await asyncio.sleep(random.uniform(0.1, 6.0))
                disk.capacity_bytes = None
            case ReplicaFault.SYNC_FAILED:
                return await self._fail_sync(member)
            case ReplicaFault.DISK_SLOW:
                member.host.hang_workers()
                await asyncio.sleep(random.uniform(0.1, 6.0))
                member.host.hang_workers(False)
            case ReplicaFault.CUT_ONE_WAY:
                other = random.choice([one for one in self._cluster.brokers.values() if one is not member])
                self._network.partition_one_way(member.name, other.name)
                await asyncio.sleep(random.uniform(0.1, 6.0))
                self._network.heal(member.name, other.name)
            case ReplicaFault.STOPPED:
                return await self._stop(member)
            case ReplicaFault.LEADER_KILLED:
                return self._kill(self._leader(self._topic), random)
            case ReplicaFault.LEADER_PAUSED:
                leader = self._leader(random.choice((self._topic, CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC)))
                if leader is None:
                    return False
                await self._pause(leader, EXPIRED_S)
            case ReplicaFault.GROUP_COORDINATOR_KILLED:
                return self._kill(self._leader(CONSUMER_OFFSETS_TOPIC), random)
            case ReplicaFault.TRANSACTION_COORDINATOR_KILLED:
                return self._kill(self._leader(TRANSACTION_STATE_TOPIC), random)
            case ReplicaFault.CONTROLLER_KILLED:
                return self._kill(self._controller(), random)
            case ReplicaFault.CLOCK_STEPPED:
                member.host.clock.advance(random.choice((-3_600_000, -5_000, 700, 5_000, 3_600_000)))
            case ReplicaFault.TOPIC_DELETED:
                return await self._delete_topic(member)
            case ReplicaFault.LEADERS_MOVED:
                return await self._move_leaders(member)
        return True

    def _kill(self, member: ServedMember | None, random: Random) -> bool:
        if member is None or not member.host.alive:
            return False
        kill_host(member.host, random.randrange(2), random, operations_max=1)
        return True

    def _leader(self, topic: str) -> ServedMember | None:
        states = self._states(topic)
        leader = self._random.choice(states).leader if states else None
        return None if leader is None else self._cluster.brokers[leader]

    def _controller(self) -> ServedMember | None:
        node = self._cluster.ensemble.tree.nodes.get(paths.CONTROLLER)
        return None if node is None else self._cluster.brokers[int(paths.decode_controller(node.data))]

    def _states(self, topic: str) -> tuple[PartitionState, ...]:
        node = self._cluster.ensemble.tree.nodes.get(paths.topic_path(topic))
        return () if node is None else paths.decode_topic(topic, node.data).partitions

    async def _lose_disk(self, member: ServedMember) -> bool:
        """Dead for longer than its session, and back with nothing."""
        member.host.kill()
        await asyncio.sleep(EXPIRED_S)
        alive = {node_id for node_id, one in self._cluster.brokers.items() if one.host.alive and one is not member}
        topics = self._cluster.ensemble.tree.children(paths.TOPICS)
        states = [state for topic in topics for state in self._states(topic) if member.node_id in state.replicas]
        if not all(alive.intersection(state.isr) for state in states):
            return False  # It may be the last one that has what was acknowledged.
        member.host.disk.kill()
        # A death in one of the next disk operations may be planned, and these are not the broker's.
        member.host.disk.repair()
        member.host.disk.remove_folder("/data")
        member.host.disk.sync_directory("/")
        return True

    async def _fail_sync(self, member: ServedMember) -> bool:
        """Logs are offline until the broker starts again, if it was one of theirs or the journal's."""
        fault = DiskFault(Operation.SYNC)
        member.host.disk.fail(fault)
        await asyncio.sleep(self._random.uniform(0.1, 4.0))
        member.host.disk.repair()
        member.host.kill()
        return fault.times == 0

    async def _stop(self, member: ServedMember) -> bool:
        if not member.is_up:
            return False
        stopping = member.host.start(member.broker.stop())
        await asyncio.wait([stopping], timeout=STOP_S_MAX)
        has_stopped = stopping.done() and stopping.exception() is None
        member.host.kill()
        return has_stopped

    async def _delete_topic(self, away: ServedMember) -> bool:
        """A replica that was away finds, when it is back, that its topic is gone."""
        name = f"{DOOMED}-{self._random.randrange(10**6)}"
        asked = next(member for member in self._cluster.brokers.values() if member is not away)
        client = self._cluster.client(asked.node_id)
        deleted = False
        try:
            async with asyncio.timeout(10):
                wanted = CreatableTopic(name=name, num_partitions=3, replication_factor=self._cluster.replicas)
                made = await client.call(
                    ApiKey.CREATE_TOPICS, 5, CreateTopicsRequest(topics=[wanted], timeout_ms=5_000)
                )
                if made.topics[0].error_code != ErrorCode.NONE:
                    return False  # Too few brokers are there.
                await client.call(ApiKey.PRODUCE, 9, _one_record_for_each_of(name))
                away.host.kill()
                answer = await client.call(ApiKey.DELETE_TOPICS, 5, DeleteTopicsRequest(topic_names=[name]))
                deleted = answer.responses[0].error_code == ErrorCode.NONE
        except (OSError, TimeoutError):
            pass
        finally:
            client.close()
        return deleted

    async def _move_leaders(self, deciding: ServedMember) -> bool:
        """Of all partitions at once, as a person may ask for it, while the leaders are alive."""
        if not deciding.is_up:
            return False
        moving = deciding.host.start(deciding.broker.node.cluster.change(_all_moved))
        await asyncio.wait([moving], timeout=10)
        return moving.done() and not moving.cancelled() and moving.exception() is None and bool(moving.result().changes)


def _all_moved(image: ClusterImage) -> MetadataDecision[None]:
    """Each partition that another replica could lead is led by that one, under the next epoch."""

    def moved(state: PartitionState) -> PartitionState:
        others = [replica for replica in state.isr if replica != state.leader and replica in image.brokers]
        if not others:
            return state
        newer = replace(state, leader_epoch=state.leader_epoch + 1, partition_epoch=state.partition_epoch + 1)
        return replace(newer, leader=others[0])

    altered = (replace(topic, partitions=tuple(map(moved, topic.partitions))) for topic in image.topics.values())
    return MetadataDecision(tuple(TopicAltered(topic) for topic in altered if topic != image.topics[topic.name]), ())


def _one_record_for_each_of(topic: str) -> ProduceRequest:
    batch = build_batch([Record(0, START_MS, None, b"doomed")])
    data = [PartitionProduceData(index, batch) for index in range(3)]
    return ProduceRequest(acks=-1, timeout_ms=500, topic_data=[TopicProduceData(name=topic, partition_data=data)])
