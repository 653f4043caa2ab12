"""The checkpoint of a Spark query: its id, and where each batch ends. It is read only, with Spark's own file systems.

metadata      {"id": ...}, written when a query first starts; the id outlives restarts
offsets/N     "v1", a line of settings, then a line for each source: where batch N ends; written before it runs
commits/N     batch N is done; if this is missing, Spark runs the batch again
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from typing import Any, Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from semel.spark.source.offsets import Offsets, from_spark

_VERSION: Final = "v1"
_NOTHING_YET: Final = "-"
_NOT_FOUND: Final = "java.io.FileNotFoundException"
_NO_PATH: Final = "PATH_NOT_FOUND"


class Checkpoint(ABC):
    def __init__(self, location: str) -> None:
        self.location = location.rstrip("/")

    @abstractmethod
    def _read(self, name: str) -> str | None:
        """What is in a file; ``None`` if there is no such file."""

    @abstractmethod
    def _names(self, folder: str) -> list[str]:
        """Of the files in a folder; none if there is no such folder."""

    def query_id(self) -> str | None:
        """``None`` before the first start."""
        text = self._read("metadata")
        return None if text is None else str(json.loads(text)["id"])

    def last_batch_id(self) -> int | None:
        """The last batch that was planned."""
        return max((int(name) for name in self._names("offsets") if name.isdigit()), default=None)

    def ends_of(self, batch_id: int, source_count: int) -> list[Offsets] | None:
        """Where a batch ends, source by source. ``None`` if it was not planned, or so long ago that it was removed."""
        text = self._read(f"offsets/{batch_id}")
        if text is None:
            return None
        version, _, *sources = text.strip().split("\n")
        if version != _VERSION:
            raise RuntimeError(f"{self.location}/offsets/{batch_id} has the format {version!r}; {_VERSION} is known")
        if len(sources) != source_count:
            raise RuntimeError(
                f"{self.location}/offsets/{batch_id} is of a query with {len(sources)} sources; this has {source_count}"
            )
        return [{} if line.strip() == _NOTHING_YET else from_spark(json.loads(line)) for line in sources]


class JavaCheckpoint(Checkpoint):
    """Reads the checkpoint through the driver's JVM."""

    def __init__(self, spark: SparkSession, location: str) -> None:
        super().__init__(location)
        jvm: Any = spark._jvm
        # Looked up once: each part of a Java name is a call of its own, and every batch reads a file.
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

    def _names(self, folder: str) -> list[str]:
        path = self._path(folder)
        if not self._files.exists(path):
            return []
        return [str(status.getPath().getName()) for status in self._files.listStatus(path)]

    def _path(self, name: str) -> Any:
        return self._path_class(f"{self.location}/{name}")


class RemoteCheckpoint(Checkpoint):
    """Reads the checkpoint as rows, if there is no JVM to call: each file is a Spark job."""

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

    def _names(self, folder: str) -> list[str]:
        try:
            rows = self._spark.read.format("binaryFile").load(f"{self.location}/{folder}").select("path").collect()
        except PySparkException as error:
            if error.getCondition() == _NO_PATH:
                return []
            raise
        return [str(row["path"]).rpartition("/")[2] for row in rows]
