"""What each client has used of its quotas, and for how long that mutes it.

The law (KIP-219): a client that is over a quota is answered at once, with ``throttle_time_ms``, and then no request of
its connection is looked at until that time is over. It is the client's connection alone that waits.

A quota is used up by all clients that it holds for together: those of a user, those of a client id. Bytes of Produce
count when the request arrives, bytes of Fetch when it is answered; other than in Kafka the records of a Fetch that is
over the quota are sent, and not left out. Time counts as far as decoding and the handler keep the event loop at once;
the next request is the first that is muted for it.
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

# With more, what client ids have used is forgotten: a client can have as many ids as it likes, and what one has used
# says nothing of the next. What users have used stays.
CLIENTS_MAX: Final = 10_000
# The same for the characters of all their ids together, each of which may have 32 KB.
ID_CHARACTERS_MAX: Final = 4_000_000
_EVERY_ADDRESS: Final = QuotaEntity(ip=Quoted.DEFAULT)


class ClientQuotas:
    """The quotas that one broker holds its clients to. There is none of it in a cluster without quotas."""

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
        """Set the quotas. What clients have used before counts."""
        self._quotas = quotas
        self._limits = {}

    def limits(self, principal: str, client_id: str | None) -> ClientLimits | None:
        """The quotas of one client; ``None`` if it has none."""
        key = (principal, client_id)
        try:
            return self._limits[key]
        except KeyError:
            found = self._limits[key] = self._look_up(principal.partition(":")[2], client_id or "")
            return found

    def admits(self, host: str) -> bool:
        """Whether this address may connect now. A connection that is not admitted does not count."""
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
    """The quotas of one client. Its methods count what was used, and return the throttle time in ms."""

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
        """The most bytes of one Fetch answer: with more, the client would be muted even if it used nothing before."""
        if self._fetched is None:
            return None
        return max(1, int(self._fetched.bound * self._windows.full_ms / 1000))

    def worked(self, took_ms: float) -> None:
        """A request kept the event loop for this long."""
        if self._worked is not None:
            # In percent of a second: what a quota allows for each second.
            self._worked.rate.record(took_ms / 10, self._clock.monotonic_ms())

    def time_throttle_ms(self) -> int:
        """The throttle time for the event loop's time that was used; as in Kafka, at most one window."""
        if self._worked is None:
            return 0
        throttle_ms = self._worked.rate.throttle_ms(self._worked.bound, self._clock.monotonic_ms())
        return min(throttle_ms, self._windows.size_ms)

    def mutations_throttle_ms(self) -> int:
        """The throttle time of changes of topics; while it is above 0, further changes are refused."""
        if self._mutated is None:
            return 0
        return self._mutated.bucket.throttle_ms(self._mutated.bound, self._clock.monotonic_ms())

    def mutated(self, partitions: int) -> None:
        """So many partitions are created or deleted."""
        if self._mutated is not None:
            self._mutated.bucket.take(partitions, self._mutated.bound, self._clock.monotonic_ms())
