"""The codecs: framings that Kafka's clients write, levels, limits, and what other libraries make of our bytes."""

from __future__ import annotations

import gzip
import random
import subprocess
import sys
import zlib

import cramjam
import lz4.frame
import pytest
import zstandard

from semel.errors import DecodeError
from semel.wire.compression import COMPRESSION_LEVELS, Codec, compress, decompress
from semel.wire.decompressed_size import lz4_size_bound, zstd_size_bound

COMPRESSING = [codec for codec in Codec if codec is not Codec.NONE]
RANDOM = random.Random(1)
SAMPLES = {
    "nothing": b"",
    "one byte": b"x",
    "a sentence": b"exactly once, and in order. " * 3,
    "a run": bytes(300_000),
    "noise": RANDOM.randbytes(200_000),
    "a block less one": RANDOM.randbytes(2**15 - 1),
    "a block": RANDOM.randbytes(2**15),
    "a block and one": RANDOM.randbytes(2**15 + 1),
    "lines": b"".join(b'{"id": %d, "amount": %d}\n' % (n, n * n % 997) for n in range(20_000)),
}


@pytest.mark.parametrize("data", SAMPLES.values(), ids=SAMPLES)
@pytest.mark.parametrize("codec", Codec)
def test_what_was_compressed_comes_back(codec: Codec, data: bytes) -> None:
    compressed = compress(codec, data)
    for buffer in (compressed, bytearray(compressed), memoryview(b"." + compressed + b".")[1:-1]):
        assert decompress(codec, buffer, size_max=len(data)) == data
    assert compress(codec, memoryview(data)) == compressed


@pytest.mark.parametrize("data", [sample for sample in SAMPLES.values() if sample])
@pytest.mark.parametrize("codec", Codec)
def test_one_byte_more_than_allowed_is_refused(codec: Codec, data: bytes) -> None:
    with pytest.raises(DecodeError):
        decompress(codec, compress(codec, data), size_max=len(data) - 1)


@pytest.mark.parametrize("codec", COMPRESSING)
def test_runs_and_lines_get_smaller(codec: Codec) -> None:
    for name in ("a run", "lines"):
        assert len(compress(codec, SAMPLES[name])) < len(SAMPLES[name]) / 2


@pytest.mark.parametrize("codec", COMPRESSING)
def test_no_bytes_are_not_a_stream(codec: Codec) -> None:
    with pytest.raises(DecodeError):
        decompress(codec, b"", size_max=100)


@pytest.mark.parametrize("codec", COMPRESSING)
def test_a_stream_cut_anywhere_never_gives_the_whole(codec: Codec) -> None:
    """Snappy's blocks have no end mark: a cut between two is only noticed by whoever counts the records."""
    data = SAMPLES["a sentence"] + RANDOM.randbytes(40_000)
    compressed = compress(codec, data)
    for size in [*range(64), *range(64, len(compressed), 997), *range(len(compressed) - 64, len(compressed))]:
        try:
            assert decompress(codec, compressed[:size], size_max=len(data)) != data
            assert codec is Codec.SNAPPY
        except DecodeError:
            pass


@pytest.mark.parametrize("codec", COMPRESSING)
def test_what_follows_the_stream_is_refused(codec: Codec) -> None:
    with pytest.raises(DecodeError):
        decompress(codec, compress(codec, b"data") + b"garbage", size_max=100)


@pytest.mark.parametrize("codec", COMPRESSING)
def test_concatenated_streams_are_one(codec: Codec) -> None:
    parts = [b"one ", RANDOM.randbytes(70_000), b"", b" three"]
    stream = b"".join(compress(codec, part) for part in parts)
    assert decompress(codec, stream, size_max=100_000) == b"".join(parts)
    with pytest.raises(DecodeError):
        decompress(codec, stream, size_max=sum(map(len, parts)) - 1)


@pytest.mark.parametrize("codec", COMPRESSION_LEVELS)
def test_every_level_gives_back_the_data(codec: Codec) -> None:
    data = SAMPLES["lines"][:20_000]
    levels = COMPRESSION_LEVELS[codec]
    for level in {levels[0], -1 if -1 in levels else 1, 3, 9, levels[-1]}:
        assert decompress(codec, compress(codec, data, level), size_max=len(data)) == data


@pytest.mark.parametrize(
    ("codec", "level"),
    [
        (Codec.GZIP, 0),
        (Codec.GZIP, 10),
        (Codec.LZ4, 0),
        (Codec.LZ4, 18),
        (Codec.ZSTD, 23),
        (Codec.SNAPPY, 1),
        (Codec.NONE, 1),
    ],
)
def test_a_level_that_a_codec_does_not_have_is_refused(codec: Codec, level: int) -> None:
    with pytest.raises(ValueError, match=f"compression level {level} for {codec.name}; its levels are"):
        compress(codec, b"data", level)


def test_gzip_is_read_by_the_standard_library_and_the_other_way_round() -> None:
    for data in SAMPLES.values():
        assert gzip.decompress(compress(Codec.GZIP, data)) == data
        assert decompress(Codec.GZIP, gzip.compress(data), size_max=len(data)) == data


def test_a_gzip_checksum_that_is_wrong_is_noticed() -> None:
    damaged = bytearray(compress(Codec.GZIP, b"data"))
    damaged[-5] ^= 1
    with pytest.raises(DecodeError, match="incorrect data check"):
        decompress(Codec.GZIP, damaged, size_max=100)


def test_gzip_that_pauses_with_all_its_input_read_is_read_on() -> None:
    """The output limit of a step is reached while the last input is already inside zlib."""
    data = bytes(5 * 2**18)
    assert len(compress(Codec.GZIP, data)) < 2**14
    assert decompress(Codec.GZIP, compress(Codec.GZIP, data), size_max=len(data)) == data


def test_lz4_is_read_by_another_library_and_the_other_way_round() -> None:
    for data in SAMPLES.values():
        assert lz4.frame.decompress(compress(Codec.LZ4, data)) == data
        for options in (
            {},
            {"block_linked": False, "store_size": False},
            {"block_checksum": True, "content_checksum": True},
            {"block_size": lz4.frame.BLOCKSIZE_MAX4MB, "compression_level": 9},
        ):
            theirs = lz4.frame.compress(data, **options)
            assert decompress(Codec.LZ4, theirs, size_max=len(data)) == data


def test_lz4_blocks_stand_alone_because_kafka_in_java_refuses_others() -> None:
    info = lz4.frame.get_frame_info(compress(Codec.LZ4, SAMPLES["lines"]))
    assert (info["block_linked"], info["block_size"], info["content_checksum"]) == (False, 65536, False)


def test_kafkas_default_lz4_level_is_its_fast_compressor() -> None:
    data = SAMPLES["lines"]
    assert compress(Codec.LZ4, data) == compress(Codec.LZ4, data, 9) == compress(Codec.LZ4, data, 1)
    assert len(compress(Codec.LZ4, data, 10)) < len(compress(Codec.LZ4, data, 9))


def test_zstd_is_read_by_another_library_and_the_other_way_round() -> None:
    for data in SAMPLES.values():
        assert zstandard.ZstdDecompressor().decompress(compress(Codec.ZSTD, data), max_output_size=2**20) == data
        for options in ({}, {"write_content_size": False}, {"write_checksum": True}, {"level": 19}):
            theirs = zstandard.ZstdCompressor(**options).compress(data)
            assert decompress(Codec.ZSTD, theirs, size_max=len(data)) == data
        # As Java's stream writes it: flushed in pieces, size unknown.
        stream = zstandard.ZstdCompressor().compressobj()
        pieces = [
            stream.compress(data[:1000]),
            stream.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK),
            stream.compress(data[1000:]),
        ]
        theirs = b"".join([*pieces, stream.flush()])
        assert decompress(Codec.ZSTD, theirs, size_max=len(data)) == data


@pytest.mark.parametrize("codec", [Codec.LZ4, Codec.ZSTD])
def test_skippable_frames_are_skipped(codec: Codec) -> None:
    skippable = b"\x53\x2a\x4d\x18" + (5).to_bytes(4, "little") + b"hello"
    stream = skippable + compress(codec, b"data") + skippable + compress(codec, b" and more")
    assert decompress(codec, stream, size_max=100) == b"data and more"


@pytest.mark.parametrize("size_max", [0, 1, 1000, 2**20, 2**30])
@pytest.mark.parametrize("data", SAMPLES.values(), ids=SAMPLES)
def test_the_bound_on_a_stream_covers_its_content_and_never_exceeds_the_limit(data: bytes, size_max: int) -> None:
    """Frames of every shape, each behind one of another shape: a wrong step over the first would miss the second."""
    lz4_frames = [
        lz4.frame.compress(part, block_size=block_size, store_size=store_size, **checksums)
        for part in (b"small", data)
        for block_size in (4, 7)
        for store_size in (True, False)
        for checksums in ({}, {"block_checksum": True}, {"content_checksum": True})
    ]
    zstd_frames = [
        zstandard.ZstdCompressor(write_content_size=size, write_checksum=checksum, write_dict_id=False).compress(part)
        for part in (b"small", b"middle" * 100, data)
        for size in (True, False)
        for checksum in (True, False)
    ]
    for bound, frames in ((lz4_size_bound, lz4_frames), (zstd_size_bound, zstd_frames)):
        for first in frames:
            assert min(len(data), size_max) <= bound(first + frames[-1], size_max)[0] <= size_max
            alone, _ = bound(frames[-1], 2**30)
            both, declared = bound(first + frames[-1], 2**30)
            assert alone < both
            assert declared <= len(decompress(CODECS[bound], first + frames[-1], size_max=2**30))


CODECS = {lz4_size_bound: Codec.LZ4, zstd_size_bound: Codec.ZSTD}


def snappy_by_hand(block: bytes) -> bytes:
    """Snappy's block format, read the slow way: a second opinion on what ``cramjam`` writes."""
    size = shift = position = 0
    while True:
        byte = block[position]
        position += 1
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    out = bytearray()
    while position < len(block):
        tag = block[position]
        position += 1
        if tag & 3 == 0:
            length = (tag >> 2) + 1
            if length > 60:
                width = length - 60
                length = int.from_bytes(block[position : position + width], "little") + 1
                position += width
            out += block[position : position + length]
            position += length
            continue
        if tag & 3 == 1:
            length, offset, width = (tag >> 2 & 7) + 4, (tag >> 5) << 8 | block[position], 1
        else:
            width = 2 if tag & 3 == 2 else 4
            length, offset = (tag >> 2) + 1, int.from_bytes(block[position : position + width], "little")
        position += width
        for _ in range(length):
            out.append(out[-offset])
    assert len(out) == size
    return bytes(out)


def test_snappy_is_written_in_the_framing_of_the_java_library() -> None:
    for data in SAMPLES.values():
        stream = compress(Codec.SNAPPY, data)
        assert stream[:16] == b"\x82SNAPPY\x00" + b"\x00\x00\x00\x01" * 2
        blocks, position = [], 16
        while position < len(stream):
            length = int.from_bytes(stream[position : position + 4], "big")
            blocks.append(snappy_by_hand(stream[position + 4 : position + 4 + length]))
            position += 4 + length
        assert b"".join(blocks) == data
        assert all(len(block) == 2**15 for block in blocks[:-1])


def test_raw_snappy_is_read_too() -> None:
    assert decompress(Codec.SNAPPY, b"\x05\x10hello", size_max=5) == b"hello"
    for data in SAMPLES.values():
        raw = bytes(cramjam.snappy.compress_raw(data))
        assert decompress(Codec.SNAPPY, raw, size_max=len(data)) == data


def test_the_byte_order_of_the_snappy_version_does_not_matter() -> None:
    """Some writers have it wrong, and Java does not look."""
    stream = bytearray(compress(Codec.SNAPPY, b"data"))
    stream[8:16] = b"\x01\x00\x00\x00" * 2
    assert decompress(Codec.SNAPPY, stream, size_max=10) == b"data"


@pytest.mark.parametrize(
    "tail", [b"\x00", b"\x00\x00\x00", bytes(4), b"\xff\xff\xff\xff", b"\x00\x00\x00\x05abcd", b"\x82SNAPPY\x00"]
)
def test_a_snappy_block_of_an_impossible_length_is_refused(tail: bytes) -> None:
    with pytest.raises(DecodeError):
        decompress(Codec.SNAPPY, compress(Codec.SNAPPY, b"data") + tail, size_max=100)


def test_raw_snappy_that_states_a_wrong_size_is_refused() -> None:
    for stated in (b"\x04", b"\x06", b"\xff\xff\xff\xff\x0f"):
        with pytest.raises(DecodeError):
            decompress(Codec.SNAPPY, stated + b"\x10hello", size_max=2**20)


def test_many_tiny_gzip_members_take_linear_time() -> None:
    """What zlib leaves over must not be copied whole for every member; 8 MB of them would take minutes."""
    member = zlib.compress(b"", 6, 31)
    assert decompress(Codec.GZIP, member * 20_000, size_max=0) == b""


def test_the_compression_library_is_loaded_only_when_it_is_needed() -> None:
    code = (
        "import sys; from semel.wire.records import *; from semel.wire.control import *;"
        "list(iterate_records(build_batch([Record(0, 1)], codec=Codec.GZIP)));"
        "assert 'cramjam' not in sys.modules;"
        "list(iterate_records(build_batch([Record(0, 1)], codec=Codec.ZSTD)));"
        "assert 'cramjam' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
