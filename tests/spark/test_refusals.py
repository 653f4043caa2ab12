"""What is refused before anything starts, as far as it takes no Spark to see it; some of it takes a broker."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from time import monotonic
from types import SimpleNamespace
from typing import Any

import pytest

from semel.blocking import Consumer
from semel.spark.cluster import Cluster
from semel.spark.plan import QueryPlan
from semel.spark.refusals import (
    NoBroker,
    Refused,
    check_clusters,
    check_group_is_free,
    check_plan,
    check_protocols,
    check_servers,
    check_session,
    check_version,
)
from semel.spark.source.options import SourceOptions
from semel.testing import Broker
from tests.spark.topics import create, fill
from tools.patience import PATIENCE_MS, PATIENCE_S

SOURCE = {"kafka.bootstrap.servers": "b:9092", "subscribe": "in", "kafka.group.id": "jobs"}


def session(slots: int, **settings: str) -> Any:
    conf = {name.replace("__", "."): value for name, value in settings.items()}
    return SimpleNamespace(sparkContext=SimpleNamespace(defaultParallelism=slots), conf=conf)


def plan(*sources: dict[str, str], foreign: tuple[str, ...] = ()) -> QueryPlan:
    parsed = tuple(SourceOptions.parse(options, is_streaming=True) for options in sources)
    return QueryPlan(parsed, foreign, is_stateful=False)


def test_dynamic_allocation_is_refused_with_what_to_set() -> None:
    with pytest.raises(
        Refused, match=r"spark\.dynamicAllocation\.enabled is true.* Set it to false, and spark\.executor"
    ):
        check_session(session(4, spark__dynamicAllocation__enabled="true"), None)


def test_no_more_writers_than_slots() -> None:
    assert check_session(session(4), None) == 4
    assert check_session(session(4), 3) == 4
    with pytest.raises(Refused, match="writers=5, and there are 4 task slots"):
        check_session(session(4), 5)
    with pytest.raises(Refused, match="writers=0; it is at least 1"):
        check_session(session(4), 0)


@pytest.mark.parametrize(
    ("sources", "foreign", "message"),
    [
        ((), (), "the DataFrame is no stream"),
        ((SOURCE,), ("rate",), "the query reads 'rate', whose offsets are not in the transaction"),
        (({**SOURCE, "kafka.isolation.level": "read_uncommitted"},), (), "may be aborted later"),
        ((SOURCE, SOURCE), (), "two sources read 'in' under group 'jobs'"),
    ],
)
def test_a_query_is_refused(sources: tuple[dict[str, str], ...], foreign: tuple[str, ...], message: str) -> None:
    with pytest.raises(Refused, match=message):
        check_plan(plan(*sources, foreign=foreign))


def test_sources_that_differ_in_topic_or_group_are_fine() -> None:
    check_plan(plan(SOURCE, {**SOURCE, "subscribe": "more"}, {**SOURCE, "kafka.group.id": "others"}))


def test_older_versions_of_spark_are_refused_by_name() -> None:
    with pytest.raises(Refused, match=r"PySpark 4\.1\.1 has no"):
        check_version("4.1.1")
    check_version("4.2.0")
    check_version("4.3.0")


def test_an_older_version_is_refused_when_it_is_imported_before_anything_that_it_lacks() -> None:
    older = (
        "import pyspark; pyspark.__version__ = '4.1.1'; import pyspark.sql.streaming.datasource as lacking; "
        "del lacking.SupportsTriggerAvailableNow"
    )
    done = subprocess.run(
        [sys.executable, "-c", f"{older}; from semel.spark import pipeline"], capture_output=True, text=True
    )
    assert "Refused: PySpark 4.1.1 has no admission control" in done.stderr


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_with_members_is_refused_whichever_protocol_they_speak(broker: Broker, protocol: str) -> None:
    create(broker, "in")
    fill(broker, "in", range(3))
    with Cluster(bootstrap_servers=broker.bootstrap_servers) as cluster:
        check_group_is_free("jobs", cluster)
        with Consumer(
            bootstrap_servers=broker.bootstrap_servers,
            group_id="jobs",
            auto_offset_reset="earliest",
            group_protocol=protocol,
        ) as consumer:
            consumer.subscribe(["in"])
            assert consumer.poll(PATIENCE_MS)
            with pytest.raises(Refused, match="group 'jobs' has 1 members that consume and commit"):
                check_group_is_free("jobs", cluster)
        check_group_is_free("jobs", cluster)


def test_a_sink_on_another_cluster_is_refused(broker: Broker) -> None:
    source = SourceOptions.parse({**SOURCE, "kafka.bootstrap.servers": broker.bootstrap_servers}, is_streaming=True)
    with Cluster(bootstrap_servers=broker.bootstrap_servers) as same:
        check_clusters((source,), same)
    with (
        Broker() as other,
        Cluster(bootstrap_servers=other.bootstrap_servers) as elsewhere,
        pytest.raises(Refused, match="a transaction cannot span two clusters"),
    ):
        check_clusters((source,), elsewhere)


def test_a_sink_at_the_source_s_address_speaks_its_protocol() -> None:
    """Else the start would wait for a minute, and say that no broker answers."""
    secured = plan({**SOURCE, "kafka.security.protocol": "SASL_SSL"}).sources
    with pytest.raises(Refused, match=r"the source has kafka.security.protocol=SASL_SSL, and the sink, .* PLAINTEXT"):
        check_protocols(secured, {"bootstrap_servers": "b:9092"})
    check_protocols(secured, {"bootstrap_servers": "b:9092", "security_protocol": "SASL_SSL"})
    check_protocols(secured, {"bootstrap_servers": "b:9093"})
    check_protocols(plan(SOURCE).sources, {"bootstrap_servers": "b:9092"})


def test_servers_at_which_nothing_listens_are_said_with_the_reason_of_each() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening, socket.create_server(("127.0.0.1", 0)) as other:
        open_port, port = listening.getsockname()[1], other.getsockname()[1]
        other.close()
        check_servers(f"127.0.0.1:{port}, 127.0.0.1:{open_port}", patience_s=0)
        with pytest.raises(Refused, match=rf"no broker can be reached \(127\.0\.0\.1:{port}: Connection refused"):
            check_servers(f"127.0.0.1:{port}", patience_s=0)


@contextmanager
def silent() -> Iterator[int]:
    """A port of this machine at which connections are neither accepted nor refused, as behind a firewall."""
    with socket.create_server(("", 0), backlog=0) as listening, ExitStack() as waiting:
        port = listening.getsockname()[1]
        with suppress(TimeoutError):
            while True:
                waiting.enter_context(socket.create_connection(("127.0.0.1", port), timeout=1))
        yield port


def test_a_name_with_many_addresses_at_which_nothing_answers_takes_no_longer_than_one() -> None:
    with silent() as port:
        begun = monotonic()
        with pytest.raises(NoBroker, match="no broker can be reached \\(kafka:9092: timed out\\)"):
            check_servers(
                "kafka:9092",
                patience_s=2,
                resolve=lambda host, _: [(socket.AF_INET, (f"127.0.0.{number}", port)) for number in range(1, 101)],
            )
        assert monotonic() - begun < PATIENCE_S
