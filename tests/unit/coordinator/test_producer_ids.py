"""Producer ids: none is given out twice, whoever claims, whatever crashes (scenario 25, in part)."""

from __future__ import annotations

import asyncio
import json
from functools import partial
from random import Random
from typing import Any, cast

import pytest

from semel.coordinator.producer_ids import PREFETCH_BELOW, ProducerIdBlocks, ProducerIds
from semel.errors import DecodeError, SemelError, StorageError
from semel.metadata.embedded import EmbeddedStore
from semel.metadata.paths import LATEST_PRODUCER_ID_BLOCK
from semel.metadata.producer_id_blocks import BLOCK_SIZE, FORMER_PATH, claim_producer_ids
from semel.metadata.store import MetadataStore, Versioned, compare_and_set
from semel.testing.virtual.crash import SimulatedCrash
from semel.testing.virtual.disk_faults import DiskFault, Operation
from semel.types import INT64_MAX
from tests.unit.metadata.stores import PATH, new_disk, with_store


def test_blocks_are_given_out_in_order_and_to_the_end() -> None:
    blocks = ProducerIdBlocks()
    assert blocks.next() is None
    blocks.claimed(range(5, 7))
    blocks.claimed(range(9, 10))
    assert blocks.remaining == 3
    assert [blocks.next() for _ in range(4)] == [5, 6, 9, None]


class FarStore:
    """A store whose answers take their time, so that what was read may be old when it arrives."""

    def __init__(self, near: EmbeddedStore) -> None:
        self._near = near
        self._chance = Random(0)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._near, name)

    async def get(self, path: str) -> Versioned | None:
        await asyncio.sleep(self._chance.uniform(0, 0.02))
        known = await self._near.get(path)
        await asyncio.sleep(self._chance.uniform(0, 0.02))
        return known


def test_two_claimers_that_meet_get_different_blocks_scenario_25() -> None:
    async def use(store: EmbeddedStore) -> list[range]:
        far = cast(MetadataStore, FarStore(store))
        return list(await asyncio.gather(*(claim_producer_ids(far, node_id=node) for node in range(20))))

    blocks = with_store(use)
    assert sorted(block.start for block in blocks) == [BLOCK_SIZE * n for n in range(20)]


def test_many_clients_of_two_brokers_get_different_ids_across_block_boundaries_scenario_25() -> None:
    async def use(store: EmbeddedStore) -> list[int]:
        brokers = [ProducerIds(partial(claim_producer_ids, store, node_id=node)) for node in (1, 2)]
        ids = await asyncio.gather(*(brokers[n % 2].claim() for n in range(3 * BLOCK_SIZE)))
        for broker in brokers:
            await broker.close()
        return list(ids)

    ids = with_store(use)
    assert len(set(ids)) == len(ids) == 3 * BLOCK_SIZE


@pytest.mark.parametrize("power_cut", [True, False], ids=["power cut", "kill"])
def test_a_broker_that_died_anywhere_never_gives_out_an_id_again(power_cut: bool) -> None:
    disk = new_disk()
    chance = Random(5)
    given: list[int] = []

    async def serve(store: EmbeddedStore) -> None:
        ids = ProducerIds(partial(claim_producer_ids, store, node_id=1))
        for _ in range(chance.randint(1, 2 * BLOCK_SIZE)):
            producer_id = await ids.claim()
            given.append(producer_id)
        await ids.close()

    deaths = 0
    for seed in range(40):
        disk.crash_after(chance.randint(1, 12))
        try:
            with_store(serve, disk, seed=seed, rewrite_size_bytes_min=200)
        except SimulatedCrash:
            deaths += 1
        disk.repair()
        if power_cut:
            disk.crash()
        else:
            disk.kill()
    assert deaths > 10
    assert len(set(given)) == len(given) > 1000


def test_the_next_block_is_claimed_before_the_last_one_ends() -> None:
    claims: list[int] = []

    async def claim() -> range:
        claims.append(len(claims))
        await asyncio.sleep(0.001)
        return range(1000 * len(claims), 1000 * len(claims) + 1000)

    async def use(_: EmbeddedStore) -> None:
        ids = ProducerIds(claim)
        assert ids.next() is None
        assert await ids.claim() == 1000
        for _ in range(BLOCK_SIZE - PREFETCH_BELOW - 1):
            assert ids.next() is not None
        assert len(claims) == 1
        assert ids.next() is not None
        await asyncio.sleep(0.002)
        assert len(claims) == 2
        assert all(ids.next() is not None for _ in range(PREFETCH_BELOW + 500))

    with_store(use)


def test_one_claim_serves_all_who_wait_even_if_one_of_them_goes_away() -> None:
    claims = 0

    async def claim() -> range:
        nonlocal claims
        claims += 1
        await asyncio.sleep(0.001)
        return range(1000 * claims, 1000 * claims + 1000)

    async def use(_: EmbeddedStore) -> None:
        ids = ProducerIds(claim)
        waiting = [asyncio.ensure_future(ids.claim()) for _ in range(10)]
        await asyncio.sleep(0)
        waiting[0].cancel()
        assert sorted(await asyncio.gather(*waiting[1:])) == list(range(1000, 1009))
        assert claims == 1

    with_store(use)


def test_a_store_that_takes_no_changes_hands_out_what_was_claimed_and_then_says_so() -> None:
    disk = new_disk()

    async def use(store: EmbeddedStore) -> None:
        ids = ProducerIds(partial(claim_producer_ids, store, node_id=1))
        given = [await ids.claim()]
        disk.fail(DiskFault(Operation.WRITE, PATH, times=None))
        while (producer_id := ids.next()) is not None:
            given.append(producer_id)
            await asyncio.sleep(0)
        assert given == list(range(BLOCK_SIZE))
        with pytest.raises(StorageError):
            await ids.claim()
        await ids.close()

    with_store(use, disk)


def test_a_claim_is_written_as_the_articles_show_it() -> None:
    async def use(store: EmbeddedStore) -> None:
        for _ in range(5):
            await claim_producer_ids(store, node_id=35)
        known = await store.get("/latest_producer_id_block")
        assert known is not None
        assert json.loads(known.value) == {"version": 1, "broker": 35, "block_start": "4000", "block_end": "4999"}

    with_store(use)


def test_ids_go_on_where_an_earlier_format_ended() -> None:
    async def use(store: EmbeddedStore) -> None:
        await compare_and_set(store, FORMER_PATH, b'{"claimed_by":1,"next_producer_id":7000}', None)
        assert await claim_producer_ids(store, node_id=1) == range(7000, 8000)
        assert await store.get(FORMER_PATH) is None
        assert await claim_producer_ids(store, node_id=1) == range(8000, 9000)

    with_store(use)


@pytest.mark.parametrize("path", [LATEST_PRODUCER_ID_BLOCK, FORMER_PATH])
@pytest.mark.parametrize("value", [b"", b"{}", b'{"next_producer_id":"seven","block_end":"x"}'])
def test_a_claim_that_cannot_be_read_is_an_error_and_not_a_new_beginning(path: str, value: bytes) -> None:
    async def use(store: EmbeddedStore) -> None:
        await compare_and_set(store, path, value, None)
        with pytest.raises(DecodeError, match=path):
            await claim_producer_ids(store, node_id=1)

    with_store(use)


def test_ids_end_with_the_64_bits_and_do_not_wrap() -> None:
    async def use(store: EmbeddedStore) -> None:
        last = INT64_MAX - BLOCK_SIZE
        await compare_and_set(store, LATEST_PRODUCER_ID_BLOCK, b'{"block_end":"%d"}' % (last - 1), None)
        block = await claim_producer_ids(store, node_id=1)
        assert (block.start, block[-1]) == (last, INT64_MAX - 1)
        with pytest.raises(SemelError, match="used up"):
            await claim_producer_ids(store, node_id=1)

    with_store(use)
