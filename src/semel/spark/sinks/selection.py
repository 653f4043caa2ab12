"""What of a DataFrame a sink writes: names of columns, or SQL expressions over them; else all columns."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame


def selected(rows: DataFrame, columns: Sequence[str] | None) -> DataFrame:
    return rows if columns is None else rows.selectExpr(*columns)
