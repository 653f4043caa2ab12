"""Targets for requests and responses in every version, their headers, the consumer protocol, and number encodings."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import suppress
from functools import partial
from random import Random
from typing import Any, Final, TypeVar

from semel.errors import DecodeError
from semel.types import TopicPartition
from semel.wire.apis import APIS, Api
from semel.wire.codec import decode, encode, request_decoder, sliced_decoder
from semel.wire.framing import decode_request_header, decode_response_header, encode_request, encode_response
from semel.wire.messages import consumer_protocol
from semel.wire.messages.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from semel.wire.records.varint import VARINT_BITS, VARLONG_BITS, decode_unsigned, encode_varint
from semel.wire.schema import versions_of
from semel.wire.varint import read_unsigned_varint, skip_tagged_fields, unsigned_varint
from tools.fuzz.target import Target
from tools.hostile.fuzz import message

T = TypeVar("T")

_ELEMENTS_MAX: Final = 1_000_000
_TEXTS: Final = ("", "topic", "é" * 20, "x" * 200)


def targets() -> list[Target]:
    found = [
        _target(message_class, version)
        for api in APIS.values()
        for message_class in (api.request_class, api.response_class)
        for version in range(versions_of(message_class).first, versions_of(message_class).last + 1)
    ]
    found += [
        Target("request header", _request, _check_request_header, rounds=8),
        Target("response header", _response, _check_response_header, rounds=8),
        Target("consumer protocol subscription", _subscription, _check_subscription, rounds=8),
        Target("consumer protocol assignment", _assignment, _check_assignment, rounds=8),
        # These functions raise IndexError at the end of the buffer; their callers handle it.
        Target("compact lengths", _lengths, _check_lengths, (DecodeError, IndexError), rounds=4),
        Target("varints of records", _varints, _check_varints, (DecodeError, IndexError), rounds=4),
    ]
    return found


def _target(message_class: type[Any], version: int) -> Target:
    return Target(
        f"{message_class.__name__} v{version}",
        partial(_sound, message_class, version),
        partial(_check, message_class, version),
    )


def _sound(message_class: type[Any], version: int, random: Random) -> bytes:
    return bytes(encode(message(message_class, version, random), version))


def _check(message_class: type[Any], version: int, data: bytes) -> None:
    in_slices = None
    with suppress(DecodeError):
        in_slices = _returned(sliced_decoder(message_class, version)(data, 0, _ELEMENTS_MAX))[0]
    try:
        decoded = request_decoder(message_class, version)(data, 0)
    except DecodeError:
        assert in_slices is None, "what is refused at once is taken in slices"
        raise
    assert in_slices is not None, "what is taken at once is refused in slices"
    # Encoded bytes are compared, because NaN is not equal to itself.
    encoded = encode(decoded, version)
    assert encode(decode(message_class, encoded, version), version) == encoded, f"{decoded} is not itself again"
    assert encode(in_slices, version) == encoded, "in slices it is another message"


def _returned(steps: Generator[None, None, T]) -> T:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result


# Headers


def _api(random: Random) -> tuple[Api, int]:
    api = random.choice(list(APIS.values()))
    return api, random.randint(api.min_version, api.max_version)


def _request(random: Random) -> bytes:
    api, version = _api(random)
    client_id = random.choice((None, *_TEXTS))
    return bytes(encode_request(random.getrandbits(31), api, version, api.request_class(), client_id=client_id))[4:]


def _check_request_header(data: bytes) -> None:
    header, position = decode_request_header(data)
    assert position <= len(data), f"the header ends at {position} of {len(data)}"
    assert len(header.client_id or "") <= len(data)


def _response(random: Random) -> bytes:
    api, version = _api(random)
    frame = encode_response(random.getrandbits(31), api, version, api.response_class())
    return bytes((api.key, version)) + frame[4:]


def _check_response_header(data: bytes) -> None:
    """Decode a response header. The first two bytes are the API key and version, which a client knows."""
    api = APIS.get(data[0] if data else -1)
    if api is None or len(data) < 2 or not api.min_version <= data[1] <= api.max_version:
        raise DecodeError("no such request")
    _, position = decode_response_header(data[2:], api, data[1])
    assert position <= len(data), f"the header ends at {position} of {len(data)}"


# The consumer protocol


def _partitions(random: Random) -> list[TopicPartition]:
    return [TopicPartition(random.choice(_TEXTS), random.randrange(5)) for _ in range(random.randrange(5))]


def _subscription(random: Random) -> bytes:
    subscription = ConsumerProtocolSubscription(
        topics=[random.choice(_TEXTS) for _ in range(random.randrange(4))],
        user_data=random.choice((None, b"", b"\0\x01")),
        owned_partitions=consumer_protocol.grouped(_partitions(random)),
        generation_id=random.choice((None, 0, 7)),
        rack_id=random.choice((None, *_TEXTS)),
    )
    return consumer_protocol.encode_subscription(subscription, random.randrange(consumer_protocol.VERSION_MAX + 1))


def _check_subscription(data: bytes) -> None:
    decoded = consumer_protocol.decode_subscription(data)
    again = consumer_protocol.decode_subscription(consumer_protocol.encode_subscription(decoded))
    assert again == decoded, f"{decoded} became {again}"
    consumer_protocol.flattened(decoded.owned_partitions)


def _assignment(random: Random) -> bytes:
    assigned = consumer_protocol.grouped(_partitions(random))
    assignment = ConsumerProtocolAssignment(assigned, random.choice((None, b"", b"data")))
    return consumer_protocol.encode_assignment(assignment, random.randrange(consumer_protocol.VERSION_MAX + 1))


def _check_assignment(data: bytes) -> None:
    decoded = consumer_protocol.decode_assignment(data)
    again = consumer_protocol.decode_assignment(consumer_protocol.encode_assignment(decoded))
    assert again == decoded, f"{decoded} became {again}"


# Numbers


def _lengths(random: Random) -> bytes:
    fields = random.randrange(5)
    return unsigned_varint(fields) + b"".join(
        unsigned_varint(random.getrandbits(random.choice((3, 7, 20, 32)))) + unsigned_varint(size) + bytes(size)
        for size in (random.choice((0, 1, 127, 128)) for _ in range(fields))
    )


def _check_lengths(data: bytes) -> None:
    count, position = read_unsigned_varint(data, 0)
    assert read_unsigned_varint(unsigned_varint(count), 0)[0] == count
    assert 0 <= count < 2**32
    assert skip_tagged_fields(data, position, count) <= len(data)


def _varints(random: Random) -> bytes:
    return b"".join(encode_varint(random.getrandbits(31) - 2**30) for _ in range(random.randint(1, 6)))


def _check_varints(data: bytes) -> None:
    position = 0
    while position < len(data):
        for bits in (VARLONG_BITS, VARINT_BITS):
            number, end = decode_unsigned(data, position, bits)
            assert 0 <= number < 2**bits
            assert position < end <= len(data)
            signed = (number >> 1) ^ -(number & 1)
            assert decode_unsigned(encode_varint(signed), 0, bits)[0] == number
        position = end
