"""A real pipeline on the page of the console that shows pipelines."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

from semel.testing import Broker
from tests.console.test_pages import table_rows
from tests.console.visitor import Visitor, running_console
from tests.spark.jobs import copied, run, source
from tests.spark.topics import create, fill


def test_the_console_shows_the_batches_that_a_pipeline_has_committed(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    create(broker, "in", "out")
    fill(broker, "in", range(60))
    run(copied(source(spark, broker, maxOffsetsPerTrigger=25)), broker, tmp_path / "checkpoint")
    with running_console({"bootstrap_servers": broker.bootstrap_servers}) as port:
        visitor = Visitor(port)
        assert table_rows(visitor.get("/pipelines").body) == ["jobs jobs 2 0 CompleteCommit 0 in"]
        rows = [row.split() for row in table_rows(visitor.get("/pipeline", group="jobs").body)]
    assert [(row[0], row[1], row[-3:]) for row in rows[:3]] == [
        ("2", "committed", ["10", "out", "10"]),
        ("1", "committed", ["25", "out", "25"]),
        ("0", "committed", ["25", "out", "25"]),
    ]
    assert rows[3][:2] == ["start", "committed"]
