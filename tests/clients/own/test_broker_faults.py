"""The fixture's faults: each strikes as often as it was armed for, on the API it was armed for, and leaves the rest."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from semel import Producer, blocking
from semel.errors import ErrorCode, KafkaError
from semel.testing import Broker
from tools.patience import PATIENCE_S


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(num_partitions=1) as running:
        yield running


def _values(broker: Broker, topic: str = "orders") -> list[bytes | None]:
    return [record.value for record in broker.committed(topic)]


def test_a_dropped_response_leaves_the_record_in_the_log_and_a_retry_leaves_it_once(broker: Broker) -> None:
    """Scenario 4: the answer is lost after the append."""
    lost = broker.faults.drop_response("Produce")
    with blocking.Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        sent = producer.send("orders", b"one").result(PATIENCE_S)
        producer.send("orders", b"two").result(PATIENCE_S)
    assert lost.hits == 1
    assert sent.offset == 0
    assert _values(broker) == [b"one", b"two"]


def test_a_dropped_request_never_reaches_the_broker(broker: Broker) -> None:
    lost = broker.faults.drop_request("Produce")
    with blocking.Producer(bootstrap_servers=broker.bootstrap_servers, enable_idempotence=False, retries=0) as producer:
        with pytest.raises(KafkaError):
            producer.send("orders", b"lost").result(PATIENCE_S)
        producer.send("orders", b"kept").result(PATIENCE_S)
    assert lost.hits == 1
    assert _values(broker) == [b"kept"]


def test_a_refused_request_is_answered_with_the_error_and_not_served(broker: Broker) -> None:
    refused = broker.faults.fail("Produce", "INVALID_RECORD")
    with blocking.Producer(bootstrap_servers=broker.bootstrap_servers, enable_idempotence=False) as producer:
        with pytest.raises(KafkaError) as raised:
            producer.send("orders", b"refused").result(PATIENCE_S)
        producer.send("orders", b"kept").result(PATIENCE_S)
    assert raised.value.code is ErrorCode.INVALID_RECORD
    assert refused.hits == 1
    assert _values(broker) == [b"kept"]


def test_a_delayed_request_arrives_later_and_in_order(broker: Broker) -> None:
    with blocking.Producer(bootstrap_servers=broker.bootstrap_servers, linger_ms=0) as producer:
        producer.send("orders", b"first").result(PATIENCE_S)
        delayed = broker.faults.delay("Produce", seconds=0.3)
        late = producer.send("orders", b"late")
        delayed.wait()
        assert _values(broker) == [b"first"]
        late.result(PATIENCE_S)
    assert _values(broker) == [b"first", b"late"]


def test_faults_strike_in_the_order_in_which_they_were_armed_and_then_no_more(broker: Broker) -> None:
    first = broker.faults.fail("InitProducerId", ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, times=2)
    second = broker.faults.drop_response("InitProducerId")
    with blocking.Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        producer.send("orders", b"value").result(PATIENCE_S)
    assert (first.hits, second.hits) == (2, 1)
    assert broker.faults.armed == []


def test_answers_keep_the_order_of_the_requests_when_one_of_them_is_not_the_brokers(broker: Broker) -> None:
    """Five requests under way on one connection, the third refused on the wire: the client notices no disorder."""

    async def produce() -> list[ErrorCode]:
        async with Producer(
            bootstrap_servers=broker.bootstrap_servers, linger_ms=0, batch_size=1, enable_idempotence=False, retries=0
        ) as producer:
            await producer.send("orders", b"warm")
            broker.faults.delay("Produce", seconds=0.1)
            refused = broker.faults.fail("Produce", "INVALID_RECORD")
            sent = [producer.send("orders", str(number).encode()) for number in range(5)]
            results = await asyncio.gather(*sent, return_exceptions=True)
            assert refused.hits == 1
            return [result.code for result in results if isinstance(result, KafkaError)]

    assert asyncio.run(produce()) == [ErrorCode.INVALID_RECORD]
    assert len(_values(broker)) == 5


def test_a_coordinator_that_moves_in_a_transaction_does_not_lose_it(broker: Broker) -> None:
    with blocking.Producer(bootstrap_servers=broker.bootstrap_servers, transactional_id="payments") as producer:
        producer.begin()
        producer.send("orders", b"paid").result(PATIENCE_S)
        broker.faults.move_coordinator("payments")
        producer.commit()
    assert _values(broker) == [b"paid"]


def test_time_that_passes_for_the_broker_aborts_a_transaction_that_nobody_ends(broker: Broker) -> None:
    """Scenario 31: a transaction that outlives its timeout is aborted, and its owner is told."""
    with blocking.Producer(bootstrap_servers=broker.bootstrap_servers, transactional_id="payments") as producer:
        producer.begin()
        producer.send("orders", b"forgotten").result(PATIENCE_S)
        broker.clock.advance(minutes=15)
        with pytest.raises(KafkaError):
            producer.commit()
    with blocking.Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        producer.send("orders", b"later").result(PATIENCE_S)
    assert _values(broker) == [b"later"]


def test_committed_shows_neither_aborted_nor_open_transactions(broker: Broker) -> None:
    with blocking.Producer(bootstrap_servers=broker.bootstrap_servers, transactional_id="payments") as producer:
        with producer.transaction():
            producer.send("orders", b"kept", key=b"k", headers=[("trace", b"1")])
        producer.begin()
        producer.send("orders", b"aborted").result(PATIENCE_S)
        producer.abort()
        producer.begin()
        producer.send("orders", b"open").result(PATIENCE_S)
        seen = broker.committed("orders")
        producer.abort()
    assert [(record.key, record.value, list(record.headers)) for record in seen] == [(b"k", b"kept", [("trace", b"1")])]


def test_committed_names_what_does_not_exist(broker: Broker) -> None:
    with pytest.raises(KeyError, match="there is no topic 'nothing'"):
        broker.committed("nothing")


@pytest.mark.parametrize(
    ("arm", "message"),
    [
        (lambda faults: faults.drop_response("Prodduce"), "did you mean Produce"),
        (lambda faults: faults.fail("EndTxn", "COORDINATOR_NOT_AVAILABEL"), "did you mean COORDINATOR_NOT_AVAILABLE"),
        (lambda faults: faults.drop_request("Fetch", times=0), "times=0"),
        (lambda faults: faults.delay("Fetch", seconds=-1), "-1"),
    ],
)
def test_a_fault_that_makes_no_sense_is_refused(broker: Broker, arm: object, message: str) -> None:
    assert callable(arm)
    with pytest.raises(ValueError, match=message):
        arm(broker.faults)


def test_a_fault_that_does_not_strike_says_so(broker: Broker) -> None:
    fault = broker.faults.fail("EndTxn", "NOT_COORDINATOR", times=2)
    with pytest.raises(TimeoutError, match="refusal NOT_COORDINATOR of EndTxn: 0 of 2"):
        fault.wait(0.01)
    broker.faults.clear()
    assert broker.faults.armed == []


def test_a_hundred_brokers_in_a_row_leave_no_thread_and_no_file_behind() -> None:
    with Broker():
        pass
    threads, files = set(threading.enumerate()), len(os.listdir("/proc/self/fd"))
    for _ in range(100):
        with Broker():
            pass
    # What other tests have left behind may end meanwhile.
    assert threads.issuperset(threading.enumerate())
    assert len(os.listdir("/proc/self/fd")) <= files


def test_the_pytest_plugin_starts_a_broker_with_the_settings_of_its_mark(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        """
import pytest
from semel import blocking

@pytest.mark.semel_broker(num_partitions=3)
def test_it(semel_broker):
    with blocking.Producer(bootstrap_servers=semel_broker.bootstrap_servers) as producer:
        producer.send("orders", b"value", partition=2).result(120)
    assert [record.partition for record in semel_broker.committed("orders")] == [2]
"""
    )
    command = [sys.executable, "-m", "pytest", "-q", "--strict-markers", "-p", "no:cacheprovider", "test_it.py"]
    finished = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert finished.returncode == 0, finished.stdout + finished.stderr


def test_a_fault_can_skip_requests_and_tell_when_it_strikes(broker: Broker) -> None:
    struck: list[str] = []
    with blocking.Producer(bootstrap_servers=broker.bootstrap_servers, linger_ms=0) as producer:
        producer.send("orders", b"first").result(PATIENCE_S)
        lost = broker.faults.drop_response("Produce", skip=1, then=lambda: struck.append("now"))
        producer.send("orders", b"skipped").result(PATIENCE_S)
        assert (lost.hits, struck) == (0, [])
        producer.send("orders", b"struck").result(PATIENCE_S)
    assert (lost.hits, struck) == (1, ["now"])
    assert _values(broker) == [b"first", b"skipped", b"struck"]


def test_a_held_request_waits_until_it_is_released(broker: Broker) -> None:
    with blocking.Producer(bootstrap_servers=broker.bootstrap_servers, linger_ms=0) as producer:
        producer.send("orders", b"first").result(PATIENCE_S)
        held = broker.faults.hold("Produce")
        late = producer.send("orders", b"late")
        held.wait()
        assert _values(broker) == [b"first"]
        held.release()
        late.result(PATIENCE_S)
    assert _values(broker) == [b"first", b"late"]


def test_the_request_after_an_answer_is_dropped_and_not_one_that_clients_make_by_themselves(broker: Broker) -> None:
    with blocking.Producer(bootstrap_servers=broker.bootstrap_servers, transactional_id="payments") as producer:
        producer.begin()
        dropped = broker.faults.drop_next_request("Produce")
        producer.send("orders", b"paid").result(PATIENCE_S)
        assert dropped.hits == 0
        assert producer.partitions_for("unknown") == 1  # Metadata.
        assert dropped.hits == 0
        producer.commit()
        assert dropped.hits == 1
    assert _values(broker) == [b"paid"]
