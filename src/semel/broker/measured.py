"""What is measured without anybody counting: numbers that the parts of a broker hold anyway."""

from __future__ import annotations

from semel.broker.node import Node
from semel.broker.server import Server


def measure(node: Node, server: Server) -> None:
    """Put the broker's own numbers on its metrics page."""
    metrics, sync = node.metrics, node.logs.statistics
    metrics.gauge("semel_connections", "Connections that are open.", lambda: len(server.connections))
    metrics.gauge("semel_topics", "Topics that exist.", lambda: len(node.image.topics))
    metrics.gauge("semel_partitions", "Partitions that this broker serves.", lambda: len(node.partitions))
    metrics.gauge(
        "semel_partitions_offline",
        "Partitions that met a disk error and serve nothing until a restart.",
        lambda: sum(partition.log.offline is not None for partition in node.partitions),
    )
    metrics.gauge(
        "semel_producers",
        "Idempotent producers remembered, summed over partitions.",
        lambda: sum(len(partition.log.describe_producers()) for partition in node.partitions),
    )
    metrics.gauge("semel_fetch_sessions", "Incremental fetch sessions.", lambda: len(node.sessions))
    metrics.read_counter(
        "semel_fetch_sessions_evicted_total", "Fetch sessions that made room.", lambda: node.sessions.evictions
    )
    metrics.gauge(
        "semel_waiting_requests", "Requests that wait for the disk or for records.", lambda: len(node.deadlines)
    )
    metrics.read_counter("semel_syncs_total", "Calls that made writes durable.", lambda: sync.syncs)
    metrics.read_counter("semel_commit_groups_total", "Group commits.", lambda: sync.groups)
    metrics.read_counter("semel_commit_bytes_total", "Bytes made durable by group commits.", lambda: sync.bytes)
    sync.observe = metrics.histogram("semel_sync_seconds", "Time of one group commit.").observe
