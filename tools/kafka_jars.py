"""Apache Kafka's own jars, fetched once by their Maven coordinates into a cache folder.

Which registry they come from is Maven's business and the machine's configuration. A folder exists under its final name
only when it is complete.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

KAFKA_4 = "4.3.0"
KAFKA_3 = "3.9.1"
VERSIONS = (KAFKA_4, KAFKA_3)

_COORDINATES = (
    "org.apache.kafka:kafka_2.13:{version}",
    "org.apache.kafka:kafka-tools:{version}",
    # Without a binding Kafka 4 logs nothing at all, and a peer that fails to start would say nothing either.
    "org.slf4j:slf4j-simple:1.7.36",
)

STREAMS = "kafka-streams"
MIRROR_MAKER = "connect-mirror"
APPLICATIONS = (STREAMS, MIRROR_MAKER)
"""What is built on Kafka 4 and is not among the broker's jars."""

_WITH_THE_BROKER = "".join(
    f"<exclusion><groupId>org.apache.kafka</groupId><artifactId>{artifact}</artifactId></exclusion>"
    for artifact in ("kafka-clients", "kafka-tools", "connect-api", "connect-json", "connect-runtime")
)

# Kafka 3 brings a binding of its own, which without a configuration file swallows every line.
_OTHER_BINDING = "<exclusion><groupId>org.slf4j</groupId><artifactId>slf4j-reload4j</artifactId></exclusion>"


class Unavailable(Exception):
    """Something from outside Python is missing; the message says what and how to get it."""


def jars_of(version: str) -> Path:
    """The folder with the jars of ``version``; raises Unavailable when they were not fetched."""
    folder = _folder(version)
    if not folder.is_dir():
        raise Unavailable(f"the jars of Apache Kafka {version} are not in {folder}: run `make kafka-jars`")
    return folder


def application_jars(name: str) -> Path:
    """The folder with what one of the APPLICATIONS needs besides; raises Unavailable when that was not fetched."""
    folder = _application_folder(name)
    if not folder.is_dir():
        raise Unavailable(f"the jars of {name} {KAFKA_4} are not in {folder}: run `make kafka-jars`")
    return folder


def java() -> str:
    """The ``java`` to run them with: JAVA_HOME's, else the one on PATH."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=str(Path(home) / "bin")) if home else None
    found = found or shutil.which("java")
    if found is None:
        raise Unavailable(
            "there is no java (17 or newer) on PATH or under JAVA_HOME: install a JRE, e.g. openjdk-17-jre"
        )
    return found


def javac() -> str:
    """The compiler beside ``java()``."""
    found = shutil.which("javac", path=str(Path(java()).parent)) or shutil.which("javac")
    if found is None:
        raise Unavailable("there is no javac (17 or newer) beside java or on PATH: install a JDK, e.g. openjdk-17-jdk")
    return found


def fetch(version: str) -> Path:
    """The folder with the jars of ``version``, asking Maven for them when they are not there yet."""
    folder = _folder(version)
    if not folder.is_dir():
        java()
        coordinates = [coordinate.format(version=version) for coordinate in _COORDINATES]
        fetch_jars(f"Apache Kafka {version} (about 100 MB, once)", coordinates, folder, without=_OTHER_BINDING)
    return folder


def fetch_application(name: str) -> Path:
    """The folder with what an application needs besides, asking Maven for it when it is not there yet."""
    folder = _application_folder(name)
    if not folder.is_dir():
        java()
        fetch_jars(f"{name} {KAFKA_4} (once)", [f"org.apache.kafka:{name}:{KAFKA_4}"], folder, without=_WITH_THE_BROKER)
    return folder


def fetch_jars(what: str, coordinates: Sequence[str], folder: Path, *, without: str) -> None:
    """Ask Maven for these and for what they need, less the exclusion ``without``."""
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
        (Path(scratch) / "libs").rename(folder)


def cache() -> Path:
    """Where everything goes that is fetched once."""
    return Path(os.environ.get("SEMEL_CACHE") or Path(__file__).resolve().parent.parent / ".cache")


def _folder(version: str) -> Path:
    return cache() / f"kafka-{version}"


def _application_folder(name: str) -> Path:
    return cache() / f"{name}-{KAFKA_4}"


def _pom(coordinates: Sequence[str], without: str) -> str:
    dependencies = []
    for coordinate in coordinates:
        group, artifact, number = coordinate.split(":")
        dependencies.append(
            f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{number}</version>"
            f"<exclusions>{without}</exclusions></dependency>"
        )
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>semel</groupId><artifactId>kafka-peer</artifactId><version>1</version><packaging>pom</packaging>"
        f"<dependencies>{''.join(dependencies)}</dependencies></project>\n"
    )


def exit_code(fetch_all: Callable[[], object]) -> int:
    """Fetch, as a command does: why something is not available goes to stderr."""
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
