"""Bounds on the decompressed size of a stream, computed without decompressing: an upper bound, and the declared size.

lz4 and zstd divide their content into blocks, store the size of each compressed block, and limit the size of its
content. Stepping from block to block gives an upper bound for every valid stream, so a buffer of that size is enough.

The *declared* size is a lower bound for a valid stream: the sizes that its frames state for their content, and the
sizes of blocks that are stored uncompressed or are one repeated byte. Senders write these fields, and many clients
leave them out. But a decompressor refuses a stream whose content does not have the stated size, so a stream that
declares too much can be refused at once.

The law: the upper bound is at most ``size_max``, and the computation ends as soon as it is reached. Every block and
every frame raises it, also an empty one, so the computation is short for every stream. For a malformed stream the bound
and the declared size may be wrong; the decompressor refuses it.
"""

from __future__ import annotations

from typing import Final

from semel.types import Buffer

_LZ4_MAGIC: Final = 0x184D2204
_ZSTD_MAGIC: Final = 0xFD2FB528
_SKIPPABLE_MAGIC: Final = 0x184D2A50  # And the 15 numbers after it: a skippable frame with other data.
_SKIPPABLE_MASK: Final = 0xFFFFFFF0

_FRAME_ALLOWANCE: Final = 2**12
_ZSTD_BLOCK_SIZE_MAX: Final = 2**17
_ZSTD_RAW_BLOCK: Final = 0
_ZSTD_RLE_BLOCK: Final = 1


def gzip_declared_size(data: Buffer) -> int:
    """Return the declared size of the last member, modulo 2**32: the last four bytes of the stream."""
    return _little_endian(data, max(0, len(data) - 4), 4)


def lz4_size_bound(data: Buffer, size_max: int) -> tuple[int, int]:
    """Return the upper bound of the decompressed size, and the declared size."""
    position = bound = declared = 0
    while position + 6 < len(data) and bound < size_max:
        bound += _FRAME_ALLOWANCE
        magic = _little_endian(data, position, 4)
        if magic & _SKIPPABLE_MASK == _SKIPPABLE_MAGIC:
            position += 8 + _little_endian(data, position + 4, 4)
            continue
        if magic != _LZ4_MAGIC:
            break
        flags, block_size_id = data[position + 4], data[position + 5] >> 4 & 7
        block_size_max = 1 << (8 + 2 * block_size_id)
        block_checksum_size = 4 if flags & 0x10 else 0
        content_checksum_size = 4 if flags & 0x04 else 0
        if flags & 0x08:
            declared += _little_endian(data, position + 6, 8)
        position += 7 + (8 if flags & 0x08 else 0) + (4 if flags & 0x01 else 0)
        while length := _little_endian(data, position, 4) & 0x7FFFFFFF:
            bound += block_size_max
            if bound >= size_max:
                return size_max, declared
            position += 4 + length + block_checksum_size
        position += 4 + content_checksum_size
    return min(bound, size_max), declared


def zstd_size_bound(data: Buffer, size_max: int) -> tuple[int, int]:
    """Return the upper bound of the decompressed size, and the declared size."""
    position = bound = declared = 0
    # A little more than ``size_max``, so that the declared size of a stream of repeated bytes can exceed it.
    bound_max = size_max + 2 * _ZSTD_BLOCK_SIZE_MAX
    while position + 4 < len(data) and bound < bound_max:
        bound += _FRAME_ALLOWANCE
        magic = _little_endian(data, position, 4)
        if magic & _SKIPPABLE_MASK == _SKIPPABLE_MAGIC:
            position += 8 + _little_endian(data, position + 4, 4)
            continue
        if magic != _ZSTD_MAGIC:
            break
        descriptor = data[position + 4]
        is_single_segment = descriptor & 0x20
        content_size_size = (1 if is_single_segment else 0, 2, 4, 8)[descriptor >> 6]
        dictionary_id_size = (0, 1, 2, 4)[descriptor & 3]
        position += 5 + (0 if is_single_segment else 1) + dictionary_id_size
        # A size field of two bytes holds the size minus 256.
        stated = _little_endian(data, position, content_size_size) + (256 if content_size_size == 2 else 0)
        position += content_size_size
        seen, is_last = 0, False
        while not is_last and position < len(data) and bound < bound_max:
            bound += _ZSTD_BLOCK_SIZE_MAX
            block = _little_endian(data, position, 3)
            is_last, block_type, length = block & 1 != 0, block >> 1 & 3, block >> 3
            seen += length if block_type in (_ZSTD_RAW_BLOCK, _ZSTD_RLE_BLOCK) else 0
            position += 3 + (1 if block_type == _ZSTD_RLE_BLOCK else length)
        declared += max(stated, seen)
        position += 4 if descriptor & 0x04 else 0
    return min(bound, size_max), declared


def _little_endian(data: Buffer, position: int, size: int) -> int:
    return int.from_bytes(data[position : position + size], "little")
