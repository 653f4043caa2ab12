"""Spark's own Kafka connector, and a PySpark of the same version, in a cache folder beside Kafka's jars.

The connector's version and Spark's must be one, so the PySpark that is installed is left alone and both contestants run
on this one. One dependency is left out: the handling of delegation tokens. The connector calls three of its classes;
``connector/`` has what they do where there are no tokens.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tools.kafka_jars import Unavailable, cache, exit_code, fetch_jars, java, javac

SPARK_VERSION = "4.2.0"
KAFKA_CLIENTS_VERSION = "3.9.1"

_COORDINATES = (
    f"org.apache.spark:spark-sql-kafka-0-10_2.13:{SPARK_VERSION}",
    f"org.apache.kafka:kafka-clients:{KAFKA_CLIENTS_VERSION}",
    "org.apache.commons:commons-pool2:2.12.0",
)
# Everything else that they need is in PySpark already, or is the left-out dependency.
_ALL_OTHERS = "<exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion>"
_SOURCES = Path(__file__).resolve().parent / "connector"


@dataclass(frozen=True, slots=True)
class Connector:
    packages: Path
    """What to put on PYTHONPATH."""
    class_path: str


def connector() -> Connector:
    """The one that is in the cache; raises Unavailable when it was not fetched."""
    folder = _folder()
    java()
    if not (folder / "classes").is_dir():
        raise Unavailable(f"Spark's own connector is not in {folder}: run `make spark-jars`")
    return Connector(folder / "packages", f"{folder}/jars/*:{folder}/classes")


def fetch() -> None:
    """PySpark, the connector and the three classes, in this order, each if it is not there yet."""
    folder = _folder()
    if not (folder / "packages").is_dir():
        _install(folder / "packages")
    if not (folder / "jars").is_dir():
        what = f"Spark's Kafka connector {SPARK_VERSION} (about 10 MB, once)"
        fetch_jars(what, _COORDINATES, folder / "jars", without=_ALL_OTHERS)
    if not (folder / "classes").is_dir():
        _compile(folder / "classes", folder / "packages" / "pyspark" / "jars")


def _install(packages: Path) -> None:
    packages.parent.mkdir(parents=True, exist_ok=True)
    print(f"semel: fetching PySpark {SPARK_VERSION} into {packages} (about 450 MB, once)", flush=True)
    with tempfile.TemporaryDirectory(dir=packages.parent, prefix="fetching-") as scratch:
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", f"{scratch}/packages"]
        done = subprocess.run([*command, f"pyspark=={SPARK_VERSION}"], capture_output=True, text=True)
        if done.returncode != 0:
            raise Unavailable(f"pip could not fetch PySpark {SPARK_VERSION}:\n{done.stderr[-2000:]}")
        (Path(scratch) / "packages").rename(packages)


def _compile(classes: Path, jars: Path) -> None:
    sources = sorted(map(str, _SOURCES.rglob("*.java")))
    with tempfile.TemporaryDirectory(dir=classes.parent, prefix="compiling-") as scratch:
        command = [javac(), "-d", f"{scratch}/classes", "-cp", f"{jars}/*", *sources]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise Unavailable(f"javac could not compile {_SOURCES}:\n{done.stderr[-2000:]}")
        (Path(scratch) / "classes").rename(classes)


def _folder() -> Path:
    return cache() / f"spark-{SPARK_VERSION}"


def main() -> int:
    return exit_code(fetch)


if __name__ == "__main__":
    sys.exit(main())
