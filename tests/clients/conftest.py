"""Real clients against a real broker process: Semel in ``make test``, Apache Kafka in ``make test-kafka``.

Every test that takes ``cluster`` runs on both. What holds on Apache Kafka is how these tests are known to be right.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator, Iterator

import pytest
from confluent_kafka.admin import AdminClient

from tests.clients.libraries import Library
from tests.clients.libraries.aio import Aiokafka
from tests.clients.libraries.confluent import Confluent
from tests.clients.libraries.kafka_python import KafkaPython
from tests.clients.waiting import eventually
from tools.brokers import apache_kafka, semel
from tools.load import create_topic
from tools.patience import PATIENCE_S
from tools.server import Server, running

SEMEL = pytest.param("semel", id="semel")
APACHE_KAFKA = pytest.param("apache-kafka", id="kafka", marks=[pytest.mark.kafka, pytest.mark.needs("kafka")])
LIBRARIES: tuple[Library, ...] = (Confluent(), KafkaPython(), Aiokafka())

# So that a test of a timeout takes as long as the timeout, and the first member of a group waits for no others.
SETTINGS = {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
    "group.initial.rebalance.delay.ms": "0",
}

_names = itertools.count()


@pytest.fixture(scope="session", params=[SEMEL, APACHE_KAFKA])
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One broker for the whole session; tests keep apart by topic."""
    folder = tmp_path_factory.mktemp(request.param)
    server = (semel if request.param == "semel" else apache_kafka)(folder, settings=SETTINGS)
    with running(server):
        yield server


@pytest.fixture(params=LIBRARIES, ids=lambda library: library.name)
def library(request: pytest.FixtureRequest) -> Library:
    found: Library = request.param
    return found


@pytest.fixture
def new_topic(cluster: Server) -> Callable[..., str]:
    """A function that creates a topic nobody else uses: ``new_topic(partitions=1, **{"max.message.bytes": ...})``."""

    def create(partitions: int = 1, **config: str) -> str:
        name = f"topic-{next(_names)}"
        create_topic(cluster.bootstrap_servers, name, partitions=partitions, config=config)
        # A broker of Apache Kafka learns from its controller of a topic that was created.
        eventually(True, lambda: _is_known(cluster, name))
        return name

    return create


def _is_known(cluster: Server, topic: str) -> bool:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    found = admin.list_topics(topic, timeout=PATIENCE_S).topics.get(topic)
    return found is not None and found.error is None


@pytest.fixture
def topic(new_topic: Callable[..., str]) -> str:
    return new_topic()


@pytest.fixture
def absent_topic() -> str:
    return f"absent-{next(_names)}"


@pytest.fixture
def admin(cluster: Server) -> AdminClient:
    return AdminClient({"bootstrap.servers": cluster.bootstrap_servers})


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failed test shows the end of what its broker printed."""
    report = yield
    server = getattr(item, "funcargs", {}).get("cluster")
    if report.failed and isinstance(server, Server):
        report.sections.append((f"output of {server.name}", server.printed()))
    return report
