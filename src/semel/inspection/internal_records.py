"""Decoding of the records of the internal topics to dictionaries, for people to read."""

from __future__ import annotations

from dataclasses import asdict, is_dataclass
from typing import Any

from semel.coordinator.group import records as group_records
from semel.coordinator.group.consumer.records import AssignedPartition
from semel.coordinator.group.records import GroupMetadata
from semel.coordinator.transaction import records as transaction_records
from semel.coordinator.transaction.records import Transaction
from semel.errors import DecodeError
from semel.types import CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from semel.wire.messages.consumer_protocol import (
    CONSUMER_PROTOCOL_TYPE,
    decode_assignment,
    decode_subscription,
    flattened,
)


def decoded(topic: str, key: bytes | None, value: bytes | None) -> dict[str, Any] | None:
    """Return a record's ``key`` and ``value`` as dictionaries of plain values; ``None`` for a record of another topic,
    and for one that cannot be decoded."""
    try:
        if topic == TRANSACTION_STATE_TOPIC:
            return _transaction(key, value)
        if topic == CONSUMER_OFFSETS_TOPIC:
            return _group(key, value)
    except DecodeError:
        return None
    return None


def _transaction(key: bytes | None, value: bytes | None) -> dict[str, Any] | None:
    record = transaction_records.decode(key, value)
    if record is None:
        return None
    if not isinstance(record, Transaction):
        return {"key": {"transactional_id": record.transactional_id}, "value": None}
    fields = record._asdict()
    del fields["transactional_id"]
    fields["state"] = record.state.kafka_name
    fields["partitions"] = [f"{topic}:{index}" for topic, index in sorted(record.partitions)]
    return {"key": {"transactional_id": record.transactional_id}, "value": fields}


def _group(key: bytes | None, value: bytes | None) -> dict[str, Any] | None:
    record = group_records.decode(key, value)
    if record is None or not is_dataclass(record):
        return None
    fields = {name: _readable(value) for name, value in asdict(record).items()}
    if isinstance(record, GroupMetadata) and record.protocol_type == CONSUMER_PROTOCOL_TYPE:
        for member in fields["members"]:
            member["subscription"] = subscription_of(member["subscription"])
            member["assignment"] = assignment_of(member["assignment"])
    elif fields.get("classic") is not None:
        protocols = fields["classic"]["protocols"]
        fields["classic"]["protocols"] = {name: subscription_of(data) for name, data in protocols}
    kind = type(record).__name__
    name = fields.pop("key", None)
    about: dict[str, Any] = {"kind": kind}
    if isinstance(name, tuple):
        about |= {"group": name[0], "topic": name[1], "partition": name[2]}
    else:
        about["group"] = fields.pop("group_id", None)
    return {"key": about, "value": fields or None}


def subscription_of(data: bytes) -> dict[str, Any] | bytes:
    """Return the subscription of a member of the consumer protocol, with the partitions that it owns; the bytes
    themselves if they cannot be decoded."""
    try:
        read = decode_subscription(data)
    except DecodeError:
        return data
    owned = [f"{topic}:{index}" for topic, index in flattened(read.owned_partitions)]
    return {"topics": read.topics, "owned": owned, "generation": read.generation_id, "rack": read.rack_id}


def assignment_of(data: bytes) -> list[str] | bytes:
    """Return the partitions that a member of the consumer protocol was assigned; the bytes themselves if they cannot be
    decoded."""
    try:
        return [f"{topic}:{index}" for topic, index in flattened(decode_assignment(data).assigned_partitions)]
    except DecodeError:
        return data


def _readable(value: Any) -> Any:
    """Return partitions with topic ids as a sorted list of ``ID:INDEX``, and any other value unchanged."""
    if isinstance(value, frozenset) and all(isinstance(one, AssignedPartition) for one in value):
        return [f"{one.topic_id}:{one.partition}" for one in sorted(value)]
    return value
