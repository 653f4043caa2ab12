"""Record batches whose header or records are wrong in one chosen place, with a correct checksum.

A correct checksum proves nothing about the content: every producer computes it itself.
"""

from __future__ import annotations

import struct
import time
import zlib
from collections.abc import Callable, Iterable

import crc32c

from semel.wire.compression import Codec, compress
from tools.frames import varint

_CHECKED = struct.Struct(">hiqqqhii")
_START = struct.Struct(">qiibI")


def raw_batch(
    block: bytes,
    *,
    count: int,
    last_delta: int | None = None,
    attributes: int = 0,
    producer: tuple[int, int, int] = (-1, -1, -1),
    timestamp: int | None = None,
    max_timestamp: int | None = None,
    length_lie: int = 0,
    crc_lie: int = 0,
    magic: int = 2,
    base_offset: int = 0,
) -> bytes:
    """Return a batch with ``block`` as its records. ``producer`` is id, epoch and base sequence."""
    base = int(time.time() * 1000) if timestamp is None else timestamp
    last = _int32(count - 1) if last_delta is None else last_delta
    checked = _CHECKED.pack(attributes, last, base, base if max_timestamp is None else max_timestamp, *producer, count)
    checked += block
    crc = crc32c.crc32c(checked) ^ crc_lie
    return _START.pack(base_offset, len(checked) + 9 + length_lie, -1, magic, crc) + checked


def record(
    value: bytes | None = b"v", *, delta: int = 0, key: bytes | None = b"k", tail: bytes = b"\0", length_lie: int = 0
) -> bytes:
    """Return one record. ``tail`` is written in place of the number of headers and the headers."""
    body = b"\0" + varint(0) + varint(delta) + _bytes(key) + _bytes(value) + tail
    return varint(len(body) + length_lie) + body


def records(count: int) -> bytes:
    return b"".join(record(delta=delta) for delta in range(count))


def sound_batch(
    *values: bytes, key: bytes | None = b"k", codec: Codec = Codec.NONE, timestamp: int | None = None
) -> bytes:
    block = b"".join(record(value, delta=delta, key=key) for delta, value in enumerate(values))
    return raw_batch(compress(codec, block), count=len(values), attributes=codec, timestamp=timestamp)


def tiny_records(count: int, *, numbered: bool) -> bytes:
    """Return records of about seven bytes, with increasing offset deltas, or all equal, which compress to very little.

    Their keys are empty and not null, so that a compacted topic accepts them.
    """
    if not numbered:
        return record(None, delta=0, key=b"") * count
    return b"".join(_numbered(range(count)))


def _numbered(deltas: Iterable[int]) -> Iterable[bytes]:
    for delta in deltas:
        body = b"\0\0" + varint(delta) + b"\0\1\0"
        yield varint(len(body)) + body


def bombs(unpacked_bytes: int) -> dict[str, tuple[Codec, Callable[[], bytes]]]:
    """Return blocks below a megabyte that decompress to ``unpacked_bytes``, or to as much as the format allows."""
    return {
        "gzip": (Codec.GZIP, lambda: _gzip_of_zeros(unpacked_bytes)),
        "snappy": (Codec.SNAPPY, lambda: compress(Codec.SNAPPY, bytes(min(unpacked_bytes, 18 * 2**20)))),
        "lz4": (Codec.LZ4, lambda: compress(Codec.LZ4, bytes(min(unpacked_bytes, 240 * 2**20)))),
        "zstd": (Codec.ZSTD, lambda: _zstd_of_zeros(unpacked_bytes)),
        "snappy-that-claims-4-gigabytes": (Codec.SNAPPY, lambda: b"\xff\xff\xff\xff\x0f" + b"\xfe\x01\0" * 1000),
        "zstd-with-a-window-of-terabytes": (Codec.ZSTD, lambda: _zstd_of_zeros(2**20, window=0xF8)),
        "zstd-that-claims-exabytes": (Codec.ZSTD, lambda: b"\x28\xb5\x2f\xfd\xe0" + b"\xff" * 7 + b"\x7f" + bytes(20)),
        "lz4-that-claims-exabytes": (
            Codec.LZ4,
            lambda: b"\x04\x22\x4d\x18\x68\x40" + b"\xff" * 7 + b"\x7f" + bytes(20),
        ),
    }


def _gzip_of_zeros(unpacked_bytes: int) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    zeros = bytes(2**20)
    packed = bytearray()
    for _ in range(min(unpacked_bytes, 900 * 2**20) // len(zeros)):
        packed += packer.compress(zeros)
    return bytes(packed + packer.flush())


def _zstd_of_zeros(unpacked_bytes: int, *, window: int = 7 << 3) -> bytes:
    """Return a frame of RLE blocks, four bytes for each 128 KB, without a content size. The default ``window`` is
    128 KB."""
    blocks = min(max(1, unpacked_bytes // 2**17), 240_000)
    rle = (2**17 << 3) | (1 << 1)
    last = rle | 1
    body = (rle.to_bytes(3, "little") + b"\0") * (blocks - 1) + last.to_bytes(3, "little") + b"\0"
    return b"\x28\xb5\x2f\xfd" + b"\x00" + bytes([window]) + body


def _bytes(value: bytes | None) -> bytes:
    return varint(-1) if value is None else varint(len(value)) + value


def _int32(value: int) -> int:
    return (value + 2**31) % 2**32 - 2**31
