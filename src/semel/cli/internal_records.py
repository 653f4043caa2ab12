"""The records of the internal topics, in words."""

from __future__ import annotations

from dataclasses import asdict, is_dataclass
from typing import Any

from semel.coordinator.group import records as group_records
from semel.coordinator.transaction import records as transaction_records
from semel.coordinator.transaction.records import Transaction
from semel.errors import DecodeError
from semel.types import CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC


def decoded(topic: str, key: bytes | None, value: bytes | None) -> dict[str, Any] | None:
    """``key`` and ``value`` as JSON has them; ``None`` for a topic of users, and for what cannot be read."""
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
    fields = asdict(record)
    kind = type(record).__name__
    name = fields.pop("key", None)
    about: dict[str, Any] = {"kind": kind}
    if isinstance(name, tuple):
        about |= {"group": name[0], "topic": name[1], "partition": name[2]}
    else:
        about["group"] = fields.pop("group_id", None)
    return {"key": about, "value": fields or None}
