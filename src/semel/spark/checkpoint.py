"""The checkpoint of a Spark query: its id, and where each batch ends. It is never written here, only read, through
Spark's own file systems.

metadata      {"id": ...}, written when a query first starts; the id outlives restarts
offsets/N     "v1", a line of settings, then a line for each source: where batch N ends; written before it runs
              "v2" (spark.sql.streaming.offsetLog.formatVersion=2): each line begins with the source's id and a colon
commits/N     batch N is done; if this is missing, Spark runs the batch again
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Row, SparkSession

from semel.spark.refusals import Refused
from semel.spark.source.offsets import Offsets, from_spark

_NOTHING_YET: Final = "-"
_NOT_FOUND: Final = "java.io.FileNotFoundException"
_NO_PATH: Final = "PATH_NOT_FOUND"


class Checkpoint(ABC):
    def __init__(self, location: str) -> None:
        self.location = location.rstrip("/")

    @abstractmethod
    def _read(self, name: str) -> str | None:
        """Return the text of a file; ``None`` if there is no such file."""

    @abstractmethod
    def _modified_ms(self, name: str) -> int:
        """Return when an existing file was last written."""

    @abstractmethod
    def _names(self, folder: str) -> list[str]:
        """Return the names of the files in a folder; none if there is no such folder."""

    def folders(self, folder: str) -> list[str]:
        """Return the names of the entries in a folder of the checkpoint."""
        return self._names(folder)

    def query_id(self) -> str | None:
        """The id of the query; ``None`` before its first start."""
        text = self._read("metadata")
        return None if text is None else str(json.loads(text)["id"])

    def last_batch_id(self) -> int | None:
        """The number of the last batch that Spark planned; ``None`` if there is none."""
        return max((int(name) for name in self._names("offsets") if name.isdigit()), default=None)

    def is_done(self, batch_id: int) -> bool:
        """Whether Spark has noted that the batch is done. It does so once ``foreachBatch`` has returned."""
        return self._read(f"commits/{batch_id}") is not None

    def planned_ms(self, batch_id: int) -> int:
        """When a batch was planned. The batch must be in the offset log."""
        return self._modified_ms(f"offsets/{batch_id}")

    def ends_of(self, batch_id: int, source_ids: Sequence[str]) -> list[Offsets] | None:
        """Return the end offsets of a batch, one entry for each source. ``None`` if the batch was not planned, or if
        Spark has already removed its file.

        ``source_ids`` are Spark's: the name of a source, or its number. Raises ``Refused`` if the file has other
        sources.
        """
        text = self._read(f"offsets/{batch_id}")
        return None if text is None else parse_ends(text, source_ids, f"{self.location}/offsets/{batch_id}")


def parse_ends(text: str, source_ids: Sequence[str], path: str) -> list[Offsets]:
    """Parse a file of the offset log, in either of Spark's formats. ``path`` is for error messages."""
    version, _, *lines = text.strip().split("\n")
    if version == "v1":
        found = dict(zip(source_ids, lines, strict=False)) if len(lines) == len(source_ids) else {}
    elif version == "v2":
        found = {source_id: line for source_id, _, line in (line.partition(":") for line in lines)}
    else:
        raise Refused(f"{path} has the format {version!r}, and v1 and v2 are known: use the Spark that wrote it")
    if len(lines) != len(source_ids) or set(found) != set(source_ids):
        named = f" ({', '.join(found)})" if version == "v2" else ""
        raise Refused(
            f"{path} is of a query with {len(lines)} sources{named}; this one has {len(source_ids)} "
            f"({', '.join(source_ids)}): give it a checkpoint location of its own"
        )
    return [_offsets(found[source_id]) for source_id in source_ids]


def _offsets(line: str) -> Offsets:
    return {} if line.strip() == _NOTHING_YET else from_spark(json.loads(line))


class JavaCheckpoint(Checkpoint):
    """Reads the checkpoint through the driver's JVM."""

    def __init__(self, spark: SparkSession, location: str) -> None:
        super().__init__(location)
        jvm: Any = spark._jvm
        # Looked up once: every part of a Java name costs a call to the JVM, and every batch reads a file.
        self._path_class = jvm.org.apache.hadoop.fs.Path
        self._to_string = jvm.org.apache.commons.io.IOUtils.toString
        conf = spark._jsparkSession.sessionState().newHadoopConf()
        self._files = self._path_class(location).getFileSystem(conf)

    def _read(self, name: str) -> str | None:
        try:
            stream = self._files.open(self._path(name))
        except Py4JJavaError as error:
            if error.java_exception.getClass().getName() == _NOT_FOUND:
                return None
            raise
        try:
            return str(self._to_string(stream, "UTF-8"))
        finally:
            stream.close()

    def _modified_ms(self, name: str) -> int:
        return int(self._files.getFileStatus(self._path(name)).getModificationTime())

    def _names(self, folder: str) -> list[str]:
        path = self._path(folder)
        if not self._files.exists(path):
            return []
        return [str(status.getPath().getName()) for status in self._files.listStatus(path)]

    def _path(self, name: str) -> Any:
        return self._path_class(f"{self.location}/{name}")


class RemoteCheckpoint(Checkpoint):
    """Reads the checkpoint as rows with Spark Connect, where there is no JVM to call. Each read is a Spark job."""

    def __init__(self, spark: SparkSession, location: str) -> None:
        super().__init__(location)
        self._spark = spark

    def _read(self, name: str) -> str | None:
        try:
            rows = self._spark.read.text(f"{self.location}/{name}", wholetext=True).collect()
        except PySparkException as error:
            if error.getCondition() == _NO_PATH:
                return None
            raise
        return str(rows[0]["value"]) if rows else None

    def _modified_ms(self, name: str) -> int:
        (row,) = self._files(name, "unix_millis(modificationTime)")
        return int(row[0])

    def _names(self, folder: str) -> list[str]:
        return [str(row[0]).rpartition("/")[2] for row in self._files(folder, "path")]

    def _files(self, path: str, column: str) -> list[Row]:
        try:
            return self._spark.read.format("binaryFile").load(f"{self.location}/{path}").selectExpr(column).collect()
        except PySparkException as error:
            if error.getCondition() == _NO_PATH:
                return []
            raise
