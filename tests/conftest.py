"""What a test needs from outside Python, and how its absence is told.

``@pytest.mark.needs("java" | "java-21" | "javac" | "kafka" | "kafka-3.9.1" | "kafka-streams" | "connect-mirror" |
"debezium-connector-postgres" | "apicurio-registry-app" | "node" | "go" | "kcat" | "jq" | "curl" | "postgres" |
"pyjwt" | "systemd" | "chromium")`` skips a test on a machine that lacks the tool;
"kafka" is the newest of the versions of Apache Kafka that are tested with.
Every skip is listed at the end of the run, with ``-n`` too; one of these with what is missing and how to get it. With
``CI=true`` it is a failure instead, but for what only examples in documents use.

No test fails because the machine is busy: ``tools.patience`` says how long tests wait, a test is ended only after that
time and more, and Hypothesis has neither a deadline nor a health check that is about time.
"""

from __future__ import annotations

import gc
import importlib.util
import os
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

from tests.memory import GARBAGE_THRESHOLD
from tools import chromium
from tools.kafka_jars import (
    APPLICATIONS,
    KAFKA_4,
    REGISTRY_JAVA_MIN,
    VERSIONS,
    Unavailable,
    application_jars,
    jars_of,
    java,
    javac,
    registry_java,
)
from tools.languages import go, node
from tools.patience import TEST_S_MAX
from tools.spark_home import use_installed_pyspark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The other health checks say something about a test, this one about the machine. The settings of a single test begin
# with those of the profile. `make test ARGS=--hypothesis-profile=thorough` is the longer search.
settings.register_profile("any-machine", deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=50)
settings.register_profile("thorough", settings.get_profile("any-machine"), max_examples=2_000)
settings.load_profile("any-machine")

_LISTED_MAX = 5


def _java() -> None:
    java()


def _registry_java() -> None:
    registry_java()


def _javac() -> None:
    javac()


def _kafka(version: str) -> None:
    java()
    jars_of(version)


def _application(name: str) -> None:
    application_jars(name)


def _node() -> None:
    node()


def _go() -> None:
    go()


def _on_path(command: str) -> None:
    if shutil.which(command) is None:
        raise Unavailable(f"there is no {command} on PATH: apt-get install {command}, or brew install {command}")


def _postgres() -> None:
    if importlib.util.find_spec("psycopg") is None:
        raise Unavailable("there is no psycopg: pip install 'psycopg[binary]'")
    from tools.postgres import binaries

    if binaries() is None:
        raise Unavailable("there is no initdb: apt-get install postgresql")


def _chromium() -> None:
    if importlib.util.find_spec("playwright") is None:
        raise Unavailable("there is no Playwright: pip install playwright")
    if chromium.executable() is None:
        raise Unavailable("there is no chromium on PATH: apt-get install chromium")


def _pyjwt() -> None:
    if importlib.util.find_spec("jwt") is None:
        raise Unavailable("there is no PyJWT: pip install pyjwt cryptography")


def _systemd() -> None:
    if shutil.which("systemd-analyze") is None:
        raise Unavailable("there is no systemd-analyze on PATH: apt-get install systemd")


# Each raises Unavailable, with a sentence that says how to get the tool.
_TOOLS: dict[str, Callable[[], None]] = {
    "java": _java,
    f"java-{REGISTRY_JAVA_MIN}": _registry_java,
    "javac": _javac,
    "node": _node,
    "go": _go,
    "kafka": partial(_kafka, KAFKA_4),
    "postgres": _postgres,
    "chromium": _chromium,
    "pyjwt": _pyjwt,
    "systemd": _systemd,
    **{f"kafka-{version}": partial(_kafka, version) for version in VERSIONS},
    **{name: partial(_application, name) for name in APPLICATIONS},
    **{command: partial(_on_path, command) for command in ("kcat", "jq", "curl", "openssl")},
}


# A document shows them in passing; what it says of Semel is tested elsewhere.
_ONLY_IN_DOCUMENTS = frozenset({"curl", "jq", "openssl"})


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "slow: a property that does not fit into `make unit`; `make test` runs it")
    gc.set_threshold(GARBAGE_THRESHOLD)
    use_installed_pyspark()


@pytest.hookimpl(tryfirst=True)  # Before xdist looks at the groups.
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(TEST_S_MAX))
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.needs("java"))
            item.add_marker(pytest.mark.xdist_group("spark"))


def pytest_collection_finish(session: pytest.Session) -> None:
    """Groups that are not kept together cost minutes, and tests that change the environment of others."""
    gc.freeze()  # What was imported and collected stays: the collector need not look at it again and again.
    if not getattr(session.config.option, "loadgroup", False):
        return
    for item in session.items:
        if item.get_closest_marker("xdist_group") is not None and "@" not in item.nodeid:
            raise pytest.UsageError(f"pytest-xdist does not group {item.nodeid}: it and pytest do not fit together")


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    from tests.spark_session import spark_session  # Most runs of few tests do without it.

    with spark_session(tmp_path_factory.mktemp("spark")) as session:
        yield session


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    for mark in item.iter_markers("needs"):
        for tool in mark.args:
            missing = _why_missing(tool)
            if missing is not None:
                if os.environ.get("CI") == "true" and tool not in _ONLY_IN_DOCUMENTS:
                    pytest.fail(f"in CI nothing is skipped for want of a tool: needs {tool}: {missing}", pytrace=False)
                pytest.skip(f"needs {tool}: {missing}")


def _why_missing(tool: str) -> str | None:
    try:
        _TOOLS[tool]()
    except Unavailable as missing:
        return str(missing)
    return None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    skipped: dict[str, list[str]] = {}
    for report in terminalreporter.stats.get("skipped", []):  # From all processes: xdist sends reports to this one.
        _, _, reason = report.longrepr
        skipped.setdefault(reason.removeprefix("Skipped: "), []).append(report.nodeid)
    if skipped:
        terminalreporter.section("not run")
    for reason, tests in sorted(skipped.items(), key=lambda listed: -len(listed[1])):
        terminalreporter.line(f"{len(tests)} skipped: {reason}")
        for test in tests[:_LISTED_MAX]:
            terminalreporter.line(f"    {test}")
        if len(tests) > _LISTED_MAX:
            terminalreporter.line(f"    ... and {len(tests) - _LISTED_MAX} more")
