"""The real broker and groups of our real consumer and producer, in every way to rebalance, while everything fails.

What must hold once the faults stop: the group gets stable with everybody in it, and reads to the end, in time; every
input was copied once, where offsets are committed in transactions, and worked on at least once, where they are not;
and neither the ledger of what members did and were told nor the coordinator's log shows a law broken.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import Awaitable, Callable
from random import Random

from semel.client.producer import Producer
from semel.errors import ErrorCode
from semel.testing.simulation import Simulation
from semel.types import TopicPartition
from semel.wire.apis import ApiKey
from semel.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from semel.wire.messages.describe_groups import DescribeGroupsRequest
from semel.wire.messages.list_groups import ListGroupsRequest
from semel.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from tests.simulation.committed_reader import read_committed
from tests.simulation.group_faults import Fault, Meddler, inject_faults
from tests.simulation.group_ledger import Ledger
from tests.simulation.group_log import check_group_log
from tests.simulation.group_members import INPUT, OUTPUT, TRANSACTION_TIMEOUT_MS, Copier, Reader, Worker
from tests.simulation.served_broker import Served, ServedBroker, create_topic
from tests.simulation.wire_client import WireClient, find_group_coordinator

PARTITIONS = 4
WORKERS = 3
FINISH_S_MAX = 60.0
# Several that are delayed on one connection add up.
LATE_S_MAX = 10.0

# How the members of a group join, one after the other; "converting" is the other way with every process.
MIXES: tuple[tuple[str, ...], ...] = (
    ("eager",),
    ("cooperative",),
    ("consumer",),
    ("eager", "consumer"),
    ("cooperative", "consumer"),
    ("converting",),
)

_OTHER = {"cooperative": "consumer", "consumer": "cooperative"}

BROKER_SETTINGS = {
    "flush": "commit",
    "group_min_session_timeout_ms": "1000",
    "group_initial_rebalance_delay_ms": "0",
    "group_consumer_min_session_timeout_ms": "1000",
    "group_consumer_session_timeout_ms": "2000",
    "group_consumer_min_heartbeat_interval_ms": "100",
    "group_consumer_heartbeat_interval_ms": "300",
}


async def copies_in_transactions(simulation: Simulation) -> Counter[Fault]:
    """Exactly once."""
    return await group_under_faults(simulation, Copier, delays_commits=True)


async def reads_with_plain_commits(simulation: Simulation) -> Counter[Fault]:
    """At least once, and offsets never go back."""
    return await group_under_faults(simulation, Reader, delays_commits=False)


async def reads_with_late_commits(simulation: Simulation) -> Counter[Fault]:
    """At least once, although commits come late, also after the generation that they are of."""
    return await group_under_faults(simulation, Reader, delays_commits=True)


async def group_under_faults(simulation: Simulation, kind: type[Worker], *, delays_commits: bool) -> Counter[Fault]:
    """Returns the faults that struck."""
    faults: Counter[Fault] = Counter()
    served = ServedBroker(simulation, **BROKER_SETTINGS)
    served.start()
    meddler = Meddler(simulation.random("meddler"), faults, delays_commits=delays_commits)

    async def suffer(workers: list[Worker]) -> None:
        simulation.network.interceptor = meddler
        await inject_faults(simulation, served, meddler, workers, faults)

    await group_works(simulation, served, kind, suffer, delays_commits=delays_commits)
    return faults


async def group_works(
    simulation: Simulation,
    served: Served,
    kind: type[Worker],
    suffer: Callable[[list[Worker]], Awaitable[None]],
    *,
    delays_commits: bool,
) -> None:
    """A group works on what is fed to it while it suffers, and then to the end; all laws held."""
    await create_topic(served.clients()[0], INPUT, PARTITIONS, replicas=served.replicas)
    await create_topic(served.clients()[0], OUTPUT, 1, replicas=served.replicas)
    ledger = Ledger(commits_come_late=delays_commits and kind is Reader)
    workers = members(simulation, ledger, kind, served)
    feeder = Feeder(simulation, served, wait_s=LATE_S_MAX if delays_commits else 0.0)
    watcher = Watcher(served, ledger, kind.group)
    watching = asyncio.create_task(watcher.run())
    feeding = simulation.host("feeder").start(feeder.run())
    for worker in workers:
        worker.start()
    await suffer(workers)
    feeder.is_done = True
    await feeding
    if watching.done():
        watching.result()
    watching.cancel()
    await finish(simulation, served, watcher, workers)
    for worker in workers:
        worker.retire()
    await check_all(served, ledger, watcher, feeder, kind)


def members(simulation: Simulation, ledger: Ledger, kind: type[Worker], served: Served) -> list[Worker]:
    mix = MIXES[simulation.seed % len(MIXES)]
    random = simulation.random("members")
    is_static = random.random() < 0.3

    def protocols(number: int) -> Callable[[str], str]:
        if mix == ("converting",):
            return lambda last: _OTHER.get(last) or random.choice(("cooperative", "consumer"))
        return lambda last: mix[number % len(mix)]

    return [
        kind(
            simulation,
            ledger,
            f"worker-{number}",
            protocols(number),
            is_static=is_static,
            servers=served.bootstrap_servers,
        )
        for number in range(WORKERS)
    ]


class Feeder:
    """Writes inputs all the while, so that there is always something to be read; each arrives, and once.

    The last ones are written when nothing is on its way any more: what is late is then about what was read before.
    """

    def __init__(self, simulation: Simulation, served: Served, *, wait_s: float) -> None:
        self.is_done = False
        self._servers = served.bootstrap_servers
        self.count = 0
        self._wait_s = wait_s
        self._host = simulation.host("feeder")
        self._random: Random = simulation.random("feeder")
        self._client = simulation.random("feeder's producer")

    async def run(self) -> None:
        async with Producer(
            network=self._host.network,
            clock=self._host.clock,
            random=self._client,
            bootstrap_servers=self._servers,
            request_timeout_ms=1_000,
            delivery_timeout_ms=60_000,
        ) as producer:
            while not self.is_done:
                for _ in range(self._random.randint(1, 6)):
                    producer.send(INPUT, b"%d" % self.count, partition=self._random.randrange(PARTITIONS))
                    self.count += 1
                await asyncio.sleep(self._random.uniform(0.0, 1.0))
            await asyncio.sleep(self._wait_s)
            for partition in range(PARTITIONS):
                producer.send(INPUT, b"%d" % self.count, partition=partition)
                self.count += 1


class Watcher:
    """Asks all the while how far the group has read, as somebody who is not in it."""

    def __init__(self, served: Served, ledger: Ledger, group: str) -> None:
        self._clients = itertools.cycle(served.clients())
        self._client = next(self._clients)
        self._ledger = ledger
        self._group = group

    async def run(self) -> None:
        while True:
            await self.committed()
            await asyncio.sleep(0.2)

    async def committed(self) -> dict[int, int]:
        """By partition; none of them if the coordinator does not say."""
        asked = [OffsetFetchRequestTopic(INPUT, list(range(PARTITIONS)))]
        expectation = self._ledger.expectation()
        try:
            coordinator = await self._coordinator()
            answer = await coordinator.call(ApiKey.OFFSET_FETCH, 7, OffsetFetchRequest(self._group, asked))
        except (OSError, TimeoutError):
            return {}
        if answer.error_code != ErrorCode.NONE:
            return {}
        found = {one.partition_index: one.committed_offset or 0 for one in answer.topics[0].partitions}
        for partition, offset in found.items():
            self._ledger.seen(expectation, TopicPartition(INPUT, partition), offset)
        return found

    async def state(self) -> tuple[str, int]:
        """As it is called, and how many members there are."""
        ask = (await self._coordinator()).call
        listed = await ask(ApiKey.LIST_GROUPS, 5, ListGroupsRequest())
        for group in listed.groups:
            if group.group_id == self._group and group.group_type == "consumer":
                modern = ConsumerGroupDescribeRequest([self._group])
                described = await ask(ApiKey.CONSUMER_GROUP_DESCRIBE, 0, modern)
                return group.group_state, len(described.groups[0].members)
            if group.group_id == self._group:
                described = await ask(ApiKey.DESCRIBE_GROUPS, 5, DescribeGroupsRequest([self._group]))
                return group.group_state, len(described.groups[0].members)
        return "unknown", 0

    async def _coordinator(self) -> WireClient:
        """Ask one broker for it, and if that is away, the next time another one."""
        try:
            return await find_group_coordinator(self._client, self._group)
        except (OSError, TimeoutError):
            self._client = next(self._clients)
            raise


async def finish(simulation: Simulation, served: Served, watcher: Watcher, workers: list[Worker]) -> None:
    """There are no faults any more: the group reads to the end and is stable, in time."""
    deadline = simulation.loop.time() + FINISH_S_MAX
    while True:
        await asyncio.sleep(0.5)
        for worker in workers:
            worker.raise_error()
        try:
            ends = {one: len(await _committed(served, _input(one))) for one in range(PARTITIONS)}
            committed, state = await watcher.committed(), await watcher.state()
        except (OSError, TimeoutError):
            continue
        if committed == ends and state == ("Stable", len(workers)):
            return
        found = f"the group is {state[0]} with {state[1]} members and has read {committed} of {ends}"
        assert simulation.loop.time() < deadline, f"{found} after {FINISH_S_MAX} s of peace"


async def check_all(served: Served, ledger: Ledger, watcher: Watcher, feeder: Feeder, kind: type[Worker]) -> None:
    inputs = [value for one in range(PARTITIONS) for value in await _committed(served, _input(one))]
    assert Counter(inputs) == Counter(b"%d" % number for number in range(feeder.count)), "not what was fed"
    if kind is Copier:
        # Long enough for what a zombie has open, or has under way, to be decided.
        await asyncio.sleep(TRANSACTION_TIMEOUT_MS / 1000 + 2.0)
        copied = Counter(await _committed(served, TopicPartition(OUTPUT, 0)))
        assert not copied - Counter(inputs), f"copied more than once: {copied - Counter(inputs)}"
        assert not Counter(inputs) - copied, f"not copied: {Counter(inputs) - copied}"
    else:
        assert ledger.processed.keys() == set(inputs), f"not worked on: {set(inputs) - ledger.processed.keys()}"
    await watcher.committed()
    log = await check_group_log(served, kind.group, commits_come_late=ledger.commits_come_late)
    assert log.commits
    assert log.generations


async def _committed(served: Served, partition: TopicPartition) -> list[bytes | None]:
    return await read_committed(served.leader_of(partition), partition)


def _input(partition: int) -> TopicPartition:
    return TopicPartition(INPUT, partition)
