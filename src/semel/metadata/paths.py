"""How the cluster is written into the metadata store.

    /cluster/id               the cluster's id, as text
    /topics/<name>            id, partitions and configs of a topic
    /config/brokers/default   what was altered for all brokers while they run
    /config/brokers/<id>      what was altered for one
    /producer_ids             the first producer id that is not claimed yet (see ``producer_id_blocks``)
    /brokers/<id>             a broker that lives: ephemeral

Values are JSON with sorted keys, so that the same state is the same bytes. A value that another version of Semel wrote
may have keys that this one does not know; they are ignored.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from semel.errors import DecodeError
from semel.metadata.image import Broker, PartitionState, Topic
from semel.types import kafka_uuid, parse_kafka_uuid

CLUSTER_ID: Final = "/cluster/id"
TOPICS: Final = "/topics"
BROKER_CONFIGS: Final = "/config/brokers"
BROKERS: Final = "/brokers"
PRODUCER_IDS: Final = "/producer_ids"


def topic_path(name: str) -> str:
    return f"{TOPICS}/{name}"


def broker_configs_path(node_id: int | None) -> str:
    return f"{BROKER_CONFIGS}/{'default' if node_id is None else node_id}"


def broker_path(node_id: int) -> str:
    return f"{BROKERS}/{node_id}"


def encode_topic(topic: Topic) -> bytes:
    """A partition is a row: leader (null for none), leader epoch, partition epoch, replicas, in-sync replicas."""
    partitions = [
        [state.leader, state.leader_epoch, state.partition_epoch, list(state.replicas), list(state.isr)]
        for state in topic.partitions
    ]
    return encode_json({"id": kafka_uuid(topic.id), "partitions": partitions, "configs": dict(topic.configs)})


def decode_topic(name: str, value: bytes) -> Topic:
    document = decode_json(topic_path(name), value)
    try:
        partitions = tuple(
            PartitionState(leader, leader_epoch, tuple(replicas), tuple(isr), partition_epoch)
            for leader, leader_epoch, partition_epoch, replicas, isr in document["partitions"]
        )
        return Topic(name, parse_kafka_uuid(document["id"]), partitions, document["configs"])
    except (KeyError, TypeError, ValueError) as error:
        raise DecodeError(f"{topic_path(name)} holds {value[:200]!r}, which is no topic: {error!r}") from None


def encode_configs(configs: Mapping[str, str]) -> bytes:
    return encode_json(dict(configs))


def decode_configs(path: str, value: bytes) -> dict[str, str]:
    return {str(name): str(text) for name, text in decode_json(path, value).items()}


def encode_broker(broker: Broker) -> bytes:
    return encode_json({"host": broker.host, "port": broker.port, "rack": broker.rack, "epoch": broker.epoch})


def decode_broker(node_id: int, value: bytes) -> Broker:
    document = decode_json(broker_path(node_id), value)
    try:
        return Broker(node_id, document["host"], document["port"], document["rack"], document["epoch"])
    except KeyError as error:
        raise DecodeError(f"{broker_path(node_id)} holds {value[:200]!r}, which is no broker: {error!r}") from None


def encode_json(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()


def decode_json(path: str, value: bytes) -> dict[str, Any]:
    try:
        document = json.loads(value)
    except ValueError as error:
        raise DecodeError(f"{path} holds {value[:200]!r}, which is not JSON: {error}") from None
    if not isinstance(document, dict):
        raise DecodeError(f"{path} holds {value[:200]!r}, which is not a JSON object")
    return document
