"""A few kilobytes that claim to be many megabytes: refused, and without taking the memory first.

The measurement runs in a process of its own, whose peak memory the kernel counts: the decompressors' allocations are
not Python's, so ``tracemalloc`` would not see them.
"""

from __future__ import annotations

import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path

import cramjam
import lz4.frame
import pytest
import zstandard

from semel.errors import DecodeError
from semel.wire.compression import Codec, decompress

MEBIBYTE = 2**20

Bomb = Callable[[], bytes]


def gzip_in_one_member() -> bytes:
    return zlib.compress(bytes(64 * MEBIBYTE), 9, 31)


def gzip_in_many_members() -> bytes:
    return zlib.compress(bytes(MEBIBYTE), 9, 31) * 64


def raw_snappy() -> bytes:
    return bytes(cramjam.snappy.compress_raw(bytes(64 * MEBIBYTE)))


def raw_snappy_that_only_claims() -> bytes:
    return b"\xff\xff\xff\xff\x0f" + b"\x10hello"


def xerial_snappy() -> bytes:
    block = bytes(cramjam.snappy.compress_raw(bytes(2**15)))
    return b"\x82SNAPPY\x00" + b"\x00\x00\x00\x01" * 2 + (len(block).to_bytes(4, "big") + block) * 2048


def lz4_frame_of_many_blocks() -> bytes:
    frame = lz4.frame.compress(bytes(4 * MEBIBYTE), block_size=7, block_linked=False, store_size=False)
    return frame[:7] + frame[7:-4] * 16 + frame[-4:]


def lz4_in_many_frames() -> bytes:
    return lz4.frame.compress(bytes(MEBIBYTE)) * 64


def lz4_that_states_its_size() -> bytes:
    return lz4.frame.compress(bytes(64 * MEBIBYTE), store_size=True)


def zstd_of_repeated_bytes() -> bytes:
    """By hand: no content size, blocks that are one byte repeated 128 KiB times."""
    repeated = (2**17 << 3 | 1 << 1).to_bytes(3, "little") + b"x"
    last = (0 << 3 | 1).to_bytes(3, "little")
    window_of_a_mebibyte = bytes([(20 - 10) << 3])
    return b"\x28\xb5\x2f\xfd" + b"\x00" + window_of_a_mebibyte + repeated * 512 + last


def zstd_with_the_largest_window() -> bytes:
    frame = bytearray(zstd_of_repeated_bytes())
    frame[5] = (27 - 10) << 3
    return bytes(frame)


def zstd_that_states_its_size() -> bytes:
    return zstandard.ZstdCompressor().compress(bytes(64 * MEBIBYTE))


def zstd_that_lies_about_its_size() -> bytes:
    """States one byte, holds 64 MiB."""
    frame = zstd_of_repeated_bytes()
    return frame[:4] + b"\x20" + b"\x01" + frame[6:]


BOMBS = {
    gzip_in_one_member: Codec.GZIP,
    gzip_in_many_members: Codec.GZIP,
    raw_snappy: Codec.SNAPPY,
    raw_snappy_that_only_claims: Codec.SNAPPY,
    xerial_snappy: Codec.SNAPPY,
    lz4_frame_of_many_blocks: Codec.LZ4,
    lz4_in_many_frames: Codec.LZ4,
    lz4_that_states_its_size: Codec.LZ4,
    zstd_of_repeated_bytes: Codec.ZSTD,
    zstd_with_the_largest_window: Codec.ZSTD,
    zstd_that_states_its_size: Codec.ZSTD,
    zstd_that_lies_about_its_size: Codec.ZSTD,
}
LYING = (raw_snappy_that_only_claims, zstd_that_lies_about_its_size)

MEASURE = """
import pathlib, sys
from semel.errors import DecodeError
from semel.wire.compression import Codec, compress, decompress

def peak_kib():
    status = pathlib.Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0])

bomb, codec = pathlib.Path(sys.argv[1]).read_bytes(), Codec(int(sys.argv[2]))
assert decompress(codec, compress(codec, b"warm"), size_max=4) == b"warm"
before = peak_kib()
try:
    decompress(codec, bomb, size_max=2**20)
except DecodeError:
    print(peak_kib() - before)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the kernel's count of peak memory is Linux's")
@pytest.mark.parametrize("bomb", BOMBS, ids=lambda bomb: bomb.__name__)
def test_a_bomb_is_refused_for_little_more_memory_than_the_limit(bomb: Bomb, tmp_path: Path) -> None:
    path = tmp_path / "bomb"
    path.write_bytes(bomb())
    arguments = [sys.executable, "-c", MEASURE, str(path), str(int(BOMBS[bomb]))]
    measured = subprocess.run(arguments, check=True, capture_output=True, text=True).stdout
    # The limit is 1 MiB; decompressors hold a window and a block besides, of up to 4 MiB each.
    assert measured, "the bomb went off"
    assert int(measured) < 12 * 1024


@pytest.mark.parametrize("bomb", [bomb for bomb in BOMBS if bomb not in LYING], ids=lambda bomb: bomb.__name__)
def test_a_bomb_is_real(bomb: Bomb) -> None:
    """With a limit that is high enough it is a sound stream."""
    assert len(decompress(BOMBS[bomb], bomb(), size_max=128 * MEBIBYTE)) == 64 * MEBIBYTE


@pytest.mark.parametrize("bomb", LYING, ids=lambda bomb: bomb.__name__)
def test_a_size_that_is_a_lie_is_refused_whatever_the_limit(bomb: Bomb) -> None:
    with pytest.raises(DecodeError):
        decompress(BOMBS[bomb], bomb(), size_max=128 * MEBIBYTE)


DECLARING = (
    gzip_in_one_member,
    raw_snappy,
    lz4_that_states_its_size,
    zstd_of_repeated_bytes,
    zstd_that_states_its_size,
)


@pytest.mark.parametrize("bomb", DECLARING, ids=lambda bomb: bomb.__name__)
def test_a_bomb_that_says_how_large_it_is_is_refused_before_anything_is_decompressed(bomb: Bomb) -> None:
    """What is behind the first kilobytes is no stream any more, and no decompressor is asked about it."""
    data = bytearray(bomb())
    data[-40:-8] = b"\xa5" * 32
    with pytest.raises(DecodeError, match=rf"holds \d+ bytes or more; {MEBIBYTE} are allowed"):
        decompress(BOMBS[bomb], bytes(data), size_max=MEBIBYTE)
    with pytest.raises(DecodeError):
        decompress(BOMBS[bomb], bytes(data), size_max=128 * MEBIBYTE)
