"""A full disk: writes are refused with the reason, everything else goes on, and a start on it serves reads."""

from __future__ import annotations

import errno
import logging
from collections.abc import Iterator

import pytest

from semel.errors import ErrorCode
from semel.testing import Broker
from semel.testing.virtual.disk import VirtualDisk
from semel.testing.virtual.disk_faults import DiskFault, Operation
from semel.wire.apis import ApiKey
from semel.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from semel.wire.messages.delete_topics import DeleteTopicsRequest
from semel.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.broker.raw_client import RawClient, batch, values
from tools.patience import wait_until

RECORDS = [b"%d" % number * 400_000 for number in range(6)]
SEGMENT_BYTES = 1024 * 1024


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(log_retention_check_interval_ms=1000) as running:
        yield running


@pytest.fixture
def client(broker: Broker) -> Iterator[RawClient]:
    """With two topics, of several segments."""
    with RawClient(broker.port) as connected:
        for name in ("orders", "bills"):
            connected.create_topic(name, **{"segment.bytes": str(SEGMENT_BYTES)})
            for value in RECORDS:
                assert connected.produce(name, batch(value)).error_code == ErrorCode.NONE
        broker.clock.advance(seconds=2)  # Maintenance has run: the journal has its reserve.
        yield connected


def disk_of(broker: Broker) -> VirtualDisk:
    assert isinstance(broker.disk, VirtualDisk)
    return broker.disk


def fill(broker: Broker) -> None:
    disk = disk_of(broker)
    disk.capacity_bytes = disk.used_bytes()


def free_bytes(broker: Broker) -> int:
    return disk_of(broker).free_bytes("/")


def read(client: RawClient, topic: str) -> list[bytes | None]:
    found: list[bytes | None] = []
    while some := values(client.fetch(topic, len(found))):
        found += [value for _, value in some]
    return found


def test_a_producer_is_told_that_there_is_no_room_and_where(broker: Broker, client: RawClient) -> None:
    fill(broker)
    refused = client.produce("orders", batch(b"no room" * 50))
    assert refused.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert "No space left on device" in refused.error_message
    assert "orders-0" in refused.error_message
    assert read(client, "orders") == RECORDS


@pytest.mark.parametrize("kill", [True, False], ids=["killed", "stopped"])
def test_a_broker_starts_on_a_full_disk_serves_reads_and_writes_when_there_is_room(
    broker: Broker, client: RawClient, kill: bool
) -> None:
    fill(broker)
    broker.restart(kill=kill)
    broker.restart(kill=kill)
    with RawClient(broker.port) as again:
        assert read(again, "orders") == RECORDS
        assert read(again, "bills") == RECORDS
        assert again.produce("orders", batch(b"no room" * 50)).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        disk_of(broker).capacity_bytes = None
        assert again.produce("orders", batch(b"room")).base_offset == len(RECORDS)
    broker.restart(kill=True)
    with RawClient(broker.port) as again:
        assert read(again, "orders") == [*RECORDS, b"room"]


def test_a_log_that_could_not_be_made_before_a_start_on_a_full_disk_is_made_when_there_is_room(
    broker: Broker, client: RawClient
) -> None:
    disk_of(broker).fail(DiskFault(Operation.CREATE, "*/late-0/*", errno.ENOSPC, times=None))
    client.create_topic("late")
    broker.restart(kill=True)
    with RawClient(broker.port) as again:
        assert again.produce("late", batch(b"x")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    disk_of(broker).repair()
    with RawClient(broker.port) as again:
        for _ in range(10):
            broker.clock.advance(seconds=1.1)
        assert again.produce("late", batch(b"y")).error_code == ErrorCode.NONE


def test_records_can_be_deleted_on_a_full_disk_which_gives_their_space_back(broker: Broker, client: RawClient) -> None:
    fill(broker)
    asked = DeleteRecordsTopic("orders", [DeleteRecordsPartition(0, len(RECORDS) - 1)])
    request = DeleteRecordsRequest(topics=[asked], timeout_ms=1000)
    (topic,) = client.call(ApiKey.DELETE_RECORDS, 2, request).topics
    (answer,) = topic.partitions
    assert (answer.error_code, answer.low_watermark) == (ErrorCode.NONE, len(RECORDS) - 1)
    assert free_bytes(broker) > SEGMENT_BYTES
    assert client.produce("bills", batch(b"room")).error_code == ErrorCode.NONE


def test_retention_gives_space_back_on_a_full_disk(broker: Broker, client: RawClient) -> None:
    fill(broker)
    altered = IncrementalAlterConfigsRequest(
        [AlterConfigsResource(2, "orders", [AlterableConfig("retention.bytes", 0, str(SEGMENT_BYTES))])]
    )
    (result,) = client.call(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, altered).responses
    assert result.error_code == ErrorCode.NONE
    fill(broker)  # What the change of a setting got from the journal's reserve is used up again.
    broker.clock.advance(seconds=10)
    wait_until(lambda: free_bytes(broker) > len(RECORDS[0]))
    assert client.produce("bills", batch(b"room")).error_code == ErrorCode.NONE


def test_a_topic_can_be_deleted_on_a_full_disk_and_stays_deleted(broker: Broker, client: RawClient) -> None:
    fill(broker)
    (deleted,) = client.call(ApiKey.DELETE_TOPICS, 5, DeleteTopicsRequest(topic_names=["orders"])).responses
    assert deleted.error_code == ErrorCode.NONE
    wait_until(lambda: free_bytes(broker) > 2 * SEGMENT_BYTES)
    fill(broker)
    broker.restart(kill=True)
    with RawClient(broker.port) as again:
        assert read(again, "bills") == RECORDS
        disk_of(broker).capacity_bytes = None
        again.create_topic("orders")
        assert again.produce("orders", batch(b"new")).base_offset == 0


def test_an_operator_gets_one_line_with_the_path_and_the_free_space(
    broker: Broker, client: RawClient, caplog: pytest.LogCaptureFixture
) -> None:
    fill(broker)
    caplog.clear()
    for _ in range(3):
        client.produce("orders", batch(b"no room" * 50))
    broker.clock.advance(seconds=30)  # Several checkpoints are tried.
    said = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
    assert len(said) == 1, said
    assert said[0].startswith("/semel: a write to orders-0 was refused: [Errno 28] No space left on device")
    assert said[0].endswith("; 0 bytes are free")
