"""The copier: a Fetch says what is on disk here, and an answer counts for what was asked."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any
from uuid import UUID

from semel.broker.replication.copier import PARTITIONS_PER_FETCH, CopiedPartition, Copier
from semel.wire.messages.fetch import EpochEndOffset, FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from semel.wire.records import Record, build_batch

TOPIC_ID = UUID(int=7)


class Log:
    """A log that ends at one offset and is synced up to another."""

    topic_id, partition = TOPIC_ID, 0
    log_start_offset = persisted_log_start_offset = high_watermark = 0
    latest_epoch = 3
    offline = None

    def __init__(self, log_end_offset: int, durable_offset: int) -> None:
        self.log_end_offset = log_end_offset
        self.durable_offset = durable_offset
        self.is_sync_asked_for = False
        self.on_durable: Callable[[Any], None] = lambda log: None

    def follow(self) -> None:
        """Nothing was begun."""

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        return epoch, self.log_end_offset

    def sync_unawaited(self) -> None:
        self.is_sync_asked_for = True

    def synced(self) -> None:
        self.durable_offset = self.log_end_offset
        self.on_durable(self)

    def append_copied(self, records: memoryview, *, now_ms: int) -> None:
        self.log_end_offset = self.durable_offset = self.log_end_offset + 1

    def followed(self, *, high_watermark: int, log_start_offset: int) -> None:
        self.log_start_offset = max(self.log_start_offset, log_start_offset)


class Bench:
    """A copier and its leader, broker 2, as whom the test answers."""

    def __init__(self) -> None:
        self.fetches: list[tuple[FetchRequest, Callable[[FetchResponse | None], None]]] = []
        self.followed: list[Any] = []
        config = SimpleNamespace(
            node_id=1, replica_fetch_max_bytes=1, replica_fetch_wait_max_ms=1, replica_fetch_response_max_bytes=1
        )
        self.log_starts_persisted = asyncio.Event()
        logs = SimpleNamespace(
            truncate_soon=self._truncate_soon, restart_soon=None, persist_log_starts=self._persist_log_starts
        )
        self._truncating: tuple[dict[Any, int], Callable[[dict[Any, Exception]], None]] | None = None
        node: Any = SimpleNamespace(config=config, clock=SimpleNamespace(now_ms=lambda: 0), logs=logs, cleaner=None)
        peers: Any = SimpleNamespace(broker_epoch=5, ask=self._ask)
        self.copier = Copier(
            node, peers, asyncio.get_running_loop(), 2, served=_ignored, failed=_ignored, changing=_ignored
        )

    def _truncate_soon(self, wanted: dict[Any, int], then: Callable[[dict[Any, Exception]], None]) -> None:
        self._truncating = wanted, then

    def truncated(self) -> None:
        """The worker has carried out what it was asked for."""
        assert self._truncating is not None
        (wanted, then), self._truncating = self._truncating, None
        for log, offset in wanted.items():
            log.log_end_offset = log.durable_offset = offset
        then({})

    async def _persist_log_starts(self) -> None:
        await self.log_starts_persisted.wait()
        for copied in self.followed:
            copied.log.persisted_log_start_offset = copied.log.log_start_offset

    def _ask(
        self,
        _leader: int,
        _purpose: object,
        _api: object,
        request: FetchRequest,
        answered: Callable[[FetchResponse | None], None],
    ) -> None:
        self.fetches.append((request, answered))

    def follow(self, log: Log, *, leader_epoch: int) -> CopiedPartition:
        any_log: Any = log
        copied = CopiedPartition(any_log, leader_epoch)
        self.followed.append(copied)
        self.copier.follow(copied)
        return copied

    async def turn(self) -> None:
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    @property
    def positions(self) -> list[tuple[int | None, int]]:
        """(leader epoch, offset) of what each Fetch named."""
        return [
            (named.current_leader_epoch, named.fetch_offset)
            for request, _ in self.fetches
            for topic in request.topics
            for named in topic.partitions
        ]

    @property
    def log_starts(self) -> list[int | None]:
        return [
            named.log_start_offset
            for request, _ in self.fetches
            for topic in request.topics
            for named in topic.partitions
        ]

    def answer(self, fetch: int, records: bytes, *, log_start_offset: int = 0) -> None:
        data = PartitionData(
            partition_index=0,
            high_watermark=0,
            log_start_offset=log_start_offset,
            aborted_transactions=None,
            records=records,
        )
        topics = [FetchableTopicResponse(topic_id=TOPIC_ID, partitions=[data])]
        self.fetches[fetch][1](FetchResponse(session_id=77, responses=topics))

    def diverge(self, fetch: int, *, epoch: int, end_offset: int) -> None:
        data = PartitionData(partition_index=0, diverging_epoch=EpochEndOffset(epoch, end_offset), records=b"")
        topics = [FetchableTopicResponse(topic_id=TOPIC_ID, partitions=[data])]
        self.fetches[fetch][1](FetchResponse(session_id=77, responses=topics))


def _ignored(_copied: CopiedPartition) -> None:
    """No other part of a broker is looked at."""


def run(test: Callable[[Bench], Awaitable[None]]) -> None:
    async def with_bench() -> None:
        await test(Bench())

    asyncio.run(with_bench())


def batch(offset: int) -> bytes:
    return build_batch([Record(offset, 0, None, b"v")], base_offset=offset, partition_leader_epoch=3)


def test_a_partition_is_fetched_from_its_end_on_and_then_after_what_came() -> None:
    async def test(bench: Bench) -> None:
        bench.follow(Log(9, 9), leader_epoch=4)
        await bench.turn()
        assert bench.positions == [(4, 9)]
        bench.answer(0, batch(9))
        await bench.turn()
        assert bench.positions == [(4, 9), (4, 10)]

    run(test)


def test_a_partition_is_added_to_a_session_once_its_id_is_known() -> None:
    """The leader would refuse a Fetch without it, and both would begin a new session."""

    async def test(bench: Bench) -> None:
        bench.follow(Log(9, 9), leader_epoch=4)
        await bench.turn()
        bench.copier.follow(CopiedPartition(_other_log(), leader_epoch=4))
        await bench.turn()
        assert [(fetch.session_id, fetch.session_epoch) for fetch, _ in bench.fetches] == [(0, 0)]
        bench.answer(0, b"")
        await bench.turn()
        assert [(fetch.session_id, fetch.session_epoch) for fetch, _ in bench.fetches] == [(0, 0), (77, 1)]
        assert bench.positions == [(4, 9), (4, 1)]

    run(test)


def test_many_partitions_are_named_in_several_fetches() -> None:
    """A leader that begins to lead ten thousand would otherwise look at all of them in one turn of its loop."""

    async def test(bench: Bench) -> None:
        for number in range(2 * PARTITIONS_PER_FETCH + 1):
            log = Log(1, 1)
            log.partition = number
            bench.follow(log, leader_epoch=4)
        named = []
        for fetch in range(3):
            await bench.turn()
            named.append([one.partition for topic in bench.fetches[fetch][0].topics for one in topic.partitions])
            bench.answer(fetch, b"")
        assert [len(some) for some in named] == [PARTITIONS_PER_FETCH, PARTITIONS_PER_FETCH, 1]
        assert sorted(index for some in named for index in some) == list(range(2 * PARTITIONS_PER_FETCH + 1))

    run(test)


def test_scenario_59_what_this_broker_wrote_as_a_leader_is_synced_before_the_first_fetch_says_that_it_is_here() -> None:
    async def test(bench: Bench) -> None:
        log = Log(9, 7)
        bench.follow(log, leader_epoch=4)
        await bench.turn()
        assert (bench.positions, log.is_sync_asked_for) == ([], True)
        log.synced()
        await bench.turn()
        assert bench.positions == [(4, 9)]

    run(test)


def test_scenario_61_an_answer_to_a_fetch_before_the_partition_was_named_again_is_not_meant_for_it() -> None:
    """The log was truncated for another leader, and then this one leads again: its old answer would leave a gap."""

    async def test(bench: Bench) -> None:
        first = bench.follow(Log(9, 9), leader_epoch=4)
        bench.copier.follow(CopiedPartition(_other_log(), leader_epoch=4))
        await bench.turn()
        bench.answer(0, b"")
        await bench.turn()
        bench.copier.unfollow(first)
        truncated = Log(5, 5)
        bench.follow(truncated, leader_epoch=6)
        await bench.turn()
        assert bench.positions[-1] == (6, 5)
        bench.answer(1, batch(9))
        assert truncated.log_end_offset == 5
        bench.answer(2, batch(5))
        assert truncated.log_end_offset == 6

    run(test)


def test_a_log_start_is_told_to_the_leader_once_it_is_on_disk_also_if_records_came_with_it() -> None:
    """The leader answers DeleteRecords then: a power cut must not bring the records back."""

    async def test(bench: Bench) -> None:
        bench.follow(Log(9, 9), leader_epoch=4)
        await bench.turn()
        bench.answer(0, batch(9), log_start_offset=7)
        await bench.turn()
        assert (bench.positions[-1], bench.log_starts) == ((4, 10), [0, 0])
        bench.log_starts_persisted.set()
        bench.answer(1, batch(10), log_start_offset=7)
        for _ in range(5):
            await bench.turn()
        assert (bench.positions[-1], bench.log_starts[-1]) == ((4, 11), 7)

    run(test)


def test_the_position_of_a_log_that_is_being_truncated_is_told_to_no_leader() -> None:
    """The worker changes it, one number after the other."""

    async def test(bench: Bench) -> None:
        copied = bench.follow(Log(9, 9), leader_epoch=4)
        await bench.turn()
        bench.answer(0, batch(9), log_start_offset=7)
        await bench.turn()
        bench.diverge(1, epoch=3, end_offset=8)
        bench.log_starts_persisted.set()
        for _ in range(5):
            await bench.turn()
        assert copied.is_changing
        assert bench.positions == [(4, 9), (4, 10)]
        bench.truncated()
        await bench.turn()
        assert bench.positions == [(4, 9), (4, 10), (4, 8)]

    run(test)


def _other_log() -> Any:
    """Another partition, which keeps the session going."""
    log = Log(1, 1)
    log.partition = 1
    return log
