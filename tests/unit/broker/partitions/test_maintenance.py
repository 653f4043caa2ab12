"""Retention, idle producers and checkpoints, in virtual time: a week passes in milliseconds."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from semel.broker.broker import Broker
from semel.broker.config.broker_config import BrokerConfig
from semel.broker.network.request import Request
from semel.broker.partitions.partitions import Partition
from semel.broker.requests.handlers.create_topics import create_topics
from semel.broker.requests.handlers.delete_records import delete_records
from semel.broker.requests.handlers.delete_topics import delete_topics
from semel.errors import StorageError
from semel.log.compaction.cleaner import CLOSED_AT_ONCE_MAX, LogCleaner
from semel.log.outcomes import Isolation
from semel.testing.virtual.clock import VirtualClock
from semel.testing.virtual.disk import VirtualDisk
from semel.testing.virtual.loop import VirtualLoop
from semel.testing.virtual.network import VirtualNetwork
from semel.testing.virtual.worker import VirtualWorker
from semel.types import Address, TopicPartition
from semel.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from semel.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from semel.wire.messages.delete_topics import DeleteTopicsRequest
from tests.broker.raw_client import batch
from tests.logs import values

HOUR_S = 3600
DAY_S = 24 * HOUR_S


class Bench:
    def __init__(self, **settings: str) -> None:
        self.loop = VirtualLoop(duration_s_max=60 * DAY_S)
        self.disk = VirtualDisk()
        self.clock = VirtualClock(self.loop)
        overrides = {name.replace("_", "."): value for name, value in settings.items()}
        self.broker = self.make_broker(overrides, seed=2)
        self.run(self.broker.start())

    def make_broker(self, overrides: dict[str, str], *, seed: int) -> Broker:
        return Broker(
            BrokerConfig.load(overrides={"log.dirs": "/d", **overrides}),
            listen=Address("broker", 9092),
            disk=self.disk,
            network=VirtualNetwork(self.loop, Random(1)),
            clock=self.clock,
            random=Random(seed),
            make_worker=lambda name: VirtualWorker(self.loop, Random(3)),
        )

    def run(self, work: Any) -> Any:
        return self.loop.run_until_complete(work)

    def partition(self, name: str, **configs: str) -> Partition:
        settings = [CreatableTopicConfig(key.replace("_", "."), value) for key, value in configs.items()]
        request = CreateTopicsRequest([CreatableTopic(name, 1, 1, [], settings)])
        response = self.run(create_topics(self.broker.node, cast(Request, SimpleNamespace(limits=None)), request))
        assert response.topics[0].error_code == 0
        found = self.broker.node.partitions.get(name, 0)
        assert found is not None
        return found

    def append(self, partition: Partition, value: bytes = b"x", **options: int) -> None:
        records = batch(value, timestamp=self.clock.now_ms(), **options)
        partition.append(memoryview(bytearray(records)), now_ms=self.clock.now_ms())
        self.run(asyncio.sleep(1))

    def wait(self, seconds: float) -> None:
        self.run(asyncio.sleep(seconds))


def test_segments_past_their_retention_go_without_anybody_asking() -> None:
    bench = Bench()
    kept, expiring = bench.partition("kept"), bench.partition("expiring", retention_ms="3600000")
    for partition in (kept, expiring):
        bench.append(partition)

    bench.wait(2 * HOUR_S)

    assert (kept.log.log_start_offset, expiring.log.log_start_offset) == (0, 1)
    bench.append(expiring)
    assert (expiring.log.log_start_offset, expiring.log.high_watermark) == (1, 2)


@pytest.mark.parametrize("together", [1, 2, 3])
def test_records_that_are_deleted_twice_at_the_same_time_take_no_others_with_them(together: int) -> None:
    bench = Bench()
    partition = bench.partition("t", retention_ms="-1")
    for _ in range(5):
        bench.append(partition)
        partition.log.roll(bench.clock.now_ms())
    partition.log.delete_records_before(2)
    bench.run(bench.broker.node.logs.persist_log_starts())  # So that all requests continue in the same turn.
    request = DeleteRecordsRequest([DeleteRecordsTopic("t", [DeleteRecordsPartition(0, 2)])], timeout_ms=1000)

    async def delete_at_once() -> list[DeleteRecordsResponse]:
        deleting = (delete_records(bench.broker.node, cast(Request, None), request) for _ in range(together))
        return await asyncio.gather(*deleting)

    responses = bench.run(delete_at_once())

    results = [response.topics[0].partitions[0] for response in responses]
    assert [(result.error_code, result.low_watermark) for result in results] == [(0, 2)] * together
    assert (partition.log.log_start_offset, partition.log.segments.first.base_offset) == (2, 2)
    assert partition.log.read(2, 1000, isolation=Isolation.READ_UNCOMMITTED).records


def test_an_idle_producer_is_forgotten_after_its_time() -> None:
    bench = Bench()
    partition = bench.partition("t", retention_ms="-1")
    bench.append(partition, producer_id=1, producer_epoch=0, base_sequence=0)
    bench.wait(23 * HOUR_S)
    assert len(partition.log.describe_producers()) == 1

    bench.append(partition, producer_id=2, producer_epoch=0, base_sequence=0)
    bench.wait(2 * HOUR_S)

    assert [producer.producer_id for producer in partition.log.describe_producers()] == [2]


def test_recovery_points_follow_the_log_within_a_minute_or_two() -> None:
    bench = Bench()
    partition = bench.partition("t")
    bench.append(partition)
    bench.wait(130)

    assert partition.log.recovery_point == 1


def test_a_compacted_topic_is_compacted_without_anybody_asking() -> None:
    bench = Bench()
    partition = bench.partition(
        "t", cleanup_policy="compact", segment_ms="1000", min_cleanable_dirty_ratio="0.01", retention_ms="-1"
    )
    for number in range(20):
        bench.append(partition, b"%d" % number)  # All have the same key.
        bench.wait(2)
    before = partition.log.size_bytes

    bench.wait(600)

    assert partition.log.size_bytes < before / 2
    assert bench.broker.node.cleaner is not None
    assert bench.broker.node.cleaner.statistics.passes >= 1
    found = [value for _, value in values(partition.log)]
    assert found[-1] == b"19"
    assert len(found) < 20
    bench.run(bench.broker.stop())


def test_of_many_segments_that_are_due_to_roll_a_few_are_closed_at_once_and_the_others_soon() -> None:
    bench = Bench(log_cleaner_backoff_ms=str(HOUR_S * 1000))
    # Nothing is compacted yet, so no pass is followed by the next choice.
    settings = {"cleanup_policy": "compact", "segment_ms": "60000", "min_compaction_lag_ms": str(24 * HOUR_S * 1000)}
    partitions = [bench.partition(f"t{number}", **settings) for number in range(20)]
    for partition in partitions:
        bench.append(partition)
    bench.wait(120)

    cleaner = LogCleaner(bench.broker.node.logs, bench.clock)
    cleaner.choose(bench.clock.now_ms())
    assert sum(len(partition.log.segments) == 2 for partition in partitions) == CLOSED_AT_ONCE_MAX
    bench.wait(HOUR_S)
    assert [len(partition.log.segments) for partition in partitions] == [2] * 20


def test_a_new_topic_does_not_count_as_compacted_up_to_the_offset_of_the_deleted_one() -> None:
    """Otherwise a tombstone below this offset would be removed, and the record that it deletes would not."""
    bench = Bench()
    compacted = {"cleanup_policy": "compact", "segment_ms": "1000", "min_cleanable_dirty_ratio": "0.01"}
    partition = bench.partition("t", **compacted)
    for _ in range(5):
        bench.append(partition)
        bench.wait(2)
    bench.wait(300)
    assert bench.broker.node.cleaner is not None
    assert bench.broker.node.cleaner.first_dirty_offset(partition.log) > 0
    request_of_version_5 = SimpleNamespace(version=5, limits=None)
    deletion = delete_topics(bench.broker.node, request_of_version_5, DeleteTopicsRequest(topic_names=["t"]))  # type: ignore[arg-type]
    assert bench.run(deletion).responses[0].error_code == 0
    partition = bench.partition("t", **compacted)
    for _ in range(8):
        bench.append(partition)
    bench.broker.kill()

    bench.disk.kill()
    again = bench.make_broker({}, seed=9)
    bench.run(again.start())
    found = again.node.logs.get(TopicPartition("t", 0))
    assert found is not None
    assert found.log_end_offset == 8
    assert LogCleaner(again.node.logs, bench.clock).first_dirty_offset(found) == 0


def test_a_compacted_topic_can_be_deleted_while_it_is_compacted() -> None:
    bench = Bench(log_cleaner_backoff_ms="1000")
    partition = bench.partition("t", cleanup_policy="compact", segment_ms="1000", min_cleanable_dirty_ratio="0.01")
    for number in range(200):
        bench.append(partition, b"%d" % number)
    bench.wait(130)
    request = DeleteTopicsRequest(topic_names=["t"])
    request_of_version_5 = SimpleNamespace(version=5, limits=None)
    for _ in range(500):  # Until a pass is under way, or nothing is left to do.
        if bench.broker._running is not None and bench.broker._running.maintenance._compacting is not None:
            break
        bench.wait(0.01)
    response = bench.run(delete_topics(bench.broker.node, request_of_version_5, request))  # type: ignore[arg-type]
    assert response.responses[0].error_code == 0
    bench.wait(60)

    assert bench.broker.node.logs.get(TopicPartition("t", 0)) is None
    bench.run(bench.broker.stop())


def test_a_partition_that_fails_does_not_keep_the_others_from_their_turn(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()
    first = bench.partition("a", retention_ms="1000")
    second = bench.partition("b", retention_ms="1000")
    for partition in (first, second):
        bench.append(partition)

    class FailingSegments:
        def __iter__(self) -> Iterator[object]:
            raise RuntimeError("planted")

        def __getattr__(self, name: str) -> object:
            return getattr(segments, name)

    segments, first.log.segments = first.log.segments, cast(Any, FailingSegments())
    bench.wait(HOUR_S)

    assert second.log.log_start_offset == 1
    assert "retention of a-0 failed" in caplog.text


def test_an_offline_partition_does_not_keep_the_others_from_their_turn() -> None:
    bench = Bench()
    first = bench.partition("a", retention_ms="1000")
    second = bench.partition("b", retention_ms="1000")
    for partition in (first, second):
        bench.append(partition)
    first.log.go_offline("planted")

    bench.wait(HOUR_S)  # The virtual loop raises an error if it never rests.

    assert (first.log.log_start_offset, second.log.log_start_offset) == (0, 1)


def test_a_stopped_broker_does_nothing_more_and_the_next_one_finds_everything() -> None:
    bench = Bench()
    partition = bench.partition("t")
    bench.append(partition)
    bench.run(bench.broker.stop())
    syncs = bench.disk.statistics.syncs
    bench.wait(2 * DAY_S)
    assert bench.disk.statistics.syncs == syncs

    again = bench.make_broker({}, seed=9)
    bench.run(again.start())
    found = again.node.logs.get(TopicPartition("t", 0))
    assert found is not None
    assert (found.log_end_offset, again.cluster_id) == (1, bench.broker.cluster_id)


def test_a_data_directory_of_another_node_is_refused() -> None:
    bench = Bench()
    bench.run(bench.broker.stop())
    other = Broker(
        BrokerConfig.load(overrides={"log.dirs": "/d", "node.id": "2"}),
        listen=Address("broker", 9092),
        disk=bench.disk,
        network=VirtualNetwork(bench.loop, Random(1)),
        clock=bench.clock,
        random=Random(9),
        make_worker=lambda name: VirtualWorker(bench.loop, Random(3)),
    )

    with pytest.raises(StorageError, match=r"/d belongs to node 1.*node.id is 2"):
        bench.run(other.start())
