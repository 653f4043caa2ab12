"""The sink ``SQLite``: a table in an SQLite file. For tests, demos and small results: the driver collects the rows and
writes them.

The ledger is the table ``semel_ledger`` in the same file. Rows and line are written in one transaction of SQLite. It
begins with BEGIN IMMEDIATE, so that of two drivers the second one reads the line after the first one has committed.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import types as spark_types

from semel.spark.refusals import Refused
from semel.spark.sink.row_partitioning import BadRow
from semel.spark.sink.sink import StepHook, no_step_hook
from semel.spark.sinks.merging import Merge, Mode, create_table, quoted
from semel.spark.sinks.protocol import Owner, SinkBatch, SinkError
from semel.spark.sinks.refused_rows import (
    REASON,
    ROW,
    RefusedRow,
    as_text,
    is_own,
    is_whole,
    merge_in_parts,
    parse,
    refused_row,
)
from semel.spark.sinks.selection import selected, selected_with_source
from semel.spark.sinks.storable import storable

_LEDGER: Final = """CREATE TABLE IF NOT EXISTS semel_ledger (
    group_id TEXT NOT NULL, sink TEXT NOT NULL, producer_id INTEGER NOT NULL, producer_epoch INTEGER NOT NULL,
    batch TEXT, refused TEXT, PRIMARY KEY (group_id, sink))"""
_STAGING: Final = "temp.semel_staging"
_BY_NUMBER: Final = "semel_by_number"
_DIGITS_MAX: Final = 15
_BUSY_S: Final = 30.0
_BAD: Final = (sqlite3.IntegrityError, sqlite3.DataError)

# SQLite has no type for dates and times: they are stored as text that sorts in the right order.
_TYPES: Final[dict[type[spark_types.DataType], str]] = {
    spark_types.StringType: "TEXT",
    spark_types.BinaryType: "BLOB",
    spark_types.BooleanType: "BOOLEAN",
    spark_types.ByteType: "INTEGER",
    spark_types.ShortType: "INTEGER",
    spark_types.IntegerType: "INTEGER",
    spark_types.LongType: "INTEGER",
    spark_types.FloatType: "REAL",
    spark_types.DoubleType: "REAL",
    spark_types.DecimalType: "NUMERIC",
    spark_types.DateType: "TEXT",
    spark_types.TimestampType: "TEXT",
    spark_types.TimestampNTZType: "TEXT",
}


class SQLite:
    """A sink that writes rows to a table in an SQLite file.

        SQLite("totals.db", "totals", mode="upsert", keys=["customer"])

    ``columns`` are names or SQL expressions over the DataFrame, all columns by default. With ``mode="upsert"`` a row
    replaces the one with equal ``keys``; a row in which ``delete_column`` is true removes it; of several rows with
    equal keys in one batch the one with the greatest ``latest_by`` counts.
    """

    def __init__(
        self,
        path: str | Path,
        table: str,
        *,
        mode: Mode = "append",
        keys: Sequence[str] = (),
        delete_column: str | None = None,
        latest_by: str | None = None,
        columns: Sequence[str] | None = None,
        name: str | None = None,
        reached: StepHook = no_step_hook,
    ) -> None:
        self.name = name or f"sqlite:{table}"
        self._path = Path(path)
        self._table = table
        self._merge = Merge(mode, tuple(keys), delete_column, latest_by)
        self._columns = columns
        self._reached = reached
        self._owner: Owner | None = None
        self._diverts = False

    def __repr__(self) -> str:
        return f"SQLite({str(self._path)!r}, {self._table!r}, name={self.name!r})"

    def check(self, rows: DataFrame) -> None:
        chosen = selected(rows, self._columns)
        create = create_table(self._table, chosen.schema, _types_for(chosen.schema), self._merge)
        if not self._path.is_file():
            raise Refused(f"there is no file {self._path} for {self.name}: make it, with {create}")
        with self._connected() as connection:
            in_table = _columns_of(connection, self._table)
            if not in_table:
                raise Refused(f"{self._path} has no table {self._table!r}: make it, with {create}")
            self._merge.table_columns(chosen.columns, in_table)
            self._merge.check_unique(_unique_columns(connection, self._table), self._table)

    def prepare(self, owner: Owner) -> None:
        with self._transaction() as connection:
            connection.execute(_LEDGER)
            found, _ = self._line(connection, owner.groups)
            owner.check_not_older_than(found, self.name)
            connection.execute(
                "INSERT INTO semel_ledger VALUES (?, ?, ?, ?, NULL, NULL) ON CONFLICT (group_id, sink) DO UPDATE SET "
                "producer_id = excluded.producer_id, producer_epoch = excluded.producer_epoch",
                (owner.groups, self.name, owner.producer_id, owner.producer_epoch),
            )
        self._owner = owner

    def divert(self) -> None:
        self._diverts = True

    def refused_rows(self) -> list[RefusedRow]:
        with self._connected() as connection:
            found = connection.execute(
                "SELECT refused FROM semel_ledger WHERE group_id = ? AND sink = ?", (self._prepared().groups, self.name)
            ).fetchone()
        return parse(None if found is None else found[0])

    def last_batch(self) -> SinkBatch | None:
        with self._connected() as connection:
            _, batch = self._line(connection, self._prepared().groups)
        return None if batch is None else SinkBatch.parse(batch)

    def write(self, rows: DataFrame, batch: SinkBatch) -> int:
        owner = self._prepared()
        choose = selected_with_source if self._diverts else selected
        table = choose(rows, self._columns).toArrow()
        with self._transaction() as connection:
            found, last = self._line(connection, owner.groups)
            owner.check_is(found, self.name)
            if last == str(batch):
                raise SinkError(f"{self.name} has batch {batch.batch_id} already")
            self._stage(connection, table)
            refused = self._merge_staged(connection, table.schema.names)
            self._put(connection, str(batch), refused)
            self._reached("sink staged", batch.batch_id)
        self._reached("sink committed", batch.batch_id)
        return int(table.num_rows) - len(refused)

    # The rows

    def _stage(self, connection: sqlite3.Connection, table: pa.Table) -> None:
        columns, reasons = storable(table, takes_zero=True, takes_late_dates=False)
        if not self._diverts:
            for reason in filter(None, reasons):
                raise BadRow(f"{self.name} does not take a row: {reason}")
        connection.create_collation(_BY_NUMBER, _by_number)
        names = [ROW, REASON, *table.schema.names]
        declared = ", ".join(quoted(name) + self._collation(name, table.schema) for name in names)
        connection.execute(f"CREATE TABLE {_STAGING} ({declared})")
        marks = ", ".join("?" for _ in names)
        values = [range(table.num_rows), reasons, *map(_values, columns)]
        connection.executemany(f"INSERT INTO {_STAGING} VALUES ({marks})", zip(*values, strict=True))

    def _collation(self, name: str, schema: pa.Schema) -> str:
        """Return the collation of a staged column: a decimal is staged as text, and its order is that of numbers."""
        is_ordered = name == self._merge.latest_by and pa.types.is_decimal(schema.field(name).type)
        return f" COLLATE {_BY_NUMBER}" if is_ordered else ""

    def _merge_staged(self, connection: sqlite3.Connection, names: list[str]) -> list[RefusedRow]:
        """Move the staged rows into the table. Returns the rows that were left out."""
        whole = is_whole(self._merge)
        if self._merge.mode == "upsert":
            if not self._diverts and connection.execute(self._merge.null_keys(_STAGING)).fetchone():
                raise BadRow(f"a row for {self.name} has no value in one of its keys {', '.join(self._merge.keys)}")
            repeated = connection.execute(self._merge.repeated_keys(_STAGING, whole)).fetchone()
            if repeated and self._merge.latest_by is None:
                keys = self._merge.named_keys(repeated)
                raise BadRow(f"a batch for {self.name} has several rows with {keys}: say latest_by=")
        own = [name for name in names if not is_own(name)]
        written = self._merge.table_columns(own, _columns_of(connection, self._table))

        def statements(where: str) -> list[str]:
            table = quoted(self._table)
            return self._merge.statements(_STAGING, table, written, where=where, among=whole, ties=ROW)

        if self._diverts:
            reasons = merge_in_parts(connection, self._merge, _STAGING, statements, _BAD)
            return self._left_out(connection, reasons, names)
        try:
            for statement in statements("true"):
                connection.execute(statement)
        except _BAD as error:
            raise BadRow(f"{self.name} does not take a row: {error}") from error
        return []

    def _left_out(
        self, connection: sqlite3.Connection, reasons: Mapping[int, str], names: list[str]
    ) -> list[RefusedRow]:
        rows = f"SELECT {', '.join(map(quoted, names))} FROM {_STAGING} WHERE {ROW} = ?"
        found = [(reason, connection.execute(rows, (number,)).fetchone()) for number, reason in sorted(reasons.items())]
        return [refused_row(self.name, reason, dict(zip(names, row, strict=True))) for reason, row in found]

    # The ledger

    def _prepared(self) -> Owner:
        assert self._owner is not None, "prepare comes first"
        return self._owner

    def _line(self, connection: sqlite3.Connection, groups: str) -> tuple[Owner | None, str | None]:
        found = connection.execute(
            "SELECT producer_id, producer_epoch, batch FROM semel_ledger WHERE group_id = ? AND sink = ?",
            (groups, self.name),
        ).fetchone()
        return (None, None) if found is None else (Owner(groups, found[0], found[1]), found[2])

    def _put(self, connection: sqlite3.Connection, batch: str, refused: Iterable[RefusedRow] = ()) -> None:
        connection.execute(
            "UPDATE semel_ledger SET batch = ?, refused = ? WHERE group_id = ? AND sink = ?",
            (batch, as_text(refused), self._prepared().groups, self.name),
        )

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """Run this block in a transaction. It is committed at the end of the block, and rolled back if that raises."""
        with self._connected() as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        connection = sqlite3.connect(self._path, timeout=_BUSY_S, isolation_level=None)
        try:
            connection.execute("PRAGMA synchronous = FULL")
            yield connection
        except sqlite3.OperationalError as error:
            raise SinkError(f"{self.name}: {error}") from error
        finally:
            connection.close()


def _columns_of(connection: sqlite3.Connection, table: str) -> list[str]:
    return [row[1] for row in connection.execute(f"PRAGMA table_info({quoted(table)})")]


def _unique_columns(connection: sqlite3.Connection, table: str) -> Iterator[frozenset[str]]:
    yield frozenset(row[1] for row in connection.execute(f"PRAGMA table_info({quoted(table)})") if row[5])
    for _, index, unique, _, partial in connection.execute(f"PRAGMA index_list({quoted(table)})").fetchall():
        if unique and not partial:
            yield frozenset(row[2] for row in connection.execute(f"PRAGMA index_info({quoted(index)})"))


def _types_for(schema: spark_types.StructType) -> dict[type[spark_types.DataType], str]:
    """Return the types for the columns of a table. A column of SQLite with the type NUMERIC rounds a decimal of more
    digits than a double has."""
    decimals = [field.dataType for field in schema.fields if isinstance(field.dataType, spark_types.DecimalType)]
    is_exact = all(decimal.precision <= _DIGITS_MAX for decimal in decimals)
    return _TYPES if is_exact else {**_TYPES, spark_types.DecimalType: "TEXT"}


def _by_number(one: str, other: str) -> int:
    return int(Decimal(one).compare(Decimal(other)))


def _values(column: pa.Array) -> list[Any]:
    if pa.types.is_timestamp(column.type):
        utc = pa.timestamp("us", "UTC") if column.type.tz else pa.timestamp("us")
        return [None if value is None else value.isoformat(sep=" ") for value in column.cast(utc).to_pylist()]
    if pa.types.is_date(column.type) or pa.types.is_decimal(column.type):
        return [None if value is None else str(value) for value in column.to_pylist()]
    return list(column.to_pylist())
