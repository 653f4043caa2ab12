"""The real broker with our real producer and consumer: senders, a bank, copiers and readers, under all faults at once.

What must hold once the faults stop: everybody finishes; no transaction stays open; the checker finds nothing in the
history of all clients; the bank's accounts add up to zero; every input is copied once.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from functools import partial
from random import Random

import pytest

from semel.testing.checker import check
from semel.testing.frames import DELIVER, DROP, REPEAT, RESET, Frame, Verdict
from semel.testing.simulation import Simulation, seeds, simulate
from semel.types import TopicPartition
from semel.wire.apis import ApiKey
from semel.wire.messages.list_transactions import ListTransactionsRequest
from tests.simulation.client_history import History
from tests.simulation.client_workloads import (
    TRANSACTION_TIMEOUT_MS,
    Application,
    Bank,
    Copier,
    Deserter,
    Reader,
    Sender,
    Transactional,
)
from tests.simulation.committed_reader import read_committed
from tests.simulation.served_broker import BROKER, ServedBroker, create_topic

ACCOUNTS, INPUT, OUTPUT = "accounts", "input", "output"
PARTITIONS = 2
TOPICS = (ACCOUNTS, INPUT, OUTPUT)
ALL_PARTITIONS = [TopicPartition(topic, partition) for topic in TOPICS for partition in range(PARTITIONS)]
FINISH_S_MAX = 60.0
FAULT_PROBABILITY = 0.03

# What an older producer sends late belongs to whichever transaction is open when it arrives (KAFKA-17754): these
# requests say in their version whether they name the transaction that they mean.
NAMES_ITS_TRANSACTION = {ApiKey.END_TXN: 5, ApiKey.TXN_OFFSET_COMMIT: 5}


async def transactions_v2(simulation: Simulation) -> None:
    await clients_under_faults(simulation, transaction_version=2)


async def transactions_v1(simulation: Simulation) -> None:
    await clients_under_faults(simulation, transaction_version=1)


async def transactions_v1_with_late_ends(simulation: Simulation) -> None:
    await clients_under_faults(simulation, transaction_version=1, late_end_probability=0.5, spares_older=False)


async def transactions_v2_with_late_ends(simulation: Simulation) -> None:
    await clients_under_faults(simulation, transaction_version=2, late_end_probability=0.5)


@pytest.mark.parametrize("seed", seeds(20))
def test_our_clients_see_everything_once_and_nothing_that_was_aborted(seed: int) -> None:
    """Scenarios 1, 16, 17, 20, 21, 26, 27, 31 to 36, 42, 51 and 52, with transactions V2."""
    simulate(seed, transactions_v2)


@pytest.mark.parametrize("seed", seeds(6))
def test_our_clients_do_the_same_on_a_broker_without_transactions_v2(seed: int) -> None:
    """The same with transactions V1, except for requests of theirs that come late (scenario 22)."""
    simulate(seed, transactions_v1)


@pytest.mark.parametrize("seed", seeds(4))
def test_ends_that_come_late_do_not_touch_the_next_transaction(seed: int) -> None:
    """Scenario 21, KAFKA-17754, with transactions V2. What it does to V1 is shown beside the planted bugs."""
    simulate(seed, transactions_v2_with_late_ends)


def test_the_same_seed_is_the_same_run() -> None:
    assert len({simulate(5, transactions_v2).digest() for _ in range(2)}) == 1


async def clients_under_faults(
    simulation: Simulation, *, transaction_version: int, late_end_probability: float = 0.12, spares_older: bool = True
) -> None:
    served = ServedBroker(simulation, flush="commit", transaction_version=str(transaction_version))
    served.start()
    for topic in TOPICS:
        await create_topic(served.client(), topic, PARTITIONS)
    history = History(simulation.loop.time)
    applications, readers = workloads(simulation, history)
    meddler = Meddler(simulation.random("meddler"), late_end_probability, spares_older=spares_older)
    simulation.network.interceptor = meddler
    for application in [*applications, *readers]:
        application.start()
    await torment(simulation, served, meddler, [*applications, *readers])
    simulation.network.interceptor = None
    await finish(simulation, applications)
    simulation.host("deserter").kill()
    for reader in readers:
        reader.is_done = True
    await finish(simulation, readers, until=lambda: history.is_complete)
    await check_all(simulation, served, history)


def workloads(simulation: Simulation, history: History) -> tuple[list[Application], list[Reader]]:
    senders = [Sender(simulation, history, f"sender-{n}", INPUT, n % PARTITIONS, 25) for n in range(3)]
    banks = [Bank(simulation, history, f"bank-{n}", ACCOUNTS, PARTITIONS, 20) for n in range(2)]
    copiers = [
        Copier(
            simulation,
            history,
            f"copier-{partition}",
            source=TopicPartition(INPUT, partition),
            target=OUTPUT,
            partitions=PARTITIONS,
            is_all_sent=lambda: all(sender.is_done for sender in senders),
        )
        for partition in range(PARTITIONS)
    ]
    deserter = Deserter(simulation, history, "deserter", ACCOUNTS, PARTITIONS)
    return [*senders, *banks, *copiers, deserter], [Reader(simulation, history, "reader", ALL_PARTITIONS)]


class Meddler:
    """Loses, repeats and delays whole requests and answers, and ends of transactions most of all.

    ``spares_older``: only as far as the older protocol promises to bear it.
    """

    def __init__(self, random: Random, late_end_probability: float, *, spares_older: bool) -> None:
        self.strike_at_end: Callable[[], None] | None = None
        """What happens when the next end of a transaction is asked for."""
        self._random = random
        self._late_end_probability = late_end_probability
        self._spares_older = spares_older

    def __call__(self, frame: Frame) -> Verdict:
        random = self._random
        api_key, version = int.from_bytes(frame.payload[:2], "big"), int.from_bytes(frame.payload[2:4], "big")
        is_end = frame.to_server and api_key == ApiKey.END_TXN
        if is_end and self.strike_at_end is not None:
            strike, self.strike_at_end = self.strike_at_end, None
            strike()
            return DELIVER
        if random.random() > (self._late_end_probability if is_end else FAULT_PROBABILITY):
            return DELIVER
        if not frame.to_server:
            return random.choice((DROP, REPEAT, RESET, Verdict(delay_ms=random.uniform(1, 3_000))))
        if self._spares_older and version < NAMES_ITS_TRANSACTION.get(ApiKey(api_key), 0):
            return RESET
        if is_end:
            # Later than the client waits: it asks again elsewhere, goes on, and then this one arrives.
            return Verdict(delay_ms=random.uniform(1_500, 4_000))
        return random.choice((RESET, REPEAT, RESET, Verdict(delay_ms=random.uniform(1, 3_000))))


async def torment(
    simulation: Simulation, served: ServedBroker, meddler: Meddler, applications: list[Application]
) -> None:
    """Everything that can happen to a broker, its coordinators and its clients, for a while; then peace."""
    random, host = simulation.random("torment"), served.host
    banks = [application for application in applications if isinstance(application, Bank)]
    for _ in range(random.randint(4, 10)):
        await asyncio.sleep(random.uniform(0.01, 1.5))
        victim = random.choice(applications)
        match random.randrange(14):
            case 0:
                host.kill()
            case 1:
                host.cut_power()
            case 2 | 9 | 10:
                host.cut_power_in_disk_operation(random.randint(1, 80))
            case 3:
                host.kill_in_disk_operation(random.randint(1, 80))
            case 4:
                simulation.network.partition(BROKER, victim.name)
                await asyncio.sleep(random.uniform(0.1, 5.0))
                simulation.network.heal()
            case 5:
                host.pause()
                await asyncio.sleep(random.uniform(0.1, 5.0))
                host.resume()
            case 6:
                # Perhaps for longer than its transaction may take.
                victim.host.pause()
                await asyncio.sleep(random.uniform(0.1, 6.0))
                victim.host.resume()
            case 8:
                zombie = (victim if isinstance(victim, Transactional) else random.choice(banks)).replace()
                await asyncio.sleep(random.uniform(0.1, 6.0))
                zombie.resume()
            case 7:
                victim.die()
            case 11 | 12:
                # Between the decision and its last marker.
                dies = random.choice((host.kill_in_disk_operation, host.cut_power_in_disk_operation))
                meddler.strike_at_end = partial(dies, random.randint(1, 8))
            case _:
                served.move_coordinator(
                    of_offsets=random.random() < 0.3, partition=random.randrange(2), away_ms=random.uniform(0, 1_000)
                )
        await asyncio.sleep(random.uniform(0.01, 1.0))
        if not host.alive:
            served.start()
    meddler.strike_at_end = None
    host.disk.repair()
    if not host.alive:
        served.start()


async def finish(
    simulation: Simulation, applications: list[Application] | list[Reader], until: Callable[[], bool] | None = None
) -> None:
    """There are no faults any more: everybody gets done, in time."""
    deadline = simulation.loop.time() + FINISH_S_MAX
    while not (until() if until else all(application.is_done for application in applications)):
        for application in applications:
            application.raise_error()
        unfinished = [application.name for application in applications if not application.is_done]
        assert simulation.loop.time() < deadline, f"{unfinished} did not finish within {FINISH_S_MAX} s of peace"
        await asyncio.sleep(0.1)


async def check_all(simulation: Simulation, served: ServedBroker, history: History) -> None:
    await asyncio.sleep(TRANSACTION_TIMEOUT_MS / 1000 + 2.0)
    undecided = ListTransactionsRequest(["Ongoing", "PrepareCommit", "PrepareAbort"])
    listed = await served.client().call(ApiKey.LIST_TRANSACTIONS, 1, undecided)
    assert listed.error_code == 0
    assert not listed.transaction_states, f"a transaction stays open: {listed.transaction_states}"

    await Reader(simulation, history, "last-reader", ALL_PARTITIONS).read_to_end()
    anomalies = check(history.operations)
    assert not anomalies, "\n".join(map(str, anomalies))

    seen = {
        partition: [
            action.value
            for operation in history.operations
            if operation.process == "last-reader.0"
            for action in operation.polled()
            if action.partition == partition
        ]
        for partition in ALL_PARTITIONS
    }
    for partition in ALL_PARTITIONS:
        raw = await read_committed(served.client(), partition)
        assert raw == seen[partition], f"{partition}: our consumer and the wire differ"
    of_topic = {
        topic: [value for partition in ALL_PARTITIONS if partition.topic == topic for value in seen[partition]]
        for topic in TOPICS
    }
    assert sum(int(value.rpartition(b":")[2]) for value in of_topic[ACCOUNTS]) == 0, "money was made or lost"
    copied = Counter(value.rpartition(b"@")[0] for value in of_topic[OUTPUT])
    assert copied == Counter(of_topic[INPUT]), "not every input was copied once"
    outcomes = Counter(operation.outcome for operation in history.operations)
    simulation.trace.record(f"{sorted(outcomes.items())}, {len(of_topic[ACCOUNTS])} bookings, {len(copied)} copies")
