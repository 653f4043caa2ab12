"""Pipelines as files: what a file says, what it may not say, and ``semel pipeline`` over it."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import threading
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from semel.blocking import Admin
from semel.cli.exits import Exit
from semel.cli.main import main
from semel.spark.job import JobError, PipelineJob
from semel.testing import Broker
from tests.spark.topics import create, fill, values
from tools.patience import wait_until

EXAMPLE = Path(__file__).parents[2] / "examples" / "totals.toml"

MINIMAL: dict[str, Any] = {
    "servers": "b:9092",
    "transactional_id": "jobs",
    "checkpoint": "c",
    "sql": "SELECT key, value FROM rows",
    "sources": {"rows": {"subscribe": "in"}},
    "sink": {"topic": "out"},
}

EVEN = """
servers = "{servers}"
transactional_id = "jobs"
checkpoint = "{checkpoint}"
sql = "SELECT key, value FROM numbers WHERE int(string(value)) % 2 = 0"
[sources.numbers]
subscribe = "in"
startingOffsets = "earliest"
maxOffsetsPerTrigger = 15
[sink]
topic = "{topic}"
compression.type = "lz4"
"""

ALSO = """
[[also]]
kind = "sqlite"
path = "{path}"
table = "even"
columns = ["int(string(value)) AS number"]
"""


def job_file(folder: Path, broker: Broker, *, topic: str = "out") -> str:
    file = folder / "even.toml"
    text = EVEN.format(servers=broker.bootstrap_servers, checkpoint=folder / "checkpoint", topic=topic)
    file.write_text(text)
    return str(file)


def test_names_with_dots_need_no_quotes_and_the_group_is_the_transactional_id_unless_it_is_said() -> None:
    said = {
        **MINIMAL,
        "sources": {"rows": {"subscribe": "in", "includeHeaders": True, "kafka": {"client": {"id": "c"}}}},
    }
    job = PipelineJob.parse(said, folder=Path())
    assert job.sources == {
        "rows": {
            "kafka.bootstrap.servers": "b:9092",
            "kafka.group.id": "jobs",
            "kafka.client.id": "c",
            "subscribe": "in",
            "includeHeaders": "true",
        }
    }
    said = {**MINIMAL, "sources": {"rows": {"subscribe": "in", "kafka.group.id": "g", "watermark": "1 hour"}}}
    job = PipelineJob.parse(said, folder=Path())
    assert job.sources["rows"]["kafka.group.id"] == "g"
    assert job.watermarks == {"rows": "1 hour"}
    assert "watermark" not in job.sources["rows"]


def test_the_sql_may_stand_in_a_file_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "q.sql").write_text("SELECT 1")
    said = {name: value for name, value in MINIMAL.items() if name != "sql"}
    assert PipelineJob.parse({**said, "sql_file": "q.sql"}, folder=tmp_path).sql == "SELECT 1"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"chekpoint": "c"}, "there is no entry 'chekpoint'; did you mean checkpoint?"),
        ({"sql_file": "q.sql"}, "set exactly one of sql and sql_file"),
        ({"servers": 9092}, "servers is 9092; it is a text"),
        ({"attempts": "3"}, "attempts is '3'; it is a whole number"),
        ({"outage_timeout_ms": True}, "outage_timeout_ms is True; it is a whole number"),
        ({"sources": {}}, "sources names no source"),
        ({"sources": {"rows": "in"}}, r"sources.rows is 'in'; it is a table: \[sources.rows\]"),
        ({"sink": "out"}, r"sink is 'out'; it is a table: \[sink\]"),
        ({"also": {"kind": "sqlite"}}, r"it is a list of tables: \[\[also\]\]"),
        (
            {"also": [{"kind": "oracle"}]},
            "also has the kind 'oracle'; it is one of delta, files, iceberg, postgres, sqlite",
        ),
        ({"also": [{"kind": "sqlite", "tabel": "t"}]}, "sqlite has no entry 'tabel'; did you mean table?"),
        (
            {"also": [{"kind": "sqlite", "path": "p"}]},
            "also, sqlite: .*missing 1 required positional argument: 'table'",
        ),
        ({"also": [{"kind": "sqlite", "path": "p", "table": "t", "mode": "upsert"}]}, "without keys="),
    ],
)
def test_a_file_that_does_not_say_what_to_run_is_an_error_that_names_the_entry(
    changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(JobError, match=message):
        PipelineJob.parse({**MINIMAL, **changes}, folder=Path())


def test_what_is_missing_is_named() -> None:
    for name in ("servers", "transactional_id", "checkpoint", "sources", "sink"):
        with pytest.raises(JobError, match=f"{name} is missing"):
            PipelineJob.parse({key: value for key, value in MINIMAL.items() if key != name}, folder=Path())


def test_a_file_that_is_no_toml_is_wrong_usage_in_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "job.toml").write_text("servers = ")
    with pytest.raises(SystemExit) as ended:
        main(["pipeline", "check", str(tmp_path / "job.toml")])
    assert ended.value.code == Exit.USAGE
    said = capsys.readouterr().err
    assert "job.toml is no TOML" in said
    assert said.count("\n") == 1


def test_a_file_is_run_and_run_again_and_every_record_is_written_once(
    spark: SparkSession, broker: Broker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    create(broker, "in", "out")
    fill(broker, "in", range(20))
    file = job_file(tmp_path, broker)
    with sqlite3.connect(tmp_path / "even.db") as database:
        database.execute("CREATE TABLE even (number INTEGER)")
    with Path(file).open("a") as text:
        text.write(ALSO.format(path=tmp_path / "even.db"))
    assert main(["pipeline", "run", file, "--available-now", "--json"]) == Exit.OK
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(line["batch"], line["rows"]) for line in lines] == [(0, 15), (1, 5)]
    assert lines[-1]["lag"] == 0
    assert sum(sink["row_count"] for line in lines for sink in line["sinks"]) == 10
    fill(broker, "in", range(20, 30))
    assert main(["pipeline", "run", file, "--available-now"]) == Exit.OK
    said = capsys.readouterr().out
    assert "rows 10" in said
    assert "\n  sqlite:even  rows 5  ms " in said
    assert values(broker, "out") == list(range(0, 30, 2))
    with sqlite3.connect(tmp_path / "even.db") as database:
        assert sorted(number for (number,) in database.execute("SELECT number FROM even")) == list(range(0, 30, 2))
    assert main(["pipeline", "recover", file, "--json"]) == Exit.OK
    known = json.loads(capsys.readouterr().out)
    assert (known["last_batch"], known["is_done_for_spark"]) == (2, True)
    assert known["known"] == "nothing is to be done: the next start goes on"
    with pytest.raises(SystemExit) as ended:
        main(["pipeline", "rewind", file, "--to", "earliest"])
    asked = capsys.readouterr()
    assert (ended.value.code, "say --yes" in asked.err) == (Exit.USAGE, True)
    assert "what 30 offsets gave is written again to out, sqlite:even" in asked.out
    assert main(["pipeline", "rewind", file, "--to", "earliest", "--yes", "--json"]) == Exit.OK
    assert json.loads(capsys.readouterr().out)["generation"] == 1
    for _ in range(2):
        assert main(["pipeline", "run", file, "--available-now"]) == Exit.OK
    assert values(broker, "out") == sorted([*range(0, 30, 2)] * 2)
    with sqlite3.connect(tmp_path / "even.db") as database:
        found = sorted(number for (number,) in database.execute("SELECT number FROM even"))
    assert found == sorted([*range(0, 30, 2)] * 2)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_interrupted_ends_after_its_batch_without_a_traceback(
    spark: SparkSession, broker: Broker, tmp_path: Path, capsys: pytest.CaptureFixture[str], number: signal.Signals
) -> None:
    create(broker, "in", "out")
    fill(broker, "in", range(20))

    def interrupt() -> None:
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            wait_until(
                lambda: sum(at.offset for at in admin.groups.list_offsets("jobs").values()) == 20,
                "everything that was there is committed",
            )
        os.kill(os.getpid(), number)

    thread = threading.Thread(target=interrupt)
    thread.start()
    code = main(["pipeline", "run", job_file(tmp_path, broker)])
    thread.join()

    assert code == 128 + number
    assert capsys.readouterr().err == ""
    assert spark.streams.active == []
    assert values(broker, "out") == list(range(0, 20, 2))


def test_a_run_that_is_interrupted_while_the_brokers_are_away_does_not_wait_for_them(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    """The lag of the last batch cannot be read, and is left out."""
    create(broker, "in", "out")
    fill(broker, "in", range(20))

    def interrupt() -> None:
        with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            wait_until(lambda: sum(at.offset for at in admin.groups.list_offsets("jobs").values()) == 20)
        broker.stop(kill=True)
        os.kill(os.getpid(), signal.SIGTERM)

    thread = threading.Thread(target=interrupt)
    thread.start()
    assert main(["pipeline", "run", job_file(tmp_path, broker)]) == 128 + signal.SIGTERM
    thread.join()
    broker.start()
    assert values(broker, "out") == list(range(0, 20, 2))


def test_a_check_says_what_would_run_and_touches_nothing_and_a_refusal_is_one_sentence(
    spark: SparkSession, broker: Broker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    create(broker, "in", "out")
    assert main(["pipeline", "check", job_file(tmp_path, broker), "--json"]) == Exit.OK
    said = json.loads(capsys.readouterr().out)
    assert (said["reads"], said["groups"], said["writes"], said["is_stateful"]) == (["in"], ["jobs"], "out", False)
    assert not (tmp_path / "checkpoint").exists()
    for command in ("check", "run"):
        assert main(["pipeline", command, job_file(tmp_path, broker, topic="nowhere")]) == Exit.FAILED
        assert capsys.readouterr().err == "semel: there is no topic 'nowhere' to write to: create it first\n"
    broken = tmp_path / "broken.toml"
    broken.write_text(Path(job_file(tmp_path, broker)).read_text().replace("SELECT key", "SELECT kye"))
    assert main(["pipeline", "check", str(broken)]) == Exit.FAILED
    said = capsys.readouterr().err
    assert "kye" in said
    assert said.count("\n") == 1


@pytest.mark.parametrize("command", ["check", "run"])
@pytest.mark.parametrize(
    ("sql", "sink", "reason"),
    [
        ("SELECT key FROM numbers", 'topic = "out"', "the DataFrame has no column value to write; it has key"),
        ("SELECT value FROM numbers", "", "say which topic to write to: pipeline(topic=...), or a column topic"),
        ("SELECT value FROM numbers", 'topic = "out"\nlingr.ms = 5', "did you mean linger"),
        ("SELECT value FROM numbers", 'topic = "out"\ncompression.type = "zip"', "compression.type"),
    ],
)
def test_a_refusal_is_one_line(
    spark: SparkSession,
    broker: Broker,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    command: str,
    sql: str,
    sink: str,
    reason: str,
) -> None:
    file = tmp_path / "job.toml"
    file.write_text(
        f'servers = "{broker.bootstrap_servers}"\ntransactional_id = "jobs"\ncheckpoint = "{tmp_path}/c"\n'
        f'sql = "{sql}"\n[sources.numbers]\nsubscribe = "in"\n[sink]\n{sink}\n'
    )
    assert main(["pipeline", command, str(file)]) == Exit.FAILED
    said = capsys.readouterr().err
    assert said.startswith("semel: ")
    assert reason in said
    assert said.count("\n") == 1


def test_what_ends_a_run_is_one_line(
    spark: SparkSession,
    broker: Broker,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    create(broker, "in", "out")
    fill(broker, "in", range(2))
    file = Path(job_file(tmp_path, broker))
    file.write_text(file.read_text().replace("SELECT key", "SELECT int(7) AS partition, key"))
    assert main(["pipeline", "run", str(file), "--available-now"]) == Exit.FAILED
    said = capsys.readouterr().err
    assert said.startswith("semel: batch 0: a row with key b'key-0' cannot be written: partition 7 of 'out', which has")
    assert said.count("\n") == 1
    # Outside of a test, what is logged is on standard error as well.
    assert [message for message in caplog.messages if "the pipeline 'jobs' stops" in message] == []


def test_recover_says_what_is_known_and_what_either_answer_means_and_sets_the_offsets_when_told(
    spark: SparkSession, broker: Broker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    create(broker, "in", "out")
    fill(broker, "in", range(20))
    file = job_file(tmp_path, broker)
    assert main(["pipeline", "run", file, "--available-now"]) == Exit.OK
    with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.groups.delete("jobs")
    capsys.readouterr()
    assert main(["pipeline", "run", file, "--available-now"]) == Exit.FAILED
    said = capsys.readouterr().err
    assert "group 'jobs' has no offsets" in said
    assert "`semel pipeline recover FILE`" in said
    assert said.count("\n") == 1
    assert main(["pipeline", "recover", file, "--json"]) == Exit.OK
    known = json.loads(capsys.readouterr().out)
    assert (known["last_batch"], known["is_done_for_spark"], known["groups_are_at"]) == (1, True, [])
    assert known["if_written"].startswith("goes on behind batch 1")
    assert known["if_not_written"].startswith("Spark does not run it again")
    assert main(["pipeline", "recover", file, "--not-written"]) == Exit.FAILED
    assert main(["pipeline", "recover", file, "--written"]) == Exit.OK
    fill(broker, "in", range(20, 30))
    assert main(["pipeline", "run", file, "--available-now"]) == Exit.OK
    assert values(broker, "out") == list(range(0, 30, 2))


def test_the_example_is_analysed_by_spark_as_a_query_with_state(
    spark: SparkSession, broker: Broker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    create(broker, "orders", "totals")
    file = tmp_path / "totals.toml"
    job = EXAMPLE.read_text().replace("127.0.0.1:9092", broker.bootstrap_servers)
    file.write_text(job.replace("checkpoints/totals", str(tmp_path / "checkpoint")))
    assert main(["pipeline", "check", str(file), "--json"]) == Exit.OK
    said = json.loads(capsys.readouterr().out)
    assert (said["columns"], said["is_stateful"]) == (["key", "value"], True)
