"""What a cluster with replicas has besides: three brokers or five, more faults, observers, and laws for peace."""

from __future__ import annotations

from collections import Counter
from enum import StrEnum

from semel.testing.simulation import Simulation
from semel.types import TopicPartition
from tests.simulation.cluster_faults import Torment
from tests.simulation.replica_faults import ReplicaTorment
from tests.simulation.replica_laws import assert_deleted_topics_are_gone, until_committed, until_replicas_agree
from tests.simulation.replica_observers import Observers
from tests.simulation.served_cluster import REPLICATED, ServedCluster

COMPACTED = {
    "transaction_state_log_segment_bytes": "2000",
    "offsets_topic_segment_bytes": "2000",
    "log_cleaner_backoff_ms": "300",
    "log_cleaner_min_cleanable_ratio": "0.01",
}


class CompactionFault(StrEnum):
    COMPACTED = "internal topic compacted"


class ReplicatedCluster:
    """``compacts``: whether the internal topics are compacted all the while."""

    def __init__(self, simulation: Simulation, *, compacts: bool) -> None:
        self._simulation = simulation
        self._compacts = compacts
        self._cluster: ServedCluster | None = None
        self._observers: Observers | None = None
        self._peace_since_s = 0.0

    @property
    def cluster(self) -> ServedCluster:
        assert self._cluster is not None
        return self._cluster

    def made(self, **settings: str) -> ServedCluster:
        random = self._simulation.random("replicated cluster")
        settings |= REPLICATED
        settings["replica_lag_time_max_ms"] = random.choice(("1000", "3000", "10000"))
        if self._compacts:
            settings |= COMPACTED
        brokers = 5 if random.random() < 0.25 else 3
        self._cluster = ServedCluster(self._simulation, brokers=brokers, servers=3, **settings)
        return self._cluster

    def torment(self, faults: Counter[StrEnum], *, of: str, partitions: list[TopicPartition]) -> Torment:
        """The observers begin, too."""
        self._observers = Observers(self._simulation, self.cluster, partitions)
        return ReplicaTorment(self._simulation, self.cluster, faults, of=of, topic=partitions[0].topic)

    def has_peace(self) -> None:
        """There are no faults any more."""
        self._peace_since_s = self._simulation.loop.time()

    async def until_committed(self, partitions: list[TopicPartition]) -> None:
        await until_committed(self.cluster, partitions, peace_since_s=self._peace_since_s)

    async def check(self, faults: Counter[StrEnum]) -> None:
        assert self._observers is not None
        self.cluster.in_sync_laws.check()
        await self._observers.finish()
        await until_replicas_agree(self.cluster, peace_since_s=self._peace_since_s)
        assert_deleted_topics_are_gone(self.cluster)
        for member in self.cluster.brokers.values():
            cleaner = member.broker.node.cleaner
            faults[CompactionFault.COMPACTED] += 0 if cleaner is None else cleaner.statistics.passes
