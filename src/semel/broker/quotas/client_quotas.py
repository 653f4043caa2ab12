"""Client quotas: measures what each client has used, and for how long its connection is muted.

The law (KIP-219): a client that exceeds a quota is answered at once, with ``throttle_time_ms``, and then no request of
its connection is served until that time is over. Only the client's own connection waits.

All clients of a user, or of a client id, use its quota together. Bytes of Produce count when the request arrives, bytes
of Fetch when it is answered; unlike in Kafka, the records of a Fetch that exceeds the quota are sent, and not left out.
Request time is the time for which decoding and the handler occupy the event loop before the handler returns. The answer
to the client's next request is the first that mutes the client for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from semel.broker.metrics.metrics import Counter
from semel.clock import Clock
from semel.security.quota_entities import QuotaEntity, Quoted
from semel.security.quotas import (
    CONNECTION_CREATION_RATE,
    CONSUMER_BYTE_RATE,
    CONTROLLER_MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    Rate,
    TokenBucket,
    UsageKey,
    Windows,
    limit_for,
)

# With more clients, the use by client ids is forgotten: a client can choose as many ids as it likes, and the use by one
# id says nothing about the next. The use by users is kept.
CLIENTS_MAX: Final = 10_000
# The same limit for the characters of all client ids together, each of which may have 32 KB.
ID_CHARACTERS_MAX: Final = 4_000_000
_EVERY_ADDRESS: Final = QuotaEntity(ip=Quoted.DEFAULT)


class ClientQuotas:
    """The quotas of one broker's clients, and what they have used. Not created in a cluster without quotas."""

    def __init__(self, clock: Clock, throttled: Counter, windows: Windows, mutation_windows: Windows) -> None:
        """``throttled`` counts the answers after which a client is muted."""
        self._clock = clock
        self._throttled = throttled
        self._windows = windows
        self._mutation_windows = mutation_windows
        self._quotas: Mapping[QuotaEntity, Mapping[str, float]] = {}
        self._limits: dict[tuple[str, str | None], ClientLimits | None] = {}
        self._id_characters = 0
        self._rates: dict[tuple[str, UsageKey], Rate] = {}
        self._buckets: dict[UsageKey, TokenBucket] = {}
        self._connections: dict[str, Rate] = {}

    def load(self, quotas: Mapping[QuotaEntity, Mapping[str, float]]) -> None:
        """Set the quotas. The use by clients before that still counts."""
        self._quotas = quotas
        self._limits = {}

    def limits(self, principal: str, client_id: str | None) -> ClientLimits | None:
        """Return the limits of one client; ``None`` if it has no quota."""
        key = (principal, client_id)
        try:
            return self._limits[key]
        except KeyError:
            found = self._limits[key] = self._look_up(principal.partition(":")[2], client_id or "")
            return found

    def admits(self, host: str) -> bool:
        """Whether this address may connect now. A connection that is refused does not count as use of the quota."""
        bound = self._quotas.get(QuotaEntity(ip=host), {}).get(CONNECTION_CREATION_RATE)
        if bound is None:
            bound = self._quotas.get(_EVERY_ADDRESS, {}).get(CONNECTION_CREATION_RATE)
        if bound is None:
            return True
        if host not in self._connections and len(self._connections) >= CLIENTS_MAX:
            self._connections.clear()
        rate = self._connections.setdefault(host, Rate(self._windows))
        now_ms = self._clock.monotonic_ms()
        rate.record(1, now_ms)
        if rate.throttle_ms(bound, now_ms):
            rate.record(-1, now_ms)
            return False
        return True

    def _look_up(self, user: str, client_id: str) -> ClientLimits | None:
        if len(self._limits) >= CLIENTS_MAX or self._id_characters >= ID_CHARACTERS_MAX:
            self._limits = {}
            self._rates = {key: rate for key, rate in self._rates.items() if key[1].client_id is None}
            self._buckets = {key: bucket for key, bucket in self._buckets.items() if key.client_id is None}
            self._id_characters = 0
        self._id_characters += len(client_id)
        limits = ClientLimits(
            self._clock,
            self._throttled,
            produced=self._limited(PRODUCER_BYTE_RATE, user, client_id),
            fetched=self._limited(CONSUMER_BYTE_RATE, user, client_id),
            worked=self._limited(REQUEST_PERCENTAGE, user, client_id),
            mutated=self._limited_mutations(user, client_id),
            windows=self._windows,
        )
        return limits if limits.are_any else None

    def _limited(self, name: str, user: str, client_id: str) -> _LimitedRate | None:
        limit = limit_for(self._quotas, name, user, client_id)
        if limit is None:
            return None
        rate = self._rates.setdefault((name, limit.key), Rate(self._windows))
        return _LimitedRate(rate, limit.bound)

    def _limited_mutations(self, user: str, client_id: str) -> _LimitedMutations | None:
        limit = limit_for(self._quotas, CONTROLLER_MUTATION_RATE, user, client_id)
        if limit is None:
            return None
        bucket = self._buckets.setdefault(limit.key, TokenBucket(self._mutation_windows))
        return _LimitedMutations(bucket, limit.bound)


class _LimitedRate(NamedTuple):
    rate: Rate
    bound: float

    def used(self, amount: float, now_ms: float) -> int:
        """Count the amount. Returns the throttle time in ms."""
        self.rate.record(amount, now_ms)
        return self.rate.throttle_ms(self.bound, now_ms)


class _LimitedMutations(NamedTuple):
    bucket: TokenBucket
    bound: float


class ClientLimits:
    """The quotas of one client. Its methods count the use, and return the throttle time in ms."""

    __slots__ = ("_clock", "_fetched", "_mutated", "_produced", "_throttled", "_windows", "_worked")

    def __init__(
        self,
        clock: Clock,
        throttled: Counter,
        *,
        produced: _LimitedRate | None,
        fetched: _LimitedRate | None,
        worked: _LimitedRate | None,
        mutated: _LimitedMutations | None,
        windows: Windows,
    ) -> None:
        self._clock = clock
        self._throttled = throttled
        self._produced = produced
        self._fetched = fetched
        self._worked = worked
        self._mutated = mutated
        self._windows = windows

    @property
    def are_any(self) -> bool:
        return any(one is not None for one in (self._produced, self._fetched, self._worked, self._mutated))

    def muted(self) -> None:
        self._throttled.value += 1

    def produced(self, size_bytes: int) -> int:
        return 0 if self._produced is None else self._produced.used(size_bytes, self._clock.monotonic_ms())

    def fetched(self, size_bytes: int) -> int:
        return 0 if self._fetched is None else self._fetched.used(size_bytes, self._clock.monotonic_ms())

    @property
    def fetch_bytes_max(self) -> int | None:
        """The maximum size of one Fetch response: a larger one would mute the client even if it had used nothing."""
        if self._fetched is None:
            return None
        return max(1, int(self._fetched.bound * self._windows.full_ms / 1000))

    def worked(self, took_ms: float) -> None:
        """Count the time for which a request occupied the event loop."""
        if self._worked is not None:
            # The unit is percent of a second, like that of the quota.
            self._worked.rate.record(took_ms / 10, self._clock.monotonic_ms())

    def time_throttle_ms(self) -> int:
        """Return the throttle time for the used time of the event loop; as in Kafka, at most one window."""
        if self._worked is None:
            return 0
        throttle_ms = self._worked.rate.throttle_ms(self._worked.bound, self._clock.monotonic_ms())
        return min(throttle_ms, self._windows.size_ms)

    def mutations_throttle_ms(self) -> int:
        """Return the throttle time for changes of topics; while it is above 0, further changes are refused."""
        if self._mutated is None:
            return 0
        return self._mutated.bucket.throttle_ms(self._mutated.bound, self._clock.monotonic_ms())

    def mutated(self, partitions: int) -> None:
        """Count partitions that are created or deleted."""
        if self._mutated is not None:
            self._mutated.bucket.take(partitions, self._mutated.bound, self._clock.monotonic_ms())
