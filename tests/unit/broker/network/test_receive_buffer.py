"""Frames come out whole and in order, however the bytes arrive, and a promise of bytes reserves no memory."""

from __future__ import annotations

import struct
import subprocess
import sys
import weakref

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semel.broker.network.receive_buffer import ReceiveBuffer
from semel.broker.network.request_memory import RequestMemory
from semel.errors import DecodeError
from tests.unit.broker.network import grown_and_closed

SCRATCH = 64


def inbox(frame_bytes_max: int = 10_000) -> ReceiveBuffer:
    return ReceiveBuffer(memoryview(bytearray(SCRATCH)), frame_bytes_max, RequestMemory(2**30))


def framed(*bodies: bytes) -> bytes:
    return b"".join(struct.pack(">i", len(body)) + body for body in bodies)


def receive(box: ReceiveBuffer, data: bytes, sizes: list[int]) -> list[bytes]:
    """Deliver ``data`` in pieces of at most ``sizes`` (the last size repeats), as a transport would."""
    frames = []
    while data:
        size = sizes.pop(0) if len(sizes) > 1 else sizes[0]
        buffer = box.buffer()
        taken = data[: min(size, len(buffer))]
        buffer[: len(taken)] = taken
        data = data[len(taken) :]
        box.received(len(taken))
        while (frame := box.next_frame()) is not None:
            frames.append(bytes(frame))
        box.settle()
    return frames


@settings(max_examples=200, derandomize=True)
@given(
    bodies=st.lists(st.binary(min_size=1, max_size=5 * SCRATCH), max_size=12),
    sizes=st.lists(st.integers(1, 3 * SCRATCH), min_size=1, max_size=30),
)
def test_any_cut_of_the_stream_gives_the_same_frames(bodies: list[bytes], sizes: list[int]) -> None:
    box = inbox()

    assert receive(box, framed(*bodies), sizes) == bodies
    assert not box.waiting


def test_frames_that_have_to_wait_are_handed_out_after_reopen() -> None:
    box = inbox()
    data = framed(b"one", b"two", b"three")
    box.buffer()[: len(data)] = data
    box.received(len(data))

    assert bytes(box.next_frame() or b"") == b"one"
    box.settle()
    assert box.waiting
    box.reopen()
    assert bytes(box.next_frame() or b"") == b"two"
    box.settle()
    box.reopen()
    assert bytes(box.next_frame() or b"") == b"three"
    assert box.next_frame() is None
    box.settle()
    assert not box.waiting


def test_what_is_set_aside_survives_another_connection_using_the_scratch() -> None:
    scratch = memoryview(bytearray(SCRATCH))
    memory = RequestMemory(2**30)
    mine, other = ReceiveBuffer(scratch, 1000, memory), ReceiveBuffer(scratch, 1000, memory)
    data = framed(b"m" * 20)
    mine.buffer()[:10] = data[:10]
    mine.received(10)
    assert mine.next_frame() is None
    mine.settle()

    assert receive(other, framed(b"o" * 40), [100]) == [b"o" * 40]
    assert receive(mine, data[10:], [100]) == [b"m" * 20]


def test_a_frame_is_writable_in_place() -> None:
    box = inbox()
    for body in (b"small", b"l" * 5 * SCRATCH):
        data = framed(body)
        frame = None
        while data:
            buffer = box.buffer()
            size = min(len(buffer), len(data))
            buffer[:size] = data[:size]
            data = data[size:]
            box.received(size)
            frame = box.next_frame()
            if frame is None:
                box.settle()
        assert frame is not None
        frame[0] = ord("X")
        assert bytes(frame) == b"X" + body[1:]
        box.settle()


@pytest.mark.parametrize("size", [-1, -(2**31), 0, 10_001, 2**31 - 1, 0x47455420])
def test_a_size_outside_the_limits_is_refused(size: int) -> None:
    box = inbox()
    data = struct.pack(">i", size)
    box.buffer()[:4] = data
    box.received(4)

    with pytest.raises(DecodeError, match=f"{size} bytes; the limit is 10000"):
        box.next_frame()


@pytest.mark.parametrize("version", [0, 1, 3])
def test_a_client_that_speaks_tls_is_told_apart_from_one_that_sends_nonsense(version: int) -> None:
    box = inbox()
    box.buffer()[:4] = bytes((0x16, 3, version, 2))
    box.received(4)

    with pytest.raises(DecodeError, match="speaks TLS, and this listener does not"):
        box.next_frame()


def test_a_promised_frame_reserves_no_more_than_a_few_times_what_has_arrived() -> None:
    box = inbox(frame_bytes_max=100_000_000)
    data = struct.pack(">i", 99_999_999) + b"x" * (SCRATCH - 4)
    box.buffer()[:] = data
    box.received(len(data))
    assert box.next_frame() is None
    box.settle()

    assert len(box.buffer()) <= 4 * SCRATCH


def test_the_buffer_of_a_large_frame_is_given_back_by_shrink_but_not_while_it_is_in_use() -> None:
    box = inbox()
    body = b"l" * 3 * SCRATCH
    assert receive(box, framed(body)[:100], [100]) == []
    box.shrink()
    assert receive(box, framed(body)[100:], [100]) == [body]
    box.shrink()
    assert receive(box, framed(body), [100]) == [body]


def test_a_buffer_that_is_closed_frees_the_memory_of_a_frame_that_was_arriving() -> None:
    box = inbox()
    assert receive(box, framed(b"l" * 3 * SCRATCH)[:100], [100]) == []
    mapped = weakref.ref(box.buffer().obj)
    assert mapped() is not None
    box.close()
    assert mapped() is None
    assert not box.waiting


@pytest.mark.skipif(sys.platform != "linux", reason="Only glibc's heap is told to keep what is freed.")
def test_buffers_that_grow_and_go_leave_no_memory_behind() -> None:
    command = [sys.executable, "-m", grown_and_closed.__name__]
    grown_bytes = int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)

    # The memory that frames may have, and a little for what the process needs besides.
    assert grown_bytes <= 1.25 * grown_and_closed.ARRIVING_BYTES_MAX
