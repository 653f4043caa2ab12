"""A broker over damaged partitions: it starts, serves the others, and says once and for all what cannot be served."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from semel.errors import ErrorCode
from semel.testing import Broker
from semel.wire.apis import ApiKey
from semel.wire.messages.find_coordinator import Coordinator, FindCoordinatorRequest
from tests.broker.raw_client import RawClient, batch, values


def found(client: RawClient, key: str, key_type: int) -> Coordinator:
    request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])
    (coordinator,) = client.call(ApiKey.FIND_COORDINATOR, 4, request).coordinators
    return coordinator


def test_a_log_that_lost_synced_records_is_refused_and_the_other_partition_is_served(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    broker = Broker(tmp_path).start()
    with RawClient(broker.port) as client:
        client.create_topic("orders", partitions=2)
        for partition in (0, 1):
            client.produce("orders", batch(b"x"), partition=partition)
    broker.stop()
    segment = tmp_path / "orders-0" / f"{0:020}.log"
    segment.write_bytes(segment.read_bytes()[:-1])
    with caplog.at_level(logging.ERROR):
        broker.start()
    assert "orders-0 is offline" in caplog.text
    assert str(segment) in caplog.text
    assert "semel log repair" in caplog.text
    with RawClient(broker.port) as client:
        assert client.produce("orders", batch(b"y"), partition=0).error_code == ErrorCode.KAFKA_STORAGE_ERROR
        assert client.produce("orders", batch(b"y"), partition=1).base_offset == 1
        assert values(client.fetch("orders", 0, partition=1)) == [(0, b"x"), (1, b"y")]
    broker.stop()


@pytest.mark.parametrize(("topic", "key_type"), [("__consumer_offsets", 0), ("__transaction_state", 1)])
def test_an_id_whose_coordinator_partition_is_damaged_gets_a_final_answer_with_the_remedy(
    tmp_path: Path, topic: str, key_type: int
) -> None:
    broker = Broker(tmp_path).start()
    with RawClient(broker.port) as client:
        assert found(client, "a", key_type).error_code == ErrorCode.NONE
    broker.stop()
    folders = sorted(path for path in tmp_path.iterdir() if path.name.startswith(topic))
    for folder in folders[1:]:
        for path in folder.iterdir():
            path.unlink()
        folder.rmdir()
        folder.write_bytes(b"no folder")
    broker.start()
    with RawClient(broker.port) as client:
        answers = [found(client, f"key {number}", key_type) for number in range(60)]
        codes = {answer.error_code for answer in answers}
        assert ErrorCode.UNKNOWN_SERVER_ERROR in codes
        assert codes <= {ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.NONE}
        texts = [answer.error_message or "" for answer in answers if answer.error_code]
        assert all(topic in text and "semel log repair" in text for text in texts)
    broker.stop()
