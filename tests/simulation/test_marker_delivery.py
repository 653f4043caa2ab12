"""Markers are delivered until they are acknowledged, and what a power cut takes of them is put right at a start."""

from __future__ import annotations

import asyncio
import errno
from typing import Any

import pytest

from semel.broker.coordinators.markers import MARKERS_PER_TURN
from semel.coordinator.decision import Decision
from semel.coordinator.transaction.states import TxnState
from semel.coordinator.transaction.transitions import created, with_partitions
from semel.errors import ErrorCode
from semel.log.partition_log import PartitionLog
from semel.testing.simulation import Simulation, run
from semel.testing.virtual.disk_faults import DiskFault, Operation
from semel.types import TopicPartition
from semel.wire.apis import ApiKey
from semel.wire.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest
from tests.simulation.committed_reader import read_committed
from tests.simulation.served_broker import ServedBroker, create_topic
from tests.simulation.test_commit_crashes import PARTITIONS, TOPIC, check_all_agree, described, opened, transaction


async def checkpointed(served: ServedBroker) -> None:
    """Everything that is written by now survives a power cut, also with flush=os."""
    served.broker.node.logs.checkpoint()
    await asyncio.sleep(0.5)


def test_scenario_38_a_marker_that_finds_the_disk_full_is_written_when_there_is_room() -> None:
    async def scenario(simulation: Simulation) -> None:
        served, producer = await opened(simulation, is_v2=True)
        full = DiskFault(Operation.WRITE, f"*/{TOPIC}-1/*.log", error=errno.ENOSPC, times=None)
        served.host.disk.fail(full)
        assert await producer.end(True), "the outcome is final, whatever becomes of the markers"
        await asyncio.sleep(2.0)
        assert await described(served.client()) == "PrepareCommit"
        served.host.disk.repair()
        await asyncio.sleep(6.0)
        assert await described(served.client()) == "CompleteCommit"
        await check_all_agree(served.client(), committed=True)

    run(scenario)


def test_scenario_35_a_coordinator_that_meets_a_newer_one_s_marker_leaves_the_rest_to_it() -> None:
    async def scenario(simulation: Simulation) -> None:
        served, producer = await opened(simulation, is_v2=True)
        known = await transaction(served)
        # An epoch that some coordinator has: a higher one would be forged, and is refused.
        own = served.broker.node.coordinators.transactions.partition_for("p")
        assert served.move_coordinator(of_offsets=False, partition=(own + 1) % 3, away_ms=0)
        await asyncio.sleep(1.0)
        newer = WritableTxnMarker(
            known.producer_id, known.producer_epoch, False, [WritableTxnMarkerTopic(TOPIC, [1])], coordinator_epoch=1
        )
        answer = await served.client().call(ApiKey.WRITE_TXN_MARKERS, 1, WriteTxnMarkersRequest([newer]))
        assert answer.markers[0].topics[0].partitions[0].error_code == ErrorCode.NONE
        assert await producer.end(True)
        await asyncio.sleep(10.0)
        assert await described(served.client()) == "PrepareCommit", "it must not say that it is done"
        values = await read_committed(served.client(), TopicPartition(TOPIC, 1))
        assert values == [], "what the newer one said stands"

    run(scenario)


@pytest.mark.parametrize("loaded", [False, True], ids=["timed out", "loaded"])
def test_the_markers_of_many_transactions_that_are_decided_together_take_several_turns(
    loaded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A marker takes some 50 us, and a coordinator's partition may have 10,000 open transactions."""
    ids = [f"id-{number}" for number in range(3 * MARKERS_PER_TURN)]
    written: dict[int, int] = {}
    """How many markers were written in each turn of the event loop."""
    sound = PartitionLog.append_marker

    async def scenario(simulation: Simulation) -> None:
        def append_marker(self: PartitionLog, *marker: Any, **rest: Any) -> Any:
            turn = simulation.loop.steps
            written[turn] = written.get(turn, 0) + 1
            return sound(self, *marker, **rest)

        monkeypatch.setattr(PartitionLog, "append_marker", append_marker)
        served = ServedBroker(simulation)
        served.start()
        await create_topic(served.client(), TOPIC, PARTITIONS)
        assert await served.broker.node.coordinators.transactions.create_topic()
        coordinator = served.broker.node.coordinators.transactions
        runtime = coordinator.runtime(coordinator.partition_for(ids[0]))
        assert runtime is not None
        for number, transactional_id in enumerate(ids):
            transaction = created(transactional_id, producer_id=10_000 + number, timeout_ms=1, now_ms=0)
            begun = with_partitions(
                transaction,
                frozenset({TopicPartition(TOPIC, number % PARTITIONS)}),
                transaction_version=2,
                now_ms=served.broker.node.clock.now_ms(),
            )
            begun = begun._replace(state=TxnState.PREPARE_ABORT) if loaded else begun
            assert runtime.apply(Decision(None, records=(begun,)))
        if loaded:
            assert served.move_coordinator(of_offsets=False, partition=runtime.shard.partition, away_ms=0)
        await asyncio.sleep(20)
        now = coordinator.runtime(runtime.shard.partition)
        assert now is not None
        states = {known.state for known in map(now.shard.get, ids) if known is not None}
        assert states == {TxnState.COMPLETE_ABORT}

    run(scenario)
    assert sum(written.values()) == len(ids)
    assert max(written.values()) == MARKERS_PER_TURN


@pytest.mark.parametrize("commit", [True, False], ids=["commit", "abort"])
def test_a_marker_that_a_power_cut_took_is_written_again_with_the_recorded_outcome(
    commit: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """With flush=os: the coordinator knows the transaction as complete, and the partitions have lost its end."""

    async def scenario(simulation: Simulation) -> None:
        served, producer = await opened(simulation, is_v2=True, flush="os")
        await checkpointed(served)
        assert await producer.end(commit) == commit
        await asyncio.sleep(0.5)
        assert await described(served.client()) == ("CompleteCommit" if commit else "CompleteAbort")
        served.host.cut_power()
        served.start()
        await served.until_up()
        await asyncio.sleep(1.0)
        await check_all_agree(served.client(), committed=commit)

    run(scenario)
    lost = sum("does not know as open" in line for line in caplog.messages)
    assert 0 < lost <= PARTITIONS, "the power cut must have taken a marker, or this proves nothing"
    assert all(
        ("it was committed" if commit else "it is aborted") in line for line in caplog.messages if "open" in line
    )


def test_a_transaction_that_no_coordinator_has_heard_of_is_aborted_at_the_next_start() -> None:
    """As after the loss of __transaction_state: nobody remembers an outcome, and nobody would ever end it."""

    async def scenario(simulation: Simulation) -> None:
        served, _ = await opened(simulation, is_v2=True)
        node = served.broker.node
        (runtime,) = (r for r in node.coordinators.transactions if r.shard.get("p") is not None)
        log = runtime.partition.log
        node.logs.truncate(log, log.log_start_offset)
        served.host.kill()
        served.start()
        await served.until_up()
        await asyncio.sleep(1.0)
        for index in range(PARTITIONS):
            assert await read_committed(served.client(), TopicPartition(TOPIC, index)) == []

    run(scenario)
