"""Where things stand in a Produce request with one topic and one partition.

Nothing is decoded: a few numbers are read, and the places of the rest are computed from them. Whatever does not look
exactly like this is None, and whoever wants to know more decodes it.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, TypeAlias

from semel.wire.apis import APIS, ApiKey

API: Final = APIS[ApiKey.PRODUCE]
FLEXIBLE_SINCE: Final = 9
TOPIC_IDS_SINCE: Final = 13
ZSTD_SINCE: Final = 7
TRANSACTIONS_V2_SINCE: Final = 12

UsualProduce: TypeAlias = tuple[int, int, str | None, int, int, bytes, int, int]
"""Version, correlation id, transactional id, acks, timeout, the bytes that name topic and partition, where records
start and stop."""

_Body: TypeAlias = tuple[str | None, int, int, bytes, int, int]

_HEADER: Final = Struct(">hhih")  # api key, version, correlation id, length of the client id
_BODY: Final = Struct(">hhiih")  # length of the transactional id, acks, timeout, number of topics, length of the name
_PARTITION: Final = Struct(">iii")  # number of partitions, partition, length of the records
_BODY_FLEXIBLE: Final = Struct(">hiB")  # behind the transactional id: acks, timeout, number of topics + 1
_LENGTH_SIZE: Final = 2
_INDEX_SIZE: Final = 4
_NULL: Final = -1
_ONE: Final = 2  # The count of an array of one element, in flexible versions.


def usual_produce(frame: memoryview) -> UsualProduce | None:
    """The request in a frame, or None. Raises IndexError, struct.error or UnicodeDecodeError if it is no request."""
    api_key, version, correlation_id, client_id_length = _HEADER.unpack_from(frame)
    if api_key != ApiKey.PRODUCE or client_id_length < _NULL:
        return None
    body = _HEADER.size + (client_id_length if client_id_length > 0 else 0)
    str(frame[_HEADER.size : body], "utf-8")  # Text, or it is no header.
    found = (_flexible if version >= FLEXIBLE_SINCE else _classic)(frame, body, version)
    return None if found is None else (version, correlation_id, *found)


def _classic(frame: memoryview, body: int, version: int) -> _Body | None:
    transactional_id_length, acks, timeout_ms, topics, name_length = _BODY.unpack_from(frame, body)
    named = body + _BODY.size - _LENGTH_SIZE
    partition = body + _BODY.size + name_length
    partitions, _, length = _PARTITION.unpack_from(frame, partition)
    start = partition + _PARTITION.size
    if (
        version < API.min_version
        or transactional_id_length != _NULL
        or topics != 1
        or name_length < 1
        or partitions != 1
        or acks not in (-1, 0, 1)
        or start + length != len(frame)
    ):
        return None
    return None, acks, timeout_ms, bytes(frame[named : partition + 8]), start, start + length


def _flexible(frame: memoryview, body: int, version: int) -> _Body | None:
    tags, id_length = frame[body], frame[body + 1]  # The length counts from 1; 0 is none.
    body += 2
    transactional_id = None
    if id_length:
        transactional_id = str(frame[body : body + id_length - 1], "utf-8")
        body += id_length - 1
    acks, timeout_ms, topics = _BODY_FLEXIBLE.unpack_from(frame, body)
    named = body + _BODY_FLEXIBLE.size
    name_length = 16 if version >= TOPIC_IDS_SINCE else frame[named]  # With its own byte, which counts from 1.
    partitions = named + name_length
    start = partitions + 1 + _INDEX_SIZE
    length, shift = 0, 0
    while True:
        byte = frame[start + shift]
        length |= (byte & 0x7F) << 7 * shift
        shift += 1
        if byte < 0x80 or shift == 5:
            break
    named_stop = start
    start += shift
    stop = start + length - 1
    if (
        version > API.max_version
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
    return transactional_id, acks, timeout_ms, bytes(frame[named:named_stop]), start, stop
