"""The sink ``Iceberg``: an Iceberg table, through its catalog. Tasks write Parquet files, the driver commits them.

The ledger's line is a property of the table, set in the commit that adds the snapshot with the rows: rows and line
appear at once, and the expiry of snapshots does not remove the line. The summary of each snapshot names the batch too,
for people and for reads of an earlier snapshot.

A commit requires that the table's branch has not moved since the line was read. So if two drivers commit at the same
time, or a driver and a writer that is no pipeline, the second commit fails. Then the line is read again, and the commit
is tried again only if this driver is still the line's owner. ``prepare`` commits a snapshot without rows, so that a
driver that it replaces cannot commit.

Tables are written with ``pyiceberg``, not with Iceberg's runtime jar, which exists for some versions of Spark only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from time import sleep
from typing import Any, Final
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql import types as spark_types
from pyspark.sql.types import ArrayType, DataType, DecimalType, MapType, StructField, StructType

from semel.spark.errors import in_one_line
from semel.spark.refusals import Refused
from semel.spark.sink.sink import StepHook, no_step_hook
from semel.spark.sinks.files import in_utc
from semel.spark.sinks.protocol import Line, Owner, SinkBatch, SinkError
from semel.spark.sinks.selection import selected

try:
    from pyiceberg.catalog import load_catalog
    from pyiceberg.exceptions import CommitFailedException, NoSuchTableError, ValidationError
    from pyiceberg.io import FileIO
    from pyiceberg.table import Table, TableProperties
except ImportError as missing:
    raise ImportError("Iceberg needs pyiceberg: pip install 'semel[iceberg]'") from missing

_PART_SCHEMA: Final = "path STRING, row_count BIGINT"
_COMMITS_MAX: Final = 20
_PAUSE_S: Final = 0.1
_CATALOG: Final = "default"

_TYPES: Final[Mapping[type[DataType], pa.DataType]] = {
    spark_types.StringType: pa.string(),
    spark_types.BinaryType: pa.binary(),
    spark_types.BooleanType: pa.bool_(),
    spark_types.ByteType: pa.int8(),
    spark_types.ShortType: pa.int16(),
    spark_types.IntegerType: pa.int32(),
    spark_types.LongType: pa.int64(),
    spark_types.FloatType: pa.float32(),
    spark_types.DoubleType: pa.float64(),
    spark_types.DateType: pa.date32(),
    spark_types.TimestampType: pa.timestamp("us", "UTC"),
    spark_types.TimestampNTZType: pa.timestamp("us"),
}


class Iceberg:
    """A sink that appends rows to an Iceberg table.

        Iceberg("db.totals", catalog={"type": "rest", "uri": "https://catalog.example.org"})

    ``catalog`` are the properties of pyiceberg's catalog, and its ``name`` if that is not ``default``. ``columns``
    are names or SQL expressions over the DataFrame, all columns by default. The table must exist and must not be
    partitioned.
    """

    def __init__(
        self,
        table: str,
        *,
        catalog: Mapping[str, str],
        columns: Sequence[str] | None = None,
        name: str | None = None,
        reached: StepHook = no_step_hook,
    ) -> None:
        self.name = name or f"iceberg:{table}"
        self._table = table
        self._catalog_properties = dict(catalog)
        self._columns = columns
        self._reached = reached
        self._owner: Owner | None = None
        self._catalog: Any = None

    def __repr__(self) -> str:
        """Return a text without the catalog's properties, which may have a credential."""
        return f"Iceberg({self._table!r}, name={self.name!r})"

    def check(self, rows: DataFrame) -> None:
        chosen = selected(rows, self._columns)
        names = chosen.columns
        try:
            table = self._loaded()
        except NoSuchTableError:
            raise Refused(
                f"the catalog has no table {self._table} for {self.name}: make it, with the columns {', '.join(names)}"
            ) from None
        if not table.spec().is_unpartitioned():
            raise Refused(f"{self.name}: the table is partitioned; only one that is not can be written")
        there = {field.name: field for field in table.schema().fields}
        unknown = [name for name in names if name not in there]
        if unknown:
            raise Refused(
                f"{self.name}: the table has no column {', '.join(map(repr, unknown))}; it has {', '.join(there)}"
            )
        absent = [name for name, field in there.items() if field.required and name not in names]
        if absent:
            raise Refused(f"{self.name}: the table requires the column {absent[0]!r}, which the rows do not have")
        _check_types(table, chosen.schema, self.name)

    def prepare(self, owner: Owner) -> None:
        def taken(line: Line) -> Line:
            owner.check_not_older_than(line.owner, self.name)
            return Line(owner, line.batch)

        self._commit(owner, [], taken)
        self._owner = owner

    def last_batch(self) -> SinkBatch | None:
        return self._line(self._loaded(), self._prepared()).batch

    def write(self, rows: DataFrame, batch: SinkBatch) -> int:
        owner = self._prepared()
        table = self._loaded()
        folder = f"{table.location()}/data/semel-{uuid4().hex}"
        parts = selected(rows, self._columns).mapInArrow(WriteTo(table.io, folder), _PART_SCHEMA).collect()
        self._reached("sink staged", batch.batch_id)

        def moved(line: Line) -> Line:
            owner.check_is(line.owner, self.name)
            if line.batch == batch:
                raise SinkError(f"{self.name} has batch {batch.batch_id} already")
            return Line(owner, batch)

        self._commit(owner, [part["path"] for part in parts], moved)
        self._reached("sink committed", batch.batch_id)
        return sum(part["row_count"] for part in parts)

    # The table

    def _loaded(self) -> Table:
        """Load the present state of the table from the catalog."""
        if self._catalog is None:
            named = dict(self._catalog_properties)
            self._catalog = load_catalog(named.pop("name", _CATALOG), **named)
        table: Table = self._catalog.load_table(self._table)
        return table

    def _loaded_for_commit(self) -> Table:
        """Load the table, and set its commit retries to 0 in this copy: otherwise pyiceberg would commit again on top
        of another driver's commit, without reading the line."""
        table = self._loaded()
        properties = {**table.metadata.properties, TableProperties.COMMIT_NUM_RETRIES: "0"}
        table.metadata = table.metadata.model_copy(update={"properties": properties})
        return table

    def _commit(self, owner: Owner, paths: list[str], moved: Callable[[Line], Line]) -> None:
        """Commit the files and a new line. ``moved`` makes the new line from the present one, or raises.

        After an exception that ``moved`` has not raised, the commit may or may not have happened: ``last_batch`` reads
        the table again.
        """
        for _ in range(_COMMITS_MAX):
            table = self._loaded_for_commit()
            line = moved(self._line(table, owner))
            summary = {"semel-sink": self.name, "semel-groups": owner.groups, "semel-batch": str(line.batch or "")}
            transaction = table.transaction()
            if paths:
                transaction.add_files(paths, snapshot_properties=summary, check_duplicate_files=False)
            else:
                nothing = table.schema().as_arrow().empty_table()
                transaction.append(nothing, snapshot_properties=summary)
            transaction.set_properties({_property(owner, self.name): str(line)})
            try:
                transaction.commit_transaction()
                return
            except CommitFailedException:
                sleep(_PAUSE_S)  # Another writer has committed first. The line says whether it was a driver.
        raise SinkError(f"{self.name}: other writers were first, {_COMMITS_MAX} times in a row")

    # The ledger

    def _prepared(self) -> Owner:
        assert self._owner is not None, "prepare comes first"
        return self._owner

    def _line(self, table: Table, owner: Owner) -> Line:
        text = table.properties.get(_property(owner, self.name))
        return Line(None, None) if text is None else Line.parse(text)


def _check_types(table: Table, schema: StructType, sink: str) -> None:
    """Raises ``Refused`` if the table would have to change its schema to take rows with these columns."""
    there = {field.name: field for field in table.schema().fields}
    transaction = table.transaction()  # It is never committed.
    try:
        with transaction.update_schema() as update:
            update.union_by_name(pa.schema([_arrow_field(field) for field in schema]))
    except (ValueError, ValidationError) as error:
        raise Refused(f"{sink}: {in_one_line(error)}. Cast it in columns=, to the type in the table") from error
    for field in transaction.table_metadata.schema().fields:
        if field != there[field.name]:
            told, wanted = (
                f"{one.field_type}{' NOT NULL' if one.required else ''}" for one in (field, there[field.name])
            )
            raise Refused(f"{sink}: column {field.name!r} is {told}, and in the table {wanted}: cast it in columns=")


def _arrow_field(field: StructField) -> pa.Field:
    return pa.field(field.name, _arrow_type(field.dataType), nullable=field.nullable)


def _arrow_type(of: DataType) -> pa.DataType:
    """Return the type that a column has in the files. Raises ``ValueError`` for one that no column of Iceberg has."""
    match of:
        case DecimalType():
            return pa.decimal128(of.precision, of.scale)
        case ArrayType():
            return pa.list_(pa.field("element", _arrow_type(of.elementType), nullable=of.containsNull))
        case MapType():
            value = pa.field("value", _arrow_type(of.valueType), nullable=of.valueContainsNull)
            return pa.map_(_arrow_type(of.keyType), value)
        case StructType():
            return pa.struct([_arrow_field(field) for field in of])
        case _ if type(of) in _TYPES:
            return _TYPES[type(of)]
    raise ValueError(f"no column of Iceberg has the type {of.simpleString()}")


def _property(owner: Owner, sink: str) -> str:
    return f"semel.{owner.groups}.{sink}"


@dataclass(frozen=True, slots=True)
class WriteTo:
    """The function that runs in a task: it writes the task's rows to one file, whose name no other attempt has."""

    io: FileIO
    folder: str

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        path = f"{self.folder}/{uuid4().hex}.parquet"
        row_count = 0
        writer: pq.ParquetWriter | None = None
        stream: Any = None
        try:
            for rows in map(in_utc, batches):
                if rows.num_rows:
                    if writer is None:
                        stream = self.io.new_output(path).create()
                        writer = pq.ParquetWriter(stream, rows.schema)
                    writer.write_batch(rows)
                    row_count += rows.num_rows
        finally:
            if writer is not None:
                writer.close()
                stream.close()
        if row_count:
            yield pa.RecordBatch.from_pydict({"path": [path], "row_count": [row_count]})
