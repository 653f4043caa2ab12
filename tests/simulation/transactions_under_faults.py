"""The real broker with our real producer and consumer: senders, a bank, copiers and readers, under all faults at once.

What must hold once the faults stop: everybody finishes; no transaction stays open; the checker finds nothing in the
history of all clients; the bank's accounts add up to zero; every input is copied once.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable

from semel.testing.checker import check
from semel.testing.simulation import Simulation
from semel.types import TopicPartition
from semel.wire.apis import ApiKey
from semel.wire.messages.list_transactions import ListTransactionsRequest
from tests.simulation.broker_faults import Fault, Meddler, inject_faults
from tests.simulation.client_history import History
from tests.simulation.client_workloads import (
    TRANSACTION_TIMEOUT_MS,
    Application,
    Bank,
    Copier,
    Deserter,
    Reader,
    Sender,
)
from tests.simulation.committed_reader import read_committed
from tests.simulation.served_broker import Served, ServedBroker, create_topic

ACCOUNTS, INPUT, OUTPUT = "accounts", "input", "output"
PARTITIONS = 2
TOPICS = (ACCOUNTS, INPUT, OUTPUT)
ALL_PARTITIONS = [TopicPartition(topic, partition) for topic in TOPICS for partition in range(PARTITIONS)]
FINISH_S_MAX = 60.0


async def transactions_v2(simulation: Simulation) -> Counter[Fault]:
    return await clients_under_faults(simulation, transaction_version=2)


async def transactions_v1(simulation: Simulation) -> Counter[Fault]:
    return await clients_under_faults(simulation, transaction_version=1)


async def transactions_v1_with_late_ends(simulation: Simulation) -> Counter[Fault]:
    return await clients_under_faults(simulation, transaction_version=1, late_end_probability=0.5, spares_older=False)


async def transactions_v2_with_late_ends(simulation: Simulation) -> Counter[Fault]:
    return await clients_under_faults(simulation, transaction_version=2, late_end_probability=0.5)


async def clients_under_faults(
    simulation: Simulation, *, transaction_version: int, late_end_probability: float = 0.12, spares_older: bool = True
) -> Counter[Fault]:
    """Returns the faults that struck."""
    faults: Counter[Fault] = Counter()
    served = ServedBroker(simulation, flush="commit", transaction_version=str(transaction_version))
    history = History(simulation.loop.time)
    await start(simulation, served)
    applications, readers = workloads(simulation, history, served)
    meddler = Meddler(simulation.random("meddler"), faults, late_end_probability, spares_older=spares_older)
    simulation.network.interceptor = meddler
    for application in [*applications, *readers]:
        application.start()
    await inject_faults(simulation, served, meddler, [*applications, *readers], faults)
    simulation.network.interceptor = None
    await finish_all(simulation, applications, readers, history)
    await check_all(simulation, served, history)
    return faults


async def start(simulation: Simulation, served: ServedBroker) -> None:
    """Start the broker, on a quick disk or a slow one, and create the topics."""
    served.quick_disk = simulation.random("quick disk").random() < 0.3
    served.start()
    await create_topics(served)


async def create_topics(served: Served) -> None:
    for topic in TOPICS:
        await create_topic(served.clients()[0], topic, PARTITIONS, replicas=served.replicas)


def workloads(
    simulation: Simulation, history: History, served: Served, *, is_peace: Callable[[], bool] = lambda: True
) -> tuple[list[Application], list[Reader]]:
    """``is_peace``: until then, what a sender has given up may still come to be seen, and copiers wait for it."""
    where = {"servers": served.bootstrap_servers}
    senders = [Sender(simulation, history, f"sender-{n}", INPUT, n % PARTITIONS, 25, **where) for n in range(3)]
    banks = [Bank(simulation, history, f"bank-{n}", ACCOUNTS, PARTITIONS, 20, **where) for n in range(2)]
    copiers = [
        Copier(
            simulation,
            history,
            f"copier-{partition}",
            source=TopicPartition(INPUT, partition),
            target=OUTPUT,
            partitions=PARTITIONS,
            is_all_sent=lambda: is_peace() and all(sender.is_done for sender in senders),
            **where,
        )
        for partition in range(PARTITIONS)
    ]
    deserter = Deserter(simulation, history, "deserter", ACCOUNTS, PARTITIONS, **where)
    return [*senders, *banks, *copiers, deserter], [Reader(simulation, history, "reader", ALL_PARTITIONS, **where)]


async def finish_all(
    simulation: Simulation, applications: list[Application], readers: list[Reader], history: History
) -> None:
    """There are no faults any more: the applications get done, then the readers have read everything."""
    await finish(simulation, applications)
    simulation.host("deserter").kill()
    for reader in readers:
        reader.is_done = True
    await finish(simulation, readers, until=lambda: history.is_complete)


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


async def check_all(simulation: Simulation, served: Served, history: History) -> None:
    await asyncio.sleep(TRANSACTION_TIMEOUT_MS / 1000 + 2.0)
    undecided = ListTransactionsRequest(["Ongoing", "PrepareCommit", "PrepareAbort"])
    for client in served.clients():
        listed = await client.call(ApiKey.LIST_TRANSACTIONS, 1, undecided)
        assert listed.error_code == 0
        assert not listed.transaction_states, f"a transaction stays open: {listed.transaction_states}"

    await Reader(simulation, history, "last-reader", ALL_PARTITIONS, servers=served.bootstrap_servers).read_to_end()
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
        raw = await read_committed(served.leader_of(partition), partition)
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
