"""Connecting to a host name that has several addresses, of which some do not answer."""

from __future__ import annotations

import asyncio

import pytest

from semel.net.network import ProtocolFactory, SystemNetwork

NAME = "broker.example"
SILENT, OTHER_SILENT, HERE = "192.0.2.1", "192.0.2.2", "127.0.0.1"


class Named(SystemNetwork):
    """A network in which a name has some addresses. Nothing comes back from those that are not this machine."""

    def __init__(self, *addresses: str) -> None:
        super().__init__()
        self._known = list(addresses)
        self.tried: list[str] = []

    async def _addresses(self, host: str, port: int) -> list[str]:
        return self._known

    async def _connect_to(
        self, address: str, host: str, port: int, factory: ProtocolFactory
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        self.tried.append(address)
        if address != HERE:
            await asyncio.get_running_loop().create_future()
        return await super()._connect_to(address, host, port, factory)


async def attempt(network: SystemNetwork, port: int) -> bool:
    """Connect, and give up once everything that can happen at once has happened. Returns whether it was connected."""
    connecting = asyncio.create_task(network.connect(NAME, port, asyncio.Protocol))
    await asyncio.sleep(0)
    if isinstance(network, Named) and network.tried[-1] != HERE:
        connecting.cancel()
    try:
        transport, _ = await connecting
    except asyncio.CancelledError:
        return False
    transport.abort()
    return True


def test_an_address_that_does_not_answer_is_tried_after_the_others_next_time() -> None:
    async def scenario() -> None:
        network = Named(SILENT, OTHER_SILENT, HERE)
        listener = await network.listen(HERE, 0, asyncio.Protocol)
        assert [await attempt(network, listener.port) for _ in range(4)] == [False, False, True, True]
        assert network.tried == [SILENT, OTHER_SILENT, HERE, HERE]
        listener.close()

    asyncio.run(scenario())


def test_when_no_address_answers_each_has_its_turn() -> None:
    async def scenario() -> None:
        network = Named(SILENT, OTHER_SILENT)
        assert not any([await attempt(network, 9) for _ in range(4)])
        assert network.tried == [SILENT, OTHER_SILENT, SILENT, OTHER_SILENT]

    asyncio.run(scenario())


def test_all_addresses_of_a_name_that_refuse_are_named() -> None:
    async def scenario() -> None:
        network = Named(HERE, HERE)
        listener = await network.listen(HERE, 0, asyncio.Protocol)
        port = listener.port
        listener.close()
        with pytest.raises(OSError, match=r"no address of broker\.example can be connected to: .*; "):
            await network.connect(NAME, port, asyncio.Protocol)

    asyncio.run(scenario())


def test_this_machine_is_found_by_its_name() -> None:
    async def scenario() -> None:
        network = SystemNetwork()
        listener = await network.listen("localhost", 0, asyncio.Protocol)
        transport, _ = await network.connect("localhost", listener.port, asyncio.Protocol)
        transport.abort()
        listener.close()

    asyncio.run(scenario())
