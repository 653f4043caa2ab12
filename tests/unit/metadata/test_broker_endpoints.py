"""Where the clients of each listener reach a broker, in the image and in the metadata store."""

from __future__ import annotations

import json

import pytest

from semel.errors import DecodeError
from semel.metadata.image import Broker, BrokerRegistered, ClusterImage, Endpoint, PartitionState
from semel.metadata.paths import decode_broker, encode_broker

PLAIN = Broker(1, "a", 1, epoch=5)
NAMED = Broker(2, "b", 2, epoch=6, endpoints={"INSIDE": Endpoint("b", 2), "OUTSIDE": Endpoint("b.example.org", 3)})


@pytest.mark.parametrize("broker", [PLAIN, NAMED])
def test_a_registration_is_read_as_it_was_written(broker: Broker) -> None:
    assert decode_broker(broker.node_id, encode_broker(broker), broker.epoch) == broker


def test_an_older_broker_reads_the_first_listener() -> None:
    document = json.loads(encode_broker(NAMED))
    assert (document["host"], document["port"]) == ("b", 2)
    assert "endpoints" not in json.loads(encode_broker(PLAIN)), "as it was written before"


@pytest.mark.parametrize("endpoints", [[1], "x", {"A": 1}, {"A": ["h"]}])
def test_endpoints_that_are_none_are_damage(endpoints: object) -> None:
    document = {**json.loads(encode_broker(NAMED)), "endpoints": endpoints}
    with pytest.raises(DecodeError, match="is no broker"):
        decode_broker(2, json.dumps(document).encode(), 1)


@pytest.mark.parametrize(
    ("listener", "expected"),
    [("PLAINTEXT", {1: ("a", 1)}), ("INSIDE", {2: ("b", 2)}), ("OUTSIDE", {2: ("b.example.org", 3)}), ("X", {})],
)
def test_a_client_is_told_of_the_brokers_that_have_its_listener(
    listener: str, expected: dict[int, tuple[str, int]]
) -> None:
    image = ClusterImage("c").apply([BrokerRegistered(PLAIN), BrokerRegistered(NAMED)])
    assert {broker.node_id: endpoint for broker, endpoint in image.endpoints(listener)} == expected


def test_to_a_client_a_broker_without_its_listener_is_offline() -> None:
    state = PartitionState(2, 0, (1, 2), (1, 2))
    image = ClusterImage("c").apply([BrokerRegistered(PLAIN), BrokerRegistered(NAMED)])
    assert (image.leader(state), image.seen_by("INSIDE").leader(state)) == (2, 2)
    assert image.seen_by("PLAINTEXT").leader(state) is None
    alone = ClusterImage("c").apply([BrokerRegistered(PLAIN)])
    assert alone.seen_by("PLAINTEXT") is alone
