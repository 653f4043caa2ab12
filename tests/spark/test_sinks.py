"""Several sinks for one batch: a driver that stops at any step, and its successor, on a real broker.

All but the last without Spark: the checkpoint and the rows are the test's, and so is the order of the calls, which is
Spark's.
"""

from __future__ import annotations

import json
import sqlite3
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from semel.blocking import Admin, Consumer
from semel.errors import StateError
from semel.spark import PipelineError, Refused
from semel.spark.batch import MicroBatches
from semel.spark.checkpoint import Checkpoint
from semel.spark.cluster import Cluster
from semel.spark.decision import Batch
from semel.spark.plan import QueryPlan
from semel.spark.sink.sink import Sink, StepHook, no_step_hook
from semel.spark.sinks import BatchSink, Delta, Files, Iceberg, Owner, SinkBatch, SQLite
from semel.spark.sinks.refused_rows import RefusedRow, refused_row
from semel.spark.sinks.side_sinks import SideSinks, check_deterministic
from semel.spark.source.options import SourceOptions
from semel.spark.starting import Start
from semel.testing import Broker
from tests.spark.jobs import fails_at, kill_this_process, run, source
from tests.spark.topics import committed, create, fill, group_offsets
from tools.patience import PATIENCE_MS
from tools.rows_without_spark import Rows

SIZE = 4
POINTS = (
    "planned",
    "begun",
    "sqlite computed",
    "sqlite staged",
    "sqlite committed",
    "files staged",
    "files committed",
    "sinks written",
    "written",
    "offsets sent",
    "committed",
    "done",
)


class Stopped(BaseException):
    """The driver is gone."""


class PlannedBatches(Checkpoint):
    """A checkpoint of a query that reads one partition, ``SIZE`` offsets in each batch, from ``begin`` on."""

    def __init__(self, query_id: str = "the-query", *, begin: int = 0) -> None:
        super().__init__("checkpoint")
        self._query_id = query_id
        self.begin = begin
        self.generations: list[int] = []
        self.ends: list[int] = []
        self.done = 0

    def _read(self, name: str) -> str | None:
        if name == "metadata":
            return json.dumps({"id": self._query_id})
        if name.startswith("commits/"):
            return "v1" if int(name.removeprefix("commits/")) < self.done else None
        number = int(name.removeprefix("offsets/"))
        return f"v1\n{{}}\n{json.dumps({'in': {'0': self.ends[number]}})}" if number < len(self.ends) else None

    def _modified_ms(self, name: str) -> int:
        return int(time.time() * 1000)

    def _names(self, folder: str) -> list[str]:
        return [str(number) for number in (self.generations if folder == "generations" else range(len(self.ends)))]


class ComputedRows(Rows):
    """Says when a sink collects it: after it was asked for its last batch, and before it begins to write."""

    def __init__(self, table: pa.Table, computed: Callable[[], None]) -> None:
        super().__init__(table)
        self._computed = computed

    def selectExpr(self, *expressions: str) -> Rows:
        return ComputedRows(super().selectExpr(*expressions).toArrow(), self._computed)

    def toArrow(self) -> pa.Table:
        self._computed()
        return super().toArrow()


class World:
    """A broker, an SQLite file and a folder, which outlive the drivers."""

    sqlite: type[SQLite] = SQLite
    driver_class: type[MicroBatches] = MicroBatches
    dead_letter_topic: str | None = None

    def __init__(self, broker: Broker, folder: Path) -> None:
        self.broker = broker
        self.database = folder / "rows.db"
        self.folder = folder / "rows"
        self.checkpoint = PlannedBatches()
        with sqlite3.connect(self.database) as connection:
            connection.execute("CREATE TABLE rows (number INTEGER)")

    def driver(
        self, reached: StepHook = no_step_hook, *, also: SideSinks | None = None, transactional_id: str = "jobs"
    ) -> MicroBatches:
        start = self.start(reached, also=also, transactional_id=transactional_id)
        driver = start.begin(self.checkpoint)
        driver.__class__ = self.driver_class
        return driver

    def plan(self, group_id: str = "jobs") -> QueryPlan:
        options = {
            "kafka.bootstrap.servers": self.broker.bootstrap_servers,
            "kafka.group.id": group_id,
            "assign": '{"in": [0]}',
            "startingOffsets": "earliest",
        }
        return QueryPlan((SourceOptions.parse(options, is_streaming=True),), (), is_stateful=False)

    def start(
        self, reached: StepHook = no_step_hook, *, also: SideSinks | None = None, transactional_id: str = "jobs"
    ) -> Start:
        settings = {
            "bootstrap_servers": self.broker.bootstrap_servers,
            "transactional_id": transactional_id,
            "transaction_timeout_ms": 60_000,
        }
        sinks = SideSinks(self.sinks(reached)) if also is None else also
        sink = Sink(settings, None, self.dead_letter_topic, None, reached)
        return Start(self.plan(), sink, "c", ["number"], 1, None, 2, also=sinks)

    def sinks(self, reached: StepHook = no_step_hook) -> list[BatchSink]:
        def named(kind: str) -> StepHook:
            return lambda point, number: reached(point.replace("sink", kind), number)

        return [
            self.sqlite(self.database, "rows", columns=["number"], reached=named("sqlite")),
            Files(self.folder, reached=named("files")),
        ]

    def run(self, driver: MicroBatches, batch_count: int) -> None:
        """As Spark does: a batch is planned when the one before is in the commit log, and run again if it is not."""
        planned = self.checkpoint
        try:
            while planned.done < batch_count:
                if planned.done == len(planned.ends):
                    planned.ends.append((planned.ends[-1] if planned.ends else planned.begin) + SIZE)
                driver(self.rows(planned.done, driver._sink.reached), planned.done)
                planned.done += 1
        finally:
            driver.close(timeout_ms=0)

    def rows(self, number: int, reached: StepHook) -> Any:
        begin = self.checkpoint.ends[number - 1] if number else self.checkpoint.begin
        numbers = pa.array(range(begin, self.checkpoint.ends[number]), pa.int64())
        table = pa.table({"number": numbers, "offset": numbers, "partition": pa.nulls(len(numbers), pa.int32())})
        chosen = table if self.dead_letter_topic else table.select(["number"])
        return ComputedRows(chosen, lambda: reached("sqlite computed", number))

    def in_sqlite(self) -> list[int]:
        with sqlite3.connect(self.database) as connection:
            return sorted(row[0] for row in connection.execute("SELECT number FROM rows"))

    def in_files(self) -> list[int]:
        found = [pq.read_table(path, partitioning=None) for path in self.folder.glob("batch=*/*.parquet")]
        return sorted(number for table in found for number in table.column("number").to_pylist())

    def assert_everything_is_there_once(self) -> None:
        expected = list(range(self.checkpoint.ends[-1]))
        assert (self.in_sqlite(), self.in_files()) == (expected, expected)
        assert group_offsets(self.broker, "jobs", "in")[0] == len(expected)


@pytest.fixture
def world(broker: Broker, tmp_path: Path) -> World:
    create(broker, "in")
    fill(broker, "in", range(60))
    found = World(broker, tmp_path)
    found.driver().close(timeout_ms=0)  # A first start, before anything is planned.
    return found


def stops_at(point: str, batch_id: int) -> StepHook:
    def reached(name: str, number: int) -> None:
        if (name, number) == (point, batch_id):
            raise Stopped(point)

    return reached


def stop_at_every_step(world: World) -> None:
    for number, point in enumerate(POINTS):
        # Behind EndTxn there is nothing to abort, which the producer says.
        with pytest.raises((Stopped, StateError)):
            world.run(world.driver(stops_at(point, number)), number + 1)
        # A sink is ahead of the offsets by this batch, or level with them: never behind.
        at = group_offsets(world.broker, "jobs", "in")[0]
        assert {len(world.in_sqlite()), len(world.in_files())} <= {at, (number + 1) * SIZE}
    world.run(world.driver(), len(POINTS) + 1)
    world.assert_everything_is_there_once()


def test_a_driver_that_stops_at_any_step_leaves_sinks_that_its_successor_completes(world: World) -> None:
    """Each step of a batch, one batch after the other: input = table = folder, and the offsets with them."""
    stop_at_every_step(world)


def test_rows_that_a_table_does_not_take_are_in_the_dead_letter_topic_once_whatever_step_the_driver_stops_at(
    world: World,
) -> None:
    leave_out_rows_at_every_step(world)


class RefusedRowsForgotten(SQLite):
    """A planted bug: what was left out is known to the driver that left it out, and to no other."""

    def _put(self, connection: sqlite3.Connection, batch: str, refused: Any = ()) -> None:
        super()._put(connection, batch)
        self._left = list(refused)

    def refused_rows(self) -> list[RefusedRow]:
        left, self._left = getattr(self, "_left", []), []
        return left


def test_the_planted_bug_of_refused_rows_that_are_not_in_the_ledger_is_found(world: World) -> None:
    world.sqlite = RefusedRowsForgotten
    with pytest.raises(AssertionError):
        leave_out_rows_at_every_step(world)


def leave_out_rows_at_every_step(world: World) -> None:
    with sqlite3.connect(world.database) as connection:
        connection.execute("DROP TABLE rows")
        connection.execute("CREATE TABLE rows (number INTEGER CHECK (number % 4 <> 1))")
    create(world.broker, "dead")
    world.dead_letter_topic = "dead"
    for number, point in enumerate(POINTS):
        with pytest.raises((Stopped, StateError)):
            world.run(world.driver(stops_at(point, number)), number + 1)
    sinks = SideSinks(world.sinks())
    world.run(world.driver(also=sinks), len(POINTS) + 1)
    everything = range(world.checkpoint.ends[-1])
    left_out = [number for number in everything if number % 4 == 1]
    assert world.in_files() == list(everything)
    assert world.in_sqlite() == [number for number in everything if number % 4 != 1]
    found = [json.loads(record.value or b"") for record in committed(world.broker, "dead")]
    assert sorted(row["number"] for row in found) == left_out
    assert [(one.sink, one.row_count, one.refused_count) for one in sinks.recent][-2:] == [
        ("sqlite:rows", SIZE - 1, 1),
        ("files:rows", SIZE, 0),
    ]


def test_rows_that_were_left_out_are_not_forgotten_if_the_dead_letter_topic_is_taken_away(world: World) -> None:
    with sqlite3.connect(world.database) as connection:
        connection.execute("DROP TABLE rows")
        connection.execute("CREATE TABLE rows (number INTEGER CHECK (number <> 1))")
    create(world.broker, "dead")
    world.dead_letter_topic = "dead"
    with pytest.raises(Stopped):
        world.run(world.driver(stops_at("sinks written", 0)), 1)
    world.dead_letter_topic = None
    with pytest.raises(PipelineError, match="left out 1 rows of this batch for a dead-letter topic"):
        world.run(world.driver(), 1)


def test_refused_rows_go_to_a_partition_of_the_dead_letter_topic_that_no_task_has_written_to(world: World) -> None:
    create(world.broker, "dead")
    world.dead_letter_topic = "dead"
    driver = world.driver()
    row = RefusedRow("sqlite:rows", "too large", {"number": 7})
    last = len(partitions_of(world.broker, "dead")) - 1
    by_tasks: list[Any] = [{"topic": "dead", "partition": partition, "records": 1} for partition in range(last + 1)]
    try:
        with driver._claim.producer.transaction():
            driver._send_refused([row], by_tasks[:-1])
        assert [record.partition for record in committed(world.broker, "dead")] == [last]
        with pytest.raises(PipelineError, match=f"which has {last + 1}: give it {last + 2}"):
            driver._send_refused([row], by_tasks)
    finally:
        driver.close(timeout_ms=0)


def test_a_refused_row_that_is_too_large_for_a_record_is_named_without_its_columns(world: World) -> None:
    create(world.broker, "dead")
    world.dead_letter_topic = "dead"
    driver = world.driver()
    text = "x" * 2_000_000
    row = refused_row("sqlite:rows", f"not a number: {text}", {"number": text, "semel_topic": "in", "semel_offset": 7})
    try:
        with driver._claim.producer.transaction():
            driver._send_refused([row], [])
    finally:
        driver.close(timeout_ms=0)
    with Consumer(bootstrap_servers=world.broker.bootstrap_servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([("dead", partition) for partition in partitions_of(world.broker, "dead")])
        (found,) = consumer.poll(PATIENCE_MS)
    headers = dict(found.headers)
    assert found.value is None
    assert (headers["semel-sink"], headers["semel-offset"]) == (b"sqlite:rows", b"7")
    assert headers["semel-error"].startswith(b"not a number: xxx")


def partitions_of(broker: Broker, topic: str) -> list[int]:
    with Cluster(bootstrap_servers=broker.bootstrap_servers) as cluster:
        return list(range(cluster.topics([topic]).partition_counts[topic]))


class LineInAnotherCommit(SQLite):
    """A planted bug: the rows are committed, and the line afterwards."""

    def write(self, rows: Any, batch: SinkBatch) -> int:
        table = rows.toArrow()
        with self._transaction() as connection:
            self._stage(connection, table)
            self._merge_staged(connection, table.schema.names)
        self._reached("sink staged", batch.batch_id)
        with self._transaction() as connection:
            self._put(connection, str(batch))
        self._reached("sink committed", batch.batch_id)
        return int(table.num_rows)


class Unfenced(SQLite):
    """A planted bug: the line's owner is always believed to be this driver."""

    def _line(self, connection: sqlite3.Connection, pipeline: str) -> tuple[Owner | None, str | None]:
        _, batch = super()._line(connection, pipeline)
        return self._owner, batch


class LinePerTransactionalId(SQLite):
    """A planted bug: pipelines with one group and different transactional ids have different lines."""

    pipeline = "jobs"

    def prepare(self, owner: Owner) -> None:
        super().prepare(replace(owner, groups=self.pipeline))


class OffsetsFirst(MicroBatches):
    """A planted bug: the sinks are written after EndTxn."""

    def _write_others(self, df: Any, batch: Batch) -> list[Any]:
        self._late = (df, batch)
        return []

    def _commit(self) -> None:
        super()._commit()
        super()._write_others(*self._late)


def test_the_planted_bug_of_a_line_in_another_commit_is_found(world: World) -> None:
    world.sqlite = LineInAnotherCommit
    with pytest.raises(AssertionError):
        stop_at_every_step(world)


def test_the_planted_bug_of_offsets_that_are_committed_first_is_found(world: World) -> None:
    world.driver_class = OffsetsFirst
    with pytest.raises((AssertionError, Refused)):
        stop_at_every_step(world)


def test_the_planted_bug_of_a_ledger_without_fence_is_found(world: World) -> None:
    world.sqlite = Unfenced
    with pytest.raises(AssertionError):
        take_over_at(world, "sqlite computed")


def test_progress_says_what_each_sink_took_and_what_it_had_already(world: World) -> None:
    with pytest.raises(Stopped):
        world.run(world.driver(stops_at("files staged", 0)), 1)
    sinks = SideSinks(world.sinks())
    world.run(world.driver(also=sinks), 1)
    assert [(one.batch_id, one.sink, one.row_count, one.is_skipped) for one in sinks.recent] == [
        (0, "sqlite:rows", 0, True),
        (0, "files:rows", SIZE, False),
    ]
    world.run(world.driver(also=sinks), 2)
    counted = sinks.metrics()
    assert [counted[f"sink.sqlite:rows.{name}-total"] for name in ("batches", "rows", "skipped-batches")] == [
        2,
        SIZE,
        1,
    ]
    assert [counted[f"sink.files:rows.{name}-total"] for name in ("batches", "rows", "refused-rows")] == [
        2,
        2 * SIZE,
        0,
    ]
    assert counted["sink.files:rows.write-time-ms-total"] == sum(one.duration_ms for one in sinks.recent[1::2])


@pytest.mark.parametrize("point", ["begun", "sqlite computed", "files staged", "offsets sent"])
def test_a_zombie_driver_that_goes_on_after_its_successor_has_begun_changes_nothing(world: World, point: str) -> None:
    take_over_at(world, point)


def take_over_at(world: World, point: str) -> None:
    """The zombie goes on when its successor is two batches further."""

    def taken_over(name: str, number: int) -> None:
        if (name, number) == (point, 1):
            world.run(world.driver(), 3)

    with pytest.raises(PipelineError):
        world.run(world.driver(taken_over), 2)
    world.assert_everything_is_there_once()


@pytest.mark.parametrize("point", ["begun", "sqlite computed", "files staged", "sinks written"])
def test_a_pipeline_with_another_transactional_id_that_takes_over_the_group_writes_nothing_twice(
    world: World, point: str
) -> None:
    """The first one has confirmed that the group is its own, and is replaced before its sinks commit."""
    take_over_with_another_id(world, point)


def test_the_planted_bug_of_a_line_for_each_transactional_id_is_found(world: World) -> None:
    world.sqlite = LinePerTransactionalId
    with pytest.raises(AssertionError):
        take_over_with_another_id(world, "sqlite computed")


def take_over_with_another_id(world: World, point: str) -> None:
    first = world.checkpoint
    refused: list[str] = []

    def taken_over(name: str, number: int) -> None:
        if (name, number) == (point, 1) and not refused:
            LinePerTransactionalId.pipeline = "other"
            world.checkpoint = PlannedBatches("another-query", begin=SIZE)
            try:
                world.run(world.driver(transactional_id="other"), 2)
            except Refused as error:
                refused.append(str(error))

    LinePerTransactionalId.pipeline = "jobs"
    with pytest.raises(PipelineError):
        world.run(world.driver(taken_over), 2)
    if refused:
        # A sink was ahead of the group by a batch that only the first checkpoint knows: its driver ends it.
        assert "Restore the checkpoint of that query" in refused[0]
        world.checkpoint = first
        world.run(world.driver(), 2)
        world.checkpoint = PlannedBatches("another-query", begin=2 * SIZE)
        world.run(world.driver(transactional_id="other"), 2)
    world.assert_everything_is_there_once()


def test_a_sink_that_fails_for_a_moment_gets_the_batch_with_the_next_attempt(world: World) -> None:
    failed = []

    def fails_once(name: str, number: int) -> None:
        if name == "files staged" and not failed:
            failed.append(name)
            raise OSError("the disk is away")

    world.run(world.driver(fails_once), 1)
    assert failed
    world.assert_everything_is_there_once()


def test_a_lost_answer_to_the_commit_of_a_sink_is_found_out_by_the_next_attempt(world: World) -> None:
    failed = []

    def is_lost(name: str, number: int) -> None:
        if name.endswith("committed") and name != "committed" and name not in failed:
            failed.append(name)
            raise ConnectionError("the answer did not come")

    with pytest.raises(RuntimeError, match="the answer did not come"):
        world.run(world.driver(is_lost), 1)  # Each of the two attempts loses an answer.
    assert world.in_sqlite() == world.in_files() == list(range(SIZE))
    world.run(world.driver(), 2)
    assert failed == ["sqlite committed", "files committed"]
    world.assert_everything_is_there_once()


def test_a_ledger_that_was_deleted_is_refused_and_another_name_begins_where_the_group_is(world: World) -> None:
    world.run(world.driver(), 2)
    with sqlite3.connect(world.database) as connection:
        connection.execute("DROP TABLE semel_ledger")
    with pytest.raises(Refused, match=r"sqlite:rows has no line .* the ledger was deleted"):
        world.driver()
    renamed = SideSinks([SQLite(world.database, "rows", name="again"), Files(world.folder)])
    world.run(world.driver(also=renamed), 3)
    world.assert_everything_is_there_once()


def test_a_sink_that_was_restored_from_a_backup_is_refused(world: World) -> None:
    world.run(world.driver(), 1)
    backup = world.database.read_bytes()
    world.run(world.driver(), 2)
    world.database.write_bytes(backup)
    with pytest.raises(Refused, match="sqlite:rows ends at in-0:4, behind the group, which is at in-0:8"):
        world.driver()


def test_a_checkpoint_that_was_deleted_is_refused_while_a_sink_is_ahead_and_else_costs_nothing(world: World) -> None:
    world.run(world.driver(), 2)
    planned = world.checkpoint
    with pytest.raises(Stopped):
        world.run(world.driver(stops_at("sinks written", 2)), 3)
    world.checkpoint = PlannedBatches("another-query")
    with pytest.raises(Refused, match=r"has batch 2 of query the-query .* this checkpoint has planned no batch"):
        world.driver()
    world.checkpoint = planned
    world.run(world.driver(), 3)
    world.assert_everything_is_there_once()
    world.checkpoint = PlannedBatches("another-query")
    world.driver().close(timeout_ms=0)


def test_a_checkpoint_that_cuts_the_input_elsewhere_stops_before_anything_is_written(world: World) -> None:
    """Restored from a backup of before the batch was planned, and planned again with more input."""
    with pytest.raises(Stopped):
        world.run(world.driver(stops_at("sinks written", 0)), 1)
    world.checkpoint.ends = [SIZE + 1]
    with pytest.raises(Refused, match="with other batches its rows would be written twice"):
        world.driver()
    assert world.in_sqlite() == list(range(SIZE))


class PlannedBatchesOfTwoTopics(PlannedBatches):
    """Reads one record of "in-2" with each batch as well."""

    def _read(self, name: str) -> str | None:
        text = super()._read(name)
        if text is None or not name.startswith("offsets/"):
            return text
        head, _, ends = text.rpartition("\n")
        number = int(name.removeprefix("offsets/"))
        return f"{head}\n{json.dumps({**json.loads(ends), 'in-2': {'0': number + 1}})}"


class ForgivingWorld(World):
    """Its query reads two topics by a pattern, and may lose data."""

    def __init__(self, broker: Broker, folder: Path) -> None:
        super().__init__(broker, folder)
        self.checkpoint = PlannedBatchesOfTwoTopics()

    def plan(self, group_id: str = "jobs") -> QueryPlan:
        options = {
            "kafka.bootstrap.servers": self.broker.bootstrap_servers,
            "kafka.group.id": group_id,
            "subscribePattern": "in.*",
            "startingOffsets": "earliest",
            "failOnDataLoss": "false",
        }
        return QueryPlan((SourceOptions.parse(options, is_streaming=True),), (), is_stateful=False)

    def delete_the_second_topic(self) -> None:
        with Admin(bootstrap_servers=self.broker.bootstrap_servers) as admin:
            admin.topics.delete("in-2")


@pytest.fixture
def forgiving(broker: Broker, tmp_path: Path) -> ForgivingWorld:
    create(broker, "in", "in-2")
    fill(broker, "in", range(60))
    fill(broker, "in-2", range(60))
    found = ForgivingWorld(broker, tmp_path)
    found.driver().close(timeout_ms=0)
    return found


def test_a_topic_that_is_deleted_while_a_batch_runs_is_left_out_of_its_commit(forgiving: ForgivingWorld) -> None:
    def reached(name: str, number: int) -> None:
        if (name, number) == ("written", 1):
            forgiving.delete_the_second_topic()

    forgiving.run(forgiving.driver(reached), 3)
    forgiving.run(forgiving.driver(), 4)
    forgiving.assert_everything_is_there_once()


def test_sinks_that_have_a_batch_without_a_topic_that_was_deleted_go_on_with_it(forgiving: ForgivingWorld) -> None:
    forgiving.run(forgiving.driver(), 1)
    forgiving.delete_the_second_topic()
    with pytest.raises(Stopped):
        forgiving.run(forgiving.driver(stops_at("sinks written", 1)), 2)
    forgiving.run(forgiving.driver(), 3)
    forgiving.assert_everything_is_there_once()


def test_two_sinks_with_one_name_are_refused(world: World) -> None:
    with pytest.raises(Refused, match="two sinks of also= are called 'files:rows'"):
        SideSinks([Files(world.folder), Files(world.folder)])


def test_a_stateful_query_ends_in_a_topic_a_table_a_folder_and_two_lakes_that_agree_after_a_stop_between_them(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    create(broker, "in", "out")
    fill(broker, "in", range(40))
    database, folder = tmp_path / "counts.db", tmp_path / "counts"
    with sqlite3.connect(database) as connection:
        connection.execute("CREATE TABLE counts (key TEXT PRIMARY KEY, n INTEGER)")
    (tmp_path / "warehouse").mkdir()
    catalog = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}/warehouse"}
    iceberg = load_catalog("default", **catalog)
    iceberg.create_namespace("db")
    iceberg.create_table("db.counts", pa.schema([("key", pa.string()), ("n", pa.int32())]))
    chosen = ["string(key) AS key", "int(value) AS n"]

    def sinks() -> list[BatchSink]:
        return [
            SQLite(database, "counts", mode="upsert", keys=["key"], columns=chosen),
            Files(folder, columns=chosen),
            Delta(tmp_path / "delta", columns=chosen),
            Iceberg("db.counts", catalog=catalog, columns=chosen),
        ]

    counts = (
        source(spark, broker, maxOffsetsPerTrigger=20)
        .groupBy("key")
        .count()
        .select("key", sf.col("count").cast("string").alias("value"))
    )
    changes: dict[str, Any] = {"output_mode": "update"}
    with pytest.raises(StreamingQueryException, match="failed at 'sinks written' of batch 0"):
        run(counts, broker, tmp_path / "c", **changes, also=sinks(), reached=fails_at("sinks written", 0))
    run(counts, broker, tmp_path / "c", **changes, also=sinks())
    in_topic = sorted((str(record.key, "utf-8"), int(record.value or b"")) for record in committed(broker, "out"))
    in_folder = sorted((row["key"], row["n"]) for row in spark.read.parquet(str(folder)).collect())
    assert in_folder == in_topic
    in_delta = DeltaTable(str(tmp_path / "delta")).to_pyarrow_table().to_pylist()
    in_iceberg = load_catalog("default", **catalog).load_table("db.counts").scan().to_arrow().to_pylist()
    assert sorted((row["key"], row["n"]) for row in in_delta) == in_topic
    assert sorted((row["key"], row["n"]) for row in in_iceberg) == in_topic
    with sqlite3.connect(database) as connection:
        in_table = dict(connection.execute("SELECT * FROM counts"))
    assert in_table == dict(in_topic) == Counter(f"key-{number % 7}" for number in range(40))

    random = source(spark, broker).select("value", sf.rand().alias("number"))
    with pytest.raises(Refused, match=r"the query is not deterministic, by rand: "):
        run(random, broker, tmp_path / "d", transactional_id="other", also=[Files(tmp_path / "random")])


def test_a_query_is_refused_by_the_functions_that_may_give_other_rows_after_a_crash(spark: SparkSession) -> None:
    rows = spark.range(3)
    spark.udf.register("tossed", sf.udf(lambda: 4, "int").asNondeterministic())
    for expression, said in {
        "uuid() AS x": "uuid",
        "1 + rand() AS x": "rand",
        "monotonically_increasing_id() AS x": "monotonically_increasing_id",
        "tossed() AS x": "the UDF tossed",
        "input_file_name() AS x": "input_file_name",
    }.items():
        with pytest.raises(Refused, match=f"not deterministic, by {said}: "):
            check_deterministic(rows.selectExpr(expression).where("x IS NOT NULL"))
    check_deterministic(rows.selectExpr("id + 1", "current_timestamp()"))


ROWS = 1_000
DIES_AT = 700


def dying(folder: Path) -> Callable[[bytes], int]:
    """The number that the bytes are. Its process is killed at one of them, at every other time at which that is read.

    So a sink has rows of a task that is lost, and gets all of them from the task that is run in its place.
    """

    def number_of(value: bytes) -> int:
        number = int(value)
        if number == DIES_AT:
            # One task reads it at a time.
            (folder / uuid4().hex).touch()
            if len(list(folder.iterdir())) % 2 == 1:
                kill_this_process()
        return number

    return number_of


@pytest.mark.spark_slow
@pytest.mark.needs("postgres")
def test_workers_that_are_killed_while_they_write_to_any_sink_leave_each_row_once(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    import psycopg

    from semel.spark.sinks import Postgres
    from tools.postgres import postgres_server

    create(broker, "in", "out")
    fill(broker, "in", range(ROWS))
    (tmp_path / "times").mkdir()
    (tmp_path / "warehouse").mkdir()
    catalog = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}/warehouse"}
    iceberg = load_catalog("default", **catalog)
    iceberg.create_namespace("db")
    iceberg.create_table("db.numbers", pa.schema([("number", pa.int32())]))
    spark.udf.register("dying", dying(tmp_path / "times"), "int")
    columns = ["dying(value) AS number"]
    with postgres_server() as server:
        with psycopg.connect(server.dsn) as connection:
            connection.execute("CREATE TABLE numbers (number integer)")
        sinks = [
            Files(tmp_path / "files", columns=columns),
            Delta(tmp_path / "delta", columns=columns),
            Iceberg("db.numbers", catalog=catalog, columns=columns),
            Postgres(server.dsn, "numbers", columns=columns),
        ]
        run(source(spark, broker).select("value"), broker, tmp_path / "c", also=sinks, attempts=len(sinks) + 1)
        with psycopg.connect(server.dsn) as connection:
            in_postgres = [row[0] for row in connection.execute("SELECT number FROM numbers").fetchall()]
    in_iceberg = load_catalog("default", **catalog).load_table("db.numbers").scan().to_arrow()
    everywhere = {
        "files": [row["number"] for row in spark.read.parquet(str(tmp_path / "files")).collect()],
        "Delta": DeltaTable(str(tmp_path / "delta")).to_pyarrow_table().column("number").to_pylist(),
        "Iceberg": in_iceberg.column("number").to_pylist(),
        "Postgres": in_postgres,
        "the topic": [int(record.value or b"") for record in committed(broker, "out")],
    }
    wanted = [*range(ROWS)]
    assert [name for name, found in everywhere.items() if sorted(found) != wanted] == []
    assert len(list((tmp_path / "times").iterdir())) == 2 * len(sinks), "each sink has lost a task"


@pytest.mark.spark_slow
@pytest.mark.needs("postgres")
def test_without_a_topic_the_tasks_of_spark_copy_into_postgres_and_the_offsets_are_committed(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    import psycopg

    from semel.spark.sinks import Postgres
    from tools.postgres import postgres_server

    create(broker, "in")
    fill(broker, "in", range(40))
    with postgres_server() as server:
        with psycopg.connect(server.dsn) as connection:
            connection.execute(
                "CREATE TABLE numbers (partition integer, at bigint, number integer CHECK (number < 50))"
            )

        def sinks() -> list[BatchSink]:
            return [
                Postgres(server.dsn, "numbers", columns=["partition", "offset AS at", "int(string(value)) AS number"])
            ]

        read = source(spark, broker, maxOffsetsPerTrigger=25, minPartitions=2)
        with pytest.raises(StreamingQueryException, match="failed at 'sinks written' of batch 1"):
            run(read, broker, tmp_path / "c", topic=None, also=sinks(), reached=fails_at("sinks written", 1))
        run(read, broker, tmp_path / "c", topic=None, also=sinks())
        fill(broker, "in", range(40, 51))
        with pytest.raises(
            StreamingQueryException, match=r"postgres:numbers does not take a row: .*numbers_number_check"
        ):
            run(read, broker, tmp_path / "c", topic=None, also=sinks())
        with psycopg.connect(server.dsn) as connection:
            found = connection.execute("SELECT number FROM numbers ORDER BY number").fetchall()
    assert found == [(number,) for number in range(40)]
    assert sum(group_offsets(broker, "jobs", "in").values()) == 40
