"""A broker that may have lost records comes back outside of the in-sync sets, and copies them (scenario 66)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from semel.log.disk import read_file, write_file
from semel.testing.simulation import Simulation, run
from semel.testing.virtual.disk import VirtualDisk
from semel.types import TopicPartition
from tests.simulation.served_cluster import ServedCluster, ServedMember
from tests.simulation.test_replicas import (
    EXPIRY_S,
    TOPIC,
    assert_equal_logs,
    leader,
    log_of,
    producer,
    started,
    state,
    values,
)

RECORDS = [b"%d" % number for number in range(30)]
FOLDER = f"{TOPIC}-0"


async def filled(simulation: Simulation, **settings: str) -> ServedCluster:
    cluster = await started(simulation, **settings)
    async with producer(simulation) as sending:
        for value in RECORDS:
            await sending.send(TOPIC, value, partition=0)
    await asyncio.sleep(1)
    return cluster


def watch_in_sync_sets(cluster: ServedCluster, watched: ServedMember) -> list[tuple[int, ...]]:
    """The in-sync sets of partition 0, from now on, as another broker sees them."""
    other = next(member for member in cluster.brokers.values() if member is not watched)
    seen: list[tuple[int, ...]] = []
    other.broker.node.cluster.watch(lambda before, after, changes: seen.append(after.partition(TOPIC, 0).isr))  # type: ignore[union-attr]
    return seen


async def all_in_sync(cluster: ServedCluster) -> None:
    for _ in range(60):
        await asyncio.sleep(1)
        if all(sorted(state(cluster, index).isr) == [1, 2, 3] for index in range(3)):
            return


@pytest.mark.parametrize("flush", ["os", "commit"])
def test_a_machine_that_died_with_unsynced_records_leaves_the_in_sync_sets(flush: str) -> None:
    async def scenario(simulation: Simulation) -> None:
        cluster = await filled(simulation, flush=flush)
        dying = leader(cluster, 0)
        seen = watch_in_sync_sets(cluster, dying)
        dying.host.cut_power()
        dying.start()
        await dying.until_up()
        assert flush == "commit" or any(dying.node_id not in isr for isr in seen)
        await all_in_sync(cluster)
        assert_equal_logs(cluster)
        assert not dying.broker.node.logs.machine_died
        assert await values(cluster, 0) == RECORDS

    run(scenario)


def test_a_process_that_died_stays_in_the_in_sync_sets_with_flush_os() -> None:
    async def scenario(simulation: Simulation) -> None:
        cluster = await filled(simulation, flush="os")
        follower = next(member for member in cluster.brokers.values() if member is not leader(cluster, 0))
        follower.host.kill()
        follower.start()
        await follower.until_up()
        assert log_of(follower, 0).log_end_offset == len(RECORDS)
        assert not follower.broker.node.logs.machine_died
        await all_in_sync(cluster)
        assert await values(cluster, 0) == RECORDS

    run(scenario)


def without_its_last_bytes(disk: VirtualDisk, folder: str) -> None:
    for path in segments(disk, folder):
        write_file(disk, path, read_file(disk, path)[:-7], sync=True)


def without_a_folder(disk: VirtualDisk, folder: str) -> None:
    disk.remove_folder(folder)


def empty(disk: VirtualDisk, folder: str) -> None:
    for path in segments(disk, folder):
        write_file(disk, path, b"", sync=True)


def segments(disk: VirtualDisk, folder: str) -> list[str]:
    return [f"{folder}/{name}" for name in disk.list(folder) if name.endswith(".log")]


@pytest.mark.parametrize("damage", [without_its_last_bytes, without_a_folder, empty])
@pytest.mark.parametrize("leads", [False, True])
def test_a_damaged_replica_is_copied_again_and_never_spreads__scenario_66(
    damage: Callable[[VirtualDisk, str], None], leads: bool
) -> None:
    async def scenario(simulation: Simulation) -> None:
        cluster = await filled(simulation)
        struck = next(member for member in cluster.brokers.values() if (member is leader(cluster, 0)) == leads)
        folder = f"{struck.broker.node.logs.path}/{FOLDER}"
        await struck.broker.stop()
        struck.host.kill()
        await asyncio.sleep(EXPIRY_S)
        struck.host.disk.kill()  # It can be used again.
        damage(struck.host.disk, folder)
        struck.start()
        await struck.until_up()
        assert TopicPartition(TOPIC, 0) not in struck.broker.node.logs.unavailable
        await all_in_sync(cluster)
        assert_equal_logs(cluster)
        assert await values(cluster, 0) == RECORDS

    run(scenario)


@pytest.mark.parametrize("damage", [without_its_last_bytes, without_a_folder, empty])
def test_a_damaged_replica_does_not_lead_though_it_is_the_first_to_come_back__scenario_66(
    damage: Callable[[VirtualDisk, str], None],
) -> None:
    async def scenario(simulation: Simulation) -> None:
        cluster = await filled(simulation)
        struck = leader(cluster, 0)
        data = struck.broker.node.logs.path
        struck.broker.node.logs.checkpoint()
        await asyncio.sleep(1)
        for member in cluster.brokers.values():
            member.host.kill()
        struck.host.disk.kill()
        damage(struck.host.disk, f"{data}/{FOLDER}")
        for journal in ("journal.0", "journal.1"):
            write_file(struck.host.disk, f"{data}/{journal}", b"", sync=True)
        for member in (struck, *(member for member in cluster.brokers.values() if member is not struck)):
            member.start()
            await member.until_up()
        await all_in_sync(cluster)
        assert_equal_logs(cluster)
        assert await values(cluster, 0) == RECORDS

    run(scenario)


@pytest.mark.parametrize("byte", [12, 60], ids=["epoch", "record"])
def test_a_leader_with_a_damaged_batch_gives_up_and_fetches_it_again__scenario_66(byte: int) -> None:
    """A bit flips in the middle of the leader's log. A follower that has lost its disk refuses what it is sent."""

    async def scenario(simulation: Simulation) -> None:
        cluster = await filled(simulation)
        leading = leader(cluster, 0)
        segment = log_of(leading, 0).segments.first
        place = segment.locate(20)
        assert place is not None
        content = segment.file.read(0, segment.size_bytes)
        at = place.position + byte
        segment.file.write(at, bytes([content[at] ^ 0x40]))
        losing = next(member for member in cluster.brokers.values() if member is not leading)
        losing.host.kill()
        await asyncio.sleep(EXPIRY_S)
        cluster.brokers[losing.node_id] = replaced = cluster.stranger(losing.node_id)
        replaced.start()
        await replaced.until_up()
        await asyncio.sleep(20)
        assert leader(cluster, 0) not in (leading, replaced)
        assert leading.node_id not in state(cluster, 0).isr
        assert await values(cluster, 0) == RECORDS
        leading.host.kill()
        leading.start()
        await leading.until_up()
        await all_in_sync(cluster)
        assert_equal_logs(cluster)
        assert await values(cluster, 0) == RECORDS

    run(scenario)


@pytest.mark.parametrize("power_cut", [False, True])
@pytest.mark.parametrize("flush", ["os", "commit"])
def test_the_last_in_sync_replica_leads_again_unless_its_machine_died_with_unsynced_records(
    flush: str, power_cut: bool
) -> None:
    """With flush=os it may lack what it has acknowledged: the partition waits for an election by hand."""

    async def scenario(simulation: Simulation) -> None:
        cluster = await filled(simulation, flush=flush)
        last = leader(cluster, 0)
        for member in cluster.brokers.values():
            if member is not last:
                member.host.kill()
        await asyncio.sleep(EXPIRY_S)
        assert state(cluster, 0).isr == (last.node_id,)
        last.host.cut_power() if power_cut else last.host.kill()
        await asyncio.sleep(EXPIRY_S)
        last.start()
        await last.until_up()
        await asyncio.sleep(5)
        if flush == "os" and power_cut:
            assert (state(cluster, 0).leader, state(cluster, 0).isr) == (None, ())
        else:
            assert (state(cluster, 0).leader, state(cluster, 0).isr) == (last.node_id, (last.node_id,))

    run(scenario)


def test_records_that_were_not_synced_are_missed_also_if_the_broker_comes_back_with_flush_commit() -> None:
    async def scenario(simulation: Simulation) -> None:
        cluster = await filled(simulation, flush="os")
        last = leader(cluster, 0)
        for member in cluster.brokers.values():
            if member is not last:
                member.host.kill()
        await asyncio.sleep(EXPIRY_S)
        last.host.cut_power()
        await asyncio.sleep(EXPIRY_S)
        last.settings = {**last.settings, "flush": "commit"}
        last.start()
        await last.until_up()
        await asyncio.sleep(5)
        assert (state(cluster, 0).leader, state(cluster, 0).isr) == (None, ())

    run(scenario)
