"""Random requests of every API and version that is served, made from their declarations, and mutations of them.

The law: the same ``Random`` gives the same frames. Valid requests that are harmful only because of their size are not
made: a topic with 32,767 partitions is an attack of its own.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from random import Random
from typing import Any
from uuid import UUID

from semel.broker.requests.routes import served_apis
from semel.wire.apis import APIS
from semel.wire.framing import encode_request
from semel.wire.schema import Array, Bytes, Field, Fixed, Records, String, Struct, Uuid, WireType, fields_of
from tools.hostile.batches import raw_batch, records, sound_batch

_TEXTS = (
    "",
    "1",
    ".",
    "a\nb",
    "fuzz",
    "fuzz-group",
    "fuzz-id",
    "range",
    "consumer",
    "é" * 20,
    "x" * 249,
    "retention.ms",
)
_NUMBERS = (-1, 0, 0, 0, 1, 1, 2, 3)
# Fields in which a valid number could create thousands of files.
_COUNTS = frozenset({"num_partitions", "count"})
_TIMESTAMP = 1_700_000_000_000
_LENGTH_LIES = (-1, 0, 1, 4, 100, 2**31 - 1, -(2**31))


def requests(random: Random) -> Iterator[bytes]:
    """Yield complete frames without end: in every round each (API, version) once, in a random order."""
    pairs = [(api.key, version) for api in served_apis() for version in range(api.min_version, api.max_version + 1)]
    while True:
        random.shuffle(pairs)
        for key, version in pairs:
            api = APIS[key]
            body = message(api.request_class, version, random)
            client_id = random.choice((None, "", "fuzz", "x" * 300))
            yield bytes(encode_request(random.getrandbits(31), api, version, body, client_id=client_id))


def mutated(frame: bytes, random: Random) -> bytes:
    """Return the frame with flipped bits, a cut, inserted bytes, or a wrong length within it or as its size prefix."""
    size, body = frame[:4], bytearray(frame[4:])
    match random.randrange(7):
        case 0 | 1:
            for _ in range(random.randint(1, 8)):
                if body:
                    body[random.randrange(len(body))] ^= 1 << random.randrange(8)
        case 2:
            del body[random.randint(0, len(body)) :]
        case 3:
            at = random.randint(0, len(body))
            body[at:at] = random.randbytes(random.randint(1, 40))
        case 4 if len(body) > 12:
            at = random.randrange(8, len(body) - 3)
            struct.pack_into(">i", body, at, random.choice(_LENGTH_LIES))
        case 5 if len(body) > 12:
            at = random.randrange(8, len(body) - 3)
            body[at : at + 4] = b"\xff\xff\xff\x7f"
        case _:
            lie = struct.unpack(">i", size)[0] + random.choice((-1, 1, 100, 2**30, -(2**31)))
            return struct.pack(">i", (lie + 2**31) % 2**32 - 2**31) + bytes(body)
    return struct.pack(">i", len(body)) + bytes(body)


def message(struct_class: type[Any], version: int, random: Random, depth: int = 0) -> Any:
    """Return a message, or a struct of one, with random values in the fields that the version has."""
    values: dict[str, Any] = {}
    for field in fields_of(struct_class):
        if not field.exists_in(version):
            continue
        if field.nullable_in(version) and random.random() < 0.2:
            values[field.name] = None
        elif field.tag is not None and random.random() < 0.5:
            continue
        else:
            values[field.name] = _value(field, field.type, version, random, depth)
    return struct_class(**values)


def _value(field: Field, wire_type: WireType[Any], version: int, random: Random, depth: int) -> Any:
    match wire_type:
        case Fixed(code="?"):
            return random.random() < 0.5
        case Fixed(code="d"):
            return random.choice((0.0, -1.5, float("inf"), float("nan")))
        case Fixed():
            return _number(field.name, wire_type, random)
        case Uuid():
            return random.choice((UUID(int=0), UUID(int=1), UUID(int=random.getrandbits(128))))
        case String():
            return random.choice(_TEXTS)
        case Bytes():
            return random.randbytes(random.choice((0, 0, 3, 50, 500)))
        case Records():
            return _records(random)
        case Array():
            count = random.choice((0, 1, 1, 1, 2, 3) if depth < 3 else (0, 1))
            return [_value(field, wire_type.element, version, random, depth + 1) for _ in range(count)]
        case Struct():
            return message(wire_type.struct_class, version, random, depth + 1)
    raise AssertionError(wire_type)


def _number(name: str, wire_type: Fixed[Any], random: Random) -> int:
    if name in _COUNTS or random.random() < 0.7:
        return random.choice(_NUMBERS) if wire_type.code.islower() else random.randrange(4)
    bits = 8 * struct.calcsize(wire_type.code)
    least, most = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if wire_type.code.islower() else (0, 2**bits - 1)
    return random.choice((least, most, random.randint(least, most)))


def _records(random: Random) -> bytes:
    match random.randrange(4):
        case 0:
            return sound_batch(b"a", b"b", timestamp=_TIMESTAMP)
        case 1:
            count = random.choice((0, -1, 1, 2, 2**31 - 1))
            return raw_batch(records(1), count=count, attributes=random.getrandbits(7), timestamp=_TIMESTAMP)
        case 2:
            return random.randbytes(random.randrange(120))
        case _:
            batch = bytearray(sound_batch(b"a", timestamp=_TIMESTAMP))
            batch[random.randrange(len(batch))] ^= 1 << random.randrange(8)
            return bytes(batch)
