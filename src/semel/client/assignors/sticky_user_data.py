"""The user data that members with a sticky assignor send to the leader, as Kafka's consumer and librdkafka write it.

A member with ``sticky`` gives up everything before it joins, so this data has what it owned: version 0 without the
generation, version 1 with it; only the length tells them apart. A member with ``cooperative-sticky`` still owns its
partitions, and its subscription has them; this data has only the generation, for leaders that read subscriptions up to
version 1. librdkafka writes the data of ``sticky`` in both cases. These bytes decide only which partitions stay, so
bytes that cannot be decoded count as no claim.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from typing import Final

from semel.client.assignors.ownership import Claim
from semel.errors import DecodeError
from semel.types import TopicPartition
from semel.wire.codec import decode, encode
from semel.wire.messages.consumer_protocol import ConsumerProtocolPartitions, flattened, grouped
from semel.wire.schema import INT32, array, field, message


@message(versions=(0, 1), flexible_since=None)
class StickyAssignorUserData:
    previous_assignment: list[ConsumerProtocolPartitions] = field(array(ConsumerProtocolPartitions))
    generation: int | None = field(INT32, since=1, absent=-1)


def encode_claim(partitions: Iterable[TopicPartition], generation_id: int) -> bytes:
    return bytes(encode(StickyAssignorUserData(grouped(partitions), generation_id), 1))


def decode_claim(user_data: bytes | None) -> Claim:
    for version in (1, 0):
        try:
            read = decode(StickyAssignorUserData, user_data or b"", version)
        except DecodeError:
            continue
        return Claim(tuple(flattened(read.previous_assignment)), read.generation)
    return Claim()


def encode_generation(generation_id: int | None) -> bytes:
    return _GENERATION.pack(_NONE if generation_id is None else generation_id)


def decode_generation(user_data: bytes | None) -> int | None:
    if user_data is None or len(user_data) != _GENERATION.size:
        return decode_claim(user_data).generation_id
    (generation_id,) = _GENERATION.unpack(user_data)
    return None if generation_id < 0 else int(generation_id)


_GENERATION: Final = Struct(">i")
_NONE: Final = -1
