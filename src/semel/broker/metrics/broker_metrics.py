"""Metrics that are read from the parts of a broker when a scrape asks for them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from semel.broker.network.server import Server
from semel.broker.node import Node
from semel.coordinator.group.kinds import STATE_NAMES, GroupKind

if TYPE_CHECKING:
    from semel.broker.metrics.transaction_metrics import TransactionMetrics


def measure(node: Node, server: Server) -> None:
    """Add the metrics of the parts of the broker to its metrics page."""
    metrics, sync = node.metrics, node.logs.statistics
    metrics.gauge("semel_connections", "Connections that are open.", lambda: len(server.connections))
    metrics.gauge(
        "semel_arriving_request_bytes", "Memory of large requests that arrive.", lambda: server.memory.used_bytes
    )
    metrics.gauge(
        "semel_unread_response_bytes", "Memory of answers that clients read.", lambda: server.responses.used_bytes
    )
    metrics.gauge("semel_topics", "Topics that exist.", lambda: len(node.image.topics))
    metrics.gauge("semel_partitions", "Partitions that this broker serves.", lambda: len(node.partitions))
    metrics.gauge(
        "semel_partitions_offline",
        "Partitions that serve nothing: they met a disk error, or their files are damaged.",
        lambda: (
            len(node.partitions.unavailable) + sum(partition.log.offline is not None for partition in node.partitions)
        ),
    )
    metrics.gauge(
        "semel_producers",
        "Idempotent producers remembered, summed over partitions.",
        lambda: sum(partition.log.producers.producer_count for partition in node.partitions),
    )

    def of_transactions(read: Callable[[TransactionMetrics], float]) -> Callable[[], float]:
        return lambda: 0 if node.active_coordinators is None else read(node.active_coordinators.transaction_metrics)

    metrics.gauge(
        "semel_transactions_open",
        "Transactions that are undecided, or whose markers are owed.",
        of_transactions(lambda transactions: transactions.open_count()),
    )
    metrics.gauge(
        "semel_transaction_oldest_seconds",
        "For how long the oldest of them has been open: it holds read_committed readers back.",
        of_transactions(lambda transactions: transactions.oldest_seconds()),
    )
    metrics.gauge(
        "semel_transactional_ids",
        "Transactional ids that this broker coordinates.",
        of_transactions(lambda transactions: transactions.known_ids()),
    )
    metrics.gauge(
        "semel_last_stable_offset_lag_max",
        "Of the partition where it is most: offsets that read_committed readers may not see yet.",
        lambda: max((p.log.high_watermark - p.log.last_stable_offset for p in node.partitions), default=0),
    )
    _measure_groups(node)
    metrics.gauge("semel_fetch_sessions", "Incremental fetch sessions.", lambda: len(node.sessions))
    metrics.read_counter(
        "semel_fetch_sessions_evicted_total", "Fetch sessions that made room.", lambda: node.sessions.evictions
    )
    metrics.gauge(
        "semel_waiting_requests", "Requests that wait for the disk or for records.", lambda: len(node.deadlines)
    )
    metrics.gauge(
        "semel_loop_longest_turn_seconds",
        "The longest time since the last scrape in which the event loop served nothing else.",
        node.turns.longest_seconds,
    )
    metrics.read_counter(
        "semel_loop_turns_too_long_total", "Turns of the event loop over 50 ms.", lambda: node.turns.too_long
    )
    metrics.read_counter("semel_syncs_total", "Calls that made writes durable.", lambda: sync.syncs)
    metrics.read_counter("semel_commit_groups_total", "Group commits.", lambda: sync.groups)
    metrics.read_counter("semel_commit_bytes_total", "Bytes made durable by group commits.", lambda: sync.bytes)
    sync.observe = metrics.histogram("semel_sync_seconds", "Time of one group commit.").observe


def _measure_groups(node: Node) -> None:
    def count(kind: GroupKind, state_name: str) -> float:
        coordinators = node.active_coordinators
        return 0 if coordinators is None else coordinators.group_metrics.count(kind, state_name)

    def members(kind: GroupKind) -> float:
        coordinators = node.active_coordinators
        return 0 if coordinators is None else coordinators.group_metrics.members(kind)

    for kind, state_names in STATE_NAMES.items():
        for state_name in state_names:
            node.metrics.gauge(
                "semel_groups",
                "Groups that this broker coordinates, those that only store offsets excepted.",
                partial(count, kind, state_name),
                type=kind,
                state=state_name,
            )
    for kind in STATE_NAMES:
        node.metrics.gauge(
            "semel_group_members", "Members of groups that this broker coordinates.", partial(members, kind), type=kind
        )
