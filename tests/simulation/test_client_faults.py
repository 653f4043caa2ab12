"""One fault in every phase of a transaction and of a membership, after librdkafka's list: no client hangs or errs.

The broker is real and so are the clients; ``single_fault`` says what happens to which request. What
``test_transactions`` and ``test_groups`` leave to chance is enumerated here.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from semel.client.consumer import Consumer
from semel.client.producer import Producer
from semel.errors import AbortableError, ProducerFenced, RetriableError, StateError, TimedOut
from semel.testing.simulation import Simulation, run
from semel.testing.virtual.frames import DELIVER, DROP, Frame, Verdict
from semel.types import TopicPartition
from semel.wire.apis import ApiKey
from tests.simulation.client_workloads import until_told
from tests.simulation.committed_reader import read_committed
from tests.simulation.group_members import PROTOCOLS
from tests.simulation.served_broker import BROKER, PORT, ServedBroker, create_topic
from tests.simulation.single_fault import Fault, SingleFault, revive

TOPIC, GROUP = "orders", "billing"
ORDERS = [TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1)]
TRANSACTIONS = 4
RECORDS = 12
DONE_S_MAX = 30.0
"""What takes longer than this hangs: the request timeout is a second, and there is one fault."""

V1_PHASES = [
    ApiKey.FIND_COORDINATOR,
    ApiKey.INIT_PRODUCER_ID,
    ApiKey.ADD_PARTITIONS_TO_TXN,
    ApiKey.PRODUCE,
    ApiKey.ADD_OFFSETS_TO_TXN,
    ApiKey.TXN_OFFSET_COMMIT,
    ApiKey.END_TXN,
]
V2_PHASES = [
    ApiKey.FIND_COORDINATOR,
    ApiKey.INIT_PRODUCER_ID,
    ApiKey.PRODUCE,
    ApiKey.TXN_OFFSET_COMMIT,
    ApiKey.END_TXN,
]
CLASSIC_PHASES = [
    ApiKey.FIND_COORDINATOR,
    ApiKey.JOIN_GROUP,
    ApiKey.SYNC_GROUP,
    ApiKey.HEARTBEAT,
    ApiKey.OFFSET_FETCH,
    ApiKey.OFFSET_COMMIT,
    ApiKey.LEAVE_GROUP,
]
CONSUMER_PHASES = [
    ApiKey.FIND_COORDINATOR,
    ApiKey.CONSUMER_GROUP_HEARTBEAT,
    ApiKey.OFFSET_FETCH,
    ApiKey.OFFSET_COMMIT,
]
MEMBERSHIPS = [
    *[("eager", phase) for phase in CLASSIC_PHASES],
    *[("cooperative", phase) for phase in CLASSIC_PHASES],
    *[("consumer", phase) for phase in CONSUMER_PHASES],
]


class Bench:
    """A broker that is started again when it has died, with a topic; and clients on a machine of their own."""

    def __init__(self, simulation: Simulation, **settings: str) -> None:
        self.simulation = simulation
        self.served = ServedBroker(
            simulation,
            flush="commit",
            group_min_session_timeout_ms="1000",
            group_initial_rebalance_delay_ms="0",
            group_consumer_min_session_timeout_ms="1000",
            group_consumer_session_timeout_ms="2000",
            group_consumer_min_heartbeat_interval_ms="100",
            group_consumer_heartbeat_interval_ms="300",
            **settings,
        )
        self._count = 0

    async def start(self) -> None:
        self.served.start()
        await create_topic(self.served.client(), TOPIC, len(ORDERS))
        self._reviving = asyncio.create_task(revive(self.served))

    async def committed(self) -> list[bytes | None]:
        await asyncio.sleep(1.0)  # A transaction is decided before its markers are written.
        return [value for one in ORDERS for value in await read_committed(self.served.client(), one)]

    def producer(self, **settings: Any) -> Producer:
        return Producer(**self._seams(), **{"delivery_timeout_ms": 8_000, "max_block_ms": 5_000, **settings})

    def consumer(self, protocol: str = "eager", **settings: Any) -> Consumer:
        return Consumer(
            **self._seams(),
            **PROTOCOLS[protocol],
            **{
                "group_id": GROUP,
                "auto_offset_reset": "earliest",
                "enable_auto_commit": False,
                "isolation_level": "read_committed",
                "max_poll_interval_ms": 5_000,
                "default_api_timeout_ms": 8_000,
                **settings,
            },
        )

    def _seams(self) -> dict[str, Any]:
        self._count += 1
        host = self.simulation.host("clients-host")
        return {
            "network": host.network,
            "clock": host.clock,
            "random": self.simulation.random(f"client {self._count}"),
            "bootstrap_servers": f"{BROKER}:{PORT}",
            "request_timeout_ms": 1_000,
        }


@pytest.mark.parametrize("fault", Fault)
@pytest.mark.parametrize(
    ("version", "phase"), [*[("1", phase) for phase in V1_PHASES], *[("2", phase) for phase in V2_PHASES]]
)
def test_a_fault_in_any_phase_of_a_transaction_leaves_it_done_once(version: str, phase: ApiKey, fault: Fault) -> None:
    if version == "1" and fault is Fault.REQUEST_LATE and phase in (ApiKey.END_TXN, ApiKey.TXN_OFFSET_COMMIT):
        pytest.skip("scenario 22: V1 does not bear that")

    async def scenario(simulation: Simulation) -> None:
        bench = Bench(simulation, transaction_version=version)
        await bench.start()
        # Not in the first one: by then nobody knows anybody yet, and what is asked is asked of no one in particular.
        nth = 1 if phase in (ApiKey.FIND_COORDINATOR, ApiKey.INIT_PRODUCER_ID) else 2
        injected = SingleFault(simulation, bench.served, phase, fault, nth)
        simulation.network.interceptor = injected
        async with asyncio.timeout(DONE_S_MAX):
            values = await transactions(bench)
        assert injected.happened
        await asyncio.sleep(3.0)  # For what is late.
        assert Counter(await bench.committed()) == Counter(values)
        async with bench.consumer() as consumer:
            committed = (await consumer.committed([ORDERS[0]]))[ORDERS[0]]
            assert committed is not None
            assert committed.offset == TRANSACTIONS

    run(scenario)


async def transactions(bench: Bench) -> list[bytes]:
    """One after the other, each until it is done, as the documentation says."""
    values = []
    producer = bench.producer(transactional_id="copy-1", transaction_timeout_ms=20_000)
    await until_told(producer.init)
    for number in range(1, TRANSACTIONS + 1):
        own = [b"%d.%d" % (number, record) for record in range(3)]
        while not await transact(producer, own, offset=number):
            pass
        values += own
    await producer.close()
    return values


async def transact(producer: Producer, values: list[bytes], *, offset: int) -> bool:
    """Whether it was committed; else it was aborted."""
    producer.begin()
    try:
        for index, value in enumerate(values):
            producer.send(TOPIC, value, partition=index % len(ORDERS))
        await until_told(lambda: producer.send_offsets({ORDERS[0]: offset}, GROUP))
        await until_told(producer.commit)
    except AbortableError:
        await until_told(producer.abort)
        return False
    return True


@pytest.mark.parametrize("fault", Fault)
@pytest.mark.parametrize("phase", [ApiKey.INIT_PRODUCER_ID, ApiKey.PRODUCE, ApiKey.FETCH])
def test_a_fault_in_any_phase_of_a_bulk_leaves_each_record_there_once_and_in_order(phase: ApiKey, fault: Fault) -> None:
    """Many batches of one bulk are under way at once, and several bulks wait in line behind it."""
    bulks = [[b"%d.%03d" % (bulk, number) for number in range(40)] for bulk in range(4)]

    async def scenario(simulation: Simulation) -> None:
        bench = Bench(simulation)
        await bench.start()
        injected = SingleFault(simulation, bench.served, phase, fault)
        simulation.network.interceptor = injected
        async with asyncio.timeout(DONE_S_MAX):
            async with bench.producer(batch_size=300) as producer:
                targets = [number % len(ORDERS) for number in range(40)]
                await asyncio.gather(*[producer.send_many(TOPIC, values, partition=targets) for values in bulks])
            read = await read_tables(bench, sum(map(len, bulks)))
        assert injected.happened
        await asyncio.sleep(3.0)  # For what is late.
        expected = [value for partition in range(2) for values in bulks for value in values[partition::2]]
        assert await bench.committed() == expected
        assert read == expected

    run(scenario)


async def read_tables(bench: Bench, count: int) -> list[bytes]:
    """As ``poll_arrow`` gives them: in order within a partition, here put one partition behind the other."""
    read: list[list[bytes]] = [[], []]
    async with bench.consumer(group_id=None) as consumer:
        consumer.assign(ORDERS)
        while sum(map(len, read)) < count:
            table = await consumer.poll_arrow(1_000, max_records=7)
            for partition, value in zip(table["partition"].to_pylist(), table["value"].to_pylist(), strict=True):
                read[partition].append(value)
    return [*read[0], *read[1]]


@pytest.mark.parametrize("fault", Fault)
@pytest.mark.parametrize(("protocol", "phase"), MEMBERSHIPS)
def test_a_fault_in_any_phase_of_a_membership_hangs_nobody(protocol: str, phase: ApiKey, fault: Fault) -> None:
    """Python's clients are known to hang when a coordinator moves."""

    async def scenario(simulation: Simulation) -> None:
        bench = Bench(simulation)
        await bench.start()
        await fill(bench)
        injected = SingleFault(simulation, bench.served, phase, fault)
        simulation.network.interceptor = injected
        async with asyncio.timeout(DONE_S_MAX):
            read = await read_all(bench, protocol)
        assert injected.happened
        assert set(read) == {b"%d" % number for number in range(RECORDS)}
        assert max(Counter(read).values()) <= 2, "one fault, and more was read again than was under way"

    run(scenario)


async def fill(bench: Bench) -> None:
    async with bench.producer() as producer:
        for number in range(RECORDS):
            producer.send(TOPIC, b"%d" % number, partition=number % len(ORDERS))


async def read_all(bench: Bench, protocol: str) -> list[bytes]:
    """By two members in turn, until all of it is committed; the first one leaves half-way."""
    read: list[bytes] = []
    async with bench.consumer(protocol) as watcher, bench.consumer(protocol) as last:
        last.subscribe([TOPIC])
        async with bench.consumer(protocol) as first:
            first.subscribe([TOPIC])
            while len(read) < RECORDS // 2:
                await read_some(first, read)
                await read_some(last, read)
        while await lag(watcher):
            await read_some(last, read)
    return read


async def read_some(consumer: Consumer, read: list[bytes]) -> None:
    records = await consumer.poll(200, max_records=2)
    read += [record.value for record in records]
    if records:
        with contextlib.suppress(AbortableError, RetriableError):  # What is not committed is read again.
            await consumer.commit()


async def lag(watcher: Consumer) -> int:
    committed = await watcher.committed(ORDERS)
    return RECORDS - sum(0 if one is None else one.offset for one in committed.values())


# librdkafka's list, one by one


def test_a_commit_that_times_out_with_batches_under_way_is_resumed_and_happens_once() -> None:
    async def scenario(simulation: Simulation) -> None:
        bench = Bench(simulation)
        await bench.start()
        producer = bench.producer(transactional_id="copy-1", max_block_ms=400)
        await until_told(producer.init)
        lost: Counter[int] = Counter()

        def lose_three_of_each(frame: Frame) -> Verdict:
            """First what it writes cannot be delivered, then its end."""
            api_key = int.from_bytes(frame.payload[:2], "big")
            if frame.to_server and api_key in (ApiKey.PRODUCE, ApiKey.END_TXN) and lost[api_key] < 3:
                lost[api_key] += 1
                return DROP
            return DELIVER

        simulation.network.interceptor = lose_three_of_each
        bench.simulation.network.reset(BROKER, "clients-host")  # New connections are seen by the interceptor.
        producer.begin()
        sends = [producer.send(TOPIC, b"%d" % number, partition=number % 2) for number in range(4)]
        with pytest.raises(TimedOut, match="call commit again"):
            await producer.commit()
        assert not any(send.done() for send in sends), "batches are under way"
        async with asyncio.timeout(DONE_S_MAX):
            await until_told(producer.commit)
        assert lost == {ApiKey.PRODUCE: 3, ApiKey.END_TXN: 3}
        assert await bench.committed() == [b"0", b"2", b"1", b"3"]
        await producer.close()

    run(scenario)


def losing(*keys: ApiKey, until_s: float, simulation: Simulation) -> Callable[[Frame], Verdict]:
    """Loses requests of these kinds until that time; the requests of everybody else arrive."""

    def lose(frame: Frame) -> Verdict:
        lost = frame.to_server and int.from_bytes(frame.payload[:2], "big") in keys
        return DROP if lost and simulation.loop.time() < until_s else DELIVER

    return lose


@pytest.mark.parametrize("call", ["init", "commit", "abort"])
def test_a_call_that_timed_out_and_is_made_again_later_returns_what_became_known_meanwhile(call: str) -> None:
    async def scenario(simulation: Simulation) -> None:
        bench = Bench(simulation)
        await bench.start()
        producer = bench.producer(transactional_id="copy-1", max_block_ms=400)
        waits = {"init": producer.init, "commit": producer.commit, "abort": producer.abort}[call]
        if call != "init":
            await until_told(producer.init)
            producer.begin()
            await producer.send(TOPIC, b"1", partition=0)
        lost = ApiKey.INIT_PRODUCER_ID if call == "init" else ApiKey.END_TXN
        simulation.network.interceptor = losing(lost, until_s=simulation.loop.time() + 2, simulation=simulation)
        bench.simulation.network.reset(BROKER, "clients-host")
        with pytest.raises(TimedOut, match=f"call {call} again"):
            await waits()
        await asyncio.sleep(DONE_S_MAX)
        await waits()
        assert await bench.committed() == ([b"1"] if call == "commit" else [])
        producer.begin()
        with pytest.raises(StateError, match="in transaction"):
            await producer.init()
        await producer.close()

    run(scenario)


@pytest.mark.parametrize("ends", ["is cancelled", "times out"])
@pytest.mark.parametrize("outcome", ["committed", "aborted"])
def test_a_consumer_follows_the_outcome_of_a_commit_that_nobody_waited_for(ends: str, outcome: str) -> None:
    """What was read is not read again once it is committed, and is read again once it is not."""

    async def scenario(simulation: Simulation) -> None:
        bench = Bench(simulation)
        await bench.start()
        await fill(bench)
        patience_ms = 400 if ends == "times out" else 60_000
        # It lingers, so that nothing is sent before the commit.
        settings = {"max_block_ms": patience_ms, "linger_ms": 2_000, "delivery_timeout_ms": 3_000}
        producer = bench.producer(transactional_id="copy-1", **settings)
        async with bench.consumer() as consumer:
            consumer.assign([ORDERS[0]])
            consumer.seek(ORDERS[0], 0)
            await until_told(producer.init)
            read = await consumer.poll(5_000, max_records=2)
            assert [record.offset for record in read] == [0, 1]
            lost = ApiKey.END_TXN if outcome == "committed" else ApiKey.PRODUCE
            simulation.network.interceptor = losing(lost, until_s=simulation.loop.time() + 4, simulation=simulation)
            bench.simulation.network.reset(BROKER, "clients-host")

            async def copy() -> None:
                async with asyncio.timeout(1), producer.transaction(consumer=consumer):
                    producer.send(TOPIC, b"output", partition=1)

            with pytest.raises(TimeoutError if ends == "is cancelled" else TimedOut):
                await copy()
            await asyncio.sleep(DONE_S_MAX)
            if outcome == "committed":
                await until_told(producer.commit)
            else:
                with pytest.raises(AbortableError):
                    await until_told(producer.commit)
                await until_told(producer.abort)
            first = (await consumer.poll(5_000, max_records=1))[0].offset
            assert first == (2 if outcome == "committed" else 0)
            with contextlib.suppress(ValueError):
                async with producer.transaction(consumer=consumer):
                    raise ValueError
            assert (await consumer.poll(5_000, max_records=1))[0].offset == first
        await producer.close()

    run(scenario)


def test_a_commit_after_one_whose_outcome_was_not_asked_for_again_has_an_outcome_of_its_own() -> None:
    async def scenario(simulation: Simulation) -> None:
        bench = Bench(simulation)
        await bench.start()
        producer = bench.producer(transactional_id="copy-1", max_block_ms=400)
        await until_told(producer.init)
        producer.begin()
        await producer.send(TOPIC, b"1", partition=0)
        simulation.network.interceptor = losing(
            ApiKey.END_TXN, until_s=simulation.loop.time() + 2, simulation=simulation
        )
        bench.simulation.network.reset(BROKER, "clients-host")
        with pytest.raises(TimedOut):
            await producer.commit()
        await asyncio.sleep(DONE_S_MAX)
        producer.begin()
        await producer.send(TOPIC, b"2", partition=0)
        await producer.commit()
        assert await bench.committed() == [b"1", b"2"]
        await producer.close()

    run(scenario)


@pytest.mark.parametrize("outcome", ["committed", "aborted"])
def test_a_consumer_follows_the_outcome_of_a_commit_although_the_producer_does_not_ask_for_it_again(
    outcome: str,
) -> None:
    """The producer begins another transaction after the commit, or is closed before the commit has arrived."""

    async def scenario(simulation: Simulation) -> None:
        bench = Bench(simulation)
        await bench.start()
        await fill(bench)
        timeout_ms = 60_000 if outcome == "committed" else 5_000
        producer = bench.producer(transactional_id="copy-1", max_block_ms=400, transaction_timeout_ms=timeout_ms)
        async with bench.consumer() as consumer:
            consumer.assign([ORDERS[0]])
            consumer.seek(ORDERS[0], 0)
            await until_told(producer.init)
            assert len(await consumer.poll(5_000, max_records=2)) == 2
            lost_s = 4 if outcome == "committed" else 60
            simulation.network.interceptor = losing(
                ApiKey.END_TXN, until_s=simulation.loop.time() + lost_s, simulation=simulation
            )
            bench.simulation.network.reset(BROKER, "clients-host")
            with pytest.raises(TimedOut):
                async with producer.transaction(consumer=consumer):
                    await producer.send(TOPIC, b"output", partition=1)
            if outcome == "committed":
                await asyncio.sleep(DONE_S_MAX)
                with contextlib.suppress(ValueError):
                    async with producer.transaction(consumer=consumer):
                        raise ValueError
            else:
                await producer.close(timeout_ms=0)
                await asyncio.sleep(DONE_S_MAX)
            first = (await consumer.poll(5_000, max_records=1))[0].offset
            assert first == (2 if outcome == "committed" else 0)
        await producer.close()

    run(scenario)


def test_a_consumer_goes_back_although_waiting_for_the_abort_is_cancelled() -> None:
    async def scenario(simulation: Simulation) -> None:
        bench = Bench(simulation)
        await bench.start()
        await fill(bench)
        producer = bench.producer(transactional_id="copy-1")
        async with bench.consumer() as consumer:
            consumer.assign([ORDERS[0]])
            await until_told(producer.init)
            assert (await consumer.poll(5_000, max_records=2))[0].offset == 0
            simulation.network.interceptor = losing(
                ApiKey.END_TXN, until_s=simulation.loop.time() + 4, simulation=simulation
            )
            bench.simulation.network.reset(BROKER, "clients-host")

            async def hang() -> None:
                async with asyncio.timeout(2), producer.transaction(consumer=consumer):
                    await producer.send(TOPIC, b"output", partition=1)
                    async with asyncio.timeout(1):
                        await asyncio.Event().wait()

            with pytest.raises(TimeoutError):
                await hang()
            await asyncio.sleep(DONE_S_MAX)
            assert (await consumer.poll(5_000, max_records=1))[0].offset == 0
        await producer.close()

    run(scenario)


def test_an_abort_of_a_producer_that_was_replaced_is_fenced_and_touches_nothing() -> None:
    async def scenario(simulation: Simulation) -> None:
        bench = Bench(simulation)
        await bench.start()
        old, new = bench.producer(transactional_id="copy-1"), bench.producer(transactional_id="copy-1")
        await old.init()
        old.begin()
        await old.send(TOPIC, b"old", partition=0)
        await until_told(new.init)
        new.begin()
        await new.send(TOPIC, b"new", partition=0)
        with pytest.raises(ProducerFenced):
            await old.abort()
        await new.commit()
        assert await bench.committed() == [b"new"]
        await old.close(timeout_ms=0)
        await new.close()

    run(scenario)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_offset_that_is_undecided_is_waited_for_and_then_read_from(protocol: str) -> None:
    """Scenario 52, UNSTABLE_OFFSET_COMMIT."""

    async def scenario(simulation: Simulation) -> None:
        bench = Bench(simulation)
        await bench.start()
        await fill(bench)
        producer = bench.producer(transactional_id="copy-1")
        await until_told(producer.init)
        producer.begin()
        await producer.send_offsets({ORDERS[0]: 4, ORDERS[1]: 5}, GROUP)
        async with bench.consumer(protocol) as consumer:
            consumer.subscribe([TOPIC])
            assert await consumer.poll(3_000) == []
            await producer.commit()
            read: list[bytes] = []
            async with asyncio.timeout(DONE_S_MAX):
                while len(read) < 3:
                    read += [record.value for record in await consumer.poll(1_000)]
        assert sorted(read) == [b"10", b"11", b"8"]
        await producer.close()

    run(scenario)


def test_a_batch_that_overtakes_another_is_refused_and_all_are_written_in_order() -> None:
    """Scenario 6, OUT_OF_ORDER_SEQUENCE_NUMBER: one of several requests is lost, and those behind it are not."""

    async def scenario(simulation: Simulation) -> None:
        bench = Bench(simulation)
        await bench.start()
        seen = 0

        def lose_the_second(frame: Frame) -> Verdict:
            nonlocal seen
            if frame.to_server and int.from_bytes(frame.payload[:2], "big") == ApiKey.PRODUCE:
                seen += 1
                return DROP if seen == 2 else DELIVER
            return DELIVER

        simulation.network.interceptor = lose_the_second
        async with bench.producer(linger_ms=0) as producer:
            sends = [producer.send(TOPIC, b"0", partition=0)]
            await producer.flush()
            for number in range(1, 5):
                sends.append(producer.send(TOPIC, b"%d" % number, partition=0))
                await asyncio.sleep(0.002)
            async with asyncio.timeout(DONE_S_MAX):
                written = [await send for send in sends]
        assert seen > 5, "those behind it were sent before it was missed"
        assert [one.offset for one in written] == [0, 1, 2, 3, 4]
        assert await bench.committed() == [b"0", b"1", b"2", b"3", b"4"]

    run(scenario)
