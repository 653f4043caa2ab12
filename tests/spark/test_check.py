"""``Pipeline.check`` refuses what ``start`` would, in the same words, and changes nothing."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from semel.blocking import Admin, Consumer
from semel.spark import Pipeline, Refused, pipeline
from semel.testing import Broker
from tests.spark.jobs import copied, run, source
from tests.spark.topics import create, fill, values
from tools.patience import PATIENCE_MS


def counted(df: DataFrame) -> DataFrame:
    return df.groupBy("key").count().selectExpr("key", "CAST(count AS STRING) AS value")


def sorted_by_key(df: DataFrame) -> DataFrame:
    return copied(df).orderBy("key")


def keys(df: DataFrame) -> DataFrame:
    return df.select("key")


@pytest.fixture(autouse=True)
def topics(broker: Broker) -> None:
    create(broker, "in", "out")
    fill(broker, "in", range(5))


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    return tmp_path / "checkpoint"


def made(df: DataFrame, broker: Broker, checkpoint: Path, **changes: Any) -> Pipeline:
    chosen = {
        "topic": "out",
        "transactional_id": "jobs",
        "servers": broker.bootstrap_servers,
        "checkpoint": str(checkpoint),
        "trigger": {"availableNow": True},
        **changes,
    }
    return pipeline(df, **chosen)


def refusals(job: Pipeline) -> str:
    """What both say."""
    with pytest.raises(Refused) as by_check:
        job.check()
    with pytest.raises(Refused) as by_start:
        job.start()
    assert str(by_check.value) == str(by_start.value)
    return str(by_check.value)


def is_known(broker: Broker, transactional_id: str) -> bool:
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        return transactional_id in {listed.transactional_id for listed in admin.transactions.list()}


@pytest.mark.parametrize(
    ("transform", "options", "changes", "said"),
    [
        pytest.param(copied, {}, {"topic": "nowhere"}, "there is no topic 'nowhere' to write to", id="sink topic"),
        pytest.param(
            copied, {"subscribe": "nowhere"}, {}, "there is no topic 'nowhere' to read from", id="source topic"
        ),
        pytest.param(
            copied,
            {},
            {"transaction_timeout_ms": 10**9},
            "transaction_timeout_ms=1000000000 is more than the broker's transaction.max.timeout.ms=900000",
            id="transaction timeout",
        ),
        pytest.param(counted, {}, {"output_mode": "append"}, "output_mode='append'", id="mode of the plan"),
        pytest.param(sorted_by_key, {}, {}, "output_mode='append'", id="operation of the plan"),
        pytest.param(copied, {}, {"output_mode": "sideways"}, "output_mode='sideways'", id="mode"),
        pytest.param(
            copied, {}, {"trigger": {"processingTime": "now and then"}}, "trigger={'processingTime'", id="trigger"
        ),
        pytest.param(copied, {}, {"trigger": {"sometimes": True}}, "trigger={'sometimes'", id="name of a trigger"),
        pytest.param(
            copied, {}, {"trigger": {"continuous": "1 second"}}, "which continuous does not have", id="continuous"
        ),
        pytest.param(
            copied, {}, {"trigger": {"realTime": "5 minutes"}}, "which realTime does not have", id="real time"
        ),
        pytest.param(copied, {}, {"query_name": ""}, "query_name=''", id="name of the query"),
        pytest.param(copied, {}, {"writers": 99}, "writers=99, and there are 2 task slots", id="writers"),
        pytest.param(copied, {}, {"attempts": 0}, "attempts=0; it is at least 1", id="attempts"),
        pytest.param(keys, {}, {}, "the DataFrame has no column value to write; it has key", id="column value"),
        pytest.param(copied, {}, {"topic": None}, "say which topic to write to", id="column topic"),
        pytest.param(copied, {}, {"compression_type": "zip"}, "compression.type", id="setting"),
        pytest.param(copied, {}, {"lingr_ms": 5}, "did you mean linger", id="name of a setting"),
        pytest.param(
            copied,
            {"kafka__security__protocol": "SSL"},
            {"security_protocol": "SSL", "ssl_truststore_location": "/nowhere"},
            "ssl.truststore.location=/nowhere cannot be used",
            id="file of a setting",
        ),
        pytest.param(copied, {"maxOffsetsPerTriger": 5}, {}, "did you mean maxOffsetsPerTrigger", id="option"),
        pytest.param(
            copied,
            {"startingOffsets": '{"in": {"0": 1}}'},
            {},
            "startingOffsets must name every partition that is read",
            id="starting offsets",
        ),
    ],
)
def test_check_and_start_refuse_alike_and_take_over_nothing(
    spark: SparkSession,
    broker: Broker,
    checkpoint: Path,
    transform: Callable[[DataFrame], DataFrame],
    options: dict[str, str],
    changes: dict[str, Any],
    said: str,
) -> None:
    assert said in refusals(made(transform(source(spark, broker, **options)), broker, checkpoint, **changes))
    assert not checkpoint.exists()
    assert not is_known(broker, "jobs")


def test_the_name_of_a_running_query_is_refused_and_that_query_is_not_superseded(
    spark: SparkSession, broker: Broker, checkpoint: Path, tmp_path: Path
) -> None:
    rows = copied(source(spark, broker))
    running = made(rows, broker, checkpoint, query_name="copies", trigger=None).start()
    try:
        running.processAllAvailable()
        other = made(rows, broker, tmp_path / "other", query_name="copies", trigger=None)
        assert "query_name='copies' is the name of a query that is running" in refusals(other)
        fill(broker, "in", range(5, 10))
        running.processAllAvailable()
    finally:
        running.stop()
    assert values(broker, "out") == list(range(10))


def test_a_topic_that_two_sources_of_one_group_read_by_other_options_is_found_by_both(
    spark: SparkSession, broker: Broker, checkpoint: Path
) -> None:
    by_pattern = (
        spark.readStream.format("semel")
        .option("kafka.bootstrap.servers", broker.bootstrap_servers)
        .option("kafka.group.id", "jobs")
        .option("subscribePattern", "i.*")
        .load()
    )
    job = made(copied(source(spark, broker)).union(copied(by_pattern)), broker, checkpoint)
    assert "two sources read 'in' under group 'jobs', which has one offset for both" in refusals(job)
    assert not is_known(broker, "jobs")


def test_a_group_that_consumes_is_found_by_both(spark: SparkSession, broker: Broker, checkpoint: Path) -> None:
    servers = broker.bootstrap_servers
    with Consumer(bootstrap_servers=servers, group_id="jobs", auto_offset_reset="earliest") as consumer:
        consumer.subscribe(["in"])
        assert consumer.poll(PATIENCE_MS)
        assert "has 1 members" in refusals(made(copied(source(spark, broker)), broker, checkpoint))


def test_a_checkpoint_and_a_group_that_do_not_belong_together_are_found_by_both(
    spark: SparkSession, broker: Broker, checkpoint: Path
) -> None:
    rows = source(spark, broker)
    run(counted(rows), broker, checkpoint, output_mode="update")
    made(counted(rows), broker, checkpoint, output_mode="update").check()
    elsewhere = source(spark, broker, kafka__group__id="other")
    job = made(counted(elsewhere), broker, checkpoint, output_mode="update", transactional_id="other")
    assert "group 'other' has no offsets" in refusals(job)
    assert not is_known(broker, "other")
    shutil.rmtree(checkpoint)
    assert "has no state" in refusals(made(counted(rows), broker, checkpoint, output_mode="update"))
