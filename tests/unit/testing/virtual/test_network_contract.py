"""What asyncio promises of a connection, on the loopback interface and on the virtual network."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

import pytest

from semel.net.network import Listener, Network, ProtocolFactory, SystemNetwork
from semel.testing.virtual.loop import VirtualLoop
from semel.testing.virtual.network import VirtualNetwork
from tests.unit.testing.virtual.network_protocols import BufferedRecorder, Echo, Recorder

HOST = "127.0.0.1"
Scenario = Callable[[Network], Coroutine[Any, Any, Any]]
Run = Callable[[Scenario], Any]


class TidyNetwork:
    """Real sockets, with the ends of all connections remembered, so that a test need not close them."""

    def __init__(self) -> None:
        self._network = SystemNetwork()
        self._protocols: list[Any] = []

    async def listen(self, host: str, port: int, factory: ProtocolFactory) -> Listener:
        return await self._network.listen(host, port, lambda: self._remembered(factory))

    async def connect(
        self, host: str, port: int, factory: ProtocolFactory
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        return await self._network.connect(host, port, lambda: self._remembered(factory))

    async def tidy_up(self) -> None:
        for protocol in self._protocols:
            protocol.transport.abort()
            await protocol.lost.wait()

    def _remembered(self, factory: ProtocolFactory) -> asyncio.BaseProtocol:
        protocol = factory()
        self._protocols.append(protocol)
        return protocol


def on_loopback(scenario: Scenario) -> Any:
    async def main() -> Any:
        network = TidyNetwork()
        result = await scenario(network)
        await network.tidy_up()
        return result

    return asyncio.run(main())


def virtually(scenario: Scenario) -> Any:
    results = []
    for seed in range(10):
        loop = VirtualLoop()
        results.append(loop.run(scenario(VirtualNetwork(loop, Random(seed)))))
    assert all(result == results[0] for result in results), "the outcome must not depend on the seed"
    return results[0]


both = pytest.mark.parametrize("run", [on_loopback, virtually])


async def connected(network: Network, server: Any, client: Any) -> tuple[asyncio.Transport, asyncio.Transport]:
    """The two ends of a connection between the given protocols."""
    listener = await network.listen(HOST, 0, lambda: server)
    transport, protocol = await network.connect(HOST, listener.port, lambda: client)
    assert protocol is client
    transport.write(b"!")
    await server.received(1)
    server.data.clear()
    listener.close()
    return transport, server.transport


async def time_passes(network: Network) -> None:
    """Long enough for bytes to cross the network: somebody else's do."""
    listener = await network.listen(HOST, 0, Echo)
    transport, client = await network.connect(HOST, listener.port, Recorder)
    assert isinstance(client, Recorder)
    for size in range(1, 11):
        transport.write(b"?")
        await client.received(size)
    transport.close()
    listener.close()


@both
def test_bytes_arrive_in_order_in_both_directions(run: Run) -> None:
    message = bytes(range(256)) * 400

    async def scenario(network: Network) -> bytes:
        listener = await network.listen(HOST, 0, Echo)
        transport, client = await network.connect(HOST, listener.port, Recorder)
        assert isinstance(client, Recorder)
        for start in range(0, len(message), 1000):
            transport.write(message[start : start + 1000])
        answer = await client.received(len(message))
        transport.close()
        await client.lost.wait()
        listener.close()
        return answer

    assert run(scenario) == message


@both
def test_a_buffered_protocol_gets_every_byte_through_its_own_buffer(run: Run) -> None:
    message = bytes(range(256)) * 1000

    async def scenario(network: Network) -> tuple[bytes, bool]:
        server = BufferedRecorder(buffer_bytes=1000)
        transport, _ = await connected(network, server, Recorder())
        transport.writelines([message[:3000], memoryview(message)[3000:], b""])
        return await server.received(len(message)), 0 < min(server.sizes) <= max(server.sizes) <= 1000

    assert run(scenario) == (message, True)


@both
def test_both_ends_know_each_others_address(run: Run) -> None:
    async def scenario(network: Network) -> tuple[bool, bool, object]:
        client, server = await connected(network, Recorder(), Recorder())
        return (
            client.get_extra_info("peername") == server.get_extra_info("sockname"),
            server.get_extra_info("peername") == client.get_extra_info("sockname"),
            server.get_extra_info("no such thing", "default"),
        )

    assert run(scenario) == (True, True, "default")


@both
def test_close_delivers_what_was_written_and_tells_both_sides_once(run: Run) -> None:
    message = b"x" * 1_000_000

    async def scenario(network: Network) -> tuple[Any, ...]:
        server, client = Recorder(), Recorder()
        transport, _ = await connected(network, server, client)
        transport.write(message)
        transport.close()
        transport.close()
        closing = transport.is_closing()
        transport.write(b"after close: ignored")
        await server.lost.wait()
        await client.lost.wait()
        return closing, len(server.data), server.calls, client.calls[-1], server.error, client.error

    assert run(scenario) == (True, len(message), ["made", "eof", "lost"], "lost", None, None)


@both
def test_nothing_is_delivered_after_close(run: Run) -> None:
    async def scenario(network: Network) -> bytes:
        server, client = Recorder(), Recorder()
        transport, other = await connected(network, server, client)
        other.write(b"1")
        await client.received(1)
        other.write(b"too late")
        transport.close()
        await client.lost.wait()
        await server.lost.wait()
        return bytes(client.data)

    assert run(scenario) == b"1"


@both
def test_abort_ends_the_connection_at_both_sides(run: Run) -> None:
    async def scenario(network: Network) -> tuple[Any, ...]:
        server, client = Recorder(), Recorder()
        transport, _ = await connected(network, server, client)
        transport.abort()
        await server.lost.wait()
        await client.lost.wait()
        return client.calls, client.error, server.calls.count("lost")

    assert run(scenario) == (["made", "lost"], None, 1)


@both
def test_a_half_closed_connection_still_carries_the_answer(run: Run) -> None:
    async def scenario(network: Network) -> tuple[Any, ...]:
        server, client = Recorder(half_open=True), Recorder()
        transport, other = await connected(network, server, client)
        assert transport.can_write_eof()
        transport.write(b"question")
        transport.write_eof()
        with pytest.raises(RuntimeError, match=r"Cannot call write\(\) after write_eof\(\)"):
            transport.write(b"more")
        await server.ended.wait()
        other.write(b"answer")
        answer = await client.received(6)
        other.close()
        await client.lost.wait()
        await server.lost.wait()
        return bytes(server.data), answer, server.error, client.error

    assert run(scenario) == (b"question", b"answer", None, None)


@both
def test_a_protocol_that_keeps_a_closed_connection_open_fails_when_it_writes(run: Run) -> None:
    async def scenario(network: Network) -> bool:
        server, client = Recorder(half_open=True), Recorder()
        transport, other = await connected(network, server, client)
        transport.close()
        await server.ended.wait()
        while not server.lost.is_set():
            other.write(b"anybody there?")
            await time_passes(network)
        return isinstance(server.error, ConnectionResetError | BrokenPipeError)

    assert run(scenario) is True


@both
def test_nothing_is_read_while_reading_is_paused_and_nothing_is_lost(run: Run) -> None:
    message = bytes(range(256)) * 4000

    async def scenario(network: Network) -> tuple[Any, ...]:
        server, client = Recorder(), Recorder()
        transport, other = await connected(network, server, client)
        other.pause_reading()
        other.pause_reading()
        reading = other.is_reading()
        for start in range(0, len(message), 50_000):
            transport.write(message[start : start + 50_000])
        await time_passes(network)
        received_while_paused = len(server.data)
        other.resume_reading()
        whole = await server.received(len(message)) == message
        return reading, received_while_paused, whole, min(server.pieces) > 0, other.is_reading()

    assert run(scenario) == (False, 0, True, True, True)


@both
def test_a_writer_is_told_to_pause_when_nobody_reads_and_to_resume_when_somebody_does(run: Run) -> None:
    message = b"x" * 32_000_000

    async def scenario(network: Network) -> tuple[Any, ...]:
        server, client = Recorder(), Recorder()
        transport, other = await connected(network, server, client)
        transport.set_write_buffer_limits(high=50_000, low=10_000)
        other.pause_reading()
        transport.write(message)
        paused = client.calls[-1], transport.get_write_buffer_size() > 50_000
        other.resume_reading()
        await client.writable.wait()
        small = transport.get_write_buffer_size() <= 10_000
        size = len(await server.received(len(message)))
        return paused, small, size, min(server.pieces) > 0, transport.get_write_buffer_limits()

    assert run(scenario) == (("pause", True), True, len(message), True, (10_000, 50_000))


@both
def test_another_protocol_may_take_over_a_connection(run: Run) -> None:
    async def scenario(network: Network) -> tuple[bytes, bytes]:
        server, successor = Recorder(), Recorder()
        transport, other = await connected(network, server, Recorder())
        other.set_protocol(successor)
        assert other.get_protocol() is successor
        transport.write(b"for the successor")
        await successor.received(17)
        other.set_protocol(server)
        return bytes(server.data), bytes(successor.data)

    assert run(scenario) == (b"", b"for the successor")


@both
def test_connecting_to_nobody_is_refused(run: Run) -> None:
    async def scenario(network: Network) -> int | None:
        listener = await network.listen(HOST, 0, Recorder)
        port = listener.port
        listener.close()
        with pytest.raises(ConnectionRefusedError) as refusal:
            await network.connect(HOST, port, Recorder)
        return refusal.value.errno

    assert run(scenario) == errno.ECONNREFUSED


@both
def test_a_port_is_listened_on_once_and_free_again_after_close(run: Run) -> None:
    async def scenario(network: Network) -> int | None:
        listener = await network.listen(HOST, 0, Recorder)
        port = listener.port
        with pytest.raises(OSError, match=r"\[Errno \d+\]") as refusal:
            await network.listen(HOST, port, Recorder)
        listener.close()
        again = await network.listen(HOST, port, Recorder)
        assert again.port == port
        again.close()
        return refusal.value.errno

    assert run(scenario) == errno.EADDRINUSE


@both
def test_a_connection_outlives_its_listener(run: Run) -> None:
    async def scenario(network: Network) -> bytes:
        server, client = Recorder(), Recorder()
        transport, _ = await connected(network, server, client)  # which closes the listener
        transport.write(b"still here")
        return await server.received(10)

    assert run(scenario) == b"still here"


@both
@pytest.mark.parametrize("data", ["text", None, 5])
def test_only_bytes_can_be_written(run: Run, data: Any) -> None:
    async def scenario(network: Network) -> None:
        transport, _ = await connected(network, Recorder(), Recorder())
        with pytest.raises(TypeError):
            transport.write(data)

    run(scenario)
