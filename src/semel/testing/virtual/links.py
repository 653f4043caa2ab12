"""The links between the hosts of a virtual network: latency, loss of connections, and partitions.

A link is between two hosts, without direction. Its properties decide what happens to the connections over it. While
there is a partition, or a host is paused, nothing is delivered between the hosts. A partition may have one direction
only.
"""

from __future__ import annotations

import asyncio
import contextvars
from dataclasses import dataclass
from random import Random

from semel.testing.virtual.latency import Latency, uniform_ms
from semel.testing.virtual.trace import Trace


@dataclass(frozen=True, slots=True)
class Link:
    """The properties of a link. Probabilities are per write: TCP never loses a single message, only connections."""

    latency: Latency = uniform_ms(0.05, 1.0)  # noqa: RUF009 - an immutable value
    reset_probability: float = 0.0
    """The probability that the connection is reset soon after the write; both ends notice it."""
    stall_probability: float = 0.0
    """The probability that nothing arrives from this write on; the sender notices only when it gives up."""
    refuses: bool = False
    """New connections are refused."""


class Links:
    def __init__(
        self, loop: asyncio.AbstractEventLoop, random: Random, *, link: Link, give_up_ms: float, trace: Trace | None
    ) -> None:
        self.loop = loop
        self.random = random
        self.give_up_ms = give_up_ms
        # The network belongs to no process: bytes in flight are delivered even if their sender is killed or paused.
        self.context = contextvars.Context()
        self.default_link = link
        self.by_pair: dict[frozenset[str], Link] = {}
        self.partitions: set[frozenset[str]] = set()
        self.one_way: set[tuple[str, str]] = set()
        self.paused: set[str] = set()
        self._trace = trace

    def link(self, one: str, other: str) -> Link:
        return self.by_pair.get(frozenset((one, other)), self.default_link) if self.by_pair else self.default_link

    def delay_s(self, one: str, other: str) -> float:
        return self.link(one, other).latency(self.random) / 1000

    def blocked(self, one: str, other: str) -> bool:
        """Whether a partition or a pause now blocks all bytes from the one host to the other."""
        if self.paused and (one in self.paused or other in self.paused):
            return True
        if self.one_way and (one, other) in self.one_way:
            return True
        return bool(self.partitions) and frozenset((one, other)) in self.partitions

    def record(self, text: str) -> None:
        if self._trace is not None:
            self._trace.record(text)
