"""The columns of a DataFrame that a sink writes: by name, or as SQL expressions over them; all columns by default.

A sink that leaves out refused rows also stages the source topic, partition and offset of each row.
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
