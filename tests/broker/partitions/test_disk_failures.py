"""A disk that fails takes down what is on it and nothing else, and nothing is acknowledged that it may have lost."""

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
from semel.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from semel.wire.messages.delete_topics import DeleteTopicsRequest
from semel.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from semel.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from semel.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.broker.raw_client import RawClient, batch, values
from tests.broker.transactional_client import Transactional
from tools.patience import BEYOND_PATIENCE_MS, wait_until


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


def fail(broker: Broker, operation: Operation, path: str, **options: object) -> None:
    assert isinstance(broker.disk, VirtualDisk)
    broker.disk.fail(DiskFault(operation, path, **options))  # type: ignore[arg-type]


def test_a_failed_sync_takes_its_partition_offline_and_leaves_the_others(broker: Broker, client: RawClient) -> None:
    """Scenario 67."""
    for name in ("hit", "spared"):
        client.create_topic(name)
        client.produce(name, batch(b"before"))
    # The journal goes first; then the partition's own file is synced, and that fails too.
    fail(broker, Operation.SYNC, "*/journal.*", times=None)
    fail(broker, Operation.SYNC, "*/hit-0/*.log", times=None)

    assert client.produce("hit", batch(b"x")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert client.produce("hit", batch(b"x")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert client.fetch("hit", 0, max_wait_ms=BEYOND_PATIENCE_MS).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    asked = ListOffsetsRequest(topics=[ListOffsetsTopic("hit", [ListOffsetsPartition(0, -1, -1)])])
    answer = client.call(ApiKey.LIST_OFFSETS, 5, asked).topics[0].partitions[0]
    assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert client.produce("spared", batch(b"x")).base_offset == 1
    assert values(client.fetch("spared", 0)) == [(0, b"before"), (1, b"x")]


def test_a_full_disk_refuses_a_write_and_takes_it_when_there_is_room_again(
    broker: Broker, client: RawClient, topic: str
) -> None:
    fail(broker, Operation.WRITE, f"*/{topic}-0/*.log", error=errno.ENOSPC)

    assert client.produce(topic, batch(b"no room")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert client.produce(topic, batch(b"room")).base_offset == 0
    assert values(client.fetch(topic, 0)) == [(0, b"room")]


def errors_in(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]


def test_a_write_that_fails_is_one_line_of_the_log(
    broker: Broker, client: RawClient, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    fail(broker, Operation.WRITE, f"*/{topic}-0/*.log", error=errno.EIO)
    for _ in range(3):
        assert client.produce(topic, batch(b"x")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    (line,) = errors_in(caplog)
    assert line.startswith(f"{topic}-0 is offline: write failed: [Errno 5] Input/output error")


def test_a_decision_for_which_there_is_no_room_is_one_line_of_the_log(
    broker: Broker, client: RawClient, caplog: pytest.LogCaptureFixture
) -> None:
    producer = Transactional(client, "shop")
    producer.find()
    wait_until(lambda: producer.init().error_code == ErrorCode.NONE)
    fail(broker, Operation.WRITE, "*/__transaction_state-*/*.log", error=errno.ENOSPC, times=None)
    for _ in range(3):
        assert producer.init().error_code != ErrorCode.NONE
    (line,) = errors_in(caplog)
    assert "a write to __transaction_state-" in line


def test_a_topic_that_the_store_could_not_keep_is_refused_and_so_is_every_change_after_it(
    broker: Broker, client: RawClient, topic: str
) -> None:
    fail(broker, Operation.SYNC, "*/metadata", times=None)

    request = CreateTopicsRequest(topics=[CreatableTopic("lost", 1, 1)])
    (created,) = client.call(ApiKey.CREATE_TOPICS, 7, request).topics
    assert created.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert created.error_message
    (deleted,) = client.call(ApiKey.DELETE_TOPICS, 5, DeleteTopicsRequest(topic_names=[topic])).responses
    assert deleted.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    altered = IncrementalAlterConfigsRequest(
        [AlterConfigsResource(2, topic, [AlterableConfig("retention.ms", 0, "1")])]
    )
    (result,) = client.call(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, altered).responses
    assert result.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    asked = MetadataRequest(topics=[MetadataRequestTopic(name="auto")])
    assert client.call(ApiKey.METADATA, 9, asked).topics[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert client.produce(topic, batch(b"still served")).error_code == 0


def test_a_log_that_could_not_be_made_is_made_when_there_is_room(broker: Broker, client: RawClient) -> None:
    fail(broker, Operation.CREATE, "*/late-0/*", error=errno.ENOSPC, times=None)
    client.create_topic("late", partitions=1)
    assert client.produce("late", batch(b"x")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert isinstance(broker.disk, VirtualDisk)
    broker.disk.repair()
    for _ in range(10):
        broker.clock.advance(seconds=1.1)
    assert client.produce("late", batch(b"y")).error_code == ErrorCode.NONE


def test_a_log_that_cannot_be_made_leaves_its_partition_unavailable_until_the_next_start(
    broker: Broker, client: RawClient
) -> None:
    fail(broker, Operation.CREATE, "*/half-1/*", times=None)
    client.create_topic("half", partitions=2)

    assert client.produce("half", batch(b"x"), partition=0).error_code == 0
    assert client.produce("half", batch(b"x"), partition=1).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert isinstance(broker.disk, VirtualDisk)
    broker.disk.repair()
    broker.restart(kill=True)
    with RawClient(broker.port) as again:
        assert again.produce("half", batch(b"x"), partition=1).base_offset == 0
        assert again.produce("half", batch(b"x"), partition=0).base_offset == 1
