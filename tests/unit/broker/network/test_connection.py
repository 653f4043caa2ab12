"""Answers leave in the order of the requests, and a client is read only as fast as it is served."""

from __future__ import annotations

import itertools
import struct
from collections.abc import Callable
from types import SimpleNamespace
from typing import cast

import pytest

from semel.broker.metrics.metrics import Metrics
from semel.broker.network.answer_cache import AnswerCache
from semel.broker.network.connection import (
    TURN_REQUESTS_MAX,
    WAITING_ANSWER_BYTES_MAX,
    WAITING_REQUESTS_MAX,
    Connection,
)
from semel.broker.network.request import Request
from semel.broker.node import Node
from semel.broker.requests.dispatch import Dispatcher, _Route
from semel.broker.turns import Turns
from semel.testing.virtual.clock import ManualClock
from semel.wire.apis import APIS, ApiKey
from semel.wire.framing import encode_request
from semel.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from tests.unit.broker.network.connection_bench import Bench


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_answers_wait_for_the_answers_before_them(bench: Bench) -> None:
    bench.send(b"a", b"b", b"c")
    bench.answer(b"c")
    bench.answer(b"b")
    bench.turn()
    assert bench.sent == b""

    bench.answer(b"a")
    bench.turn()
    assert bench.sent == b"abc"


def test_an_answer_given_at_once_waits_for_the_ones_before_it(bench: Bench) -> None:
    bench.server.at_once = lambda name: name != b"slow"
    bench.send(b"slow", b"quick")
    bench.turn()
    assert bench.sent == b""

    bench.answer(b"slow")
    bench.turn()
    assert bench.sent == b"slowquick"
    assert bench.connection._answer_bytes == 0


def test_answers_given_at_once_leave_in_one_write(bench: Bench) -> None:
    bench.server.at_once = lambda name: True

    bench.send(b"a", b"b", b"c")

    assert bench.transport.written == [b"abc"]


def test_answers_given_in_one_turn_of_the_loop_leave_in_one_write(bench: Bench) -> None:
    bench.send(b"a", b"b")
    bench.answer(b"a")
    bench.answer(b"b")
    bench.turn()

    assert bench.transport.written == [b"ab"]


def test_a_request_that_wants_no_answer_keeps_its_place_and_sends_nothing(bench: Bench) -> None:
    bench.send(b"a", b"silent", b"c")
    bench.answer(b"c")
    bench.server.delayed[b"silent"].parts = []
    bench.connection.answered(bench.server.delayed[b"silent"])
    bench.answer(b"a")
    bench.turn()

    assert bench.sent == b"ac"


def test_requests_behind_one_that_holds_are_not_looked_at_before_it_is_answered(bench: Bench) -> None:
    bench.server.hold = lambda name: name == b"fetch"
    bench.send(b"fetch", b"next")
    assert b"next" not in bench.server.delayed
    assert not bench.transport.reading

    bench.answer(b"fetch")
    bench.turn()
    assert b"next" in bench.server.delayed
    assert bench.transport.reading
    bench.answer(b"next")
    bench.turn()
    assert bench.sent == b"fetchnext"


def test_while_a_request_holds_and_nothing_is_behind_it_the_connection_still_reads(bench: Bench) -> None:
    """So that a client who leaves during a long poll is noticed."""
    bench.server.hold = lambda name: True
    bench.send(b"fetch")

    assert bench.transport.reading


def test_a_request_in_pieces_that_arrives_while_another_holds_is_served_later(bench: Bench) -> None:
    bench.server.hold = lambda name: name == b"fetch"
    bench.send(b"fetch")
    bench.transport.deliver(struct.pack(">i", 4) + b"ne")
    assert not bench.transport.reading

    bench.answer(b"fetch")
    bench.turn()
    assert bench.transport.reading
    bench.transport.deliver(b"xt")
    assert b"next" in bench.server.delayed


def test_too_many_waiting_requests_stop_the_reading_until_one_is_answered(bench: Bench) -> None:
    names = [b"%04d" % number for number in range(WAITING_REQUESTS_MAX + 2)]
    bench.send(*names)
    bench.turn()
    assert len(bench.server.delayed) == WAITING_REQUESTS_MAX
    assert not bench.transport.reading

    bench.answer(names[0])
    bench.turn()
    assert len(bench.server.delayed) == WAITING_REQUESTS_MAX + 1
    for name in names[1 : WAITING_REQUESTS_MAX + 1]:
        bench.answer(name)
    bench.turn()
    assert len(bench.server.delayed) == WAITING_REQUESTS_MAX + 2
    assert bench.transport.reading
    bench.answer(names[-1])
    bench.turn()
    assert bench.sent == b"".join(names)


def test_too_many_bytes_of_answers_behind_a_slow_one_stop_the_reading(bench: Bench) -> None:
    bench.send(b"slow", b"big")
    bench.answer(b"big", b"x" * WAITING_ANSWER_BYTES_MAX)
    bench.send(b"next")
    assert b"next" not in bench.server.delayed

    bench.answer(b"slow")
    bench.turn()
    assert b"next" in bench.server.delayed
    assert bench.connection._answer_bytes == 0


def test_a_client_that_does_not_read_is_not_read(bench: Bench) -> None:
    bench.server.at_once = lambda name: True
    bench.connection.pause_writing()
    bench.send(b"a")
    assert b"a" not in bench.server.delayed
    assert not bench.transport.reading

    bench.connection.resume_writing()
    bench.turn()
    assert bench.sent == b"a"
    assert bench.transport.reading


def test_a_client_with_many_requests_lets_the_others_have_their_turn(bench: Bench) -> None:
    bench.server.at_once = lambda name: True
    names = [b"%04d" % number for number in range(3 * TURN_REQUESTS_MAX + 5)]
    turns: list[int] = []

    def other() -> None:
        turns.append(len(bench.server.delayed))
        if len(bench.server.delayed) < len(names):
            bench.loop.call_soon(other)

    bench.send(*names)
    assert len(bench.server.delayed) == TURN_REQUESTS_MAX
    bench.loop.call_soon(other)
    bench.turn()

    assert bench.sent == b"".join(names)
    assert all(later - earlier <= TURN_REQUESTS_MAX for earlier, later in itertools.pairwise(turns))
    assert len(turns) >= 3
    assert bench.transport.reading


def test_a_bad_request_closes_the_connection_after_the_answers_before_it(bench: Bench) -> None:
    bench.server.at_once = lambda name: True

    bench.send(b"a", b"bad", b"never")

    assert bench.sent == b"a"
    assert bench.transport.closing
    assert bench.server.refusals == ["bad"]
    assert b"never" not in bench.server.delayed


def test_when_the_client_leaves_what_waits_for_it_is_abandoned(bench: Bench) -> None:
    bench.send(b"a", b"b", b"c")
    bench.answer(b"b")
    bench.transport.close()

    assert [bench.server.delayed[name].is_abandoned for name in (b"a", b"b", b"c")] == [True, False, True]
    assert bench.server.is_closed


def test_an_answer_for_a_client_that_left_is_dropped(bench: Bench) -> None:
    bench.send(b"a")
    bench.transport.close()

    bench.answer(b"a")
    bench.turn()

    assert bench.sent == b""


def test_a_large_request_behind_one_that_holds_waits_in_its_own_buffer(bench: Bench) -> None:
    bench.server.hold = lambda name: name == b"fetch"
    bench.send(b"fetch")
    large = b"L" * 100_000
    framed = struct.pack(">i", len(large)) + large
    sent = 0
    while bench.transport.reading and sent < len(framed):
        bench.transport.deliver(framed[sent : sent + 1000])
        sent += 1000
    bench.answer(b"fetch")
    bench.turn()
    bench.transport.deliver(framed[sent:])

    assert large in bench.server.delayed


def test_a_muted_client_gets_its_answers_and_no_request_of_it_is_looked_at(bench: Bench) -> None:
    bench.send(b"before")
    bench.connection.mute(5000)
    bench.answer(b"before")
    bench.send(b"after", b"another")
    bench.wait(4)
    assert bench.sent == b"before"
    assert b"after" not in bench.server.delayed
    assert not bench.transport.reading

    bench.wait(1.1)
    assert list(bench.server.delayed) == [b"before", b"after", b"another"]
    assert bench.transport.reading


def test_a_client_that_is_muted_twice_waits_for_the_longer_time(bench: Bench) -> None:
    bench.connection.mute(1000)
    bench.connection.mute(3000)
    bench.connection.mute(2000)
    bench.send(b"after")
    bench.wait(2.9)
    assert not bench.server.delayed
    bench.wait(0.2)
    assert list(bench.server.delayed) == [b"after"]


def test_a_muted_client_that_leaves_is_forgotten(bench: Bench) -> None:
    bench.connection.mute(86_400_000)
    mute = bench.connection._mute
    assert mute is not None
    bench.send(b"after")
    bench.transport.close()
    bench.wait(2)
    assert not bench.server.delayed
    assert mute.timer is not None
    assert mute.timer.cancelled(), "it would keep the connection for a day"


def test_requests_that_take_their_time_are_looked_at_a_share_at_a_time(bench: Bench) -> None:
    """Not 128 in one turn, whatever they cost: the dispatcher sees the clock and ends the turn."""
    clock = ManualClock()
    node = SimpleNamespace(metrics=Metrics(), turns=Turns(clock), answers=AnswerCache(), quotas=None)
    dispatcher = Dispatcher(cast(Node, node))
    api = APIS[ApiKey.DESCRIBE_CLUSTER]
    served: list[int] = []

    def handle(request: Request, message: object) -> object:
        clock.advance(2)
        served.append(request.correlation_id)
        return DescribeClusterResponse()

    dispatcher._routes[api.key] = _Route(api, handle, node.metrics.requests(api.name))
    bench.connection.now_ms = clock.monotonic_ms
    bench.connection.serve = dispatcher.request
    waiting: list[Callable[[], None]] = []
    bench.server.soon = waiting.append
    frames = [bytes(encode_request(n, api, 1, DescribeClusterRequest(), client_id="c")) for n in range(10)]

    bench.transport.deliver(b"".join(frames))
    most = len(served)
    while waiting:
        before = len(served)
        waiting.pop()()
        most = max(most, len(served) - before)

    assert most == 3, "which is 6 ms, more than the share of 5"
    assert served == list(range(10))
    assert bench.transport.reading


def test_the_function_that_serves_a_connection_may_be_another_from_the_next_request_on(bench: Bench) -> None:
    bench.server.at_once = lambda name: True
    connection, served = bench.connection, bench.connection.serve
    asked: list[bytes] = []

    def first(asking: Connection, frame: memoryview) -> None:
        asked.append(bytes(frame))
        connection.serve = served
        served(asking, frame)

    connection.serve = first
    bench.send(b"a", b"b")
    assert asked == [b"a"]
    assert bench.sent == b"ab"


def test_the_largest_request_that_is_taken_may_be_another_from_the_next_request_on(bench: Bench) -> None:
    bench.server.at_once = lambda name: True
    before = bench.connection.limit_frames(2)
    bench.send(b"aa", b"bb")
    assert bench.connection.limit_frames(before) == 2
    bench.send(b"ccc")
    assert bench.sent == b"aabbccc"
    bench.connection.limit_frames(2)
    bench.send(b"ddd")
    assert bench.server.refusals == ["a frame of 3 bytes; the limit is 2"]
