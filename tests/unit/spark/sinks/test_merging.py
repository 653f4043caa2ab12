"""Append, upsert and delete, as SQLite executes them; and what is refused before."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from semel.spark import BadRow, Refused
from semel.spark.decision import SourcePartition
from semel.spark.sinks import Owner, SinkBatch, SQLite
from semel.types import TopicPartition
from tools.rows_without_spark import Rows

OWNER = Owner("jobs", 1, 0)
PARTITION = SourcePartition("jobs", TopicPartition("in", 0))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "totals.db"
    with sqlite3.connect(file) as connection:
        connection.execute(
            'CREATE TABLE totals (customer TEXT, "the day" TEXT, total INTEGER CHECK (total < 100), '
            'PRIMARY KEY (customer, "the day"))'
        )
    return file


KEYS = ("customer", "the day")


def rows(*values: Sequence[Any], extra: Mapping[str, Sequence[Any]] | None = None) -> Any:
    columns = list(zip(*values, strict=True)) or [[], [], []]
    table = {"customer": columns[0], "the day": columns[1], "total": columns[2], **(extra or {})}
    return Rows(pa.table({name: pa.array(list(column)) for name, column in table.items()}))


def write(path: Path, number: int, batch: Any, **options: Any) -> None:
    sink = SQLite(path, "totals", mode="upsert", keys=KEYS, **options)
    sink.check(batch)
    sink.prepare(OWNER)
    sink.write(batch, SinkBatch("q", number, {PARTITION: number}))


def totals(path: Path) -> list[tuple[Any, ...]]:
    with sqlite3.connect(path) as connection:
        return sorted(connection.execute("SELECT * FROM totals"))


def test_an_upsert_replaces_the_row_with_equal_keys(path: Path) -> None:
    write(path, 0, rows(("a", "mon", 1), ("b", "mon", 2)))
    write(path, 1, rows(("a", "mon", 5), ("a", "tue", 3)))
    assert totals(path) == [("a", "mon", 5), ("a", "tue", 3), ("b", "mon", 2)]


def test_a_row_whose_delete_column_is_true_removes_the_row_of_its_keys(path: Path) -> None:
    write(path, 0, rows(("a", "mon", 1), ("b", "mon", 2)))
    batch = rows(("a", "mon", 1), ("b", "mon", 9), ("c", "mon", 4), extra={"gone": [True, None, False]})
    write(path, 1, batch, delete_column="gone")
    assert totals(path) == [("b", "mon", 9), ("c", "mon", 4)]


def test_of_several_rows_with_equal_keys_the_latest_counts_and_without_a_rule_none_does(path: Path) -> None:
    batch = rows(("a", "mon", 2), ("a", "mon", 1), extra={"offset": [8, 7]})
    with pytest.raises(BadRow, match=r"several rows with customer='a', the day='mon': say latest_by="):
        write(path, 0, rows(("a", "mon", 1), ("a", "mon", 2)))
    assert totals(path) == []
    write(path, 0, batch, latest_by="offset")
    assert totals(path) == [("a", "mon", 2)]


def test_the_latest_row_decides_whether_the_keys_are_deleted(path: Path) -> None:
    write(path, 0, rows(("a", "mon", 1), ("b", "mon", 1)))
    batch = rows(
        ("a", "mon", 2),
        ("a", "mon", 3),
        ("b", "mon", 2),
        ("b", "mon", 3),
        extra={"gone": [False, True, True, False], "offset": [1, 2, 3, 4]},
    )
    write(path, 1, batch, latest_by="offset", delete_column="gone")
    assert totals(path) == [("b", "mon", 3)]


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        (rows(("b", "mon", 1), ("a", None, 1)), "no value in one of its keys"),
        (rows(("a", "mon", 1), ("b", "mon", 100)), "sqlite:totals does not take a row: CHECK constraint failed"),
    ],
)
def test_a_row_that_the_table_does_not_take_stops_the_batch_and_leaves_nothing(
    path: Path, batch: Any, message: str
) -> None:
    with pytest.raises(BadRow, match=message):
        write(path, 0, batch)
    assert totals(path) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mode": "overwrite"}, "mode='overwrite'; it is 'append' or 'upsert'"),
        ({"mode": "upsert"}, "without keys="),
        ({"keys": ["customer"]}, r"keys=\('customer',\) is for mode='upsert'"),
    ],
)
def test_settings_that_do_not_fit_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(Refused, match=message):
        SQLite("x.db", "totals", **options)


@pytest.mark.parametrize(("digits", "declared"), [(15, "NUMERIC"), (16, "TEXT")])
def test_a_table_that_is_made_as_the_refusal_says_keeps_every_digit(path: Path, digits: int, declared: str) -> None:
    total = Decimal("1" * digits) / 100
    batch = Rows(pa.table({"total": pa.array([total], pa.decimal128(digits, 2))}))
    sink = SQLite(path, "exact")
    with pytest.raises(Refused, match=rf'CREATE TABLE "exact" \("total" {declared}\)') as refusal:
        sink.check(batch)  # type: ignore[arg-type]
    with sqlite3.connect(path) as connection:
        connection.execute(str(refusal.value).partition("with ")[2])
    sink.check(batch)  # type: ignore[arg-type]
    sink.prepare(OWNER)
    sink.write(batch, SinkBatch("q", 0, {PARTITION: 1}))  # type: ignore[arg-type]
    with sqlite3.connect(path) as connection:
        assert [Decimal(str(value)) for (value,) in connection.execute("SELECT total FROM exact")] == [total]


def test_what_the_file_lacks_is_refused_with_the_statement_that_makes_it(path: Path, tmp_path: Path) -> None:
    some = rows(("a", "mon", 1))
    statement = 'CREATE TABLE "totals" ("customer" TEXT, "the day" TEXT, "total" INTEGER)'
    with pytest.raises(Refused, match="there is no file"):
        SQLite(tmp_path / "other.db", "totals").check(some)
    (tmp_path / "other.db").touch()
    with pytest.raises(Refused) as refused:
        SQLite(tmp_path / "other.db", "totals").check(some)
    assert statement in str(refused.value)
    with pytest.raises(Refused, match="no column 'extra'"):
        SQLite(path, "totals").check(rows(("a", "mon", 1), extra={"extra": [1]}))
    with pytest.raises(Refused, match="no primary key or unique index over customer"):
        SQLite(path, "totals", mode="upsert", keys=["customer"]).check(some)
    with pytest.raises(Refused, match=r"column 'l' is array<bigint>, .* to_json\(l\)"):
        SQLite(path, "totals").check(Rows(pa.table({"l": [[1]]})))  # type: ignore[arg-type]
    SQLite(path, "totals", columns=["customer"]).check(rows(("a", "mon", 1), extra={"extra": [1]}))
