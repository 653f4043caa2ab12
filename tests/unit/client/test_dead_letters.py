"""A reader of dead letters finds the same headers, whether a program or a Spark pipeline wrote them."""

from __future__ import annotations

from semel.client import dead_letters
from semel.spark.sink import row_partitioning


def test_the_headers_are_those_of_the_spark_pipeline() -> None:
    assert dead_letters.REASON_HEADER == row_partitioning.REASON_HEADER
    assert dead_letters.OFFSET_HEADER == row_partitioning.OFFSET_HEADER
