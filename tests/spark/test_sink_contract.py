"""What every sink promises, asked of each: rows and line in one commit, one owner, nothing twice."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from semel.spark import BadRow, Refused
from semel.spark.decision import SourcePartition
from semel.spark.errors import sentence_of
from semel.spark.sink.sink import StepHook
from semel.spark.sinks import BatchSink, Files, Line, Owner, SinkBatch, SinkError, SinkFenced, SQLite
from semel.types import TopicPartition
from tools.patience import PATIENCE_MS
from tools.rows_without_spark import Rows

if TYPE_CHECKING:
    from tools.postgres import PostgresServer

FIRST = Owner("jobs", 1000, 5)
SECOND = Owner("jobs", 1000, 7)
OTHER_ID = Owner("jobs", 12, 0)
PARTITION = SourcePartition("jobs", TopicPartition("in", 0))


def batch(number: int) -> SinkBatch:
    return SinkBatch("the-query", number, {PARTITION: 10 * (number + 1)})


def rows(*numbers: int, **options: Any) -> Any:
    return Rows(pa.table({"number": pa.array(numbers, pa.int64())}), **options)


class Stopped(BaseException):
    """The driver is gone: nothing of it runs on."""


def stops_at(point: str) -> StepHook:
    def reached(name: str, number: int) -> None:
        if name == point:
            raise Stopped

    return reached


class SQLiteFile:
    def __init__(self, folder: Path) -> None:
        self.path = folder / "rows.db"
        with sqlite3.connect(self.path) as connection:
            connection.execute("CREATE TABLE rows (number INTEGER)")

    def sink(self, **options: Any) -> BatchSink:
        return SQLite(self.path, "rows", **options)

    def asked_to(self, statement: str) -> None:
        with sqlite3.connect(self.path) as connection:
            connection.execute(statement)

    def numbers(self) -> list[int]:
        with sqlite3.connect(self.path) as connection:
            return sorted(row[0] for row in connection.execute("SELECT number FROM rows"))


class ParquetFolder:
    def __init__(self, folder: Path) -> None:
        self.path = folder / "rows"

    def sink(self, **options: Any) -> BatchSink:
        return Files(self.path, **options)

    def numbers(self) -> list[int]:
        """As readers see it, who leave out what is hidden."""
        found = [
            pq.read_table(path, columns=["number"], partitioning=None) for path in self.path.glob("batch=*/*.parquet")
        ]
        return sorted(number for table in found for number in table.column("number").to_pylist())

    def table_of(self, schema: pa.Schema) -> None:
        pass

    def rows(self) -> list[dict[str, Any]]:
        found = [pq.read_table(path, partitioning=None) for path in sorted(self.path.glob("batch=*/*.parquet"))]
        return [row for table in found for row in table.to_pylist()]

    def batches(self) -> list[str]:
        """The batches that the states of the lake name, oldest first."""
        return [json.loads(path.read_text())["batch"] for path in sorted(self.path.glob("batch=*/_batch.json"))]


class DeltaFolder:
    def __init__(self, folder: Path) -> None:
        self.path = folder / "rows"

    planted = False

    def sink(self, **options: Any) -> BatchSink:
        from semel.spark.sinks import Delta

        class Unfenced(Delta):
            """A planted bug: the commit is made on the table as it is by then, not as it was looked at."""

            def _commit(self, table: Any, added: Any, line: Any) -> None:
                super()._commit(self._opened(), added, line)

        return (Unfenced if self.planted else Delta)(self.path, **options)

    def numbers(self) -> list[int]:
        from deltalake import DeltaTable

        found = DeltaTable(str(self.path)).to_pyarrow_table().column("number").to_pylist()
        return sorted(found)

    def table_of(self, schema: pa.Schema) -> None:
        pass

    def rows(self) -> list[dict[str, Any]]:
        from deltalake import DeltaTable

        found: list[dict[str, Any]] = DeltaTable(str(self.path)).to_pyarrow_table().to_pylist()
        return found

    def batches(self) -> list[str]:
        from deltalake import DeltaTable

        history = DeltaTable(str(self.path)).history()
        return [commit["semel"] for commit in reversed(history) if commit.get("semel")]

    def append_as_another_writer_would(self, number: int) -> None:
        from deltalake import write_deltalake

        write_deltalake(str(self.path), pa.table({"number": pa.array([number], pa.int64())}), mode="append")


class IcebergTable:
    def __init__(self, folder: Path) -> None:
        (folder / "warehouse").mkdir()
        self.catalog = {
            "type": "sql",
            "uri": f"sqlite:///{folder}/catalog.db",
            "warehouse": f"file://{folder}/warehouse",
        }
        self.loaded().create_namespace("db")
        self.loaded().create_table("db.rows", pa.schema([("number", pa.int64())]))

    def loaded(self) -> Any:
        from pyiceberg.catalog import load_catalog

        return load_catalog("default", **self.catalog)

    planted = False

    def sink(self, **options: Any) -> BatchSink:
        from semel.spark.sinks import Iceberg

        class Unfenced(Iceberg):
            """A planted bug: the owner of the line is not looked at."""

            def _line(self, table: Any, owner: Owner) -> Line:
                return replace(super()._line(table, owner), owner=owner)

        return (Unfenced if self.planted else Iceberg)("db.rows", catalog=self.catalog, **options)

    def numbers(self) -> list[int]:
        return sorted(self.loaded().load_table("db.rows").scan().to_arrow().column("number").to_pylist())

    def table_of(self, schema: pa.Schema) -> None:
        self.loaded().drop_table("db.rows")
        self.loaded().create_table("db.rows", schema)

    def rows(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.loaded().load_table("db.rows").scan().to_arrow().to_pylist()
        return found

    def batches(self) -> list[str]:
        summaries = [snapshot.summary for snapshot in self.loaded().load_table("db.rows").snapshots()]
        return [summary["semel-batch"] for summary in summaries if summary["semel-batch"]]

    def append_as_another_writer_would(self, number: int) -> None:
        self.loaded().load_table("db.rows").append(pa.table({"number": pa.array([number], pa.int64())}))


class PostgresTable:
    def __init__(self, server: PostgresServer) -> None:
        import psycopg

        self.server = server
        with psycopg.connect(server.dsn, autocommit=True) as connection:
            connection.execute("DROP SCHEMA public CASCADE")
            connection.execute("CREATE SCHEMA public")
            connection.execute("CREATE TABLE rows (number integer)")

    def sink(self, **options: Any) -> BatchSink:
        return self.table("rows", **options)

    def table(self, table: str, *, dsn: str | None = None, **options: Any) -> BatchSink:
        from semel.spark.sinks import Postgres

        return Postgres(dsn or self.server.dsn, table, **options)

    def asked(self, query: str) -> list[tuple[Any, ...]]:
        import psycopg

        with psycopg.connect(self.server.dsn) as connection:
            return connection.execute(query).fetchall()

    def asked_to(self, statement: str) -> None:
        import psycopg

        with psycopg.connect(self.server.dsn) as connection:
            connection.execute(statement)

    def numbers(self) -> list[int]:
        return sorted(row[0] for row in self.asked("SELECT number FROM rows"))


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    from tools.postgres import postgres_server

    with postgres_server() as server:
        yield server


SQLITE, FILES, DELTA, ICEBERG = "sqlite", "files", "delta", "iceberg"
MADE_OF_A_FOLDER = {SQLITE: SQLiteFile, FILES: ParquetFolder, DELTA: DeltaFolder, ICEBERG: IcebergTable}
POSTGRES = pytest.param("postgres", marks=pytest.mark.needs("postgres"))


@pytest.fixture(params=[SQLITE, FILES, DELTA, ICEBERG, POSTGRES])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    if request.param == "postgres":
        return PostgresTable(request.getfixturevalue("postgres"))
    return MADE_OF_A_FOLDER[request.param](tmp_path)


@pytest.fixture
def table(postgres: PostgresServer) -> PostgresTable:
    return PostgresTable(postgres)


def prepared(target: Any, owner: Owner, **options: Any) -> BatchSink:
    sink: BatchSink = target.sink(**options)
    sink.check(rows(1))
    sink.prepare(owner)
    return sink


def test_a_batch_is_there_with_its_line(target: Any) -> None:
    sink = prepared(target, FIRST)
    assert sink.last_batch() is None
    assert sink.write(rows(1, 2, 2, 3), batch(0)) == 4
    assert sink.write(rows(4), batch(1)) == 1
    assert target.numbers() == [1, 2, 2, 3, 4]
    assert sink.last_batch() == batch(1)
    assert prepared(target, SECOND).last_batch() == batch(1)


def test_a_batch_without_rows_has_a_line(target: Any) -> None:
    sink = prepared(target, FIRST)
    assert sink.write(rows(), batch(0)) == 0
    assert sink.last_batch() == batch(0)
    assert target.numbers() == []


def test_a_driver_that_stops_before_the_commit_leaves_neither_rows_nor_line(target: Any) -> None:
    with pytest.raises(Stopped):
        prepared(target, FIRST, reached=stops_at("sink staged")).write(rows(1, 2), batch(0))
    assert target.numbers() == []
    sink = prepared(target, SECOND)
    assert sink.last_batch() is None
    sink.write(rows(1, 2), batch(0))
    assert target.numbers() == [1, 2]


def test_a_driver_that_stops_after_the_commit_leaves_rows_and_line(target: Any) -> None:
    with pytest.raises(Stopped):
        prepared(target, FIRST, reached=stops_at("sink committed")).write(rows(1, 2), batch(0))
    assert target.numbers() == [1, 2]
    assert prepared(target, SECOND).last_batch() == batch(0)


def test_a_driver_that_was_replaced_cannot_commit(target: Any) -> None:
    older = prepared(target, FIRST)
    older.write(rows(1), batch(0))
    newer = prepared(target, SECOND)
    with pytest.raises(SinkFenced):
        older.write(rows(2), batch(1))
    newer.write(rows(2), batch(1))
    assert target.numbers() == [1, 2]


@pytest.mark.parametrize("target", [FILES, DELTA, ICEBERG, POSTGRES], indirect=True)
@pytest.mark.parametrize("newer", [SECOND, OTHER_ID])
def test_a_zombie_that_wakes_up_before_its_commit_is_refused(target: Any, newer: Owner) -> None:
    """In SQLite the line is locked by then, and the successor waits instead."""
    successors: list[BatchSink] = []

    def taken_over(point: str, number: int) -> None:
        if point == "sink staged":
            successors.append(prepared(target, newer))

    with pytest.raises(SinkFenced):
        prepared(target, FIRST, reached=taken_over).write(rows(1), batch(0))
    assert target.numbers() == []
    assert successors[0].last_batch() is None
    successors[0].write(rows(1), batch(0))
    assert target.numbers() == [1]


@pytest.mark.parametrize("target", [DELTA, ICEBERG], indirect=True)
def test_the_planted_bug_of_a_commit_that_does_not_depend_on_the_line_is_found(target: Any) -> None:
    target.planted = True
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        test_a_zombie_that_wakes_up_before_its_commit_is_refused(target, SECOND)


def test_an_older_driver_does_not_take_over_from_a_later_one(target: Any) -> None:
    later = prepared(target, SECOND)
    with pytest.raises(SinkFenced, match="belongs to a later driver"):
        prepared(target, FIRST)
    later.write(rows(1), batch(0))
    assert target.numbers() == [1]


def test_another_producer_id_takes_over(target: Any) -> None:
    """Ids are not ordered: the one that asks last has it."""
    older = prepared(target, SECOND)
    newer = prepared(target, OTHER_ID)
    with pytest.raises(SinkFenced):
        older.write(rows(1), batch(0))
    newer.write(rows(1), batch(0))
    assert target.numbers() == [1]


def test_a_task_that_was_run_twice_has_its_rows_once(target: Any) -> None:
    sink = prepared(target, FIRST)
    sink.write(rows(*range(10), part_count=3, again=frozenset({0, 2})), batch(0))
    assert Counter(target.numbers()) == Counter(range(10))


def test_under_another_name_a_sink_has_another_line(target: Any) -> None:
    prepared(target, FIRST).write(rows(1), batch(0))
    assert prepared(target, SECOND, name="second").last_batch() is None


@pytest.mark.parametrize("target", [SQLITE, DELTA, ICEBERG, POSTGRES], indirect=True)
def test_a_commit_that_was_under_way_is_not_followed_by_a_second_one(target: Any) -> None:
    """The answer was lost, ``last_batch`` still said no, and then the first commit was there after all.

    A rename is done when it is answered.
    """
    sink = prepared(target, FIRST)
    sink.write(rows(1), batch(0))
    with pytest.raises(SinkError, match="has batch 0 already"):
        sink.write(rows(1), batch(0))
    assert target.numbers() == [1]


@pytest.mark.parametrize("target", [DELTA, ICEBERG], indirect=True)
def test_another_writer_that_commits_in_between_hinders_nothing_and_is_kept(target: Any) -> None:
    def beside(point: str, number: int) -> None:
        if point == "sink staged":
            target.append_as_another_writer_would(100)

    sink = prepared(target, FIRST, reached=beside)
    sink.write(rows(1, 2), batch(0))
    sink.write(rows(3), batch(1))
    assert target.numbers() == [1, 2, 3, 100, 100]
    assert prepared(target, SECOND).last_batch() == batch(1)


@pytest.mark.parametrize("target", [FILES, DELTA, ICEBERG], indirect=True)
@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin"])
def test_every_type_is_read_as_it_was_written_whatever_the_time_zone_of_the_session(target: Any, zone: str) -> None:
    """Spark hands timestamps over in that zone. The columns of the source are among them."""
    now = datetime(2026, 11, 16, 23, 59, 59, 123456, tzinfo=UTC)

    def columns(zone: str) -> dict[str, pa.Array]:
        header = pa.struct([("key", pa.string()), ("value", pa.binary()), ("at", pa.timestamp("us", tz=zone))])
        return {
            "key": pa.array([b"\x00\xff", None], pa.binary()),
            "topic": pa.array(["in", None]),
            "partition": pa.array([3, None], pa.int32()),
            "offset": pa.array([2**40, None], pa.int64()),
            "timestamp": pa.array([now, None], pa.timestamp("us", tz=zone)),
            "local": pa.array([now.replace(tzinfo=None), None], pa.timestamp("us")),
            "headers": pa.array([[{"key": "k", "value": b"v", "at": now}], []], pa.list_(header)),
            "total": pa.array([Decimal("12345678901234567890.12"), None], pa.decimal128(22, 2)),
            "price": pa.array([Decimal("1.25"), None], pa.decimal128(9, 2)),
            "ratio": pa.array([float("inf"), None]),
            "is_paid": pa.array([True, None]),
            "day": pa.array([now.date(), None]),
        }

    target.table_of(pa.table(columns("UTC")).schema)
    written = Rows(pa.table(columns(zone)), part_count=1)
    sink = target.sink()
    sink.check(written)
    sink.prepare(FIRST)
    sink.write(written, batch(0))
    assert target.rows() == pa.table(columns("UTC")).to_pylist()


@pytest.mark.parametrize("target", [SQLITE, POSTGRES], indirect=True)
def test_rows_that_a_table_does_not_take_are_left_out_and_kept_with_the_line(target: Any) -> None:
    target.asked_to("DROP TABLE rows")
    target.asked_to("CREATE TABLE rows (number integer UNIQUE CHECK (number < 10))")
    sink: Any = target.sink(columns=["number"])
    sink.prepare(FIRST)
    sink.divert()
    numbers = [1, 50, 2, 2, 3, 60, None]
    table = {"number": numbers, "topic": ["in"] * 7, "partition": [0] * 7, "offset": [10, 11, 12, 13, 14, 15, 16]}
    assert sink.write(Rows(pa.table(table), part_count=1), batch(0)) == 4
    found = sink.refused_rows()
    assert [(one.row, one.offset) for one in found] == [({"number": 50}, 11), ({"number": 2}, 13), ({"number": 60}, 15)]
    headers = dict(found[0].headers)
    assert (headers["semel-source"], headers["semel-offset"]) == (b"in-0", b"11")
    assert "onstraint" in found[1].reason
    newer: Any = target.sink()
    newer.prepare(SECOND)
    assert (newer.last_batch(), newer.refused_rows()) == (batch(0), found)
    newer.divert()
    assert newer.write(rows(4), batch(1)) == 1
    assert newer.refused_rows() == []


@pytest.mark.parametrize("target", [SQLITE, POSTGRES], indirect=True)
def test_a_row_without_its_key_is_left_out_of_an_upsert_and_too_many_rows_stop_the_batch(target: Any) -> None:
    target.asked_to("DROP TABLE rows")
    target.asked_to("CREATE TABLE rows (number integer PRIMARY KEY CHECK (number < 10))")
    sink: Any = target.sink(mode="upsert", keys=["number"])
    sink.prepare(FIRST)
    sink.divert()
    assert sink.write(rows(1, None, 2, None), batch(0)) == 2
    assert [(one.row, one.reason) for one in sink.refused_rows()] == 2 * [
        ({"number": None}, "no value in one of its keys number")
    ]
    with pytest.raises(BadRow, match="more than 1000 rows of a batch are refused"):
        sink.write(rows(3, *range(10, 1020)), batch(1))
    assert (target.numbers(), sink.last_batch()) == ([1, 2], batch(0))


@pytest.mark.parametrize("target", [SQLITE, POSTGRES], indirect=True)
def test_a_row_replaces_or_removes_the_row_of_its_keys_and_the_latest_one_of_a_batch_counts(target: Any) -> None:
    target.asked_to("DROP TABLE rows")
    target.asked_to("CREATE TABLE rows (id text PRIMARY KEY, number integer)")
    sink: Any = target.sink(mode="upsert", keys=["id"], delete_column="is_gone", latest_by="at")
    sink.prepare(FIRST)
    first = {"id": ["a", "b", "b"], "number": [1, 2, 3], "at": [1, 1, 2], "is_gone": [False, True, None]}
    sink.write(Rows(pa.table(first)), batch(0))
    assert target.numbers() == [1, 3]
    is_gone = [False, True, True, False]
    second = {"id": ["a", "a", "b", "b"], "number": [4, 5, 6, 7], "at": [1, 2, 1, 2], "is_gone": is_gone}
    sink.write(Rows(pa.table(second)), batch(1))
    assert target.numbers() == [7]


@pytest.mark.parametrize("target", [SQLITE, POSTGRES], indirect=True)
@pytest.mark.parametrize("mode", [{}, {"mode": "upsert", "keys": ["body"]}])
@pytest.mark.parametrize(
    ("body", "day", "reason"),
    [
        (b"\xff\x00fe", 0, "column body: the text is not UTF-8"),
        (b"\xed\xa0\x80", 0, "column body: the text is not UTF-8"),
        (b"fine", -719_163, "column day: the date is before the year 1"),
    ],
)
def test_a_row_that_cannot_even_be_staged_is_left_out_or_stops_the_batch(
    target: Any, mode: dict[str, Any], body: bytes, day: int, reason: str
) -> None:
    """Spark takes any bytes for a text, as the value of a record is read; and dates before year 1 and after 9999."""
    target.asked_to("DROP TABLE rows")
    target.asked_to("CREATE TABLE rows (number integer, body text PRIMARY KEY, day text)")
    table = pa.table(
        {
            "number": pa.array([1, 2, 3]),
            "body": pa.array([b"one", body, "zwölf \U0001f600".encode()], pa.binary()).view(pa.string()),
            "day": pa.array([0, day, None], pa.int32()).view(pa.date32()),
        }
    )
    sink: Any = target.sink(**mode)
    sink.prepare(FIRST)
    with pytest.raises(BadRow, match=f"does not take a row: {reason}"):
        sink.write(Rows(table), batch(0))
    assert (target.numbers(), sink.last_batch()) == ([], None)
    sink.divert()
    assert sink.write(Rows(table), batch(0)) == 2
    assert [(one.row["number"], one.reason) for one in sink.refused_rows()] == [(2, reason)]
    assert all(one.value(2**20) for one in sink.refused_rows())
    assert target.numbers() == [1, 3]


@pytest.mark.needs("postgres")
def test_a_text_with_the_character_0_is_left_out_of_postgres_and_kept_in_sqlite(
    table: PostgresTable, tmp_path: Path
) -> None:
    found = []
    for target in (table, SQLiteFile(tmp_path)):
        target.asked_to("DROP TABLE rows")
        target.asked_to("CREATE TABLE rows (number integer, body text)")
        sink: Any = target.sink()
        sink.prepare(FIRST)
        sink.divert()
        sink.write(Rows(pa.table({"number": [1, 2], "body": ["a\0b", "c"]})), batch(0))
        found.append((target.numbers(), [(one.row, one.reason) for one in sink.refused_rows()]))
    left_out = ({"number": 1, "body": "a\\x00b"}, "column body: the text has the character 0")
    assert found == [([2], [left_out]), ([1, 2], [])]


@pytest.mark.needs("postgres")
def test_the_row_that_stops_a_batch_is_named_in_the_one_line_that_is_shown(table: PostgresTable) -> None:
    table.asked_to("CREATE UNIQUE INDEX ON rows (number)")
    sink = prepared(table, FIRST)
    with pytest.raises(BadRow) as raised:
        sink.write(rows(1, 2, 2), batch(0))
    as_spark_says = f"Traceback ...\nsemel.spark.sink.row_partitioning.BadRow: {raised.value}\n\tat org.apache.spark"
    assert "DETAIL: Key (number)=(2) already exists" in sentence_of(RuntimeError(as_spark_says))


@pytest.mark.needs("postgres")
def test_a_refused_row_may_have_dates_after_9999(table: PostgresTable) -> None:
    table.asked_to("DROP TABLE rows")
    table.asked_to("CREATE TABLE rows (number integer CHECK (number <> 1), day date, at timestamptz, local timestamp)")
    days = pa.array([3_700_000, 3_700_000], pa.int32())
    times = pa.array([3_700_000 * 86_400_000_000] * 2)
    rows_of_2 = pa.table(
        {
            "number": [1, 2],
            "day": days.view(pa.date32()),
            "at": times.view(pa.timestamp("us", "UTC")),
            "local": times.view(pa.timestamp("us")),
        }
    )
    sink: Any = table.sink()
    sink.prepare(FIRST)
    sink.divert()
    assert sink.write(Rows(rows_of_2), batch(0)) == 1
    (refused,) = sink.refused_rows()
    assert {str(refused.row[name])[:11] for name in ("day", "at", "local")} == {"12100-04-04"}
    assert table.numbers() == [2]


@pytest.mark.parametrize("unit", ["date", "timestamp with time zone", "timestamp"])
@pytest.mark.needs("postgres")
def test_a_date_that_cannot_be_sent_to_postgres_is_left_out(table: PostgresTable, unit: str) -> None:
    """Such as a time in milliseconds that was taken for one in seconds. Spark has dates after the year 32767."""
    table.asked_to("DROP TABLE rows")
    table.asked_to(f"CREATE TABLE rows (number integer, at {unit})")
    days = [11_248_737, 11_248_738, 100_000_000]
    times = [day * 86_400_000_000 for day in days]
    dates = {
        "date": pa.array(days, pa.int32()).view(pa.date32()),
        "timestamp with time zone": pa.array(times).view(pa.timestamp("us", "UTC")),
        "timestamp": pa.array(times).view(pa.timestamp("us")),
    }
    batch_of_3 = Rows(pa.table({"number": [1, 2, 3], "at": dates[unit]}))
    sink: Any = table.sink()
    sink.prepare(FIRST)
    with pytest.raises(BadRow, match="does not take a row: column at: the date is after the year 32767"):
        sink.write(batch_of_3, batch(0))
    sink.divert()
    assert sink.write(batch_of_3, batch(0)) == 1
    reason = "column at: the date is after the year 32767"
    assert [(one.row["number"], one.reason) for one in sink.refused_rows()] == [(2, reason), (3, reason)]
    assert table.numbers() == [1]


@pytest.mark.parametrize("target", [SQLITE, POSTGRES], indirect=True)
def test_a_row_that_is_left_out_does_not_count_as_the_latest_one_of_its_keys(target: Any) -> None:
    """Otherwise an older row of the batch would be neither in the table nor in the dead-letter topic."""
    target.asked_to("DROP TABLE rows")
    target.asked_to("CREATE TABLE rows (id text PRIMARY KEY, number integer CHECK (number < 10), body text)")
    sink: Any = target.sink(mode="upsert", keys=["id"], latest_by="at")
    sink.prepare(FIRST)
    sink.divert()
    body = pa.array([b"x", b"x", b"x", b"\xff", b"x", b"x", b"\xff"], pa.binary()).view(pa.string())
    numbers = [1, 50, 60, 2, 3, 4, 5]
    table = {"id": list("aaaabcc"), "number": numbers, "body": body, "at": [1, 2, 3, 4, 1, 1, 2]}
    assert sink.write(Rows(pa.table(table), part_count=1), batch(0)) == 3
    assert sorted(one.row["number"] for one in sink.refused_rows()) == [2, 5, 50, 60]
    assert target.numbers() == [1, 3, 4]


@pytest.mark.parametrize("target", [SQLITE, POSTGRES], indirect=True)
@pytest.mark.parametrize(
    "at",
    [
        pa.array([Decimal("9.50"), Decimal("10.00")], pa.decimal128(9, 2)),
        pa.array([Decimal("-9.50"), Decimal("-9.49")], pa.decimal128(9, 2)),
        pa.array([Decimal("12345678901234567890.01"), Decimal("12345678901234567890.02")], pa.decimal128(38, 2)),
        pa.array([None, Decimal(0)], pa.decimal128(9, 2)),
        pa.array([None, 1]),
        pa.array([None, datetime(2026, 1, 1, tzinfo=UTC)], pa.timestamp("us", tz="UTC")),
        pa.array([datetime(2026, 1, 1), datetime(2026, 1, 1, microsecond=5)], pa.timestamp("us")),  # noqa: DTZ001
        pa.array([float("-inf"), 1.0]),
    ],
)
def test_of_several_rows_with_equal_keys_the_greatest_of_any_type_counts_and_null_is_not_the_greatest(
    target: Any, at: pa.Array
) -> None:
    target.asked_to("DROP TABLE rows")
    target.asked_to("CREATE TABLE rows (id text PRIMARY KEY, number integer)")
    sink: Any = target.sink(mode="upsert", keys=["id"], latest_by="at")
    sink.prepare(FIRST)
    sink.write(Rows(pa.table({"id": ["a", "a"], "number": [1, 2], "at": at})), batch(0))
    assert target.numbers() == [2]


# Lakes alone


@pytest.mark.parametrize("target", [FILES, DELTA, ICEBERG], indirect=True)
def test_each_state_of_a_lake_names_its_batch(target: Any) -> None:
    sink = prepared(target, FIRST)
    for number in range(2):
        sink.write(rows(number), batch(number))
    assert [SinkBatch.parse(text) for text in target.batches()] == [batch(0), batch(1)]


def test_a_folder_that_has_lost_the_names_of_its_groups_is_that_of_its_last_batch(tmp_path: Path) -> None:
    """A machine that lost its power may have left the file empty: older versions did not sync it."""
    folder = ParquetFolder(tmp_path)
    prepared(folder, FIRST).write(rows(1), batch(0))
    (named,) = tmp_path.glob("**/groups")
    named.write_text("")
    with pytest.raises(Refused, match="has batches of the group 'jobs'"):
        prepared(folder, replace(SECOND, groups="others"))
    assert prepared(folder, SECOND).last_batch() == batch(0)
    assert named.read_text() == SECOND.groups


def test_a_folder_whose_first_driver_died_before_it_had_named_its_groups_is_taken(tmp_path: Path) -> None:
    folder = ParquetFolder(tmp_path)
    prepared(folder, FIRST)
    (named,) = tmp_path.glob("**/groups")
    named.write_text("")
    assert prepared(folder, SECOND).last_batch() is None
    assert named.read_text() == SECOND.groups
    with pytest.raises(Refused, match="has batches of the group"):
        prepared(folder, replace(SECOND, groups="others"))


@pytest.mark.parametrize(
    ("schema", "options", "message"),
    [
        ([("number", pa.int64()), ("day", pa.string())], {"partition_by": ["day"]}, "partitioned by day; none may be"),
        ([("other", pa.int64())], {}, "the table has no column 'number'; it has other"),
        ([("number", pa.string())], {}, r"column 'number' is .*long.*, and in the table .*string.*: cast it"),
        ([pa.field("number", pa.int64(), nullable=False)], {}, "column 'number' of the table is NOT NULL"),
        (
            [("number", pa.int64())],
            {"configuration": {"delta.setTransactionRetentionDuration": "interval 1 day"}},
            "by which readers would forget the ledger: unset it",
        ),
    ],
)
def test_a_delta_table_that_would_not_be_kept_whole_is_refused(
    tmp_path: Path, schema: Any, options: dict[str, Any], message: str
) -> None:
    from deltalake import DeltaTable

    target = DeltaFolder(tmp_path)
    DeltaTable.create(str(target.path), pa.schema(schema), **options)
    with pytest.raises(Refused, match=message):
        target.sink().check(rows(1))


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("delta.generationExpression", "number * 2"),
        ("delta.invariants", json.dumps({"expression": {"expression": "twice > 3"}})),
        ("delta.identity.start", 1),
    ],
)
def test_a_delta_table_with_a_column_that_its_writer_has_to_fill_or_check_is_refused(
    tmp_path: Path, setting: str, value: Any
) -> None:
    from deltalake import DeltaTable, Field, Schema

    target = DeltaFolder(tmp_path)
    fields = [Field("number", "long"), Field("twice", "long", metadata={setting: value})]
    DeltaTable.create(str(target.path), Schema(fields))
    with pytest.raises(Refused, match=f"column 'twice' of the table has {setting}, which this sink does not follow"):
        target.sink().check(rows(1))


def test_a_delta_table_with_a_constraint_is_refused(tmp_path: Path) -> None:
    from deltalake import DeltaTable

    target = DeltaFolder(tmp_path)
    prepared(target, FIRST)
    DeltaTable(str(target.path)).alter.add_constraint({"small": "number < 10"})
    with pytest.raises(Refused, match=r"delta\.constraints\.small, which this sink does not check"):
        target.sink().check(rows(1))


def test_a_folder_with_files_and_a_url_are_no_delta_table(tmp_path: Path) -> None:
    from semel.spark.sinks import Delta

    (tmp_path / "notes.txt").touch()
    with pytest.raises(Refused, match="has files and is no Delta table"):
        Delta(tmp_path).check(rows(1))
    with pytest.raises(Refused, match="not a URL"):
        Delta("s3://bucket/rows").check(rows(1))


def test_a_line_that_a_delta_table_names_and_that_is_gone_is_said(tmp_path: Path) -> None:
    target = DeltaFolder(tmp_path)
    sink = prepared(target, FIRST)
    for file in target.path.glob("_semel/*/*.json"):
        file.unlink()
    with pytest.raises(SinkError, match=r"\.json is gone, the line of the ledger that the table names"):
        sink.last_batch()


def test_an_iceberg_table_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    from semel.spark.sinks import Iceberg

    target = IcebergTable(tmp_path)
    with pytest.raises(Refused, match=r"no table db\.nowhere .* with the columns number"):
        Iceberg("db.nowhere", catalog=target.catalog).check(rows(1))
    target.loaded().create_table("db.other", pa.schema([("other", pa.int64())]))
    with pytest.raises(Refused, match="has no column 'number'; it has other"):
        Iceberg("db.other", catalog=target.catalog).check(rows(1))
    with target.loaded().load_table("db.rows").update_spec() as spec:
        spec.add_identity("number")
    with pytest.raises(Refused, match="the table is partitioned"):
        target.sink().check(rows(1))


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (pa.field("number", pa.int32()), "column 'number' is long, and in the table int: cast it in columns="),
        (pa.field("number", pa.int64(), nullable=False), "column 'number' is long, and in the table long NOT NULL"),
        (pa.field("number", pa.string()), "Cannot change column type: number: string -> long. Cast it in columns="),
    ],
)
def test_an_iceberg_table_with_other_types_is_refused(tmp_path: Path, column: pa.Field, message: str) -> None:
    target = IcebergTable(tmp_path)
    target.loaded().drop_table("db.rows")
    target.loaded().create_table("db.rows", pa.schema([column]))
    with pytest.raises(Refused, match=message):
        target.sink().check(rows(1))


# Postgres alone


STAGED = "SELECT tablename FROM pg_tables WHERE tablename LIKE 'semel_staging%'"


@pytest.mark.needs("postgres")
def test_staging_that_a_crash_of_the_server_has_emptied_is_not_merged(table: PostgresTable) -> None:
    """As it is after a crash, which the driver need not notice: a pool of connections may stand between."""

    def emptied(point: str, number: int) -> None:
        if point == "sink staged":
            table.asked_to(f"TRUNCATE {table.asked(STAGED)[0][0]}")

    sink = prepared(table, FIRST, reached=emptied)
    with pytest.raises(SinkError, match="2 rows were staged and 0 are there: the server"):
        sink.write(rows(1, 2), batch(0))
    assert (table.numbers(), sink.last_batch()) == ([], None)


@pytest.mark.needs("postgres")
@pytest.mark.parametrize(("point", "expected"), [("sink staged", []), ("sink merged", []), ("sink committed", [1, 2])])
def test_a_server_that_dies_around_the_commit_leaves_all_or_nothing(
    table: PostgresTable, point: str, expected: list[int]
) -> None:
    def crashes(reached: str, number: int) -> None:
        if reached == point:
            table.server.crash()
            table.server.start()
            raise ConnectionError("the answer did not come")

    with pytest.raises((ConnectionError, SinkError)):
        prepared(table, FIRST, reached=crashes).write(rows(1, 2), batch(0))
    assert table.numbers() == expected
    assert prepared(table, SECOND).last_batch() == (batch(0) if expected else None)


@pytest.mark.needs("postgres")
def test_what_a_dead_driver_has_staged_is_dropped_by_the_next_one(table: PostgresTable) -> None:
    with pytest.raises(Stopped):
        prepared(table, FIRST, reached=stops_at("sink staged")).write(rows(1, 2), batch(0))
    assert len(table.asked(STAGED)) == 1
    prepared(table, SECOND).write(rows(1, 2), batch(0))
    assert table.asked(STAGED) == []


@pytest.mark.needs("postgres")
def test_what_an_attempt_that_failed_has_staged_is_dropped_by_the_next_one(table: PostgresTable) -> None:
    failed: list[int] = []

    def fails_once(point: str, number: int) -> None:
        if point == "sink staged" and not failed:
            failed.append(number)
            raise ConnectionError("away")

    sink = prepared(table, FIRST, reached=fails_once)
    with pytest.raises(ConnectionError):
        sink.write(rows(1, 2), batch(0))
    sink.write(rows(1, 2), batch(0))
    assert (table.numbers(), table.asked(STAGED)) == ([1, 2], [])


# A wait that this ends has no end of its own.
WAITS_FOR_NO_LOCK = "options='-c lock_timeout=100ms'"


@pytest.mark.needs("postgres")
def test_a_task_that_was_replaced_and_hangs_in_its_copy_holds_up_neither_the_batch_nor_the_next_driver(
    table: PostgresTable,
) -> None:
    import psycopg

    with psycopg.connect(table.server.dsn) as hanging:

        def replaced(point: str, number: int) -> None:
            if point == "sink staged":
                hanging.execute(f"LOCK TABLE {table.asked(STAGED)[0][0]} IN ROW EXCLUSIVE MODE")  # As COPY does.

        dsn = f"{table.server.dsn} {WAITS_FOR_NO_LOCK}"
        sink = table.table("rows", dsn=dsn, reached=replaced)
        sink.prepare(FIRST)
        sink.write(rows(1, 2), batch(0))
        successor = table.table("rows", dsn=dsn)
        successor.prepare(SECOND)
        successor.write(rows(3), batch(1))
    assert (table.numbers(), len(table.asked(STAGED))) == ([1, 2, 3], 1)
    prepared(table, OTHER_ID)
    assert table.asked(STAGED) == []


@pytest.mark.needs("postgres")
def test_a_driver_that_is_stopped_in_the_middle_of_its_commit_holds_up_its_successor_for_a_while_only(
    table: PostgresTable,
) -> None:
    """It holds the lock on the line. When it wakes up its transaction is over, and the line is another's."""
    from semel.spark.sinks import Postgres

    class Impatient(Postgres):
        idle_ms = 2_000  # Longer than a driver that runs says nothing.

    successors: list[BatchSink] = []
    longest = f"options='-c lock_timeout={PATIENCE_MS}'"

    def stopped(point: str, number: int) -> None:
        if point == "sink merged":
            successors.append(table.table("rows", dsn=f"{table.server.dsn} {longest}"))
            successors[0].prepare(SECOND)

    zombie = Impatient(table.server.dsn, "rows", reached=stopped)
    zombie.prepare(FIRST)
    with pytest.raises(SinkError):
        zombie.write(rows(1), batch(0))
    assert (table.numbers(), successors[0].last_batch()) == ([], None)
    with pytest.raises(SinkFenced):
        zombie.write(rows(1), batch(0))
    successors[0].write(rows(1), batch(0))
    assert table.numbers() == [1]


@pytest.mark.needs("postgres")
def test_every_type_arrives_as_it_is_and_a_text_is_cast_to_the_type_of_its_column(table: PostgresTable) -> None:
    now = datetime(2026, 11, 16, 23, 59, 59, 123456, tzinfo=UTC)
    values: dict[str, Any] = {
        "id": ["a", "b"],
        "t": ['with "quotes", commas,\nlines, \\N and \\.', ""],
        "b": [b"\x00\xff", None],
        "n": [Decimal("12345678901234567890.12"), None],
        "f": [float("inf"), None],
        "o": [True, None],
        "at": [now, None],
        "day": [now.date(), None],
        "j": ['{"a": [1]}', None],
    }
    table.asked_to(
        "CREATE TABLE typed (id varchar(1) PRIMARY KEY, t text, b bytea, n numeric, f float8, o bool, at timestamptz, "
        "day date, j jsonb)"
    )
    typed = Rows(pa.table(values))
    sink = table.table("public.typed", mode="upsert", keys=["id"])
    sink.check(typed)  # type: ignore[arg-type]
    sink.prepare(FIRST)
    for number in (0, 1):
        sink.write(typed, batch(number))  # type: ignore[arg-type]
    expected = [{**dict(zip(values, row, strict=True))} for row in zip(*values.values(), strict=True)]
    expected[0]["j"] = {"a": [1]}
    assert [dict(zip(values, row, strict=True)) for row in table.asked("SELECT * FROM typed ORDER BY id")] == expected
    too_long = Rows(pa.table({**values, "id": ["a", "bb"]}))
    with pytest.raises(BadRow, match=r"postgres:public\.typed does not take a row: value too long"):
        sink.write(too_long, batch(2))  # type: ignore[arg-type]
    assert sink.last_batch() == batch(1)


@pytest.mark.needs("postgres")
def test_what_the_database_lacks_is_refused_with_the_statement_that_makes_it(table: PostgresTable) -> None:
    with pytest.raises(Refused, match=r'make it, with CREATE TABLE "nowhere" \("number" bigint\)'):
        table.table("nowhere").check(rows(1))
    with pytest.raises(Refused, match="no primary key or unique index over number"):
        table.table("rows", mode="upsert", keys=["number"]).check(rows(1))
    away = table.table("rows", dsn="host=/nowhere password=secret")
    with pytest.raises(SinkError, match="no connection to Postgres") as refused:
        away.check(rows(1))
    assert "secret" not in str(refused.value) + repr(away)
