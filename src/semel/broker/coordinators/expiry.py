"""The periodic tasks of the coordinators: abort transactions that have timed out, remove expired ids and offsets.

Timers of the event loop start each task. A sweep (one run of a task) handles a part of one shard in each turn of the
loop, so that no request waits for long. If a sweep fails, that is logged, and the next sweep tries again.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any, Final

from semel.broker.coordinators.coordinator import Coordinator
from semel.broker.coordinators.shard_runtime import ShardRuntime
from semel.broker.node import Node
from semel.coordinator.decision import Decision
from semel.coordinator.group.shard import GroupShard
from semel.coordinator.moment import Moment
from semel.coordinator.transaction.shard import TransactionShard
from semel.metadata.image import Topic

logger = logging.getLogger("semel.broker")

IDS_PER_TURN: Final = 1000


class CoordinatorExpiry:
    def __init__(
        self,
        node: Node,
        loop: asyncio.AbstractEventLoop,
        transactions: Coordinator[TransactionShard],
        groups: Coordinator[GroupShard],
    ) -> None:
        self._node = node
        self._loop = loop
        self._transactions = transactions
        self._groups = groups
        self._timers: dict[str, asyncio.Handle] = {}

    def start(self) -> None:
        config = self._node.config
        self._later("timeouts", config.transaction_abort_timed_out_transaction_cleanup_interval_ms, self._timeouts)
        self._later("ids", config.transaction_remove_expired_transaction_cleanup_interval_ms, self._expired_ids)
        self._later("offsets", config.offsets_retention_check_interval_ms, self._expired_offsets)

    def stop(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def forget_topic(self, topic: Topic) -> None:
        """Delete the committed offsets of a topic that was deleted, some of them in each turn of the event loop."""
        turns = self._node.turns
        # What is committed from now on is for another topic of this name.
        shards = deque(
            (
                runtime,
                runtime.shard.offsets.delete_topic(topic.name, topic.id, below=runtime.partition.log.log_end_offset),
            )
            for runtime in self._groups
            if runtime.refusal is None
        )

        def forget_some() -> None:
            while shards:
                runtime, decisions = shards[0]
                decision = next(decisions, None) if runtime.refusal is None else None
                if decision is not None and runtime.apply(decision):
                    turns.worked(len(decision.records))
                    turns.soon(forget_some)
                    return
                shards.popleft()

        if shards:
            turns.soon(forget_some)

    def _timeouts(self) -> Iterator[None]:
        for runtime in self._transactions:
            applied = True
            while runtime.refusal is None and applied:
                decisions = list(islice(runtime.shard.time_out(Moment.now(self._node.clock)), IDS_PER_TURN))
                for decision in decisions:
                    logger.info("the transaction of %s has timed out and is aborted", decision.response)
                applied = bool(decisions) and _apply(runtime, decisions)
                yield

    def _expired_ids(self) -> Iterator[None]:
        for runtime in self._transactions:
            for _ in range(0, len(runtime.shard), IDS_PER_TURN):
                if runtime.refusal is None:
                    _apply(runtime, runtime.shard.expire(self._node.clock.now_ms(), examined_max=IDS_PER_TURN))
                yield

    def _expired_offsets(self) -> Iterator[None]:
        for runtime in self._groups:
            now_ms = self._node.clock.now_ms()
            offsets, applied = runtime.shard.offsets, True
            offsets.sweep_begins(now_ms)
            while runtime.refusal is None and applied and offsets.is_due(now_ms):
                applied = _apply(runtime, offsets.expire(now_ms, examined_max=IDS_PER_TURN))
                yield

    def _later(self, name: str, interval_ms: int, sweep: Callable[[], Iterator[None]]) -> None:
        def begin() -> None:
            go_on(sweep())

        def go_on(pieces: Iterator[None]) -> None:
            try:
                next(pieces)
            except StopIteration:
                self._later(name, interval_ms, sweep)
            except Exception:
                logger.exception("the sweep of %s failed", name)
                self._later(name, interval_ms, sweep)
            else:
                self._timers[name] = self._loop.call_soon(go_on, pieces)

        self._timers[name] = self._loop.call_later(interval_ms / 1000, begin)


def _apply(runtime: ShardRuntime[Any], decisions: Iterable[Decision[Any, Any, Any]]) -> bool:
    """Apply the decisions, until one cannot be written. Returns whether all could be written."""
    return all(map(runtime.apply, decisions))
