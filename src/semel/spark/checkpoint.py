"""What Spark has written down of a query: its id, and where each batch ends. Read only, with Spark's own file systems.

metadata      {"id": ...}, written when a query first starts; the id outlives restarts
offsets/N     "v1", a line of settings, then a line for each source: where batch N ends; written before it runs
commits/N     batch N is done; where this is missing, Spark runs the batch again
"""

from __future__ import annotations

import json
from typing import Any, Final

from pyspark.sql import SparkSession

from semel.spark.offsets import Offsets, from_spark

_VERSION: Final = "v1"
_NOTHING_YET: Final = "-"


class Checkpoint:
    def __init__(self, spark: SparkSession, location: str) -> None:
        self.location = location
        self._jvm: Any = spark._jvm
        self._conf: Any = spark._jsparkSession.sessionState().newHadoopConf()

    def query_id(self) -> str | None:
        """``None`` before the first start."""
        text = self._read("metadata")
        return None if text is None else str(json.loads(text)["id"])

    def last_batch_id(self) -> int | None:
        """The last batch that was planned."""
        folder = self._path("offsets")
        files = folder.getFileSystem(self._conf)
        if not files.exists(folder):
            return None
        names = [status.getPath().getName() for status in files.listStatus(folder)]
        return max((int(name) for name in names if name.isdigit()), default=None)

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

    def _path(self, name: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(f"{self.location.rstrip('/')}/{name}")

    def _read(self, name: str) -> str | None:
        path = self._path(name)
        files = path.getFileSystem(self._conf)
        if not files.exists(path):
            return None
        stream = files.open(path)
        try:
            return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
        finally:
            stream.close()
