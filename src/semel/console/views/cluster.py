"""The page of the brokers, their replicas and disks, and of partitions without a leader or an in-sync replica."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from semel.admin import BrokerDescription, LogDir
from semel.console import cached_requests
from semel.console.connections import Connection
from semel.console.pages import Page, Visit
from semel.console.paging import matches, sliced
from semel.errors import KafkaError


@dataclass(frozen=True, slots=True)
class BrokerRow:
    broker_id: int
    broker: BrokerDescription | None
    """The broker's description; ``None`` for a broker that has replicas and is not registered in the cluster."""
    leads: int
    replicas: int
    in_sync: int
    log_dirs: tuple[LogDir, ...] | None


def cluster(visit: Visit) -> Page:
    connection = visit.connection
    found = cached_requests.cluster(connection)
    described = cached_requests.all_described(connection)
    states = [(topic.name, state) for _, topic in sorted(described.items()) for state in topic.partitions]
    leads = Counter(state.leader for _, state in states if state.leader is not None)
    replicas = Counter(replica for _, state in states for replica in state.replicas)
    in_sync = Counter(replica for _, state in states for replica in state.in_sync)
    known = {broker.broker_id: broker for broker in found.brokers}
    disks = _disks(connection)
    lacking = [
        (topic, state)
        for topic, state in states
        if (state.leader is None or len(state.in_sync) < len(state.replicas)) and matches(visit, topic)
    ]
    features = connection.answers.get("features", 30.0, connection.admin.cluster.features)
    values = {
        "cluster": found,
        "brokers": [
            BrokerRow(node, known.get(node), leads[node], replicas[node], in_sync[node], disks.get(node))
            for node in sorted({*known, *replicas})
        ],
        "features": sorted(features.finalized.items()),
        "partition_count": len(states),
        "lacking": sliced(visit, "cluster", lacking),
        "query": visit.query.get("q", ""),
    }
    return Page("cluster.html", "Cluster", "cluster", values, live_every_s=3.0)


def _disks(connection: Connection) -> dict[int, tuple[LogDir, ...]]:
    """Return the log directories of each broker that answers; empty for a user without DESCRIBE on the cluster."""

    def ask() -> dict[int, tuple[LogDir, ...]]:
        try:
            answers = connection.admin.cluster.log_dirs().succeeded
        except KafkaError:
            return {}
        return {broker: tuple(log_dirs.values()) for broker, log_dirs in answers.items()}

    every_s = max(15.0, cached_requests.partition_count(connection) / cached_requests.PARTITIONS_PER_S)
    return connection.answers.get("disks", every_s, ask)
