"""The directory of one of three brokers that have replicas of a topic, one damage to one of its files, and its return.

The others stay up meanwhile, or all of them were killed and the struck one is the first to come back. Its journal holds
everything that was written, or was used again since the last checkpoint.

The law (scenario 66): everything acknowledged is read once and in order, whichever broker leads. All logs are equal in
the end. Only a batch that was flipped or zeroed inside a segment may wait there until it is read: while the struck
broker leads, its readers find the batch by its checksum, and read everything once another broker leads. A start is
refused only where the broker's identity is damaged, in a sentence that names the file and the remedy.
"""

from __future__ import annotations

import asyncio
from random import Random

from semel.errors import DecodeError
from semel.log.disk import write_file
from semel.testing.simulation import Simulation, run
from semel.types import TopicPartition
from tests.simulation.damaged_directory import damage, files
from tests.simulation.served_cluster import ServedCluster, ServedMember
from tests.simulation.test_lost_replicas import RECORDS, all_in_sync
from tests.simulation.test_replicas import EXPIRY_S, TOPIC, assert_equal_logs, leader, producer, started, values

IDENTITY = "/data/meta.properties"
REMEDY = "ove it away: it is made again"
JOURNALS = ("/data/journal.0", "/data/journal.1")
STRUCK = f"/data/{TOPIC}-0/"
# What a broker takes to start, many times over.
START_S = 60.0


def withstand_as_replica(seed: int) -> dict[str, int]:
    """Raises ``AssertionError`` where the law is broken. Returns what became of the logs."""

    async def scenario(simulation: Simulation) -> dict[str, int]:
        return await _strike(simulation, Random(seed), f"seed {seed}")

    return run(scenario)


async def _strike(simulation: Simulation, random: Random, about: str) -> dict[str, int]:
    cluster = await started(simulation)
    await _send(simulation)
    await _checkpoint(cluster)
    struck = random.choice(list(cluster.brokers.values()))
    older = struck.host.disk.copy()
    await _send(simulation)
    journal_is_used_again = random.random() < 0.5
    if journal_is_used_again or random.random() < 0.5:
        await _checkpoint(cluster)
    is_first, clean = random.random() < 0.5, random.random() < 0.5
    away = list(cluster.brokers.values()) if is_first else [struck]
    if clean:
        await struck.broker.stop()
    for member in away:
        member.host.kill()
    await asyncio.sleep(EXPIRY_S)
    disk = struck.host.disk
    disk.kill()  # It can be used again.
    if journal_is_used_again:
        for journal in JOURNALS:
            if disk.exists(journal):
                write_file(disk, journal, b"", sync=True)
    paths = [path for path in files(disk) if path.count("/") == 2 or path.startswith(STRUCK)]
    kind, path = damage(disk, older, random, paths)
    about = f"{about}: {kind} of {path} of {struck.name}, {'stopped' if clean else 'killed'}"
    if is_first:
        about += ", the first to come back"
    for member in (struck, *(member for member in away if member is not struck)):
        member.start()
        is_refused = not await _is_up(member)
        if is_refused:
            _check_refusal(simulation, member, path, about)
    await all_in_sync(cluster)
    is_damaged_inside = path.endswith(".log") and kind in ("flip", "zero")
    try:
        found = await values(cluster, 0)
    except DecodeError as error:
        if not is_damaged_inside or leader(cluster, 0) is not struck:
            raise AssertionError(f"{about}: {error}") from error
        struck.host.kill()
        await asyncio.sleep(EXPIRY_S)
        found = await values(cluster, 0)
        assert found == RECORDS * 2, f"{about}: another leader has {len(found)} of {2 * len(RECORDS)} records"
        return {"stopped at a damaged batch": 1}
    assert found == RECORDS * 2, f"{about}: {len(found)} of {2 * len(RECORDS)} records are read"
    if not await _is_up(struck):
        return {"refused": 1}
    assert TopicPartition(TOPIC, 0) not in struck.broker.node.logs.unavailable, about
    if is_damaged_inside and leader(cluster, 0) is not struck:
        return {"stopped at a damaged batch": 1}
    assert_equal_logs(cluster)
    return {"whole": 1}


async def _send(simulation: Simulation) -> None:
    async with producer(simulation) as sending:
        for value in RECORDS:
            await sending.send(TOPIC, value, partition=0)
    await asyncio.sleep(1)


async def _checkpoint(cluster: ServedCluster) -> None:
    for member in cluster.brokers.values():
        member.broker.node.logs.checkpoint()
    await asyncio.sleep(1)


async def _is_up(member: ServedMember) -> bool:
    try:
        async with asyncio.timeout(START_S):
            await member.until_up()
    except TimeoutError:
        return False
    return True


def _check_refusal(simulation: Simulation, member: ServedMember, path: str, about: str) -> None:
    assert path == IDENTITY, f"{about}: {member.name} does not start"
    said = [event.text for event in simulation.trace.events if f"{member.name} could not start" in event.text]
    assert said, about
    assert "meta.properties" in said[-1], f"{about}: {said[-1]}"
    assert REMEDY in said[-1] or "newer program" in said[-1], f"{about}: {said[-1]}"
