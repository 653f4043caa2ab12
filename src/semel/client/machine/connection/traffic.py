"""The metrics of a client's connections, under Kafka's names. Totals count from when the client was made."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from semel.types import Buffer
from semel.wire.apis import ApiKey

# Brokers delay these responses on purpose, until there is something to return, so their latency says nothing.
_WAIT_ON_PURPOSE: Final = frozenset({ApiKey.FETCH, ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP})


class Traffic:
    __slots__ = (
        "_answers",
        "_closed",
        "_connected",
        "_incoming_bytes",
        "_latencies",
        "_latency_max_ms",
        "_latency_sum_ms",
        "_outgoing_bytes",
        "_requests",
    )

    def __init__(self) -> None:
        self._connected = self._closed = 0
        self._requests = self._answers = 0
        self._outgoing_bytes = self._incoming_bytes = 0
        self._latencies = 0
        self._latency_sum_ms = self._latency_max_ms = 0.0

    def connecting(self) -> None:
        self._connected += 1

    def disconnected(self) -> None:
        self._closed += 1

    def sent(self, parts: Iterable[Buffer]) -> None:
        self._requests += 1
        self._outgoing_bytes += sum(map(len, parts))

    def answered(self, frame: Buffer, api_key: ApiKey, latency_ms: float) -> None:
        self._answers += 1
        self._incoming_bytes += len(frame)
        if api_key not in _WAIT_ON_PURPOSE:
            self._latencies += 1
            self._latency_sum_ms += latency_ms
            self._latency_max_ms = max(self._latency_max_ms, latency_ms)

    def metrics(self, *, in_flight: int) -> dict[str, float]:
        return {
            "connection-count": self._connected - self._closed,
            "connection-creation-total": self._connected,
            "connection-close-total": self._closed,
            "request-total": self._requests,
            "response-total": self._answers,
            "requests-in-flight": in_flight,
            "outgoing-byte-total": self._outgoing_bytes,
            "incoming-byte-total": self._incoming_bytes,
            "request-latency-avg": self._latency_sum_ms / self._latencies if self._latencies else 0.0,
            "request-latency-max": self._latency_max_ms,
        }
