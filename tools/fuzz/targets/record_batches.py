"""Targets for record batches with every codec, old message formats, compressed blocks, and control records."""

from __future__ import annotations

import struct
import zlib
from functools import partial
from random import Random
from typing import Final

from semel.errors import DecodeError
from semel.wire.compression import Codec, compress, decompress
from semel.wire.control import EndTransactionMarker, build_marker_batch, decode_marker, encode_marker, parse_marker
from semel.wire.crc import crc32c
from semel.wire.records import (
    CRC_POSITION,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC_POSITION,
    Record,
    RecordBlock,
    RecordCheck,
    TimestampType,
    build_batch,
    iterate_headers,
    iterate_records,
    parse_header,
    verify_crc,
)
from tools.fuzz.target import Target

UNPACKED_BYTES_MAX: Final = 2**18
_TIME: Final = 1_700_000_000_000
_CHECKED_FROM: Final = CRC_POSITION + 4
_READ_AT_ONCE: Final = 100
_ROUNDS: Final = 24


def targets() -> list[Target]:
    # A record of nine bytes becomes an object of about two hundred bytes.
    unpacked = 40 * UNPACKED_BYTES_MAX
    found = [
        Target(
            f"batch with {codec.name.lower()}",
            partial(batch, codec),
            check_batch,
            mended=sealed,
            unpacked_bytes_max=unpacked,
            rounds=_ROUNDS,
        )
        for codec in Codec
    ]
    found += [
        Target(
            f"block of {codec.name.lower()}",
            partial(_block, codec),
            partial(_check_block, codec),
            unpacked_bytes_max=2 * UNPACKED_BYTES_MAX,
            rounds=_ROUNDS,
        )
        for codec in Codec
    ]
    found += [
        Target(
            f"message set of format {magic}",
            partial(message_set, magic),
            check_batch,
            mended=_with_old_crc,
            is_served=False,
            rounds=_ROUNDS // 2,
        )
        for magic in (0, 1)
    ]
    return [
        *found,
        Target("control batch", _marker_batch, _check_marker_batch, mended=sealed, rounds=_ROUNDS // 2),
        Target("control record", _marker, _check_marker, rounds=_ROUNDS // 4),
    ]


def batch(codec: Codec, random: Random) -> bytes:
    """Return a batch as a producer sends it, or sometimes as compaction leaves it."""
    is_compacted = random.random() < 0.2
    records, offset = [], 0
    for _ in range(random.choice((1, 1, 2, 5, 40))):
        headers = tuple((random.choice(("", "h", "é")), random.choice((None, b"", b"v"))) for _ in range(_few(random)))
        records.append(Record(offset, _TIME + random.randrange(-5, 5), _bytes(random), _bytes(random), headers))
        offset += random.choice((1, 1, 7)) if is_compacted else 1
    return build_batch(
        records,
        codec=codec,
        partition_leader_epoch=random.randrange(3),
        timestamp_type=random.choice(list(TimestampType)),
        producer_id=random.choice((-1, 5)),
        producer_epoch=0,
        base_sequence=random.choice((0, 2**31 - 1)),
        is_transactional=random.random() < 0.3,
        delete_horizon_ms=_TIME if is_compacted and random.random() < 0.5 else None,
        last_offset_delta=offset + 3 if is_compacted else None,
    )


def check_batch(data: bytes) -> None:
    """Read the batch with every reader.

    The records must be the same in all of them, and again after they were written into a new batch. The check of a
    producer's batch must accept it if and only if the reader finds consecutive offsets.
    """
    header = parse_header(data)
    is_sound = verify_crc(data, 0, header)
    records = list(iterate_records(data, size_max=UNPACKED_BYTES_MAX))
    block = RecordBlock(data, size_max=UNPACKED_BYTES_MAX)
    in_pieces: list[Record] = []
    while piece := block.read(_READ_AT_ONCE):
        in_pieces += piece
    assert in_pieces == records, "in pieces it has other records"
    offsets = [record.offset - header.base_offset for record in records]
    unpacked = decompress(header.compression, data[HEADER_SIZE : header.size_bytes], size_max=UNPACKED_BYTES_MAX)
    assert _passes(unpacked, header.record_count) == (offsets == list(range(header.record_count))), (
        "the check of a producer's batch judges it otherwise than the reader"
    )
    rebuilt = build_batch(
        records,
        base_offset=header.base_offset,
        last_offset_delta=header.last_offset_delta,
        timestamp_type=header.timestamp_type,
        delete_horizon_ms=header.delete_horizon_ms,
        max_timestamp=header.max_timestamp,
    )
    assert list(iterate_records(rebuilt)) == records, "written again it has other records"
    for position, following in iterate_headers(data, allow_partial_tail=True):
        assert position + following.size_bytes <= len(data)
    if not is_sound:
        raise DecodeError("its checksum is wrong")


def _passes(block: bytes, count: int) -> bool:
    check = RecordCheck(block, count)
    try:
        while not check.advance(10**6):
            pass
    except DecodeError:
        return False
    return True


def sealed(data: bytes) -> bytes:
    """Return the batch with the correct size and checksum, and with magic 2."""
    if len(data) < HEADER_SIZE:
        return data
    mended = bytearray(data)
    struct.pack_into(">i", mended, 8, len(mended) - LOG_OVERHEAD)
    mended[MAGIC_POSITION] = 2
    struct.pack_into(">I", mended, CRC_POSITION, crc32c(mended[_CHECKED_FROM:]))
    return bytes(mended)


def message_set(magic: int, random: Random) -> bytes:
    """Return messages in the format of clients before 0.11. The broker must refuse them without reading them."""
    return b"".join(_message(magic, offset, random) for offset in range(random.randint(1, 4)))


def _message(magic: int, offset: int, random: Random) -> bytes:
    checked = struct.pack(">bb", magic, random.randrange(4))
    if magic == 1:
        checked += struct.pack(">q", _TIME)
    for text in (_bytes(random), _bytes(random)):
        checked += struct.pack(">i", -1 if text is None else len(text)) + (text or b"")
    message = struct.pack(">I", zlib.crc32(checked)) + checked
    return struct.pack(">qi", offset, len(message)) + message


def _with_old_crc(data: bytes) -> bytes:
    mended = bytearray(data)
    if len(data) > MAGIC_POSITION:
        struct.pack_into(">iI", mended, 8, len(mended) - LOG_OVERHEAD, zlib.crc32(mended[MAGIC_POSITION:]))
    return bytes(mended)


def _block(codec: Codec, random: Random) -> bytes:
    content = random.randbytes(random.choice((0, 10, 300))) * random.choice((1, 1, 20, 400))
    return compress(codec, content)


def _check_block(codec: Codec, data: bytes) -> None:
    content = decompress(codec, data, size_max=UNPACKED_BYTES_MAX)
    assert len(content) <= UNPACKED_BYTES_MAX
    assert decompress(codec, compress(codec, content), size_max=UNPACKED_BYTES_MAX) == content


def _marker_batch(random: Random) -> bytes:
    marker = EndTransactionMarker(random.random() < 0.5, random.getrandbits(31))
    return build_marker_batch(marker, producer_id=5, producer_epoch=1, timestamp=_TIME)


def _check_marker_batch(data: bytes) -> None:
    parse_marker(data)


def _marker(random: Random) -> bytes:
    key, value = encode_marker(EndTransactionMarker(random.random() < 0.5, random.getrandbits(31)))
    return bytes((len(key),)) + key + value


def _check_marker(data: bytes) -> None:
    key, value = (data[1 : 1 + data[0]], data[1 + data[0] :]) if data else (None, None)
    marker = decode_marker(key, value)
    if marker is not None:
        assert decode_marker(*encode_marker(marker)) == marker


def _bytes(random: Random) -> bytes | None:
    return random.choice((None, b"", b"k", b"value", bytes(63), bytes(64), b"x" * 300))


def _few(random: Random) -> int:
    return random.choice((0, 0, 0, 1, 3))
