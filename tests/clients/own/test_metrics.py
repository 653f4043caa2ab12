"""What ``metrics()`` says of each client, against Semel's own broker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from semel import blocking
from semel.client.machine.connection.traffic import Traffic
from semel.errors import AbortableError
from semel.testing import Broker
from semel.wire.apis import ApiKey
from tools.patience import PATIENCE_MS


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(num_partitions=1) as running:
        yield running


def test_a_producer_counts_its_records_and_a_consumer_those_it_handed_out(broker: Broker) -> None:
    servers = {"bootstrap_servers": broker.bootstrap_servers}
    with blocking.Producer(**servers, max_request_size=10_000) as producer:
        for number in range(7):
            producer.send("counted", b"%d" % number, partition=0)
        producer.flush()
        with pytest.raises(AbortableError):
            producer.send("counted", bytes(20_000))
        counted = producer.metrics()
        assert (counted["record-send-total"], counted["record-error-total"]) == (7, 0)
        assert counted["buffer-available-bytes"] == counted["buffer-total-bytes"] == 32 * 2**20
        assert counted["connection-count"] >= 1
        assert counted["request-total"] == counted["response-total"] >= 2
        assert counted["outgoing-byte-total"] > 70
        assert 0 < counted["request-latency-avg"] <= counted["request-latency-max"]

    with blocking.Consumer(**servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([("counted", 0)])
        assert len(consumer.poll(PATIENCE_MS, max_records=3)) == 3
        counted = consumer.metrics()
        assert counted["records-consumed-total"] == 3
        assert counted["records-lag-max"] == 4
        assert counted["assigned-partitions"] == 1
        assert len(consumer.poll(PATIENCE_MS)) == 4
        assert consumer.metrics()["records-lag-max"] == 0


def test_an_admin_client_counts_its_requests(broker: Broker) -> None:
    with blocking.Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.topics.list()
        before = admin.metrics()
        admin.cluster.describe()
        after = admin.metrics()
        assert after["request-total"] == before["request-total"] + 1
        assert after["incoming-byte-total"] > before["incoming-byte-total"]
    assert admin.metrics()["connection-count"] == 0


def test_what_brokers_hold_back_on_purpose_is_no_latency() -> None:
    traffic = Traffic()
    for api_key, latency_ms in ((ApiKey.METADATA, 4.0), (ApiKey.FETCH, 500.0), (ApiKey.PRODUCE, 8.0)):
        traffic.sent([b"abc", b"de"])
        traffic.answered(b"answer", api_key, latency_ms)
    counted = traffic.metrics(in_flight=2)
    assert (counted["request-latency-avg"], counted["request-latency-max"]) == (6.0, 8.0)
    assert (counted["outgoing-byte-total"], counted["incoming-byte-total"]) == (15, 18)
    assert (counted["request-total"], counted["response-total"], counted["requests-in-flight"]) == (3, 3, 2)
