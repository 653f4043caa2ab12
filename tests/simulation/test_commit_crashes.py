"""One transaction over three partitions and a group's offset, and a crash in every place of its end (scenarios 31-34).

The disk dies in the n-th change from the moment EndTxn is on its way, for every n until the end needs no more changes:
before the decision is written, after it and before any marker, after some of the markers, after all of them. Whatever
was there, the next start finishes what was decided, leaves undecided what was not, and all partitions agree; and when
the client asks again, it hears what became of it.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

from semel.errors import ErrorCode
from semel.testing.simulation import Simulation, run, seeds
from semel.types import TopicPartition
from semel.wire.apis import ApiKey
from semel.wire.messages.delete_topics import DeleteTopicsRequest
from semel.wire.messages.describe_transactions import DescribeTransactionsRequest
from semel.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from tests.simulation.committed_reader import read_committed
from tests.simulation.served_broker import ServedBroker, create_topic
from tests.simulation.transactional_producer import RETRIABLE, Lost, TransactionalProducer, Written
from tests.simulation.wire_client import WireClient

TOPIC = "orders"
PARTITIONS = 3
TIMEOUT_MS = 5_000


@dataclass(frozen=True, slots=True)
class Ended:
    """What was found after the crash."""

    had_happened: bool
    """Whether the crash came before the end needed no more changes to the disk."""
    state: str
    """Of the transaction, as the coordinator described it right after the restart."""


async def opened(
    simulation: Simulation, *, is_v2: bool, timeout_ms: int = TIMEOUT_MS, quick_disk: bool = False, **settings: str
) -> tuple[ServedBroker, Producer]:
    """A broker, and a producer with everything written and nothing decided."""
    served = ServedBroker(simulation, **settings)
    served.quick_disk = quick_disk
    served.start()
    await create_topic(served.client(), TOPIC, PARTITIONS)
    producer = Producer(served.client(), simulation, is_v2=is_v2, timeout_ms=timeout_ms)
    await producer.open()
    return served, producer


class Producer(TransactionalProducer):
    """One that writes to all partitions and lets the test do the rest."""

    def __init__(self, client: WireClient, simulation: Simulation, *, is_v2: bool, timeout_ms: int) -> None:
        super().__init__(
            "p",
            client,
            simulation.random("producer"),
            topic=TOPIC,
            partitions=PARTITIONS,
            is_v2=is_v2,
            timeout_ms=timeout_ms,
        )
        self.client = client
        self.written = Written(7)

    async def open(self) -> None:
        await self._find()
        await self._init()
        if not self._is_v2:
            await self._add_partitions(list(range(PARTITIONS)))
        for index in range(PARTITIONS):
            await self._produce(index, [f"value {index}".encode()])
        await self._commit_offset(self.written)

    async def end(self, commit: bool) -> bool:
        return await self._end(commit)

    async def write_more(self) -> ErrorCode:
        """The next batch of the transaction, sent once: NONE, or why not."""
        try:
            await self._produce(0, [b"more"])
        except Lost as lost:
            return ErrorCode[str(lost).rpartition(" ")[2]]
        return ErrorCode.NONE


async def described(client: WireClient) -> str:
    while True:
        answer = await client.call(ApiKey.DESCRIBE_TRANSACTIONS, 0, DescribeTransactionsRequest(["p"]))
        (state,) = answer.transaction_states
        if state.error_code not in RETRIABLE:
            assert state.error_code == ErrorCode.NONE
            found: str = state.transaction_state
            return found
        await asyncio.sleep(0.01)


async def check_all_agree(client: WireClient, *, committed: bool) -> None:
    for index in range(PARTITIONS):
        expected = [f"value {index}".encode()] if committed else []
        assert await read_committed(client, TopicPartition(TOPIC, index)) == expected
    assert await offset(client) == (7 if committed else None)


async def offset(client: WireClient) -> int | None:
    request = OffsetFetchRequest("group-of-p", [OffsetFetchRequestTopic(TOPIC, [0])], require_stable=True)
    (partition,) = (await client.call(ApiKey.OFFSET_FETCH, 7, request)).topics[0].partitions
    assert partition.error_code == ErrorCode.NONE
    found: int | None = partition.committed_offset
    return found


def crash_in_change(
    number: int,
    *,
    is_v2: bool,
    commit: bool,
    power_cut: bool,
    client_returns: bool,
    quick_disk: bool = False,
    seed: int = 0,
) -> Ended:
    async def scenario(simulation: Simulation) -> Ended:
        served, producer = await opened(simulation, is_v2=is_v2, quick_disk=quick_disk)
        host = served.host
        (host.cut_power_in_disk_operation if power_cut else host.kill_in_disk_operation)(number)
        ending = asyncio.ensure_future(producer.end(commit))
        await asyncio.sleep(0.2)
        had_happened = not host.alive
        if not had_happened:
            return Ended(False, "")
        if not client_returns:
            ending.cancel()
            await asyncio.gather(ending, return_exceptions=True)
            producer.client.close()
        served.start()
        await served.until_up()
        state = await described(served.client())
        outcome = commit
        if client_returns:
            assert await ending == commit, "asked again, the client hears what it was promised, or it happens now"
            await asyncio.sleep(0.5)
        else:
            outcome = commit and state != "Ongoing"  # What was not decided times out.
            await asyncio.sleep(TIMEOUT_MS / 1000 + 1.5)
        await check_all_agree(served.client(), committed=outcome)
        assert await described(served.client()) == ("CompleteCommit" if outcome else "CompleteAbort")
        return Ended(True, state)

    return run(scenario, seed=seed, duration_s_max=60)


def crash_everywhere(**how: Any) -> list[str]:
    """The states that were found after a crash in the first change to the disk, the second, and so on to the last."""
    states = []
    for number in range(1, 200):
        ended = crash_in_change(number, **how)
        if not ended.had_happened:
            return states
        states.append(ended.state)
    raise AssertionError("the end of a transaction takes fewer changes than that")


@pytest.mark.parametrize("is_v2", [False, True], ids=["V1", "V2"])
@pytest.mark.parametrize("power_cut", [False, True], ids=["kill", "power cut"])
@pytest.mark.parametrize("commit", [True, False], ids=["commit", "abort"])
@pytest.mark.parametrize("quick_disk", [False, True], ids=["a thread syncs", "the loop syncs"])
def test_scenarios_31_to_34_a_crash_anywhere_in_the_end_of_a_transaction_changes_nothing_about_it(
    is_v2: bool, power_cut: bool, commit: bool, quick_disk: bool
) -> None:
    states = crash_everywhere(
        is_v2=is_v2, commit=commit, power_cut=power_cut, client_returns=True, quick_disk=quick_disk
    )
    # Both sides of the decision were met, or this would prove little.
    assert "Ongoing" in states
    assert {"PrepareCommit" if commit else "PrepareAbort", "CompleteCommit" if commit else "CompleteAbort"} & {*states}


@pytest.mark.parametrize("is_v2", [False, True], ids=["V1", "V2"])
@pytest.mark.parametrize("seed", seeds(1))
@pytest.mark.parametrize("quick_disk", [False, True], ids=["a thread syncs", "the loop syncs"])
def test_scenarios_31_to_34_when_the_client_never_returns_all_partitions_still_agree(
    is_v2: bool, seed: int, quick_disk: bool
) -> None:
    """A commit whose power was cut is a commit everywhere, or, if it was not decided, times out and is an abort
    everywhere: no marker may be on disk without the decision."""
    states = crash_everywhere(
        is_v2=is_v2, commit=True, power_cut=True, client_returns=False, quick_disk=quick_disk, seed=seed
    )
    assert len({*states}) > 1


@pytest.mark.parametrize("is_v2", [False, True], ids=["V1", "V2"])
def test_scenario_31_a_crash_before_the_decision_leaves_the_transaction_to_its_timeout(is_v2: bool) -> None:
    async def scenario(simulation: Simulation) -> None:
        served, _ = await opened(simulation, is_v2=is_v2)
        served.host.cut_power()
        served.start()
        await served.until_up()
        assert await described(served.client()) == "Ongoing"
        await asyncio.sleep(TIMEOUT_MS / 1000 + 1.0)
        assert await described(served.client()) == "CompleteAbort"
        await check_all_agree(served.client(), committed=False)

    run(scenario)


# Timeouts


@pytest.mark.parametrize("is_v2", [False, True], ids=["V1", "V2"])
def test_scenario_26_a_silent_producer_is_timed_out_and_told_so(is_v2: bool) -> None:
    async def scenario(simulation: Simulation) -> None:
        served, producer = await opened(simulation, is_v2=is_v2)
        await asyncio.sleep(TIMEOUT_MS / 1000 - 0.6)
        assert await described(served.client()) == "Ongoing"
        await asyncio.sleep(1.2)
        assert await described(served.client()) == "CompleteAbort"
        assert await producer.write_more() is ErrorCode.INVALID_PRODUCER_EPOCH
        with pytest.raises(Lost):
            await producer.end(True)
        await check_all_agree(served.client(), committed=False)

    run(scenario)


@pytest.mark.parametrize("is_v2", [False, True], ids=["V1", "V2"])
def test_scenario_27_a_commit_that_races_with_the_timeout_has_one_outcome_and_the_client_hears_which(
    is_v2: bool,
) -> None:
    outcomes = set()
    timeout_ms = 300
    for early_ms in range(-20, 21, 2):

        async def scenario(simulation: Simulation, early_ms: int = early_ms) -> bool:
            served, producer = await opened(
                simulation,
                is_v2=is_v2,
                timeout_ms=timeout_ms,
                transaction_abort_timed_out_transaction_cleanup_interval_ms="1",
            )
            started_ms = (await transaction(served)).started_ms
            until_ms = started_ms + timeout_ms - early_ms - served.host.clock.now_ms()
            await asyncio.sleep(until_ms / 1000)
            try:
                committed = await producer.end(True)
            except Lost:
                committed = False
            await asyncio.sleep(0.5)
            await check_all_agree(served.client(), committed=committed)
            return committed

        outcomes.add(run(scenario))
    assert outcomes == {True, False}, "the race must have been won by both"


async def transaction(served: ServedBroker) -> Any:
    for runtime in served.broker.node.coordinators.transactions:
        found = runtime.shard.get("p")
        if found is not None:
            return found
    raise AssertionError("nobody coordinates p")


# Coordinators that come and go


@pytest.mark.parametrize("is_v2", [False, True], ids=["V1", "V2"])
@pytest.mark.parametrize("of_offsets", [False, True], ids=["transactions", "offsets"])
def test_scenario_36_a_coordinator_that_has_moved_is_looked_for_again_and_knows_everything(
    is_v2: bool, of_offsets: bool
) -> None:
    async def scenario(simulation: Simulation) -> None:
        served, producer = await opened(simulation, is_v2=is_v2)
        coordinators = served.broker.node.coordinators
        coordinator: Any = coordinators.groups if of_offsets else coordinators.transactions
        partition = coordinator.partition_for("group-of-p" if of_offsets else "p")
        served.move_coordinator(of_offsets=of_offsets, partition=partition, away_ms=300)
        await asyncio.sleep(0.1)
        if of_offsets:
            request = OffsetFetchRequest("group-of-p", [OffsetFetchRequestTopic(TOPIC, [0])])
            refused = (await served.client().call(ApiKey.OFFSET_FETCH, 7, request)).error_code
        else:
            answer = await served.client().call(ApiKey.DESCRIBE_TRANSACTIONS, 0, DescribeTransactionsRequest(["p"]))
            refused = answer.transaction_states[0].error_code
        assert refused == ErrorCode.NOT_COORDINATOR
        assert await producer.end(True), "the client asks until there is a coordinator again"
        await asyncio.sleep(0.5)
        await check_all_agree(served.client(), committed=True)
        assert coordinator.runtime(partition).partition.leader_epoch == 1

    run(scenario)


def test_scenario_35_after_a_move_markers_carry_the_higher_epoch_and_the_older_coordinator_is_fenced() -> None:
    async def scenario(simulation: Simulation) -> None:
        served, producer = await opened(simulation, is_v2=True)
        transactions = served.broker.node.coordinators.transactions
        served.move_coordinator(of_offsets=False, partition=transactions.partition_for("p"), away_ms=0)
        await asyncio.sleep(0.1)
        await producer.end(True)
        await asyncio.sleep(0.5)
        log = served.broker.node.led_partition(TOPIC, 0).log
        assert [known.coordinator_epoch for known in log.describe_producers()] == [1]

    run(scenario)


def test_scenario_30_a_topic_that_is_deleted_while_its_marker_cannot_be_written_does_not_hang_the_transaction() -> None:
    async def scenario(simulation: Simulation) -> None:
        served, producer = await opened(simulation, is_v2=True)
        # Nothing can be written there any more, so the marker is owed, and tried again and again.
        served.broker.node.led_partition(TOPIC, 1).log.go_offline("a test")
        assert await producer.end(True)
        await asyncio.sleep(1.0)
        assert await described(served.client()) == "PrepareCommit"
        deleted = await served.client().call(ApiKey.DELETE_TOPICS, 4, DeleteTopicsRequest(topic_names=[TOPIC]))
        assert deleted.responses[0].error_code == ErrorCode.NONE
        await asyncio.sleep(6.0)
        assert await described(served.client()) == "CompleteCommit"

    run(scenario)
