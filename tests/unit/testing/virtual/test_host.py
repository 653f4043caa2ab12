"""Machines that die in all the ways there are."""

from __future__ import annotations

import asyncio

from semel.log.disk import read_file
from semel.testing.simulation import Simulation, run
from semel.testing.virtual.page_cache import Unsynced


async def write_for_ever(simulation: Simulation, log: list[str]) -> None:
    host = simulation.host("victim")
    file = host.disk.open("/a", create=True)
    host.disk.sync_directory("/")
    try:
        for number in range(1000):
            file.write(number, b"x")
            if number < 5:
                file.sync()
            await asyncio.sleep(1)
    finally:
        log.append("finally")
        host.disk.remove("/a")


def test_a_killed_process_leaves_what_it_wrote_and_does_not_clean_up() -> None:
    async def scenario(simulation: Simulation) -> tuple[object, ...]:
        host, log = simulation.host("victim"), list[str]()
        host.start(write_for_ever(simulation, log))
        await asyncio.sleep(9.5)
        host.kill()
        await asyncio.sleep(100)
        dead = host.alive, list(log)
        content = await host.start(asyncio.sleep(0, "started again"))
        return dead, content, read_file(host.disk, "/a")

    assert run(scenario) == ((False, []), "started again", b"x" * 10)


def test_a_power_cut_leaves_what_was_synced() -> None:
    async def scenario(simulation: Simulation) -> bytes:
        host = simulation.host("victim")
        host.start(write_for_ever(simulation, []))
        await asyncio.sleep(9.5)
        host.cut_power()
        await host.start(asyncio.sleep(0))
        return read_file(host.disk, "/a")

    left = {run(scenario, seed=seed) for seed in range(50)}
    assert all(content.startswith(b"x" * 5) for content in left)
    assert {b"x" * 5, b"x" * 10} <= left


def test_a_process_that_dies_within_a_disk_operation_touches_the_disk_no_more() -> None:
    """The unwinding stack runs ``finally``, which removes the file: it must not get through."""

    async def scenario(simulation: Simulation) -> tuple[bool, list[str], bool, list[str]]:
        host, log = simulation.host("victim"), list[str]()
        host.start(write_for_ever(simulation, log))
        await asyncio.sleep(7)
        host.kill_in_disk_operation(2)
        await asyncio.sleep(7)
        alive = host.alive
        await host.start(asyncio.sleep(0))
        return alive, host.disk.list("/"), len(read_file(host.disk, "/a")) < 10, log

    assert run(scenario) == (False, ["a"], True, ["finally"])


def test_a_process_that_kills_its_own_host_does_nothing_afterwards() -> None:
    async def scenario(simulation: Simulation) -> tuple[list[str], bytes]:
        host, log = simulation.host("victim"), list[str]()

        async def suicide() -> None:
            file = host.disk.open("/a", create=True)
            file.write(0, b"1")
            host.kill()
            log.append("still on the stack")
            file.write(1, b"2")
            log.append("wrote from the grave")

        host.start(suicide())
        await asyncio.sleep(1)
        await host.start(asyncio.sleep(0))
        return log, read_file(host.disk, "/a")

    assert run(scenario) == (["still on the stack"], b"1")


def test_a_worker_dies_with_its_process() -> None:
    async def scenario(simulation: Simulation) -> list[str]:
        host, log = simulation.host("victim"), list[str]()

        async def work() -> None:
            worker = host.worker()
            for _ in range(10):
                worker.run(lambda: log.append("worked"), lambda result: log.append("told"))

        await host.start(work())
        host.kill()
        await asyncio.sleep(1)
        return log

    assert run(scenario) == []


def test_a_paused_process_neither_hears_nor_sends_nor_counts_the_time() -> None:
    async def scenario(simulation: Simulation) -> tuple[int, int]:
        host, ticks = simulation.host("sleeper"), list[int]()

        async def tick() -> None:
            while True:
                await asyncio.sleep(1)
                ticks.append(host.clock.now_ms())

        host.start(tick())
        await asyncio.sleep(3.5)
        host.pause()
        await asyncio.sleep(100)
        before = len(ticks)
        host.resume()
        await asyncio.sleep(2)
        return before, len(ticks)

    assert run(scenario) == (3, 5)


def test_the_same_seed_leaves_the_same_disk_after_a_power_cut() -> None:
    async def scenario(simulation: Simulation) -> bytes:
        host = simulation.host("victim")
        file = host.disk.open("/a", create=True)
        host.disk.sync_directory("/")
        file.write(0, bytes(range(256)) * 1000)
        copy = host.disk.copy()
        host.disk.crash()
        copy.crash(Unsynced.LOST)
        assert read_file(copy, "/a") == b""
        return read_file(host.disk, "/a")

    assert run(scenario, seed=11) == run(scenario, seed=11)
    assert len({run(scenario, seed=seed) for seed in range(40)}) > 5
