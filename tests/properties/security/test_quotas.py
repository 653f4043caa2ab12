"""The arithmetic of quotas beside a naive one that keeps every event."""

from __future__ import annotations

import math
from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from semel.security.quota_entities import QuotaEntity, Quoted
from semel.security.quotas import Limit, Rate, TokenBucket, UsageKey, Windows, limit_for

DEFAULT = Quoted.DEFAULT
WINDOWS = st.builds(Windows, st.integers(1, 12), st.sampled_from((1, 100, 1000)))
EVENTS = st.lists(st.tuples(st.integers(0, 4000), st.integers(0, 500)), min_size=1, max_size=60)
BOUNDS = st.integers(1, 300)


class NaiveRate:
    """Kafka's rules, with every event kept: windows begin with the first event that is not in one."""

    def __init__(self, windows: Windows) -> None:
        self.windows = windows
        self.events: list[list[tuple[int, int]]] = []

    def record(self, amount: int, now_ms: int) -> None:
        if not self.events or now_ms - self.events[-1][0][0] >= self.windows.size_ms:
            self.events.append([])
        self.events[-1].append((now_ms, amount))

    def throttle_ms(self, bound: int, now_ms: int) -> int:
        age_ms_max = self.windows.number * self.windows.size_ms
        counted = [window for window in self.events if now_ms - window[-1][0] < age_ms_max]
        if not counted:
            return 0
        elapsed_ms = now_ms - counted[0][0][0]
        missing = self.windows.number - 1 - elapsed_ms // self.windows.size_ms
        elapsed_ms += missing * self.windows.size_ms if missing > 0 else 0
        used = sum(amount for window in counted for _, amount in window)
        if used * 1000 <= bound * elapsed_ms:
            return 0
        # X = (O - T) / T * W, the rate O over the window W being above the quota T.
        return math.floor(Fraction(used * 1000, bound) - elapsed_ms + Fraction(1, 2))


@given(WINDOWS, EVENTS, BOUNDS)
def test_a_rate_throttles_as_long_as_one_that_keeps_every_event(
    windows: Windows, events: list[tuple[int, int]], bound: int
) -> None:
    rate, naive, now_ms = Rate(windows), NaiveRate(windows), 0
    for after_ms, amount in events:
        now_ms += after_ms
        assert rate.throttle_ms(bound, now_ms) == naive.throttle_ms(bound, now_ms)
        rate.record(amount, now_ms)
        naive.record(amount, now_ms)
        assert rate.throttle_ms(bound, now_ms) == naive.throttle_ms(bound, now_ms)


@given(st.lists(st.floats(0.001, 5), min_size=30, max_size=80), st.integers(50, 2000))
def test_a_client_that_is_silent_as_long_as_it_is_told_gets_its_quota_and_not_more(
    seconds: list[float], bound: int
) -> None:
    """Measured from its first event to its last, beyond the burst that the silent windows before it allow.

    Nearly: a window that is forgotten takes its sum along, and that may be more than the time that goes with it. So it
    is in Kafka. Each event here is worth at most five seconds of the quota.
    """
    windows = Windows()
    rate, now_ms = Rate(windows), 0
    for worth_s in seconds:
        rate.record(worth_s * bound, now_ms)
        now_ms += rate.throttle_ms(bound, now_ms)
    assert sum(seconds) * 1000 <= 1.25 * now_ms + windows.full_ms + windows.size_ms + max(seconds) * 1000
    assert now_ms <= sum(seconds) * 1000 + len(seconds), "it never waits for longer than what it has used"


@given(st.lists(st.tuples(st.integers(0, 3000), st.integers(0, 50)), max_size=40), st.integers(1, 20))
def test_a_bucket_is_a_sum_that_is_cut_at_its_rim(events: list[tuple[int, int]], bound: int) -> None:
    windows = Windows()
    bucket, now_ms = TokenBucket(windows), 0
    rim = Fraction(bound * 11)
    tokens = rim
    for after_ms, amount in events:
        now_ms += after_ms
        tokens = min(rim, tokens + Fraction(bound * after_ms, 1000))
        expected = math.floor(-tokens / bound * 1000 + Fraction(1, 2)) if tokens < 0 else 0
        assert abs(bucket.throttle_ms(bound, now_ms) - expected) <= 1, "but for the rounding of floats"
        bucket.take(amount, bound, now_ms)
        tokens -= amount


NAMES = ("a", "b", DEFAULT, None)
ENTITIES = st.builds(QuotaEntity, st.sampled_from(NAMES), st.sampled_from(NAMES)).filter(
    lambda entity: entity != QuotaEntity()
)
LIMITS = st.dictionaries(st.sampled_from(("x", "x", "y")), st.integers(1, 9), min_size=1, max_size=2)
QUOTAS = st.dictionaries(ENTITIES, LIMITS, max_size=12)


@given(QUOTAS, st.sampled_from(("a", "b", "c")), st.sampled_from(("a", "b", "c")))
def test_the_most_specific_quota_holds(quotas: dict[QuotaEntity, dict[str, float]], user: str, client_id: str) -> None:
    """A name before a default before nothing; the user counts more than the client id."""

    def rank(name: object, wanted: str) -> int | None:
        return {wanted: 0, DEFAULT: 1, None: 2}.get(name)

    found = []
    for entity, limits in quotas.items():
        ranks = rank(entity.user, user), rank(entity.client_id, client_id)
        if None not in ranks and "x" in limits:
            key = UsageKey(None if entity.user is None else user, None if entity.client_id is None else client_id)
            found.append((ranks, Limit(key, limits["x"])))
    expected = min(found, key=lambda one: one[0])[1] if found else None
    assert limit_for(quotas, "x", user, client_id) == expected
