"""Faults of the virtual network: each does what its name says, and nothing happens unasked."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

import pytest

from semel.testing.virtual.frames import DELIVER, DROP, REPEAT, RESET, Frame, Verdict
from semel.testing.virtual.latency import constant_ms, mostly, uniform_ms
from semel.testing.virtual.links import Link
from semel.testing.virtual.loop import VirtualLoop
from semel.testing.virtual.network import VirtualNetwork
from tests.unit.testing.virtual.network_protocols import BufferedRecorder, Echo, Recorder

SLOW = Link(latency=constant_ms(10))
Scenario = Callable[[VirtualNetwork], Coroutine[Any, Any, Any]]


def run(scenario: Scenario, *, seed: int = 0, link: Link = SLOW, give_up_ms: float = 60_000) -> Any:
    loop = VirtualLoop()
    return loop.run(scenario(VirtualNetwork(loop, Random(seed), link=link, give_up_ms=give_up_ms)))


async def connected(network: VirtualNetwork, server: Any = None, client: Any = None) -> tuple[Any, Any]:
    """The protocols at the two ends of a connection from host ``c`` to host ``s``."""
    server, client = server or Recorder(), client or Recorder()
    listener = await network.host("s").listen("0.0.0.0", 9092, lambda: server)
    await network.host("c").connect("s", 9092, lambda: client)
    await asyncio.sleep(0)
    listener.close()
    return client, server


def framed(*payloads: bytes) -> bytes:
    return b"".join(len(data).to_bytes(4, "big") + data for data in payloads)


def test_bytes_arrive_as_late_as_the_link_says() -> None:
    async def scenario(network: VirtualNetwork) -> float:
        client, server = await connected(network)
        sent_at = asyncio.get_running_loop().time()
        client.transport.write(b"x")
        await server.received(1)
        return asyncio.get_running_loop().time() - sent_at

    assert run(scenario) == pytest.approx(0.010)


def test_each_link_has_its_own_latency() -> None:
    async def scenario(network: VirtualNetwork) -> float:
        network.set_link("s", "c", Link(latency=constant_ms(500)))
        started = asyncio.get_running_loop().time()
        await connected(network)
        return asyncio.get_running_loop().time() - started

    assert run(scenario) == pytest.approx(1.0)


def test_what_was_written_at_once_may_arrive_in_pieces_and_what_was_not_may_arrive_together() -> None:
    async def scenario(network: VirtualNetwork) -> tuple[int, ...]:
        client, server = await connected(network)
        for _ in range(3):
            client.transport.write(b"0123456789")
        await server.received(30)
        return tuple(server.pieces)

    seen = {run(scenario, seed=seed, link=Link(latency=uniform_ms(0, 5))) for seed in range(700)}
    assert {(30,), (10, 10, 10), (10, 20), (20, 10)} <= seen
    boundaries = {sum(pieces[:number]) for pieces in seen for number in range(1, len(pieces))}
    assert boundaries == set(range(1, 30)), "every byte is a possible boundary"


def test_an_occasional_hiccup_delays_and_never_reorders() -> None:
    async def scenario(network: VirtualNetwork) -> tuple[bytes, bool]:
        client, server = await connected(network)
        started = asyncio.get_running_loop().time()
        for number in range(200):
            client.transport.write(bytes([number]))
            await asyncio.sleep(0.001)
        return await server.received(200), asyncio.get_running_loop().time() - started > 0.5

    hiccups = Link(latency=mostly(uniform_ms(0, 2), constant_ms(500), rare_probability=0.02))
    assert run(scenario, link=hiccups) == (bytes(range(200)), True)


def test_a_partition_holds_everything_back_until_it_heals() -> None:
    async def scenario(network: VirtualNetwork) -> tuple[Any, ...]:
        client, server = await connected(network)
        client.transport.write(b"on its way")
        network.partition("c", "s")
        client.transport.write(b", waiting")
        await asyncio.sleep(30)
        before = bytes(server.data)
        network.heal("c", "s")
        return before, await server.received(19), client.calls, server.calls

    assert run(scenario) == (b"", b"on its way, waiting", ["made"], ["made"])


def test_a_partition_of_one_direction_holds_back_that_one_alone() -> None:
    async def scenario(network: VirtualNetwork) -> tuple[Any, ...]:
        client, server = await connected(network)
        network.partition_one_way("c", "s")
        client.transport.write(b"there")
        server.transport.write(b"back")
        arrived = await client.received(4)
        await asyncio.sleep(30)
        before = bytes(server.data)
        network.heal("s")
        return bytes(arrived), before, bytes(await server.received(5))

    assert run(scenario) == (b"back", b"", b"there")


def test_a_partition_between_two_leaves_the_others_alone() -> None:
    async def scenario(network: VirtualNetwork) -> bytes:
        network.partition("c", "s", "x")
        await network.host("s").listen("s", 1, Echo)
        transport, other = await network.host("d").connect("s", 1, Recorder)
        assert isinstance(other, Recorder)
        transport.write(b"free")
        return await other.received(4)

    assert run(scenario) == b"free"


def test_healing_one_partition_leaves_the_others() -> None:
    async def scenario(network: VirtualNetwork) -> tuple[bool, bool, bool]:
        network.partition("a", "b", "c", "d")
        network.heal("a", "b")
        first = network._links.blocked("a", "b"), network._links.blocked("a", "c")
        network.heal("a")
        return (*first, network._links.blocked("d", "a"))

    assert run(scenario) == (False, True, False)


def test_a_sender_gives_up_on_a_partition_that_lasts_and_its_peer_learns_of_it_when_it_writes() -> None:
    async def scenario(network: VirtualNetwork) -> tuple[Any, ...]:
        client, server = await connected(network)
        network.partition("c", "s")
        client.transport.write(b"x")
        await client.lost.wait()
        gave_up_at = asyncio.get_running_loop().time()
        network.heal()
        await asyncio.sleep(100)
        half_open = not server.lost.is_set()
        server.transport.write(b"anybody there?")
        await server.lost.wait()
        return client.error.errno, 60 < gave_up_at < 61, half_open, type(server.error)

    assert run(scenario) == (errno.ETIMEDOUT, True, True, ConnectionResetError)


def test_an_idle_connection_survives_a_partition_of_any_length() -> None:
    async def scenario(network: VirtualNetwork) -> bytes:
        client, server = await connected(network)
        network.partition("c", "s")
        await asyncio.sleep(10_000)
        network.heal()
        client.transport.write(b"x")
        return bytes(await server.received(1))

    assert run(scenario) == b"x"


def test_connecting_through_a_partition_waits_for_it_to_heal_or_times_out() -> None:
    async def scenario(network: VirtualNetwork) -> tuple[Any, ...]:
        await network.host("s").listen("s", 1, Recorder)
        network.partition("c", "s")
        with pytest.raises(TimeoutError) as refusal:
            await network.host("c").connect("s", 1, Recorder)
        asyncio.get_running_loop().call_later(20, network.heal)
        before = asyncio.get_running_loop().time()
        await network.host("c").connect("s", 1, Recorder)
        return refusal.value.errno, before, asyncio.get_running_loop().time() - before > 20

    assert run(scenario) == (errno.ETIMEDOUT, 60.0, True)


def test_a_connect_that_is_cancelled_halfway_leaves_nothing_open() -> None:
    async def scenario(network: VirtualNetwork) -> tuple[Any, ...]:
        server = Recorder()
        await network.host("s").listen("s", 1, lambda: server)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.015):
                await network.host("c").connect("s", 1, Recorder)
        await server.lost.wait()
        await asyncio.sleep(1)
        return server.calls.count("made"), server.calls.count("lost"), network.connection_count

    assert run(scenario) == (1, 1, 0)


def test_a_link_can_refuse_connections() -> None:
    async def scenario(network: VirtualNetwork) -> None:
        await network.host("s").listen("s", 1, Recorder)
        network.set_link("c", "s", Link(refuses=True))
        with pytest.raises(ConnectionRefusedError):
            await network.host("c").connect("s", 1, Recorder)
        await network.host("d").connect("s", 1, Recorder)

    run(scenario)


def test_nothing_reaches_or_leaves_a_paused_host() -> None:
    async def scenario(network: VirtualNetwork) -> tuple[Any, ...]:
        client, server = await connected(network, server=Echo())
        client.transport.write(b"1")
        await client.received(1)
        network.pause("s")
        client.transport.write(b"2")
        server.transport.write(b"from the paused one")
        await asyncio.sleep(30)
        before = bytes(server.data), bytes(client.data)
        network.resume("s")
        await server.received(2)
        await client.received(21)
        return before

    assert run(scenario) == (b"1", b"1")


def test_a_paused_host_does_not_give_up_its_own_connections() -> None:
    async def scenario(network: VirtualNetwork) -> tuple[bytes, list[str]]:
        client, server = await connected(network)
        server.transport.write(b"late")
        network.pause("s")
        await asyncio.sleep(600)
        network.resume("s")
        return await client.received(4), server.calls

    assert run(scenario) == (b"late", ["made"])


def test_a_reset_breaks_the_connections_of_one_link_at_both_ends() -> None:
    async def scenario(network: VirtualNetwork) -> tuple[Any, ...]:
        client, server = await connected(network)
        network.reset("s", "x")
        network.reset("s", "c")
        await client.lost.wait()
        await server.lost.wait()
        await asyncio.sleep(1)
        return type(client.error), type(server.error), network.connection_count

    assert run(scenario) == (ConnectionResetError, ConnectionResetError, 0)


def test_a_link_may_reset_connections_by_chance_with_part_of_the_data_delivered() -> None:
    async def scenario(network: VirtualNetwork) -> int:
        client, server = await connected(network)
        network.set_link("c", "s", Link(latency=uniform_ms(1, 10), reset_probability=0.2))
        for _ in range(100):
            client.transport.write(b"x" * 10)
            await asyncio.sleep(0.002)
        await client.lost.wait()
        await server.lost.wait()
        return len(server.data)

    delivered = {run(scenario, seed=seed) for seed in range(40)}
    assert len(delivered) > 10
    assert max(delivered) < 1000


def test_a_link_may_stall_connections_until_the_sender_gives_up() -> None:
    async def scenario(network: VirtualNetwork) -> tuple[Any, ...]:
        client, server = await connected(network)
        network.set_link("c", "s", Link(stall_probability=1.0))
        client.transport.write(b"x")
        await client.lost.wait()
        return client.error.errno, bytes(server.data), asyncio.get_running_loop().time() > 60

    assert run(scenario) == (errno.ETIMEDOUT, b"", True)


def test_killing_a_host_ends_its_listeners_and_its_peers_connections_and_calls_nothing_in_it() -> None:
    async def scenario(network: VirtualNetwork) -> tuple[Any, ...]:
        client, server = await connected(network)
        await network.host("s").listen("s", 1, Recorder)
        server.transport.close()  # Its `connection_lost` is already on the way.
        network.kill("s")
        await client.lost.wait()
        with pytest.raises(ConnectionRefusedError):
            await network.host("c").connect("s", 1, Recorder)
        await asyncio.sleep(1)
        return server.calls, network.connection_count

    assert run(scenario) == (["made"], 0)


def test_a_host_may_die_with_its_last_words_cut_off_anywhere() -> None:
    async def scenario(network: VirtualNetwork) -> int:
        client, server = await connected(network)
        for _ in range(4):
            client.transport.write(b"0123456789")
        network.kill("c")
        await server.lost.wait()
        return len(server.data)

    assert {0, 10, 20, 30, 40} < {run(scenario, seed=seed) for seed in range(200)}


def test_a_silent_death_is_noticed_only_by_those_who_write() -> None:
    async def scenario(network: VirtualNetwork) -> tuple[bool, type]:
        client, _ = await connected(network)
        network.kill("s", silently=True)
        await asyncio.sleep(1000)
        unnoticed = not client.lost.is_set()
        client.transport.write(b"x")
        await client.lost.wait()
        return unnoticed, type(client.error)

    assert run(scenario) == (True, ConnectionResetError)


def test_a_host_that_died_can_listen_again_under_its_name() -> None:
    async def scenario(network: VirtualNetwork) -> bytes:
        await connected(network)
        network.kill("s")
        await network.host("s").listen("s", 9092, Echo)
        transport, client = await network.host("c").connect("s", 9092, Recorder)
        assert isinstance(client, Recorder)
        transport.write(b"again")
        return await client.received(5)

    assert run(scenario) == b"again"


def test_an_interceptor_sees_every_frame_of_both_directions() -> None:
    async def scenario(network: VirtualNetwork) -> list[tuple[str, str, bool, bytes]]:
        seen: list[Frame] = []
        network.interceptor = lambda frame: seen.append(frame) or DELIVER  # type: ignore[func-returns-value]
        client, _ = await connected(network, server=Echo())
        data = framed(b"one", b"", b"three")
        for byte in range(len(data)):
            client.transport.write(data[byte : byte + 1])
        await client.received(len(data))
        return [(frame.source, frame.destination, frame.to_server, frame.payload) for frame in seen]

    seen = run(scenario)
    assert [frame for frame in seen if frame[2]] == [("c", "s", True, data) for data in (b"one", b"", b"three")]
    assert [frame for frame in seen if not frame[2]] == [("s", "c", False, data) for data in (b"one", b"", b"three")]


@pytest.mark.parametrize(
    ("verdict", "expected"),
    [
        (DELIVER, framed(b"one", b"two", b"three")),
        (DROP, framed(b"one", b"three")),
        (REPEAT, framed(b"one", b"two", b"two", b"three")),
        (Verdict(delay_ms=5000), framed(b"one", b"two", b"three")),
    ],
)
def test_an_interceptor_drops_repeats_and_delays_whole_frames(verdict: Verdict, expected: bytes) -> None:
    async def scenario(network: VirtualNetwork) -> tuple[bytes, bool]:
        network.interceptor = lambda frame: verdict if frame.payload == b"two" else DELIVER
        client, server = await connected(network, server=BufferedRecorder())
        client.transport.write(framed(b"one", b"two", b"three"))
        received = await server.received(len(expected))
        await asyncio.sleep(10)
        assert bytes(server.data) == expected
        return received, asyncio.get_running_loop().time() > 15

    assert run(scenario) == (expected, verdict.delay_ms > 0)


def test_an_interceptor_loses_a_message_as_tcp_does_with_its_connection() -> None:
    async def scenario(network: VirtualNetwork) -> tuple[Any, ...]:
        network.interceptor = lambda frame: DELIVER if frame.to_server else RESET
        client, server = await connected(network, server=Echo())
        client.transport.write(framed(b"request"))
        await client.lost.wait()
        await server.lost.wait()
        return bytes(server.data), bytes(client.data), type(client.error)

    assert run(scenario) == (framed(b"request"), b"", ConnectionResetError)


@pytest.mark.parametrize("hang_up", ["close", "abort"])
def test_a_delayed_frame_arrives_after_its_sender_has_hung_up_and_come_back(hang_up: str) -> None:
    """Scenario 21: a request that is late enough to meet what its sender did afterwards."""

    async def scenario(network: VirtualNetwork) -> list[bytes]:
        arrived: list[bytes] = []

        class Server(asyncio.Protocol):
            def data_received(self, data: bytes) -> None:
                arrived.append(data[4:])

        network.interceptor = lambda frame: Verdict(delay_ms=30_000) if frame.payload == b"old" else DELIVER
        await network.host("s").listen("s", 1, Server)
        first, _ = await network.host("c").connect("s", 1, Recorder)
        first.write(framed(b"old"))
        getattr(first, hang_up)()
        second, _ = await network.host("c").connect("s", 1, Recorder)
        second.write(framed(b"new"))
        await asyncio.sleep(60)
        return arrived

    seen = [b"".join(run(scenario, seed=seed)) for seed in range(10)]
    assert all(data.startswith(b"n") and data.endswith(b"old") for data in seen)


def test_a_protocol_that_raises_loses_its_connection_and_fails_the_run() -> None:
    class Broken(Recorder):
        def data_received(self, data: bytes) -> None:
            raise ValueError("cannot read this")

    async def scenario(network: VirtualNetwork) -> None:
        client, _ = await connected(network, server=Broken())
        client.transport.write(b"x")
        await client.lost.wait()

    with pytest.raises(ValueError, match="cannot read this"):
        run(scenario)


def test_a_host_listens_only_as_itself() -> None:
    async def scenario(network: VirtualNetwork) -> None:
        with pytest.raises(OSError, match="host s cannot listen as t"):
            await network.host("s").listen("t", 1, Recorder)

    run(scenario)


def test_connections_that_are_over_are_forgotten() -> None:
    async def scenario(network: VirtualNetwork) -> int:
        await network.host("s").listen("s", 1, Echo)
        for number in range(50):
            transport, client = await network.host("c").connect("s", 1, Recorder)
            assert isinstance(client, Recorder)
            transport.write(b"x" * number)
            if number % 3 == 0:
                transport.abort()
            elif number % 3 == 1:
                transport.close()
            else:
                network.reset("c", "s")
            await client.lost.wait()
        await asyncio.sleep(10)
        return network.connection_count

    assert [run(scenario, seed=seed) for seed in range(5)] == [0] * 5
