"""The sink ``Postgres``: a table in Postgres. Tasks COPY their rows into a staging table of the batch; the driver moves
them into the table.

The ledger is the table ``semel_ledger`` in the schema of the table. The driver's transaction locks the ledger's line,
checks its owner and its batch, merges the staged rows, writes the line and drops the staging table: all or nothing.

The staging table is UNLOGGED: it is empty after a crash of the server. So the driver counts the staged rows inside its
transaction, and merges them only if none is missing.

Every wait is bounded. The server ends the transaction of a driver that hangs in the middle of it, and a staging table
into which a replaced task still copies is dropped by a later start.
"""

from __future__ import annotations

import io
import logging
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from time import monotonic, sleep
from typing import Any, ClassVar, Final
from uuid import uuid4

import pyarrow as pa
import pyarrow.csv as pa_csv
from pyspark.sql import DataFrame
from pyspark.sql import types as spark_types

from semel.spark.errors import in_one_line
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
from semel.types import Buffer

try:
    import psycopg
    from psycopg.types.datetime import DateLoader, TimestampLoader, TimestamptzLoader
except ImportError as missing:
    raise ImportError("Postgres needs psycopg: pip install 'semel[postgres]'") from missing

log = logging.getLogger(__name__)

_BAD: Final = (psycopg.IntegrityError, psycopg.DataError)
_WAIT_S: Final = 60.0
_PAUSE_S: Final = 0.5
# How long a drop of a staging table waits while the table is in use.
_DROP_MS: Final = 1_000
_TASK: Final = "semel_task"
_STAGED_SCHEMA: Final = "task STRING, row_count BIGINT"

_TYPES: Final[dict[type[spark_types.DataType], str]] = {
    spark_types.StringType: "text",
    spark_types.BinaryType: "bytea",
    spark_types.BooleanType: "boolean",
    spark_types.ByteType: "smallint",
    spark_types.ShortType: "smallint",
    spark_types.IntegerType: "integer",
    spark_types.LongType: "bigint",
    spark_types.FloatType: "real",
    spark_types.DoubleType: "double precision",
    spark_types.DecimalType: "numeric",
    spark_types.DateType: "date",
    spark_types.TimestampType: "timestamptz",
    spark_types.TimestampNTZType: "timestamp",
}


class Postgres:
    """A sink that writes rows to a table in Postgres.

        Postgres("host=db dbname=shop user=totals", "totals", mode="upsert", keys=["customer"])

    ``dsn`` is a connection string or URL of libpq, for the driver and the executors; ``table`` may have a schema before
    it. ``columns`` are names or SQL expressions over the DataFrame, all columns by default. With ``mode="upsert"`` a
    row replaces the one with equal ``keys``; a row in which ``delete_column`` is true removes it; of several rows with
    equal keys in one batch the one with the greatest ``latest_by`` counts. If the server is away while the query runs,
    a connection is tried for ``wait_s`` seconds.
    """

    idle_ms: ClassVar[int] = 60_000
    """How long a driver may send nothing within its transaction before the server ends it. A later driver waits for the
    lock of the line at most that long."""

    def __init__(
        self,
        dsn: str,
        table: str,
        *,
        mode: Mode = "append",
        keys: Sequence[str] = (),
        delete_column: str | None = None,
        latest_by: str | None = None,
        columns: Sequence[str] | None = None,
        name: str | None = None,
        wait_s: float = _WAIT_S,
        reached: StepHook = no_step_hook,
    ) -> None:
        self.name = name or f"postgres:{table}"
        schema, _, self._table = table.rpartition(".")
        self._schema = schema or None
        self._dsn = dsn
        self._merge = Merge(mode, tuple(keys), delete_column, latest_by)
        self._columns = columns
        self._wait_s = wait_s
        self._reached = reached
        self._owner: Owner | None = None
        self._connection: psycopg.Connection[Any] | None = None
        self._has_failed = False
        self._diverts = False

    def __repr__(self) -> str:
        """Return a text without the connection string, which may have a password."""
        return f"Postgres({self._table!r}, name={self.name!r})"

    def check(self, rows: DataFrame) -> None:
        chosen = selected(rows, self._columns)
        create = create_table(self._table, chosen.schema, _TYPES, self._merge)
        with self._connected(wait_s=0) as connection:
            in_table = _types_of(connection, self._name_of(self._table))
            if not in_table:
                raise Refused(f"there is no table {self._name_of(self._table)} for {self.name}: make it, with {create}")
            self._merge.table_columns(chosen.columns, in_table)
            self._merge.check_unique(_unique_columns(connection, self._name_of(self._table)), self._table)

    def prepare(self, owner: Owner) -> None:
        with self._transaction() as connection:
            # Without this lock, drivers that create the ledger at the same time could fail.
            connection.execute("SELECT pg_advisory_xact_lock(hashtext('semel_ledger'))")
            connection.execute(
                f"CREATE TABLE IF NOT EXISTS {self._ledger} (group_id text NOT NULL, sink text NOT NULL, "
                "producer_id bigint NOT NULL, producer_epoch integer NOT NULL, batch text, refused text, "
                "PRIMARY KEY (group_id, sink))"
            )
            found, _ = self._line(connection, owner.groups)
            owner.check_not_older_than(found, self.name)
            connection.execute(
                f"INSERT INTO {self._ledger} VALUES (%s, %s, %s, %s) ON CONFLICT (group_id, sink) DO UPDATE SET "
                "producer_id = excluded.producer_id, producer_epoch = excluded.producer_epoch",
                (owner.groups, self.name, owner.producer_id, owner.producer_epoch),
            )
        self._owner = owner
        self._drop_staging(self._staging_prefix)

    def divert(self) -> None:
        self._diverts = True

    def refused_rows(self) -> list[RefusedRow]:
        with self._connected() as connection:
            found = connection.execute(
                f"SELECT refused FROM {self._ledger} WHERE group_id = %s AND sink = %s",
                (self._prepared().groups, self.name),
            ).fetchone()
        return parse(None if found is None else found[0])

    def last_batch(self) -> SinkBatch | None:
        with self._connected() as connection:
            _, batch = self._line(connection, self._prepared().groups, is_locked=False)
        return None if batch is None else SinkBatch.parse(batch)

    def write(self, rows: DataFrame, batch: SinkBatch) -> int:
        owner = self._prepared()
        chosen = (selected_with_source if self._diverts else selected)(rows, self._columns)
        if self._has_failed:
            self._drop_staging(self._own_prefix)
        self._has_failed = True
        staging = self._name_of(f"{self._own_prefix}{uuid4().hex[:12]}")
        columns = [f"{quoted(one.name)} {_TYPES[type(one.dataType)]}" for one in chosen.schema.fields]
        if self._diverts:
            columns += [f"{ROW} bigint GENERATED ALWAYS AS IDENTITY", f"{REASON} text"]
        with self._connected() as connection:
            connection.execute(f"CREATE UNLOGGED TABLE {staging} ({', '.join([f'{_TASK} text', *columns])})")
        copy = CopyRows(self._dsn, staging, self._wait_s, self.name, self._diverts)
        staged = chosen.mapInArrow(copy, _STAGED_SCHEMA).collect()
        row_count = sum(one["row_count"] for one in staged)
        self._reached("sink staged", batch.batch_id)
        with self._transaction() as connection:
            found, last = self._line(connection, owner.groups)
            owner.check_is(found, self.name)
            if last == str(batch):
                raise SinkError(f"{self.name} has batch {batch.batch_id} already")
            refused = self._merge_staged(
                connection, staging, [one["task"] for one in staged], row_count, chosen.columns
            )
            self._put(connection, str(batch), refused)
            _drop(connection, staging)
            self._reached("sink merged", batch.batch_id)
        self._has_failed = False
        self._reached("sink committed", batch.batch_id)
        return int(row_count) - len(refused)

    # The rows

    def _merge_staged(
        self, connection: psycopg.Connection[Any], staging: str, tasks: list[str], row_count: int, names: list[str]
    ) -> list[RefusedRow]:
        """Move the staged rows into the table. Returns the rows that were left out."""
        # Rows of a task attempt whose result Spark did not use.
        connection.execute(f"DELETE FROM {staging} WHERE {_TASK} <> ALL(%s)", (tasks,))
        (there,) = connection.execute(f"SELECT count(*) FROM {staging}").fetchone() or (0,)
        if there != row_count:
            raise SinkError(f"{self.name}: {row_count} rows were staged and {there} are there: the server has crashed")
        whole = is_whole(self._merge) if self._diverts else "true"
        if self._merge.mode == "upsert":
            if not self._diverts and connection.execute(self._merge.null_keys(staging)).fetchone():
                raise BadRow(f"a row for {self.name} has no value in one of its keys {', '.join(self._merge.keys)}")
            repeated = connection.execute(self._merge.repeated_keys(staging, whole)).fetchone()
            if repeated and self._merge.latest_by is None:
                keys = self._merge.named_keys(repeated)
                raise BadRow(f"a batch for {self.name} has several rows with {keys}: say latest_by=")
        table = self._name_of(self._table)
        types = _types_of(connection, table)
        written = self._merge.table_columns([name for name in names if not is_own(name)], types)

        def statements(where: str) -> list[str]:
            ties = ROW if self._diverts else None
            return self._merge.statements(staging, table, written, types, where=where, among=whole, ties=ties)

        if self._diverts:
            connection.execute("SET CONSTRAINTS ALL IMMEDIATE")
            reasons = merge_in_parts(connection, self._merge, staging, statements, _BAD)
            return self._left_out(connection, staging, reasons, names)
        try:
            for statement in statements("true"):
                connection.execute(statement)
            connection.execute("SET CONSTRAINTS ALL IMMEDIATE")
        except _BAD as error:
            raise BadRow(f"{self.name} does not take a row: {in_one_line(error)}") from error
        return []

    def _left_out(
        self, connection: psycopg.Connection[Any], staging: str, reasons: Mapping[int, str], names: list[str]
    ) -> list[RefusedRow]:
        columns = ", ".join(map(quoted, [ROW, *names]))
        found = connection.execute(
            f"SELECT {columns} FROM {staging} WHERE {ROW} = ANY(%s) ORDER BY {ROW}", (list(reasons),)
        ).fetchall()
        return [refused_row(self.name, reasons[row[0]], dict(zip(names, row[1:], strict=True))) for row in found]

    def _drop_staging(self, prefix: str) -> None:
        """Drop the staging tables with this prefix, which failed attempts have left behind."""
        with self._connected() as connection:
            found = connection.execute(
                "SELECT tablename FROM pg_tables WHERE schemaname = coalesce(%s, current_schema()) "
                "AND starts_with(tablename, %s)",
                (self._schema, prefix),
            ).fetchall()
            for (name,) in found:
                _drop(connection, self._name_of(name))

    # The ledger

    @property
    def _ledger(self) -> str:
        return self._name_of("semel_ledger")

    @property
    def _staging_prefix(self) -> str:
        """The prefix of the staging tables of this sink and these groups. It has a hash of both, because a name in
        Postgres has at most 63 bytes."""
        return f"semel_staging_{zlib.crc32(f'{self._prepared().groups}/{self.name}'.encode()):08x}_"

    @property
    def _own_prefix(self) -> str:
        """The prefix of this driver's staging tables. With it, a driver that was replaced does not drop those of the
        driver that replaced it."""
        owner = self._prepared()
        return f"{self._staging_prefix}{owner.producer_id}_{owner.producer_epoch}_"

    def _name_of(self, table: str) -> str:
        return quoted(table) if self._schema is None else f"{quoted(self._schema)}.{quoted(table)}"

    def _prepared(self) -> Owner:
        assert self._owner is not None, "prepare comes first"
        return self._owner

    def _line(
        self, connection: psycopg.Connection[Any], groups: str, *, is_locked: bool = True
    ) -> tuple[Owner | None, str | None]:
        """Return owner and batch of the ledger's line.

        ``is_locked`` locks the line: it is as the last committed transaction has left it, and no other transaction can
        change it before this one ends.
        """
        found = connection.execute(
            f"SELECT producer_id, producer_epoch, batch FROM {self._ledger} WHERE group_id = %s AND sink = %s"
            + (" FOR UPDATE" if is_locked else ""),
            (groups, self.name),
        ).fetchone()
        return (None, None) if found is None else (Owner(groups, found[0], found[1]), found[2])

    def _put(self, connection: psycopg.Connection[Any], batch: str, refused: Iterable[RefusedRow]) -> None:
        connection.execute(
            f"UPDATE {self._ledger} SET batch = %s, refused = %s WHERE group_id = %s AND sink = %s",
            (batch, as_text(refused), self._prepared().groups, self.name),
        )

    @contextmanager
    def _transaction(self) -> Iterator[psycopg.Connection[Any]]:
        with self._connected() as connection, connection.transaction():
            # An acknowledged commit must outlive a crash of the server, whatever the server's default is.
            connection.execute("SET LOCAL synchronous_commit = on")
            connection.execute(f"SET LOCAL idle_in_transaction_session_timeout = {self.idle_ms}")
            yield connection

    @contextmanager
    def _connected(self, wait_s: float | None = None) -> Iterator[psycopg.Connection[Any]]:
        """Yield the driver's connection. After an error it is closed, so that the server rolls back its transaction."""
        if self._connection is None or self._connection.closed:
            self._connection = connect(self._dsn, self._wait_s if wait_s is None else wait_s)
            for type_name, loader in _LOADERS.items():
                self._connection.adapters.register_loader(type_name, loader)
        try:
            yield self._connection
        except BaseException as error:
            self._connection.close()
            if isinstance(error, psycopg.Error):
                raise SinkError(f"{self.name}: {in_one_line(error)}") from error
            raise


@dataclass(frozen=True, slots=True)
class CopyRows:
    """The function that runs in a task: it copies the task's rows into the staging table in one transaction, marked
    with a name that no other attempt has."""

    dsn: str = field(repr=False)
    staging: str
    wait_s: float
    sink: str
    diverts: bool

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        task, row_count = uuid4().hex, 0
        first = next((rows for rows in batches if rows.num_rows), None)
        if first is None:
            return
        names = ", ".join(map(quoted, [_TASK, *first.schema.names, *([REASON] if self.diverts else [])]))
        with connect(self.dsn, self.wait_s) as connection:
            statement = f"COPY {self.staging} ({names}) FROM STDIN (FORMAT csv)"
            with connection.transaction(), connection.cursor() as cursor, cursor.copy(statement) as copy:
                for rows in chain([first], batches):
                    copy.write(as_csv(self._staged(rows), task))
                    row_count += rows.num_rows
        yield pa.RecordBatch.from_pydict({"task": [task], "row_count": [row_count]})

    def _staged(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows as they are staged. Raises ``BadRow`` if one cannot be, and may not be left out."""
        columns, reasons = storable(rows, takes_zero=False, takes_late_dates=True)
        if self.diverts:
            names = [*rows.schema.names, REASON]
            return pa.RecordBatch.from_arrays([*columns, pa.array(reasons, pa.string())], names=names)
        for reason in filter(None, reasons):
            raise BadRow(f"{self.sink} does not take a row: {reason}")
        return rows


class _LateDateLoader(DateLoader):
    """Loads dates after 9999, which Python has not, as text. They occur in refused rows."""

    def load(self, data: Buffer) -> Any:
        return _or_text(super().load, data)


class _LateTimestampLoader(TimestampLoader):
    def load(self, data: Buffer) -> Any:
        return _or_text(super().load, data)


class _LateTimestamptzLoader(TimestamptzLoader):
    def load(self, data: Buffer) -> Any:
        return _or_text(super().load, data)


_LOADERS: Final[Mapping[str, Any]] = {
    "date": _LateDateLoader,
    "timestamp": _LateTimestampLoader,
    "timestamptz": _LateTimestamptzLoader,
}


def _or_text(load: Callable[[Buffer], object], data: Buffer) -> object:
    try:
        return load(data)
    except psycopg.DataError:
        return bytes(data).decode()


def connect(dsn: str, wait_s: float) -> psycopg.Connection[Any]:
    """Connect to the server, and try again for ``wait_s`` seconds while it is away.

    Raises ``SinkError``, whose message does not have the connection string.
    """
    deadline = monotonic() + wait_s
    while True:
        try:
            return psycopg.connect(dsn, autocommit=True, application_name="semel")
        except psycopg.OperationalError as error:
            if monotonic() >= deadline:
                raise SinkError(f"no connection to Postgres: {in_one_line(error)}") from None
            sleep(_PAUSE_S)


def _drop(connection: psycopg.Connection[Any], staging: str) -> None:
    """Drop a staging table, unless it is in use: a replaced task may still copy into it, for a long time."""
    try:
        with connection.transaction():
            connection.execute(f"SET LOCAL lock_timeout = {_DROP_MS}")
            connection.execute(f"DROP TABLE IF EXISTS {staging}")
    except psycopg.errors.LockNotAvailable:
        log.info("%s is in use by a task that was replaced: a later start drops it", staging)


def as_csv(rows: pa.RecordBatch, task: str) -> bytes:
    """Return the rows as CSV for COPY: every value in quotes, and null as an empty field without quotes."""
    arrays = [pa.repeat(pa.scalar(task), rows.num_rows), *(_as_text(column) for column in rows.columns)]
    table = pa.table(arrays, names=[_TASK, *rows.schema.names])
    written = io.BytesIO()
    pa_csv.write_csv(table, written, pa_csv.WriteOptions(include_header=False, quoting_style="all_valid"))
    return written.getvalue()


def _as_text(column: pa.Array) -> pa.Array:
    if pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type):
        return pa.array([None if value is None else f"\\x{value.hex()}" for value in column.to_pylist()], pa.string())
    if pa.types.is_timestamp(column.type) and column.type.tz:
        return column.cast(pa.timestamp("us", "UTC"))
    if pa.types.is_decimal(column.type):
        return column.cast(pa.string())
    return column


def _types_of(connection: psycopg.Connection[Any], table: str) -> dict[str, str]:
    """Return the columns that can be written, with their types, but without length limits: a cast to ``varchar(3)``
    would cut a text off without an error."""
    found = connection.execute(
        "SELECT attname, format_type(atttypid, -1) FROM pg_attribute WHERE attrelid = to_regclass(%s) "
        "AND attnum > 0 AND NOT attisdropped AND attgenerated = ''",
        (table,),
    )
    return dict(found.fetchall())


def _unique_columns(connection: psycopg.Connection[Any], table: str) -> Iterator[frozenset[str]]:
    found = connection.execute(
        "SELECT array_agg(attname::text) FROM pg_index JOIN pg_attribute ON attrelid = indrelid "
        "AND attnum = ANY(indkey) WHERE indrelid = to_regclass(%s) AND indisunique AND indpred IS NULL "
        "AND indimmediate AND indexprs IS NULL GROUP BY indexrelid",
        (table,),
    )
    for (names,) in found.fetchall():
        yield frozenset(names)
