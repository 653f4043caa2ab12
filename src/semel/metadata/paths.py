"""The paths and values of the cluster's metadata in the metadata store.

    /cluster/id                 the cluster's id, as text
    /features                   the levels of the cluster's features; in a cluster of one node its settings have them
    /topics/<name>              id, partitions and configs of a topic
    /config/brokers/default     the dynamic configs of all brokers
    /config/brokers/<id>        the dynamic configs of one broker
    /config/groups/<id>         the configs of a group; its id is percent-encoded
    /config/client-metrics/<name>   a client metrics subscription; its name is percent-encoded
    /latest_producer_id_block   the last block of producer ids that was claimed (see ``producer_id_blocks``)
    /brokers/<id>               a registered broker: ephemeral
    /controller                 the broker that is the controller: ephemeral
    /acls, /users, /quotas      see ``security.paths``

Values are JSON with sorted keys, so that the same state has the same bytes. A value that another version of Semel wrote
may have keys that this one does not know; they are ignored.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from semel.errors import DecodeError
from semel.metadata.image import Broker, Endpoint, PartitionState, Topic
from semel.types import kafka_uuid, parse_kafka_uuid

CLUSTER_ID: Final = "/cluster/id"
TOPICS: Final = "/topics"
BROKER_CONFIGS: Final = "/config/brokers"
GROUP_CONFIGS: Final = "/config/groups"
CLIENT_METRICS: Final = "/config/client-metrics"
BROKERS: Final = "/brokers"
LATEST_PRODUCER_ID_BLOCK: Final = "/latest_producer_id_block"
FEATURES: Final = "/features"
CONTROLLER: Final = "/controller"
ACLS: Final = "/acls"
USERS: Final = "/users"
QUOTAS: Final = "/quotas"


def topic_path(name: str) -> str:
    return f"{TOPICS}/{name}"


def broker_configs_path(node_id: int | None) -> str:
    return f"{BROKER_CONFIGS}/{'default' if node_id is None else node_id}"


def group_configs_path(group_id: str) -> str:
    return f"{GROUP_CONFIGS}/{quoted(group_id)}"


def client_metrics_path(name: str) -> str:
    return f"{CLIENT_METRICS}/{quoted(name)}"


def quoted(name: str) -> str:
    """Return a name, which may have any character, as one part of a path. ZooKeeper has no nodes ``.`` and ``..``."""
    from urllib.parse import quote  # Most clusters have no such name, and a start should not pay for the import.

    return name.replace(".", "%2E") if name in (".", "..") else quote(name, safe="")


def broker_path(node_id: int) -> str:
    return f"{BROKERS}/{node_id}"


def encode_topic(topic: Topic) -> bytes:
    """Encode a topic. A partition is a row: leader (or null), leader epoch, partition epoch, replicas, in-sync set."""
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
    """Encode a broker without its epoch, which is the version of this value."""
    document: dict[str, Any] = {"host": broker.host, "port": broker.port, "rack": broker.rack}
    if broker.inter_broker is not None:
        document["inter_broker"] = list(broker.inter_broker)
    if broker.directory_id is not None:
        document["directory_id"] = broker.directory_id
    if broker.endpoints:
        document["endpoints"] = {name: list(endpoint) for name, endpoint in broker.endpoints.items()}
    return encode_json(document)


def decode_broker(node_id: int, value: bytes, version: int) -> Broker:
    document = decode_json(broker_path(node_id), value)
    try:
        endpoint = document.get("inter_broker")
        return Broker(
            node_id,
            document["host"],
            document["port"],
            document["rack"],
            epoch=version,
            inter_broker=None if endpoint is None else Endpoint(*endpoint),
            directory_id=document.get("directory_id"),
            endpoints={name: Endpoint(*known) for name, known in document.get("endpoints", {}).items()},
        )
    except (AttributeError, KeyError, TypeError) as error:
        raise DecodeError(f"{broker_path(node_id)} holds {value[:200]!r}, which is no broker: {error!r}") from None


def encode_controller(node_id: int) -> bytes:
    return encode_json({"broker": node_id})


def decode_controller(value: bytes) -> int:
    return _number_in(CONTROLLER, value, "broker")


def encode_features(levels: Mapping[str, int]) -> bytes:
    return encode_json(dict(levels))


def decode_features(value: bytes) -> dict[str, int]:
    return {name: _number_in(FEATURES, value, name) for name in decode_json(FEATURES, value)}


def _number_in(path: str, value: bytes, name: str) -> int:
    number = decode_json(path, value).get(name)
    if not isinstance(number, int):
        raise DecodeError(f"{path} holds {value[:200]!r}, where {name} is not a number")
    return number


def encode_json(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()


def decode_json(path: str, value: bytes) -> dict[str, Any]:
    try:
        document = json.loads(value)
    except (ValueError, RecursionError) as error:
        raise DecodeError(f"{path} holds {value[:200]!r}, which is not JSON: {error}") from None
    if not isinstance(document, dict):
        raise DecodeError(f"{path} holds {value[:200]!r}, which is not a JSON object")
    return document
