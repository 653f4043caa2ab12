"""The embedded protocol of consumers in classic groups (Kafka: ``ConsumerProtocol``). Its type is ``consumer``.

A member's subscription is sent as metadata in JoinGroup, the assignment by the group leader in SyncGroup; for the
coordinator both are opaque bytes. They begin with their version, an int16. New versions only add fields at the end. So
a version newer than ``VERSION_MAX`` is read as ``VERSION_MAX``, and the bytes after it are ignored.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from typing import Any, Final, TypeVar

from semel.errors import DecodeError
from semel.types import Buffer, TopicPartition
from semel.wire.codec import encoder
from semel.wire.decoding import Decoder, compile_decoder
from semel.wire.schema import BYTES, INT32, STRING, array, field, message, struct

CONSUMER_PROTOCOL_TYPE: Final = "consumer"
VERSION_MAX: Final = 3

T = TypeVar("T")


@struct
class ConsumerProtocolPartitions:
    """Partitions of one topic."""

    topic: str = field(STRING)
    partitions: list[int] = field(array(INT32))


@message(versions=(0, VERSION_MAX), flexible_since=None)
class ConsumerProtocolSubscription:
    """The topics that a member subscribes to, and the partitions that it owns, so that a sticky assignor can keep them.

    ``generation_id`` is the generation in which the member got ``owned_partitions``. If two members claim the same
    partition, the one with the later generation owns it.
    """

    topics: list[str] = field(array(STRING))
    user_data: bytes | None = field(BYTES, nullable=0, default=None)
    owned_partitions: list[ConsumerProtocolPartitions] = field(array(ConsumerProtocolPartitions), since=1)
    generation_id: int | None = field(INT32, since=2, absent=-1)
    rack_id: str | None = field(STRING, since=3, nullable=3, default=None)


@message(versions=(0, VERSION_MAX), flexible_since=None)
class ConsumerProtocolAssignment:
    assigned_partitions: list[ConsumerProtocolPartitions] = field(array(ConsumerProtocolPartitions))
    user_data: bytes | None = field(BYTES, nullable=0, default=None)


def encode_subscription(subscription: ConsumerProtocolSubscription, version: int = VERSION_MAX) -> bytes:
    return _encode(subscription, version)


def decode_subscription(data: Buffer) -> ConsumerProtocolSubscription:
    """Return the subscription.

    Raises ``DecodeError`` for other bytes: a group may use the protocol type for its own.
    """
    return _decode(ConsumerProtocolSubscription, data)


def encode_assignment(assignment: ConsumerProtocolAssignment, version: int = VERSION_MAX) -> bytes:
    return _encode(assignment, version)


def decode_assignment(data: Buffer) -> ConsumerProtocolAssignment:
    """Return the assignment. No bytes mean no partitions: a member that the leader left out gets no bytes."""
    return _decode(ConsumerProtocolAssignment, data) if len(data) else ConsumerProtocolAssignment()


def grouped(partitions: Iterable[TopicPartition]) -> list[ConsumerProtocolPartitions]:
    """Return partitions grouped by topic, sorted: equal sets give equal bytes, so a coordinator sees no change."""
    topics: dict[str, ConsumerProtocolPartitions] = {}
    for topic, index in sorted(partitions):
        topics.setdefault(topic, ConsumerProtocolPartitions(topic)).partitions.append(index)
    return list(topics.values())


def flattened(topics: Iterable[ConsumerProtocolPartitions]) -> list[TopicPartition]:
    return [TopicPartition(entry.topic, index) for entry in topics for index in entry.partitions]


_VERSION: Final = Struct(">h")
_decoders: dict[tuple[type[Any], int], Decoder] = {}


def _encode(message: object, version: int) -> bytes:
    return bytes(encoder(type(message), version)(message, bytearray(_VERSION.pack(version)), None))


def _decode(message_class: type[T], data: Buffer) -> T:
    if len(data) < _VERSION.size:
        raise DecodeError(f"{message_class.__name__}: {len(data)} bytes; a version takes {_VERSION.size}")
    (version,) = _VERSION.unpack_from(data)
    if version < 0:
        raise DecodeError(f"{message_class.__name__}: version {version}; versions are counted from 0")
    version = min(version, VERSION_MAX)
    decode = _decoders.get((message_class, version))
    if decode is None:
        decode = _decoders[message_class, version] = compile_decoder(message_class, version, open_ended=True)
    decoded: T = decode(data, _VERSION.size)
    return decoded
