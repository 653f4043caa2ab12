"""Parses the common Produce request (one topic, one partition) in place, without building a ProduceRequest.

A few numbers are read, and the positions of the rest are computed from them. A request of another form is left to the
general parser (``requests/handlers/produce``), and so is one for a partition that cannot be written to.

The law: both parsers return the same batches for the same bytes. Only the way in which the response is encoded differs.
"""

from __future__ import annotations

import struct
from struct import Struct
from typing import Final, TypeAlias
from uuid import UUID

from semel.broker.metrics.metrics import Histogram
from semel.broker.network.connection import Connection
from semel.broker.network.request import Request
from semel.broker.node import Node
from semel.broker.partitions.partitions import Partition
from semel.broker.produce.produce_batch import TOPIC_IDS_SINCE, ProduceBatch, writable_partition
from semel.broker.produce.produce_operation import ProduceOperation, Respond
from semel.broker.produce.produce_response import ResponseTemplate
from semel.errors import KafkaError
from semel.security.rights import WRITE_TOPIC, WRITE_TRANSACTIONAL_ID, Rights
from semel.types import ZERO_UUID
from semel.wire.apis import APIS, ApiKey
from semel.wire.records import HEADER_SIZE

FLEXIBLE_SINCE: Final = 9

Positions: TypeAlias = tuple[int, int, str | None, int, int, bytes, int, int]
"""What ``find`` reads from a frame: version, correlation id, transactional id, acks, timeout, the bytes that name topic
and partition, and the positions where the records start and stop."""

_API: Final = APIS[ApiKey.PRODUCE]
_PRODUCE: Final = int(ApiKey.PRODUCE)
_MIN_VERSION: Final = _API.min_version
_MAX_VERSION: Final = _API.max_version

_HEADER: Final = Struct(">hhih")  # api key, version, correlation id, length of the client id
_BODY: Final = Struct(">hhiih")  # length of the transactional id, acks, timeout, number of topics, length of the name
_PARTITION: Final = Struct(">iii")  # number of partitions, partition, length of the records
_BODY_FLEXIBLE: Final = Struct(">hiB")  # behind the transactional id: acks, timeout, number of topics + 1
_LENGTH: Final = Struct(">h")
_INDEX: Final = Struct(">i")
_NULL: Final = -1
_ONE: Final = 2  # The count of an array of one element, in flexible versions.


_Target: TypeAlias = tuple[int, Partition, Respond]
"""The partition that a request names: its index, the partition, and the function that responds to such a request."""


def may_write(rights: Rights, transactional_id: str | None, partition: Partition) -> bool:
    return rights.may(WRITE_TOPIC, partition.topic_partition.topic) and (
        transactional_id is None or rights.may(WRITE_TRANSACTIONAL_ID, transactional_id)
    )


class InPlaceParser:
    def __init__(self, node: Node, time: Histogram) -> None:
        self._node = node
        self._time = time
        self._targets: dict[tuple[int, bytes], _Target] = {}
        node.partitions.caches.append(self._targets)

    def parse(self, connection: Connection, frame: memoryview) -> ProduceOperation | None:
        """Return the operation for the request in a frame, or None: then the general parser must parse it, and nothing
        was changed."""
        try:
            positions = find(frame)
            if positions is None:
                return None
            version, correlation_id, transactional_id, acks, timeout_ms, named, start, stop = positions
            if stop - start < HEADER_SIZE:
                return None
            target = self._target(version, named)
        except (IndexError, struct.error, UnicodeDecodeError):
            return None
        if target is None:
            return None
        index, partition, respond = target
        authorizer = self._node.authorizer
        if authorizer is not None and not may_write(
            authorizer.rights(connection.principal, connection.host), transactional_id, partition
        ):
            return None  # The general parser refuses it.
        return ProduceOperation(
            self._node,
            Request(connection, _API, version, correlation_id, None, self._time),
            transactional_id,
            acks,
            timeout_ms,
            (ProduceBatch(index, frame[start:stop], partition),),
            respond,
        )

    def _target(self, version: int, named: bytes) -> _Target | None:
        target = self._targets.get((version, named))
        if target is None:
            target = self._look_up(version, named)
            if target is not None:
                self._targets[version, named] = target
        return target

    def _look_up(self, version: int, named: bytes) -> _Target | None:
        (index,) = _INDEX.unpack_from(named, len(named) - _INDEX.size)
        topic, topic_id = "", ZERO_UUID
        if version >= TOPIC_IDS_SINCE:
            topic_id = UUID(bytes=named[:16])
        elif version >= FLEXIBLE_SINCE:
            topic = str(named[1 : named[0]], "utf-8")
        else:
            topic = str(named[2 : 2 + _LENGTH.unpack_from(named)[0]], "utf-8")
        try:
            partition = writable_partition(self._node, version, topic, topic_id, index)
        except KafkaError:
            return None
        return index, partition, ResponseTemplate.of(version, topic, topic_id, index).respond


def find(frame: memoryview) -> Positions | None:
    """Return the positions in a Produce request with one topic and one partition; None for any other request.

    Raises IndexError, struct.error or UnicodeDecodeError if the frame is no valid request.
    """
    api_key, version, correlation_id, client_id_length = _HEADER.unpack_from(frame)
    if api_key != _PRODUCE or client_id_length < _NULL:
        return None
    body = _HEADER.size + (client_id_length if client_id_length > 0 else 0)
    str(frame[_HEADER.size : body], "utf-8")  # Raises if the client id is not text.
    return (_flexible if version >= FLEXIBLE_SINCE else _classic)(frame, body, version, correlation_id)


def _classic(frame: memoryview, body: int, version: int, correlation_id: int) -> Positions | None:
    transactional_id_length, acks, timeout_ms, topics, name_length = _BODY.unpack_from(frame, body)
    named = body + _BODY.size - _LENGTH.size
    partition = body + _BODY.size + name_length
    partitions, _, length = _PARTITION.unpack_from(frame, partition)
    start = partition + _PARTITION.size
    if (
        version < _MIN_VERSION
        or transactional_id_length != _NULL
        or topics != 1
        or name_length < 1
        or partitions != 1
        or acks not in (-1, 0, 1)
        or start + length != len(frame)
    ):
        return None
    return version, correlation_id, None, acks, timeout_ms, bytes(frame[named : partition + 8]), start, start + length


def _flexible(frame: memoryview, body: int, version: int, correlation_id: int) -> Positions | None:
    tags, id_length = frame[body], frame[body + 1]  # The length plus 1; 0 is null.
    body += 2
    transactional_id = None
    if id_length:
        transactional_id = str(frame[body : body + id_length - 1], "utf-8")
        body += id_length - 1
    acks, timeout_ms, topics = _BODY_FLEXIBLE.unpack_from(frame, body)
    named = body + _BODY_FLEXIBLE.size
    name_length = 16 if version >= TOPIC_IDS_SINCE else frame[named]  # The length plus 1, so with its own byte.
    partitions = named + name_length
    start = partitions + 1 + _INDEX.size
    named_stop = start
    length, shift = 0, 0
    while True:
        byte = frame[start]
        start += 1
        length |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80 or shift == 35:
            break
    stop = start + length - 1
    if (
        version > _MAX_VERSION
        or tags
        or id_length >= 0x80
        or topics != _ONE
        or not 1 < name_length < 0x80
        or frame[partitions] != _ONE
        or acks not in (-1, 0, 1)
        or stop + 3 != len(frame)
        or frame[stop] | frame[stop + 1] | frame[stop + 2]  # Tags of the partition, the topic and the request.
    ):
        return None
    return version, correlation_id, transactional_id, acks, timeout_ms, bytes(frame[named:named_stop]), start, stop
