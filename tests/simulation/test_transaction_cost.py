"""What a transaction costs the whole broker does not grow with the ids that are known, nor with the length of the logs.

Counted in lines of Python that the broker executes for one transaction, from its first batch to its last record: a loop
over what is known shows, and a busy machine does not. ``make bench`` has it in processor time, with a million ids.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import pytest

from semel.coordinator.transaction.records import EncodedIdleTransaction, encode
from semel.coordinator.transaction.shard import TransactionShard
from semel.coordinator.transaction.transitions import created
from semel.testing.simulation import Simulation, run
from tests.simulation.served_broker import ServedBroker, create_topic
from tests.simulation.test_commit_crashes import PARTITIONS, TIMEOUT_MS, TOPIC, Producer

BROKER = ("semel/broker/", "semel/coordinator/", "semel/log/", "semel/wire/")


class Lines:
    executed = 0


@contextmanager
def counting() -> Iterator[Lines]:
    lines = Lines()

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        if not any(part in frame.f_code.co_filename for part in BROKER):
            return None
        lines.executed += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield lines
    finally:
        sys.settrace(before)


def know(shard: TransactionShard, ids: int) -> None:
    """As loading leaves them."""
    for number in range(ids):
        transaction = created(f"id-{number}", producer_id=10_000 + number, timeout_ms=60_000, now_ms=0)
        _, value = encode(transaction)
        assert value is not None
        shard.replay(EncodedIdleTransaction(transaction.transactional_id, value))


async def lines_for_a_transaction(simulation: Simulation, *, ids: int, earlier: int, flush: str) -> int:
    served = ServedBroker(simulation, flush=flush)
    served.start()
    await create_topic(served.client(), TOPIC, PARTITIONS)
    producer = Producer(served.client(), simulation, is_v2=True, timeout_ms=TIMEOUT_MS)
    # The first ones load modules and compile messages. Nothing else ever happens twice for the same reason.
    for _ in range(3 + earlier):
        await a_transaction(producer)
    for runtime in served.broker.node.coordinators.transactions:
        know(runtime.shard, ids)
    with counting() as lines:
        await a_transaction(producer)
        await asyncio.sleep(0.2)
    return lines.executed


async def a_transaction(producer: Producer) -> None:
    await producer.open()
    assert await producer.end(True)


def measured(*, ids: int = 0, earlier: int = 0, flush: str) -> int:
    async def scenario(simulation: Simulation) -> int:
        return await lines_for_a_transaction(simulation, ids=ids, earlier=earlier, flush=flush)

    return run(scenario, seed=1)


@pytest.mark.parametrize("flush", ["os", "commit"])
def test_a_transaction_costs_the_broker_the_same_however_many_ids_are_known(flush: str) -> None:
    few, many = measured(ids=10, flush=flush), measured(ids=30_000, flush=flush)
    # A cache that the first run has filled may save a line. A look at every id would take thirty thousand.
    assert abs(many - few) < few / 100


@pytest.mark.parametrize("flush", ["os", "commit"])
def test_a_transaction_costs_the_broker_the_same_however_long_the_logs_are(flush: str) -> None:
    short, long = measured(flush=flush), measured(earlier=300, flush=flush)
    # Now and then an entry is added to an index.
    assert abs(long - short) < short / 20
