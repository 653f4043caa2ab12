"""How all parts of ``Admin`` send requests: with one machine and one driver, and one deadline for each call."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from random import Random
from typing import Any, TypeVar

from semel.client.admin.results import Results
from semel.client.config.admin import AdminConfig
from semel.client.drivers.driver import Driver
from semel.client.drivers.runtime import ClientRuntime
from semel.client.machine.admin.admin import AdminMachine
from semel.client.machine.admin.ask import AnyBroker, Ask, NodeTarget, outcome
from semel.clock import Clock
from semel.net.network import Network
from semel.wire.apis import ApiKey
from semel.wire.messages.metadata import MetadataRequest, MetadataResponse

K = TypeVar("K")
V = TypeVar("V")


class AdminRequests:
    """The machine and the driver that every part of ``Admin`` shares."""

    def __init__(
        self,
        config: AdminConfig,
        machine: AdminMachine,
        *,
        network: Network,
        clock: Clock,
        random: Random,
        guard: AbstractContextManager[Any] | None,
    ) -> None:
        self.config = config
        self.clock = clock
        self.random = random
        self._machine = machine
        self._runtime = ClientRuntime("admin client", machine, network=network, clock=clock, guard=guard)
        self._guard = self._runtime.guard

    @property
    def request_timeout_ms(self) -> int:
        """The timeout in requests: how long a broker may take."""
        return self.config.client.request_timeout_ms

    @property
    def open_calls(self) -> list[str]:
        with self._guard:
            return self._machine.open_calls

    def metrics(self) -> dict[str, float]:
        with self._guard:
            return self._machine.metrics()

    def begin(self) -> AdminCallRequests:
        """Begin a call, which fixes its deadline."""
        return AdminCallRequests(self, self.clock.monotonic_ms() + self.config.default_api_timeout_ms)

    async def many(self, ask: Ask[K, V], keys: Iterable[K]) -> Results[K, V]:
        return await self.begin().many(ask, keys)

    async def one(self, ask: Ask[K, V], key: K) -> V:
        return await self.begin().one(ask, key)

    async def ask(self, ask: Ask[K, V], keys: Iterable[K], deadline_ms: float) -> Results[K, V]:
        driver = self.running()
        with self._guard:
            promise = self._machine.ask(ask, keys, self.clock.monotonic_ms(), deadline_ms)
        return await driver.wait(promise)

    def running(self) -> Driver:
        return self._runtime.running()

    @property
    def is_closed(self) -> bool:
        return self._runtime.is_closed

    async def close(self) -> None:
        if not self.is_closed or self._runtime.failure is not None:
            await self._runtime.shut()


class AdminCallRequests:
    """The requests of one call, which share one deadline."""

    def __init__(self, requests: AdminRequests, deadline_ms: float) -> None:
        self._requests = requests
        self._deadline_ms = deadline_ms

    async def many(self, ask: Ask[K, V], keys: Iterable[K]) -> Results[K, V]:
        return await self._requests.ask(ask, keys, self._deadline_ms)

    async def one(self, ask: Ask[K, V], key: K) -> V:
        """Return the value of one key, or raise its error."""
        return (await self.many(ask, (key,)))[key]

    async def of_each_broker(self, ask: Ask[int, V]) -> dict[int, V]:
        """Return every broker's value, by broker id. Raises if one broker fails: the rest would be incomplete."""
        brokers = await self.one(_BROKERS, "who the brokers are")
        return (await self.many(ask, brokers)).all()


def this_broker(broker_id: int) -> NodeTarget:
    return NodeTarget(broker_id)


def named_broker(broker_id: int) -> str:
    return f"broker {broker_id}"


def _brokers(response: MetadataResponse) -> tuple[int, ...]:
    return tuple(sorted(broker.node_id for broker in response.brokers))


_BROKERS: Ask[str, tuple[int, ...]] = Ask(
    ApiKey.METADATA,
    target=lambda key: AnyBroker(),
    build=lambda keys, version: MetadataRequest(topics=[], allow_auto_topic_creation=False),
    read=lambda response, keys, version: [(keys[0], outcome(_brokers(response), response.error_code))],
    version_min=1,  # Version 0 would answer with every topic.
)
