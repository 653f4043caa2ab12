"""Real clients over their quotas: they are muted, they know for how long, and everything arrives."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import Producer, ThrottleEvent

from semel import blocking
from semel.admin import QuotaEntity, Quoted
from semel.testing import Broker
from tests.clients.conftest import LIBRARIES
from tests.clients.libraries import Library, Record
from tools.patience import PATIENCE_S

RECORDS = [Record(value=b"x" * 5000) for _ in range(30)]


@pytest.fixture
def throttled() -> Iterator[Broker]:
    """Two windows instead of eleven: a client may use one second of its quota at once."""
    with Broker(quota_window_num=2) as broker:
        with blocking.Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            limits = {"producer_byte_rate": 100_000.0, "consumer_byte_rate": 100_000.0, "request_percentage": 50.0}
            admin.quotas.alter({QuotaEntity(client_id=Quoted.DEFAULT): limits}).all()
            admin.topics.create("orders", partitions=1)
        yield broker


def muted(broker: Broker) -> int:
    assert broker._broker is not None
    return broker._broker.metrics.throttled.value


@pytest.mark.parametrize("library", LIBRARIES, ids=lambda library: library.name)
def test_a_library_over_its_quota_sends_and_reads_everything(library: Library, throttled: Broker) -> None:
    library.produce(throttled.bootstrap_servers, "orders", RECORDS)
    assert muted(throttled) > 0
    produced = muted(throttled)
    with library.reader(throttled.bootstrap_servers, "orders", "earliest") as reader:
        assert [stored.record.value for stored in reader.read(len(RECORDS))] == [record.value for record in RECORDS]
    assert muted(throttled) > produced


def test_librdkafka_tells_its_application_for_how_long_it_is_muted(throttled: Broker) -> None:
    told: list[float] = []

    def heard(event: ThrottleEvent) -> None:
        told.append(event.throttle_time)

    producer = Producer({"bootstrap.servers": throttled.bootstrap_servers, "throttle_cb": heard, "linger.ms": 0})
    for record in RECORDS:
        producer.produce("orders", record.value)
        producer.flush(PATIENCE_S)
    producer.poll(0)
    assert max(told, default=0) > 0
