"""Backoff between retries. Every part of a client that sends a request more than once has a ``Retry``."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random
from typing import Final

from semel.client.config.common import ClientConfig
from semel.clock import NEVER

_JITTER: Final = 0.2
_DOUBLINGS_MAX: Final = 20
_MARKERS_FIRST_MS: Final = 2
_MARKERS_MAX_MS: Final = 20


@dataclass(frozen=True, slots=True)
class Backoff:
    """The pause between two attempts: ``first_ms``, twice as long after every failure, ``max_ms`` at most.

    Jitter makes it up to a fifth longer or shorter, so that clients that failed together do not return together.
    """

    first_ms: int
    max_ms: int
    random: Random

    @classmethod
    def of(cls, config: ClientConfig, random: Random) -> Backoff:
        """Return the backoff that retry.backoff.ms and retry.backoff.max.ms set."""
        return cls(config.retry_backoff_ms, config.retry_backoff_max_ms, random)

    def delay_ms(self, failures: int) -> int:
        """Return the pause after this many failures in a row; 0 before the first failure."""
        if failures <= 0:
            return 0
        # Kafka's rule: if the first pause is longer than the maximum, the maximum is used.
        pause = min(self.first_ms << min(failures - 1, _DOUBLINGS_MAX), self.max_ms)
        return round(min(pause * self.random.uniform(1 - _JITTER, 1 + _JITTER), self.max_ms))


@dataclass(frozen=True, slots=True)
class Retry:
    """The attempts at one thing: how many failed in a row, and when the next one may be made.

    It is immutable: each outcome returns the next ``Retry``.
    """

    backoff: Backoff
    failures: int = 0
    due_ms: float = 0.0

    @classmethod
    def of(cls, config: ClientConfig, random: Random) -> Retry:
        """Return the state before the first attempt."""
        return cls(Backoff.of(config, random))

    def is_due(self, now_ms: float) -> bool:
        return now_ms >= self.due_ms

    def next_deadline_ms(self, now_ms: float) -> float:
        """Return when the pause ends; ``NEVER`` if it is over, because then only an event is waited for."""
        return self.due_ms if self.due_ms > now_ms else NEVER

    def failed(self, now_ms: float, backoff: Backoff | None = None) -> Retry:
        """Return the state after one more failure. ``backoff`` replaces the usual one for this failure."""
        failures = self.failures + 1
        return replace(self, failures=failures, due_ms=now_ms + (backoff or self.backoff).delay_ms(failures))

    def succeeded(self) -> Retry:
        """Return the state without any failures."""
        return Retry(self.backoff)

    def at(self, due_ms: float) -> Retry:
        """Return the same failures with another time for the next attempt."""
        return replace(self, due_ms=due_ms)


def markers_backoff(config: ClientConfig, random: Random) -> Backoff:
    """Return the short backoff after CONCURRENT_TRANSACTIONS: the last transaction's markers will soon be written."""
    longest_ms = config.retry_backoff_ms
    return Backoff(min(_MARKERS_FIRST_MS, longest_ms), min(_MARKERS_MAX_MS, longest_ms), random)
