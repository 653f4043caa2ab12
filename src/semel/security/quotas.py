"""Client quotas as arithmetic: which quota holds for a client, how much was used, for how long the client is muted.

Rates are measured as Kafka measures them: in windows of one second, of which the last eleven count. A client that is
over its quota is muted for the time after which the same amount over the longer time is exactly the quota. Changes of
topics are counted with a token bucket, so that a large change is paid for and not forbidden.

The law: time is handed in, and does not go back.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from typing import Final, NamedTuple

from semel.security.quota_entities import QuotaEntity, Quoted

PRODUCER_BYTE_RATE: Final = "producer_byte_rate"
CONSUMER_BYTE_RATE: Final = "consumer_byte_rate"
REQUEST_PERCENTAGE: Final = "request_percentage"
CONTROLLER_MUTATION_RATE: Final = "controller_mutation_rate"
CONNECTION_CREATION_RATE: Final = "connection_creation_rate"


class Windows(NamedTuple):
    """How rates are measured: ``quota.window.num`` and ``quota.window.size.seconds``."""

    number: int = 11
    size_ms: int = 1000

    @property
    def full_ms(self) -> int:
        """Of the windows before the current one."""
        return (self.number - 1) * self.size_ms


class UsageKey(NamedTuple):
    """Who uses a quota up together: all clients of a user, all of a client id, or a client id of a user."""

    user: str | None
    client_id: str | None


class Limit(NamedTuple):
    key: UsageKey
    bound: float


def limit_for(quotas: Mapping[QuotaEntity, Mapping[str, float]], name: str, user: str, client_id: str) -> Limit | None:
    """The quota of this name that holds for a client: the first of eight levels that has one.

    A default has the bound for all, and everyone it holds for uses it up alone.
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
        """The throttle time: after this time without requests the rate is ``bound`` again. 0 if it is not above it."""
        kept, windows = self._kept, self._windows
        # A window counts as long as something in it is not older than all windows together.
        while kept and now_ms - kept[0].last_ms >= windows.number * windows.size_ms:
            kept.popleft()
        if not kept:
            return 0
        elapsed_ms = now_ms - kept[0].start_ms
        # Where there are fewer windows yet, those that are missing were silent.
        elapsed_ms += max(0, windows.number - 1 - int(elapsed_ms // windows.size_ms)) * windows.size_ms
        amount = sum(window.sum for window in kept)
        return max(0, _rounded(amount / bound * 1000 - elapsed_ms))


class TokenBucket:
    """A token bucket for changes of topics: it fills at the quota's rate and holds what all windows allow together."""

    __slots__ = ("_at_ms", "_tokens", "_windows")

    def __init__(self, windows: Windows) -> None:
        self._windows = windows
        self._tokens = math.inf  # Full, whatever the quota turns out to be.
        self._at_ms = -math.inf

    def take(self, amount: float, bound: float, now_ms: float) -> None:
        """Take tokens. If there are not enough, the bucket is below zero until it has filled again."""
        self._refill(bound, now_ms)
        self._tokens -= amount

    def throttle_ms(self, bound: float, now_ms: float) -> int:
        """The throttle time: after this time the bucket is not below zero any more. 0 if it is not now."""
        self._refill(bound, now_ms)
        return _rounded(-self._tokens / bound * 1000) if self._tokens < 0 else 0

    def _refill(self, bound: float, now_ms: float) -> None:
        burst = bound * self._windows.number * self._windows.size_ms / 1000
        self._tokens = min(burst, self._tokens + bound * (now_ms - self._at_ms) / 1000)
        self._at_ms = now_ms


def _rounded(milliseconds: float) -> int:
    """Round half up, as ``Math.round`` in Java does."""
    return math.floor(milliseconds + 0.5)
