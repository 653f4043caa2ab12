"""What members with a sticky assignor tell the leader, as Kafka's consumer and librdkafka write it.

``sticky`` gives everything up before it joins, so what it had travels here: version 0 without, version 1 with the
generation; only the length tells them apart. ``cooperative-sticky`` still has its partitions, and the subscription says
so; here is only the generation, for leaders that read no newer subscription than version 1. librdkafka writes there
what ``sticky`` writes. Nothing depends on these bytes but where partitions stay, so what cannot be read is no claim.
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
