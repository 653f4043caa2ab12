"""The SparkSession that all tests of one process share.

There can be only one: whatever starts the first also starts the JVM, and the environment that Python workers get is the
JVM's. Tests that use it are kept in one process, because starting it takes longer than most of them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from semel.spark import register
from semel.spark.java import use_java

ROOT = Path(__file__).parent.parent


@contextmanager
def spark_session(folder: Path) -> Iterator[SparkSession]:
    use_java()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    # Workers import what tests hand them.
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), str(ROOT))))
    session = (
        SparkSession.builder.master("local[2]")
        .appName("semel-tests")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.codegen.wholeStage", "false")  # Compiling takes longer than these few rows.
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.local.dir", str(folder))
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .config("spark.python.authenticate.socketTimeout", "120s")  # For machines with much else to do.
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    register(session)
    try:
        yield session
    finally:
        session.stop()
