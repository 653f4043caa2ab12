"""Producers beyond what a partition or a coordinator remembers: they wait, and go on when there is room."""

from __future__ import annotations

import pytest

from semel.blocking import Producer
from semel.broker.coordinators import coordinators
from semel.coordinator.transaction.settings import TransactionSettings
from semel.log.producers import producer_state
from semel.testing import Broker
from tools.patience import PATIENCE_S


def test_a_producer_beyond_the_limit_of_a_partition_is_served_when_an_idle_one_is_forgotten(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(producer_state, "PRODUCERS_MAX", 1)
    with (
        Broker(producer_id_expiration_ms=60_000, producer_id_expiration_check_interval_ms=1000) as broker,
        Producer(bootstrap_servers=broker.bootstrap_servers) as first,
        Producer(bootstrap_servers=broker.bootstrap_servers) as second,
    ):
        first.send("orders", b"1").result(PATIENCE_S)
        waiting = second.send("orders", b"2")
        second_try = first.send("orders", b"3")
        second_try.result(PATIENCE_S)
        assert not waiting.done(), "it is sent again and again"
        broker.clock.advance(minutes=2)
        waiting.result(PATIENCE_S)
        assert [record.value for record in broker.committed("orders")] == [b"1", b"3", b"2"]


def test_a_transaction_beyond_the_limit_of_a_coordinator_begins_when_another_has_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def with_one_open(**settings: int) -> TransactionSettings:
        return TransactionSettings(open_max=1, **settings)

    monkeypatch.setattr(coordinators, "TransactionSettings", with_one_open)
    with Broker(transaction_state_log_num_partitions=1) as broker:
        servers = broker.bootstrap_servers
        with (
            Producer(bootstrap_servers=servers, transactional_id="first") as first,
            Producer(bootstrap_servers=servers, transactional_id="second") as second,
        ):
            first.begin()
            first.send("orders", b"1").result(PATIENCE_S)
            second.begin()
            waiting = second.send("orders", b"2")
            assert not waiting.done()
            first.commit()
            waiting.result(PATIENCE_S)
            second.commit()
        assert [record.value for record in broker.committed("orders")] == [b"1", b"2"]
