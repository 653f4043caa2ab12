"""How far a pipeline has come, as its brokers tell it, and in Spark's own progress."""

from __future__ import annotations

import sqlite3
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from semel.blocking import Producer
from semel.spark.cluster import Cluster
from semel.spark.progress import PartitionProgress, behind_latest, progress_of, total_lag
from semel.spark.sinks import SQLite
from semel.spark.source.options import SourceOptions
from semel.testing import Broker
from semel.types import TopicPartition
from tests.spark.jobs import copied, run, source
from tests.spark.topics import create, fill

FIRST, SECOND = TopicPartition("in", 0), TopicPartition("in", 1)


def test_the_lag_is_what_is_stable_and_not_committed(broker: Broker) -> None:
    create(broker, "in")
    servers = broker.bootstrap_servers
    source = SourceOptions.parse(
        {"kafka.bootstrap.servers": servers, "subscribe": "in", "kafka.group.id": "jobs"}, is_streaming=True
    )
    with Cluster(bootstrap_servers=servers) as cluster, Producer(bootstrap_servers=servers) as producer:
        for _ in range(5):
            producer.send("in", b"v", partition=0).result()
        assert progress_of([source], cluster) == [
            PartitionProgress("jobs", FIRST, None, 5),
            PartitionProgress("jobs", SECOND, None, 0),
        ]
        with Producer(bootstrap_servers=servers, transactional_id="t") as other:
            with other.transaction():
                other.send_offsets({FIRST: 3, SECOND: 0}, "jobs")
            other.begin()
            other.send("in", b"undecided", partition=1).result()
            found = progress_of([source], cluster)
            other.abort()
        assert [(one.committed, one.last_stable_offset, one.lag) for one in found] == [(3, 5, 2), (0, 0, 0)]
        assert total_lag(found) == 2


def test_spark_s_progress_names_source_and_sink_and_has_the_lag_and_what_was_written(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    create(broker, "in", "out")
    fill(broker, "in", range(60))
    batches = run(copied(source(spark, broker, maxOffsetsPerTrigger=25)), broker, tmp_path / "checkpoint")
    sources = [batch["sources"][0] for batch in batches]
    assert [one["description"] for one in sources] == ["semel[in]"] * 3
    assert [one["metrics"]["lag"] for one in sources] == ["35", "10", "0"]
    assert sources[2]["metrics"] == {
        "minOffsetsBehindLatest": "0",
        "maxOffsetsBehindLatest": "0",
        "avgOffsetsBehindLatest": "0.0",
        "lag": "0",
    }
    assert [(batch["sink"]["description"], batch["sink"]["numOutputRows"]) for batch in batches] == [
        ("semel[out]", 25),
        ("semel[out]", 25),
        ("semel[out]", 10),
    ]


def test_spark_s_progress_has_what_each_sink_took_and_what_went_to_the_dead_letter_topic(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    create(broker, "in", "even", "dead")
    fill(broker, "in", range(20))
    with sqlite3.connect(tmp_path / "numbers.db") as database:
        database.execute("CREATE TABLE numbers (number INTEGER)")
    number = sf.col("value").cast("string").cast("int")
    routed = source(spark, broker).select(
        "key", "value", number.alias("number"), sf.when(number == 13, -1).otherwise(0).alias("partition")
    )
    table = SQLite(str(tmp_path / "numbers.db"), "numbers", columns=["number"])
    (batch,) = run(routed, broker, tmp_path / "checkpoint", topic="even", also=[table], dead_letter_topic="dead")
    sink = batch["sink"]
    assert (sink["description"], sink["numOutputRows"]) == ("semel[even, sqlite:numbers]", 19)
    assert sink["metrics"]["sqlite:numbers.rows"] == "20"
    assert sink["metrics"]["dead-letter-rows"] == "1"
    assert int(sink["metrics"]["sqlite:numbers.write-time-ms"]) >= 0


def test_how_far_a_source_is_behind_is_counted_by_partition_and_a_new_one_from_its_beginning() -> None:
    latest = {"in": {"0": 10, "1": 5}}
    assert behind_latest({"endOffset": {"in": {"0": 7}}, "latestOffset": latest}) == {
        "minOffsetsBehindLatest": "3",
        "maxOffsetsBehindLatest": "5",
        "avgOffsetsBehindLatest": "4.0",
        "lag": "8",
    }
    assert behind_latest({"endOffset": None, "latestOffset": latest}) == {}
    assert behind_latest({"endOffset": {"in": {"0": 7}}, "latestOffset": None}) == {}
