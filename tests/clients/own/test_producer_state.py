"""``Producer.state``: what a producer is doing, at any moment."""

from __future__ import annotations

import pytest

from semel.blocking import Producer
from semel.client.values import PartitionProgress
from semel.errors import AbortableError, FatalError
from semel.testing import Broker
from tools.patience import PATIENCE_S


def test_an_idempotent_producer_shows_what_is_numbered_and_what_is_acknowledged() -> None:
    with Broker() as broker:
        held = broker.faults.hold("Produce", skip=1)
        producer = Producer(bootstrap_servers=broker.bootstrap_servers, batch_size=1)
        assert (producer.state.state, producer.state.producer_id, producer.state.partitions) == ("open", None, {})
        with producer:
            producer.send("orders", b"1", partition=0).result(PATIENCE_S)
            second = producer.send("orders", b"2", partition=0)
            held.wait(PATIENCE_S)
            seen = producer.state
            held.release()
            second.result(PATIENCE_S)
            assert producer.state.partitions == {("orders", 0): PartitionProgress(2, 2, 0, 0)}
        assert (seen.state, seen.transactional_id, seen.producer_epoch) == ("open", None, 0)
        assert seen.partitions == {("orders", 0): PartitionProgress(2, 1, 1, 0)}
        assert producer.state.state == "closed"


def test_a_transactional_producer_shows_the_state_of_its_transaction_and_what_went_wrong() -> None:
    with Broker() as broker:
        servers = {"bootstrap_servers": broker.bootstrap_servers}
        old = Producer(**servers, transactional_id="billing")
        assert old.state.state == "uninitialized"
        old.init()
        assert (old.state.state, old.state.transactional_id, old.state.producer_epoch) == ("ready", "billing", 0)
        old.begin()
        assert old.state.state == "in transaction"
        with Producer(**servers, transactional_id="billing") as new:
            assert (new.state.producer_id, new.state.producer_epoch) == (old.state.producer_id, 1)
        with pytest.raises(AbortableError):
            old.send("orders", b"1").result(PATIENCE_S)
        assert (old.state.state, "INVALID_PRODUCER_EPOCH" in str(old.state.error)) == ("abortable error", True)
        with pytest.raises(FatalError):
            old.abort()
        assert (old.state.state, "PRODUCER_FENCED" in str(old.state.error)) == ("fatal error", True)
        old.close(timeout_ms=0)
