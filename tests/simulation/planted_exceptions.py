"""An exception planted in one step of a client's driver: in its machine, below it, or where senders are told.

A plant is a function that gets a ``Planted`` client and changes one method of one object in it, so that it raises
``Planned`` from then on. What has to happen so that the step is reached (``Reached``) the scenario does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from semel.client.drivers.driver import Driver
from semel.net.network import Network


class Planned(Exception):
    """Raised by a plant, and by nothing else."""


def raise_planned(*arguments: Any, **keywords: Any) -> Any:
    raise Planned("planted")


@dataclass
class Planted:
    """A client that runs, and what is inside it."""

    machine: Any
    driver: Driver
    network: PlantedNetwork


class PlantedNetwork:
    """A network that connects, unless it is told to raise; and whose transports can be told to."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._transports: list[Any] = []
        self.connect_raises = self.send_raises = False

    async def listen(self, *arguments: Any) -> Any:
        return await self._network.listen(*arguments)

    async def connect(self, host: str, port: int, factory: Callable[[], asyncio.BaseProtocol]) -> Any:
        if self.connect_raises:
            raise_planned()
        transport, protocol = await self._network.connect(host, port, factory)
        self._transports.append(transport)
        if self.send_raises:
            transport.writelines = raise_planned  # type: ignore[method-assign]
        return transport, protocol

    def break_transports(self) -> None:
        self.send_raises = True
        for transport in self._transports:
            transport.writelines = raise_planned

    @property
    def open_count(self) -> int:
        return sum(not transport.is_closing() for transport in self._transports)


Plant = Callable[[Planted], None]


def in_machine(method: str, part: str | None = None) -> Plant:
    def plant(planted: Planted) -> None:
        holder = planted.machine if part is None else getattr(planted.machine, part)
        setattr(holder, method, raise_planned)

    return plant


def in_driver(method: str) -> Plant:
    return lambda planted: setattr(planted.driver, method, raise_planned)


def connecting(planted: Planted) -> None:
    planted.network.connect_raises = True


def sending(planted: Planted) -> None:
    planted.network.break_transports()


def after(method: str, part: str) -> Plant:
    """The method does its work, and raises then: what it has taken out of one place is in no other yet."""

    def plant(planted: Planted) -> None:
        holder = getattr(planted.machine, part)
        original = getattr(holder, method)

        def wrapped(*arguments: Any, **keywords: Any) -> Any:
            original(*arguments, **keywords)
            raise_planned()

        setattr(holder, method, wrapped)

    return plant


def encoding(planted: Planted) -> None:
    """A batch has left the queue of those that wait, and cannot be encoded."""

    def drain(queue: Any, batch: Any) -> None:
        queue.take_new()
        raise_planned()

    planted.machine._sender._drain = drain


def settling(planted: Planted) -> None:
    """A batch is out of all queues, and its memory cannot be given back."""
    planted.machine._accumulator.settled = raise_planned


def telling(planted: Planted) -> None:
    """The second of the futures that are made from now on cannot be told: those behind it are not told either."""
    made: list[asyncio.Future[Any]] = []

    class Deaf(asyncio.Future[Any]):
        def set_result(self, result: Any) -> None:
            raise_planned()

    def create_future() -> asyncio.Future[Any]:
        loop = asyncio.get_running_loop()
        made.append(Deaf(loop=loop) if len(made) == 1 else loop.create_future())
        return made[-1]

    planted.driver.create_future = create_future


OF_ALL: dict[str, Plant] = {
    "poll": in_machine("poll"),
    "next_deadline_ms": in_machine("next_deadline_ms"),
    "connected": in_machine("connected"),
    "received": in_machine("received"),
    "disconnected": in_machine("disconnected"),
    "connect": connecting,
    "send": sending,
    "set_timer": in_driver("_set_timer"),
    "turned": in_driver("_turned"),
}
"""The steps that every client has."""

OF_A_PRODUCER: dict[str, Plant] = {
    "take_settled": in_machine("take_settled"),
    "encode": encoding,
    "settle": settling,
    "settled": after("_settle", "_sender"),
    "answered": in_machine("_returned", "_sender"),
    "tell": telling,
    "place": in_machine("append", "_accumulator"),
    "place bulk": in_machine("append_built", "_accumulator"),
    "metadata": in_machine("poll", "_metadata"),
}

NEEDS_A_LOSS = {"connected", "disconnected", "connect"}
"""They are reached when the connection is lost and made again."""
