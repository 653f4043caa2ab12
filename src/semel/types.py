"""Small values that every layer shares."""

from __future__ import annotations

import base64
from random import Random
from typing import Final, NamedTuple, TypeAlias
from uuid import UUID

Buffer: TypeAlias = bytes | bytearray | memoryview

ZERO_UUID: Final = UUID(int=0)

INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1

TRANSACTION_STATE_TOPIC: Final = "__transaction_state"
CONSUMER_OFFSETS_TOPIC: Final = "__consumer_offsets"
INTERNAL_TOPICS: Final = frozenset({TRANSACTION_STATE_TOPIC, CONSUMER_OFFSETS_TOPIC})
CLUSTER_METADATA_TOPIC: Final = "__cluster_metadata"
"""The log of Apache Kafka's controllers, which no client may create as a topic. Semel has none."""


class TopicPartition(NamedTuple):
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class Address(NamedTuple):
    """The host and port of a listener. The text form has an IPv6 address in brackets."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class ProducerIdentity(NamedTuple):
    """A producer id and its epoch, which an idempotent producer puts into its batches and requests."""

    producer_id: int
    producer_epoch: int


def random_uuid(random: Random) -> UUID:
    return UUID(int=random.getrandbits(128), version=4)


def kafka_uuid(value: UUID) -> str:
    """Return a UUID as Kafka writes it: 22 characters of URL-safe base64 without padding."""
    return base64.urlsafe_b64encode(value.bytes).decode("ascii").rstrip("=")


def parse_kafka_uuid(text: str) -> UUID:
    raw = base64.urlsafe_b64decode(text + "==")
    if len(raw) != 16:
        raise ValueError(f"{text!r} is not a Kafka uuid: it holds {len(raw)} bytes, not 16")
    return UUID(bytes=raw)
