"""Brokers that are away: a query waits for them, each process tells of it once, and wrong servers are named."""

from __future__ import annotations

import logging
import socket
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from semel.client.machine.connection import outages
from semel.spark import pipeline
from semel.spark.claim import Claim
from semel.spark.cluster import Cluster
from semel.spark.refusals import NoBroker, check_brokers
from semel.testing import Broker
from tests.spark.jobs import copied, run, source
from tests.spark.topics import create, fill, values
from tools.patience import PATIENCE_MS, PATIENCE_S, SPARK_PATIENCE_S, wait_until

_TRIED_OFTEN = 10


@pytest.fixture(autouse=True)
def topics(broker: Broker) -> None:
    create(broker, "in", "out")


def said(caplog: pytest.LogCaptureFixture, level: int = logging.WARNING) -> list[str]:
    """What this process said of outages."""
    return [
        record.getMessage() for record in caplog.records if record.name == outages.__name__ and record.levelno >= level
    ]


def test_all_clients_of_a_driver_tell_of_an_outage_once_and_of_its_end_once(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    servers = broker.bootstrap_servers
    settings: dict[str, Any] = {"bootstrap_servers": servers, "transactional_id": "jobs", "max_block_ms": PATIENCE_MS}
    claim = Claim.take({**settings, "transaction_timeout_ms": 60_000}, ["jobs", "others"])
    with (
        Cluster(bootstrap_servers=servers, default_api_timeout_ms=PATIENCE_MS) as cluster,
        ThreadPoolExecutor() as pool,
    ):
        cluster.topics(["in"])
        caplog.set_level(logging.DEBUG, logger=outages.__name__)
        broker.stop(kill=True)
        asked: list[Future[Any]] = [pool.submit(cluster.topics, ["in"]), pool.submit(claim.confirm, cluster)]
        wait_until(lambda: len(said(caplog, logging.DEBUG)) > _TRIED_OFTEN)
        broker.start()
        for one in asked:
            one.result(PATIENCE_S)
        claim.confirm(cluster)
        claim.close(timeout_ms=0)
    loss, end = said(caplog)
    assert loss.startswith(f"lost the connection to broker {servers}: ")
    assert loss.endswith("; waiting for it, up to outage_timeout_ms of the pipeline, outageTimeoutMs of a source")
    assert end.startswith(f"broker {servers} answers again after ")


def test_a_query_waits_for_a_broker_that_is_away_and_goes_on_exactly(
    spark: SparkSession, broker: Broker, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    fill(broker, "in", range(10))
    query = pipeline(
        copied(source(spark, broker)),
        topic="out",
        transactional_id="jobs",
        servers=broker.bootstrap_servers,
        checkpoint=str(tmp_path / "checkpoint"),
    ).start()
    query.processAllAvailable()
    broker.stop(kill=True)
    wait_until(lambda: said(caplog))
    assert query.isActive
    broker.start()
    fill(broker, "in", range(10, 20))
    query.processAllAvailable()
    query.stop()
    assert values(broker, "out") == list(range(20))
    loss, end = said(caplog)
    assert loss.startswith("lost the connection to broker ")
    assert "answers again after" in end


@pytest.mark.spark_slow
def test_a_query_that_has_waited_as_long_as_it_may_stops_with_one_line(
    spark: SparkSession, broker: Broker, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    fill(broker, "in", range(10))
    query = pipeline(
        copied(source(spark, broker, outageTimeoutMs=20_000)),
        topic="out",
        transactional_id="jobs",
        servers=broker.bootstrap_servers,
        checkpoint=str(tmp_path / "checkpoint"),
    ).start()
    query.processAllAvailable()
    broker.stop(kill=True)
    with pytest.raises(StreamingQueryException):
        query.awaitTermination(int(SPARK_PATIENCE_S))
    (line,) = [message for message in caplog.messages if "the pipeline 'jobs' stops: " in message]
    assert "\n" not in line
    assert "20000 ms" in line
    assert "outageTimeoutMs" in line
    broker.start()
    fill(broker, "in", range(10, 20))
    run(copied(source(spark, broker)), broker, tmp_path / "checkpoint")
    assert values(broker, "out") == list(range(20))


def test_what_accepts_connections_and_is_no_broker_is_said_and_then_refused(caplog: pytest.LogCaptureFixture) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        servers = f"127.0.0.1:{listening.getsockname()[1]}"
        with (
            Cluster(bootstrap_servers=servers) as cluster,
            pytest.raises(NoBroker, match=r"does not answer as a broker does: are kafka\.bootstrap\.servers and"),
        ):
            check_brokers(cluster, servers, patience_s=0, timeout_s=0.1)
    assert f"{servers} accepts connections, and has not answered as a broker does for 0 s" in caplog.text


class SlowCluster(Cluster):
    """Whose brokers take longer than the first time that they are given."""

    times: list[float]

    def is_answering(self, timeout_s: float) -> bool:
        self.times.append(timeout_s)
        return len(self.times) > 1 and super().is_answering(timeout_s)


def test_a_broker_that_is_slow_to_answer_is_said_to_be_and_is_not_refused(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    with SlowCluster(bootstrap_servers=broker.bootstrap_servers) as cluster:
        cluster.times = []
        check_brokers(cluster, broker.bootstrap_servers, timeout_s=PATIENCE_S)
        assert cluster.times == [5.0, PATIENCE_S]
        assert "has not answered as a broker does for 5 s" in caplog.text
        caplog.clear()
        check_brokers(cluster, broker.bootstrap_servers, patience_s=PATIENCE_S)
        assert caplog.text == ""
