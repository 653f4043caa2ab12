"""Changes of in-sync sets: many partitions are looked at in slices."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from semel.broker.replication.in_sync_changes import SLICE_PARTITIONS, InSyncChanges
from semel.broker.turns import Turns
from semel.metadata.image import Broker, BrokerRegistered
from semel.testing.virtual.clock import ManualClock
from semel.testing.virtual.loop import VirtualLoop

PARTITIONS = 2 * SLICE_PARTITIONS + 500


class Replicas:
    """In sync, all of them: nothing is to be proposed. It counts how often it is asked."""

    def __init__(self) -> None:
        self.asked = 0

    def proposal(self, now_ms: float, **_: object) -> None:
        self.asked += 1


def test_a_registration_is_looked_at_for_every_partition_and_for_a_thousand_in_a_turn() -> None:
    loop, clock = VirtualLoop(), ManualClock(0)
    watching: list[Any] = []
    partitions = [SimpleNamespace(replicas=Replicas()) for _ in range(PARTITIONS)]
    node: Any = SimpleNamespace(
        cluster=SimpleNamespace(watch=watching.append),
        partitions=[*partitions, SimpleNamespace(replicas=None)],
        config=SimpleNamespace(replica_lag_time_max_ms=30_000),
        clock=clock,
        image=SimpleNamespace(brokers={}),
        turns=Turns(clock, loop),
    )
    changes = InSyncChanges(node, loop)
    after_each_turn: list[int] = []

    def told() -> None:
        after_each_turn.append(sum(partition.replicas.asked for partition in partitions))
        if after_each_turn[-1] < PARTITIONS:
            loop.call_soon(told)

    (changed,) = watching
    registered = BrokerRegistered(Broker(2, "broker-2", 9092, epoch=7))
    loop.call_soon(changed, node.image, node.image, [registered])
    loop.call_soon(told)
    loop.run_until_complete(asyncio.sleep(1))
    changes.close()

    assert after_each_turn == [SLICE_PARTITIONS, 2 * SLICE_PARTITIONS, PARTITIONS]
