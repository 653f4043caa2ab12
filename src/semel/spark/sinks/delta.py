"""The sink ``Delta``: a Delta table, on a file system that driver and executors share. Tasks write Parquet files, the
driver commits them.

    lake/totals/part-00000-....parquet        rows; they are in the table once a commit of the log names them
    lake/totals/_delta_log/...                the table's log. Each commit of this sink has a ``txn`` action of Delta's
                                              protocol: its application id is the line's key, its version the number of
                                              the line
    lake/totals/_semel/KEY/00000007.json      the ledger's line with the number 7: owner and batch

The valid line is the one whose number is the version that the table has for the application id: so rows and line appear
in one commit. By Delta's own rules a commit fails if another one with the same application id was made since the table
was opened; commits of other writers do not conflict. That fences a driver that was replaced: ``prepare`` commits a new
line without rows.

The log is written with delta-rs (``deltalake``), not with Delta's jar, which exists for some versions of Spark only.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Sequence
from pathlib import Path
from time import time
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql.types import StructField, StructType

from semel.spark.errors import in_one_line
from semel.spark.refusals import Refused
from semel.spark.sink.sink import StepHook, no_step_hook
from semel.spark.sinks.files import WriteParts, sync
from semel.spark.sinks.protocol import Line, Owner, SinkBatch, SinkError
from semel.spark.sinks.selection import selected
from semel.spark.sinks.shared_folder import SharedFolder

try:
    from deltalake import CommitProperties, DeltaTable, Transaction
    from deltalake import Schema as DeltaSchema
    from deltalake.exceptions import CommitFailedError
    from deltalake.transaction import AddAction
except ImportError as missing:
    raise ImportError("Delta needs deltalake: pip install 'semel[delta]'") from missing

_HIDDEN: Final = "_semel"
_PART_SCHEMA: Final = "file STRING, row_count BIGINT"
_TXN_RETENTION: Final = "delta.setTransactionRetentionDuration"
_CONSTRAINT: Final = "delta.constraints."
# What a column has if its values are checked, generated or numbered by the writer.
_RULES: Final = ("delta.invariants", "delta.generationExpression", "delta.identity.")
_COMMITS_MAX: Final = 20


class Delta:
    """A sink that appends rows to a Delta table: ``Delta("lake/totals")``. Any reader of Delta tables can read it.

    ``columns`` are names or SQL expressions over the DataFrame, all columns by default. A missing table is created at
    the start, with the columns of the rows.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        columns: Sequence[str] | None = None,
        name: str | None = None,
        reached: StepHook = no_step_hook,
    ) -> None:
        self._shared = SharedFolder.at(path)
        self._path = self._shared.path
        self.name = name or f"delta:{self._path.name}"
        self._columns = columns
        self._reached = reached
        self._schema: DeltaSchema | None = None
        self._owner: Owner | None = None

    def __repr__(self) -> str:
        return f"Delta({str(self._path)!r}, name={self.name!r})"

    def check(self, rows: DataFrame) -> None:
        self._shared.check(self.name)
        self._schema = _stored(selected(rows, self._columns).schema)
        if DeltaTable.is_deltatable(str(self._path)):
            _check_table(self._opened(), self._schema, self.name)
        elif self._path.is_dir() and any(self._path.iterdir()):
            raise Refused(f"{self._path} has files and is no Delta table: {self.name} wants a table or a new folder")

    def prepare(self, owner: Owner) -> None:
        assert self._schema is not None, "check comes first"
        DeltaTable.create(str(self._path), self._schema, mode="ignore")
        self._folder(owner).mkdir(parents=True, exist_ok=True)
        for _ in range(_COMMITS_MAX):
            table = self._opened()
            line = self._line(table, owner)
            owner.check_not_older_than(line.owner, self.name)
            try:
                self._commit(table, [], Line(owner, line.batch))
            except CommitFailedError as error:
                failure = error  # Another driver, an older or a newer one, has changed the line: read it again.
                continue
            self._owner = owner
            self._remove_old_lines(owner)
            return
        raise SinkError(f"{self.name}: the line could not be taken over, {_COMMITS_MAX} times in a row: {failure}")

    def last_batch(self) -> SinkBatch | None:
        return self._line(self._opened(), self._prepared()).batch

    def write(self, rows: DataFrame, batch: SinkBatch) -> int:
        owner = self._prepared()
        table = self._opened()
        self._check_line(table, batch)
        written = selected(rows, self._columns).mapInArrow(WriteParts(str(self._path)), _PART_SCHEMA).collect()
        added = [self._added(part["file"], part["row_count"]) for part in written]
        sync(self._path)
        self._reached("sink staged", batch.batch_id)
        try:
            self._commit(table, added, Line(owner, batch))
        except CommitFailedError as error:
            self._check_line(self._opened(), batch)
            raise SinkError(f"{self.name}: {in_one_line(error)}") from error
        self._reached("sink committed", batch.batch_id)
        self._remove_old_lines(owner)
        return sum(part["row_count"] for part in written)

    # The table

    def _opened(self) -> DeltaTable:
        return DeltaTable(str(self._path))

    def _commit(self, table: DeltaTable, added: list[AddAction], line: Line) -> None:
        """Commit files and a new line. Raises ``CommitFailedError`` if the line has changed since the table was
        opened."""
        assert line.owner is not None, "a line has one"
        transaction = Transaction(_application(line.owner, self.name), self._put_line(line))
        table.create_write_transaction(
            list(added),
            "append",
            table.schema(),
            commit_properties=CommitProperties(
                app_transactions=[transaction], custom_metadata={"semel": str(line.batch or "")}
            ),
        )

    def _added(self, file: str, row_count: int) -> AddAction:
        size_bytes = (self._path / file).stat().st_size
        return AddAction(file, size_bytes, {}, int(time() * 1000), True, json.dumps({"numRecords": row_count}))

    # The ledger

    def _prepared(self) -> Owner:
        assert self._owner is not None, "prepare comes first"
        return self._owner

    def _check_line(self, table: DeltaTable, batch: SinkBatch) -> None:
        line = self._line(table, self._prepared())
        self._prepared().check_is(line.owner, self.name)
        if line.batch == batch:
            raise SinkError(f"{self.name} has batch {batch.batch_id} already")

    def _line(self, table: DeltaTable, owner: Owner) -> Line:
        number = table.transaction_version(_application(owner, self.name))
        if number is None:
            return Line(None, None)
        file = self._file(owner, number)
        try:
            return Line.parse(file.read_text())
        except FileNotFoundError:
            raise SinkError(f"{self.name}: {file} is gone, the line of the ledger that the table names") from None

    def _put_line(self, line: Line) -> int:
        """Write a new line under a number that no other line has, and return the number. The line becomes valid when a
        commit names the number."""
        assert line.owner is not None, "a line has one"
        number = max(self._numbers(line.owner), default=0) + 1
        while True:
            try:
                with self._file(line.owner, number).open("x") as file:
                    file.write(str(line))
                    file.flush()
                    os.fsync(file.fileno())
            except FileExistsError:
                number += 1
                continue
            sync(self._folder(line.owner))
            return number

    def _remove_old_lines(self, owner: Owner) -> None:
        counts = self._opened().transaction_version(_application(owner, self.name)) or 0
        for number in self._numbers(owner):
            if number < counts:
                self._file(owner, number).unlink(missing_ok=True)

    def _numbers(self, owner: Owner) -> list[int]:
        return [int(file.stem) for file in self._folder(owner).glob("*.json")]

    def _file(self, owner: Owner, number: int) -> Path:
        return self._folder(owner) / f"{number:08}.json"

    def _folder(self, owner: Owner) -> Path:
        return self._path / _HIDDEN / f"{zlib.crc32(_application(owner, self.name).encode()):08x}"


def _application(owner: Owner, sink: str) -> str:
    return f"semel/{owner.groups}/{sink}"


def _check_table(table: DeltaTable, schema: DeltaSchema, sink: str) -> None:
    """Raises ``Refused`` if the table has columns or rules that a commit of added files does not check."""
    metadata = table.metadata()
    if metadata.partition_columns:
        raise Refused(f"{sink}: the table is partitioned by {', '.join(metadata.partition_columns)}; none may be")
    for setting in metadata.configuration:
        if setting == _TXN_RETENTION:
            raise Refused(f"{sink}: the table has {_TXN_RETENTION}, by which readers would forget the ledger: unset it")
        if setting.startswith(_CONSTRAINT):
            raise Refused(f"{sink}: the table has {setting}, which this sink does not check: drop the constraint")
    there = {field.name: field for field in table.schema().fields}
    for name, field in there.items():
        for setting in field.metadata:
            if setting.startswith(_RULES):
                raise Refused(f"{sink}: column {name!r} of the table has {setting}, which this sink does not follow")
    for field in schema.fields:
        if field.name not in there:
            raise Refused(f"{sink}: the table has no column {field.name!r}; it has {', '.join(there)}")
        if field.type != there[field.name].type:
            raise Refused(
                f"{sink}: column {field.name!r} is {field.type}, and in the table {there[field.name].type}: cast it in "
                "columns="
            )
    required = [name for name, field in there.items() if not field.nullable]
    if required:
        raise Refused(f"{sink}: column {required[0]!r} of the table is NOT NULL, which this sink does not check")


def _stored(schema: StructType) -> DeltaSchema:
    """Return Delta's schema for the rows, whose JSON format is the same as Spark's. Every column may be null, because
    rows are not checked when files are added."""
    nullable = [StructField(field.name, field.dataType, nullable=True) for field in schema]
    return DeltaSchema.from_json(StructType(nullable).json())
