"""The versions that docs/compatibility.md names for Spark are those that the tests run with."""

from __future__ import annotations

import re
from pathlib import Path

import pyspark
from pyspark.sql import SparkSession

PAGE = Path(__file__).parents[2] / "docs" / "compatibility.md"


def test_this_pyspark_and_this_java_are_in_the_table(spark: SparkSession) -> None:
    assert spark._jvm is not None
    java = str(spark._jvm.java.lang.System.getProperty("java.specification.version"))
    rows = re.findall(r"^\| (\d+\.\d+\.\d+) \| (\d+)\b", PAGE.read_text(), re.MULTILINE)
    assert (pyspark.__version__, java) in rows
