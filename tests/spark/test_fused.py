"""The fused path: Arrow batches transformed between fetch and produce, as exactly-once as the other one."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from semel.blocking import Admin
from semel.client.values import ProducerIdentity
from semel.spark import BadRow, Refused
from semel.spark.cluster import Cluster
from semel.spark.decision import Batch, SourcePartition
from semel.spark.sink.fused import as_records, check_numbers, shared, write_fused
from semel.spark.sink.sink import Sink, WriteJob, no_step_hook
from semel.spark.source.options import SourceOptions
from semel.spark.source.reading import DataLost
from semel.spark.source.splits import Split
from semel.testing import Broker
from semel.types import TopicPartition
from tests.spark.jobs import fails_at, kill_this_process, once, run, source
from tests.spark.topics import committed, create, fill, group_offsets, values


def test_all_partitions_of_one_number_are_one_tasks_and_empty_ones_nobodys() -> None:
    splits = [Split(TopicPartition(topic, number), 0, 5) for topic in ("a", "b") for number in range(3)]
    shares = shared([*splits, Split(TopicPartition("c", 0), 7, 7)], 2)
    assert [[str(split.topic_partition) for split in share] for share in shares] == [
        ["a-0", "a-2", "b-0", "b-2"],
        ["a-1", "b-1"],
    ]


def test_a_sink_with_too_few_partitions_is_named() -> None:
    sink = Sink({}, "out", None, None, no_step_hook)
    job = WriteJob(sink, ProducerIdentity(1, 0, 2), 0, 0, 1, {"out": 2})
    check_numbers(job, {TopicPartition("in", 1): 5})
    with pytest.raises(BadRow, match=r"in has a partition 2, and out, .* has 2 partitions"):
        check_numbers(job, {TopicPartition("in", 2): 5})
    gone = WriteJob(sink, ProducerIdentity(1, 0, 2), 0, 0, 1, {})
    with pytest.raises(BadRow, match="there is no topic 'out' to write to"):
        check_numbers(gone, {TopicPartition("in", 1): 5})


def test_a_partition_that_appears_without_its_first_records_is_data_that_is_lost(broker: Broker) -> None:
    create(broker, "in", "out")
    fill(broker, "in", range(10), key_count=1)
    options = {"kafka.bootstrap.servers": broker.bootstrap_servers, "kafka.group.id": "jobs", "subscribe": "in"}
    job = WriteJob(Sink({}, "out", None, None, no_step_hook), ProducerIdentity(1, 0, 2), 0, 0, 1, {"out": 2})
    with Cluster(bootstrap_servers=broker.bootstrap_servers) as cluster:
        ends = cluster.end_offsets([TopicPartition("in", 0), TopicPartition("in", 1)])
        (partition,) = [topic_partition for topic_partition, end in ends.items() if end == 10]
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.partitions.delete_records({partition: 4}).all()
        batch = Batch("the-query", 1, {}, {SourcePartition("jobs", partition): 10})
        plain = SourceOptions.parse(options, is_streaming=True)
        no_session: Any = None  # It is not used before the offsets are known.
        with pytest.raises(DataLost, match=f"offsets 0 to 10 of {partition} are not all there: the log begins at 4"):
            write_fused(no_session, job, evens_doubled, plain, batch, cluster)


def test_what_a_transform_made_becomes_columns_to_write() -> None:
    when = datetime(2026, 1, 1, 0, 0, 0, 1_999, UTC)
    made = pa.RecordBatch.from_pydict(
        {"value": [b"v"], "other": [1], "timestamp": pa.array([when], pa.timestamp("us", "UTC"))}
    )
    assert as_records(made).to_pylist() == [{"key": None, "value": b"v", "timestamp": 1_767_225_600_001}]
    with pytest.raises(BadRow, match="rows without a column value; they have other"):
        as_records(pa.RecordBatch.from_pydict({"other": [1]}))


def evens_doubled(rows: pa.RecordBatch) -> pa.RecordBatch:
    numbers = rows.column("value").cast(pa.string()).cast(pa.int64())
    doubled = pc.multiply(numbers, 2).cast(pa.string()).cast(pa.binary())
    made = pa.RecordBatch.from_pydict({"key": rows.column("key"), "value": doubled})
    return made.filter(pc.equal(pc.bit_wise_and(numbers, 1), 0))


def test_every_record_is_transformed_once_although_a_task_and_a_driver_die(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    """Scenarios 69, 70 and 71 on the fused path."""
    create(broker, "in", "out")
    fill(broker, "in", range(60))
    rows = source(spark, broker, maxOffsetsPerTrigger=40)
    reached = once(tmp_path / "killed", "produced", kill_this_process)
    run(rows, broker, tmp_path / "checkpoint", arrow=evens_doubled, reached=reached)
    assert (tmp_path / "killed").exists()
    fill(broker, "in", range(60, 100))
    with pytest.raises(StreamingQueryException, match="failed at 'committed' of batch 2"):
        run(rows, broker, tmp_path / "checkpoint", arrow=evens_doubled, reached=fails_at("committed", 2))
    run(rows, broker, tmp_path / "checkpoint", arrow=evens_doubled)
    assert values(broker, "out") == list(range(0, 200, 4))
    assert sum(group_offsets(broker, "jobs", "in").values()) == 100
    for key in range(7):
        written = [int(record.value or b"") for record in committed(broker, "out") if record.key == b"key-%d" % key]
        assert written == [2 * number for number in range(key, 100, 7) if number % 2 == 0]


def test_only_the_bare_source_can_be_transformed_and_only_into_one_topic(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    create(broker, "in", "out")
    rows = source(spark, broker)
    with pytest.raises(Refused, match=r"the source as load\(\) returned it"):
        run(rows.where("partition = 0"), broker, tmp_path, arrow=evens_doubled)
    with pytest.raises(Refused, match="to one topic"):
        run(rows, broker, tmp_path, arrow=evens_doubled, topic=None)
    with pytest.raises(Refused, match="neither a dead-letter topic"):
        run(rows, broker, tmp_path, arrow=evens_doubled, dead_letter_topic="dead")
