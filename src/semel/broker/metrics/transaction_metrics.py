"""Metrics of transactions: how many are open, and since when. Each read looks at all open transactions."""

from __future__ import annotations

from semel.broker.coordinators.coordinator import Coordinator
from semel.broker.node import Node
from semel.coordinator.transaction.shard import TransactionShard


class TransactionMetrics:
    def __init__(self, node: Node, transactions: Coordinator[TransactionShard]) -> None:
        self._node = node
        self._transactions = transactions

    def open_count(self) -> int:
        return sum(1 for runtime in self._transactions for _ in runtime.shard.open_transactions())

    def oldest_seconds(self) -> float:
        started = (
            transaction.started_ms
            for runtime in self._transactions
            for transaction in runtime.shard.open_transactions()
            if transaction.started_ms is not None
        )
        oldest_ms = min(started, default=None)
        return 0.0 if oldest_ms is None else max(0, self._node.clock.now_ms() - oldest_ms) / 1000

    def known_ids(self) -> int:
        return sum(len(runtime.shard) for runtime in self._transactions)
