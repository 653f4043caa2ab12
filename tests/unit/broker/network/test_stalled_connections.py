"""A connection that holds memory makes progress or is closed; one that is only slow stays while there is memory."""

from __future__ import annotations

import struct
import sys

from semel.broker.network.connection import Connection
from semel.broker.network.stalled_connections import SCARCE_UNREAD_MS_MAX, StalledConnections
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
    bench = Watched()
    bench.leave_unread(MEGABYTE)

    assert bench.reasons_within(STALLED_S - 1) == []
    assert "read none of its answers for 3000" in bench.reasons_within(2)[0]


def test_a_client_that_reads_a_little_from_time_to_time_is_left_alone() -> None:
    bench = Watched()
    bench.leave_unread(MEGABYTE)
    for _ in range(100):
        assert bench.reasons_within(STALLED_S - 1) == []
        bench.transport.read_by_client(10)


def test_further_answers_are_no_progress() -> None:
    bench = Watched()
    bench.send(b"a", b"b")
    bench.transport.unread_bytes = 0
    bench.answer(b"a", b"x" * MEGABYTE)
    assert bench.reasons_within(STALLED_S - 1) == []
    bench.answer(b"b", b"more")

    assert bench.reasons_within(2) != []


def test_a_small_answer_that_is_not_read_is_no_reason_unless_the_connection_is_being_closed() -> None:
    bench = Watched()
    bench.leave_unread(100)
    assert bench.reasons_within(5 * STALLED_S) == []

    bench.transport.closing = True
    assert "read none of its answers" in bench.look()[0]


def test_while_others_wait_for_room_a_moment_is_enough() -> None:
    bench = Watched(leaving_bytes_max=MEGABYTE)
    bench.leave_unread(MEGABYTE)
    assert bench.look() == []
    bench.server.responses.wait(do_nothing)
    bench.wait((SCARCE_UNREAD_MS_MAX - 10) / 1000)
    assert bench.look() == []
    bench.wait(0.02)

    assert "others wait for the memory" in bench.look()[0]


def test_of_those_that_do_not_read_one_goes_for_each_request_that_waits_the_longest_first() -> None:
    benches = [Watched(leaving_bytes_max=4 * MEGABYTE) for _ in range(4)]
    responses = benches[0].server.responses
    for bench in benches:
        bench.connection.responses = responses
        bench.leave_unread(MEGABYTE)
        for other in benches:
            other.wait(1)

    def found() -> list[Connection]:
        now_ms = benches[0].server.clock.monotonic_ms()
        connections = [bench.connection for bench in reversed(benches)]
        return [
            connection for connection, _ in benches[0].stalled.find(connections, now_ms=now_ms, stalled_ms_max=10**6)
        ]

    assert found() == [], "there is no room, and nothing waits for it"
    responses.wait(do_nothing)
    assert found() == [benches[0].connection]
    for _ in range(2):
        responses.wait_with_records(lambda: None, has_read=True)
    assert found() == [bench.connection for bench in benches[:3]]


def test_while_others_wait_for_room_a_client_that_reads_byte_by_byte_has_a_limited_time() -> None:
    bench = Watched(leaving_bytes_max=MEGABYTE)
    bench.leave_unread(MEGABYTE)
    bench.wait(1000)
    bench.transport.read_by_client(1)
    bench.server.responses.wait(do_nothing)
    for _ in range(2 * STALLED_S):
        assert bench.look() == []
        bench.wait(0.5)
        bench.transport.read_by_client(1)

    assert "has not read its answers within" in bench.look()[0]


def test_what_is_counted_is_what_was_made_and_not_read() -> None:
    bench = Watched()
    responses = bench.server.responses
    bench.send(b"slow", b"next")
    bench.answer(b"next", b"n" * 500)
    assert responses.used_bytes == 500, "it waits for the answer before it"
    bench.transport.unread_bytes = 0
    bench.answer(b"slow", b"s" * MEGABYTE)
    bench.turn()
    assert responses.used_bytes == MEGABYTE

    bench.transport.read_by_client(1000)
    assert responses.used_bytes == MEGABYTE, "the transport keeps the whole of it"
    bench.transport.read_by_client(MEGABYTE + 500 - 1000)
    assert responses.used_bytes == 0


def test_what_a_client_leaves_unread_is_given_back_when_it_leaves() -> None:
    bench = Watched()
    bench.leave_unread(MEGABYTE)
    bench.send(b"slow", b"next")
    bench.transport.close()
    assert bench.server.responses.used_bytes == 0

    bench.answer(b"fetch", b"x" * MEGABYTE)
    bench.connection.reply([b"x" * MEGABYTE])
    assert bench.server.responses.used_bytes == 0


def test_many_small_answers_that_are_not_read_count_together() -> None:
    bench = Watched()
    bench.transport.unread_bytes = 0
    bench.server.at_once = lambda name: True
    number = 0
    while bench.transport.reading:
        bench.send(b"%01000d" % number)
        number += 1

    assert bench.server.responses.used_bytes > 60_000
    assert bench.connection.paused_at_ms is not None


def metadata(name: bytes) -> bytes:
    return struct.pack(">h", 3) + name


def produce(name: bytes) -> bytes:
    return struct.pack(">h", 0) + name


def test_without_room_requests_with_large_answers_wait_and_small_ones_do_not() -> None:
    bench = Watched(leaving_bytes_max=MEGABYTE)
    bench.server.at_once = lambda name: True
    bench.server.responses.add(MEGABYTE)
    bench.send(produce(b"1"), metadata(b"2"), produce(b"3"))
    assert bench.sent == produce(b"1")
    assert not bench.transport.reading
    assert bench.server.responses.is_scarce

    bench.server.responses.remove(1)
    bench.turn()

    assert bench.sent == produce(b"1") + metadata(b"2") + produce(b"3")
    assert bench.transport.reading


def test_a_large_request_that_waits_for_room_is_served_whole() -> None:
    bench = Watched(leaving_bytes_max=MEGABYTE)
    bench.server.at_once = lambda name: True
    bench.server.responses.add(MEGABYTE)
    large = metadata(b"L" * 100_000)
    bench.send(large)
    assert bench.sent == b""

    bench.server.responses.remove(1)
    bench.turn()

    assert bench.sent == large


def test_own_answers_that_are_read_at_once_do_not_keep_the_next_request_waiting() -> None:
    bench = Watched(leaving_bytes_max=10_000)
    bench.server.at_once = lambda name: True
    requests = [metadata(b"%06000d" % number) for number in range(10)]
    bench.send(*requests)
    bench.turn()

    assert bench.sent == b"".join(requests)
    assert bench.server.responses.used_bytes == 0
    assert bench.transport.reading


def test_a_client_that_sends_no_more_of_a_request_is_found_after_its_time() -> None:
    for size in (100, 100_000):
        bench = Watched()
        bench.transport.deliver(struct.pack(">i", size) + b"x" * 50)
        assert bench.reasons_within(STALLED_S - 1) == []
        assert "no byte more for 30000 ms" in bench.reasons_within(1)[0]


def test_a_client_that_is_not_read_because_a_request_of_it_is_held_is_left_alone() -> None:
    bench = Watched()
    bench.server.hold = lambda name: True
    bench.send(b"fetch")
    bench.transport.deliver(struct.pack(">i", 100_000) + b"x" * 50)

    assert bench.reasons_within(10 * STALLED_S) == []


def test_while_others_wait_for_memory_a_request_that_does_not_arrive_is_found_after_a_second() -> None:
    bench = Watched(arriving_bytes_max=10_000)
    bench.transport.deliver(struct.pack(">i", 100_000) + b"x" * 4090)
    bench.memory.wait(object(), 10_000, lambda: None)
    assert bench.memory.is_scarce

    assert "others wait for memory" in bench.reasons_within(1)[0]


def test_a_connection_that_is_gone_is_forgotten_while_others_still_wait_for_memory() -> None:
    bench = Watched(arriving_bytes_max=10_000)
    bench.transport.deliver(struct.pack(">i", 100_000) + b"x" * 4090)
    for _ in range(2):  # One of them still waits when the connection has given back its memory.
        bench.memory.wait(object(), 10_000, lambda: None)
    unknown = sys.getrefcount(bench.connection)
    assert bench.look() == []
    known = sys.getrefcount(bench.connection)
    bench.transport.close()
    assert list(bench.stalled.find([], now_ms=bench.server.clock.monotonic_ms(), stalled_ms_max=STALLED_S * 1000)) == []
    forgotten = sys.getrefcount(bench.connection)

    assert bench.memory.is_scarce
    assert known > unknown == forgotten


def test_while_others_wait_for_memory_a_request_that_drips_in_has_a_limited_time() -> None:
    bench = Watched(arriving_bytes_max=50_000)
    bench.transport.deliver(struct.pack(">i", 100_000) + b"x" * 4092)
    bench.memory.wait(object(), 50_000, lambda: None)
    for _ in range(2 * STALLED_S):
        assert bench.look() == []
        bench.wait(0.5)
        bench.transport.deliver(b"x")

    assert "has not arrived whole within 30000 ms" in bench.look()[0]


def test_one_large_request_after_the_other_is_no_request_that_drips_in() -> None:
    bench = Watched(arriving_bytes_max=50_000)
    bench.memory.take("other", 10_000)
    bench.memory.wait(object(), 50_000, lambda: None)
    frame = struct.pack(">i", 5000) + b"x" * 5000
    for _ in range(10 * STALLED_S):
        assert bench.look() == []
        bench.transport.deliver(frame[:4096])
        bench.wait(0.5)
        assert bench.look() == []
        if not bench.transport.reading:
            break  # It waits for memory itself.
        bench.transport.deliver(frame[4096:])
        bench.server.answer(bench.connection, b"x" * 5000)
