"""Metrics of replicas: partitions that lag, partitions without a leader, and changes of in-sync sets and leaders."""

from __future__ import annotations

from collections.abc import Iterator

from semel.broker.cluster.membership import Membership
from semel.broker.node import Node
from semel.broker.replication.replicas import Replicas
from semel.replication.replica_set import ReplicaSet


def measure_replicas(node: Node, replicas: Replicas, membership: Membership) -> None:
    """Add the metrics of replicas to the broker's metrics page."""
    metrics = node.metrics

    def led() -> Iterator[ReplicaSet]:
        return (partition.replicas for partition in node.partitions if partition.replicas is not None)

    metrics.gauge(
        "semel_partitions_under_replicated",
        "Partitions led here of which not all replicas are in sync.",
        lambda: sum(len(one.isr) < one.replica_count for one in led()),
    )
    metrics.gauge(
        "semel_partitions_under_min_isr",
        "Partitions led here that take no writes with acks=all: fewer are in sync than min.insync.replicas.",
        lambda: sum(not one.has_enough for one in led()),
    )
    metrics.gauge(
        "semel_partitions_leaderless",
        "Partitions of the cluster that no registered broker leads, as this broker knows it.",
        lambda: sum(node.image.leader(one) is None for topic in node.image.topics.values() for one in topic.partitions),
    )
    metrics.gauge(
        "semel_replication_lag_max",
        "Of the partition led here where it is most: offsets that an in-sync follower does not have yet.",
        lambda: max(
            (
                partition.log.log_end_offset - partition.replicas.offset_of(replica)
                for partition in node.partitions
                if partition.replicas is not None
                for replica in partition.replicas.isr
                if replica != node.config.node_id
            ),
            default=0,
        ),
    )
    metrics.gauge("semel_partitions_followed", "Partitions that this broker copies.", lambda: replicas.followed_count)
    metrics.gauge(
        "semel_cluster_member", "1 while this broker is a member of the cluster.", lambda: float(node.is_member)
    )
    metrics.gauge(
        "semel_zookeeper_connected",
        "1 while this broker's session with ZooKeeper is neither suspended nor lost.",
        lambda: float(membership.is_connected),
    )
    metrics.read_counter(
        "semel_isr_changes_total",
        "Changes of in-sync sets that this broker committed.",
        lambda: replicas.in_sync.changes,
    )
    metrics.read_counter(
        "semel_elections_total", "Partitions that this broker gave another leader.", lambda: replicas.elections.held
    )
    node.partitions.observe_confirmation = metrics.histogram(
        "semel_confirmation_seconds", "Time until the other in-sync replicas have confirmed a coordinator's term."
    ).observe
