"""The pipeline on a real broker and a real Spark: whatever fails, the output is the function of the input."""

from __future__ import annotations

import os
import re
import shutil
import time
from collections import Counter
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming import StreamingQuery

from semel.blocking import Producer
from semel.spark import Refused, pipeline
from semel.testing import Broker
from tests.spark.jobs import copied, fails_at, kill_this_process, once, run, source, tasks_of_jobs
from tests.spark.topics import committed, create, fill, group_offsets, is_open, values
from tools.patience import SPARK_PATIENCE_S, wait_until


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    return tmp_path / "checkpoint"


@pytest.fixture(autouse=True)
def topics(broker: Broker) -> None:
    create(broker, "in", "out")


def test_every_record_is_copied_once_across_batches_and_restarts(
    spark: SparkSession, broker: Broker, checkpoint: Path
) -> None:
    fill(broker, "in", range(60))
    batches = run(copied(source(spark, broker, maxOffsetsPerTrigger=25)), broker, checkpoint)
    assert [batch["numInputRows"] for batch in batches] == [25, 25, 10]
    assert tasks_of_jobs(spark, batches) == [[1], [1], [1]]
    fill(broker, "in", range(60, 100))
    batches = run(copied(source(spark, broker, minPartitions=2)), broker, checkpoint, writers=2)
    assert tasks_of_jobs(spark, batches) == [[2, 2]]
    assert values(broker, "out") == list(range(100))
    assert sum(group_offsets(broker, "jobs", "in").values()) == 100
    # Order within a key, and so within a source partition, is kept.
    for key in range(7):
        written = [int(record.value or b"") for record in committed(broker, "out") if record.key == b"key-%d" % key]
        assert written == list(range(key, 100, 7))


@pytest.mark.spark_slow
@pytest.mark.parametrize("name", [None, "orders"])
def test_sparks_second_format_of_offsets_is_understood(
    spark: SparkSession, broker: Broker, checkpoint: Path, name: str | None
) -> None:
    """Also where sources have names of their own, through a driver that dies behind its commit, and a restart."""
    settings = {"spark.sql.streaming.offsetLog.formatVersion": "2"}
    if name is not None:
        settings["spark.sql.streaming.queryEvolution.enableSourceEvolution"] = "true"
    for setting, value in settings.items():
        spark.conf.set(setting, value)
    try:
        fill(broker, "in", range(10))
        with pytest.raises(StreamingQueryException, match="failed at 'committed' of batch 0"):
            run(copied(source(spark, broker, named=name)), broker, checkpoint, reached=fails_at("committed", 0))
        fill(broker, "in", range(10, 20))
        run(copied(source(spark, broker, named=name)), broker, checkpoint)
    finally:
        for setting in settings:
            spark.conf.unset(setting)
    assert (checkpoint / "offsets" / "0").read_text().startswith("v2")
    assert values(broker, "out") == list(range(20))


def test_rows_that_come_together_on_their_way_have_one_writer_all_the_same(
    spark: SparkSession, broker: Broker, checkpoint: Path
) -> None:
    """Spark puts no barrier on a stage whose number of tasks changes on the way: the rows are moved once more."""
    fill(broker, "in", range(20))
    run(copied(source(spark, broker, minPartitions=2)).coalesce(1), broker, checkpoint)
    assert values(broker, "out") == list(range(20))


@pytest.mark.parametrize(
    "points",
    [
        pytest.param(("begun", "offsets sent", "committed"), id="the three that differ"),
        pytest.param(
            ("planned", "begun", "written", "offsets sent", "committed"), marks=pytest.mark.spark_slow, id="all"
        ),
    ],
)
def test_a_driver_that_fails_at_any_step_goes_on_where_the_transaction_left_it(
    spark: SparkSession, broker: Broker, checkpoint: Path, points: tuple[str, ...]
) -> None:
    """Scenarios 69 and 70: before EndTxn the batch is run again, after it it is recognised."""
    fill(broker, "in", range(40))
    for point in points:
        with pytest.raises(StreamingQueryException, match=f"failed at '{point}' of batch 0"):
            run(copied(source(spark, broker)), broker, checkpoint, reached=fails_at(point, 0))
        assert values(broker, "out") == (list(range(40)) if point == "committed" else [])
    fill(broker, "in", range(40, 50))
    run(copied(source(spark, broker)), broker, checkpoint)
    assert values(broker, "out") == list(range(50))


def test_a_task_that_is_killed_while_it_writes_is_replaced_by_a_new_attempt_under_a_new_epoch(
    spark: SparkSession, broker: Broker, checkpoint: Path, tmp_path: Path
) -> None:
    """Scenario 71: task retry, and what the first attempt wrote is aborted."""
    fill(broker, "in", range(30))
    reached = once(tmp_path / "killed", "produced", kill_this_process)
    run(copied(source(spark, broker)), broker, checkpoint, reached=reached, writers=2)
    assert (tmp_path / "killed").exists()
    assert values(broker, "out") == list(range(30))


@pytest.mark.spark_slow
def test_a_cluster_with_transactions_v1_is_served_with_an_epoch_for_each_batch(
    spark: SparkSession, checkpoint: Path, tmp_path: Path
) -> None:
    with Broker(num_partitions=2, transaction_version=1) as older:
        create(older, "in", "out")
        fill(older, "in", range(30))
        reached = once(tmp_path / "killed", "produced", kill_this_process)
        run(copied(source(spark, older, maxOffsetsPerTrigger=20)), older, checkpoint, reached=reached)
        assert (tmp_path / "killed").exists()
        assert values(older, "out") == list(range(30))


@pytest.mark.spark_slow
def test_a_batch_that_takes_longer_than_its_transaction_may_is_tried_again_with_more_time_and_written_once(
    spark: SparkSession, checkpoint: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Harmless, because the offsets are aborted with the records."""
    sweeps = {"transaction_abort_timed_out_transaction_cleanup_interval_ms": 100}
    with Broker(num_partitions=2, **sweeps) as broker:
        create(broker, "in", "out")
        fill(broker, "in", range(10))
        servers, waits = broker.bootstrap_servers, [True, False]

        def until_it_is_aborted(point: str, batch_id: int) -> None:
            if point == "written" and waits.pop(0):
                wait_until(lambda: not is_open(servers, "out"))

        slow = copied(source(spark, broker))
        with pytest.raises(
            StreamingQueryException, match=r"the broker aborts a transaction after .*_timeout_ms=1000\."
        ):
            run(slow, broker, checkpoint, transaction_timeout_ms=1_000, reached=until_it_is_aborted, attempts=1)
        assert values(broker, "out") == []
        waits[:] = [True, False]
        caplog.clear()
        run(slow, broker, checkpoint, transaction_timeout_ms=1_000, reached=until_it_is_aborted)
        assert values(broker, "out") == list(range(10))
        assert waits == []
        said = next(message for message in caplog.messages if "the next attempt has" in message)
        assert re.fullmatch(
            r"batch 0 took \d+ ms, and the broker aborts a transaction after transaction_timeout_ms=1000: "
            r"the next attempt has \d+ ms",
            said,
        )


def test_a_nightly_job_whose_offsets_have_expired_goes_on_exactly(spark: SparkSession, checkpoint: Path) -> None:
    with Broker(num_partitions=2, log_retention_ms=-1) as broker:
        create(broker, "in", "out")
        fill(broker, "in", range(20))
        run(copied(source(spark, broker)), broker, checkpoint)
        broker.clock.advance(days=8)
        wait_until(lambda: group_offsets(broker, "jobs", "in") == {})
        os.utime(checkpoint / "offsets" / "0", (time.time() - 8 * 24 * 3600,) * 2)
        fill(broker, "in", range(20, 30))
        run(copied(source(spark, broker)), broker, checkpoint)
        assert values(broker, "out") == list(range(30))
        assert sum(group_offsets(broker, "jobs", "in").values()) == 30


def test_a_checkpoint_from_a_backup_is_refused_by_start_and_a_new_location_goes_on_exactly(
    spark: SparkSession, broker: Broker, checkpoint: Path, tmp_path: Path
) -> None:
    fill(broker, "in", range(10))
    run(copied(source(spark, broker)), broker, checkpoint)
    shutil.copytree(checkpoint, tmp_path / "backup")
    fill(broker, "in", range(10, 20))
    run(copied(source(spark, broker)), broker, checkpoint)
    fill(broker, "in", range(20, 30))
    older = pipeline(
        copied(source(spark, broker)),
        topic="out",
        transactional_id="jobs",
        servers=broker.bootstrap_servers,
        checkpoint=str(tmp_path / "backup"),
    )
    with pytest.raises(Refused, match=r"the checkpoint is an older copy, .* give it a new checkpoint location"):
        older.start()
    run(copied(source(spark, broker)), broker, tmp_path / "new")
    assert values(broker, "out") == list(range(30))


@pytest.mark.spark_slow
def test_a_deleted_checkpoint_costs_a_stateless_query_nothing(
    spark: SparkSession, broker: Broker, checkpoint: Path
) -> None:
    fill(broker, "in", range(20))
    run(copied(source(spark, broker)), broker, checkpoint)
    shutil.rmtree(checkpoint)
    fill(broker, "in", range(20, 30))
    run(copied(source(spark, broker)), broker, checkpoint)
    assert values(broker, "out") == list(range(30))


def test_a_count_is_right_after_a_driver_failed_behind_the_commit_and_refuses_to_begin_without_its_state(
    spark: SparkSession, broker: Broker, checkpoint: Path
) -> None:
    """A batch that has happened runs into nothing, so that the state moves on and the output does not."""
    fill(broker, "in", range(40))
    counts = (
        source(spark, broker, maxOffsetsPerTrigger=20)
        .groupBy("key")
        .count()
        .select("key", sf.col("count").cast("string").alias("value"))
    )
    with pytest.raises(StreamingQueryException, match="failed at 'committed' of batch 0"):
        run(counts, broker, checkpoint, output_mode="update", reached=fails_at("committed", 0))
    run(counts, broker, checkpoint, output_mode="update")
    written = [(record.key, int(record.value or b"")) for record in committed(broker, "out")]
    assert max(Counter(written).values()) == 1
    assert dict(sorted(written)) == Counter(b"key-%d" % (number % 7) for number in range(40))
    shutil.rmtree(checkpoint)
    with pytest.raises(Refused, match="has no state"):
        run(counts, broker, checkpoint, output_mode="update")


@pytest.mark.spark_slow
def test_a_window_that_closes_without_new_data_is_written_once(
    spark: SparkSession, broker: Broker, checkpoint: Path
) -> None:
    """Batches whose start is their end, and which emit rows all the same: the note decides whether they happened."""
    with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for second in (1, 2, 3, 300):
            producer.send("in", b"v", b"k", timestamp=1_700_000_000_000 + second * 1000).result()
    windows = (
        source(spark, broker)
        .withWatermark("timestamp", "1 minute")
        .groupBy(sf.window("timestamp", "1 minute"), "key")
        .count()
        .select("key", sf.col("count").cast("string").alias("value"))
    )
    with pytest.raises(StreamingQueryException, match="failed at 'committed' of batch 1"):
        run(windows, broker, checkpoint, reached=fails_at("committed", 1))
    run(windows, broker, checkpoint)
    assert values(broker, "out") == [3]


def copies_ten(spark: SparkSession, broker: Broker, checkpoint: Path, *, transactional_id: str) -> StreamingQuery:
    """A query that has copied the first ten records, and goes on."""
    fill(broker, "in", range(10))
    query = pipeline(
        copied(source(spark, broker)),
        topic="out",
        transactional_id=transactional_id,
        servers=broker.bootstrap_servers,
        checkpoint=str(checkpoint),
    ).start()
    query.processAllAvailable()
    return query


def test_of_two_drivers_the_newer_one_goes_on_and_the_other_says_so(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    older = copies_ten(spark, broker, tmp_path / "older", transactional_id="jobs")
    run(copied(source(spark, broker)), broker, tmp_path / "newer")
    fill(broker, "in", range(10, 20))
    with pytest.raises(StreamingQueryException, match=r"another driver has taken over the transactional id 'jobs'"):
        older.awaitTermination(int(SPARK_PATIENCE_S))
    run(copied(source(spark, broker)), broker, tmp_path / "newer")
    assert values(broker, "out") == list(range(20))


def test_of_two_pipelines_with_one_group_the_newer_one_goes_on_whatever_its_transactional_id(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    older = copies_ten(spark, broker, tmp_path / "older", transactional_id="older")
    run(copied(source(spark, broker)), broker, tmp_path / "newer", transactional_id="newer")
    fill(broker, "in", range(10, 20))
    with pytest.raises(StreamingQueryException, match=r"id 'newer' has taken over group 'jobs'"):
        older.awaitTermination(int(SPARK_PATIENCE_S))
    run(copied(source(spark, broker)), broker, tmp_path / "newer", transactional_id="newer")
    assert values(broker, "out") == list(range(20))
    create(broker, "more")
    with pytest.raises(Refused, match="is used by the pipeline with transactional id 'newer' for topic 'in'"):
        run(copied(source(spark, broker, "more")), broker, tmp_path / "other", transactional_id="other")


def test_a_query_that_is_stopped_in_the_middle_of_a_batch_leaves_nothing_of_it(
    spark: SparkSession, broker: Broker, checkpoint: Path, tmp_path: Path
) -> None:
    fill(broker, "in", range(10))
    marker, leave = tmp_path / "in the middle", tmp_path / "leave"
    query = pipeline(
        copied(source(spark, broker)),
        topic="out",
        transactional_id="jobs",
        servers=broker.bootstrap_servers,
        checkpoint=str(checkpoint),
        reached=once(marker, "produced", lambda: wait_until(leave.exists)),
    ).start()
    wait_until(marker.exists)
    query.stop()
    leave.touch()
    wait_until(lambda: not is_open(broker.bootstrap_servers, "out"))
    assert values(broker, "out") == []
    run(copied(source(spark, broker)), broker, checkpoint)
    assert values(broker, "out") == list(range(10))


@pytest.mark.spark_slow
def test_several_sources_commit_their_offsets_in_one_transaction(
    spark: SparkSession, broker: Broker, checkpoint: Path
) -> None:
    create(broker, "more")
    fill(broker, "in", range(10))
    fill(broker, "more", range(10, 20))
    both = copied(source(spark, broker)).union(copied(source(spark, broker, "more", kafka__group__id="others")))
    with pytest.raises(StreamingQueryException, match="failed at 'committed' of batch 0"):
        run(both, broker, checkpoint, reached=fails_at("committed", 0))
    fill(broker, "more", range(20, 25))
    run(both, broker, checkpoint)
    assert values(broker, "out") == list(range(25))
    assert sum(group_offsets(broker, "jobs", "in").values()) == 10
    assert sum(group_offsets(broker, "others", "more").values()) == 15


def test_somebody_else_who_commits_to_the_group_stops_the_pipeline(
    spark: SparkSession, broker: Broker, checkpoint: Path
) -> None:
    fill(broker, "in", range(10))
    run(copied(source(spark, broker)), broker, checkpoint)
    with (
        Producer(bootstrap_servers=broker.bootstrap_servers, transactional_id="stranger") as producer,
        producer.transaction(),
    ):
        producer.send_offsets({("in", 0): 1, ("in", 1): 1}, "jobs")
    fill(broker, "in", range(10, 20))
    with pytest.raises(Refused, match="committed by something that is no pipeline"):
        run(copied(source(spark, broker)), broker, checkpoint)
    assert values(broker, "out") == list(range(10))


def test_rows_choose_their_topic_and_bad_ones_go_to_the_dead_letter_topic_in_the_same_transaction(
    spark: SparkSession, broker: Broker, checkpoint: Path
) -> None:
    create(broker, "even", "odd", "dead")
    fill(broker, "in", range(20))
    number = sf.col("value").cast("string").cast("int")
    routed = source(spark, broker).select(
        "key",
        "value",
        "offset",
        sf.when(number == 13, sf.lit("nowhere"))
        .when(number % 2 == 0, sf.lit("even"))
        .otherwise(sf.lit("odd"))
        .alias("topic"),
    )
    with pytest.raises(StreamingQueryException, match=r"from source offset \d+ .*there is no topic 'nowhere'"):
        run(routed, broker, checkpoint, topic=None)
    assert values(broker, "even") == []
    run(routed, broker, checkpoint, topic=None, dead_letter_topic="dead")
    assert values(broker, "even") == list(range(0, 20, 2))
    assert values(broker, "odd") == [number for number in range(1, 20, 2) if number != 13]
    assert values(broker, "dead") == [13]
