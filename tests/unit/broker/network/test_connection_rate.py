"""``max.connection.creation.rate``: what comes too fast waits for a while, and no address takes the turns of all."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from semel.broker.network.connection_rate import WAIT_MS_MAX, ConnectionRate

BURST_MS = 10_000
CONNECTIONS = st.lists(
    st.tuples(st.one_of(st.just(0), st.integers(0, 30_000)), st.sampled_from("abc")), min_size=1, max_size=60
)


def test_what_ten_seconds_allow_comes_at_once_then_some_wait_and_the_others_are_closed() -> None:
    rate = ConnectionRate()
    waits_ms = [rate.wait_ms("a", 10, now_ms=7_000) for _ in range(80)]
    assert waits_ms == [0] * 51 + list(range(200, WAIT_MS_MAX + 1, 200)) + [None] * 4
    assert rate.wait_ms("a", 10, now_ms=7_600) == WAIT_MS_MAX - 400  # It had no turn to wait for.
    assert rate.wait_ms("a", 10, now_ms=7_000 + BURST_MS + WAIT_MS_MAX) == 0


def test_a_flood_from_one_address_leaves_the_others_half_of_the_rate() -> None:
    rate = ConnectionRate()
    for second in range(60):
        for tenth in range(10):
            now_ms = 1_000 * second + 100 * tenth
            for _ in range(100):
                rate.wait_ms("flood", 10, now_ms)
        assert [rate.wait_ms(f"other {number}", 10, 1_000 * second + 999) for number in range(5)] == [0] * 5


def test_addresses_are_forgotten_when_they_may_use_all_of_their_share_again() -> None:
    rate = ConnectionRate()
    for number in range(50_000):
        rate.wait_ms(f"address {number}", 1_000, now_ms=number)
    assert len(rate._of_addresses) <= 2_000


@given(CONNECTIONS, st.integers(1, 10))
def test_no_stretch_of_time_serves_more_than_the_rate_allows(connections: list[tuple[int, str]], rate: int) -> None:
    """What waits for the turn of its address may be served beside what came later: so there are five seconds more."""
    measured, now_ms = ConnectionRate(), 0
    served: list[tuple[int, str]] = []
    for pause_ms, address in connections:
        now_ms += pause_ms
        wait_ms = measured.wait_ms(address, rate, now_ms)
        if wait_ms is not None:
            assert wait_ms <= WAIT_MS_MAX
            served.append((now_ms + wait_ms, address))
    for addresses, share, more_ms in (("abc", 1.0, WAIT_MS_MAX), ("a", 0.5, 0), ("b", 0.5, 0), ("c", 0.5, 0)):
        at_ms = sorted(at_ms for at_ms, address in served if address in addresses)
        for first in range(len(at_ms)):
            for last in range(first, len(at_ms)):
                allowed = (at_ms[last] - at_ms[first] + BURST_MS + more_ms) * rate * share / 1000 + 1
                assert last - first + 1 <= allowed + 1
