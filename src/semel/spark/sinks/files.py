"""The sink ``Files``: a folder of Parquet files, with one subfolder for each batch. Driver and executors must share the
file system.

    totals/batch=00000007/part-00000-....parquet    the rows: Spark, pyarrow and others read the folder as it is
    totals/batch=00000007/_batch.json               the ledger's line of this batch
    totals/_semel/owner-1000-5/                     where the tasks of the driver with producer id 1000 and epoch 5
                                                    write; hidden from readers

The commit renames a complete folder from the owner's folder to its final name: rows and line appear at once. The next
driver renames the owner's folder away before it reads the last batch, so a driver that was replaced has nothing left to
rename.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TextIO
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark import TaskContext
from pyspark.sql import DataFrame

from semel.spark.refusals import Refused
from semel.spark.sink.sink import StepHook, no_step_hook
from semel.spark.sinks.protocol import Owner, SinkBatch, SinkError, SinkFenced, groups_key
from semel.spark.sinks.selection import selected
from semel.spark.sinks.shared_folder import SharedFolder

_HIDDEN: Final = "_semel"
_LINE: Final = "_batch.json"
_GROUPS: Final = "groups"
_BATCH: Final = re.compile(r"batch=(\d+)")
_OWNER: Final = re.compile(r"owner-(\d+)-(\d+)")
_PART_SCHEMA: Final = "file STRING, row_count BIGINT"


class Files:
    """A sink that writes a folder of Parquet files: ``Files("lake/totals")``.

    Read it with ``spark.read.parquet("lake/totals")``. ``columns`` are names or SQL expressions over the DataFrame, all
    columns by default. Only one pipeline may write to a folder.
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
        self.name = name or f"files:{self._path.name}"
        self._columns = columns
        self._reached = reached
        self._owner: Owner | None = None

    def __repr__(self) -> str:
        return f"Files({str(self._path)!r}, name={self.name!r})"

    def check(self, rows: DataFrame) -> None:
        self._shared.check(self.name)
        selected(rows, self._columns)
        names = sorted(entry.name for entry in self._path.iterdir()) if self._path.is_dir() else []
        foreign = [name for name in names if name != _HIDDEN and not _BATCH.fullmatch(name)]
        if foreign:
            raise Refused(
                f"{self._path} has {foreign[0]!r}, which no pipeline wrote: {self.name} wants a folder of its own"
            )

    def prepare(self, owner: Owner) -> None:
        hidden = self._path / _HIDDEN
        hidden.mkdir(parents=True, exist_ok=True)
        self._check_groups(owner)
        own = hidden / _folder_of(owner)
        own.mkdir(exist_ok=True)
        try:
            others = [folder for folder in hidden.iterdir() if _OWNER.fullmatch(folder.name) and folder != own]
            for folder in others:
                owner.check_not_older_than(_owner_of(folder, owner.groups), self.name)
        except SinkFenced:
            own.rmdir()
            raise
        for folder in others:
            # The rename fences the other driver at once. Removing the files takes longer, and it could still commit.
            folder.rename(hidden / f"gone-{uuid4().hex}")
        for left in hidden.glob("gone-*"):
            shutil.rmtree(left, ignore_errors=True)
        self._owner = owner

    def last_batch(self) -> SinkBatch | None:
        last = self._last_folder()
        if last is None:
            return None
        line = json.loads((last / _LINE).read_text())
        return SinkBatch.parse(line["batch"]) if line["sink"] == self.name else None

    def write(self, rows: DataFrame, batch: SinkBatch) -> int:
        own = self._path / _HIDDEN / _folder_of(self._prepared())
        folder = own / uuid4().hex
        parts, complete = folder / "parts", folder / "complete"
        try:
            for new in (folder, parts, complete):
                new.mkdir()
            written = selected(rows, self._columns).mapInArrow(WriteParts(str(parts)), _PART_SCHEMA).collect()
            for part in written:
                (parts / part["file"]).rename(complete / part["file"])
            row_count = sum(part["row_count"] for part in written)
            self._put_line(complete, batch, row_count)
            self._reached("sink staged", batch.batch_id)
            complete.rename(self._path / _name_of_batch(self._next_number()))
        except FileNotFoundError as error:
            if own.is_dir():
                raise SinkError(f"{self.name}: {error}") from error
            raise SinkFenced(f"{self.name} was taken over by another driver, which has removed {own}") from error
        sync(self._path)
        self._reached("sink committed", batch.batch_id)
        shutil.rmtree(folder, ignore_errors=True)
        return int(row_count)

    # The ledger

    def _prepared(self) -> Owner:
        assert self._owner is not None, "prepare comes first"
        return self._owner

    def _check_groups(self, owner: Owner) -> None:
        """Raises ``Refused`` if the folder belongs to the pipeline of other groups. It belongs to the one that prepared
        it first, because the batches of two pipelines would have the same numbers."""
        file = self._path / _HIDDEN / _GROUPS
        try:
            with file.open("x") as new:
                _write_through(new, owner.groups)
        except FileExistsError:
            # If the file is empty, a driver died before it had written its groups and any batch; or the file was not
            # synced when the machine lost its power.
            found = file.read_text() or self._groups_of_batches() or owner.groups
            if found != owner.groups:
                raise Refused(
                    f"{self._path} has batches of the group {found!r}: give {owner.groups!r} another folder"
                ) from None
            if not file.stat().st_size:
                with file.open("w") as new:
                    _write_through(new, owner.groups)

    def _groups_of_batches(self) -> str | None:
        """Return the groups of the last batch; ``None`` if there is no batch."""
        last = self._last_folder()
        if last is None:
            return None
        batch = SinkBatch.parse(json.loads((last / _LINE).read_text())["batch"])
        return groups_key({partition.group_id for partition in batch.end})

    def _put_line(self, folder: Path, batch: SinkBatch, row_count: int) -> None:
        line = {"sink": self.name, "rows": row_count, "batch": str(batch)}
        with (folder / _LINE).open("x") as file:
            _write_through(file, json.dumps(line))
        sync(folder)

    def _last_folder(self) -> Path | None:
        folders = [folder for folder in self._path.iterdir() if _BATCH.fullmatch(folder.name)]
        return max(folders, key=_number_of, default=None)

    def _next_number(self) -> int:
        last = self._last_folder()
        return 0 if last is None else _number_of(last) + 1


@dataclass(frozen=True, slots=True)
class WriteParts:
    """The function that runs in a task: it writes the task's rows to one file, whose name no other attempt has."""

    folder: str

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        context = TaskContext.get()
        file = f"part-{0 if context is None else context.partitionId():05}-{uuid4().hex}.parquet"
        writer: pq.ParquetWriter | None = None
        row_count = 0
        path = Path(self.folder, file)
        try:
            for rows in map(in_utc, batches):
                if rows.num_rows:
                    writer = writer or pq.ParquetWriter(path, rows.schema)
                    writer.write_batch(rows)
                    row_count += rows.num_rows
        finally:
            if writer is not None:
                writer.close()
        if writer is not None:
            sync(path)
            yield pa.RecordBatch.from_pydict({"file": [file], "row_count": [row_count]})


def in_utc(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return the rows with timestamps in UTC, unchanged as points in time. Spark's have the time zone of its session,
    which not every reader accepts."""
    schema = pa.schema([field.with_type(_type_in_utc(field.type)) for field in rows.schema])
    if schema.equals(rows.schema):
        return rows
    arrays = [column.cast(field.type) for column, field in zip(rows.columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _type_in_utc(of: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(of) and of.tz is not None:
        return pa.timestamp(of.unit, tz="UTC")
    if pa.types.is_list(of):
        return pa.list_(of.value_field.with_type(_type_in_utc(of.value_type)))
    if pa.types.is_struct(of):
        return pa.struct([field.with_type(_type_in_utc(field.type)) for field in of])
    if pa.types.is_map(of):
        return pa.map_(_type_in_utc(of.key_type), of.item_field.with_type(_type_in_utc(of.item_type)))
    return of


def _folder_of(owner: Owner) -> str:
    return f"owner-{owner.producer_id}-{owner.producer_epoch}"


def _owner_of(folder: Path, groups: str) -> Owner:
    found = _OWNER.fullmatch(folder.name)
    assert found is not None, "it is one"
    return Owner(groups, int(found[1]), int(found[2]))


def _name_of_batch(number: int) -> str:
    return f"batch={number:08}"


def _number_of(folder: Path) -> int:
    found = _BATCH.fullmatch(folder.name)
    assert found is not None, "it is one"
    return int(found[1])


def _write_through(file: TextIO, text: str) -> None:
    file.write(text)
    file.flush()
    os.fsync(file.fileno())


def sync(path: Path) -> None:
    """Sync the content of a file, or the names in a folder, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
