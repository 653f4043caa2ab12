"""Scenario 25: producer ids are unique in the cluster, for ever: three brokers, killed at any moment."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from semel.coordinator.producer_ids import ProducerIds
from semel.metadata import producer_id_blocks
from semel.metadata.producer_id_blocks import claim_producer_ids
from semel.metadata.store import MetadataStore, VersionConflict, compare_and_set
from semel.metadata.zookeeper.store import ZooKeeperStore
from semel.testing.zookeeper.session import ModelSession
from tests.unit.metadata.zookeepers import FOLDERS, SERVERS, World, with_zookeeper

IDS = 100_000
BROKERS = (1, 2, 3)
TAKEN_AT_ONCE = 250


async def three_brokers_give_out(world: World) -> list[int]:
    """Ids as three brokers gave them out, each of them killed now and then, with whatever it was doing."""
    given: list[int] = []
    chance = world.simulation.random("kills")
    lives = 0

    async def live(node_id: int, life: int) -> None:
        host = world.simulation.host(f"broker-{node_id}")
        session = ModelSession(host.network, SERVERS)
        await session.start()
        store = await ZooKeeperStore.open(
            session, author=str(node_id), incarnation=f"life-{life}", ephemeral_folders=FOLDERS, commit_timeout_s=600
        )
        ids = ProducerIds(lambda: claim_producer_ids(store, node_id=node_id))
        while True:
            for _ in range(TAKEN_AT_ONCE):
                producer_id = await ids.claim()
                given.append(producer_id)
            await asyncio.sleep(chance.random() * 0.01)

    def start(node_id: int) -> None:
        nonlocal lives
        lives += 1
        world.simulation.host(f"broker-{node_id}").start(live(node_id, lives))

    for node_id in BROKERS:
        start(node_id)
    while len(given) < IDS:
        await asyncio.sleep(chance.random() * 0.3)
        node_id = chance.choice(BROKERS)
        world.simulation.host(f"broker-{node_id}").kill()
        start(node_id)
    assert lives > 10, "brokers must have died, or this proves nothing"
    for node_id in BROKERS:
        world.simulation.host(f"broker-{node_id}").kill()
    return given


def test_no_producer_id_is_given_out_twice() -> None:
    given = with_zookeeper(three_brokers_give_out)
    assert len(given) >= IDS
    assert len(set(given)) == len(given)


async def over_any_version(store: MetadataStore, *, node_id: int) -> range:
    """A planted bug: a block is written over whatever is there."""
    known = await store.get("/latest_producer_id_block")
    first = 0 if known is None else producer_id_blocks._number("", known.value, "block_end") + 1
    value = b'{"block_end": "%d"}' % (first + producer_id_blocks.BLOCK_SIZE - 1)
    while True:
        known = await store.get("/latest_producer_id_block")
        try:
            await compare_and_set(store, "/latest_producer_id_block", value, None if known is None else known.version)
        except VersionConflict:
            continue
        return range(first, first + producer_id_blocks.BLOCK_SIZE)


def test_a_block_that_is_written_over_another_claim_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    planted: Callable[..., Coroutine[Any, Any, range]] = over_any_version
    monkeypatch.setitem(globals(), "claim_producer_ids", planted)
    given = with_zookeeper(three_brokers_give_out)
    assert len(set(given)) < len(given)
