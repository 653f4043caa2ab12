"""``max.connection.creation.rate``: what comes too fast waits, and no more than ten seconds' worth comes at once."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from semel.broker.network.connection_rate import ConnectionRate

PAUSES_MS = st.lists(st.one_of(st.just(0), st.integers(0, 30_000)), min_size=1, max_size=60)


def test_what_ten_seconds_allow_comes_at_once_and_the_next_ones_wait() -> None:
    rate = ConnectionRate()
    assert [rate.wait_ms(5, now_ms=7_000) for _ in range(53)] == [0] * 51 + [200, 400]
    assert rate.wait_ms(5, now_ms=7_600) == 0  # Its turn has come.


@given(PAUSES_MS, st.integers(1, 10))
def test_no_stretch_of_time_serves_more_than_the_rate_allows(pauses_ms: list[int], rate: int) -> None:
    measured, now_ms, served_ms = ConnectionRate(), 0, []
    for pause_ms in pauses_ms:
        now_ms += pause_ms
        served_ms.append(now_ms + measured.wait_ms(rate, now_ms))
    for first in range(len(served_ms)):
        for last in range(first, len(served_ms)):
            allowed = (served_ms[last] - served_ms[first] + 10_000) * rate / 1000 + 1
            assert last - first + 1 <= allowed + 1
    assert served_ms == sorted(served_ms)
