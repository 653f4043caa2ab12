"""Frames come out whole, however their bytes arrive."""

from __future__ import annotations

from random import Random

import pytest

from semel.errors import DecodeError
from semel.net.frame_receiver import FrameReceiver


def deliver(stream: bytes, sizes: list[int]) -> list[bytes]:
    """Put the stream into a receiver in pieces of these sizes, over and over."""
    receiver = FrameReceiver()
    frames: list[bytes] = []
    position, turn = 0, 0
    while position < len(stream):
        room = receiver.buffer()
        count = min(len(room), sizes[turn % len(sizes)], len(stream) - position)
        room[:count] = stream[position : position + count]
        frames += [bytes(frame) for frame in receiver.received(count)]
        position += count
        turn += 1
    return frames


def framed(*payloads: bytes) -> bytes:
    return b"".join(len(payload).to_bytes(4, "big") + payload for payload in payloads)


@pytest.mark.parametrize("sizes", [[1], [3, 1, 7], [65_536], [10_000_000], [4], [5, 100_000]])
def test_frames_of_all_sizes_are_received_whole(sizes: list[int]) -> None:
    random = Random(1)
    lengths = [1, 3, 100, 65_532, 65_533, 65_536, 5, 200_000, 1] if sizes[0] > 1 else [1, 3, 100, 66_000, 7]
    payloads = [random.randbytes(length) for length in lengths]
    assert deliver(framed(*payloads), sizes) == payloads


def test_a_frame_larger_than_what_is_reserved_at_once_is_received_whole() -> None:
    payload = Random(2).randbytes(9 * 2**20)
    assert deliver(framed(payload, b"next"), [1_000_000]) == [payload, b"next"]


def test_what_a_fetch_of_four_partitions_brings_is_received_into_one_buffer() -> None:
    receiver, size, begun = FrameReceiver(), 4 * 2**20 + 1_000, 100
    start = size.to_bytes(4, "big") + bytes(begun)
    receiver.buffer()[: len(start)] = start
    assert list(receiver.received(len(start))) == []
    assert len(receiver.buffer()) == size - begun


def test_a_large_frame_is_kept_when_the_next_one_comes() -> None:
    receiver = FrameReceiver()
    first, second = bytes(100_000), b"\1" * 100_000
    kept = []
    for piece in (framed(first), framed(second)):
        position = 0
        while position < len(piece):
            room = receiver.buffer()
            count = min(len(room), len(piece) - position)
            room[:count] = piece[position : position + count]
            kept += list(receiver.received(count))
            position += count
    assert [bytes(frame) for frame in kept] == [first, second]


@pytest.mark.parametrize("size", [0, -1, -(2**31)])
def test_a_size_that_nobody_may_send_is_an_error(size: int) -> None:
    with pytest.raises(DecodeError, match=f"a frame of {size} bytes"):
        deliver(size.to_bytes(4, "big", signed=True) + bytes(8), [12])
