"""A Spark session of one connector that does as it is told: ``python -m benchmarks.spark.driver CONNECTOR CLASS_PATH``.

A line of JSON on stdin is a query, or "stop" for the one that is running; a line on stdout is the answer. So a session
stays warm from round to round, and two of them can take turns.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any, TextIO

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from benchmarks.spark.queries import Query, start


def main() -> int:
    connector, class_path = sys.argv[1:3]
    answers = _own_stdout()
    spark = _session(class_path)
    running: StreamingQuery | None = None
    _answer(answers, {"spark": spark.version})
    for line in sys.stdin:
        told = json.loads(line)
        if told == "stop":
            assert running is not None, "nothing is running"
            running.stop()
            _answer(answers, {"batches": _batches(running)})
            continue
        query = Query(**told)
        running = start(spark, connector, query)
        if query.rows_per_batch is None:
            _answer(answers, {"started": True})
        else:
            running.awaitTermination()
            _answer(answers, {"batches": _batches(running)})
    spark.stop()
    return 0


def _session(class_path: str) -> SparkSession:
    spark = (
        SparkSession.builder.master("local[2]")
        .appName("semel-bench")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.streaming.numRecentProgressUpdates", "10000")
        .config("spark.python.authenticate.socketTimeout", "120s")
        .config("spark.driver.memory", "2g")
        .config("spark.driver.extraClassPath", class_path)
        .config("spark.local.dir", os.getcwd())
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def _batches(query: StreamingQuery) -> list[dict[str, Any]]:
    """What Spark itself says of every batch that had rows."""
    batches = [
        {"rows": rows_of(progress["sources"][0]), "ms": progress["durationMs"]}
        for progress in map(dict, query.recentProgress)
    ]
    return [batch for batch in batches if batch["rows"]]


def rows_of(source: dict[str, Any]) -> int:
    """By its offsets, of which none is left out here. Rows that do not pass through Java are not counted by Spark."""
    start, end = (json.loads(source[name] or "null") or {} for name in ("startOffset", "endOffset"))
    return _sum(end) - _sum(start)


def _sum(offsets: dict[str, dict[str, int]]) -> int:
    return sum(offset for partitions in offsets.values() for offset in partitions.values())


def _own_stdout() -> TextIO:
    """The answers' stream. Whatever else is printed here, by Java too, goes to stderr."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    return answers


def _answer(answers: TextIO, answer: dict[str, Any]) -> None:
    answers.write(json.dumps(answer) + "\n")
    answers.flush()


if __name__ == "__main__":
    sys.exit(main())
