"""Requests that wait, in virtual time: for the disk, for records, for a transaction, and no longer than they said."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

import pytest

from semel.broker.fetch.delayed_fetch import DelayedFetch
from semel.broker.fetch.reading import Reading
from semel.broker.metrics.metrics import Metrics
from semel.broker.partitions.partitions import LedPartitions, Partition
from semel.broker.produce.produce_batch import ProduceBatch
from semel.broker.produce.produce_operation import NO_TIMEOUT_MS, ProduceOperation
from semel.broker.produce.produce_response import partition_response
from semel.broker.waiting.deadlines import Deadlines
from semel.coordinator.decision import Waiter
from semel.coordinator.transaction.results import AddPartitionsResult
from semel.errors import ErrorCode
from semel.log.config import LogConfig
from semel.log.directory import LogDirectory
from semel.log.durability.checkpoints import MetaProperties
from semel.log.outcomes import Origin
from semel.log.topic_logs import TopicLogs
from semel.replication.replica_set import ReplicaSet
from semel.testing.virtual.clock import VirtualClock
from semel.testing.virtual.disk import VirtualDisk
from semel.testing.virtual.latency import uniform_ms
from semel.testing.virtual.loop import VirtualLoop
from semel.testing.virtual.worker import VirtualWorker
from semel.types import TopicPartition
from semel.wire.control import EndTransactionMarker, build_marker_batch
from tests.broker.raw_client import batch


class Request:
    """What a delayed request is to those who answer it."""

    def __init__(self) -> None:
        self.answers: list[Any] = []
        self.held = False

    def delay(self, operation: object, *, hold: bool) -> None:
        self.held = hold

    version = 9

    def answer_delayed(self, make_response: Callable[[], object]) -> None:
        self.answers.append(make_response())

    lacks_room = False

    def forget_room(self, resume: object) -> None:
        """It waits for none."""


class Bench:
    """One partition with a real log, a disk that takes its time, and what else of a node an operation needs."""

    def __init__(self, *, synced: bool = True, sync_ms: float = 2.0) -> None:
        self.loop = VirtualLoop()
        clock = VirtualClock(self.loop)
        self.disk = VirtualDisk()
        self.logs = LogDirectory(
            "/d",
            disk=self.disk,
            clock=clock,
            loop=self.loop,
            make_worker=lambda name: VirtualWorker(self.loop, random.Random(1), work_ms=uniform_ms(sync_ms, sync_ms)),
        )
        self.logs.acquire(MetaProperties("c", 1))
        self.logs.load({})
        log = self.logs.create(TopicPartition("t", 0), TopicLogs(UUID(int=1), LogConfig(), synced))
        self.partitions = LedPartitions(self.loop)
        self.partition = self.partitions.add(log, leader_epoch=0)
        self.deadlines = Deadlines(self.loop)
        self.metrics = Metrics()
        self.clock = clock
        self.request = Request()
        self.coordinators: Any = None

    def append(self, records: bytes, *, origin: Origin = Origin.CLIENT) -> int:
        partition, buffer = self.partition, memoryview(bytearray(records))
        if origin is Origin.CLIENT:
            return partition.append(buffer, now_ms=self.clock.now_ms()).last_offset
        return partition.log.append(buffer, now_ms=self.clock.now_ms(), origin=origin).last_offset

    def replicate(self) -> Partition:
        """Begin a term in which another broker is in sync, which never fetches."""
        log = self.partition.log
        self.partitions.resign(log.topic_partition)
        replicas = ReplicaSet(
            node_id=1,
            replicas=(1, 2),
            isr=(1, 2),
            epoch_start_offset=0,
            log_end_offset=0,
            durable_offset=0,
            high_watermark=0,
            min_insync_replicas=1,
        )
        self.partition = self.partitions.add(log, leader_epoch=1, replicas=replicas)
        return self.partition

    def wait(self, seconds: float = 1.0) -> None:
        self.loop.run_until_complete(asyncio.sleep(seconds))

    def produce(
        self, *partitions: Partition, timeout_ms: int = 30_000, transactional_id: str | None = None
    ) -> ProduceOperation:
        """A request with a batch for each of the partitions, or for the one that there is."""

        def respond(request: object, batches: Sequence[ProduceBatch]) -> None:
            self.request.answers.append([partition_response(each) for each in batches])

        producer: dict[str, Any] = {}
        if transactional_id is not None:
            producer = {"producer_id": 7, "producer_epoch": 0, "base_sequence": 0, "is_transactional": True}
        records = batch(b"x", timestamp=self.clock.now_ms(), **producer)
        operation = ProduceOperation(
            self,  # type: ignore[arg-type]
            self.request,  # type: ignore[arg-type]
            transactional_id,
            -1,
            timeout_ms,
            [
                ProduceBatch(index, memoryview(bytearray(records)), partition)
                for index, partition in enumerate(partitions or (self.partition,))
            ],
            respond,
        )
        operation.serve()
        return operation

    def outcomes(self) -> list[tuple[int, int | None]]:
        """Error code and base offset of each batch, in the answer to the one request."""
        ((*answers,),) = self.request.answers
        return [(answer.error_code, answer.base_offset) for answer in answers]

    def fetch(
        self, *, min_bytes: int = 1, max_wait_ms: int = 30_000, committed_only: bool = False, available: int = 0
    ) -> DelayedFetch:
        def read() -> Reading:
            self.reads += 1
            return Reading([], self.readable_bytes, urgent=False)

        self.readable_bytes = available
        self.reads = 0
        return DelayedFetch(
            self.request,  # type: ignore[arg-type]
            [self.partition],
            available_bytes=available,
            min_bytes=min_bytes,
            max_wait_ms=max_wait_ms,
            committed_only=committed_only,
            deadlines=self.deadlines,
            read=read,
            respond=lambda reading: "answered",
        )


# Produce


def test_a_produce_is_answered_when_its_records_are_durable_and_not_before() -> None:
    bench = Bench()
    bench.produce()
    assert bench.request.answers == []
    assert bench.partition.log.high_watermark == 0

    bench.wait()

    assert bench.outcomes() == [(0, 0)]
    assert bench.partition.log.high_watermark == 1
    assert len(bench.deadlines) == 0
    assert not bench.request.held, "the next requests of the client share the sync"


def test_a_produce_whose_disk_takes_too_long_is_answered_unknown_and_its_records_may_still_become_safe() -> None:
    bench = Bench(sync_ms=500)
    bench.produce(timeout_ms=100)
    bench.wait(0.15)
    assert bench.outcomes() == [(ErrorCode.REQUEST_TIMED_OUT, None)]

    bench.wait(1)
    assert bench.partition.log.high_watermark == 1
    assert len(bench.request.answers) == 1


@pytest.mark.parametrize("timeout_ms", [0, -1])
def test_a_produce_without_a_timeout_waits_for_the_disk_but_not_for_ever(timeout_ms: int) -> None:
    bench = Bench(sync_ms=500)
    bench.produce(timeout_ms=timeout_ms)
    bench.wait(1)
    assert bench.outcomes() == [(0, 0)]

    bench = Bench(sync_ms=100_000)
    bench.produce(timeout_ms=timeout_ms)
    bench.wait(NO_TIMEOUT_MS / 1000 + 1)
    assert bench.outcomes() == [(ErrorCode.REQUEST_TIMED_OUT, None)]


@pytest.mark.parametrize("timeout_ms", [0, -1])
def test_a_produce_without_a_timeout_does_not_wait_for_other_replicas(timeout_ms: int) -> None:
    bench = Bench()
    bench.replicate()
    bench.produce(timeout_ms=timeout_ms)
    bench.wait()
    assert bench.outcomes() == [(ErrorCode.REQUEST_TIMED_OUT, None)]


def test_a_partition_that_goes_offline_fails_who_waits_for_it() -> None:
    bench = Bench()
    bench.produce()
    bench.partition.log.go_offline("planted")
    bench.wait()

    assert bench.outcomes() == [(ErrorCode.KAFKA_STORAGE_ERROR, None)]


def test_a_deleted_partition_fails_who_waits_for_it() -> None:
    bench = Bench()
    bench.produce()
    bench.partitions.remove(TopicPartition("t", 0))
    bench.wait()

    assert bench.outcomes() == [(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None)]


def test_a_batch_that_the_coordinator_refuses_is_sent_to_the_next_leader_if_the_term_has_ended_meanwhile() -> None:
    """A refusal has to be confirmed by the other replicas, and a term that has ended is confirmed by none."""
    bench = Bench()
    topic_partition = bench.replicate().topic_partition
    waiters: list[Waiter[AddPartitionsResult]] = []

    class Coordinators:
        """A coordinator that takes its time."""

        remote_admission = None

        @property
        def transactions(self) -> Coordinators:
            return self

        def run(self, transactional_id: str, decide: object, waiter: Waiter[AddPartitionsResult]) -> object:
            waiters.append(waiter)
            return self

    bench.coordinators = Coordinators()
    bench.produce(transactional_id="mine")
    bench.partitions.resign(topic_partition)
    waiters[0].refuse(ErrorCode.PRODUCER_FENCED)
    bench.wait()
    assert bench.outcomes() == [(ErrorCode.NOT_LEADER_OR_FOLLOWER, None)]


def test_a_produce_whose_client_left_is_not_answered() -> None:
    bench = Bench()
    bench.produce(timeout_ms=1000).abandoned()
    bench.wait(5)

    assert bench.request.answers == []
    assert len(bench.deadlines) == 0


def test_of_two_partitions_the_slower_one_decides_and_a_timeout_names_only_what_is_not_safe() -> None:
    bench = Bench()
    never = Partition(bench.partitions, bench.partition.log, 0)  # It is never told of progress.
    bench.produce(bench.partition, never, timeout_ms=100)
    bench.wait()

    assert bench.outcomes() == [(0, 0), (ErrorCode.REQUEST_TIMED_OUT, None)]


# Fetch


def test_a_fetch_is_woken_by_what_becomes_visible_and_holds_the_client_s_next_requests() -> None:
    bench = Bench()
    bench.fetch()
    assert bench.request.held
    bench.append(batch(b"x", timestamp=0))
    assert bench.request.answers == []

    bench.wait(0.5)

    assert bench.request.answers == ["answered"]
    assert not bench.partition._watching
    assert len(bench.deadlines) == 0


def test_many_appends_in_one_turn_wake_a_fetch_once() -> None:
    bench = Bench(synced=False)
    looked = 0

    class Counting:
        def committed(self, token: object) -> None:
            nonlocal looked
            looked += 1

        def failed(self, token: object, code: ErrorCode) -> None:
            raise AssertionError

        def expired(self) -> None:
            raise AssertionError

        def abandoned(self) -> None:
            raise AssertionError

    bench.partition.watch(Counting())
    bench.wait()
    looked = 0
    for _ in range(50):
        bench.append(batch(b"x", timestamp=0))
    bench.wait()

    assert looked == 1


def test_min_bytes_are_counted_from_what_is_visible() -> None:
    bench = Bench(synced=False)
    size = len(batch(b"x", timestamp=0))
    bench.append(batch(b"x", timestamp=0))
    bench.fetch(min_bytes=3 * size, available=size)
    bench.append(batch(b"x", timestamp=0))
    bench.wait(0.1)
    assert bench.request.answers == []

    bench.append(batch(b"x", timestamp=0))
    bench.wait(0.1)
    assert bench.request.answers == ["answered"]


def test_a_fetch_ends_at_its_deadline_or_with_its_client() -> None:
    bench = Bench()
    bench.fetch(max_wait_ms=100)
    bench.wait(0.2)
    assert bench.request.answers == ["answered"]

    bench.request = Request()
    bench.fetch(max_wait_ms=100).abandoned()
    bench.append(batch(b"x", timestamp=0))
    bench.wait(1)
    assert bench.request.answers == []
    assert not bench.partition._watching


def test_a_read_committed_fetch_sleeps_while_a_transaction_grows_and_wakes_when_it_ends() -> None:
    """Scenario 46, the waking half: what it reads then is the log's business."""
    bench = Bench(synced=False)
    transactional = {"producer_id": 5, "producer_epoch": 0, "is_transactional": True, "timestamp": 0}
    bench.append(batch(b"open", base_sequence=0, **transactional), origin=Origin.COORDINATOR)
    bench.wait(0.1)
    assert bench.partition.log.last_stable_offset == 0
    bench.fetch(committed_only=True)
    for sequence in (1, 2, 3):
        bench.append(batch(b"open", base_sequence=sequence, **transactional), origin=Origin.COORDINATOR)
        bench.wait(0.1)
    assert (bench.request.answers, bench.reads) == ([], 0)

    bench.readable_bytes = 1
    marker = build_marker_batch(
        EndTransactionMarker(committed=True, coordinator_epoch=0),
        producer_id=5,
        producer_epoch=0,
        timestamp=bench.clock.now_ms(),
    )
    bench.append(marker, origin=Origin.COORDINATOR)
    bench.wait(0.1)
    assert bench.request.answers == ["answered"]
