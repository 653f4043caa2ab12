"""Computes client quotas: which quota holds for a client, how much of it was used, and the throttle time.

Rates are measured as in Kafka: in windows of one second, of which the last eleven count. A client above its quota is
muted until its rate, over the longer time, is exactly the quota. Changes of topics are counted with a token bucket, so
that a large change is carried out, and later ones have to wait, instead of the large one being refused.

The law: the time is an argument, and does not go back.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from typing import Final, NamedTuple

from semel.security.quota_entities import QuotaEntity, Quoted
from semel.types import INT32_MAX

PRODUCER_BYTE_RATE: Final = "producer_byte_rate"
CONSUMER_BYTE_RATE: Final = "consumer_byte_rate"
REQUEST_PERCENTAGE: Final = "request_percentage"
CONTROLLER_MUTATION_RATE: Final = "controller_mutation_rate"
CONNECTION_CREATION_RATE: Final = "connection_creation_rate"


class Windows(NamedTuple):
    """The windows that rates are measured in: ``quota.window.num`` and ``quota.window.size.seconds``."""

    number: int = 11
    size_ms: int = 1000

    @property
    def full_ms(self) -> int:
        """The length of all windows before the current one, together."""
        return (self.number - 1) * self.size_ms


class UsageKey(NamedTuple):
    """The clients that share one quota: all of a user, all with a client id, or those of a user with a client id."""

    user: str | None
    client_id: str | None


class Limit(NamedTuple):
    key: UsageKey
    bound: float


def limit_for(quotas: Mapping[QuotaEntity, Mapping[str, float]], name: str, user: str, client_id: str) -> Limit | None:
    """Return the quota of this name that holds for a client: the first of Kafka's eight levels that has one.

    A default sets the same bound for each user or client id that it holds for; they do not share its usage.
    """
    both, of_user, of_client = UsageKey(user, client_id), UsageKey(user, None), UsageKey(None, client_id)
    default = Quoted.DEFAULT
    for entity, key in (
        (QuotaEntity(user, client_id), both),
        (QuotaEntity(user, default), both),
        (QuotaEntity(user), of_user),
        (QuotaEntity(default, client_id), both),
        (QuotaEntity(default, default), both),
        (QuotaEntity(default), of_user),
        (QuotaEntity(None, client_id), of_client),
        (QuotaEntity(None, default), of_client),
    ):
        bound = quotas.get(entity, {}).get(name)
        if bound is not None:
            return Limit(key, bound)
    return None


class _Window:
    __slots__ = ("last_ms", "start_ms", "sum")

    def __init__(self, start_ms: float) -> None:
        self.start_ms = self.last_ms = start_ms
        self.sum = 0.0


class Rate:
    """The rate at which one quota is used, over the last windows (Kafka: ``Rate``)."""

    __slots__ = ("_kept", "_windows")

    def __init__(self, windows: Windows) -> None:
        self._windows = windows
        self._kept: deque[_Window] = deque()

    def record(self, amount: float, now_ms: float) -> None:
        kept = self._kept
        if not kept or now_ms - kept[-1].start_ms >= self._windows.size_ms:
            kept.append(_Window(now_ms))
        current = kept[-1]
        current.sum += amount
        current.last_ms = now_ms

    def throttle_ms(self, bound: float, now_ms: float) -> int:
        """Return the throttle time: after it, without requests, the rate is ``bound`` again. 0 if it is not above."""
        kept, windows = self._kept, self._windows
        # A window counts until its newest amount is older than all windows together.
        while kept and now_ms - kept[0].last_ms >= windows.number * windows.size_ms:
            kept.popleft()
        if not kept:
            return 0
        elapsed_ms = now_ms - kept[0].start_ms
        # Windows that are missing, because the rate is new, count as windows without usage.
        elapsed_ms += max(0, windows.number - 1 - int(elapsed_ms // windows.size_ms)) * windows.size_ms
        amount = sum(window.sum for window in kept)
        return max(0, _rounded(amount / bound * 1000 - elapsed_ms))


class TokenBucket:
    """A token bucket for changes of topics.

    It fills at the quota's rate and holds at most the tokens of all windows.
    """

    __slots__ = ("_at_ms", "_tokens", "_windows")

    def __init__(self, windows: Windows) -> None:
        self._windows = windows
        self._tokens = math.inf  # Full: the first refill cuts it to the quota.
        self._at_ms = -math.inf

    def take(self, amount: float, bound: float, now_ms: float) -> None:
        """Take tokens. If there are not enough, the number of tokens is negative until the bucket has filled again."""
        self._refill(bound, now_ms)
        self._tokens -= amount

    def throttle_ms(self, bound: float, now_ms: float) -> int:
        """Return the throttle time, after which the number of tokens is not negative. 0 if it is not negative now."""
        self._refill(bound, now_ms)
        return _rounded(-self._tokens / bound * 1000) if self._tokens < 0 else 0

    def _refill(self, bound: float, now_ms: float) -> None:
        burst = bound * self._windows.number * self._windows.size_ms / 1000
        self._tokens = min(burst, self._tokens + bound * (now_ms - self._at_ms) / 1000)
        self._at_ms = now_ms


def _rounded(milliseconds: float) -> int:
    """Round half up, as ``Math.round`` in Java does. No throttle time is longer than a response can tell: 24 days."""
    return math.floor(min(milliseconds + 0.5, INT32_MAX))
