"""A substitute for a Spark DataFrame, over an Arrow table, with the methods that sinks use."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

Function = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


class Rows:
    """The rows of a batch, divided among ``part_count`` tasks.

    ``again`` are the tasks that run twice, as when Spark retries a task that has written all its rows but whose result
    was lost.
    """

    def __init__(self, table: pa.Table, *, part_count: int = 2, again: frozenset[int] = frozenset()) -> None:
        self._table = table
        self._part_count = part_count
        self._again = again

    @property
    def schema(self) -> StructType:
        return from_arrow_schema(self._table.schema)

    @property
    def columns(self) -> list[str]:
        return list(self._table.schema.names)

    def selectExpr(self, *expressions: str) -> Rows:  # noqa: N802 (Spark's name)
        """Select columns by name, also under another name: ``offset AS at``."""
        pairs = [expression.partition(" AS ") for expression in expressions]
        arrays = [self._table.column(name.strip("`")) for name, _, _ in pairs]
        table = pa.table(arrays, names=[other or name.strip("`") for name, _, other in pairs])
        return Rows(table, part_count=self._part_count, again=self._again)

    def toArrow(self) -> pa.Table:  # noqa: N802
        return self._table

    def persist(self) -> None:
        pass

    def unpersist(self) -> None:
        pass

    def mapInArrow(self, function: Function, schema: object) -> Mapped:  # noqa: N802
        found: list[dict[str, Any]] = []
        for number, part in enumerate(self._parts()):
            if number in self._again:
                for _ in function(iter(part.to_batches())):
                    pass
            for answer in function(iter(part.to_batches())):
                found += answer.to_pylist()
        return Mapped(found)

    def _parts(self) -> list[pa.Table]:
        """Return the rows of each task."""
        size = -(-self._table.num_rows // self._part_count) or 1
        return [self._table.slice(first, size) for first in range(0, self._table.num_rows, size)]


class Mapped:
    def __init__(self, rows: list[dict[str, Any]]) -> None:
        self._rows = rows

    def collect(self) -> list[dict[str, Any]]:
        return self._rows
