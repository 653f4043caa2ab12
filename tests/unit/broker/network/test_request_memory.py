"""Requests that arrive share a limited memory, take turns when there is none left, and never lock each other out."""

from __future__ import annotations

import random
import struct

from semel.broker.network.receive_buffer import ReceiveBuffer
from semel.broker.network.request_memory import RequestMemory

SCRATCH = 64


def test_memory_is_given_until_the_limit_and_again_after_it_comes_back() -> None:
    memory = RequestMemory(100)
    assert memory.take("a", 60)
    assert not memory.take("b", 60)
    served: list[str] = []
    memory.wait("b", 60, lambda: served.append("b"))
    memory.wait("c", 30, lambda: served.append("c"))
    assert served == []
    assert memory.is_scarce

    memory.give_back("a")

    assert served == ["b", "c"]
    assert memory.used_bytes == 90


def test_whoever_waits_is_not_overtaken() -> None:
    memory = RequestMemory(100)
    memory.take("a", 60)
    memory.wait("b", 60, lambda: None)

    assert not memory.take("c", 10)


def test_when_all_that_hold_memory_wait_for_more_the_first_goes_on() -> None:
    memory = RequestMemory(100)
    memory.take("a", 50)
    memory.take("b", 50)
    served: list[str] = []
    memory.wait("a", 10, lambda: served.append("a"))
    assert served == []
    memory.wait("b", 10, lambda: served.append("b"))

    assert served == ["a"]
    memory.give_back("a")
    assert served == ["a", "b"]


def test_who_leaves_gives_back_its_memory_and_its_place_in_the_line() -> None:
    memory = RequestMemory(100)
    memory.take("a", 100)
    served: list[str] = []
    memory.wait("b", 100, lambda: served.append("b"))
    memory.wait("c", 100, lambda: served.append("c"))
    memory.give_back("b")
    memory.give_back("a")

    assert served == ["c"]
    assert memory.used_bytes == 100


def test_memory_that_nobody_needs_is_reclaimed_before_anybody_waits() -> None:
    memory = RequestMemory(100, lambda: memory.give_back("idle"))
    memory.take("idle", 80)

    assert memory.take("a", 60)
    assert memory.used_bytes == 60


def test_large_frames_of_many_connections_all_arrive_within_a_small_memory() -> None:
    chance = random.Random(3)
    memory = RequestMemory(2000)
    scratch = memoryview(bytearray(SCRATCH))
    inboxes = [ReceiveBuffer(scratch, 100_000, memory) for _ in range(12)]
    bodies = [bytes([number]) * chance.randint(300, 1500) for number in range(12)]
    left = {number: struct.pack(">i", len(body)) + body for number, body in enumerate(bodies)}
    arrived: dict[int, bytes] = {}
    peak = 0
    while left:
        ready = [number for number in left if not inboxes[number].lacks_memory]
        assert ready, "they locked each other out"
        number = chance.choice(ready)
        inbox = inboxes[number]
        buffer = inbox.buffer()
        size = min(len(buffer), len(left[number]), chance.randint(1, SCRATCH))
        buffer[:size] = left[number][:size]
        left[number] = left[number][size:]
        inbox.received(size)
        frame = inbox.next_frame()
        if frame is not None:
            arrived[number] = bytes(frame)
            del left[number]
        inbox.settle()
        if frame is not None:
            inbox.shrink()
        if inbox.lacks_memory:
            inbox.wait_for_memory(lambda: None)
        peak = max(peak, memory.used_bytes)

    assert [arrived[number] for number in range(12)] == bodies
    assert peak <= 2000 + 3100, "at most one went on although there was none left"
    assert memory.used_bytes == 0
