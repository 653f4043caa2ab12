"""A connection that holds memory makes progress or is closed; one that is only slow stays while there is memory."""

from __future__ import annotations

import struct

from semel.broker.network.stalled_connections import SCARCE_STALLED_MS_MAX, StalledConnections
from tests.unit.broker.network.connection_bench import Bench

STALLED_S = 30
MEGABYTE = 2**20


def do_nothing() -> None:
    """What a request that waits for room does once there is some."""


class Watched(Bench):
    """A connection that somebody looks at from time to time."""

    def __init__(self, *, arriving_bytes_max: int = 2**30, leaving_bytes_max: int = 2**30) -> None:
        super().__init__(arriving_bytes_max=arriving_bytes_max, leaving_bytes_max=leaving_bytes_max)
        self.stalled = StalledConnections(self.memory, self.server.responses)

    def reasons_within(self, seconds: int) -> list[str]:
        """Why it has to be closed, if it has to, looked at once a second."""
        for _ in range(seconds):
            found = self.look()
            if found:
                return found
            self.wait(1)
        return self.look()

    def look(self) -> list[str]:
        now_ms = self.server.clock.monotonic_ms()
        found = self.stalled.find([self.connection], now_ms=now_ms, stalled_ms_max=STALLED_S * 1000)
        return [reason for _, reason in found]

    def leave_unread(self, size: int) -> None:
        self.transport.unread_bytes = 0
        self.send(b"fetch")
        self.answer(b"fetch", b"x" * size)
        self.turn()


def test_a_client_that_reads_nothing_is_found_after_its_time() -> None:
    scene = Watched()
    scene.leave_unread(MEGABYTE)

    assert scene.reasons_within(STALLED_S - 1) == []
    assert "read none of its answers for 30000 ms" in scene.reasons_within(2)[0]


def test_a_client_that_reads_a_little_from_time_to_time_is_left_alone() -> None:
    scene = Watched()
    scene.leave_unread(MEGABYTE)
    for _ in range(100):
        assert scene.reasons_within(STALLED_S - 1) == []
        scene.transport.read_by_client(10)


def test_further_answers_are_no_progress() -> None:
    scene = Watched()
    scene.send(b"a", b"b")
    scene.transport.unread_bytes = 0
    scene.answer(b"a", b"x" * MEGABYTE)
    assert scene.reasons_within(STALLED_S - 1) == []
    scene.answer(b"b", b"more")

    assert scene.reasons_within(2) != []


def test_a_small_answer_that_is_not_read_is_no_reason_unless_the_connection_is_being_closed() -> None:
    scene = Watched()
    scene.leave_unread(100)
    assert scene.reasons_within(5 * STALLED_S) == []

    scene.transport.closing = True
    assert "read none of its answers" in scene.look()[0]


def test_while_others_wait_for_room_a_second_is_enough() -> None:
    scene = Watched(leaving_bytes_max=MEGABYTE)
    scene.leave_unread(MEGABYTE)
    assert scene.look() == []
    scene.server.responses.wait(do_nothing)

    assert "others wait for the memory" in scene.reasons_within(SCARCE_STALLED_MS_MAX // 1000)[0]


def test_while_others_wait_for_room_a_client_that_reads_byte_by_byte_has_a_limited_time() -> None:
    scene = Watched(leaving_bytes_max=MEGABYTE)
    scene.leave_unread(MEGABYTE)
    scene.wait(1000)
    scene.server.responses.wait(do_nothing)
    for _ in range(2 * STALLED_S):
        assert scene.look() == []
        scene.wait(0.5)
        scene.transport.read_by_client(1)

    assert "has not read its answers within" in scene.look()[0]


def test_what_is_counted_is_what_was_made_and_not_read() -> None:
    scene = Watched()
    responses = scene.server.responses
    scene.send(b"slow", b"next")
    scene.answer(b"next", b"n" * 500)
    assert responses.used_bytes == 500, "it waits for the answer before it"
    scene.transport.unread_bytes = 0
    scene.answer(b"slow", b"s" * MEGABYTE)
    scene.turn()
    assert responses.used_bytes == MEGABYTE

    scene.transport.read_by_client(1000)
    assert responses.used_bytes == MEGABYTE, "the transport keeps the whole of it"
    scene.transport.read_by_client(MEGABYTE + 500 - 1000)
    assert responses.used_bytes == 0


def test_what_a_client_leaves_unread_is_given_back_when_it_leaves() -> None:
    scene = Watched()
    scene.leave_unread(MEGABYTE)
    scene.send(b"slow", b"next")
    scene.transport.close()
    assert scene.server.responses.used_bytes == 0

    scene.answer(b"fetch", b"x" * MEGABYTE)
    scene.connection.reply([b"x" * MEGABYTE])
    assert scene.server.responses.used_bytes == 0


def test_many_small_answers_that_are_not_read_count_together() -> None:
    scene = Watched()
    scene.transport.unread_bytes = 0
    scene.server.at_once = lambda name: True
    number = 0
    while scene.transport.reading:
        scene.send(b"%01000d" % number)
        number += 1

    assert scene.server.responses.used_bytes > 60_000
    assert scene.connection.paused_at_ms is not None


def metadata(name: bytes) -> bytes:
    return struct.pack(">h", 3) + name


def produce(name: bytes) -> bytes:
    return struct.pack(">h", 0) + name


def test_without_room_requests_with_large_answers_wait_and_small_ones_do_not() -> None:
    scene = Watched(leaving_bytes_max=MEGABYTE)
    scene.server.at_once = lambda name: True
    scene.server.responses.add(MEGABYTE)
    scene.send(produce(b"1"), metadata(b"2"), produce(b"3"))
    assert scene.sent == produce(b"1")
    assert not scene.transport.reading
    assert scene.server.responses.is_scarce

    scene.server.responses.remove(1)
    scene.turn()

    assert scene.sent == produce(b"1") + metadata(b"2") + produce(b"3")
    assert scene.transport.reading


def test_a_large_request_that_waits_for_room_is_served_whole() -> None:
    scene = Watched(leaving_bytes_max=MEGABYTE)
    scene.server.at_once = lambda name: True
    scene.server.responses.add(MEGABYTE)
    large = metadata(b"L" * 100_000)
    scene.send(large)
    assert scene.sent == b""

    scene.server.responses.remove(1)
    scene.turn()

    assert scene.sent == large


def test_own_answers_that_are_read_at_once_do_not_keep_the_next_request_waiting() -> None:
    scene = Watched(leaving_bytes_max=10_000)
    scene.server.at_once = lambda name: True
    requests = [metadata(b"%06000d" % number) for number in range(10)]
    scene.send(*requests)
    scene.turn()

    assert scene.sent == b"".join(requests)
    assert scene.server.responses.used_bytes == 0
    assert scene.transport.reading


def test_a_client_that_sends_no_more_of_a_request_is_found_after_its_time() -> None:
    for size in (100, 100_000):
        scene = Watched()
        scene.transport.deliver(struct.pack(">i", size) + b"x" * 50)
        assert scene.reasons_within(STALLED_S - 1) == []
        assert "no byte more for 30000 ms" in scene.reasons_within(1)[0]


def test_a_client_that_is_not_read_because_a_request_of_it_is_held_is_left_alone() -> None:
    scene = Watched()
    scene.server.hold = lambda name: True
    scene.send(b"fetch")
    scene.transport.deliver(struct.pack(">i", 100_000) + b"x" * 50)

    assert scene.reasons_within(10 * STALLED_S) == []


def test_while_others_wait_for_memory_a_request_that_does_not_arrive_is_found_after_a_second() -> None:
    scene = Watched(arriving_bytes_max=10_000)
    scene.transport.deliver(struct.pack(">i", 100_000) + b"x" * 4090)
    scene.memory.wait(object(), 10_000, lambda: None)
    assert scene.memory.is_scarce

    assert "others wait for memory" in scene.reasons_within(1)[0]


def test_while_others_wait_for_memory_a_request_that_drips_in_has_a_limited_time() -> None:
    scene = Watched(arriving_bytes_max=50_000)
    scene.transport.deliver(struct.pack(">i", 100_000) + b"x" * 4092)
    scene.memory.wait(object(), 50_000, lambda: None)
    for _ in range(2 * STALLED_S):
        assert scene.look() == []
        scene.wait(0.5)
        scene.transport.deliver(b"x")

    assert "has not arrived whole within 30000 ms" in scene.look()[0]


def test_one_large_request_after_the_other_is_no_request_that_drips_in() -> None:
    scene = Watched(arriving_bytes_max=50_000)
    scene.memory.take("other", 10_000)
    scene.memory.wait(object(), 50_000, lambda: None)
    frame = struct.pack(">i", 5000) + b"x" * 5000
    for _ in range(10 * STALLED_S):
        assert scene.look() == []
        scene.transport.deliver(frame[:4096])
        scene.wait(0.5)
        assert scene.look() == []
        if not scene.transport.reading:
            break  # It waits for memory itself.
        scene.transport.deliver(frame[4096:])
        scene.server.answer(scene.connection, b"x" * 5000)
