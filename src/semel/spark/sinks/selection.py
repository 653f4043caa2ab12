"""What of a DataFrame a sink writes: names of columns, or SQL expressions over them; else all columns.

A sink that leaves out bad rows also stages where each row came from.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame

from semel.spark.sinks.refused_rows import source_columns


def selected(rows: DataFrame, columns: Sequence[str] | None) -> DataFrame:
    return rows if columns is None else rows.selectExpr(*columns)


def selected_with_source(rows: DataFrame, columns: Sequence[str] | None) -> DataFrame:
    chosen = [f"`{name}`" for name in rows.columns] if columns is None else columns
    return rows.selectExpr(*chosen, *source_columns(rows.columns))
