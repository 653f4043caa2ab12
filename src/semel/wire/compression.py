"""The codecs of record batches: gzip, snappy, lz4 and zstd, in the framings that Kafka's clients write.

The law: ``decompress`` returns at most ``size_max`` bytes, and data that declares a larger size is refused before
anything is decompressed. Size fields are written by the sender, so they are never trusted, only compared with the
bound. Malformed or truncated data, and data with trailing bytes, raises ``DecodeError``.

gzip is the standard library's, the others come from ``cramjam``, which is loaded when the first of them is used. It has
to be 2.14 or newer: older versions took the end of the first lz4 frame for the end of the stream and dropped the rest.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from enum import IntEnum
from typing import Any, Final, assert_never

from semel.errors import DecodeError
from semel.types import Buffer
from semel.wire.decompressed_size import gzip_declared_size, lz4_size_bound, zstd_size_bound


class Codec(IntEnum):
    """The compression codec of a record batch: the three lowest bits of its attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


class UnsupportedCodec(DecodeError):
    """A codec number that Kafka does not define."""

    def __init__(self, codec_id: int) -> None:
        super().__init__(f"codec {codec_id}; known are {', '.join(f'{codec.value} ({codec.name})' for codec in Codec)}")
        self.codec_id = codec_id


COMPRESSION_LEVELS: Final = {Codec.GZIP: range(1, 10), Codec.LZ4: range(1, 18), Codec.ZSTD: range(-131072, 23)}
"""The compression levels that Kafka accepts. Codecs that are not listed have none."""

_DEFAULT_LEVELS: Final = {Codec.GZIP: 6, Codec.LZ4: 9, Codec.ZSTD: 3}


def compress(codec: Codec, data: Buffer, level: int | None = None) -> bytes:
    """Return ``data`` compressed, in the codec's framing. ``level`` is one of Kafka's.

    Raises ``ValueError`` for a level that the codec does not have.
    """
    level = _checked_level(codec, level)
    match codec:
        case Codec.NONE:
            return bytes(data)
        case Codec.GZIP:
            return zlib.compress(data, level, _GZIP_WBITS)
        case Codec.SNAPPY:
            return _snappy_compress(data)
        case Codec.LZ4:
            return _lz4_compress(data, level)
        case Codec.ZSTD:
            return bytes(_cramjam().zstd.compress(data, level=level))
        case _:
            assert_never(codec)


def decompress(codec: Codec, data: Buffer, *, size_max: int) -> bytes:
    """Return the decompressed data. Concatenated members and frames are one stream.

    Raises ``DecodeError`` if it is malformed, or larger than ``size_max`` bytes.
    """
    return bytes(decompressed(codec, data, size_max=size_max))


def decompressed(codec: Codec, data: Buffer, *, size_max: int) -> bytes | bytearray:
    """Return the same as ``decompress``, but without a copy of the output buffer: a large block is held only once."""
    match codec:
        case Codec.NONE:
            _check_size(codec, len(data), size_max)
            return bytes(data)
        case Codec.GZIP:
            _check_size(codec, gzip_declared_size(data), size_max)
            return _gzip_decompress(data, size_max)
        case Codec.SNAPPY:
            return _snappy_decompress(data, size_max)
        case Codec.LZ4:
            bound, declared = lz4_size_bound(data, size_max)
            _check_size(codec, declared, size_max)
            return _decompress_into(codec, _cramjam().lz4.decompress_into, data, bound)
        case Codec.ZSTD:
            bound, declared = zstd_size_bound(data, size_max)
            _check_size(codec, declared, size_max)
            return _decompress_into(codec, _cramjam().zstd.decompress_into, data, bound)
        case _:
            assert_never(codec)


def _checked_level(codec: Codec, level: int | None) -> int:
    if level is None:
        return _DEFAULT_LEVELS.get(codec, 0)
    levels = COMPRESSION_LEVELS.get(codec, range(0))
    if level not in levels:
        allowed = f"{levels[0]} to {levels[-1]}" if levels else "none"
        raise ValueError(f"compression level {level} for {codec.name}; its levels are {allowed}")
    return level


def _cramjam() -> Any:
    import cramjam  # Imported here: most processes never need it, and its import would slow the start of a client.

    return cramjam


def _decompress_into(codec: Codec, into: Callable[[Buffer, bytearray], int], data: Buffer, bound: int) -> bytearray:
    """Decompress into a buffer of a fixed size (``bound``), beyond which no decompressor writes."""
    output = _buffer(bound)
    try:
        size = into(data, output)
    except _cramjam().DecompressionError as error:
        raise DecodeError(f"{len(data)} bytes of {codec.name} into {bound}: {error}") from None
    del output[size:]
    return output


_BUFFER_PIECE_SIZE: Final = 2**21
_BUFFER_PIECE: Final = bytes(_BUFFER_PIECE_SIZE)


def _buffer(size: int) -> bytearray:
    """Return a buffer of zeros. It is made in pieces: Python fills each with zeros while it holds the GIL."""
    output = bytearray(min(size, _BUFFER_PIECE_SIZE))
    while len(output) < size:
        output += _BUFFER_PIECE[: size - len(output)]
    return output


def _lz4_compress(data: Buffer, level: int) -> bytes:
    """Return ``data`` as one lz4 frame.

    Kafka's default level 9 means its fast compressor, which is liblz4's level 1; the other levels are those of liblz4.
    Blocks are independent, because Kafka's Java reader refuses blocks that refer to the block before them.
    """
    compressor = _cramjam().lz4.Compressor(
        level=1 if level == _DEFAULT_LEVELS[Codec.LZ4] else level, content_checksum=False, block_linked=False
    )
    compressor.compress(bytes(data))  # This function of cramjam accepts bytes only.
    return bytes(compressor.finish())


_GZIP_WBITS: Final = 16 + zlib.MAX_WBITS
_GZIP_INPUT_SIZE: Final = 2**14
_GZIP_OUTPUT_SIZE: Final = 2**18


def _gzip_decompress(data: Buffer, size_max: int) -> bytearray:
    """Decompress all members, feeding the input in pieces.

    At the end of a member zlib copies the rest of its input: with pieces, a tiny member copies at most one piece.
    """
    view = memoryview(data)
    output = bytearray()
    position = 0
    member = zlib.decompressobj(_GZIP_WBITS)
    while position < len(view) or not member.eof:
        if member.eof:
            member = zlib.decompressobj(_GZIP_WBITS)
        piece = view[position : position + _GZIP_INPUT_SIZE]
        try:
            part = member.decompress(piece, min(size_max - len(output) + 1, _GZIP_OUTPUT_SIZE))
        except zlib.error as error:
            raise DecodeError(f"{len(view)} bytes of GZIP, at {position}: {error}") from None
        # At the end of a member that is also the end of a step, zlib reports the rest in both places.
        taken = len(piece) - len(member.unused_data if member.eof else member.unconsumed_tail)
        if not taken and not part and not member.eof:
            raise DecodeError(f"{len(view)} bytes of GZIP end in the middle of a member")
        position += taken
        _check_size(Codec.GZIP, len(output) + len(part), size_max)
        output += part
    return output


_SNAPPY_BLOCK_SIZE: Final = 2**15
# A raw snappy stream cannot begin like this: its third byte would copy from before the first byte of output.
_XERIAL_MAGIC: Final = b"\x82SNAPPY\0"
_XERIAL_HEADER: Final = _XERIAL_MAGIC + b"\0\0\0\1\0\0\0\1"


def _snappy_compress(data: Buffer) -> bytes:
    """Compress in the framing of Java's snappy library (xerial), which every Kafka client reads."""
    compress_raw = _cramjam().snappy.compress_raw
    view = memoryview(data)
    parts = [_XERIAL_HEADER]
    for position in range(0, len(view), _SNAPPY_BLOCK_SIZE):
        block = bytes(compress_raw(view[position : position + _SNAPPY_BLOCK_SIZE]))
        parts += (len(block).to_bytes(4, "big"), block)
    return b"".join(parts)


def _snappy_decompress(data: Buffer, size_max: int) -> bytearray:
    """Decompress raw snappy, as librdkafka and others send it, or snappy in xerial's framing.

    The version numbers after xerial's magic are ignored: there is only one version, and writers disagree on its byte
    order. A header may also be between blocks, where streams were concatenated.
    """
    view = memoryview(data)
    if bytes(view[: len(_XERIAL_MAGIC)]) != _XERIAL_MAGIC:
        return _snappy_block(view, size_max)
    output = bytearray()
    position = 0
    while position < len(view):
        if bytes(view[position : position + len(_XERIAL_MAGIC)]) == _XERIAL_MAGIC:
            position += len(_XERIAL_HEADER)
            continue
        length = int.from_bytes(view[position : position + 4], "big", signed=True)
        position += 4
        if not 0 < length <= len(view) - position:
            raise DecodeError(f"SNAPPY block of length {length}; {len(view) - position} bytes are left at {position}")
        output += _snappy_block(view[position : position + length], size_max - len(output))
        position += length
    if position > len(view):
        raise DecodeError(f"{len(view)} bytes of SNAPPY end in the middle of a header of {len(_XERIAL_HEADER)}")
    return output


def _snappy_block(block: memoryview, size_max: int) -> bytearray:
    snappy = _cramjam().snappy
    try:
        size = snappy.decompress_raw_len(block)
        _check_size(Codec.SNAPPY, size, size_max)
        output = _buffer(size)
        snappy.decompress_raw_into(block, output)
        return output
    except _cramjam().DecompressionError as error:
        raise DecodeError(f"{len(block)} bytes of SNAPPY: {error}") from None


def _check_size(codec: Codec, size: int, size_max: int) -> None:
    if size > size_max:
        raise DecodeError(f"{codec.name} holds {size} bytes or more; {size_max} are allowed")
