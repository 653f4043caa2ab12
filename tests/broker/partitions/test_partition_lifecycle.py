"""Logs follow the image: a few in each turn of the loop, and a name is free only when its former logs are gone."""

from __future__ import annotations

from semel.broker.partitions.partition_lifecycle import LOGS_PER_TURN
from semel.testing import Broker
from semel.wire.apis import ApiKey
from semel.wire.messages.delete_topics import DeleteTopicsRequest
from tests.broker.raw_client import RawClient, batch

MANY = 3 * LOGS_PER_TURN + 7


def test_a_wide_topic_is_deleted_and_made_again(broker: Broker, client: RawClient, name: str) -> None:
    for _ in range(2):
        client.create_topic(name, MANY)
        assert client.produce(name, batch(b"value"), partition=MANY - 1).base_offset == 0
        answer = client.call(ApiKey.DELETE_TOPICS, 5, DeleteTopicsRequest(topic_names=[name]))
        assert [found.error_code for found in answer.responses] == [0]
        assert broker._broker is not None
        node = broker._broker.node
        assert not node.deleting
        assert not [partition for partition in list(node.logs.logs) if partition.topic == name]
