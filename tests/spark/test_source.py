"""The data source in Spark: batch reading, options, refusals of the pipeline."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from semel.blocking import Admin, Producer
from semel.errors import KafkaError
from semel.spark import Refused, pipeline
from semel.spark.cluster import Cluster
from semel.spark.source.options import SourceOptions, Subscription
from semel.spark.source.reading import DataLost
from semel.spark.source.source import SplitsPartition, StreamReader
from semel.testing import Broker
from semel.types import TopicPartition
from tests.spark.jobs import copied, run, source
from tests.spark.topics import committed, create, fill, values

ENDS = {TopicPartition("in-2", index): -1 for index in range(2)}


def test_a_batch_read_has_sparks_columns_and_obeys_offsets_and_headers(spark: SparkSession, broker: Broker) -> None:
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for number in range(10):
            sent = producer.send(
                "in", b"%d" % number, partition=0, headers=[("n", b"%d" % number)], timestamp=1000 * number
            )
            sent.result()
    reader = (
        spark.read.format("semel")
        .option("kafka.bootstrap.servers", broker.bootstrap_servers)
        .option("includeHeaders", "true")
        .option("assign", json.dumps({"in": [0]}))
        .option("minPartitions", "3")
    )
    frame = reader.option("startingTimestamp", "2000").option("endingOffsets", json.dumps({"in": {"0": 9}})).load()
    assert frame.columns == [
        "key",
        "value",
        "topic",
        "partition",
        "offset",
        "timestamp",
        "timestampType",
        "headers",
    ]
    rows = sorted(frame.collect(), key=lambda row: int(row.offset))
    assert [bytes(row.value) for row in rows] == [b"%d" % number for number in range(2, 9)]
    assert rows[0].headers[0].asDict() == {"key": "n", "value": bytearray(b"2")}
    assert frame.rdd.getNumPartitions() >= 3


def test_a_partition_that_appears_while_the_query_runs_is_read_from_its_beginning(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    create(broker, "out", "in-1")
    fill(broker, "in-1", range(10))
    frame = copied(
        spark.readStream.format("semel")
        .option("kafka.bootstrap.servers", broker.bootstrap_servers)
        .option("kafka.group.id", "jobs")
        .option("subscribePattern", "in-.*")
        .option("startingOffsets", "earliest")
        .load()
    )
    run(frame, broker, tmp_path / "checkpoint")
    fill(broker, "in-2", range(10, 20))
    run(frame, broker, tmp_path / "checkpoint")
    assert values(broker, "out") == list(range(20))


def reader(broker: Broker, **options: str) -> StreamReader:
    said = {"kafka.bootstrap.servers": broker.bootstrap_servers, "startingOffsets": "earliest", **options}
    return StreamReader(SourceOptions.parse(said, is_streaming=True))


@pytest.mark.parametrize("limit", [ReadAllAvailable(), ReadMaxRows(3)])
def test_a_topic_that_appears_without_its_first_records_is_data_that_is_lost(
    broker: Broker, limit: ReadAllAvailable | ReadMaxRows
) -> None:
    create(broker, "in-1")
    stream, forgiving = (reader(broker, subscribePattern="in-.*", failOnDataLoss=loss) for loss in ("true", "false"))
    start = stream.latestOffset({}, limit)
    fill(broker, "in-2", range(10), key_count=1)
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        (partition,) = [tp for tp, end in admin.partitions.list_offsets(ENDS).all().items() if end.offset == 10]
        admin.partitions.delete_records({partition: 4}).all()
    end = {**start, "in-2": {"0": 0, "1": 0, str(partition.partition): 10}}
    lost = rf"offsets 0 to 10 of {partition} are not all there: the log begins at 4"
    with pytest.raises(DataLost, match=lost):
        stream.partitions(start, stream.latestOffset(start, limit))
    with pytest.raises(DataLost, match=lost):
        stream.partitions(start, end)
    (share,) = forgiving.partitions(start, end)
    assert isinstance(share, SplitsPartition)
    assert [(split.topic_partition, split.start, split.end) for split in share.splits] == [(partition, 4, 10)]


def test_a_topic_that_was_deleted_and_created_again_is_data_that_is_lost(broker: Broker) -> None:
    fill(broker, "in", range(10))
    stream, forgiving = (reader(broker, subscribe="in", failOnDataLoss=loss) for loss in ("true", "false"))
    start = stream.latestOffset({}, ReadAllAvailable())
    assert forgiving.latestOffset({}, ReadAllAvailable()) == start
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.topics.delete("in")
    fill(broker, "in", range(50))
    with pytest.raises(
        DataLost, match=r"offsets 0 to \d of in-0 are not all there: the topic was deleted, and created"
    ):
        stream.latestOffset(start, ReadAllAvailable())
    assert sum(forgiving.latestOffset(start, ReadAllAvailable())["in"].values()) == 50


def test_a_topic_without_records_that_was_deleted_and_created_again_is_read_from_its_beginning(broker: Broker) -> None:
    create(broker, "in")
    stream = reader(broker, subscribe="in")
    start = stream.latestOffset({}, ReadAllAvailable())
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.topics.delete("in")
    fill(broker, "in", range(5))
    assert sum(stream.latestOffset(start, ReadAllAvailable())["in"].values()) == 5


class WithoutTopicIds(Subscription):
    """A subscription whose topics are described by a broker of before Kafka 2.8."""

    def look_up(self, cluster: Cluster) -> tuple[list[TopicPartition], dict[str, UUID]]:
        partitions, ids = Subscription.look_up(self, cluster)
        return partitions, dict.fromkeys(ids, UUID(int=0))


def test_a_broker_that_is_too_old_for_topic_ids_does_not_tell_that_a_topic_was_created_again(broker: Broker) -> None:
    """A cluster has brokers of two versions while it is upgraded, and any of them may be asked."""
    fill(broker, "in", range(10))
    options = {"kafka.bootstrap.servers": broker.bootstrap_servers, "subscribe": "in"}
    parsed = SourceOptions.parse(options, is_streaming=True)
    stream = StreamReader(parsed)
    start = stream.latestOffset({}, ReadAllAvailable())
    for subscription in (WithoutTopicIds(topics=("in",)), parsed.subscription):
        stream._options = replace(parsed, subscription=subscription)
        assert stream.latestOffset(start, ReadAllAvailable()) == start


class FoundBeforeItIsDeleted(Subscription):
    """A pattern whose topic "in-2" is deleted between the question which topics there are and the one for their
    ends."""

    servers: str

    def __init__(self, servers: str) -> None:
        super().__init__(pattern="in-.*")
        object.__setattr__(self, "servers", servers)

    def look_up(self, cluster: Cluster) -> tuple[list[TopicPartition], dict[str, UUID]]:
        found = Subscription.look_up(self, cluster)
        if "in-2" in found[1]:
            with Admin(bootstrap_servers=self.servers) as admin:
                admin.topics.delete("in-2")
        return found


def test_a_topic_that_is_deleted_while_offsets_are_asked_for_does_not_end_a_query_that_may_lose_data(
    broker: Broker,
) -> None:
    create(broker, "in-1", "in-2")
    options = {"kafka.bootstrap.servers": broker.bootstrap_servers, "subscribePattern": "in-.*"}
    parsed = SourceOptions.parse({**options, "failOnDataLoss": "false"}, is_streaming=True)
    stream = StreamReader(replace(parsed, subscription=FoundBeforeItIsDeleted(broker.bootstrap_servers)))
    assert stream.latestOffset({}, ReadAllAvailable()) == {"in-1": {"0": 0, "1": 0}}


@pytest.mark.parametrize("limit", [ReadAllAvailable(), ReadMaxRows(3)])
def test_a_topic_that_was_planned_and_deleted_before_its_batch_began_does_not_end_a_query_that_may_lose_data(
    broker: Broker, limit: ReadAllAvailable | ReadMaxRows
) -> None:
    """Spark plans the batch again after every restart, with the same end."""
    fill(broker, "in-1", range(10), key_count=1)
    stream, forgiving = (reader(broker, subscribePattern="in-.*", failOnDataLoss=loss) for loss in ("true", "false"))
    start = forgiving.latestOffset({}, ReadAllAvailable())
    fill(broker, "in-1", range(10, 13), key_count=1)
    fill(broker, "in-2", range(5), key_count=1)
    end = forgiving.latestOffset(start, limit)
    assert "in-2" in end
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.topics.delete("in-2")
    with pytest.raises(KafkaError, match="UNKNOWN_TOPIC_OR_PARTITION"):
        stream.partitions(start, end)
    shares = forgiving.partitions(start, end)
    splits = [split for share in shares if isinstance(share, SplitsPartition) for split in share.splits]
    assert {split.topic_partition.topic for split in splits} == {"in-1"}


def test_a_pipeline_that_may_lose_data_goes_on_without_a_topic_that_was_deleted_and_after_a_restart(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    create(broker, "out", "in-1", "in-2")
    fill(broker, "in-1", range(10))
    fill(broker, "in-2", range(10, 20))
    rows = copied(
        spark.readStream.format("semel")
        .option("kafka.bootstrap.servers", broker.bootstrap_servers)
        .option("kafka.group.id", "jobs")
        .option("subscribePattern", "in-.*")
        .option("startingOffsets", "earliest")
        .option("failOnDataLoss", "false")
        .load()
    )
    changes: dict[str, Any] = {"topic": "out", "transactional_id": "jobs", "outage_timeout_ms": 10_000}
    job = pipeline(rows, servers=broker.bootstrap_servers, checkpoint=str(tmp_path / "checkpoint"), **changes)
    query = job.start()
    try:
        query.processAllAvailable()
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.topics.delete("in-2")
        fill(broker, "in-1", range(20, 30))
        query.processAllAvailable()
    finally:
        query.stop()
    assert values(broker, "out") == list(range(30))
    fill(broker, "in-1", range(30, 40))
    run(rows, broker, tmp_path / "checkpoint")
    assert values(broker, "out") == list(range(40))


@pytest.mark.parametrize(
    ("options", "changes", "message"),
    [
        ({"kafka__isolation__level": "read_uncommitted"}, {}, "what it reads may be aborted later"),
        ({}, {"writers": 99}, "writers=99, and there are 2 task slots"),
        ({}, {"topic": "nowhere"}, "there is no topic 'nowhere' to write to"),
        ({}, {"transaction_timeout_ms": 10**9}, "more than the broker's transaction.max.timeout.ms"),
    ],
)
def test_a_pipeline_is_refused_at_the_start_with_what_to_set(
    spark: SparkSession,
    broker: Broker,
    tmp_path: Path,
    options: dict[str, str],
    changes: dict[str, Any],
    message: str,
) -> None:
    create(broker, "in", "out")
    with pytest.raises(Refused, match=message):
        run(copied(source(spark, broker, **options)), broker, tmp_path / "checkpoint", **changes)
    assert not (tmp_path / "checkpoint").exists()


def test_sources_that_are_not_in_the_transaction_are_refused(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    create(broker, "in", "out")
    rate = (
        spark.readStream.format("rate")
        .load()
        .selectExpr("cast(null as binary) as key", "cast(string(value) as binary) as value")
    )
    with pytest.raises(Refused, match="whose offsets are not in the transaction"):
        run(copied(source(spark, broker)).union(rate), broker, tmp_path / "checkpoint")
    groupless = (
        spark.readStream.format("semel")
        .option("kafka.bootstrap.servers", broker.bootstrap_servers)
        .option("subscribe", "in")
        .load()
    )
    with pytest.raises(Refused, match=r"a source has no kafka\.group\.id"):
        run(copied(groupless), broker, tmp_path / "checkpoint")
    twice = copied(source(spark, broker)).union(copied(source(spark, broker)))
    with pytest.raises(Refused, match="two sources read 'in' under group 'jobs'"):
        run(twice, broker, tmp_path / "checkpoint")


def test_a_checkpoint_whose_group_has_no_offsets_is_refused(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    create(broker, "in", "out")
    fill(broker, "in", range(5))
    run(copied(source(spark, broker)), broker, tmp_path / "checkpoint")
    other = copied(source(spark, broker, kafka__group__id="other"))
    with pytest.raises(Refused, match="group 'other' has no offsets"):
        run(other, broker, tmp_path / "checkpoint")


def test_a_frame_that_names_no_topic_and_one_without_values_are_refused(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    frame = source(spark, broker).select("key")
    with pytest.raises(ValueError, match="no column value"):
        pipeline(frame, transactional_id="t", servers=broker.bootstrap_servers, checkpoint=str(tmp_path)).start()
    frame = source(spark, broker).select("value")
    with pytest.raises(ValueError, match="which topic to write to"):
        pipeline(frame, transactional_id="t", servers=broker.bootstrap_servers, checkpoint=str(tmp_path)).start()


def test_a_pipeline_reads_an_internal_topic_that_is_named(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    create(broker, "out", "in")
    fill(broker, "in", range(3))
    run(copied(source(spark, broker)), broker, tmp_path / "first")
    frame = source(spark, broker, "__consumer_offsets", kafka__group__id="offsets")
    run(copied(frame), broker, tmp_path / "second", transactional_id="offsets")
    assert any(b"jobs" in (record.key or b"") for record in committed(broker, "out"))
