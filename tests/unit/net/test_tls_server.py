"""TLS on the server's side: handshakes that fail, are slow or too many; memory that is bounded; an orderly end."""

from __future__ import annotations

import asyncio
import itertools
import ssl

import pytest

from semel.net.tls_server import HANDSHAKE_SECONDS_MAX, HANDSHAKES_MAX, NOT_TLS
from tests.unit.net.tls_bench import Authority, Bench, Inner, Wire

AUTHORITY = Authority()
MEGABYTE = 2**20
VERSIONS = [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3]


def connected(inner: Inner | None = None, version: ssl.TLSVersion | None = None) -> Bench:
    bench = Bench(AUTHORITY.server_context(), inner)
    bench.connect(AUTHORITY.client_context(version=version))
    assert bench.client is not None
    assert (bench.client_error, bench.refused) == (None, [])
    return bench


@pytest.mark.parametrize("version", VERSIONS)
def test_bytes_go_both_ways_and_the_protocol_has_its_connection_from_the_start(version: ssl.TLSVersion) -> None:
    bench = Bench(AUTHORITY.server_context())
    assert bench.inner.events == ["made"], "it counts before the handshake"
    bench.connect(AUTHORITY.client_context(version=version))
    bench.deliver(bench.say(b"question"))
    bench.inner.transport.write(b"answer")
    assert (bytes(bench.inner.received), bench.read()) == (b"question", b"answer")
    assert bench.inner.transport.get_extra_info("ssl_object").version() == version.name.replace("_", ".")
    assert bench.inner.transport.get_extra_info("peername") == ("10.0.0.1", 5000)


def test_what_arrives_together_with_the_end_of_the_handshake_is_delivered() -> None:
    bench = Bench(AUTHORITY.server_context())
    client = AUTHORITY.client_context(version=ssl.TLSVersion.TLSv1_3)
    bench.client = client.wrap_bio(bench._incoming, bench._outgoing, server_hostname="broker.example.org")
    bench._client_step(bench.client.do_handshake)
    bench.deliver(bench._outgoing.read())
    bench.turn()
    bench._client_step(bench.client.do_handshake)
    bench.deliver(bench.say(b"at once"))
    bench.turn()
    assert bytes(bench.inner.received) == b"at once"


def test_plain_bytes_are_refused_with_the_first_of_them() -> None:
    bench = Bench(AUTHORITY.server_context())
    bench.deliver(b"\0\0\0\x20\0\x12")
    assert (bench.refused, bench.wire.closing) == ([("10.0.0.1:5000", NOT_TLS)], True)
    assert bench.slices == [], "nothing is computed for it"
    assert bench.factory.handshakes == {}


def test_a_handshake_that_does_not_end_is_ended() -> None:
    bench = Bench(AUTHORITY.server_context())
    bench.deliver(b"\x16")
    bench.loop.run_until_complete(asyncio.sleep(HANDSHAKE_SECONDS_MAX - 0.1))
    bench.turn()
    assert not bench.wire.closing
    bench.loop.run_until_complete(asyncio.sleep(0.2))
    assert bench.wire.aborted
    assert bench.refused == [("10.0.0.1:5000", f"no TLS handshake within {HANDSHAKE_SECONDS_MAX:g} s")]
    assert bench.factory.handshakes == {}


def test_one_handshake_too_many_ends_the_oldest_of_the_address_that_has_most() -> None:
    bench = Bench(AUTHORITY.server_context())
    flood = [Wire("10.6.6.6") for _ in range(HANDSHAKES_MAX + 1)]
    for wire in flood:
        bench.factory().connection_made(wire)
    assert [wire.aborted for wire in flood] == [True, True] + [False] * (HANDSHAKES_MAX - 1)
    assert not bench.wire.aborted, "one of another address, although it is the oldest"
    assert len(bench.factory.handshakes) == HANDSHAKES_MAX
    assert bench.refused == [("10.6.6.6:5000", f"more than {HANDSHAKES_MAX} TLS handshakes are under way")] * 2


def test_a_handshake_that_is_over_does_not_count_and_has_no_deadline() -> None:
    bench = connected()
    assert bench.factory.handshakes == {}
    bench.loop.run_until_complete(asyncio.sleep(2 * HANDSHAKE_SECONDS_MAX))
    assert (bench.wire.closing, bench.refused) == (False, [])


def test_handshakes_are_computed_in_turns_and_nothing_is_read_meanwhile() -> None:
    bench = Bench(AUTHORITY.server_context())
    client = AUTHORITY.client_context().wrap_bio(bench._incoming, bench._outgoing, server_hostname="x")
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    bench.deliver(bench._outgoing.read())
    assert (len(bench.slices), bench.wire.reading, bytes(bench.wire.sent)) == (1, False, b"")
    bench.turn()
    assert bench.wire.reading
    assert bench.wire.sent


@pytest.mark.parametrize(
    ("identity", "said"),
    [(False, "the TLS handshake failed: peer did not return a certificate"), (True, "unable to get local issuer")],
)
def test_a_client_without_a_good_certificate_is_told_and_closed(identity: bool, said: str) -> None:
    bench = Bench(AUTHORITY.server_context(ssl.CERT_REQUIRED))
    client = AUTHORITY.client_context()
    if identity:
        stranger = Authority()
        stranger._client.configure_cert(client)
    bench.connect(client)
    ((_, reason),) = bench.refused
    assert said in reason
    ((host, told),) = bench.certificates_refused
    assert host == "10.0.0.1"
    assert reason.endswith(told)
    bench.read()
    assert bench.client_error is not None, "the alert has reached the client"
    assert (bench.wire.closing, bench.wire.aborted) == (True, False)
    assert bytes(bench.inner.received) == b""


def test_a_client_that_does_not_trust_the_broker_is_one_line() -> None:
    bench = Bench(AUTHORITY.server_context())
    bench.connect(Authority().client_context())
    ((_, reason),) = bench.refused
    assert reason == "the TLS handshake failed: tlsv1 alert unknown ca"
    assert bench.certificates_refused == []


def test_damaged_bytes_end_an_open_connection() -> None:
    bench = connected()
    data = bytearray(bench.say(b"question"))
    data[-1] ^= 1
    bench.deliver(bytes(data))
    ((_, reason),) = bench.refused
    assert reason.startswith("what it sends is not the TLS that was agreed on: ")
    assert (bytes(bench.inner.received), bench.wire.closing) == (b"", True)


# In


def test_bytes_arrive_in_pieces_of_the_protocols_buffer() -> None:
    bench = connected(Inner(buffer_bytes=50_000))
    data = bytes(range(256)) * 800
    bench.deliver(bench.say(data))
    assert bytes(bench.inner.received) == data
    assert max(bench.inner.reads) == 50_000


def test_a_protocol_that_pauses_gets_nothing_more_and_the_client_is_read_no_further() -> None:
    inner = Inner(buffer_bytes=10_000)
    bench = connected(inner)
    inner.then = lambda: inner.transport.pause_reading()
    data = bytes(range(256)) * 400
    bench.deliver(bench.say(data))
    assert (inner.reads, bench.wire.reading) == ([10_000], False)
    inner.transport.resume_reading()
    bench.turn()
    assert inner.reads == [10_000] * 2, "it has paused again"
    assert not bench.wire.reading
    inner.then = lambda: None
    inner.transport.resume_reading()
    bench.turn()
    assert (bytes(inner.received), bench.wire.reading) == (data, True)


def test_a_protocol_of_the_other_kind_is_served_too() -> None:
    class Plain(asyncio.Protocol):
        received = b""

        def data_received(self, data: bytes) -> None:
            self.received += data

    inner = Plain()
    bench = Bench(AUTHORITY.server_context(), inner)
    bench.connect(AUTHORITY.client_context())
    bench.deliver(bench.say(b"x" * 40_000))
    assert inner.received == b"x" * 40_000


# Out


def test_what_a_client_does_not_read_is_held_once_and_counted() -> None:
    bench = connected()
    bench.wire.room_bytes = 0
    part = memoryview(bytes(MEGABYTE))
    bench.inner.transport.writelines([part, part])
    assert bench.inner.events == ["made", "pause"]
    # Of two megabytes no more than the operating system might take is encrypted.
    assert len(bench.wire.kept) < 3 * 128 * 1024
    assert 2 * MEGABYTE < bench.inner.transport.get_write_buffer_size() < 2 * MEGABYTE + 1024
    assert all(isinstance(held, memoryview) for held in bench.server._waiting)


def test_a_client_that_reads_slowly_gets_everything_in_order_and_the_protocol_goes_on_at_the_end() -> None:
    bench = connected()
    bench.wire.room_bytes = 0
    data = bytes(range(256)) * 8 * 1024
    bench.inner.transport.write(data)
    sizes = [bench.inner.transport.get_write_buffer_size()]
    while "resume" not in bench.inner.events:
        bench.wire.make_room(100_000)
        sizes.append(bench.inner.transport.get_write_buffer_size())
    bench.wire.make_room(2**30)
    # What waits never grows; so a look at it tells whether a client reads (``Connection.unread_ms``).
    assert all(later < earlier for earlier, later in itertools.pairwise(sizes))
    assert bench.read() == data
    assert bench.inner.events == ["made", "pause", "resume"]
    assert bench.inner.transport.get_write_buffer_size() == 0


def test_small_parts_leave_in_one_record() -> None:
    bench = connected()
    bench.inner.transport.writelines([b"a" * 10] * 20)
    assert len(bench.wire.sent) < 200 + 100
    assert bench.read() == b"a" * 200


# The end


def test_close_sends_what_waits_then_goodbye() -> None:
    bench = connected()
    bench.wire.room_bytes = 0
    data = b"x" * MEGABYTE
    bench.inner.transport.write(data)
    bench.inner.transport.close()
    assert (bench.inner.transport.is_closing(), bench.wire.closing) == (True, False)
    bench.inner.transport.write(b"too late")
    bench.wire.make_room(2**30)
    assert bench.read() == data
    assert bench.is_over, "close_notify"
    assert (bench.wire.closing, bench.wire.aborted) == (True, False)


def test_abort_drops_what_waits() -> None:
    bench = connected()
    bench.wire.room_bytes = 0
    bench.inner.transport.write(b"x" * MEGABYTE)
    bench.inner.transport.abort()
    assert bench.wire.aborted
    assert bench.server._waiting_bytes == 0
    bench.server.connection_lost(None)
    assert bench.inner.events == ["made", "pause", "lost"]
    assert bench.inner.transport.get_write_buffer_size() == 0


@pytest.mark.parametrize("says_goodbye", [True, False])
def test_a_client_that_hangs_up_gets_its_answers_still(says_goodbye: bool) -> None:
    bench = connected()
    bench.wire.room_bytes = 0
    bench.inner.transport.write(b"x" * MEGABYTE)
    if says_goodbye:
        assert bench.client is not None
        with pytest.raises(ssl.SSLWantReadError):
            bench.client.unwrap()
        bench.deliver(bench._outgoing.read())
    else:
        assert bench.server.eof_received(), "the operating system's connection stays"
    assert (bench.inner.events[-1], bench.inner.transport.is_closing(), bench.wire.closing) == ("eof", True, False)
    bench.wire.make_room(2**30)
    assert bench.wire.closing


def test_a_connection_that_is_closed_in_its_handshake_ends_at_once() -> None:
    bench = Bench(AUTHORITY.server_context())
    bench.deliver(b"\x16")
    bench.inner.transport.close()
    assert bench.wire.closing
    bench.server.connection_lost(None)
    bench.turn()
    assert (bench.inner.events, bench.refused, bench.factory.handshakes) == (["made", "lost"], [], {})
